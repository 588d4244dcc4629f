//! Updates and projections over plain values.

use bson::{Bson, Document};

use super::matcher;
use super::order::{compare, equal, integer, number, same_value};

/// The code of the error that stops an update.
pub type Refusal = i64;

/// The part of an update that selects array elements.
#[derive(Default)]
pub struct Conditions {
    pub filter: Document,
    pub array_filters: Option<Bson>,
}

/// A stage and its argument.
pub fn stage(given: &Bson) -> (&str, &Bson) {
    let stage = given.as_document().expect("a stage");
    let (name, spec) = stage.iter().next().expect("a stage");
    (name, spec)
}

/// Applies the stages `$set` and `$unset`, one after another.
fn pipeline(stages: &[Bson], document: &Document) -> Document {
    let mut document = document.clone();
    for given in stages {
        let (name, spec) = stage(given);
        if name == "$unset" {
            let names = match spec {
                Bson::Array(names) => names.clone(),
                name => vec![name.clone()],
            };
            for name in names {
                document.remove(name.as_str().expect("a name"));
            }
            continue;
        }
        // All fields of a stage see the document before it.
        let before = document.clone();
        for (name, expression) in spec.as_document().expect("fields") {
            match evaluate(expression, &before) {
                Some(value) => drop(document.insert(name, value)),
                None => drop(document.remove(name)),
            }
        }
    }
    document
}

/// Evaluates a path, a sum, a literal or a constant. `None` means missing.
fn evaluate(expression: &Bson, document: &Document) -> Option<Bson> {
    match expression {
        Bson::String(path) if path.starts_with('$') => document.get(&path[1..]).cloned(),
        Bson::Document(operator) => match operator.iter().next().expect("an operator") {
            (name, value) if name == "$literal" => Some(value.clone()),
            (_, terms) => {
                let terms = terms.as_array().expect("terms");
                let values: Option<Vec<Bson>> = terms
                    .iter()
                    .map(|term| evaluate(term, document).filter(|value| *value != Bson::Null))
                    .collect();
                Some(values.map_or(Bson::Null, |values| {
                    arithmetic(&values[0], &values[1], i64::checked_add, |a, b| a + b)
                        .expect("numbers")
                }))
            }
        },
        constant => Some(constant.clone()),
    }
}

/// Applies one change to some elements: `arr.$`, `arr.$[]` or `arr.$[e]`. Returns `None` if the update has no such path.
fn elements(
    update: &Document,
    document: &Document,
    conditions: &Conditions,
    now: i64,
) -> Option<Result<Document, Refusal>> {
    let (operator, fields) = update.iter().next()?;
    let (path, operand) = fields.as_document()?.iter().next()?;
    let which = path.strip_prefix("arr.$")?;
    let Some(Bson::Array(array)) = document.get("arr") else {
        return Some(Err(2));
    };
    let mut array = array.clone();
    let first = |condition: &Bson| {
        let of = |element: &Bson| bson::doc! {"e": element.clone()};
        let filter = bson::doc! {"e": condition.clone()};
        array
            .iter()
            .position(|element| matcher::matches(&filter, &of(element)))
    };
    let meant: Vec<usize> = match which {
        "" => match first(conditions.filter.get("arr")?) {
            Some(at) => vec![at],
            None => return Some(Err(2)),
        },
        "[]" => (0..array.len()).collect(),
        _ => {
            let filters = conditions.array_filters.as_ref()?.as_array()?;
            let filter = filters.first()?.as_document()?;
            (0..array.len())
                .filter(|&at| matcher::matches(filter, &bson::doc! {"e": array[at].clone()}))
                .collect()
        }
    };
    for at in meant {
        match one(operator, Some(&array[at]), operand, now) {
            Ok(value) => array[at] = value?,
            Err(refusal) => return Some(Err(refusal)),
        }
    }
    let mut changed = document.clone();
    changed.insert("arr", array);
    Some(Ok(changed))
}

