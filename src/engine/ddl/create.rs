//! A new collection with its settings.

use super::default_ttl;
use super::{Done, check_created};
use crate::engine::write::not_created;
use crate::error::{Code, Error, Result};
use crate::storage::index::IndexSpec;
use crate::storage::{Catalog, Collection, CreateError, Namespace, Options, ReadPoint, View};
use crate::ttl::{DefaultTtl, TsIndex, check_mode};
use crate::value::Millis;

/// Creates a collection.
#[derive(Debug, Clone)]
pub struct CreateCollection {
    pub namespace: Namespace,
    pub options: Options,
    pub default_ttl: DefaultTtl,
    /// How the default shows among the indexes; the usual way if there is none.
    pub ts_index: Option<TsIndex>,
    pub indexes: Vec<IndexSpec>,
}

// === impl CreateCollection ===

impl CreateCollection {
    /// Asking for what is there already is no error.
    pub(super) fn run(self, catalog: &Catalog, now: Millis) -> Result<Done> {
        check_mode(self.options.indexing_mode, self.default_ttl, Code::BadValue)?;
        let name = &self.namespace;
        check_created(name.database(), name.collection())?;
        match self.make(catalog, now) {
            Ok(_) => Ok(Done::Created),
            Err(CreateError::Exists) => {
                let there = catalog.get(name.database(), name.collection())?;
                let agrees = |view: &View<'_>| {
                    view.default_ttl() == self.default_ttl && *view.options() == self.options
                };
                match there.is_some_and(|there| there.read(ReadPoint::at(now), agrees)) {
                    true => Ok(Done::Created),
                    false => Err(Error::new(
                        Code::NamespaceExists,
                        format!("Collection {name} already exists."),
                    )),
                }
            }
            Err(error) => Err(not_created(error)),
        }
    }

    /// The same under any name, for the server's own use.
    pub(in crate::engine) fn make(
        &self,
        catalog: &Catalog,
        now: Millis,
    ) -> Result<std::sync::Arc<Collection>, CreateError> {
        let (name, options) = (self.namespace.clone(), self.options.clone());
        catalog.create(name, options, now, |rules| {
            for spec in &self.indexes {
                rules.add_index(spec.clone());
            }
            default_ttl::set(rules, self.default_ttl, self.ts_index.clone());
        })
    }
}
