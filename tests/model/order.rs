//! The order of values, in a second and very simple implementation.

use std::cmp::Ordering;

use bson::{Bson, Document};

fn rank(value: &Bson) -> u8 {
    match value {
        Bson::Undefined => 0,
        Bson::Null => 5,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) => 10,
        Bson::String(_) => 15,
        Bson::Document(_) => 20,
        Bson::Array(_) => 25,
        Bson::ObjectId(_) => 35,
        Bson::Boolean(_) => 40,
        Bson::DateTime(_) => 45,
        other => panic!("the model knows no {other:?}"),
    }
}

/// Numbers are small here, so a double can represent all of them.
pub fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(n) => Some(f64::from(*n)),
        Bson::Int64(n) => Some(*n as f64),
        Bson::Double(n) => Some(*n),
        _ => None,
    }
}

pub fn integer(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        _ => None,
    }
}

/// Returns the integer part of a number, if it has one.
pub fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Double(n) => (n.abs() < 9e18).then_some(*n as i64),
        value => integer(value),
    }
}

pub fn compare(a: &Bson, b: &Bson) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Bson::String(a), Bson::String(b)) => a.cmp(b),
        (Bson::Document(a), Bson::Document(b)) => compare_documents(a, b),
        (Bson::Array(a), Bson::Array(b)) => {
            for (a, b) in a.iter().zip(b) {
                let order = compare(a, b);
                if order.is_ne() {
                    return order;
                }
            }
            a.len().cmp(&b.len())
        }
        (Bson::ObjectId(a), Bson::ObjectId(b)) => a.cmp(b),
        (Bson::Boolean(a), Bson::Boolean(b)) => a.cmp(b),
        (Bson::DateTime(a), Bson::DateTime(b)) => a.cmp(b),
        _ => match (number(a).zip(number(b)), integer(a).zip(integer(b))) {
            // Large numbers may differ by less than the precision of a double.
            (_, Some((a, b))) => a.cmp(&b),
            (Some((a, b)), None) => a
                .partial_cmp(&b)
                .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan())),
            (None, None) => Ordering::Equal,
        },
    })
}

fn compare_documents(a: &Document, b: &Document) -> Ordering {
    for ((a_name, a), (b_name, b)) in a.iter().zip(b) {
        let order = rank(a)
            .cmp(&rank(b))
            .then_with(|| a_name.cmp(b_name))
            .then_with(|| compare(a, b));
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

pub fn equal(a: &Bson, b: &Bson) -> bool {
    compare(a, b).is_eq()
}

/// Returns whether the values have the same bytes, so that a client cannot distinguish them.
pub fn same(a: &Document, b: &Document) -> bool {
    a.to_vec().expect("encodes") == b.to_vec().expect("encodes")
}

pub fn same_value(a: &Bson, b: &Bson) -> bool {
    same(&bson::doc! {"": a.clone()}, &bson::doc! {"": b.clone()})
}

/// Compares by the keys of a sort. Arrays count by their smallest or greatest element.
pub fn by_sort(sort: &Document, a: &Document, b: &Document) -> Ordering {
    for (path, direction) in sort {
        let down = number(direction).expect("a direction") < 0.0;
        let order = compare(&sort_key(a, path, down), &sort_key(b, path, down));
        let order = if down { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn sort_key(document: &Document, path: &str, down: bool) -> Bson {
    let mut values = Vec::new();
    for leaf in super::matcher::leaves(document, path) {
        match leaf {
            None => values.push(Bson::Null),
            Some(Bson::Array(array)) if array.is_empty() => values.push(Bson::Undefined),
            Some(Bson::Array(array)) => values.extend(array),
            Some(value) => values.push(value),
        }
    }
    let key = if down {
        values.into_iter().max_by(compare)
    } else {
        values.into_iter().min_by(compare)
    };
    key.unwrap_or(Bson::Null)
}
