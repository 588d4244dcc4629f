//! The total order of all values: by rank of type, then by value.

use std::cmp::Ordering;

use super::{Doc, Type, ValueRef};

/// Compares two values in BSON's total order. Numbers compare by value across their types, and so do strings and symbols. A
/// missing field is equal to undefined, below null.
#[inline]
pub fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    match (a.ty(), b.ty()) {
        (Type::Int32, Type::Int32) => a.as_i32().cmp(&b.as_i32()),
        (Type::String, Type::String) => a.text_bytes().cmp(&b.text_bytes()),
        (x, y) if x.rank() != y.rank() => x.rank().cmp(&y.rank()),
        _ => same_rank(a, b),
    }
}

#[inline]
pub fn equal(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    compare(a, b).is_eq()
}

/// Compares two documents field by field: by rank of type, name, then value. If all are equal, the one with more fields is
/// greater.
pub fn compare_docs(a: Doc<'_>, b: Doc<'_>) -> Ordering {
    walk(a, b, true)
}

/// Compares two arrays like documents, but without names.
pub fn compare_arrays(a: Doc<'_>, b: Doc<'_>) -> Ordering {
    walk(a, b, false)
}

fn walk(a: Doc<'_>, b: Doc<'_>, names: bool) -> Ordering {
    let (mut left, mut right) = (a.iter(), b.iter());
    loop {
        let (x, y) = match (left.next(), right.next()) {
            (Some(x), Some(y)) => (x, y),
            (x, y) => return x.is_some().cmp(&y.is_some()),
        };
        let mut order = x.value.ty().rank().cmp(&y.value.ty().rank());
        if names {
            order = order.then_with(|| x.name_bytes().cmp(y.name_bytes()));
        }
        order = order.then_with(|| compare(x.value, y.value));
        if order.is_ne() {
            return order;
        }
    }
}

fn same_rank(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    match a.ty() {
        Type::MinKey | Type::MaxKey | Type::Missing | Type::Undefined | Type::Null => {
            Ordering::Equal
        }
        Type::Int32 | Type::Int64 | Type::Double | Type::Decimal => {
            match (a.as_num(), b.as_num()) {
                (Some(x), Some(y)) => x.compare(y),
                (x, y) => x.is_some().cmp(&y.is_some()),
            }
        }
        Type::String | Type::Symbol | Type::Code => a.text_bytes().cmp(&b.text_bytes()),
        Type::Document => compare_docs(Doc::new(a.data()), Doc::new(b.data())),
        Type::Array => compare_arrays(Doc::new(a.data()), Doc::new(b.data())),
        Type::Binary => {
            let (x, y) = (a.as_binary(), b.as_binary());
            let length = |v: Option<(u8, &[u8])>| v.map(|(_, bytes)| bytes.len());
            length(x).cmp(&length(y)).then_with(|| x.cmp(&y))
        }
        Type::ObjectId | Type::Bool => a.data().cmp(b.data()),
        Type::Date => a.as_date().cmp(&b.as_date()),
        Type::Timestamp => a.as_timestamp().cmp(&b.as_timestamp()),
        // Pattern, zero, options, zero. A zero is below every other byte, so the bytes compare as the pair does.
        Type::Regex => a.data().cmp(b.data()),
        Type::DbPointer => {
            let (x, y) = (a.data(), b.data());
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        }
        Type::CodeWithScope => match (a.as_code_with_scope(), b.as_code_with_scope()) {
            (Some((x, scope_x)), Some((y, scope_y))) => x
                .as_bytes()
                .cmp(y.as_bytes())
                .then_with(|| compare_docs(scope_x, scope_y)),
            (x, y) => x.is_some().cmp(&y.is_some()),
        },
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;
    use crate::value::DocBuf;

    #[test]
    fn the_order_of_everything() {
        // Ascending; entries of one row are equal.
        let rows: Vec<Vec<Bson>> = vec![
            vec![Bson::MinKey],
            vec![Bson::Undefined],
            vec![Bson::Null],
            vec![Bson::Double(f64::NAN)],
            vec![1.into(), 1i64.into(), 1.0.into()],
            vec![2.into()],
            vec!["".into(), Bson::Symbol("".into())],
            vec!["a".into(), Bson::Symbol("a".into())],
            vec!["a\0".into()],
            vec!["aa".into()],
            vec!["b".into()],
            vec![doc! {}.into()],
            // The type of the first field is compared before its name.
            vec![doc! {"z": 1}.into(), doc! {"z": 1.0}.into()],
            vec![doc! {"z": 1, "a": 1}.into()],
            vec![doc! {"a": "x"}.into()],
            vec![doc! {"b": "x"}.into()],
            vec![Bson::Array(vec![])],
            vec![Bson::Array(vec![Bson::MinKey])],
            vec![Bson::Array(vec![1.into()])],
            vec![Bson::Array(vec![1.into(), 0.into()])],
            vec![Bson::Array(vec![2.into()])],
            vec![binary(0, b"z")],
            vec![binary(5, b"a")],
            vec![binary(0, b"aa")],
            vec![bson::oid::ObjectId::from_bytes([0; 12]).into()],
            vec![bson::oid::ObjectId::from_bytes([255; 12]).into()],
            vec![false.into()],
            vec![true.into()],
            vec![bson::DateTime::from_millis(-1).into()],
            vec![bson::DateTime::from_millis(1).into()],
            vec![timestamp(1, 9)],
            vec![timestamp(u32::MAX, 0)],
            vec![regex("a", "x")],
            vec![regex("ab", "")],
            vec![Bson::JavaScriptCode("a".into())],
            vec![scoped("a", doc! {})],
            vec![scoped("a", doc! {"x": 1})],
            vec![scoped("b", doc! {})],
            vec![Bson::MaxKey],
        ];
        for (i, row) in rows.iter().enumerate() {
            for (j, other) in rows.iter().enumerate() {
                for a in row {
                    for b in other {
                        let (x, y) = (
                            DocBuf::from(doc! {"v": a.clone()}),
                            DocBuf::from(doc! {"v": b.clone()}),
                        );
                        assert_eq!(
                            compare(x.as_doc().get("v"), y.as_doc().get("v")),
                            i.cmp(&j),
                            "{a:?} {b:?}"
                        );
                    }
                }
            }
        }
        assert_eq!(compare(ValueRef::MISSING, ValueRef::NULL), Ordering::Less);
    }

    fn binary(subtype: u8, bytes: &[u8]) -> Bson {
        Bson::Binary(bson::Binary {
            subtype: subtype.into(),
            bytes: bytes.to_vec(),
        })
    }

    fn timestamp(time: u32, increment: u32) -> Bson {
        Bson::Timestamp(bson::Timestamp { time, increment })
    }

    fn regex(pattern: &str, options: &str) -> Bson {
        Bson::RegularExpression(bson::Regex {
            pattern: pattern.try_into().unwrap(),
            options: options.try_into().unwrap(),
        })
    }

    fn scoped(code: &str, scope: bson::Document) -> Bson {
        Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
            code: code.into(),
            scope,
        })
    }
}
