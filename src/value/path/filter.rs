//! The walk of filters: into every document of an array, and to the element that a number names.

use std::ops::ControlFlow;

use super::Path;
use super::dotted::PathRest;
use crate::value::{Doc, Type, ValueRef};

/// A value that the path of a filter reaches.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// The value; `Missing` if a document on the way has no such field.
    pub value: ValueRef<'a>,
    /// The index in the outermost array that was entered without a number in the path. The positional `$` uses it.
    pub index: Option<u32>,
}

/// How to treat an array at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayLeaf {
    /// Returns the array itself.
    Whole,
    /// Returns each of its elements, then the array itself, as comparisons need.
    Elements,
}

// === impl Path ===

impl Path {
    /// Calls `found` with the values that a filter on this path tests, and their positions in arrays. Enters all documents
    /// of an array on the way. An array without documents gives no values.
    pub fn hits<'a, B>(
        &self,
        doc: Doc<'a>,
        leaf: ArrayLeaf,
        mut found: impl FnMut(Hit<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        walk(self.rest(), doc, leaf, None, &mut found)
    }
}

/// Walks down through documents. The first array on the way branches.
fn walk<'a, B>(
    mut rest: PathRest<'_>,
    mut doc: Doc<'a>,
    leaf: ArrayLeaf,
    index: Option<u32>,
    found: &mut impl FnMut(Hit<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    while let Some((name, _, next)) = rest.split() {
        let value = doc.get(name);
        match value.ty() {
            Type::Array if !next.is_blank() => {
                return elements(next, Doc::new(value.data()), leaf, index, found);
            }
            Type::Array => return last_array(value, leaf, index, found),
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

/// Reports an array at the end of the path.
fn last_array<'a, B>(
    array: ValueRef<'a>,
    leaf: ArrayLeaf,
    index: Option<u32>,
    found: &mut impl FnMut(Hit<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    if leaf == ArrayLeaf::Elements {
        for (at, elem) in Doc::new(array.data()).iter().enumerate() {
            found(Hit {
                value: elem.value,
                index: index.or(Some(at as u32)),
            })?;
        }
    }
    found(Hit {
        value: array,
        index,
    })
}

/// Enters every document of the array with the whole rest of the path, and the element that the next part names with the
/// parts after that one.
fn elements<'a, B>(
    rest: PathRest<'_>,
    array: Doc<'a>,
    leaf: ArrayLeaf,
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
            // For an array that is named by its number, the result is the array itself, never its elements.
            found(Hit {
                value: elem.value,
                index,
            })?;
        } else if let Some(doc) = elem.value.as_doc() {
            walk(next, doc, leaf, index, found)?;
        } else if let Some(inner) = elem.value.as_array() {
            if next.is_blank() {
                last_array(elem.value, leaf, index, found)?;
                continue;
            }
            elements(next, inner, leaf, index, found)?;
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;
    use crate::value::DocBuf;

    fn hits(path: &str, document: bson::Document, leaf: ArrayLeaf) -> Vec<String> {
        let document = DocBuf::from(document);
        let mut all = Vec::new();
        let _ = Path::parse(path).hits(document.as_doc(), leaf, |hit| {
            let position = hit.index.map_or(String::new(), |at| format!("@{at}"));
            let text = if hit.value.is_missing() {
                "-".to_string()
            } else {
                format!("{:?}", hit.value)
                    .replace("Some(", "")
                    .replace(')', "")
            };
            all.push(format!("{text}{position}"));
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
                hits(path, document.clone(), ArrayLeaf::Elements),
                expected,
                "{path} {document}"
            );
        }
        assert_eq!(hits("a", doc! {"a": [1, 2]}, ArrayLeaf::Whole), ["[1, 2]"]);
    }
}
