//! The update language: operators, replacement documents, pipelines, and what an upsert inserts.
//!
//! [`Update::parse`] turns the client's `u` into a typed tree or an error in mongod's words. Operators become a tree of
//! paths ([`tree`]) whose leaves are [`Modify`](modify::Modify) objects, one file per family; [`rewrite`] then walks a
//! document's bytes once beside that tree and writes the new document: what no path touches is copied as it stands, a
//! leaf replaces its value, new fields follow in mongod's order. Nothing is changed in place, so an update that fails
//! leaves nothing behind. Where every new value is as wide as the old one, [`patch`] tells just the bytes that differ. This
//! room knows no collection: which document is meant, and which array index `$` stands for, is the caller's business.

mod add_to_set;
mod arithmetic;
mod array_filter;
mod bit;
mod check;
mod compare;
mod current_date;
mod modify;
mod parse;
mod patch;
mod path;
mod pipeline;
mod pop;
mod pull;
mod push;
mod rename;
mod replace;
mod rewrite;
mod set;
mod tree;
mod unset;
mod upsert;

use crate::error::Result;
use crate::query::Scope;
use crate::value::ValueRef;

use modify::Leaf;

pub use check::{MAX_DEPTH, check_id, depth};
pub use parse::{Apply, Style, Update};

/// One update operator.
pub struct Operator {
    pub name: &'static str,
    pub status: Status,
}

/// How an operator's argument for one field is read. `$rename` alone touches two paths.
#[derive(Clone, Copy)]
pub enum Status {
    Ready(fn(&Argument<'_>) -> Result<Leaf>),
    Rename,
}

/// `{$operator: {field: value}}`, the part that an operator parses.
pub struct Argument<'a> {
    pub field: &'a str,
    pub value: ValueRef<'a>,
    pub scope: &'a Scope,
}

/// Every update operator, sorted by name.
pub static UPDATES: &[Operator] = &[
    ready("$addToSet", add_to_set::parse),
    ready("$bit", bit::parse),
    ready("$currentDate", current_date::parse),
    ready("$inc", arithmetic::parse_inc),
    ready("$max", compare::parse_max),
    ready("$min", compare::parse_min),
    ready("$mul", arithmetic::parse_mul),
    ready("$pop", pop::parse),
    ready("$pull", pull::parse_pull),
    ready("$pullAll", pull::parse_pull_all),
    ready("$push", push::parse),
    Operator {
        name: "$rename",
        status: Status::Rename,
    },
    ready("$set", set::parse_set),
    ready("$setOnInsert", set::parse_set_on_insert),
    ready("$unset", unset::parse),
];

const fn ready(name: &'static str, parse: fn(&Argument<'_>) -> Result<Leaf>) -> Operator {
    Operator {
        name,
        status: Status::Ready(parse),
    }
}

fn operator(name: &[u8]) -> Option<&'static Operator> {
    let at = UPDATES
        .binary_search_by(|row| row.name.as_bytes().cmp(name))
        .ok()?;
    UPDATES.get(at)
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
