//! The collection that is written to, made by the first write.

use std::sync::Arc;

use crate::engine::ddl::check_created;
use crate::error::{Code, Error, Result};
use crate::storage::{Catalog, Collection, OtherCase};

/// The collection, and whether it was made just now.
pub fn collection_for(
    catalog: &Catalog,
    database: &str,
    collection: &str,
) -> Result<(Arc<Collection>, bool)> {
    if let Some(there) = catalog.get(database, collection) {
        return Ok((there, false));
    }
    check_created(database, collection)?;
    catalog
        .get_or_create(database, collection)
        .map_err(|other| other_case(&other))
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
