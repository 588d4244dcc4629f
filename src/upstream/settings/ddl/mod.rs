//! The commands that set and show DefaultTTL, TTL indexes on dates and the indexing mode.
//!
//! A door takes the client's request. It lets the cluster do its own part over the client's connection, so the client's
//! rights hold; where nothing is left for the cluster to do, it sends a form of the command that changes nothing, to have
//! the rights checked. Codes and messages are those of the server that stores documents itself.

mod coll_mod;
mod create;
mod create_indexes;
mod custom_action;
mod drop;
mod drop_indexes;
mod list;
mod switch;
mod validator;

pub use coll_mod::coll_mod;
pub use create::create;
pub use create_indexes::create_indexes;
pub use custom_action::custom_action;
pub use drop::{Replacing, drop_collection, drop_database, rename, replacing};
pub use drop_indexes::drop_indexes;
pub use list::{list_collections, list_databases, list_indexes};

use bytes::Bytes;

use super::RuleSettings;
use super::collection::CollectionInfo;
use super::record::{SettingRecord, is_named};
use crate::error::{Code, Error, Result};
use crate::upstream::{Ask, Lost};
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef, is_true};
use crate::wire::Request;

/// The database that a request names.
fn database(request: &Request) -> Result<&str> {
    let named = request.body().get("$db").as_str();
    named
        .or(request.query_database.as_deref())
        .ok_or_else(|| Error::missing_field("", "$db"))
}

/// The collection that is the value of the command's first field.
fn collection(request: &Request) -> Result<&str> {
    let first = request.body().first();
    let name = first.and_then(|elem| elem.value.as_str());
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| Error::bad_value("a collection must be named"))
}

/// Returns the documents of a list, which may also have come outside the command document.
fn documents<'a>(request: &'a Request, name: &str) -> Vec<Doc<'a>> {
    if let Some(sequence) = request.sequence(name) {
        return sequence.iter().collect();
    }
    let list = request.body().get(name).as_array().unwrap_or(Doc::EMPTY);
    list.iter().filter_map(|elem| elem.value.as_doc()).collect()
}

/// Returns the request with some fields replaced. `write` writes a replacement and returns `true`, or returns `false` to
/// keep the field.
fn rewritten(
    request: &Request,
    mut write: impl FnMut(&str, ValueRef<'_>, &mut DocBuilder<'_>) -> bool,
) -> Request {
    let body = DocBuf::build(|out| {
        for elem in request.body() {
            if !write(elem.name(), elem.value, out) {
                out.put(elem.name(), elem.value);
            }
        }
    });
    Request {
        body: Bytes::from(body.into_bytes()),
        ..request.clone()
    }
}

/// Sends a command that makes an index unique. If the cluster finds keys that several documents hold, those that have ended are
/// deleted, and it is asked once more.
async fn ask_once_free(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: Request,
) -> Result<Bytes, Lost> {
    let (database, name) = (database(&request)?, collection(&request)?);
    loop {
        let reply = ask.ask(request.clone()).await?;
        let code = Doc::new(&reply).get("code").as_i32().map(Code::numbered);
        if !matches!(
            code,
            Some(Code::DuplicateKey | Code::CannotConvertIndexToUnique)
        ) {
            return Ok(reply);
        }
        let rules = settings.rules(database, name).await?;
        let freed = settings.free_ended(database, name, &rules, settings.now());
        if freed.await? == 0 {
            return Ok(reply);
        }
    }
}

/// Returns whether the cluster did what it was asked.
fn is_ok(reply: &Bytes) -> bool {
    is_true(Doc::new(reply).get("ok"))
}

/// Returns a reply with these numbers instead of the cluster's.
fn with_numbers(reply: &Bytes, numbers: &[(&str, usize)]) -> Bytes {
    let body = DocBuf::build(|out| {
        for elem in Doc::new(reply) {
            match numbers.iter().find(|(name, _)| *name == elem.name()) {
                Some(&(name, number)) => {
                    out.put_i32(name, i32::try_from(number).unwrap_or(i32::MAX));
                }
                None => {
                    out.put(elem.name(), elem.value);
                }
            }
        }
    });
    Bytes::from(body.into_bytes())
}

/// Returns how many indexes a client sees.
fn count_indexes(setting: &SettingRecord, found: &CollectionInfo) -> usize {
    found.client_indexes().count() + usize::from(virtual_index(setting, found).is_some())
}

/// Returns the name of the index that shows the default, if no index of the cluster does.
fn virtual_index<'a>(setting: &'a SettingRecord, found: &CollectionInfo) -> Option<&'a str> {
    let name = setting.ts_index.as_ref().map(|index| &*index.name)?;
    let real = |index: &bson::Document| is_named(index, name);
    (setting.is_on() && !found.client_indexes().any(real)).then_some(name)
}

fn no_index(name: &str) -> Error {
    Error::new(
        Code::IndexNotFound,
        format!("index not found with name [{name}]"),
    )
}

fn invalid(why: impl Into<String>) -> Error {
    Error::new(Code::InvalidOptions, why)
}
