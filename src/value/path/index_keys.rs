//! The keys of a document in an index: one per element of an array on one of its paths.
//!
//! All paths of a compound index that run through the same array advance together: `{a.b, a.c}` over `a: [{b: 1, c: 2}, {b:
//! 3, c: 4}]` gives (1, 2) and (3, 4). Two different arrays are refused.

use smallvec::SmallVec;

use super::{MultikeyPaths, Path};
use crate::error::{Code, Error, Result};
use crate::value::{Doc, Type, ValueRef};

/// The values of one key, one per path.
#[derive(Debug)]
pub struct Keys<'k, 'a> {
    /// A missing field is null, and an empty array is undefined.
    pub values: &'k [ValueRef<'a>],
    /// Whether any of the paths exists. If none does, a sparse index leaves the document out.
    pub found: bool,
}

/// How far one path has been followed.
#[derive(Clone, Copy)]
struct PathProgress<'a> {
    /// How many parts are already taken.
    at: usize,
    state: PathState<'a>,
}

#[derive(Clone, Copy)]
enum PathState<'a> {
    /// To be followed from the current document.
    Open,
    /// Stopped at the array that is being expanded. The rest of the path continues from its elements.
    Array,
    /// Has its final value.
    Fixed(ValueRef<'a>),
}

/// The expansion of one document into its keys.
struct Expansion<'p, 'a, F> {
    paths: &'p [Path],
    /// The arrays that the paths went through.
    arrays: MultikeyPaths,
    each: F,
    _doc: std::marker::PhantomData<Doc<'a>>,
}

