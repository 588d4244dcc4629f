//! `$addFields` and `$set`: further fields, each computed from the document as it came in.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Place;
use super::each::Each;
use crate::aside;
use crate::error::{Error, Result};
use crate::query::expr::FieldPath;
use crate::query::named::Named;
use crate::query::{Expr, Naming, Scope, Vars};
use crate::value::{ArrayBuilder, Doc, DocBuilder, Type, ValueRef, check_size};

/// The fields to set, as a tree: `{"a.b": x, "a.c": y}` and `{a: {b: x, c: y}}` are the same.
#[derive(Default)]
pub struct AddFields {
    children: Named<Child>,
}

enum Child {
    Value(Expr),
    Within(AddFields),
}

/// What all levels share.
struct Run<'r> {
    root: Doc<'r>,
    vars: &'r Vars,
    /// Where the new document begins in its buffer.
    start: usize,
}

pub(super) fn parse_add_fields(value: ValueRef<'_>, place: &Place<'_>) -> Result<Arc<dyn Each>> {
    parse_fields("$addFields", value, place)
}

pub(super) fn parse_set(value: ValueRef<'_>, place: &Place<'_>) -> Result<Arc<dyn Each>> {
    parse_fields("$set", value, place)
}

/// The fields that are set.
pub(super) fn written<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
    for field in spec.as_doc().into_iter().flatten() {
        visit(field.name());
    }
}

fn parse_fields(
    name: &'static str,
    value: ValueRef<'_>,
    place: &Place<'_>,
) -> Result<Arc<dyn Each>> {
    let spec = value.as_doc().ok_or_else(|| {
        Error::location(
            40272,
            format!(
                "{name} specification stage must be an object, got {}",
                value.ty().alias()
            ),
        )
    })?;
    let fields = AddFields::parse(spec, place.scope)
        .map_err(|error| error.caused(&format!("Invalid {name}")))?;
    Ok(Arc::new(fields))
}

// === impl AddFields ===

impl AddFields {
    pub fn parse(spec: Doc<'_>, scope: &Scope) -> Result<Self> {
        let mut root = Self::default();
        for elem in spec {
            let path = FieldPath::parse(elem.name())?.into_path();
            let names: Vec<&str> = path.parts().collect();
            root.insert(&names, elem.value, scope, path.as_str())?;
        }
        Ok(root)
    }

    fn names_at(&self, naming: &mut Naming<'_>, at_root: bool) {
        for (name, child) in self.children.iter() {
            naming.name(name, at_root);
            match child {
                Child::Value(expr) => naming.expr(expr),
                Child::Within(fields) => fields.names_at(naming, false),
            }
        }
    }

    /// Puts a value, or the fields of a nested document, at a path.
    fn insert(
        &mut self,
        names: &[&str],
        value: ValueRef<'_>,
        scope: &Scope,
        whole: &str,
    ) -> Result<()> {
        let Some((&name, deeper)) = names.split_first() else {
            return Ok(());
        };
        let conflict = || {
            Error::location(
                40176,
                format!(
                    "specification contains two conflicting paths. Cannot specify '{whole}' twice or beside a part of it"
                ),
            )
        };
        let found = self.children.find(name.as_bytes());
        if deeper.is_empty() {
            // A document of plain names is a tree of its own; an empty one is a value.
            let nested = value.as_doc().filter(|doc| {
                doc.first()
                    .is_some_and(|first| !first.name().starts_with('$'))
            });
            let Some(nested) = nested else {
                if found.is_some() {
                    return Err(conflict());
                }
                if value.as_doc().is_some_and(|doc| doc.count() > 1) {
                    return Err(Error::location(
                        40181,
                        format!(
                            "an expression specification must contain exactly one field, the name of the expression: {value}"
                        ),
                    ));
                }
                let expr = Expr::parse(value, scope)?;
                self.children.push(name, Child::Value(expr));
                return Ok(());
            };
            if found.is_some() {
                return Err(conflict());
            }
            let mut within = Self::default();
            for elem in nested {
                let inner = elem.name();
                if inner.contains('.') {
                    return Err(Error::location(
                        40183,
                        format!(
                            "FieldPath field names may not contain '.' in a sub-object: {inner}"
                        ),
                    ));
                }
                if inner.starts_with('$') {
                    return Err(Error::location(
                        40181,
                        format!(
                            "an expression specification must contain exactly one field, the name of the expression: {inner}"
                        ),
                    ));
                }
                FieldPath::parse(inner)?;
                within.insert(&[inner], elem.value, scope, &format!("{whole}.{inner}"))?;
            }
            self.children.push(name, Child::Within(within));
            return Ok(());
        }
        let at = found.unwrap_or_else(|| self.children.push(name, Child::Within(Self::default())));
        match self.children.at_mut(at) {
            Some(Child::Within(within)) => within.insert(deeper, value, scope, whole),
            _ => Err(conflict()),
        }
    }

