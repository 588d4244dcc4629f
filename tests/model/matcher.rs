//! Filters over plain values: a second, naive reading of the query language.

use bson::{Bson, Document};

use super::order::{compare, equal, number};

/// What stands at a path: `None` where it is missing. Arrays on the way are looked into, one at the end is left whole.
pub fn leaves(document: &Document, path: &str) -> Vec<Option<Bson>> {
    let mut found = Vec::new();
    let parts: Vec<&str> = path.split('.').collect();
    walk(document, &parts, &mut found);
    found
}

fn walk(document: &Document, parts: &[&str], found: &mut Vec<Option<Bson>>) {
    let Some((first, rest)) = parts.split_first() else {
        return;
    };
    match document.get(first) {
        None => found.push(None),
        Some(value) if rest.is_empty() => found.push(Some(value.clone())),
        Some(Bson::Document(inner)) => walk(inner, rest, found),
        Some(Bson::Array(elements)) => {
            for element in elements {
                if let Bson::Document(inner) = element {
                    walk(inner, rest, found);
                }
            }
            if let Some(element) = rest[0]
                .parse::<usize>()
                .ok()
                .and_then(|at| elements.get(at))
            {
                match element {
                    _ if rest.len() == 1 => found.push(Some(element.clone())),
                    Bson::Document(inner) => walk(inner, &rest[1..], found),
                    _ => {}
                }
            }
        }
        Some(_) => found.push(None),
    }
}

pub fn matches(filter: &Document, document: &Document) -> bool {
    filter.iter().all(|(name, value)| match name.as_str() {
        "$and" => clauses(value).all(|clause| matches(clause, document)),
        "$or" => clauses(value).any(|clause| matches(clause, document)),
        "$nor" => !clauses(value).any(|clause| matches(clause, document)),
        path => field(path, value, document),
    })
}

fn clauses(value: &Bson) -> impl Iterator<Item = &Document> {
    value
        .as_array()
        .expect("clauses")
        .iter()
        .map(|clause| clause.as_document().expect("a clause"))
}

fn operators(value: &Bson) -> Option<&Document> {
    value.as_document().filter(|operators| {
        operators
            .keys()
            .next()
            .is_some_and(|name| name.starts_with('$'))
    })
}

fn field(path: &str, value: &Bson, document: &Document) -> bool {
    let leaves = leaves(document, path);
    match operators(value) {
        None => test("$eq", value, &leaves),
        Some(operators) => operators
            .iter()
            .all(|(operator, operand)| test(operator, operand, &leaves)),
    }
}

/// Whether what stands at a path passes an operator.
fn test(operator: &str, operand: &Bson, leaves: &[Option<Bson>]) -> bool {
    match operator {
        "$ne" => !test("$eq", operand, leaves),
        "$nin" => !test("$in", operand, leaves),
        "$not" => {
            let operators = operators(operand).expect("operators");
            !operators
                .iter()
                .all(|(operator, operand)| test(operator, operand, leaves))
        }
        "$exists" => leaves.iter().any(Option::is_some) == operand.as_bool().expect("a flag"),
        "$size" => arrays(leaves).any(|array| Some(array.len() as f64) == number(operand)),
        "$all" => {
            let wanted = operand.as_array().expect("values");
            !wanted.is_empty() && wanted.iter().all(|value| test("$eq", value, leaves))
        }
        "$elemMatch" => {
            let wanted = operand.as_document().expect("a filter");
            arrays(leaves).any(|array| {
                array.iter().any(|element| match operators(operand) {
                    // An element is looked at as it is: an array in an array is not looked into.
                    Some(operators) => operators
                        .iter()
                        .all(|(operator, operand)| one(operator, operand, Some(element))),
                    None => element
                        .as_document()
                        .is_some_and(|inner| matches(wanted, inner)),
                })
            })
        }
        _ => leaves.iter().any(|leaf| {
            one(operator, operand, leaf.as_ref())
                || leaf.as_ref().and_then(Bson::as_array).is_some_and(|array| {
                    array
                        .iter()
                        .any(|element| one(operator, operand, Some(element)))
                })
        }),
    }
}

fn arrays(leaves: &[Option<Bson>]) -> impl Iterator<Item = &Vec<Bson>> {
    leaves.iter().flatten().filter_map(Bson::as_array)
}

/// One value against one operator; `None` is a missing field.
fn one(operator: &str, operand: &Bson, value: Option<&Bson>) -> bool {
    match operator {
        "$eq" => match value {
            None => *operand == Bson::Null,
            Some(value) => equal(value, operand),
        },
        "$ne" => !one("$eq", operand, value),
        "$in" => operand
            .as_array()
            .expect("values")
            .iter()
            .any(|operand| one("$eq", operand, value)),
        "$gt" | "$gte" | "$lt" | "$lte" => range(operator, operand, value),
        "$mod" => {
            let terms = operand.as_array().expect("two numbers");
            let (by, rest) = (
                number(&terms[0]).expect("a number"),
                number(&terms[1]).expect("a number"),
            );
            value
                .and_then(number)
                .is_some_and(|n| n.is_finite() && n.trunc() % by == rest)
        }
        "$regex" => {
            let prefix = operand
                .as_str()
                .expect("a prefix")
                .strip_prefix('^')
                .expect("a prefix");
            value
                .and_then(Bson::as_str)
                .is_some_and(|text| text.starts_with(prefix))
        }
        other => panic!("the model knows no {other}"),
    }
}

/// Only values of the operand's own kind compare.
fn range(operator: &str, operand: &Bson, value: Option<&Bson>) -> bool {
    let with_equal = operator.len() == 4;
    let null = Bson::Null;
    let value = match (value, operand) {
        (None, Bson::Null) => &null,
        (None, _) => return false,
        (Some(value), _) => value,
    };
    let same_kind = match (number(value), number(operand)) {
        (Some(a), Some(b)) if a.is_nan() || b.is_nan() => {
            return with_equal && a.is_nan() && b.is_nan();
        }
        (Some(_), Some(_)) => true,
        _ => std::mem::discriminant(value) == std::mem::discriminant(operand),
    };
    let order = compare(value, operand);
    same_kind
        && match operator {
            "$gt" => order.is_gt(),
            "$gte" => order.is_ge(),
            "$lt" => order.is_lt(),
            _ => order.is_le(),
        }
}
