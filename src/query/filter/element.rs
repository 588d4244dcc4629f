//! `$exists` and `$type`.

use super::{
    Node, Test, TypeSet,
    parse::{Cx, Site},
};
use crate::{error::Result, query::expr::is_true, value::ValueRef};

pub(super) fn exists(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    let node = Node::field(site.path, Test::Exists);
    Ok(Some(if is_true(arg) { node } else { Node::not(node) }))
}

pub(super) fn is_type(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    let types = TypeSet::parse(site.path, arg)?;
    Ok(Some(Node::field(site.path, Test::Type(types))))
}
