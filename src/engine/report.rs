//! The stages that report: `$collStats`, `$indexStats`, `$currentOp`, `$listLocalSessions` and `$listSessions`.

use super::describe::describe_indexes;
use super::stats::{StorageStats, put_number};
use crate::error::{Code, Error, Result};
use crate::query::stage::{CollectionName, CurrentOps, ListSessions, Report, RowBatch};
use crate::storage::index::{ID_INDEX, IndexUsage};
use crate::storage::{Catalog, ReadPoint, View};
use crate::value::{DocBuf, DocBuilder, Millis};

/// The context that a report needs besides the collection.
pub struct ReportContext<'a> {
    pub catalog: &'a Catalog,
    /// `HOST:PORT` of this server.
    pub host: &'a str,
    pub at: ReadPoint,
    pub server: Option<&'a dyn ServerLists>,
}

/// Lists that the server as a whole has, as rows. The commands provide them.
pub trait ServerLists: Send + Sync {
    /// Lists the running operations.
    fn operations(&self, wanted: &CurrentOps) -> Vec<DocBuf>;
    fn sessions(&self, wanted: &ListSessions) -> Vec<DocBuf>;
    /// Writes how long commands took that used this collection, with the buckets of a histogram.
    fn put_latencies(&self, namespace: &str, with_buckets: bool, out: &mut DocBuilder<'_>);
    /// Writes how often commands used this collection, by kind.
    fn put_events(&self, namespace: &str, out: &mut DocBuilder<'_>);
}

pub fn report(
    about: &ReportContext<'_>,
    on: &CollectionName,
    what: &Report,
    out: &mut RowBatch,
) -> Result<()> {
    match what {
        Report::CollStats { .. } => coll_stats(about, on, what, out),
        Report::IndexStats => {
            index_stats(about, on, out)?;
            Ok(())
        }
        Report::CurrentOp(wanted) => {
            list(about, out, |server| server.operations(wanted));
            Ok(())
        }
        Report::Sessions(wanted) => {
            list(about, out, |server| server.sessions(wanted));
            Ok(())
        }
    }
}

fn list(
    about: &ReportContext<'_>,
    out: &mut RowBatch,
    rows: impl FnOnce(&dyn ServerLists) -> Vec<DocBuf>,
) {
    for doc in about.server.map(rows).into_iter().flatten() {
        out.push(doc.as_doc(), None);
    }
}

fn coll_stats(
    about: &ReportContext<'_>,
    on: &CollectionName,
    what: &Report,
    out: &mut RowBatch,
) -> Result<()> {
    let Report::CollStats {
        latency,
        storage,
        count,
        exec,
        events,
    } = what
    else {
        return Ok(());
    };
    let figures = about
        .catalog
        .get(&on.db, &on.coll)?
        .map(|collection| StorageStats::of(&collection, about.at));
    if figures.is_none() && (storage.is_some() || *count || *exec) {
        return Err(Error::new(
            Code::NamespaceNotFound,
            format!(
                "Unable to retrieve storageStats in $collStats stage :: caused by :: Collection [{on}] not found."
            ),
        ));
    }
    let figures = figures.unwrap_or_default();
    out.push_doc(None, |doc| {
        doc.put_str("ns", &on.to_string())
            .put_str("host", about.host)
            .put_date("localTime", about.at.now().0);
        let namespace = on.to_string();
        if let (Some(histograms), Some(server)) = (latency, about.server) {
            let mut stats = doc.doc("latencyStats");
            server.put_latencies(&namespace, *histograms, &mut stats);
            stats.end();
        }
        if let (true, Some(server)) = (*events, about.server) {
            let mut stats = doc.doc("operationStats");
            server.put_events(&namespace, &mut stats);
            stats.end();
        }
        if let Some(scale) = storage {
            let mut stats = doc.doc("storageStats");
            figures.put(&mut stats, *scale);
            stats.end();
        }
        if *count {
            put_number(doc, "count", figures.documents.count);
        }
        if *exec {
            let mut stats = doc.doc("queryExecStats");
            let mut scans = stats.doc("collectionScans");
            scans.put_i64("total", 0).put_i64("nonTailable", 0);
            scans.end();
            stats.end();
        }
    });
    Ok(())
}

fn index_stats(about: &ReportContext<'_>, on: &CollectionName, out: &mut RowBatch) -> Result<()> {
    let Some(collection) = about.catalog.get(&on.db, &on.coll)? else {
        return Ok(());
    };
    collection.read(about.at, |view| {
        for index in describe_indexes(view) {
            let spec = index.as_doc();
            out.push_doc(None, |doc| {
                doc.put("name", spec.get("name"))
                    .put("key", spec.get("key"))
                    .put_str("host", about.host);
                let mut accesses = doc.doc("accesses");
                let (commands, since) = usage(view, spec.get("name").as_str().unwrap_or_default());
                accesses
                    .put_i64("ops", commands.try_into().unwrap_or(i64::MAX))
                    .put_date("since", since.0);
                accesses.end();
                doc.put_doc("spec", spec);
            });
        }
    });
    Ok(())
}

/// Returns how many commands used an index, and since when they are counted. The index on `_id` has two forms, which
/// clients see as one.
fn usage(view: &View<'_>, name: &str) -> (u64, Millis) {
    let in_order = view.way(name).map(|index| &index.usage);
    let by_hash = (name == ID_INDEX).then(|| view.id_usage());
    let counted = in_order.into_iter().chain(by_hash);
    let since = counted.clone().map(|usage| usage.since).min();
    let commands = counted.map(IndexUsage::commands).sum();
    (commands, since.unwrap_or(view.now()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::index::IndexSpec;
    use crate::storage::{Collection, IndexChange};
    use bson::doc;

    #[test]
    fn index_usage_counts_restart_when_the_index_is_hidden_or_unhidden() {
        let catalog = Catalog::new();
        let (collection, _) = catalog.get_or_create("db", "c").unwrap();
        let write =
            |collection: &Collection, now, change: &dyn Fn(&mut crate::storage::Writer<'_>)| {
                collection.write(Millis(now), |w| change(w)).unwrap();
            };
        let hidden = |hidden| IndexChange {
            hidden: Some(hidden),
            ..IndexChange::default()
        };
        let added = collection.drain_then(Millis(5), crate::clock::monotonic(), |rules| {
            rules.add_index(IndexSpec::new("a_1", DocBuf::from(doc! {"a": 1})));
        });
        assert!(added.unwrap().is_ok());
        let seen = |now| {
            collection.read(ReadPoint::at(Millis(now)), |view| {
                (usage(view, "a_1"), usage(view, ID_INDEX).0)
            })
        };
        collection.read(ReadPoint::at(Millis(6)), |view| {
            for _ in 0..3 {
                view.way("a_1").unwrap().usage.note();
            }
            view.id_usage().note();
        });
        assert_eq!(seen(7), ((3, Millis(5)), 1));
        write(&collection, 8, &|w| {
            assert!(w.alter_index("a_1", hidden(false)))
        });
        assert_eq!(seen(8), ((3, Millis(5)), 1));
        write(&collection, 9, &|w| {
            assert!(w.alter_index("a_1", hidden(true)))
        });
        assert_eq!(seen(9), ((0, Millis(9)), 1));
    }
}
