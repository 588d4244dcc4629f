//! `$out`: fills a temporary collection, which then replaces the target.

use std::sync::Arc;

use uuid::Uuid;

use super::ObjectIds;
use super::ddl::{
    CollectionSetup, CreateCollection, DropCollection, ReplaceCollection, SchemaChange, default_of,
    dropped,
};
use super::sources::WriteEffort;
use super::write::{BATCH, Intake, insert_batch};
use crate::error::{Code, Error, Result};
use crate::names::check_created;
use crate::query::stage::{CollectionName, RowBatch, RowContext, Sink};
use crate::storage::index::IndexSpec;
use crate::storage::{Catalog, Collection, Namespace, ReadPoint};
use crate::value::Millis;

/// The temporary collection that is being filled. Dropping this value unfinished drops the collection.
pub struct Out {
    catalog: Arc<Catalog>,
    ids: Arc<ObjectIds>,
    temporary: Arc<Collection>,
    into: Namespace,
    /// The setup of the target at the start.
    target: CollectionSetup,
    effort: WriteEffort,
    /// When the stage began.
    now: Millis,
    finished: bool,
}

/// Creates the temporary collection, with the indexes, options and DefaultTTL of the target.
pub fn begin(
    catalog: Arc<Catalog>,
    ids: Arc<ObjectIds>,
    into: &CollectionName,
    effort: WriteEffort,
    cx: &RowContext<'_>,
) -> Result<Out> {
    check_created(&into.db, &into.coll).map_err(|error| {
        Error::new(
            Code::IllegalOperation,
            format!("error with target namespace: {}", error.message()),
        )
    })?;
    let now = cx.vars.now();
    let found = catalog.get(&into.db, &into.coll)?;
    let (target, indexes, (default_ttl, ts_index)) = match &found {
        Some(found) => found.read_present(now, |view| {
            let ready = view.indexes().filter(|index| index.ready);
            let specs: Vec<_> = ready.map(|index| IndexSpec::clone(&index.spec)).collect();
            (CollectionSetup::of(Some(view)), specs, default_of(view))
        }),
        None => Default::default(),
    };
    if target.options.cap.is_some() {
        return Err(Error::location(
            17152,
            format!("namespace '{into}' is capped so it can't be used for $out"),
        ));
    }
    let name = format!("tmp.agg_out.{}", Uuid::new_v4());
    let create = SchemaChange::CreateCollection(CreateCollection {
        namespace: Namespace::new(&into.db, &name),
        options: target.options.clone(),
        default_ttl,
        ts_index,
        indexes,
    });
    create.begin(&catalog, now)?;
    let temporary = catalog.get(&into.db, &name)?.ok_or_else(dropped)?;
    Ok(Out {
        catalog,
        ids,
        temporary,
        into: Namespace::new(&into.db, &into.coll),
        target,
        effort,
        now,
        finished: false,
    })
}

// === impl Out ===

impl Sink for Out {
    fn write(&mut self, cx: &mut RowContext<'_>, rows: &RowBatch) -> Result<()> {
        let now = cx.vars.now();
        let intake = Intake {
            ids: &self.ids,
            now,
            keeps_empty_timestamps: false,
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
            match insert_batch(
                &self.temporary,
                documents,
                ReadPoint::outside_transactions(now),
            ) {
                Ok(inserted) => {
                    for document in admitted.iter().take(inserted.count) {
                        self.effort.inserted(document.len());
                    }
                    if let Some(error) = inserted.failed {
                        return Err(error);
                    }
                }
                Err(_) => return Err(dropped()),
            }
        }
        Ok(())
    }

