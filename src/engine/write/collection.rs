//! The target collection of a write. The first write creates it.

use std::sync::Arc;

use crate::engine::ddl::{Begun, CreateCollection, Done, SchemaChange};
use crate::error::{Code, Result};
use crate::storage::{Catalog, Collection, Namespace, ReadPoint};

/// Returns the collection, and whether this call created it.
pub fn collection_for(
    catalog: &Arc<Catalog>,
    database: &str,
    collection: &str,
    at: ReadPoint,
) -> Result<(Arc<Collection>, bool)> {
    let mut created = false;
    loop {
        if let Some(there) = catalog.get_to_write_at(database, collection, at)? {
            return Ok((there, created));
        }
        created = create(catalog, Namespace::new(database, collection), at)?;
    }
}

/// Creates the collection. Returns `false` if another client created it first.
#[cold]
fn create(catalog: &Arc<Catalog>, namespace: Namespace, at: ReadPoint) -> Result<bool> {
    let change = CreateCollection::plain(namespace);
    if at.is_in_transaction() {
        return change.run_at(catalog, at).map(|()| true);
    }
    match SchemaChange::CreateCollection(change).begin(catalog, at.now()) {
        Ok(begun) => Ok(matches!(begun, Begun::Done(Done::Created))),
        // Another client created it with other settings.
        Err(error) if error.code() == Code::NamespaceExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::CollectionOptions;
    use crate::value::Millis;

    #[test]
    fn the_first_write_creates_the_collection_if_its_name_can_be_one() {
        let catalog = Arc::new(Catalog::new());
        let wanted = |name: &str| {
            let found = collection_for(&catalog, "db", name, ReadPoint::at(Millis(0)));
            found
                .map(|(_, created)| created)
                .map_err(|error| error.code())
        };
        assert_eq!(wanted("c"), Ok(true));
        assert_eq!(wanted("c"), Ok(false));
        assert_eq!(wanted("a$b"), Err(Code::InvalidNamespace));
        // The settings of an existing collection do not matter.
        let mut options = CollectionOptions::default();
        options
            .shown
            .put("comment", crate::value::Value::int32(1).as_ref());
        let name = Namespace::new("db", "d");
        catalog
            .create(name.clone(), options, Millis(0), |_| ())
            .unwrap();
        assert_eq!(create(&catalog, name, ReadPoint::at(Millis(0))), Ok(false));
        assert_eq!(wanted("d"), Ok(false));
    }
}
