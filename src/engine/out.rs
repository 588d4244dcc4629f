//! `$out`: a collection that is filled aside and then takes the place of its target.

use std::sync::Arc;

use uuid::Uuid;

use super::write::{BATCH, Intake, insert_batch, other_case};
use super::{ObjectIds, STEP};
use crate::clock::monotonic;
use crate::error::{Code, Error, Result};
use crate::query::stage::{Batch, Cx, Sink, Target};
use crate::storage::{Catalog, Collection, CreateError, Namespace, View, Writer};
use crate::value::Millis;

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
    if options.cap.is_some() {
        return Err(Error::location(
            17152,
            format!("namespace '{into}' is capped so it can't be used for $out"),
        ));
    }
    let name = format!("tmp.agg_out.{}", Uuid::new_v4());
    let made = catalog.create(Namespace::new(&into.db, &name), options, |collection| {
        // Nobody can have dropped what nobody can find yet.
        let _ = collection.write(now, |writer| {
            for spec in specs {
                writer.add_index(spec);
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

impl Out {
    /// The target keeps its DefaultTTL, also one that it was given while this was being filled.
    fn take_default(&self, now: Millis) {
        let target = self
            .catalog
            .get(self.into.database(), self.into.collection());
        let Some(target) = target else { return };
        let setting = |view: &View<'_>| (view.default_ttl(), view.ts_index().cloned());
        let (default, index) = target.read(now, setting);
        if self.aside.read(now, |view| view.default_ttl()) == default {
            return;
        }
        let mut change = |writer: &mut Writer<'_>| writer.set_default_ttl(default, index);
        loop {
            match self.aside.drain_then(now, monotonic() + STEP, change) {
                Ok(Err(again)) => change = again,
                _ => return,
            }
        }
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

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.take_default(cx.vars.now());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineSources;
    use crate::query::Vars;
    use crate::query::stage::{Endless, Limits};
    use crate::storage::ttl::DefaultTtl;

    #[test]
    fn the_target_keeps_a_default_that_it_was_given_meanwhile() {
        let now = Millis(0);
        let catalog = Arc::new(Catalog::new());
        let sources = EngineSources::new(Arc::clone(&catalog), false);
        let vars = Vars::at(now);
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
        let (target, _) = catalog.get_or_create("db", "c").unwrap();
        for default in [DefaultTtl::Seconds(5), DefaultTtl::Never, DefaultTtl::Off] {
            let mut out = begin(Arc::clone(&catalog), Arc::default(), &into, &cx).unwrap();
            let target = catalog.get("db", "c").unwrap();
            let set = target.write(now, |writer| writer.set_default_ttl(default, None));
            set.unwrap();
            out.finish(&mut cx).unwrap();
            let made = catalog.get("db", "c").unwrap();
            assert!(!Arc::ptr_eq(&made, &target));
            assert_eq!(made.read(now, |view| view.default_ttl()), default);
        }
        assert!(target.read(now, |view| view.is_dropped()));
    }
}
