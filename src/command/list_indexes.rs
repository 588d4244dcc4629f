//! `listIndexes`.

use super::list_collections::read_batch_size;
use super::{Access, Call, Command, Flags, Outcome, cursor};
use crate::error::{Code, Error, Result};
use crate::storage::View;
use crate::value::{DocBuf, DocBuilder};

pub(super) const COMMAND: Command = Command::ready(
    "listIndexes",
    Access::Admin,
    "Lists the indexes of a collection.",
    run,
)
.with(Flags::STABLE.and(Flags::SECONDARY));

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    let mut batch_size = None;
    let (mut uuids, mut wrapped) = (false, false);
    for arg in call.args().skip(1) {
        match arg.name() {
            "cursor" => batch_size = arg.doc()?.map(read_batch_size).transpose()?.flatten(),
            "includeBuildUUIDs" => uuids = arg.bool()?.unwrap_or(false),
            "includeIndexBuildInfo" => wrapped = arg.bool()?.unwrap_or(false),
            "isTimeseriesNamespace" => {
                arg.bool()?;
            }
            _ => return Err(arg.unknown()),
        }
    }
    if uuids && wrapped {
        return Err(super::args::unknown("listIndexes", "includeBuildUUIDs"));
    }
    let Some(collection) = call.context.catalog.get(call.database(), name) else {
        return Err(Error::new(
            Code::NamespaceNotFound,
            format!("ns does not exist: {}.{name}", call.database()),
        ));
    };
    let mut indexes = collection.read(call.now, describe);
    if wrapped {
        for index in &mut indexes {
            *index = DocBuf::build(|doc| {
                doc.put_doc("spec", index.as_doc());
            });
        }
    }
    let opening = cursor::Opening {
        namespace: call.namespace(name),
        batch_size,
        single_batch: false,
        no_timeout: false,
    };
    cursor::open(call, reply, cursor::listed(indexes), opening)
}

/// Every index as a client sees it: `_id` first, then in the order in which they were made; the default last, unless an
/// index of that name serves it.
pub(super) fn describe(view: &View<'_>) -> Vec<DocBuf> {
    let mut all = vec![DocBuf::build(put_id_index)];
    let seconds = view.default_ttl().seconds();
    let shown = view.ts_index();
    for index in view.indexes().iter().filter(|index| index.ready) {
        let mut doc = DocBuf::build(|doc| index.spec.describe(doc));
        if let (Some(seconds), Some(ts)) = (seconds, shown)
            && ts.name == index.spec.name
        {
            doc.put(
                "expireAfterSeconds",
                crate::value::Value::int32(seconds).as_ref(),
            );
        }
        all.push(doc);
    }
    if let (Some(seconds), Some(ts)) = (seconds, shown)
        && view.index(&ts.name).is_none()
    {
        all.push(DocBuf::build(|doc| {
            doc.put_i32("v", 2)
                .put_doc("key", ts.key.as_doc())
                .put_str("name", &ts.name)
                .put_i32("expireAfterSeconds", seconds);
        }));
    }
    all
}

pub(super) fn put_id_index(doc: &mut DocBuilder<'_>) {
    doc.put_i32("v", 2);
    let mut key = doc.doc("key");
    key.put_i32("_id", 1);
    key.end();
    doc.put_str("name", "_id_");
}

/// How many indexes a client sees.
pub(super) fn count(view: &View<'_>) -> i32 {
    let own = view.indexes().iter().filter(|index| index.ready).count();
    let shown = view
        .ts_index()
        .is_some_and(|ts| view.index(&ts.name).is_none());
    i32::try_from(1 + own + usize::from(shown)).unwrap_or(i32::MAX)
}
