//! The walk of expressions: an array on the way becomes the array of the values in its documents.

use super::Path;
use super::dotted::PathRest;
use crate::value::{ArrayBuilder, Doc, Type, Val, Value, ValueRef};

impl Path {
    /// Returns the result of the expression `$path`. An array on the way becomes the array of the values in its documents.
    /// Numbers in the path are plain names.
    #[inline]
    pub fn get_expr<'a>(&self, doc: Doc<'a>) -> Val<'a> {
        if self.len() == 1 {
            return Val::Ref(doc.get(self.as_str()));
        }
        expression(self.rest(), doc)
    }

    /// Returns the result of [`Path::get_expr`] for a value that need not be a document, as in `$$variable.path`.
    pub fn get_expr_in<'a>(&self, value: ValueRef<'a>) -> Val<'a> {
        match value.ty() {
            Type::Document => expression(self.rest(), Doc::new(value.data())),
            Type::Array => expression_array(self.rest(), Doc::new(value.data())),
            _ => Val::MISSING,
        }
    }
}

fn expression<'a>(mut rest: PathRest<'_>, mut doc: Doc<'a>) -> Val<'a> {
    while let Some((name, _, next)) = rest.split() {
        let value = doc.get(name);
        if next.is_end() {
            return Val::Ref(value);
        }
        match value.ty() {
            Type::Document => doc = Doc::new(value.data()),
            Type::Array => return expression_array(next, Doc::new(value.data())),
            _ => return Val::MISSING,
        }
        rest = next;
    }
    Val::MISSING
}

/// Returns the values in the documents of the array. Ignores other elements, including nested arrays.
fn expression_array<'a>(rest: PathRest<'_>, array: Doc<'a>) -> Val<'a> {
    let mut out = Vec::new();
    let mut builder = ArrayBuilder::begin(&mut out);
    for elem in array {
        if let Some(doc) = elem.value.as_doc() {
            let value = expression(rest, doc);
            if !value.as_ref().is_missing() {
                builder.push(value.as_ref());
            }
        }
    }
    builder.end();
    Val::Own(Value::array(out))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::value::DocBuf;

    #[test]
    fn an_expression_walks() {
        for (path, document, expected) in [
            ("a", doc! {"a": [1]}, doc! {"v": [1]}),
            ("a.b", doc! {"a": {"b": 1}}, doc! {"v": 1}),
            ("a.b", doc! {"a": 1}, doc! {}),
            ("a.b", doc! {"a": []}, doc! {"v": []}),
            (
                "a.b",
                doc! {"a": [{"b": 1}, 7, {"c": 2}, [{"b": 3}]]},
                doc! {"v": [1]},
            ),
            ("a.0", doc! {"a": [{"b": 1}]}, doc! {"v": []}),
            (
                "a.b.c",
                doc! {"a": [{"b": [{"c": 1}]}, {"b": {"c": 2}}]},
                doc! {"v": [[1], 2]},
            ),
        ] {
            let document = DocBuf::from(document);
            let mut got = DocBuf::new();
            got.put("v", Path::parse(path).get_expr(document.as_doc()).as_ref());
            assert_eq!(got, DocBuf::from(expected), "{path} {document:?}");
        }
    }
}
