//! The catalog: which collections exist.

mod at;

use std::sync::Arc;
use std::time::Duration;

use ahash::{AHashMap, RandomState};
use dashmap::DashMap;
use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

pub use at::Unreadable;

use super::collection::LOCK_TIMEOUT;
use super::namespace::Names;
use super::{
    Collection, CollectionOptions, LogOp, LogSubject, LogicalClock, Namespace, ReadPoint, Rules,
    Shared, SizeLimit, View,
};
use crate::clock::{self, Clock};
use crate::error::{Code, Error};
use crate::interrupt::run_blocking;
use crate::value::Millis;

/// Finds collections by name. A lookup locks only a shard of the map. Creating, dropping and renaming exclude each other.
pub struct Catalog {
    collections: DashMap<Namespace, Arc<Collection>, RandomState>,
    /// Those that open transactions have created. Several transactions may create one of the same name: the first commit wins.
    uncommitted: Mutex<Vec<Arc<Collection>>>,
    /// Held while a collection is created, dropped or renamed. See the order of locks in [`super`].
    changing: Mutex<Databases>,
    /// The clock of the server, which may be set back.
    clock: Option<Clock>,
    shared: Arc<Shared>,
    limit: Option<SizeLimit>,
}

/// The names of all databases by their lower-case form. Computed when first needed and discarded when a collection is
/// dropped, since its database may disappear with it. Thanks to this, creating a collection need not visit all others.
pub(in crate::storage) type Databases = Option<AHashMap<String, String>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateError {
    Exists,
    OtherCase(OtherCase),
}

/// The error that a write to this collection failed half-way. The collection can only be dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged(pub Namespace);

