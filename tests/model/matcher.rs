//! Filters over plain values: a second, naive reading of the query language.

use bson::{Bson, Document};

use super::order::{compare, equal, number, whole};

/// Returns the values at a path, `None` for a missing one. Arrays on the path are entered. An array at its end is returned
/// as it is.
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
        "$expr" => expression(value, document),
        "$jsonSchema" => schema(value.as_document().expect("a schema"), document),
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

/// Returns whether the values at a path pass an operator.
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
                    // An element is tested as it is: an array in an array is not entered.
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

/// Tests one value with one operator. `None` is a missing field.
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
                whole(&terms[0]).expect("a number"),
                whole(&terms[1]).expect("a number"),
            );
            value.and_then(whole).is_some_and(|n| n % by == rest)
        }
        "$regex" => value
            .and_then(Bson::as_str)
            .is_some_and(|text| text_matches(operand.as_str().expect("a pattern"), text)),
        // Belongs to a pattern. The patterns here give the same result with and without it.
        "$options" => true,
        "$type" => value.is_some_and(|value| {
            let wanted = match operand {
                Bson::Array(all) => all.iter().collect(),
                one => vec![one],
            };
            let is = |alias: &&Bson| is_type(alias.as_str().expect("an alias"), value);
            wanted.iter().any(is)
        }),
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => {
            let mask = match operand {
                Bson::Array(places) => places
                    .iter()
                    .map(|place| 1_i64 << number(place).expect("a place") as i64)
                    .fold(0, |mask, bit| mask | bit),
                mask => number(mask).expect("a mask") as i64,
            };
            let fraction = |value: &&Bson| number(value).is_some_and(|n| n.fract() != 0.0);
            let value = value.filter(|value| !fraction(value));
            value.and_then(whole).is_some_and(|n| {
                let set = n & mask;
                match operator {
                    "$bitsAllSet" => set == mask,
                    "$bitsAllClear" => set == 0,
                    "$bitsAnySet" => set != 0,
                    _ => set != mask,
                }
            })
        }
        other => panic!("the model knows no {other}"),
    }
}

/// Only values of the same type as the operand compare.
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

/// Prefixes (`^a`), suffixes (`b$`) and substrings. No other letter has a special meaning.
fn text_matches(pattern: &str, text: &str) -> bool {
    match (pattern.strip_prefix('^'), pattern.strip_suffix('$')) {
        (Some(prefix), _) => text.starts_with(prefix),
        (_, Some(end)) => text.ends_with(end),
        _ => text.contains(pattern),
    }
}

fn is_type(alias: &str, value: &Bson) -> bool {
    match alias {
        "double" => matches!(value, Bson::Double(_)),
        "int" => matches!(value, Bson::Int32(_)),
        "long" => matches!(value, Bson::Int64(_)),
        "number" => number(value).is_some(),
        "string" => matches!(value, Bson::String(_)),
        "null" => matches!(value, Bson::Null),
        "bool" => matches!(value, Bson::Boolean(_)),
        "date" => matches!(value, Bson::DateTime(_)),
        "object" => matches!(value, Bson::Document(_)),
        "array" => matches!(value, Bson::Array(_)),
        other => panic!("the model knows no type {other}"),
    }
}

/// `{$gt: ["$n", 3]}`: a comparison of two operands. Unlike in a filter, values of all types compare, and a missing value
/// comes before all of them.
fn expression(value: &Bson, document: &Document) -> bool {
    let comparison = value.as_document().expect("a comparison");
    let (operator, operands) = comparison.iter().next().expect("a comparison");
    let operand = |at: usize| match &operands.as_array().expect("two operands")[at] {
        Bson::String(path) if path.starts_with('$') => document.get(&path[1..]).cloned(),
        constant => Some(constant.clone()),
    };
    let order = match (operand(0), operand(1)) {
        (Some(a), Some(b)) => compare(&a, &b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    match operator.as_str() {
        "$eq" => order.is_eq(),
        "$ne" => order.is_ne(),
        "$gt" => order.is_gt(),
        "$gte" => order.is_ge(),
        "$lt" => order.is_lt(),
        "$lte" => order.is_le(),
        other => panic!("the model knows no {other}"),
    }
}

/// Supports `required`, and in `properties` the type, a minimum, a minimum length and a list of values.
fn schema(schema: &Document, document: &Document) -> bool {
    let required = schema.get_array("required").into_iter().flatten();
    let there = |name: &Bson| document.contains_key(name.as_str().expect("a name"));
    let properties = schema.get_document("properties").into_iter().flatten();
    let allowed = |(name, rules): (&String, &Bson)| {
        let Some(value) = document.get(name) else {
            return true;
        };
        rules
            .as_document()
            .expect("rules")
            .iter()
            .all(|(rule, operand)| match rule.as_str() {
                "bsonType" => is_type(operand.as_str().expect("a type"), value),
                "minimum" => number(value).is_none_or(|n| n >= number(operand).expect("a number")),
                "minLength" => value.as_str().is_none_or(|text| {
                    text.chars().count() as f64 >= number(operand).expect("a number")
                }),
                "enum" => operand
                    .as_array()
                    .expect("values")
                    .iter()
                    .any(|one| equal(one, value)),
                other => panic!("the model knows no {other}"),
            })
    };
    required.into_iter().all(there) && properties.into_iter().all(allowed)
}
