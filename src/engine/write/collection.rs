//! The collection that is written to, made by the first write.

use std::sync::Arc;

use crate::engine::ddl::check_created;
use crate::error::{Code, Error, Result};
use crate::storage::{Catalog, Collection, CreateError, OtherCase};

/// The collection, and whether it was made just now.
pub fn collection_for(
    catalog: &Catalog,
    database: &str,
    collection: &str,
) -> Result<(Arc<Collection>, bool)> {
    if let Some(there) = catalog.get(database, collection)? {
        return Ok((there, false));
    }
    check_created(database, collection)?;
    catalog
        .get_or_create(database, collection)
        .map_err(not_created)
}

/// Why a collection was not created.
pub fn not_created(error: CreateError) -> Error {
    match error {
        CreateError::OtherCase(other) => other_case(&other),
        CreateError::Damaged(damaged) => damaged.into(),
        CreateError::Exists => Error::new(Code::NamespaceExists, "the collection exists already"),
    }
}

pub fn other_case(other: &OtherCase) -> Error {
    Error::new(
        Code::DatabaseDifferCase,
        format!(
            "db already exists with different case already have: [{}] trying to create [{}]",
            other.there, other.wanted
        ),
    )
}
