//! `$out`: a collection that is filled aside and then takes the place of its target.

use std::sync::Arc;

use uuid::Uuid;

use super::ddl::{CreateCollection, check_created};
use super::describe::put_options;
use super::sources::WriteEffort;
use super::write::{BATCH, Intake, insert_batch, not_created};
use super::{ObjectIds, STEP};
use crate::clock::monotonic;
use crate::error::{Code, Error, Result};
use crate::query::stage::{Batch, Cx, Sink, Target};
use crate::storage::index::IndexSpec;
use crate::storage::{
    Catalog, Collection, Namespace, Options, ReadPoint, RenameError, Rules, View,
};
use crate::ttl::{DefaultTtl, TsIndex};
use crate::value::{DocBuf, Millis};

/// The collection that is being filled. Dropped unfinished, it goes away.
pub struct Out {
    catalog: Arc<Catalog>,
    ids: Arc<ObjectIds>,
    aside: Arc<Collection>,
    into: Namespace,
    /// The target at the start.
    target: Setup,
    effort: WriteEffort,
    finished: bool,
}

/// What of the target must be at the end as it was at the start. Its DefaultTTL is no part of it: that is carried over.
#[derive(Default)]
struct Setup {
    options: Options,
    /// Those that are ready, sorted. `None`: there is no target, not even with an index on `_id`.
    indexes: Option<Vec<DocBuf>>,
}

/// Why the target cannot be replaced now.
enum Unfit {
    /// Its DefaultTTL is another one by now: that has to be taken over first.
    OtherDefault,
    Changed(Error),
    Gone,
}

/// Makes the collection, with the target's indexes, options and DefaultTTL.
pub fn begin(
    catalog: Arc<Catalog>,
    ids: Arc<ObjectIds>,
    into: &Target,
    effort: WriteEffort,
    cx: &Cx<'_>,
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
        Some(found) => found.read(ReadPoint::at(now), |view| {
            let ready = view.indexes().filter(|index| index.ready);
            let specs: Vec<_> = ready.map(|index| IndexSpec::clone(&index.spec)).collect();
            (Setup::of(Some(view)), specs, default_of(view))
        }),
        None => Default::default(),
    };
    if target.options.cap.is_some() {
        return Err(Error::location(
            17152,
            format!("namespace '{into}' is capped so it can't be used for $out"),
        ));
    }
    let name = Namespace::new(&into.db, &format!("tmp.agg_out.{}", Uuid::new_v4()));
    let create = CreateCollection {
        namespace: name,
        options: target.options.clone(),
        default_ttl,
        ts_index,
        indexes,
    };
    let aside = create.make(&catalog, now).map_err(not_created)?;
    Ok(Out {
        catalog,
        ids,
        aside,
        into: Namespace::new(&into.db, &into.coll),
        target,
        effort,
        finished: false,
    })
}

/// How a collection's DefaultTTL is set.
fn default_of(view: &View<'_>) -> (DefaultTtl, Option<TsIndex>) {
    (view.default_ttl(), view.ts_index().cloned())
}

fn dropped() -> Error {
    Error::new(
        Code::NamespaceNotFound,
        "the collection that $out was filling was dropped",
    )
}

// === impl Setup ===

