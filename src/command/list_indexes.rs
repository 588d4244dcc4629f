//! `listIndexes`: lists the indexes of a collection.

use super::{Access, Call, Command, Flags, Needs, Outcome, cursor};
use crate::auth::Action;
use crate::engine::describe::indexes_of;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuf, DocBuilder};

pub(super) const COMMAND: Command = Command::ready(
    "listIndexes",
    Access::Admin,
    "Lists the indexes of a collection.",
    run,
)
.with(Flags::STABLE.and(Flags::SECONDARY).and(Flags::BY_UUID))
.needs(Needs::Collection(Action::ListIndexes));

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut batch_size = None;
    let (mut uuids, mut wrapped) = (false, false);
    for arg in call.args().skip(1) {
        match arg.name() {
            "cursor" => {
                if let Some(options) = arg.doc()? {
                    batch_size = cursor::batch_size("cursor", options)?;
                }
            }
            "includeBuildUUIDs" => uuids = arg.bool()?.unwrap_or(false),
            "includeIndexBuildInfo" => wrapped = arg.bool()?.unwrap_or(false),
            "isTimeseriesNamespace" => {
                arg.bool()?;
            }
            _ => return Err(arg.unknown()),
        }
    }
    let name = call.collection()?;
    if uuids && wrapped {
        return Err(Error::new(
            Code::InvalidOptions,
            "The includeBuildUUIDs flag and includeBuildIndexInfo flag cannot both be set to true",
        ));
    }
    let Some(collection) = call.context.catalog.get(call.database(), name)? else {
        return Err(Error::new(
            Code::NamespaceNotFound,
            format!("ns does not exist: {}.{name}", call.database()),
        ));
    };
    let mut indexes = indexes_of(&collection, call.read_point());
    if wrapped {
        for index in &mut indexes {
            *index = DocBuf::build(|doc| {
                doc.put_doc("spec", index.as_doc());
            });
        }
    }
    let opening = cursor::CursorOptions::plain(call.namespace(name), batch_size);
    cursor::list(call, reply, indexes, opening)
}
