//! `$out`: a collection that is filled aside and then takes the place of its target.

use std::sync::Arc;

use uuid::Uuid;

use super::ObjectIds;
use super::write::{BATCH, Intake, insert_batch, other_case};
use crate::error::{Code, Error, Result};
use crate::query::stage::{Batch, Cx, Sink, Target};
use crate::storage::{Catalog, Collection, CreateError, Namespace};

/// The collection that is being filled. Dropped unfinished, it goes away.
pub struct Out {
    catalog: Arc<Catalog>,
    ids: Arc<ObjectIds>,
    aside: Arc<Collection>,
    into: Namespace,
    finished: bool,
}

/// Makes the collection, with the target's indexes, options and DefaultTTL.
pub fn begin(
    catalog: Arc<Catalog>,
    ids: Arc<ObjectIds>,
    into: &Target,
    cx: &Cx<'_>,
) -> Result<Out> {
    let now = cx.vars.now();
    let target = catalog.get(&into.db, &into.coll);
    let (options, specs, ttl) = match &target {
        Some(target) => target.read(now, |view| {
            let specs: Vec<_> = view
                .indexes()
                .filter(|index| index.ready)
                .map(|index| index.spec.clone())
                .collect();
            let ttl = (view.default_ttl(), view.ts_index().cloned());
            (view.options().clone(), specs, Some(ttl))
        }),
        None => Default::default(),
    };
    let name = format!("tmp.agg_out.{}", Uuid::new_v4());
    let made = catalog.create(Namespace::new(&into.db, &name), options, |collection| {
        // Nobody can have dropped what nobody can find yet.
        let _ = collection.write(now, |writer| {
            for spec in specs {
                let name = spec.name.clone();
                writer.begin_index(spec);
                writer.finish_index(&name);
            }
            if let Some((default, index)) = ttl {
                writer.set_default_ttl(default, index);
            }
        });
    });
    let aside = made.map_err(|error| match error {
        CreateError::OtherCase(other) => other_case(&other),
        CreateError::Exists => Error::new(Code::NamespaceExists, "the collection for $out exists"),
    })?;
    Ok(Out {
        catalog,
        ids,
        aside,
        into: Namespace::new(&into.db, &into.coll),
        finished: false,
    })
}

// === impl Out ===

impl Sink for Out {
    fn write(&mut self, cx: &mut Cx<'_>, rows: &Batch) -> Result<()> {
        let now = cx.vars.now();
        let intake = Intake {
            ids: &self.ids,
            now,
        };
        let mut rows = rows.iter().peekable();
        while rows.peek().is_some() {
            let admitted: Result<Vec<_>> = rows
                .by_ref()
                .take(BATCH)
                .map(|row| intake.admit(row.doc))
                .collect();
            let admitted = admitted?;
            let documents = admitted.iter().map(AsRef::as_ref);
            match insert_batch(&self.aside, documents, now) {
                Ok(inserted) => {
                    if let Some(error) = inserted.failed {
                        return Err(error);
                    }
                }
                Err(_) => {
                    return Err(Error::new(
                        Code::NamespaceNotFound,
                        "the collection that $out was filling was dropped",
                    ));
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Cx<'_>) -> Result<()> {
        let from = self.aside.namespace();
        self.catalog.rename(&from, &self.into, true).map_err(|_| {
            Error::new(
                Code::NamespaceNotFound,
                "the collection that $out was filling was dropped",
            )
        })?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if !self.finished {
            let name = self.aside.namespace();
            self.catalog
                .drop_collection(name.database(), name.collection());
        }
    }
}
