//! The hashes in explain that show which queries are alike.
//!
//! Two queries share a plan shape if they differ only in values and in the order of their conditions. They share a query
//! shape if the order of the conditions and the types of the values are also the same. The hashes are Sundown's own, but the
//! rule for which queries are alike is MongoDB's.

use crate::query::stage::Entry;
use crate::value::{Doc, Type, ValueRef};

/// The texts that are hashed.
#[derive(Default)]
pub(super) struct Shape {
    plan: String,
    query: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ShapeKind {
    Plan,
    Query,
}

// === impl Shape ===

impl Shape {
    /// Creates the shape of a filter, which is given as [`crate::query::Filter::describe`] prints it.
    pub fn new(namespace: &str, filter: Doc<'_>) -> Self {
        let mut shape = Self {
            plan: "find ".to_owned(),
            query: format!("{namespace} "),
        };
        shape.plan.push_str(&node(filter, ShapeKind::Plan));
        shape.query.push_str(&node(filter, ShapeKind::Query));
        shape
    }

    /// Adds the order in which the client wrote the conditions. The filter itself is shown in the order of the planner.
    pub fn order(&mut self, filter: Doc<'_>) {
        for elem in filter {
            match elem.name() {
                "$and" | "$or" | "$nor" => {
                    let parts = elem.value.as_array().into_iter().flatten();
                    for part in parts.filter_map(|part| part.value.as_doc()) {
                        self.order(part);
                    }
                }
                name => self.query.push_str(&format!(" {name}")),
            }
        }
    }

    pub fn sort(&mut self, sort: Doc<'_>) {
        for shape in [&mut self.plan, &mut self.query] {
            shape.push_str(&format!(" sort {}", ValueRef::document(sort)));
        }
    }

    pub fn projection(&mut self, fields: Doc<'_>) {
        let mut shown: Vec<String> = fields
            .iter()
            .map(|elem| format!("{}: {}", elem.name(), elem.value))
            .collect();
        self.query
            .push_str(&format!(" project {}", shown.join(", ")));
        shown.sort();
        self.plan
            .push_str(&format!(" project {}", shown.join(", ")));
    }

    /// Adds any other difference between queries.
    pub fn other(&mut self, what: &str) {
        self.plan.push_str(what);
        self.query.push_str(what);
    }

    pub fn stage(&mut self, row: &Entry, spec: ValueRef<'_>) {
        let name = row.name;
        self.query
            .push_str(&format!(" {name} {}", describe_value(spec)));
        if row.facts.in_plan_shape {
            self.plan.push_str(&format!(" {name}"));
        }
    }

    pub fn plan_hash(&self) -> String {
        format!("{:08X}", hash(&self.plan, 0) as u32)
    }

    pub fn query_hash(&self) -> String {
        (1..5)
            .map(|salt| format!("{:016X}", hash(&self.query, salt)))
            .collect()
    }
}

/// Returns an FNV-1a hash.
fn hash(text: &str, salt: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    text.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Describes a conjunction of conditions.
fn node(doc: Doc<'_>, of: ShapeKind) -> String {
    let mut parts = Vec::new();
    conjunction(doc, of, &mut parts);
    join_parts("and", parts, of)
}

fn join_parts(name: &str, mut parts: Vec<String>, of: ShapeKind) -> String {
    if of == ShapeKind::Plan {
        parts.sort();
    }
    format!("{name}[{}]", parts.join(", "))
}

fn conjunction(doc: Doc<'_>, of: ShapeKind, parts: &mut Vec<String>) {
    for elem in doc {
        let name = elem.name();
        match (name, elem.value.as_array(), elem.value.as_doc()) {
            ("$and", Some(array), _) => {
                for inner in array.iter().filter_map(|elem| elem.value.as_doc()) {
                    conjunction(inner, of, parts);
                }
            }
            ("$or" | "$nor", Some(array), _) => {
                let inner = array.iter().filter_map(|elem| elem.value.as_doc());
                parts.push(join_parts(
                    name,
                    inner.map(|doc| node(doc, of)).collect(),
                    of,
                ));
            }
            ("$expr", ..) if of == ShapeKind::Plan => parts.push(name.to_owned()),
            ("$expr", ..) => parts.push(format!("$expr {}", describe_value(elem.value))),
            ("$jsonSchema", ..) => parts.push(format!("$jsonSchema {}", elem.value)),
            (_, _, Some(tests)) if !name.starts_with('$') => {
                parts.push(format!("{name}: {}", condition(tests, of)));
            }
            _ => parts.push(name.to_owned()),
        }
    }
}

/// Describes the operators of one field.
fn condition(tests: Doc<'_>, of: ShapeKind) -> String {
    let parts = tests.iter().map(|elem| {
        let (name, value) = (elem.name(), elem.value);
        match (name, value.as_doc(), of) {
            ("$not", Some(inner), _) => format!("$not {}", condition(inner, of)),
            ("$elemMatch", Some(inner), _) => {
                let by_value = inner.first().is_some_and(|first| {
                    !matches!(first.name(), "$and" | "$or" | "$nor" | "$expr")
                }) && inner.iter().all(|elem| elem.name().starts_with('$'));
                match by_value {
                    true => format!("$elemMatch {}", condition(inner, of)),
                    false => format!("$elemMatch {}", node(inner, of)),
                }
            }
            ("$exists", ..) | ("$type", _, ShapeKind::Query) => format!("{name} {value}"),
            ("$in", _, ShapeKind::Plan) | ("$all", ..) => {
                format!("{name} {}", value.as_array().map_or(0, Doc::count))
            }
            (_, _, ShapeKind::Plan) => name.to_owned(),
            (_, _, ShapeKind::Query) => format!("{name} {}", kind(value)),
        }
    });
    join_parts("", parts.collect(), of)
}

/// Describes a value without its content.
fn kind(value: ValueRef<'_>) -> String {
    match value.ty() {
        ty if ty.is_number() => "?number".to_owned(),
        Type::Array => {
            let mut kinds: Vec<_> = value
                .as_array()
                .into_iter()
                .flatten()
                .map(|elem| kind(elem.value))
                .collect();
            kinds.sort();
            kinds.dedup();
            format!("?array<{}>", kinds.join(", "))
        }
        ty => format!("?{}", ty.alias()),
    }
}

/// Describes a specification of unknown structure. Names and field paths stay; other values become their kinds.
fn describe_value(value: ValueRef<'_>) -> String {
    match (value.as_doc(), value.as_array(), value.as_str()) {
        (Some(doc), ..) => {
            let parts: Vec<_> = doc
                .iter()
                .map(|elem| format!("{}: {}", elem.name(), describe_value(elem.value)))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
        (_, Some(array), _) => {
            let parts: Vec<_> = array
                .iter()
                .map(|elem| describe_value(elem.value))
                .collect();
            format!("[{}]", parts.join(", "))
        }
        (_, _, Some(text)) if text.starts_with('$') => text.to_owned(),
        _ => kind(value),
    }
}