/// Calls `each` with every key of the document in an index on `paths`, in document order. The same key may occur more than
/// once. Returns the arrays that the paths went through: if there are any, the index is multikey.
pub fn keys<'a>(
    paths: &[Path],
    doc: Doc<'a>,
    each: impl FnMut(Keys<'_, 'a>),
) -> Result<MultikeyPaths> {
    let mut expansion = Expansion {
        paths,
        arrays: MultikeyPaths::default(),
        each,
        _doc: std::marker::PhantomData,
    };
    let fields: SmallVec<[PathProgress<'a>; 4]> = paths
        .iter()
        .map(|_| PathProgress {
            at: 0,
            state: PathState::Open,
        })
        .collect();
    expansion.run(&fields, doc, None, 0)?;
    Ok(expansion.arrays)
}

// === impl Expansion ===

impl<'a, F: FnMut(Keys<'_, 'a>)> Expansion<'_, 'a, F> {
    /// Follows the open paths from `doc`, which is an element of `array` if that is given. Then a part that is a number may
    /// name an element instead of a field: the slice has that element for each path.
    fn run(
        &mut self,
        fields: &[PathProgress<'a>],
        doc: Doc<'a>,
        array: Option<(Doc<'a>, &[ValueRef<'a>])>,
        mut missing: usize,
    ) -> Result<()> {
        let mut fields: SmallVec<[PathProgress<'a>; 4]> = SmallVec::from_slice(fields);
        let mut found: Option<(ValueRef<'a>, &str)> = None;
        let mut open_elements = true;
        for (n, (path, field)) in self.paths.iter().zip(fields.iter_mut()).enumerate() {
            if !matches!(field.state, PathState::Open) {
                continue;
            }
            let element = array.and_then(|(array, numbered)| Some((array, *numbered.get(n)?)));
            let (value, at, nested) = follow(path, field.at, doc, element)?;
            match value.ty() {
                Type::Missing => {
                    field.state = PathState::Fixed(ValueRef::NULL);
                    missing += 1;
                }
                Type::Array => {
                    field.at = at;
                    field.state = PathState::Array;
                    // An array inside the array is a value itself, unless the path continues into it.
                    if nested && at == path.len() {
                        open_elements = false;
                    }
                    let name = path.part(at - 1);
                    match found {
                        None => found = Some((value, name)),
                        Some((other, _)) if std::ptr::eq(other.data(), value.data()) => {}
                        Some((_, other)) => {
                            return Err(Error::new(
                                Code::CannotIndexParallelArrays,
                                format!("cannot index parallel arrays [{name}] [{other}]"),
                            ));
                        }
                    }
                }
                _ => field.state = PathState::Fixed(value),
            }
        }
        let Some((whole, _)) = found else {
            let values: SmallVec<[ValueRef<'a>; 4]> = fields
                .iter()
                .map(|field| match field.state {
                    PathState::Fixed(value) => value,
                    PathState::Open | PathState::Array => ValueRef::NULL,
                })
                .collect();
            (self.each)(Keys {
                values: &values,
                found: missing < self.paths.len(),
            });
            return Ok(());
        };
        for (n, field) in fields.iter().enumerate() {
            if matches!(field.state, PathState::Array) {
                self.arrays.add(n, field.at - 1);
            }
        }
        let inner = Doc::new(whole.data());
        if inner.is_empty() {
            let next = self.enter(&fields, ValueRef::UNDEFINED);
            return self.run(&next, Doc::EMPTY, None, missing);
        }
        // Computed once: it is the same for all elements, and a million others may precede it.
        let numbered = self.numbered(&fields, inner);
        for elem in inner {
            let value = if open_elements { elem.value } else { whole };
            let next = self.enter(&fields, value);
            let doc = elem.value.as_doc().unwrap_or(Doc::EMPTY);
            self.run(&next, doc, Some((inner, &numbered)), missing)?;
        }
        Ok(())
    }

    /// Returns, for each path that continues from an array, the element that its next part names by number.
    fn numbered(&self, fields: &[PathProgress<'a>], array: Doc<'a>) -> SmallVec<[ValueRef<'a>; 4]> {
        self.paths
            .iter()
            .zip(fields)
            .map(|(path, field)| match field.state {
                PathState::Array if field.at < path.len() => path
                    .index(field.at)
                    .and_then(|index| array.iter().nth(index as usize))
                    .map_or(ValueRef::MISSING, |elem| elem.value),
                _ => ValueRef::MISSING,
            })
            .collect()
    }

    /// Lets paths that end at the array take the element, and the others continue from it.
    fn enter(
        &self,
        fields: &[PathProgress<'a>],
        element: ValueRef<'a>,
    ) -> SmallVec<[PathProgress<'a>; 4]> {
        self.paths
            .iter()
            .zip(fields)
            .map(|(path, field)| PathProgress {
                at: field.at,
                state: match field.state {
                    PathState::Array if field.at == path.len() => PathState::Fixed(element),
                    PathState::Array => PathState::Open,
                    other => other,
                },
            })
            .collect()
    }
}

/// Follows a path from its part `at` on to its end or to the first array. Returns the value, how many parts were taken, and
/// whether it is an array within an array.
fn follow<'a>(
    path: &Path,
    at: usize,
    doc: Doc<'a>,
    element: Option<(Doc<'a>, ValueRef<'a>)>,
) -> Result<(ValueRef<'a>, usize, bool)> {
    let named = doc.get(path.part(at));
    let numbered = element.map_or(ValueRef::MISSING, |(_, value)| value);
    match (named.is_missing(), numbered.is_missing()) {
        (true, true) => Ok((ValueRef::MISSING, at, false)),
        (false, true) => {
            let (value, at) = path.descend(at + 1, named);
            Ok((value, at, false))
        }
        (true, false) => {
            let (value, taken) = path.descend(at + 1, numbered);
            Ok((value, taken, numbered.ty() == Type::Array))
        }
        (false, false) => Err(Error::location(
            16746,
            format!(
                "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), field: '{}' for array: {}",
                path.part(at),
                element.map_or_else(String::new, |(array, _)| ValueRef::array(array).to_string())
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::value::DocBuf;

    fn expand(paths: &[&str], document: bson::Document) -> Result<(Vec<String>, String)> {
        let paths: Vec<Path> = paths.iter().map(|path| Path::parse(path)).collect();
        let document = DocBuf::from(document);
        let mut all = Vec::new();
        let multikey = keys(&paths, document.as_doc(), |keys| {
            let row: Vec<String> = keys.values.iter().map(ToString::to_string).collect();
            all.push(format!(
                "{}{}",
                row.join(","),
                if keys.found { "" } else { " none" }
            ));
        })?;
        let arrays = paths.iter().enumerate().map(|(n, path)| {
            let arrays = multikey.of(n);
            let parts = (0..path.len()).filter(|part| arrays.has(*part));
            let parts: Vec<&str> = parts.map(|part| path.beginning(part + 1)).collect();
            parts.join(" ")
        });
        let arrays: Vec<String> = arrays.collect();
        Ok((all, arrays.join(",")))
    }

    #[test]
    fn keys_of_documents() {
        for (paths, document, expected, multikey) in [
            (&["a"][..], doc! {"a": 5}, vec!["5"], ""),
            (&["a"], doc! {"b": 5}, vec!["null none"], ""),
            (&["a"], doc! {"a": [1, 2]}, vec!["1", "2"], "a"),
            (&["a"], doc! {"a": []}, vec!["undefined"], "a"),
            (&["a"], doc! {"a": [[1, 2]]}, vec!["[ 1, 2 ]"], "a"),
            (&["a.b"], doc! {"a": {"b": 1}}, vec!["1"], ""),
            (&["a.b"], doc! {"a": []}, vec!["null none"], "a"),
            (
                &["a.b"],
                doc! {"a": [{"b": 1}, {"b": [2, 3]}, 4]},
                vec!["1", "2", "3", "null none"],
                "a a.b",
            ),
            (
                &["a.b", "a.c"],
                doc! {"a": [{"b": 1, "c": 2}, {"b": 3}]},
                vec!["1,2", "3,null"],
                "a,a",
            ),
            (
                &["a", "b"],
                doc! {"a": [1, 2], "b": 9},
                vec!["1,9", "2,9"],
                "a,",
            ),
            (&["a", "b"], doc! {"b": 9}, vec!["null,9"], ","),
            (
                &["a", "a.b"],
                doc! {"a": [{"b": 1}]},
                vec!["{ b: 1 },1"],
                "a,a",
            ),
            (&["a.0"], doc! {"a": [7, 8]}, vec!["7", "7"], "a"),
            (&["a.0"], doc! {"a": {"0": 7}}, vec!["7"], ""),
            (&["a.0"], doc! {"a": [[1]]}, vec!["[ 1 ]"], "a a.0"),
            (&["a.0.0"], doc! {"a": [[1]]}, vec!["1"], "a a.0"),
            (&["a.0.b"], doc! {"a": [{"b": 1}]}, vec!["1"], "a"),
        ] {
            assert_eq!(
                expand(paths, document.clone()).unwrap(),
                (
                    expected.iter().map(ToString::to_string).collect(),
                    multikey.to_owned()
                ),
                "{paths:?} {document}"
            );
        }
    }

    #[test]
    fn parallel_arrays_are_refused() {
        let error = expand(&["a", "b"], doc! {"a": [1], "b": [2]}).unwrap_err();
        assert_eq!(error.code().number(), 171);
        assert_eq!(error.message(), "cannot index parallel arrays [b] [a]");
        assert_eq!(
            expand(&["a.0"], doc! {"a": [{"0": 1}]})
                .unwrap_err()
                .code()
                .number(),
            16746
        );
    }
}
