//! Sort specifications, and the sort key of a document as bytes that compare with memcmp.

use smallvec::SmallVec;

use super::Survey;
use super::direction::SortDirection;
use super::expr::FieldPath;
use crate::error::{Code, Error, Result};
use crate::interrupt;
use crate::value::{Doc, DocBuf, Path, Type, ValueRef, key, keys};

/// A parsed sort such as `{a: 1, "b.c": -1}`. With an empty sort every document has the same key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sort {
    paths: Vec<Path>,
    /// For each path, whether its order is descending.
    descending: Vec<bool>,
}

/// The kinds of `{$meta: ...}` in a sort.
enum Meta {
    /// Only a search attaches this value to a document, so all documents here compare equal.
    Absent,
    /// Only a stage that Sundown does not have provides this value.
    Unavailable(&'static str),
}

const MAX_PARTS: usize = 32;

// === impl Sort ===

impl Sort {
    /// Parses the sort of `find`, `$sort` and similar. An empty specification is valid here; `$sort` rejects it.
    pub fn parse(spec: Doc<'_>) -> Result<Self> {
        let mut sort = Self::default();
        for elem in spec {
            let name = elem.name();
            let direction = match elem.value.ty() {
                Type::Document => {
                    match meta(Doc::new(elem.value.data()))? {
                        Meta::Absent => {}
                        Meta::Unavailable(what) => {
                            return Err(Error::location(
                                40218,
                                format!("query requires {what} metadata, but it is not available"),
                            ));
                        }
                    }
                    FieldPath::parse(name)?;
                    continue;
                }
                _ => direction(name, elem.value)?,
            };
            FieldPath::parse(name)?;
            if sort.paths.iter().any(|path| path.as_str() == name) {
                return Err(Error::location(
                    7472500,
                    format!("$sort key must not contain duplicate keys (field: '{name}')"),
                ));
            }
            sort.paths.push(Path::parse(name));
            sort.descending.push(direction.is_descending());
            if sort.paths.len() > MAX_PARTS {
                return Err(Error::location(13103, "too many compound keys"));
            }
        }
        Ok(sort)
    }

    /// Returns each path, and whether its order is descending.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&Path, bool)> {
        self.paths.iter().zip(self.descending.iter().copied())
    }

    /// Reports the fields that this sort reads.
    pub fn survey(&self, survey: &mut Survey<'_>) {
        self.paths.iter().for_each(|path| survey.path(path));
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Appends the document's sort key. A missing field sorts as null. An array sorts by the element that comes first: the
    /// least one if ascending, the greatest one if descending.
    pub fn key(&self, doc: Doc<'_>, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        for (path, descending) in self.parts() {
            let value = path.get_until_array(doc);
            if value.ty() == Type::Array && !self.is_by_id() {
                out.truncate(start);
                return self.least_key(doc, out);
            }
            key::encode(value, descending, out);
        }
        Ok(())
    }

    /// Returns whether `_id` alone is sorted by. MongoDB then takes arrays as they are, because no stored document has one
    /// there; a `$group` may make one.
    fn is_by_id(&self) -> bool {
        matches!(self.paths.as_slice(), [only] if only.as_str() == "_id")
    }

    /// Appends the document's sort key as `$top` and its like see it: they evaluate the paths as expressions, and open only
    /// the arrays that result.
    pub fn evaluated_key(&self, doc: Doc<'_>, out: &mut Vec<u8>) -> Result<()> {
        let meets_array = |path: &Path| path.get_until_array(doc).ty() == Type::Array;
        if !self.paths.iter().any(meets_array) {
            return self.key(doc, out);
        }
        let mut by_value = Self::default();
        let mut values = DocBuf::new();
        for (at, (path, descending)) in self.parts().enumerate() {
            let name = at.to_string();
            values.put(&name, path.get_expr(doc).as_ref());
            by_value.paths.push(Path::parse(&name));
            by_value.descending.push(descending);
        }
        by_value.key(values.as_doc(), out)
    }

    /// Appends the first of all keys that the document would have in an index on these paths.
    fn least_key(&self, doc: Doc<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut least: Option<SmallVec<[u8; 64]>> = None;
        let mut bytes = Vec::new();
        let mut counted = Ok(());
        keys(&self.paths, doc, |values| {
            // Each element of a long array produces a key, which also repeats the values of the other paths. This work is
            // counted.
            counted = interrupt::tick(1).and_then(|()| interrupt::tick_read(bytes.len()));
            if counted.is_err() {
                return;
            }
            bytes.clear();
            for (value, &descending) in values.values.iter().zip(&self.descending) {
                key::encode(*value, descending, &mut bytes);
            }
            if least.as_ref().is_none_or(|least| bytes[..] < least[..]) {
                least = Some(SmallVec::from_slice(&bytes));
            }
        })
        .map_err(|error| match error.code() {
            Code::CannotIndexParallelArrays => {
                Error::bad_value("cannot sort with keys that are parallel arrays")
            }
            _ => error,
        })?;
        counted?;
        out.extend_from_slice(&least.unwrap_or_default());
        Ok(())
    }
}

fn direction(name: &str, value: ValueRef<'_>) -> Result<SortDirection> {
    let Some(number) = value.as_num() else {
        return Err(Error::location(
            15974,
            format!("Illegal key in $sort specification: {name}: {value}"),
        ));
    };
    SortDirection::of_documents(number).ok_or_else(|| {
        Error::location(
            15975,
            "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
        )
    })
}