/// Applies an update to a document. `inserting` says whether an upsert creates it.
pub fn apply(
    update: &Bson,
    document: &Document,
    conditions: &Conditions,
    now: i64,
    inserting: bool,
) -> Result<Document, Refusal> {
    let update = match update {
        Bson::Array(stages) => return Ok(pipeline(stages, document)),
        update => update.as_document().expect("an update"),
    };
    if !update
        .keys()
        .next()
        .is_some_and(|name| name.starts_with('$'))
    {
        let mut replaced = Document::new();
        if let Some(id) = document.get("_id") {
            replaced.insert("_id", id.clone());
        }
        replaced.extend(
            update
                .iter()
                .filter(|(name, _)| *name != "_id")
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        if !replaced.contains_key("_id") {
            replaced.insert("_id", update.get("_id").expect("an _id").clone());
        }
        return Ok(replaced);
    }
    if let Some(changed) = elements(update, document, conditions, now) {
        return changed;
    }
    // One walk through the document in the order of the paths, whatever the operators are.
    let mut changes: Vec<(&str, &str, &Bson)> = Vec::new();
    for (operator, fields) in update {
        for (path, operand) in fields.as_document().expect("fields") {
            changes.push((path, operator, operand));
        }
    }
    changes.sort_by_key(|(path, ..)| *path);
    let mut changed = document.clone();
    for (path, operator, operand) in changes {
        if operator == "$setOnInsert" && !inserting {
            continue;
        }
        if operator == "$rename" {
            if let Some(value) = changed.remove(path) {
                let to = operand.as_str().expect("a name");
                changed.insert(to, value);
            }
            continue;
        }
        let (parent, name) = match path.split_once('.') {
            None => (&mut changed, path),
            Some((outer, inner)) => {
                match changed.get(outer) {
                    None if operator == "$unset" => continue,
                    None => drop(changed.insert(outer, Document::new())),
                    Some(Bson::Document(_)) => {}
                    Some(_) if operator == "$unset" => continue,
                    Some(_) => return Err(28),
                }
                (changed.get_document_mut(outer).expect("just seen"), inner)
            }
        };
        match one(operator, parent.get(name), operand, now)? {
            Some(value) => drop(parent.insert(name, value)),
            None => drop(parent.remove(name)),
        }
    }
    Ok(changed)
}

/// Returns the new value of one field, or `None` if it has none.
fn one(
    operator: &str,
    old: Option<&Bson>,
    operand: &Bson,
    now: i64,
) -> Result<Option<Bson>, Refusal> {
    let array = |refusal: Refusal| match old {
        None => Ok(Vec::new()),
        Some(Bson::Array(array)) => Ok(array.clone()),
        Some(_) => Err(refusal),
    };
    let new = match operator {
        "$set" | "$setOnInsert" => operand.clone(),
        "$unset" => return Ok(None),
        "$inc" => match old {
            None => operand.clone(),
            Some(old) => arithmetic(old, operand, i64::checked_add, |a, b| a + b)?,
        },
        "$mul" => match old {
            None => arithmetic(&Bson::Int32(0), operand, i64::checked_mul, |a, b| a * b)?,
            Some(old) => arithmetic(old, operand, i64::checked_mul, |a, b| a * b)?,
        },
        "$min" => match old {
            Some(old) if compare(old, operand).is_le() => old.clone(),
            _ => operand.clone(),
        },
        "$max" => match old {
            Some(old) if compare(old, operand).is_ge() => old.clone(),
            _ => operand.clone(),
        },
        "$currentDate" => Bson::DateTime(bson::DateTime::from_millis(now)),
        "$push" => {
            let mut array = array(2)?;
            match operand
                .as_document()
                .filter(|each| each.contains_key("$each"))
            {
                None => array.push(operand.clone()),
                Some(each) => {
                    let at = each
                        .get("$position")
                        .and_then(number)
                        .map_or(array.len(), |at| {
                            let length = array.len() as f64;
                            let at = if at < 0.0 {
                                (length + at).max(0.0)
                            } else {
                                at.min(length)
                            };
                            at as usize
                        });
                    let added = each.get_array("$each").expect("values").iter().cloned();
                    array.splice(at..at, added);
                    if let Some(way) = each.get("$sort").and_then(number) {
                        array.sort_by(|a, b| match way < 0.0 {
                            true => compare(b, a),
                            false => compare(a, b),
                        });
                    }
                    if let Some(slice) = each.get("$slice").and_then(number) {
                        let keep = (slice.abs() as usize).min(array.len());
                        if slice < 0.0 {
                            array.drain(..array.len() - keep);
                        } else {
                            array.truncate(keep);
                        }
                    }
                }
            }
            Bson::Array(array)
        }
        "$addToSet" => {
            let mut array = array(2)?;
            let several = operand
                .as_document()
                .and_then(|each| each.get_array("$each").ok());
            for value in several.unwrap_or(&vec![operand.clone()]) {
                if !array.iter().any(|element| equal(element, value)) {
                    array.push(value.clone());
                }
            }
            Bson::Array(array)
        }
        "$pop" if old.is_none() => return Ok(None),
        "$pop" => {
            let mut array = array(14)?;
            if number(operand) == Some(-1.0) {
                if !array.is_empty() {
                    array.remove(0);
                }
            } else {
                array.pop();
            }
            Bson::Array(array)
        }
        "$pull" if old.is_none() => return Ok(None),
        "$pull" => {
            let mut array = array(2)?;
            array.retain(|element| !pulled(element, operand));
            Bson::Array(array)
        }
        "$pullAll" if old.is_none() => return Ok(None),
        "$pullAll" => {
            let mut array = array(2)?;
            let wanted = operand.as_array().expect("values");
            array.retain(|element| !wanted.iter().any(|value| equal(element, value)));
            Bson::Array(array)
        }
        "$bit" => bits(old, operand)?,
        other => panic!("the model knows no {other}"),
    };
    Ok(Some(new))
}

fn bits(old: Option<&Bson>, operation: &Bson) -> Result<Bson, Refusal> {
    let (name, operand) = operation
        .as_document()
        .expect("an operation")
        .iter()
        .next()
        .expect("one");
    let whole = |value: &Bson| match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        _ => None,
    };
    // A missing field counts as zero of the narrower type.
    let old = old.cloned().unwrap_or(Bson::Int32(0));
    let (Some(a), Some(b)) = (whole(&old), whole(operand)) else {
        return Err(2);
    };
    let result = match name.as_str() {
        "and" => a & b,
        "or" => a | b,
        _ => a ^ b,
    };
    Ok(match (&old, operand) {
        (Bson::Int32(_), Bson::Int32(_)) => Bson::Int32(result as i32),
        _ => Bson::Int64(result),
    })
}

