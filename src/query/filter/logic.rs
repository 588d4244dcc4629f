//! `$and`, `$or`, `$nor`, `$not`, and the two constants.

use super::{
    Node, Pattern, Test, integer,
    parse::{self, Cx, Site},
};
use crate::{
    error::{Error, Result},
    value::{Type, ValueRef},
};

fn branches(cx: &Cx<'_>, name: &str, arg: ValueRef<'_>) -> Result<Vec<Node>> {
    let Some(array) = arg.as_array() else {
        return Err(Error::bad_value(format!("{name} must be an array")));
    };
    if array.is_empty() {
        return Err(Error::bad_value("$and/$or/$nor must be a nonempty array"));
    }
    array
        .iter()
        .map(|elem| match elem.value.as_doc() {
            Some(doc) => parse::document(cx, doc),
            None => Err(Error::bad_value(
                "$or/$and/$nor entries need to be full objects",
            )),
        })
        .collect()
}

pub(super) fn and(cx: &Cx<'_>, name: &str, arg: ValueRef<'_>) -> Result<Option<Node>> {
    Ok(Some(Node::and(branches(cx, name, arg)?)))
}

pub(super) fn or(cx: &Cx<'_>, name: &str, arg: ValueRef<'_>) -> Result<Option<Node>> {
    let mut nodes = branches(cx, name, arg)?;
    Ok(Some(if nodes.len() == 1 {
        nodes.remove(0)
    } else {
        Node::Or(nodes)
    }))
}

pub(super) fn nor(cx: &Cx<'_>, name: &str, arg: ValueRef<'_>) -> Result<Option<Node>> {
    Ok(Some(Node::Nor(branches(cx, name, arg)?)))
}

pub(super) fn not(cx: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    let node = match arg.ty() {
        Type::Regex => Node::field(site.path, Test::Regex(Pattern::of(arg)?)),
        Type::Document => {
            let doc = crate::value::Doc::new(arg.data());
            if doc.is_empty() {
                return Err(Error::bad_value("$not cannot be empty"));
            }
            let mut nodes = Vec::new();
            parse::conditions(cx, site.path, doc, &mut nodes)?;
            Node::and(nodes)
        }
        _ => return Err(Error::bad_value("$not needs a regex or a document")),
    };
    Ok(Some(Node::not(node)))
}

fn constant(name: &str, arg: ValueRef<'_>, node: Node) -> Result<Option<Node>> {
    if integer::long(name, arg)? != 1 {
        return Err(Error::failed_to_parse(format!(
            "{name} must be an integer value of 1"
        )));
    }
    Ok(Some(node))
}

pub(super) fn always_true(_: &Cx<'_>, name: &str, arg: ValueRef<'_>) -> Result<Option<Node>> {
    constant(name, arg, Node::True)
}

pub(super) fn always_false(_: &Cx<'_>, name: &str, arg: ValueRef<'_>) -> Result<Option<Node>> {
    constant(name, arg, Node::False)
}