    fn finish(&mut self, cx: &mut RowContext<'_>) -> Result<()> {
        let replace = SchemaChange::ReplaceCollection(ReplaceCollection {
            from: self.temporary.namespace(),
            uuid: Some(self.temporary.uuid()),
            to: self.into.clone(),
            expected: self.target.clone(),
        });
        let now = cx.vars.now();
        replace.begin(&self.catalog, now)?.finish_here(now)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if !self.finished {
            let drop = DropCollection {
                namespace: self.temporary.namespace(),
                uuid: Some(self.temporary.uuid()),
            };
            // Nobody is left who could wait for transactions that use it.
            drop.run(&self.catalog, self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;
    use crate::engine::EngineSources;
    use crate::query::Vars;
    use crate::query::stage::{Endless, PipelineLimits};
    use crate::storage::{Cap, IndexChange, IndexSelection, ReadPoint, Rules};
    use crate::ttl::{DefaultTtl, IndexingMode};
    use crate::value::DocBuf;
    use bson::doc;

    const NOW: Millis = Millis(0);

    /// Returns the result of an `$out` to `db.c` during which `meanwhile` happens.
    fn out(catalog: &Arc<Catalog>, meanwhile: impl FnOnce()) -> Result<()> {
        let sources = EngineSources::new(Arc::clone(catalog), ReadPoint::at(NOW), false);
        let vars = Vars::at(NOW);
        let mut cx = RowContext {
            vars: &vars,
            slice: &Endless,
            limits: PipelineLimits::new(true, usize::MAX),
            sources: &sources,
        };
        let into = CollectionName {
            db: "db".into(),
            coll: "c".into(),
        };
        let effort = WriteEffort::new(sources.handles(), |bytes| bytes as u64);
        let mut out = begin(Arc::clone(catalog), Arc::default(), &into, effort, &cx)?;
        meanwhile();
        out.finish(&mut cx)
    }

    /// Changes a collection in which no document has expired.
    fn changes(collection: &Collection, change: impl FnOnce(&mut Rules<'_>)) {
        let made = collection.drain_then(NOW, monotonic(), change);
        assert!(made.unwrap().is_ok());
    }

    fn index(name: &str) -> IndexSpec {
        IndexSpec::new(name, DocBuf::from(doc! {"a": 1}))
    }

    #[test]
    fn the_target_keeps_a_default_set_during_the_replacement() {
        let catalog = Arc::new(Catalog::new());
        let (first, _) = catalog.get_or_create("db", "c").unwrap();
        for default in [DefaultTtl::Seconds(5), DefaultTtl::Never, DefaultTtl::Off] {
            let target = catalog.get("db", "c").unwrap().unwrap();
            let set = || {
                changes(&target, |rules| rules.set_default_ttl(default, None));
            };
            out(&catalog, set).unwrap();
            let made = catalog.get("db", "c").unwrap().unwrap();
            assert!(!Arc::ptr_eq(&made, &target));
            assert_eq!(made.read_present(NOW, |view| view.default_ttl()), default);
        }
        assert!(first.read_present(NOW, |view| view.is_dropped()));
    }

    #[test]
    fn a_target_with_changed_options_is_not_replaced() {
        type Change = fn(&Catalog);
        fn writes(catalog: &Catalog, change: impl FnOnce(&mut Rules<'_>)) {
            changes(&catalog.get("db", "c").unwrap().unwrap(), change);
        }
        let indexes = "indexes of target collection db.c changed during processing.";
        let options = |now| {
            format!(
                "collection options of target collection db.c changed during processing. Original options: {{}}, new \
                 options: {now}"
            )
        };
        let capped = options("{ capped: true, size: 4096 }");
        let mode = options("{ indexingPolicy: { indexingMode: \"lazy\" } }");
        let cases: &[(Change, Option<&str>)] = &[
            (|_| {}, None),
            (|c| writes(c, |w| w.add_index(index("b"))), Some(indexes)),
            (
                |c| writes(c, |w| drop(w.drop_indexes(&IndexSelection::All))),
                Some(indexes),
            ),
            (
                |c| {
                    writes(c, |w| {
                        let hidden = Some(true);
                        let change = IndexChange {
                            hidden,
                            ..IndexChange::default()
                        };
                        w.alter_index("a", change);
                    });
                },
                Some(indexes),
            ),
            (
                |c| {
                    writes(c, |w| {
                        w.set_cap(Cap {
                            bytes: 4096,
                            documents: None,
                        });
                    });
                },
                Some(&capped),
            ),
            (
                |c| writes(c, |w| w.set_indexing_mode(IndexingMode::Lazy)),
                Some(&mode),
            ),
            (
                |c| drop(c.drop_collection("db", "c", None, Millis(0))),
                Some(indexes),
            ),
            // A new collection with the same setup is accepted as the target.
            (
                |c| {
                    c.drop_collection("db", "c", None, Millis(0));
                    c.get_or_create("db", "c").unwrap();
                    writes(c, |w| w.add_index(index("a")));
                },
                None,
            ),
            // An index that is still being built is not copied. Its builder gets the error that the collection was dropped.
            (
                |c| {
                    writes(c, |w| {
                        w.begin_index(index("b"));
                    });
                },
                None,
            ),
        ];
        for (at, (meanwhile, failed)) in cases.iter().enumerate() {
            let catalog = Arc::new(Catalog::new());
            catalog.get_or_create("db", "c").unwrap();
            writes(&catalog, |w| w.add_index(index("a")));
            let made = out(&catalog, || meanwhile(&catalog));
            let error = made.err().map(|error| (error.code(), error.to_string()));
            let expected = failed.map(|words| (Code::CommandFailed, words.to_owned()));
            assert_eq!(error, expected, "{at}");
            assert_eq!(
                catalog.in_database("db").len(),
                usize::from(at != 6),
                "{at}"
            );
        }
    }

    #[test]
    fn a_target_created_while_out_runs_is_not_replaced() {
        let catalog = Arc::new(Catalog::new());
        let made = || drop(catalog.get_or_create("db", "c").unwrap());
        assert!(out(&catalog, made).is_err());
        assert!(out(&catalog, || {}).is_ok());
        catalog.drop_collection("db", "c", None, Millis(0));
        assert!(out(&catalog, || {}).is_ok());
    }

    /// Another client drops or renames the temporary collection, and creates another one with its name.
    #[test]
    fn a_collection_with_the_temporary_name_is_not_touched() {
        type Change = fn(&Catalog, &Namespace);
        let changes: [(Change, bool); 2] = [
            (
                |c, temporary| {
                    drop(c.drop_collection(
                        temporary.database(),
                        temporary.collection(),
                        None,
                        Millis(0),
                    ))
                },
                false,
            ),
            (
                |c, temporary| {
                    let other = Namespace::new("db", "other");
                    c.rename(temporary, &other, false, Millis(0)).unwrap();
                },
                true,
            ),
        ];
        for (change, fits) in changes {
            for finish in [false, true] {
                let catalog = Arc::new(Catalog::new());
                let name = std::cell::OnceCell::new();
                let meanwhile = || {
                    let temporary = catalog.in_database("db").remove(0).namespace();
                    change(&catalog, &temporary);
                    let made = catalog.get_or_create("db", temporary.collection());
                    name.set((temporary, made.unwrap().0)).ok().unwrap();
                    if !finish {
                        // The target has changed, so `$out` fails.
                        catalog.get_or_create("db", "c").unwrap();
                    }
                };
                assert_eq!(out(&catalog, meanwhile).is_ok(), fits && finish);
                let (temporary, made) = name.get().unwrap();
                let there = catalog.get("db", temporary.collection()).unwrap().unwrap();
                assert!(Arc::ptr_eq(&there, made));
                let names = catalog.in_database("db").len();
                assert_eq!(names, if finish && !fits { 1 } else { 2 });
            }
        }
    }
}
