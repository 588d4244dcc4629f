//! Which collections there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ahash::{AHashMap, RandomState};
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

use super::collection::LOCK_TIMEOUT;
use super::namespace::Names;
use super::{Collection, Namespace, Options, ReadPoint, Rules, SizeLimit, View};
use crate::aside::uncut;
use crate::clock::{self, Clock};
use crate::error::{Code, Error};
use crate::value::Millis;

/// Finds collections by name. Looking one up takes no lock but the map's shard; creating, dropping and renaming exclude
/// each other.
pub struct Catalog {
    collections: DashMap<Namespace, Arc<Collection>, RandomState>,
    /// Held by whoever adds, drops or renames. See the order of locks in [`super`].
    changing: Mutex<Databases>,
    /// The server's, which may be set back.
    clock: Option<Clock>,
    /// Ended documents freed by anybody: the reaper, a change of rules, or a write that took their place.
    freed: Arc<AtomicU64>,
    limit: Option<SizeLimit>,
}

/// The names of all databases by their lower case, once somebody has asked for them. Forgotten when a collection goes, with which
/// its database may go: to make a collection is then not to look at all of them, however many there are.
type Databases = Option<AHashMap<String, String>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateError {
    Exists,
    OtherCase(OtherCase),
}

/// A write to this collection failed half-way. Nothing can be done with it but to drop it.
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
    /// Of one of the two, which has this UUID.
    IndexBuild(Uuid),
    OtherCase(OtherCase),
    /// One of the two, which can only be dropped.
    Damaged(Damaged),
}

/// There is a database whose name differs from the wanted one in nothing but upper and lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherCase {
    pub there: String,
    pub wanted: String,
}

/// Collections larger than this are freed on a thread of their own.
const LARGE: u64 = 50_000;
/// A sweep gives way to waiting readers this often.
const SWEEP_SLICE: Duration = Duration::from_millis(1);

// === impl Catalog ===

impl Catalog {
    pub fn new() -> Self {
        Self {
            collections: DashMap::with_hasher(RandomState::new()),
            changing: Mutex::new(None),
            clock: None,
            freed: Arc::default(),
            limit: None,
        }
    }

    /// For a server whose clock may be set back.
    pub fn with_clock(clock: Clock) -> Self {
        Self {
            clock: Some(clock),
            ..Self::new()
        }
    }

    /// For a server that takes no larger documents.
    #[must_use]
    pub fn with_limit(self, limit: Option<SizeLimit>) -> Self {
        Self { limit, ..self }
    }

    /// The collection of that name. One that a failed write has damaged is refused.
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

