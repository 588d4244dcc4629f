//! Creating a collection with its settings.

use super::Done;
use super::default_ttl;
use crate::error::{Code, Error, Result};
use crate::names::check_created;
use crate::storage::index::IndexSpec;
use crate::storage::{
    Catalog, CollectionOptions, CreateError, Namespace, OtherCase, ReadPoint, Rules, View,
};
use crate::ttl::{DefaultTtl, TsIndex, check_mode};
use crate::value::Millis;

/// A change that creates a collection.
#[derive(Debug, Clone)]
pub struct CreateCollection {
    pub namespace: Namespace,
    pub options: CollectionOptions,
    pub default_ttl: DefaultTtl,
    /// How the default appears among the indexes. `None` means the usual way.
    pub ts_index: Option<TsIndex>,
    pub indexes: Vec<IndexSpec>,
}

// === impl CreateCollection ===

impl CreateCollection {
    /// Returns a change without any settings, as a first write creates the collection.
    pub fn plain(namespace: Namespace) -> Self {
        Self {
            namespace,
            options: CollectionOptions::default(),
            default_ttl: DefaultTtl::Off,
            ts_index: None,
            indexes: Vec::new(),
        }
    }

    /// Creates the collection in a transaction: nobody else finds it before the commit.
    pub fn run_at(self, catalog: &Catalog, at: ReadPoint) -> Result<()> {
        let name = self.namespace.clone();
        match self.create(catalog, at)? {
            Ok(()) => Ok(()),
            Err(CreateError::Exists) => Err(exists(&name)),
            Err(CreateError::OtherCase(other)) => Err(other_case(&other)),
        }
    }

    /// Checks the settings and creates the collection with them.
    fn create(self, catalog: &Catalog, at: ReadPoint) -> Result<Result<(), CreateError>> {
        let Self {
            namespace: name,
            options,
            default_ttl,
            ts_index,
            indexes,
        } = self;
        check_mode(options.indexing_mode, default_ttl, Code::BadValue)?;
        check_created(name.database(), name.collection())?;
        let set_up = |rules: &mut Rules<'_>| {
            for spec in indexes {
                rules.add_index(spec);
            }
            default_ttl::set(rules, default_ttl, ts_index);
        };
        let created = catalog.create_at(name, options, at, set_up);
        Ok(created.map(drop))
    }

    /// Creates the collection. It is no error if it exists with the same settings.
    pub(super) fn run(self, catalog: &Catalog, now: Millis) -> Result<Done> {
        let (name, options) = (self.namespace.clone(), self.options.clone());
        let default_ttl = self.default_ttl;
        match self.create(catalog, ReadPoint::outside_transactions(now))? {
            Ok(()) => Ok(Done::Created),
            Err(CreateError::Exists) => {
                let there = catalog.get(name.database(), name.collection())?;
                let agrees = |view: &View<'_>| {
                    view.default_ttl() == default_ttl && *view.options() == options
                };
                match there.is_some_and(|there| there.read_present(now, agrees)) {
                    true => Ok(Done::NothingToCreate),
                    false => Err(exists(&name)),
                }
            }
            Err(CreateError::OtherCase(other)) => Err(other_case(&other)),
        }
    }
}

fn exists(name: &Namespace) -> Error {
    Error::new(
        Code::NamespaceExists,
        format!("Collection {name} already exists."),
    )
}

/// Returns the error for a database name that differs from an existing one only in case.
pub(super) fn other_case(other: &OtherCase) -> Error {
    Error::new(
        Code::DatabaseDifferCase,
        format!(
            "db already exists with different case already have: [{}] trying to create [{}]",
            other.there, other.wanted
        ),
    )
}
