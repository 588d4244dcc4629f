//! The parts of a filter that every document must satisfy and that speak of one path.

use super::bounds::{self, Bounds, Kind, Place};
use super::interval;
use crate::{
    query::filter::{Comparison, Field, Node, Op, Test},
    value::{Path, Type},
};

/// One predicate of the conjunction.
#[derive(Debug)]
pub struct Predicate<'f> {
    pub path: Path,
    pub test: Ask<'f>,
    /// The part of the top conjunction that it comes from.
    pub part: usize,
    /// The bounds say all that the part says.
    pub whole: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum Ask<'f> {
    Is(&'f Test),
    Not(&'f Test),
    /// Some element passes all of these.
    Element(&'f [Node]),
}

// === impl Predicate ===

impl Predicate<'_> {
    pub fn bounds(&self, multikey: bool) -> Option<Bounds> {
        let place = Place {
            digits: has_digits(&self.path),
            multikey,
        };
        match self.test {
            Ask::Is(test) => bounds::of_test(test, place),
            Ask::Not(test) => bounds::of_negation(test, place),
            Ask::Element(_) if place.digits => None,
            Ask::Element(nodes) => {
                // One element, one key: here the bounds of several tests meet.
                let mut met: Option<Bounds> = None;
                for node in nodes {
                    let Node::Field(field) = node else { continue };
                    let Some(next) = bounds::of_test(&field.test, place) else {
                        continue;
                    };
                    met = Some(match met {
                        None => next,
                        Some(known) => Bounds {
                            intervals: interval::intersect(&known.intervals, &next.intervals),
                            kind: known.kind.max(next.kind),
                        },
                    });
                }
                met
            }
        }
    }

    /// Whether only documents that have the field can pass.
    pub fn needs_field(&self) -> bool {
        match self.test {
            Ask::Is(test) => needs_field(test),
            Ask::Not(_) => false,
            Ask::Element(_) => true,
        }
    }
}

pub fn needs_field(test: &Test) -> bool {
    match test {
        Test::Compare(comparison) => !accepts_missing(comparison),
        Test::In(members) | Test::All(members) => !members
            .values()
            .iter()
            .any(|value| value.ty() == Type::Null),
        _ => true,
    }
}

/// A missing field equals null and lies between MinKey and MaxKey.
fn accepts_missing(comparison: &Comparison) -> bool {
    match (comparison.op, comparison.value.ty()) {
        (_, Type::Null) => true,
        (Op::Eq, _) => false,
        (_, Type::MinKey | Type::MaxKey) => true,
        _ => false,
    }
}

fn has_digits(path: &Path) -> bool {
    path.parts()
        .any(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// The predicates of a filter, each with the place of its part in the top conjunction.
pub fn collect(root: &Node) -> Vec<Predicate<'_>> {
    let mut found = Vec::new();
    match root {
        Node::And(nodes) => {
            for (part, node) in nodes.iter().enumerate() {
                add(node, part, &mut found);
            }
        }
        node => add(node, 0, &mut found),
    }
    found
}

fn add<'f>(node: &'f Node, part: usize, found: &mut Vec<Predicate<'f>>) {
    match node {
        Node::And(nodes) => nodes.iter().for_each(|node| add(node, part, found)),
        Node::Field(field) => add_field(field, part, found),
        Node::Not(inner) => {
            if let Node::Field(field) = &**inner {
                found.push(Predicate {
                    path: field.path.clone(),
                    test: Ask::Not(&field.test),
                    part,
                    whole: false,
                });
            }
        }
        _ => {}
    }
}

fn add_field<'f>(field: &'f Field, part: usize, found: &mut Vec<Predicate<'f>>) {
    match &field.test {
        Test::ElemValue(nodes) => found.push(Predicate {
            path: field.path.clone(),
            test: Ask::Element(nodes),
            part,
            whole: false,
        }),
        Test::ElemObject(node) => {
            // The elements' fields are under this path; a number there would mean something else.
            if has_digits(&field.path) {
                return;
            }
            let mut inner = Vec::new();
            add(node, part, &mut inner);
            for predicate in inner {
                if has_digits(&predicate.path) || matches!(predicate.test, Ask::Not(_)) {
                    continue;
                }
                let path = format!("{}.{}", field.path.as_str(), predicate.path.as_str());
                found.push(Predicate {
                    path: Path::parse(&path),
                    whole: false,
                    ..predicate
                });
            }
        }
        test => found.push(Predicate {
            path: field.path.clone(),
            test: Ask::Is(test),
            part,
            whole: matches!(test, Test::Compare(_) | Test::In(_)),
        }),
    }
}

/// The strongest bounds that the predicates give for a path, and the parts that they come from. Where an array can hold many
/// keys of one document, each predicate may be satisfied by another of them: then one predicate alone decides.
pub fn best_bounds(
    predicates: &[Predicate<'_>],
    path: &str,
    multikey: bool,
) -> Option<(Bounds, Vec<usize>)> {
    let mut best: Option<(Bounds, Vec<usize>)> = None;
    for predicate in predicates.iter().filter(|p| p.path.as_str() == path) {
        let Some(next) = predicate.bounds(multikey) else {
            continue;
        };
        let part = predicate.whole.then_some(predicate.part);
        best = Some(match best {
            None => (next, part.into_iter().collect()),
            Some((known, mut parts)) if !multikey => {
                parts.extend(part);
                let intervals = interval::intersect(&known.intervals, &next.intervals);
                let kind = match known.kind.max(next.kind) {
                    Kind::Points if intervals.len() == 1 => Kind::Point,
                    kind => kind,
                };
                (Bounds { intervals, kind }, parts)
            }
            Some((known, parts)) if known.kind >= next.kind => (known, parts),
            Some(_) => (next, part.into_iter().collect()),
        });
    }
    best
}