fn meta(spec: Doc<'_>) -> Result<Meta> {
    let Some(elem) = spec.first().filter(|elem| elem.name() == "$meta") else {
        return Err(Error::location(
            17312,
            "$meta is the only expression supported by $sort right now",
        ));
    };
    if spec.count() > 1 {
        return Err(Error::failed_to_parse(
            "Cannot have additional keys in a $meta sort specification",
        ));
    }
    match elem.value.as_str() {
        Some("randVal" | "searchScore" | "vectorSearchScore" | "score") => Ok(Meta::Absent),
        Some("textScore") => Ok(Meta::Unavailable("text score")),
        Some("geoNearDistance") => Ok(Meta::Unavailable("$geoNear distance")),
        _ => Err(Error::location(
            31138,
            format!("Illegal $meta sort: {}", elem.value),
        )),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Decimal128, doc};

    use super::*;

    fn parse(spec: bson::Document) -> Result<Sort> {
        Sort::parse(DocBuf::from(spec).as_doc())
    }

    fn order(spec: bson::Document, documents: &[bson::Document]) -> Vec<i32> {
        let sort = parse(spec).unwrap();
        let mut rows: Vec<(Vec<u8>, i32)> = documents
            .iter()
            .map(|document| {
                let mut bytes = Vec::new();
                sort.key(DocBuf::from(document).as_doc(), &mut bytes)
                    .unwrap();
                (bytes, document.get_i32("_id").unwrap())
            })
            .collect();
        rows.sort();
        rows.into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn documents_in_order() {
        let arrays = [
            doc! {"_id": 1, "v": [10, 30]},
            doc! {"_id": 2, "v": 5},
            doc! {"_id": 3, "v": [25, 20, 15]},
            doc! {"_id": 4, "v": 12},
            doc! {"_id": 5, "v": []},
            doc! {"_id": 6, "v": null},
            doc! {"_id": 7},
            doc! {"_id": 8, "v": [null]},
            doc! {"_id": 9, "v": [[1, 2]]},
        ];
        let nested = [
            doc! {"_id": 1, "a": [{"b": 30}, {"b": 10}]},
            doc! {"_id": 2, "a": [{"b": 25}, {"b": 5}]},
            doc! {"_id": 3, "a": {"b": 20}},
            doc! {"_id": 4, "a": 7},
        ];
        let compound = [
            doc! {"_id": 1, "a": 2, "b": 30},
            doc! {"_id": 2, "a": 1, "b": 20},
            doc! {"_id": 3, "a": 2, "b": 10},
            doc! {"_id": 4, "a": 1, "b": 40},
        ];
        for (spec, documents, expected) in [
            (
                doc! {"v": 1, "_id": 1},
                &arrays[..],
                vec![5, 6, 7, 8, 2, 1, 4, 3, 9],
            ),
            (
                doc! {"v": -1, "_id": 1},
                &arrays,
                vec![9, 1, 3, 4, 2, 6, 7, 8, 5],
            ),
            (doc! {"a.b": 1}, &nested, vec![4, 2, 1, 3]),
            (doc! {"a.b": -1}, &nested, vec![1, 2, 3, 4]),
            (doc! {"a": 1, "b": -1}, &compound, vec![4, 2, 1, 3]),
            (doc! {"b": 1.9, "a": 1}, &compound, vec![3, 2, 1, 4]),
        ] {
            assert_eq!(order(spec.clone(), documents), expected, "{spec}");
        }
    }

    #[test]
    fn what_is_refused() {
        let decimal = |text: &str| Bson::Decimal128(text.parse::<Decimal128>().unwrap());
        let many: bson::Document = (0..33).map(|n| (format!("f{n}"), Bson::Int32(1))).collect();
        for (spec, code) in [
            (doc! {"v": "asc"}, 15974),
            (doc! {"$a": "asc"}, 15974),
            (doc! {"v": true}, 15974),
            (doc! {"$a": 0}, 15975),
            (doc! {"v": 2}, 15975),
            (doc! {"v": 0.5}, 15975),
            (doc! {"v": f64::NAN}, 15975),
            (doc! {"v": decimal("1.5")}, 15975),
            (doc! {"": 1}, 40352),
            (doc! {"a.": 1}, 40353),
            (doc! {"a..b": 1}, 15998),
            (doc! {"$natural": 1}, 16410),
            (doc! {"v": {"$foo": 1}}, 17312),
            (doc! {"v": {"$meta": "randVal", "x": 1}}, 9),
            (doc! {"v": {"$meta": "unknown"}}, 31138),
            (doc! {"v": {"$meta": "textScore"}}, 40218),
            (many, 13103),
        ] {
            let error = parse(spec.clone()).unwrap_err();
            assert_eq!(error.code().number(), code, "{spec}");
        }
        assert!(parse(doc! {"v": decimal("-0.51")}).unwrap().descending[0]);
        assert!(parse(doc! {}).unwrap().is_empty());
        let both = DocBuf::from(doc! {"a": [1], "b": [2]});
        let error = parse(doc! {"a": 1, "b": 1})
            .unwrap()
            .key(both.as_doc(), &mut Vec::new())
            .unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (
                Code::BadValue,
                "cannot sort with keys that are parallel arrays"
            )
        );
    }
}