    /// The collection, made first if there is none. Says whether it was made.
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
        let made = self.create(name, Options::default(), Millis(0), |_| ());
        Ok((made.unwrap(), true))
    }

    /// Makes a collection; `prepare` sets it up before anybody can find it.
    pub fn create(
        &self,
        namespace: Namespace,
        options: Options,
        now: Millis,
        prepare: impl FnOnce(&mut Rules<'_>),
    ) -> Result<Arc<Collection>, CreateError> {
        let mut alone = self.alone();
        self.check_case(namespace.database(), &mut alone)
            .map_err(CreateError::OtherCase)?;
        match self.collections.entry(namespace) {
            Entry::Occupied(_) => Err(CreateError::Exists),
            Entry::Vacant(entry) => {
                let made = self.made(entry.key(), options);
                made.set_up(now, prepare);
                entry.insert(Arc::clone(&made));
                Ok(made)
            }
        }
    }

    /// Who adds, drops or renames does so alone. Whoever has the turn may be waiting for a collection that somebody
    /// computes on.
    fn alone(&self) -> MutexGuard<'_, Databases> {
        self.changing
            .try_lock_for(LOCK_TIMEOUT)
            .unwrap_or_else(|| uncut(|| self.changing.lock()))
    }

    fn made(&self, namespace: &Namespace, options: Options) -> Arc<Collection> {
        let made = Collection::new(namespace.clone(), options).with_limit(self.limit);
        Arc::new(made.with(self.clock.clone(), Arc::clone(&self.freed)))
    }

    /// Takes a collection away, or only the one with that UUID. Whoever still holds it finds it dropped.
    pub fn drop_collection(
        &self,
        database: &str,
        collection: &str,
        uuid: Option<Uuid>,
    ) -> Option<Arc<Collection>> {
        let mut alone = self.alone();
        let name = Namespace::new(database, collection);
        let meant =
            |_: &Namespace, there: &Arc<Collection>| uuid.is_none_or(|uuid| uuid == there.uuid());
        let (_, dropped) = self.collections.remove_if(&name, meant)?;
        *alone = None;
        retire(&dropped);
        Some(dropped)
    }

    /// Takes all collections of a database away; says how many.
    pub fn drop_database(&self, database: &str) -> usize {
        let mut alone = self.alone();
        *alone = None;
        let names: Vec<Namespace> = self
            .in_database(database)
            .iter()
            .map(|c| c.namespace())
            .collect();
        for name in &names {
            if let Some((_, dropped)) = self.collections.remove(name) {
                retire(&dropped);
            }
        }
        names.len()
    }

    /// Gives a collection another name, possibly in another database. Documents keep their `_ts`.
    pub fn rename(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
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
        self.place(alone, &moved, to, |target| match target {
            Some(_) if !drop_target => Err(RenameError::TargetExists),
            _ => Ok(()),
        })
    }

    /// The same with this very collection, whatever it is called by now, if `allows` has nothing against what the collection of
    /// the new name looks like (`None`: there is none), which goes then. Nobody can change how that one is set up, or make
    /// one, between the question and the deed.
    pub fn replace<E: From<RenameError>>(
        &self,
        moved: &Arc<Collection>,
        to: &Namespace,
        allows: impl FnOnce(Option<&View<'_>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let alone = self.alone();
        match self.found(&moved.namespace()) {
            Some(there) if Arc::ptr_eq(&there, moved) => self.place(alone, moved, to, allows),
            _ => Err(RenameError::NoSuchSource.into()),
        }
    }

    fn found(&self, name: &Namespace) -> Option<Arc<Collection>> {
        self.collections.get(name).map(|there| Arc::clone(&there))
    }

    fn place<E: From<RenameError>>(
        &self,
        mut alone: MutexGuard<'_, Databases>,
        moved: &Arc<Collection>,
        to: &Namespace,
        allows: impl FnOnce(Option<&View<'_>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let from = moved.namespace();
        if from == *to {
            return Ok(()); // it has its own place
        }
        let replaced = self.found(to);
        // One that is damaged must not be taken for another, and none must go for it.
        for (of, name) in [(Some(moved), &from), (replaced.as_ref(), to)] {
            if of.is_some_and(|of| of.is_damaged()) {
                return Err(RenameError::Damaged(Damaged(name.clone())).into());
            }
        }
        let take_place = || {
            self.collections.remove(&from);
            // The only place where somebody waits for a second collection: one that has a name of its own till now.
            moved.rename(to.clone());
            self.collections.insert(to.clone(), Arc::clone(moved));
        };
        match replaced {
            Some(replaced) => {
                let size = replaced.shared().contents().totals().count;
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

    /// Whether a collection may be made in the database. On a disk that minds no case the two would be one.
    fn check_case(&self, database: &str, known: &mut Databases) -> Result<(), OtherCase> {
        let known = known.get_or_insert_with(|| {
            let names = self.collections.iter().map(|entry| {
                let name = entry.key().database();
                (name.to_ascii_lowercase(), name.to_owned())
            });
            names.collect()
        });
        // Whoever asks makes a collection there, or finds that it is there already.
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

    /// All collections, sorted by name.
    pub fn collections(&self) -> Vec<Arc<Collection>> {
        self.sorted(|_| true)
    }

    /// The collections of one database, sorted by name.
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

    /// The databases that have a collection, sorted.
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

    /// All collections but one that is just being given another name. Without order or names: this is asked several times a
    /// second, and there may be thousands. No lock of the map is held while a collection's is taken.
    fn each(&self) -> Vec<Arc<Collection>> {
        self.collections
            .iter()
            .map(|e| Arc::clone(e.value()))
            .collect()
    }

    /// All collections without exception.
    fn every(&self) -> Vec<Arc<Collection>> {
        let _alone = self.alone();
        self.each()
    }

    /// Whether there is a collection in which something can ever end (or memory waits to be given back).
    pub(super) fn can_expire(&self) -> bool {
        self.each().iter().any(|collection| collection.can_expire())
    }

    /// The collections in which there is something to free.
    pub(super) fn due(&self, now: Millis) -> Vec<Arc<Collection>> {
        let mut all = self.each();
        all.retain(|collection| collection.wants_reaping(now));
        all
    }

    /// Frees everything that has ended by `now`, in every collection.
    pub(super) fn sweep(&self, now: Millis) {
        for collection in self.every() {
            while collection.reap(now, clock::monotonic() + SWEEP_SLICE).more {}
        }
    }

    /// The clock is going back: takes every collection along that has not followed by itself.
    pub(super) fn go_back(&self) {
        for collection in self.every() {
            while !collection.follow_back(clock::monotonic() + SWEEP_SLICE) {}
        }
    }

    /// How many ended documents have been freed since the start.
    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

/// Marks a collection dropped and frees what it held.
fn retire(collection: &Arc<Collection>) {
    let size = collection.shared().contents().totals().count;
    free(collection.retire(), size);
}

/// Frees what nobody can reach any more. With millions of entries that takes a while: nobody should wait for it.
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
mod tests {
    use super::*;
    use crate::ttl::DefaultTtl;
    use crate::value::DocBuf;
    use bson::doc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_sweep_misses_no_collection_that_is_being_given_another_name() {
        let catalog = Catalog::new();
        let names = [Namespace::new("db", "a"), Namespace::new("db", "b")];
        let ends = |rules: &mut Rules<'_>| rules.set_default_ttl(DefaultTtl::Seconds(1), None);
        let made = catalog.create(names[0].clone(), Options::default(), Millis(0), ends);
        let made = made.unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for at in (0..2).cycle() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    catalog.rename(&names[at], &names[1 - at], false).unwrap();
                }
            });
            for n in 0..3_000_i64 {
                let document = doc! {"_id": n}.to_vec().unwrap();
                let added = made.write(Millis(n * 1_000), |w| w.insert(&document));
                added.unwrap().unwrap();
                catalog.sweep(Millis(n * 1_000 + 1_000));
                if catalog.freed() != n.unsigned_abs() + 1 {
                    over.store(true, Ordering::Relaxed);
                    panic!("the {n}th document was passed over");
                }
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    fn add(catalog: &Catalog, name: &str, ids: std::ops::Range<i32>) -> Arc<Collection> {
        let (made, _) = catalog.get_or_create("db", name).unwrap();
        for id in ids {
            let document = doc! {"_id": id}.to_vec().unwrap();
            made.write(Millis(0), |w| w.insert(&document))
                .unwrap()
                .unwrap();
        }
        made
    }

    #[test]
    fn a_collection_whose_ids_are_being_ordered_can_be_renamed_and_replaced() {
        let catalog = Catalog::new();
        let [from, to] = ["from", "to"].map(|name| Namespace::new("db", name));
        let builds = ["from", "to"].map(|name| {
            let made = add(&catalog, name, 0..300);
            let mut build = made.begin_id_order(Millis(0)).unwrap();
            assert!(!build.step());
            build
        });
        catalog.rename(&from, &to, true).unwrap();
        for mut build in builds {
            while !build.step() {}
        }
        let there = catalog.get("db", "to").unwrap().unwrap();
        there.read(crate::storage::ReadPoint::at(Millis(0)), |view| {
            let ids = view.way(crate::storage::index::ID_INDEX).unwrap();
            assert_eq!((ids.ready, ids.len()), (true, 300));
        });
        // An index that a client is building is in the way.
        let spec = crate::storage::index::IndexSpec::new("a", DocBuf::from(doc! {"a": 1}));
        there.write(Millis(0), |w| w.begin_index(spec)).unwrap();
        let refused = catalog.rename(&to, &from, false);
        assert_eq!(refused, Err(RenameError::IndexBuild(there.uuid())));
    }

    #[test]
    fn a_damaged_collection_neither_takes_a_place_nor_gives_way() {
        let catalog = Catalog::new();
        let [good, bad] = ["good", "bad"].map(|name| Namespace::new("db", name));
        add(&catalog, "good", 0..3);
        let damaged = add(&catalog, "bad", 0..3);
        damaged.panic_half_way();
        let document = doc! {"_id": 9}.to_vec().unwrap();
        let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = damaged.write(Millis(0), |w| w.insert(&document));
        }));
        assert!(written.is_err());
        let refused = Err(RenameError::Damaged(Damaged(bad.clone())));
        for drop_target in [true, false] {
            assert_eq!(catalog.rename(&bad, &good, drop_target), refused);
            assert_eq!(catalog.rename(&good, &bad, drop_target), refused);
        }
        let there = catalog.get("db", "good").unwrap().unwrap();
        assert_eq!(there.shared().contents().totals().count, 3);
        // Dropped, it is out of the way.
        catalog.drop_collection("db", "bad", None).unwrap();
        catalog.rename(&good, &bad, false).unwrap();
    }
}