    fn write(&self, doc: Doc<'_>, run: &Run<'_>, out: &mut DocBuilder<'_>) -> Result<()> {
        let mut done: SmallVec<[bool; 16]> = SmallVec::from_elem(false, self.children.len());
        let mut left = self.children.len();
        let mut rest = doc.iter();
        // Once every field has been met, what is left is taken over whole.
        while left > 0 {
            let Some(elem) = rest.next() else { break };
            let found = self.children.find(elem.name_bytes());
            match found {
                Some(at) if !done[at] => {
                    done[at] = true;
                    left -= 1;
                    self.child(at, elem.value, run, out)?;
                }
                _ => {
                    out.put(elem.name(), elem.value);
                }
            }
        }
        out.put_body(rest.rest());
        for (at, done) in done.iter().enumerate() {
            if !done {
                self.child(at, ValueRef::MISSING, run, out)?;
            }
        }
        Ok(())
    }

    fn child(
        &self,
        at: usize,
        current: ValueRef<'_>,
        run: &Run<'_>,
        out: &mut DocBuilder<'_>,
    ) -> Result<()> {
        let Some((name, child)) = self.children.at(at) else {
            return Ok(());
        };
        match child {
            Child::Value(expr) => {
                out.put(name, expr.eval(run.root, run.vars)?.as_ref());
                // A short list of fields, or one in a long array, can ask for any amount.
                check_size(out.reached() - run.start)?;
            }
            Child::Within(within) => match current.ty() {
                Type::Array => {
                    let mut array = out.array(name);
                    within.elements(Doc::new(current.data()), run, &mut array)?;
                    array.end();
                }
                _ => {
                    let mut nested = out.doc(name);
                    within.write(current.as_doc().unwrap_or(Doc::EMPTY), run, &mut nested)?;
                    nested.end();
                }
            },
        }
        Ok(())
    }

    /// Every element of an array gets the fields; one that is no document becomes one.
    fn elements(&self, array: Doc<'_>, run: &Run<'_>, out: &mut ArrayBuilder<'_>) -> Result<()> {
        for elem in array {
            // What is computed for each may come to nothing, and takes its time all the same.
            aside::tick(u32::try_from(self.children.len()).unwrap_or(u32::MAX))?;
            if elem.value.ty() == Type::Array {
                let mut nested = out.array();
                self.elements(Doc::new(elem.value.data()), run, &mut nested)?;
                nested.end();
            } else {
                let mut nested = out.doc();
                self.write(elem.value.as_doc().unwrap_or(Doc::EMPTY), run, &mut nested)?;
                nested.end();
            }
        }
        Ok(())
    }
}

impl Each for AddFields {
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let root = doc;
        let mut builder = DocBuilder::begin(out);
        self.write(doc, &Run { root, vars, start }, &mut builder)?;
        builder.end();
        check_size(out.len() - start)?;
        Ok(true)
    }

    fn names(&self, naming: &mut Naming<'_>) {
        self.names_at(naming, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{DocBuf, Millis};
    use bson::{Document, bson, doc};

    #[test]
    fn fields_are_set_at_every_depth() {
        let rows: Vec<(Document, Document, Document)> = vec![
            (
                doc! {"a": 10, "b": 20},
                doc! {"a": "$b", "b": "$a"},
                doc! {"a": 20, "b": 10},
            ),
            (
                doc! {"x": 5},
                doc! {"a": 1, "b": "$a"},
                doc! {"x": 5, "a": 1},
            ),
            (doc! {}, doc! {"a.b.c": 1}, doc! {"a": {"b": {"c": 1}}}),
            (
                doc! {"a": {"x": 1, "y": 2}},
                doc! {"a": {"z": 3}},
                doc! {"a": {"x": 1, "y": 2, "z": 3}},
            ),
            (doc! {"a": {"x": 1}}, doc! {"a": {}}, doc! {"a": {}}),
            (doc! {"a": 4}, doc! {"a.b": 1}, doc! {"a": {"b": 1}}),
            (
                doc! {"a": [{"x": 1}, 2, [{"x": 3}]]},
                doc! {"a.y": 9},
                doc! {"a": [bson!({"x": 1, "y": 9}), bson!({"y": 9}), bson!([{"x": 3, "y": 9}])]},
            ),
            (
                doc! {"a": {"x": 1}, "z": 0},
                doc! {"a.b": 2, "a.c": 3},
                doc! {"a": {"x": 1, "b": 2, "c": 3}, "z": 0},
            ),
            (doc! {"a": 1, "b": 2}, doc! {"a": "$$REMOVE"}, doc! {"b": 2}),
        ];
        for (before, spec, after) in rows {
            let fields = AddFields::parse(DocBuf::from(&spec).as_doc(), &Scope::new()).unwrap();
            let mut out = Vec::new();
            fields
                .apply(
                    DocBuf::from(&before).as_doc(),
                    &Vars::at(Millis(0)),
                    &mut out,
                )
                .unwrap();
            assert_eq!(
                Document::from_reader(&out[..]).unwrap(),
                after,
                "{before} {spec}"
            );
        }
    }

    #[test]
    fn wrong_specifications_have_their_codes() {
        for (spec, code) in [
            (doc! {"": 1}, 40352),
            (doc! {"$a": 1}, 16410),
            (doc! {"a": 1, "a.b": 2}, 40176),
            (doc! {"a.b": 1, "a": 2}, 40176),
            (doc! {"a": {"x.y": 1}}, 40183),
        ] {
            let error = AddFields::parse(DocBuf::from(&spec).as_doc(), &Scope::new())
                .err()
                .unwrap();
            assert_eq!(error.code().number(), code, "{spec}");
        }
    }
}
