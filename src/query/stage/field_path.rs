//! Dotted paths as the stages write them: names that a client gives to new fields, walked through documents only.

use crate::error::Result;
use crate::query::{Naming, expr};
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

    /// Shows it as a path from the root of a row.
    pub fn names_root(&self, naming: &mut Naming<'_>) {
        naming.parts(self.names.iter().map(|name| &**name));
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
        put(&self.names, doc, &mut builder, &mut Given(value));
        builder.end();
    }

    /// Writes `doc` with what `write` puts under the last name of this path.
    pub fn put_with(
        &self,
        doc: Doc<'_>,
        out: &mut Vec<u8>,
        write: impl FnMut(&mut DocBuilder<'_>, &str),
    ) {
        let mut builder = DocBuilder::begin(out);
        put(&self.names, doc, &mut builder, &mut Written(write));
        builder.end();
    }
}

/// What comes to stand at the end of a path.
trait Content {
    fn put(&mut self, name: &str, out: &mut DocBuilder<'_>);
    /// The field is to be taken away.
    fn is_missing(&self) -> bool;
}

struct Given<'v>(ValueRef<'v>);

struct Written<F>(F);

impl Content for Given<'_> {
    fn put(&mut self, name: &str, out: &mut DocBuilder<'_>) {
        out.put(name, self.0);
    }

    fn is_missing(&self) -> bool {
        self.0.is_missing()
    }
}

impl<F: FnMut(&mut DocBuilder<'_>, &str)> Content for Written<F> {
    fn put(&mut self, name: &str, out: &mut DocBuilder<'_>) {
        (self.0)(out, name);
    }

    fn is_missing(&self) -> bool {
        false
    }
}

fn put(names: &[Box<str>], doc: Doc<'_>, out: &mut DocBuilder<'_>, content: &mut impl Content) {
    let Some((name, deeper)) = names.split_first() else {
        return;
    };
    // What stands before the field and behind it is taken over as it is.
    let body = doc.body();
    let mut rest = doc.iter();
    let mut from_here = rest.rest().len();
    while let Some(elem) = rest.next() {
        if elem.name_bytes() == name.as_bytes() {
            out.put_body(&body[..body.len() - from_here]);
            step(name, deeper, elem.value, out, content);
            out.put_body(rest.rest());
            return;
        }
        from_here = rest.rest().len();
    }
    out.put_body(body);
    step(name, deeper, ValueRef::MISSING, out, content);
}

fn step(
    name: &str,
    deeper: &[Box<str>],
    current: ValueRef<'_>,
    out: &mut DocBuilder<'_>,
    content: &mut impl Content,
) {
    if deeper.is_empty() {
        content.put(name, out);
        return;
    }
    if content.is_missing() && current.ty() != Type::Document {
        out.put(name, current);
        return;
    }
    let mut nested = out.doc(name);
    let within = current.as_doc().unwrap_or(Doc::EMPTY);
    put(deeper, within, &mut nested, content);
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
