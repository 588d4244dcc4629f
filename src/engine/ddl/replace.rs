//! Replacing a collection by another one that was filled separately, as `$out` does.

use std::sync::Arc;

use uuid::Uuid;

use super::Done;
use crate::clock::monotonic;
use crate::engine::STEP;
use crate::engine::describe::put_options;
use crate::error::{Code, Error, Result};
use crate::storage::{Catalog, Collection, CollectionOptions, Namespace, RenameError, Rules, View};
use crate::ttl::{DefaultTtl, TsIndex};
use crate::value::{DocBuf, Millis};

/// A change that replaces the collection `to`. The DefaultTTL of the replaced collection stays.
#[derive(Debug, Clone)]
pub struct ReplaceCollection {
    pub from: Namespace,
    /// If set, only the collection with this UUID is used.
    pub uuid: Option<Uuid>,
    pub to: Namespace,
    /// The setup that the replaced collection must have.
    pub expected: CollectionSetup,
}

/// The setup of a collection, without its DefaultTTL.
#[derive(Debug, Clone, Default)]
pub struct CollectionSetup {
    pub options: CollectionOptions,
    /// The indexes that are ready, sorted. `None` means that the collection does not exist: an existing one has at least the
    /// index on `_id`.
    indexes: Option<Vec<DocBuf>>,
}

/// The reason why the collection cannot be replaced now.
enum CannotReplace {
    /// The DefaultTTL of the replaced collection has changed. The new collection must take it over first.
    OtherDefault,
    Refused(Error),
}

/// Returns the DefaultTTL of a collection, with the index that shows it.
pub(in crate::engine) fn default_of(view: &View<'_>) -> (DefaultTtl, Option<TsIndex>) {
    (view.default_ttl(), view.ts_index().cloned())
}

/// Returns the error for a filled collection that no longer exists.
pub(in crate::engine) fn dropped() -> Error {
    Error::new(
        Code::NamespaceNotFound,
        "the collection that $out was filling was dropped",
    )
}

// === impl ReplaceCollection ===

impl ReplaceCollection {
    pub(super) fn run(self, catalog: &Catalog, now: Millis) -> Result<Done> {
        let found = catalog.get(self.from.database(), self.from.collection())?;
        let meant = |found: &Arc<Collection>| self.uuid.is_none_or(|uuid| uuid == found.uuid());
        let moved = found.filter(meant).ok_or_else(dropped)?;
        loop {
            match self.take_place(catalog, &moved, now) {
                Ok(()) => return Ok(Done::Renamed(self.from)),
                Err(CannotReplace::OtherDefault) => {}
                Err(CannotReplace::Refused(error)) => return Err(error),
            }
        }
    }

    fn take_place(
        &self,
        catalog: &Catalog,
        moved: &Arc<Collection>,
        now: Millis,
    ) -> Result<(), CannotReplace> {
        let default = self.take_default(catalog, moved, now);
        catalog.replace(moved, &self.to, now, |target| {
            self.expected
                .check_same(&CollectionSetup::of(target), &self.to)
                .map_err(CannotReplace::Refused)?;
            match target {
                Some(view) if default_of(view) != default => Err(CannotReplace::OtherDefault),
                _ => Ok(()),
            }
        })
    }

    /// Copies the DefaultTTL, which may have changed while the new collection was filled. Returns the DefaultTTL that both
    /// now have.
    fn take_default(
        &self,
        catalog: &Catalog,
        moved: &Collection,
        now: Millis,
    ) -> (DefaultTtl, Option<TsIndex>) {
        let target = catalog
            .get(self.to.database(), self.to.collection())
            .unwrap_or_default();
        let current = moved.read_present(now, default_of);
        let wanted = target.map_or_else(
            || current.clone(),
            |target| target.read_present(now, default_of),
        );
        if current != wanted {
            let mut change = |rules: &mut Rules<'_>| {
                rules.set_default_ttl(wanted.0, wanted.1.clone());
            };
            while let Ok(Err(again)) = moved.drain_then(now, monotonic() + STEP, change) {
                change = again;
            }
        }
        wanted
    }
}

// === impl CollectionSetup ===

impl CollectionSetup {
    pub(in crate::engine) fn of(view: Option<&View<'_>>) -> Self {
        let Some(view) = view else {
            return Self::default();
        };
        let ready = view.indexes().filter(|index| index.ready);
        let mut indexes: Vec<_> = ready
            .map(|index| DocBuf::build(|doc| index.spec.describe(doc)))
            .collect();
        indexes.sort_by(|one, other| one.bytes().cmp(other.bytes()));
        Self {
            options: view.options().clone(),
            indexes: Some(indexes),
        }
    }

    /// Checks that the setup has not changed. The filled collection has the old options and indexes, so it must not replace
    /// a collection with others.
    fn check_same(&self, now: &Self, target: &Namespace) -> Result<()> {
        let changed = |message| Err(Error::new(Code::CommandFailed, message));
        if self.options != now.options {
            let describe = |setup: &Self| {
                DocBuf::build(|out| put_options(&setup.options, DefaultTtl::Off, out)).to_string()
            };
            return changed(format!(
                "collection options of target collection {target} changed during processing. Original options: {}, new \
                 options: {}",
                describe(self),
                describe(now)
            ));
        }
        if self.indexes != now.indexes {
            return changed(format!(
                "indexes of target collection {target} changed during processing."
            ));
        }
        Ok(())
    }
}

// === impl CannotReplace ===

impl From<RenameError> for CannotReplace {
    fn from(error: RenameError) -> Self {
        Self::Refused(match error {
            RenameError::Damaged(damaged) => damaged.into(),
            _ => dropped(),
        })
    }
}
