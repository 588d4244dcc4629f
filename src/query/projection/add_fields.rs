//! Parses the specification of `$addFields` into the tree of a projection.

use super::tree::{Projection, ProjectionMode, ProjectionNode, ProjectionTree};
use crate::error::{Error, Result};
use crate::query::expr::FieldPath;
use crate::query::{Expr, Scope};
use crate::value::{Doc, Path, Value, ValueRef};

pub(super) fn parse(spec: Doc<'_>, scope: &Scope) -> Result<Projection> {
    let mut root = ProjectionTree::default();
    let mut failure = None;
    for elem in spec {
        let path = FieldPath::parse(elem.name())?.into_path();
        let mut leaf = |value: ValueRef<'_>| match Expr::parse(value, scope) {
            Ok(expr) => expr,
            Err(error) => {
                failure.get_or_insert(error);
                Expr::Const(Value::missing())
            }
        };
        add(&mut root, &path, elem.value, &mut leaf, elem.name())?;
    }
    if let Some(error) = failure {
        return Err(error);
    }
    root.finish();
    Ok(Projection {
        mode: ProjectionMode::Add,
        root,
    })
}

/// Adds a value, or the fields of a nested document: `{"a.b": x, "a.c": y}` and `{a: {b: x, c: y}}` mean the same. `whole`
/// is the path from the root. MongoDB looks at all paths before it parses the first expression, so `leaf` keeps its errors.
fn add(
    parent: &mut ProjectionTree,
    path: &Path,
    value: ValueRef<'_>,
    leaf: &mut dyn FnMut(ValueRef<'_>) -> Expr,
    whole: &str,
) -> Result<()> {
    let conflict = |_| {
        Error::location(
            40176,
            format!(
                "specification contains two conflicting paths. Cannot specify '{whole}' twice or beside a part of it"
            ),
        )
    };
    let Some(nested) = nested(value) else {
        let slot = parent.slot(path).map_err(conflict)?;
        if value.as_doc().is_some_and(|doc| doc.count() > 1) {
            return Err(several_names(value));
        }
        slot.fill(ProjectionNode::Compute(leaf(value)));
        return Ok(());
    };
    let tree = parent.within(path).map_err(conflict)?;
    for elem in nested {
        let name = elem.name();
        if name.contains('.') {
            return Err(Error::location(
                40183,
                format!("FieldPath field names may not contain '.' in a sub-object: {name}"),
            ));
        }
        if name.starts_with('$') {
            return Err(several_names(name));
        }
        if name.is_empty() {
            return Err(Error::location(40353, "FieldPath must not end with a '.'."));
        }
        let path = FieldPath::parse(name)?.into_path();
        add(tree, &path, elem.value, leaf, &format!("{whole}.{name}"))?;
    }
    Ok(())
}

/// Returns a document of plain names, which is a tree of its own. An empty document is a value.
fn nested(value: ValueRef<'_>) -> Option<Doc<'_>> {
    let doc = value.as_doc()?;
    (!doc.first()?.name().starts_with('$')).then_some(doc)
}

fn several_names(found: impl std::fmt::Display) -> Error {
    Error::location(
        40181,
        format!(
            "an expression specification must contain exactly one field, the name of the expression: {found}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::value::DocBuf;

    #[test]
    fn wrong_specifications_have_their_codes() {
        for (spec, code) in [
            (doc! {"": 1}, 40352),
            (doc! {"$a": 1}, 16410),
            (doc! {"a": 1, "a.b": 2}, 40176),
            (doc! {"a.b": 1, "a": 2}, 40176),
            (doc! {"a.b": 1, "a": {"b": 2}}, 40176),
            (doc! {"a": {"x.y": 1}}, 40183),
            (doc! {"a": {"x": 1, "$y": 1}}, 40181),
            (doc! {"a": {"$abs": 1, "$y": 1}}, 40181),
        ] {
            let error = parse(DocBuf::from(&spec).as_doc(), &Scope::new()).unwrap_err();
            assert_eq!(error.code().number(), code, "{spec}");
        }
    }
}
