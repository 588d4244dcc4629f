//! Dotted paths, and the two ways in which MongoDB walks them: as a filter does (into every element of an array, or to
//! the one with that number), and as an expression does (an array of what its elements hold).

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::{ArrayBuilder, Doc, Type, Val, Value, ValueRef};

/// A path such as `a.b.0.c`, cut into its parts once.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Path {
    text: Box<str>,
    parts: SmallVec<[Part; 2]>,
}

/// Where a part stands in the text, and the array index that it spells, if it does.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    start: u32,
    end: u32,
    index: Option<u32>,
}

/// A value that a filter's path leads to.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// The value; `Missing` where a document on the way has no such field.
    pub value: ValueRef<'a>,
    /// The element of the outermost array that was walked through without being named: what the positional `$` means.
    pub index: Option<u32>,
}

/// What to do with an array at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaf {
    /// Give it as it stands.
    Whole,
    /// Give each of its elements, then the array itself: how comparisons look at it.
    Elements,
}

/// A path's parts from some part on.
#[derive(Clone, Copy)]
struct Rest<'p> {
    text: &'p str,
    parts: &'p [Part],
}

// === impl Path ===

impl Path {
    /// Cuts at the dots. Whether a path is well formed (empty parts, `$`) is for the caller to judge: filters, updates
    /// and projections refuse different things.
    pub fn parse(text: &str) -> Self {
        let mut start = 0;
        let mut parts = SmallVec::new();
        for name in text.split('.') {
            let end = start + name.len();
            parts.push(Part {
                start: start as u32,
                end: end as u32,
                index: array_index(name),
            });
            start = end + 1;
        }
        Self {
            text: text.into(),
            parts,
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How many parts there are; at least one.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    pub fn part(&self, at: usize) -> &str {
        self.parts.get(at).map_or("", |part| {
            &self.text[part.start as usize..part.end as usize]
        })
    }

    /// The array index that a part spells: digits without a leading zero.
    pub fn index(&self, at: usize) -> Option<u32> {
        self.parts.get(at)?.index
    }

    pub fn parts(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator {
        self.parts
            .iter()
            .map(|part| &self.text[part.start as usize..part.end as usize])
    }

    pub fn first(&self) -> &str {
        self.part(0)
    }

    fn rest(&self) -> Rest<'_> {
        Rest {
            text: &self.text,
            parts: &self.parts,
        }
    }

    /// The values that a filter on this path looks at, with their places. On the way, documents in arrays are all entered;
    /// nothing comes where arrays on the way hold no document. `leaf`: what becomes of an array at the end.
    pub fn hits<'a, B>(
        &self,
        doc: Doc<'a>,
        leaf: Leaf,
        mut found: impl FnMut(Hit<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        walk(self.rest(), doc, leaf, None, &mut found)
    }

    /// The value at the end of plain documents only: no array is entered.
    pub fn get<'a>(&self, doc: Doc<'a>) -> ValueRef<'a> {
        let mut value = ValueRef::document(doc);
        for name in self.parts() {
            match value.as_doc() {
                Some(doc) => value = doc.get(name),
                None => return ValueRef::MISSING,
            }
        }
        value
    }

