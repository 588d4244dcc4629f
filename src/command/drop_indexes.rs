//! `dropIndexes`.

use std::sync::Arc;

use super::args::required;
use super::drained::{Done, rules_after};
use super::{Access, Call, Command, Flags, Needs, Outcome, default_ttl, drained, list_indexes};
use crate::auth::Action;
use crate::error::{Code, Error, Result};
use crate::storage::index::{ID_INDEX, Index};
use crate::storage::ttl::DefaultTtl;
use crate::storage::{View, Writer};
use crate::value::{Doc, DocBuf, DocBuilder, Type, ValueRef};

pub(super) const COMMAND: Command =
    Command::ready("dropIndexes", Access::Admin, "Takes indexes away.", run)
        .alias(&["deleteIndexes"])
        .with(Flags::STABLE.and(Flags::WRITE_CONCERN))
        .needs(Needs::Collection(Action::DropIndex));

/// Which indexes go.
enum Which {
    /// All but the one on `_id`.
    All,
    Names(Vec<String>),
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    let mut index = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "index" => index = Some(arg.value()),
            "collectionUUID" => super::collection_uuid::check(call, arg)?,
            _ => return Err(arg.unknown()),
        }
    }
    let index = required(index, "dropIndexes", "index")?;
    if !matches!(index.ty(), Type::String | Type::Document | Type::Array) {
        return Err(Error::wrong_type(
            "dropIndexes",
            "index",
            index.ty(),
            &[Type::String, Type::Document, Type::Array],
        ));
    }
    let Some(collection) = call.context.catalog.get(call.database(), name) else {
        return Err(Error::new(
            Code::NamespaceNotFound,
            format!("ns not found {}.{name}", call.database()),
        ));
    };
    let which = collection.read(call.read_point(), |view| find(view, index))?;
    // An index may be what documents expire by: nothing that has ended may come back when it goes.
    let which = Arc::new(which);
    let picked = Arc::clone(&which);
    let rules = move |indexes: &[Index]| {
        rules_after(indexes, |index| {
            let stays = index.ready && !picked.picks(&index.spec.name);
            stays.then(|| index.spec.clone())
        })
    };
    let change = move |writer: &mut Writer<'_>| Ok(which.take(writer));
    drained::drain_then(
        call,
        reply,
        Arc::clone(&collection),
        Some(Box::new(rules)),
        Box::new(change),
    )
}

fn find(view: &View<'_>, index: ValueRef<'_>) -> Result<Which> {
    if let Some(name) = index.as_str() {
        if name == "*" {
            return Ok(Which::All);
        }
        return Ok(Which::Names(vec![by_name(view, name)?]));
    }
    if let Some(key) = index.as_doc() {
        return Ok(Which::Names(vec![by_key(view, key)?]));
    }
    let mut names = Vec::new();
    for elem in index.as_array().unwrap_or(Doc::EMPTY) {
        let Some(name) = elem.value.as_str() else {
            return Err(Error::wrong_type(
                "dropIndexes.index",
                elem.name(),
                elem.value.ty(),
                &[Type::String],
            ));
        };
        if name == "*" {
            return Ok(Which::All);
        }
        if names.iter().any(|there| there == name) {
            return Err(not_found(name));
        }
        names.push(by_name(view, name)?);
    }
    Ok(Which::Names(names))
}

fn by_name(view: &View<'_>, name: &str) -> Result<String> {
    if name == "_id_" {
        return Err(Error::new(Code::InvalidOptions, "cannot drop _id index"));
    }
    let is_default = view.ts_index().is_some_and(|ts| ts.name == name);
    if is_default || view.index(name).is_some() {
        return Ok(name.to_owned());
    }
    Err(not_found(name))
}

fn not_found(name: &str) -> Error {
    Error::new(
        Code::IndexNotFound,
        format!("index not found with name [{name}]"),
    )
}

fn by_key(view: &View<'_>, key: Doc<'_>) -> Result<String> {
    if key.count() == 1 && key.get("_id").as_num().is_some_and(|n| n.to_f64() == 1.0) {
        return Err(Error::new(Code::InvalidOptions, "cannot drop _id index"));
    }
    match super::coll_mod::names_by_key(view, key).as_slice() {
        [] => Err(Error::new(
            Code::IndexNotFound,
            format!("can't find index with key: {key}"),
        )),
        [name] => Ok(name.clone()),
        [first, second, ..] => Err(Error::new(
            Code::AmbiguousIndexKeyPattern,
            format!(
                "{} indexes found for key: {key}, identify by name instead. Conflicting indexes: {first}, {second}",
                "2 or more"
            ),
        )),
    }
}

// === impl Which ===

impl Which {
    fn picks(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|picked| picked == name),
        }
    }

    fn take(&self, writer: &mut Writer<'_>) -> Done {
        let before = list_indexes::count(&writer.view());
        let gone = writer
            .drop_indexes(|index| index.spec.name != ID_INDEX && self.picks(&index.spec.name));
        if writer
            .view()
            .ts_index()
            .is_some_and(|ts| self.picks(&ts.name))
        {
            default_ttl::set(writer, DefaultTtl::Off, None);
        }
        let reply = DocBuf::build(|doc| {
            doc.put_i32("nIndexesWas", before);
            if matches!(self, Self::All) {
                doc.put_str("msg", "non-_id indexes dropped for collection");
            }
        });
        Done { reply, gone }
    }
}
