//! Dotted paths as the stages write them: names that a client gives to new fields, walked through documents only.

use crate::error::Result;
use crate::query::expr;
use crate::value::{Doc, DocBuilder, Type, ValueRef};

/// `a.b.c`, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldPath {
    text: Box<str>,
    names: Vec<Box<str>>,
}

// === impl FieldPath ===

impl FieldPath {
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = expr::FieldPath::parse(text)?;
        let names = parsed.path().parts().map(Box::from).collect();
        Ok(Self {
            text: text.into(),
            names,
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// The value there, documents only: an array on the way hides what is in it.
    pub fn get<'d>(&self, doc: Doc<'d>) -> ValueRef<'d> {
        let mut value = ValueRef::document(doc);
        for name in &self.names {
            match value.as_doc() {
                Some(doc) => value = doc.get(name.as_bytes()),
                None => return ValueRef::MISSING,
            }
        }
        value
    }

    /// Writes `doc` with `value` at this path (a missing value takes the field away). What stands on the way and is no
    /// document gives way to one.
    pub fn put(&self, doc: Doc<'_>, value: ValueRef<'_>, out: &mut Vec<u8>) {
        let mut builder = DocBuilder::begin(out);
        put(&self.names, doc, value, &mut builder);
        builder.end();
    }
}

fn put(names: &[Box<str>], doc: Doc<'_>, value: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let Some((name, deeper)) = names.split_first() else {
        return;
    };
    let mut done = false;
    let mut rest = doc.iter();
    while let Some(elem) = rest.next() {
        if done || elem.name_bytes() != name.as_bytes() {
            out.put(elem.name(), elem.value);
            continue;
        }
        done = true;
        step(name, deeper, elem.value, value, out);
        // The fields behind it are taken over as they stand.
        out.put_body(rest.rest());
        break;
    }
    if !done {
        step(name, deeper, ValueRef::MISSING, value, out);
    }
}

fn step(
    name: &str,
    deeper: &[Box<str>],
    current: ValueRef<'_>,
    value: ValueRef<'_>,
    out: &mut DocBuilder<'_>,
) {
    if deeper.is_empty() {
        out.put(name, value);
        return;
    }
    if value.is_missing() && current.ty() != Type::Document {
        out.put(name, current);
        return;
    }
    let mut nested = out.doc(name);
    put(
        deeper,
        current.as_doc().unwrap_or(Doc::EMPTY),
        value,
        &mut nested,
    );
    nested.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DocBuf;
    use bson::doc;

    #[test]
    fn bad_paths_have_their_codes() {
        for (text, code) in [
            ("", 40352),
            ("a.", 40353),
            (".", 40353),
            ("$.", 40353),
            (".a", 15998),
            ("a..b", 15998),
            ("a.$b", 16410),
            ("a\0b", 16411),
        ] {
            let error = FieldPath::parse(text).unwrap_err();
            assert_eq!(error.code().number(), code, "{text}");
        }
    }

    #[test]
    fn values_are_put_where_the_path_leads() {
        for (before, path, after) in [
            (doc! {"a": 1, "b": 2}, "a", doc! {"a": 9, "b": 2}),
            (doc! {"b": 2}, "a", doc! {"b": 2, "a": 9}),
            (
                doc! {"a": {"b": 1, "c": 2}, "d": 3},
                "a.b",
                doc! {"a": {"b": 9, "c": 2}, "d": 3},
            ),
            (doc! {"a": 1}, "a.b.c", doc! {"a": {"b": {"c": 9}}}),
            (doc! {"a": [1]}, "a.b", doc! {"a": {"b": 9}}),
        ] {
            let mut out = Vec::new();
            let nine = crate::value::Value::int32(9);
            FieldPath::parse(path).unwrap().put(
                DocBuf::from(&before).as_doc(),
                nine.as_ref(),
                &mut out,
            );
            assert_eq!(out, after.to_vec().unwrap(), "{before} {path}");
        }
        let mut out = Vec::new();
        let before = DocBuf::from(doc! {"a": {"b": 1, "c": 2}});
        FieldPath::parse("a.b")
            .unwrap()
            .put(before.as_doc(), ValueRef::MISSING, &mut out);
        assert_eq!(out, doc! {"a": {"c": 2}}.to_vec().unwrap());
    }
}