    /// What the expression `$path` yields: an array on the way becomes the array of what its documents hold, numbers in
    /// the path are plain names.
    #[inline]
    pub fn get_expr<'a>(&self, doc: Doc<'a>) -> Val<'a> {
        if let [_] = &*self.parts {
            return Val::Ref(doc.get(&*self.text));
        }
        expression(self.rest(), doc)
    }

    /// [`Path::get_expr`] from a value that need not be a document, as for `$$variable.path`.
    pub fn get_expr_in<'a>(&self, value: ValueRef<'a>) -> Val<'a> {
        match value.ty() {
            Type::Document => expression(self.rest(), Doc::new(value.data())),
            Type::Array => expression_array(self.rest(), Doc::new(value.data())),
            _ => Val::MISSING,
        }
    }
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&str> for Path {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

// === impl Rest ===

impl<'p> Rest<'p> {
    fn split(self) -> Option<(&'p str, Option<u32>, Self)> {
        let (first, parts) = self.parts.split_first()?;
        let name = &self.text[first.start as usize..first.end as usize];
        let text = self.text;
        Some((name, first.index, Self { text, parts }))
    }

    fn is_end(self) -> bool {
        self.parts.is_empty()
    }
}

/// The array index that a name spells: digits without a leading zero.
pub fn array_index(name: &str) -> Option<u32> {
    let bytes = name.as_bytes();
    if bytes.is_empty()
        || bytes.len() > 9
        || (bytes.len() > 1 && bytes.first() == Some(&b'0'))
        || !bytes.iter().all(u8::is_ascii_digit)
    {
        return None;
    }
    name.parse().ok()
}

/// Goes down through documents; the first array on the way branches.
fn walk<'a, B>(
    mut rest: Rest<'_>,
    mut doc: Doc<'a>,
    leaf: Leaf,
    index: Option<u32>,
    found: &mut impl FnMut(Hit<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    while let Some((name, _, next)) = rest.split() {
        let value = doc.get(name);
        match value.ty() {
            Type::Array if !next.is_end() => {
                return elements(next, Doc::new(value.data()), leaf, index, found);
            }
            Type::Array if leaf == Leaf::Elements => {
                for (at, elem) in Doc::new(value.data()).iter().enumerate() {
                    found(Hit {
                        value: elem.value,
                        index: index.or(Some(at as u32)),
                    })?;
                }
                return found(Hit { value, index });
            }
            _ if next.is_end() => return found(Hit { value, index }),
            Type::Document => doc = Doc::new(value.data()),
            _ => break,
        }
        rest = next;
    }
    found(Hit {
        value: ValueRef::MISSING,
        index,
    })
}

/// Every document in the array is entered with the whole rest of the path; the element that the next part names is
/// entered with what follows that part.
fn elements<'a, B>(
    rest: Rest<'_>,
    array: Doc<'a>,
    leaf: Leaf,
    index: Option<u32>,
    found: &mut impl FnMut(Hit<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let Some((_, wanted, next)) = rest.split() else {
        return ControlFlow::Continue(());
    };
    for (at, elem) in array.iter().enumerate() {
        let at = at as u32;
        if let Some(doc) = elem.value.as_doc() {
            walk(rest, doc, leaf, index.or(Some(at)), found)?;
        }
        if wanted != Some(at) {
            continue;
        }
        if next.is_end() {
            // An array that is named by its number is given as it stands, never opened.
            found(Hit {
                value: elem.value,
                index,
            })?;
        } else if let Some(doc) = elem.value.as_doc() {
            walk(next, doc, leaf, index, found)?;
        } else if let Some(inner) = elem.value.as_array() {
            elements(next, inner, leaf, index, found)?;
        }
    }
    ControlFlow::Continue(())
}

fn expression<'a>(mut rest: Rest<'_>, mut doc: Doc<'a>) -> Val<'a> {
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

/// What the documents in the array hold there. Other elements, nested arrays among them, are left out.
fn expression_array<'a>(rest: Rest<'_>, array: Doc<'a>) -> Val<'a> {
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
    use bson::{Bson, doc};

    use super::*;
    use crate::value::DocBuf;

    fn hits(path: &str, document: bson::Document, leaf: Leaf) -> Vec<String> {
        let document = DocBuf::from(document);
        let mut all = Vec::new();
        let _ = Path::parse(path).hits(document.as_doc(), leaf, |hit| {
            let place = hit.index.map_or(String::new(), |at| format!("@{at}"));
            let text = if hit.value.is_missing() {
                "-".to_string()
            } else {
                format!("{:?}", hit.value)
                    .replace("Some(", "")
                    .replace(')', "")
            };
            all.push(format!("{text}{place}"));
            ControlFlow::<()>::Continue(())
        });
        all
    }

    #[test]
    fn a_filter_walks() {
        let a = |value: Bson| doc! {"a": value};
        for (path, document, expected) in [
            ("a", doc! {"b": 1}, vec!["-"]),
            ("a", doc! {"a": 1}, vec!["1"]),
            ("a", doc! {"a": [1, 2]}, vec!["1@0", "2@1", "[1, 2]"]),
            ("a", doc! {"a": []}, vec!["[]"]),
            ("a.b", doc! {"a": {"b": 1}}, vec!["1"]),
            ("a.b", doc! {"a": {}}, vec!["-"]),
            ("a.b", doc! {"a": 5}, vec!["-"]),
            ("a.b", doc! {"a": []}, vec![]),
            ("a.b", doc! {"a": [1, [2]]}, vec![]),
            (
                "a.b",
                doc! {"a": [{"b": 1}, 5, {"b": [2, 3]}, {}]},
                vec!["1@0", "2@2", "3@2", "[2, 3]@2", "-@3"],
            ),
            ("a.1", doc! {"a": [5, 7, 3]}, vec!["7"]),
            ("a.01", doc! {"a": [5, 7, 3]}, vec![]),
            ("a.1", doc! {"a": [5, [2, 4], 3]}, vec!["[2, 4]"]),
            (
                "a.1",
                doc! {"a": [5, {"1": 4}, 3]},
                vec!["4@1", "{\"1\": 4}"],
            ),
            ("a.1.b", doc! {"a": [5, {"b": 4}, 3]}, vec!["-@1", "4"]),
            ("a.1.b", doc! {"a": [5, [{"b": 4}], 3]}, vec!["4@0"]),
            ("a.1.0", doc! {"a": [5, [4]]}, vec!["4"]),
            (
                "a.b.c",
                a(Bson::Array(vec![doc! {"b": [{"c": 1}, {"c": 2}]}.into()])),
                vec!["1@0", "2@0"],
            ),
        ] {
            assert_eq!(
                hits(path, document.clone(), Leaf::Elements),
                expected,
                "{path} {document}"
            );
        }
        assert_eq!(hits("a", doc! {"a": [1, 2]}, Leaf::Whole), ["[1, 2]"]);
    }

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

    #[test]
    fn paths_have_parts_and_some_parts_are_indexes() {
        assert_eq!(Path::parse("a.b").parts().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(Path::parse("a.10").index(1), Some(10));
        assert_eq!(Path::parse("a.-1").index(1), None);
    }
}