fn pulled(element: &Bson, operand: &Bson) -> bool {
    match operand.as_document() {
        Some(operators) => matcher::matches(
            &bson::doc! {"": operators.clone()},
            &bson::doc! {"": element.clone()},
        ),
        None => equal(element, operand),
    }
}

fn arithmetic(
    a: &Bson,
    b: &Bson,
    whole: fn(i64, i64) -> Option<i64>,
    float: fn(f64, f64) -> f64,
) -> Result<Bson, Refusal> {
    let (Some(x), Some(y)) = (number(a), number(b)) else {
        return Err(14);
    };
    let (Some(m), Some(n)) = (integer(a), integer(b)) else {
        return Ok(Bson::Double(float(x, y)));
    };
    let result = whole(m, n).ok_or(2)?;
    Ok(match (a, b) {
        (Bson::Int32(_), Bson::Int32(_)) => {
            i32::try_from(result).map_or(Bson::Int64(result), Bson::Int32)
        }
        _ => Bson::Int64(result),
    })
}

/// Returns the document that an upsert starts with: the equalities of its filter.
pub fn seed(filter: &Document, update: &Bson) -> Document {
    let replacement = update.as_document().is_some_and(|update| {
        !update
            .keys()
            .next()
            .is_some_and(|name| name.starts_with('$'))
    });
    let mut document = Document::new();
    for (path, value) in filter {
        let equality = match value {
            Bson::Document(operators)
                if operators
                    .keys()
                    .next()
                    .is_some_and(|name| name.starts_with('$')) =>
            {
                operators.get("$eq")
            }
            value => Some(value),
        };
        if let Some(value) = equality
            && (!replacement || path == "_id")
        {
            document.insert(path, value.clone());
        }
    }
    document
}

/// Stored documents begin with `_id`.
pub fn id_first(document: Document) -> Document {
    let mut ordered = Document::new();
    if let Some(id) = document.get("_id") {
        ordered.insert("_id", id.clone());
    }
    ordered.extend(document);
    ordered
}

/// Inclusion or exclusion of fields, also one level down.
pub fn project(projection: &Document, document: &Document) -> Document {
    let included = projection
        .iter()
        .find(|(name, _)| *name != "_id")
        .map_or_else(
            || number(&projection["_id"]) != Some(0.0),
            |(_, on)| number(on) != Some(0.0),
        );
    let id = projection
        .get("_id")
        .is_none_or(|on| number(on) != Some(0.0));
    let fields: Vec<&str> = projection
        .keys()
        .map(String::as_str)
        .filter(|name| *name != "_id")
        .collect();
    let mut out = Document::new();
    for (name, value) in document {
        if name == "_id" {
            if id {
                out.insert(name, value.clone());
            }
            continue;
        }
        let whole = fields.contains(&name.as_str());
        let inner: Vec<&str> = fields
            .iter()
            .filter_map(|field| field.strip_prefix(name.as_str())?.strip_prefix('.'))
            .collect();
        if whole {
            if included {
                out.insert(name, value.clone());
            }
        } else if inner.is_empty() {
            if !included {
                out.insert(name, value.clone());
            }
        } else if let Some(part) = project_inside(value, &inner, included) {
            out.insert(name, part);
        }
    }
    out
}

fn project_inside(value: &Bson, fields: &[&str], included: bool) -> Option<Bson> {
    match value {
        Bson::Document(document) => Some(Bson::Document(
            document
                .iter()
                .filter(|(name, _)| fields.contains(&name.as_str()) == included)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )),
        Bson::Array(array) => Some(Bson::Array(
            array
                .iter()
                .filter_map(|element| project_inside(element, fields, included))
                .collect(),
        )),
        other => (!included).then(|| other.clone()),
    }
}

/// Returns whether two documents have the same bytes.
pub fn unchanged(a: &Document, b: &Document) -> bool {
    same_value(&Bson::Document(a.clone()), &Bson::Document(b.clone()))
}
