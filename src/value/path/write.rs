//! Writes a field at a path, through documents only, for stages.

use super::Path;
use super::dotted::PathRest;
use crate::value::{Doc, DocBuilder, Type, ValueRef};

impl Path {
    /// Writes `doc` with `value` at this path. A value on the way that is not a document is replaced by one. A missing
    /// value removes the field and replaces nothing on the way.
    pub fn put(&self, doc: Doc<'_>, value: ValueRef<'_>, out: &mut Vec<u8>) {
        let mut builder = DocBuilder::begin(out);
        put(self.rest(), doc, &mut builder, &mut FieldValue(value));
        builder.end();
    }

    /// Writes `doc` with the field that `write` writes under the last name of this path.
    pub fn put_with(
        &self,
        doc: Doc<'_>,
        out: &mut Vec<u8>,
        write: impl FnMut(&mut DocBuilder<'_>, &str),
    ) {
        let mut builder = DocBuilder::begin(out);
        put(self.rest(), doc, &mut builder, &mut FieldWriter(write));
        builder.end();
    }
}

/// The field at the end of a path.
trait PathContent {
    fn put(&mut self, name: &str, out: &mut DocBuilder<'_>);
    /// Returns whether the field is to be removed.
    fn is_missing(&self) -> bool;
}

struct FieldValue<'v>(ValueRef<'v>);

struct FieldWriter<F>(F);

impl PathContent for FieldValue<'_> {
    fn put(&mut self, name: &str, out: &mut DocBuilder<'_>) {
        out.put(name, self.0);
    }

    fn is_missing(&self) -> bool {
        self.0.is_missing()
    }
}

impl<F: FnMut(&mut DocBuilder<'_>, &str)> PathContent for FieldWriter<F> {
    fn put(&mut self, name: &str, out: &mut DocBuilder<'_>) {
        (self.0)(out, name);
    }

    fn is_missing(&self) -> bool {
        false
    }
}

fn put(path: PathRest<'_>, doc: Doc<'_>, out: &mut DocBuilder<'_>, content: &mut impl PathContent) {
    let Some((name, _, deeper)) = path.split() else {
        return;
    };
    // The bytes before the field and after it are copied as they are.
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
    deeper: PathRest<'_>,
    current: ValueRef<'_>,
    out: &mut DocBuilder<'_>,
    content: &mut impl PathContent,
) {
    if deeper.is_end() {
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
    fn values_are_written_at_the_end_of_the_path() {
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
            Path::parse(path).put(DocBuf::from(&before).as_doc(), nine.as_ref(), &mut out);
            assert_eq!(out, after.to_vec().unwrap(), "{before} {path}");
        }
        let mut out = Vec::new();
        let before = DocBuf::from(doc! {"a": {"b": 1, "c": 2}});
        Path::parse("a.b").put(before.as_doc(), ValueRef::MISSING, &mut out);
        assert_eq!(out, doc! {"a": {"c": 2}}.to_vec().unwrap());
    }
}