impl Setup {
    fn of(view: Option<&View<'_>>) -> Self {
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

    /// What was filled has the old options and indexes: it must not take the place of others.
    fn check_same(&self, now: &Self, target: &Namespace) -> Result<()> {
        let changed = |message| Err(Error::new(Code::CommandFailed, message));
        if self.options != now.options {
            let shown = |setup: &Self| {
                DocBuf::build(|out| put_options(&setup.options, DefaultTtl::Off, out)).to_string()
            };
            return changed(format!(
                "collection options of target collection {target} changed during processing. Original options: {}, new \
                 options: {}",
                shown(self),
                shown(now)
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

// === impl Unfit ===

impl From<RenameError> for Unfit {
    fn from(error: RenameError) -> Self {
        match error {
            RenameError::Damaged(damaged) => Self::Changed(damaged.into()),
            _ => Self::Gone,
        }
    }
}

// === impl Out ===

impl Out {
    /// The target keeps its DefaultTTL, also one that it was given while this was being filled. Returns what this one has.
    fn take_default(&self, now: Millis) -> (DefaultTtl, Option<TsIndex>) {
        let target = self
            .catalog
            .get(self.into.database(), self.into.collection())
            .unwrap_or_default();
        let own = self.aside.read(ReadPoint::at(now), default_of);
        let wanted = target.map_or_else(
            || own.clone(),
            |target| target.read(ReadPoint::at(now), default_of),
        );
        if own != wanted {
            let mut change = |rules: &mut Rules<'_>| {
                rules.set_default_ttl(wanted.0, wanted.1.clone());
            };
            while let Ok(Err(again)) = self.aside.drain_then(now, monotonic() + STEP, change) {
                change = again;
            }
        }
        wanted
    }

    /// Takes the target's place, if that can be done.
    fn take_place(&self, now: Millis) -> Result<(), Unfit> {
        let default = self.take_default(now);
        self.catalog.replace(&self.aside, &self.into, |target| {
            self.target
                .check_same(&Setup::of(target), &self.into)
                .map_err(Unfit::Changed)?;
            match target {
                Some(view) if default_of(view) != default => Err(Unfit::OtherDefault),
                _ => Ok(()),
            }
        })
    }
}

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

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        loop {
            match self.take_place(cx.vars.now()) {
                Ok(()) => break,
                Err(Unfit::OtherDefault) => {}
                Err(Unfit::Changed(error)) => return Err(error),
                Err(Unfit::Gone) => return Err(dropped()),
            }
        }
        self.finished = true;
        Ok(())
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if !self.finished {
            self.catalog.drop_this(&self.aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineSources;
    use crate::query::Vars;
    use crate::query::stage::{Endless, Limits};
    use crate::storage::index::IndexSpec;
    use crate::storage::{Cap, IndexChange, IndexSelection};
    use crate::ttl::IndexingMode;
    use bson::doc;

    const NOW: Millis = Millis(0);

    /// What comes of an `$out` to `db.c` during which `meanwhile` happens.
    fn out(catalog: &Arc<Catalog>, meanwhile: impl FnOnce()) -> Result<()> {
        let sources = EngineSources::new(Arc::clone(catalog), false);
        let vars = Vars::at(NOW);
        let mut cx = Cx {
            vars: &vars,
            slice: &Endless,
            limits: Limits::default(),
            sources: &sources,
        };
        let into = Target {
            db: "db".into(),
            coll: "c".into(),
        };
        let effort = WriteEffort::new(sources.handles(), |bytes| bytes as u64);
        let mut out = begin(Arc::clone(catalog), Arc::default(), &into, effort, &cx)?;
        meanwhile();
        out.finish(&mut cx)
    }

    /// Changes a collection in which nothing has ended.
    fn changes(collection: &Collection, change: impl FnOnce(&mut Rules<'_>)) {
        let made = collection.drain_then(NOW, monotonic(), change);
        assert!(made.unwrap().is_ok());
    }

    fn index(name: &str) -> IndexSpec {
        IndexSpec::new(name, DocBuf::from(doc! {"a": 1}))
    }

    #[test]
    fn the_target_keeps_a_default_that_it_was_given_meanwhile() {
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
            assert_eq!(
                made.read(ReadPoint::at(NOW), |view| view.default_ttl()),
                default
            );
        }
        assert!(first.read(ReadPoint::at(NOW), |view| view.is_dropped()));
    }

    #[test]
    fn a_target_that_was_set_up_otherwise_meanwhile_is_left_alone() {
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
            (|c| drop(c.drop_collection("db", "c")), Some(indexes)),
            // One that was made anew and looks the same will do.
            (
                |c| {
                    c.drop_collection("db", "c");
                    c.get_or_create("db", "c").unwrap();
                    writes(c, |w| w.add_index(index("a")));
                },
                None,
            ),
            // An index that is not ready is nobody's yet: whoever makes it is told that the collection is gone.
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
    fn a_target_that_was_made_meanwhile_is_left_alone() {
        let catalog = Arc::new(Catalog::new());
        let made = || drop(catalog.get_or_create("db", "c").unwrap());
        assert!(out(&catalog, made).is_err());
        assert!(out(&catalog, || {}).is_ok());
        catalog.drop_collection("db", "c");
        assert!(out(&catalog, || {}).is_ok());
    }

    /// Somebody takes what is being filled away, or gives it another name, and makes another collection of that name.
    #[test]
    fn what_has_come_to_the_name_aside_is_not_touched() {
        type Change = fn(&Catalog, &Namespace);
        let changes: [(Change, bool); 2] = [
            (
                |c, aside| drop(c.drop_collection(aside.database(), aside.collection())),
                false,
            ),
            (
                |c, aside| {
                    let other = Namespace::new("db", "other");
                    c.rename(aside, &other, false).unwrap();
                },
                true,
            ),
        ];
        for (change, fits) in changes {
            for finish in [false, true] {
                let catalog = Arc::new(Catalog::new());
                let name = std::cell::OnceCell::new();
                let meanwhile = || {
                    let aside = catalog.in_database("db").remove(0).namespace();
                    change(&catalog, &aside);
                    let made = catalog.get_or_create("db", aside.collection());
                    name.set((aside, made.unwrap().0)).ok().unwrap();
                    if !finish {
                        // The target is no longer what it was: the work is given up.
                        catalog.get_or_create("db", "c").unwrap();
                    }
                };
                assert_eq!(out(&catalog, meanwhile).is_ok(), fits && finish);
                let (aside, made) = name.get().unwrap();
                let there = catalog.get("db", aside.collection()).unwrap().unwrap();
                assert!(Arc::ptr_eq(&there, made));
                let names = catalog.in_database("db").len();
                assert_eq!(names, if finish && !fits { 1 } else { 2 });
            }
        }
    }
}