impl From<Damaged> for Error {
    fn from(Damaged(name): Damaged) -> Self {
        Self::new(
            Code::InternalError,
            format!(
                "the collection {name} is closed because a write to it failed half-way: drop it, or restart the server"
            ),
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenameError {
    NoSuchSource,
    TargetExists,
    /// An index is being built on one of the two collections: the one with this UUID.
    IndexBuild(Uuid),
    OtherCase(OtherCase),
    /// One of the two collections is damaged and can only be dropped.
    Damaged(Damaged),
}

/// The error that a database exists whose name differs from the wanted one only in case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherCase {
    pub there: String,
    pub wanted: String,
}

/// Collections with more entries are freed on a thread of their own.
const LARGE: u64 = 50_000;
/// How long a sweep holds a collection's lock before it lets waiting readers in.
const SWEEP_SLICE: Duration = Duration::from_millis(1);

// === impl Catalog ===

impl Catalog {
    pub fn new() -> Self {
        Self {
            collections: DashMap::with_hasher(RandomState::new()),
            uncommitted: Mutex::default(),
            changing: Mutex::new(None),
            clock: None,
            shared: Arc::default(),
            limit: None,
        }
    }

    /// Creates the catalog of a server whose clock may be set back.
    pub fn with_clock(clock: Clock) -> Self {
        Self {
            clock: Some(clock),
            ..Self::new()
        }
    }

    /// Sets the largest document that the server accepts.
    #[must_use]
    pub fn with_limit(self, limit: Option<SizeLimit>) -> Self {
        Self { limit, ..self }
    }

    /// Returns what all collections share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the collection of that name. Refuses one that a failed write has damaged.
    #[inline]
    pub fn get(
        &self,
        database: &str,
        collection: &str,
    ) -> Result<Option<Arc<Collection>>, Damaged> {
        let Some(entry) = self.collections.get(&(database, collection) as &dyn Names) else {
            return Ok(None);
        };
        match entry.is_damaged() {
            false => Ok(Some(Arc::clone(&entry))),
            true => Err(Damaged(entry.key().clone())),
        }
    }

    /// Returns the collection, and whether this call created it.
    #[cfg(test)]
    pub fn get_or_create(
        &self,
        database: &str,
        collection: &str,
    ) -> Result<(Arc<Collection>, bool), Damaged> {
        if let Some(found) = self.get(database, collection)? {
            return Ok((found, false));
        }
        let name = Namespace::new(database, collection);
        let made = self.create(name, CollectionOptions::default(), Millis(0), |_| ());
        Ok((made.unwrap(), true))
    }

    /// Creates a collection. `prepare` sets it up before any other thread can find it.
    pub fn create(
        &self,
        namespace: Namespace,
        options: CollectionOptions,
        now: Millis,
        prepare: impl FnOnce(&mut Rules<'_>),
    ) -> Result<Arc<Collection>, CreateError> {
        self.create_at(namespace, options, ReadPoint::at(now), prepare)
    }

    /// Acquires the lock for changes of the catalog. The thread that holds it may itself be waiting for a collection that
    /// is locked by a long computation.
    pub(super) fn alone(&self) -> MutexGuard<'_, Databases> {
        self.changing
            .try_lock_for(LOCK_TIMEOUT)
            .unwrap_or_else(|| run_blocking(|| self.changing.lock()))
    }

    fn made(&self, namespace: &Namespace, options: CollectionOptions) -> Arc<Collection> {
        let made = Collection::new(namespace.clone(), options).with_limit(self.limit);
        let made = made.with(self.clock.clone(), Arc::clone(&self.shared));
        Arc::new_cyclic(|me| made.known_as(me))
    }

    /// Drops a collection; if `uuid` is given, only the collection with that UUID. Callers that still hold the collection
    /// find it dropped.
    pub fn drop_collection(
        &self,
        database: &str,
        collection: &str,
        uuid: Option<Uuid>,
        now: Millis,
    ) -> Option<Arc<Collection>> {
        let mut alone = self.alone();
        let name = Namespace::new(database, collection);
        let dropped = self.found(&name)?;
        if uuid.is_some_and(|uuid| uuid != dropped.uuid()) {
            return None;
        }
        self.remove(&name, &dropped, now);
        *alone = None;
        Some(dropped)
    }

    /// Drops all collections of a database and returns how many there were.
    pub fn drop_database(&self, database: &str, now: Millis) -> usize {
        let mut alone = self.alone();
        *alone = None;
        let names: Vec<Namespace> = self
            .in_database(database)
            .iter()
            .map(|c| c.namespace())
            .collect();
        for name in &names {
            if let Some(dropped) = self.found(name) {
                self.remove(name, &dropped, now);
            }
        }
        if !names.is_empty() {
            let subject = LogSubject::database(database);
            self.shared.record(now, &subject, || LogOp::DropDatabase);
        }
        names.len()
    }

    /// Removes a collection and its documents. Call it under `changing`.
    fn remove(&self, name: &Namespace, dropped: &Arc<Collection>, now: Millis) {
        let (size, bytes) = dropped.weight();
        let snapshots = &self.shared.snapshots;
        let kept = snapshots.note_former(name, dropped, self.next_time(), bytes);
        self.collections.remove(name);
        free(dropped.retire(now, kept), size);
    }

    /// Renames a collection, possibly into another database. Its documents keep their `_ts`.
    pub fn rename(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
        now: Millis,
    ) -> Result<(), RenameError> {
        let alone = self.alone();
        let moved = self.found(from).ok_or(RenameError::NoSuchSource)?;
        let replaced = self.found(to).filter(|_| drop_target);
        for of in [Some(&moved), replaced.as_ref()].into_iter().flatten() {
            let state = of.shared();
            if View::new(&state, ReadPoint::at(Millis(i64::MIN)))
                .indexes()
                .any(|index| !index.ready)
            {
                return Err(RenameError::IndexBuild(of.uuid()));
            }
        }
        self.place(alone, &moved, to, now, |target| match target {
            Some(_) if !drop_target => Err(RenameError::TargetExists),
            _ => Ok(()),
        })
    }

    /// Renames exactly this collection, whatever its present name, and replaces the collection that has the new name.
    /// `allows` sees the collection to be replaced (`None` if there is none) and may refuse. That collection cannot change
    /// its settings, nor can one be created, between this check and the rename.
    pub fn replace<E: From<RenameError>>(
        &self,
        moved: &Arc<Collection>,
        to: &Namespace,
        now: Millis,
        allows: impl FnOnce(Option<&View<'_>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let alone = self.alone();
        match self.found(&moved.namespace()) {
            Some(there) if Arc::ptr_eq(&there, moved) => self.place(alone, moved, to, now, allows),
            _ => Err(RenameError::NoSuchSource.into()),
        }
    }

    fn found(&self, name: &Namespace) -> Option<Arc<Collection>> {
        Some(Arc::clone(&*self.collections.get(name)?))
    }

    fn place<E: From<RenameError>>(
        &self,
        mut alone: MutexGuard<'_, Databases>,
        moved: &Arc<Collection>,
        to: &Namespace,
        now: Millis,
        allows: impl FnOnce(Option<&View<'_>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let from = moved.namespace();
        if from == *to {
            return Ok(()); // it has its own place
        }
        let replaced = self.found(to);
        // A damaged collection must not get another name, and no collection may be dropped for it.
        for (of, name) in [(Some(moved), &from), (replaced.as_ref(), to)] {
            if of.is_some_and(|of| of.is_damaged()) {
                return Err(RenameError::Damaged(Damaged(name.clone())).into());
            }
        }
        let replaced_uuid = replaced.as_ref().map(|replaced| replaced.uuid());
        let (size, bytes) = replaced
            .as_ref()
            .map_or((0, 0), |replaced| replaced.weight());
        let take_place = || {
            let (snapshots, time) = (&self.shared.snapshots, self.next_time());
            snapshots.note_former(&from, moved, time, 0);
            let kept = replaced
                .as_ref()
                .and_then(|replaced| snapshots.note_former(to, replaced, time, bytes));
            moved.set_named(time);
            self.collections.remove(&from);
            // The only place where a thread that holds one collection's lock waits for another's. Until now `moved` has a
            // name of its own.
            moved.rename(to.clone(), replaced_uuid, now);
            self.collections.insert(to.clone(), Arc::clone(moved));
            kept
        };
        match &replaced {
            Some(replaced) => {
                free(
                    replaced.give_way(|view| allows(Some(view)), take_place)?,
                    size,
                );
            }
            None => {
                allows(None)?;
                self.check_case(to.database(), &mut alone)
                    .map_err(RenameError::OtherCase)?;
                take_place();
            }
        }
        *alone = None;
        Ok(())
    }

    /// Checks whether a collection may be created in the database. On a file system that ignores case, two databases whose
    /// names differ only in case would be one.
    fn check_case(&self, database: &str, known: &mut Databases) -> Result<(), OtherCase> {
        let known = known.get_or_insert_with(|| {
            let names = self.collections.iter().map(|entry| {
                let name = entry.key().database();
                (name.to_ascii_lowercase(), name.to_owned())
            });
            names.collect()
        });
        // The caller creates a collection in this database, or finds that one exists already, so the name can be entered
        // now.
        let there = known
            .entry(database.to_ascii_lowercase())
            .or_insert_with(|| database.to_owned());
        if there != database {
            return Err(OtherCase {
                there: there.clone(),
                wanted: database.to_owned(),
            });
        }
        Ok(())
    }

    /// Returns all collections, sorted by name.
    pub fn collections(&self) -> Vec<Arc<Collection>> {
        self.sorted(|_| true)
    }

    /// Returns the collections of one database, sorted by name.
    pub fn in_database(&self, database: &str) -> Vec<Arc<Collection>> {
        self.sorted(|namespace| namespace.database() == database)
    }

    fn sorted(&self, wanted: impl Fn(&Namespace) -> bool) -> Vec<Arc<Collection>> {
        let mut all: Vec<_> = self
            .collections
            .iter()
            .filter(|entry| wanted(entry.key()))
            .map(|entry| (entry.key().clone(), Arc::clone(entry.value())))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.into_iter().map(|(_, collection)| collection).collect()
    }

    /// Returns the names of the databases that have a collection, sorted.
    pub fn databases(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .collections
            .iter()
            .map(|e| e.key().database().to_owned())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns all collections, except perhaps one that is just being renamed. They are not sorted and carry no names: the
    /// reaper calls this several times a second, and there may be thousands. No shard of the map is locked while the caller
    /// locks a collection.
    pub(super) fn each(&self) -> Vec<Arc<Collection>> {
        let mut all: Vec<_> = self
            .collections
            .iter()
            .map(|e| Arc::clone(e.value()))
            .collect();
        // The clock moves for those that will be committed, too.
        all.extend(self.uncommitted.lock().iter().cloned());
        all
    }

    /// Returns all collections without exception.
    fn every(&self) -> Vec<Arc<Collection>> {
        let _alone = self.alone();
        self.each()
    }

    /// Returns whether a document in any collection can ever expire, or memory can be given back.
    pub(super) fn can_expire(&self) -> bool {
        self.each().iter().any(|collection| collection.can_expire())
    }

    /// Returns the collections that the reaper has work in.
    pub(super) fn due(&self, now: Millis) -> Vec<Arc<Collection>> {
        let mut all = self.each();
        all.retain(|collection| collection.wants_reaping(now));
        all
    }

    /// Frees all documents of all collections that have expired by `now`.
    pub(super) fn sweep(&self, now: Millis) {
        for collection in self.every() {
            while collection.reap(now, clock::monotonic() + SWEEP_SLICE).more {}
        }
    }

    /// Makes every collection follow the clock back, unless it has done so already.
    pub(super) fn go_back(&self) {
        self.shared.snapshots.forget_former();
        for collection in self.every() {
            while !collection.follow_back(clock::monotonic() + SWEEP_SLICE) {}
        }
    }

    /// Returns the order of all writes.
    pub fn time(&self) -> &LogicalClock {
        &self.shared.time
    }

    /// Returns how many expired documents have been freed since the start.
    pub fn freed(&self) -> u64 {
        self.shared.freed()
    }
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

/// Frees contents that are no longer reachable. Millions of entries take a while to free, so a thread of its own does that.
pub fn free(contents: impl Send + 'static, entries: u64) {
    if entries > LARGE {
        let spawned = std::thread::Builder::new()
            .name("free".into())
            .spawn(move || drop(contents));
        if let Err(error) = spawned {
            tracing::debug!(%error, "no thread to free on; freed in place");
        }
    }
}

#[cfg(test)]
mod tests;
