//! The predicates of a filter: its parts that every document must satisfy and that concern one path.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use super::bounds::{self, BoundKind, PathBounds, PathFacts};
use crate::{
    error::Result,
    interrupt,
    query::filter::{CompareOp, Comparison, FieldOrder, FieldTest, FilterNode, Test},
    value::{ArrayParts, Path, Type},
};

/// One predicate of the conjunction.
#[derive(Debug)]
pub struct Predicate<'f> {
    pub path: Cow<'f, Path>,
    pub test: PredicateTest<'f>,
    /// The part of the top conjunction that the predicate comes from.
    pub part: usize,
    /// The predicate is the whole part, and its bounds express it completely, at least if there are no arrays.
    pub is_complete: bool,
    /// The innermost `$elemMatch` on objects that it belongs to.
    pub element: Option<Element>,
}

/// An `$elemMatch`: one element passes all predicates that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    pub number: usize,
    /// The number of parts of its path.
    depth: usize,
}

#[derive(Debug, Clone, Copy)]
pub enum PredicateTest<'f> {
    Is(&'f Test),
    Not(&'f Test),
    /// Some element passes all of these.
    Element(&'f [FilterNode]),
    /// The value compares like this in an expression.
    Order(&'f FieldOrder),
}

// === impl Predicate ===

impl Predicate<'_> {
    pub fn bounds(&self, multikey: bool) -> Result<Option<PathBounds>> {
        let path_facts = PathFacts {
            digits: has_digits(&self.path),
            multikey,
        };
        match self.test {
            PredicateTest::Is(test) => bounds::of_test(test, path_facts),
            PredicateTest::Not(test) => bounds::of_negation(test, path_facts),
            // An expression compares an array as a whole, and the index holds its elements.
            PredicateTest::Order(order) if !multikey => bounds::of_order(order).map(Some),
            PredicateTest::Order(_) => Ok(None),
            PredicateTest::Element(_) if path_facts.digits => Ok(None),
            PredicateTest::Element(nodes) => {
                // One element has one key, so the bounds of several tests can be intersected.
                let mut tests = Vec::new();
                for node in nodes {
                    interrupt::tick(1)?;
                    if let FilterNode::Field(field) = node {
                        tests.extend(bounds::of_test(&field.test, path_facts)?);
                    }
                }
                PathBounds::all_of(tests)
            }
        }
    }

    /// Returns whether only documents that have the field can pass. Where there are arrays on the path, a document without
    /// the field need not equal null.
    pub fn needs_field(&self, multikey: bool) -> bool {
        match self.test {
            PredicateTest::Is(test) => needs_field(test),
            PredicateTest::Not(test) => !multikey && equals_missing(test),
            PredicateTest::Element(_) => true,
            PredicateTest::Order(order) => matches!(order.op, CompareOp::Gt | CompareOp::Gte),
        }
    }
}

// === impl Element ===

impl Element {
    /// Returns whether each element has one value on a path with these arrays, because they all lead to the element.
    pub fn is_behind(self, arrays: ArrayParts) -> bool {
        arrays.are_within(self.depth)
    }
}

pub fn needs_field(test: &Test) -> bool {
    match test {
        Test::Compare(comparison) => !accepts_missing(comparison),
        Test::In(members) | Test::All(members) => !members.has_null(),
        _ => true,
    }
}

/// Returns whether a missing field certainly passes, because it equals null.
fn equals_missing(test: &Test) -> bool {
    match test {
        Test::Compare(comparison) => {
            comparison.value.ty() == Type::Null
                && !matches!(comparison.op, CompareOp::Lt | CompareOp::Gt)
        }
        Test::In(members) => members.has_null(),
        _ => false,
    }
}

/// Returns whether a missing field may pass. It equals null and lies between MinKey and MaxKey.
fn accepts_missing(comparison: &Comparison) -> bool {
    match (comparison.op, comparison.value.ty()) {
        (_, Type::Null) => true,
        (CompareOp::Eq, _) => false,
        (_, Type::MinKey | Type::MaxKey) => true,
        _ => false,
    }
}

pub fn has_digits(path: &Path) -> bool {
    path.parts()
        .any(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the parts of the top conjunction.
pub fn conjunction(root: &FilterNode) -> &[FilterNode] {
    match root {
        FilterNode::And(nodes) => nodes,
        node => std::slice::from_ref(node),
    }
}

/// The predicates of a conjunction, sorted by path.
pub struct Predicates<'f> {
    sorted: Vec<Predicate<'f>>,
    /// How many parts the top conjunction has.
    pub parts: usize,
    /// A cache of the bounds computed so far: several indexes may begin with the same field.
    known: RefCell<Vec<CachedBounds>>,
}

/// The bounds of a path with some arrays, if it has any.
struct CachedBounds {
    path: String,
    arrays: ArrayParts,
    element: Option<usize>,
    bounds: Option<Rc<FieldBounds>>,
}

/// The bounds of a field of an index.
#[derive(Debug)]
pub struct FieldBounds {
    pub bounds: PathBounds,
    /// The parts of the top conjunction that the bounds express.
    pub parts: Vec<usize>,
    /// The `$elemMatch` that the bounds come from.
    pub element: Option<Element>,
}

// === impl Predicates ===

impl<'f> Predicates<'f> {
    pub fn of(root: &'f FilterNode) -> Result<Self> {
        let parts = conjunction(root);
        let mut found = FoundPredicates {
            all: Vec::with_capacity(parts.len()),
            elements: 0,
        };
        for (part, node) in parts.iter().enumerate() {
            found.add(node, part, matches!(node, FilterNode::Field(_)))?;
        }
        let mut sorted = found.all;
        interrupt::tick_each(&sorted)?;
        // The sort is stable: predicates on one path keep the order in which they were written.
        sorted.sort_by(|a, b| a.path.as_str().cmp(b.path.as_str()));
        Ok(Self {
            sorted,
            parts: parts.len(),
            known: RefCell::default(),
        })
    }

    /// Returns whether `accepts` is true of a predicate on a path, or of any predicate if there is no path.
    pub fn any(
        &self,
        path: Option<&str>,
        accepts: impl Fn(&Predicate<'f>) -> bool,
    ) -> Result<bool> {
        let predicates = path.map_or(self.sorted.as_slice(), |path| self.on(path));
        interrupt::tick_each(predicates)?;
        Ok(predicates.iter().any(accepts))
    }

    /// Returns the predicates on a path.
    pub fn on(&self, path: &str) -> &[Predicate<'f>] {
        let from = self.sorted.partition_point(|p| p.path.as_str() < path);
        let following = self.sorted.get(from..).unwrap_or_default();
        let count = following.partition_point(|p| p.path.as_str() == path);
        following.get(..count).unwrap_or_default()
    }

    /// Returns the strongest bounds for a path with these arrays. If an array can give one document many keys, different keys
    /// may satisfy different predicates. Then the bounds come from one predicate alone, or from those of one `$elemMatch`. If
    /// `element` is given, they come from that `$elemMatch`.
    pub fn bounds(
        &self,
        path: &str,
        arrays: ArrayParts,
        element: Option<usize>,
    ) -> Result<Option<Rc<FieldBounds>>> {
        let same = |known: &&CachedBounds| {
            known.path == path && known.arrays == arrays && known.element == element
        };
        if let Some(known) = self.known.borrow().iter().find(same) {
            return Ok(known.bounds.clone());
        }
        let bounds = self.best_bounds(path, arrays, element)?.map(Rc::new);
        self.known.borrow_mut().push(CachedBounds {
            path: path.to_owned(),
            arrays,
            element,
            bounds: bounds.clone(),
        });
        Ok(bounds)
    }

    fn best_bounds(
        &self,
        path: &str,
        arrays: ArrayParts,
        element: Option<usize>,
    ) -> Result<Option<FieldBounds>> {
        let mut best = JointBounds::default();
        let mut current = JointBounds::default();
        for predicate in self.on(path) {
            interrupt::tick(1)?;
            let own = predicate.element;
            if element.is_some() && own.map(|own| own.number) != element {
                continue;
            }
            let Some(bounds) = predicate.bounds(!arrays.is_empty())? else {
                continue;
            };
            // Making an interval takes longer than reading a condition.
            interrupt::tick_each(&bounds.intervals)?;
            // Predicates on the same element follow each other.
            let is_joint = arrays.is_empty()
                || own.is_some_and(|own| own.is_behind(arrays)) && own == current.element;
            if !is_joint {
                best = best.stronger(current);
                current = JointBounds::default();
            }
            current.element = own;
            current.kind = current.kind.max(Some(bounds.kind));
            current.bounds.push(bounds);
            current
                .parts
                .extend(predicate.is_complete.then_some(predicate.part));
        }
        let JointBounds {
            bounds,
            parts,
            element,
            ..
        } = best.stronger(current);
        Ok(PathBounds::all_of(bounds)?.map(|bounds| FieldBounds {
            bounds,
            parts,
            element,
        }))
    }
}

/// The bounds of predicates on one path that one key satisfies together.
#[derive(Default)]
struct JointBounds {
    kind: Option<BoundKind>,
    bounds: Vec<PathBounds>,
    parts: Vec<usize>,
    element: Option<Element>,
}

// === impl JointBounds ===

impl JointBounds {
    /// Returns the stronger of two, or this one if neither is.
    fn stronger(self, other: Self) -> Self {
        match (other.kind, other.bounds.len()) > (self.kind, self.bounds.len()) {
            true => other,
            false => self,
        }
    }
}

/// The predicates that a walk through a filter has found so far.
struct FoundPredicates<'f> {
    all: Vec<Predicate<'f>>,
    /// The number of `$elemMatch` conditions on objects.
    elements: usize,
}

// === impl FoundPredicates ===

impl<'f> FoundPredicates<'f> {
    fn add(&mut self, node: &'f FilterNode, part: usize, is_complete: bool) -> Result<()> {
        interrupt::tick(1)?;
        match node {
            FilterNode::And(nodes) => {
                for node in nodes {
                    self.add(node, part, false)?;
                }
            }
            FilterNode::Field(field) => self.add_field(field, part, is_complete)?,
            FilterNode::Expr(expr) => {
                for node in &expr.implied {
                    self.add(node, part, false)?;
                }
                for order in &expr.ordered {
                    self.push(&order.path, PredicateTest::Order(order), part, false);
                }
            }
            FilterNode::Not(inner) => {
                if let FilterNode::Field(field) = &**inner {
                    self.push(&field.path, PredicateTest::Not(&field.test), part, false);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_field(&mut self, field: &'f FieldTest, part: usize, is_complete: bool) -> Result<()> {
        match &field.test {
            Test::ElemValue(nodes) => {
                self.push(&field.path, PredicateTest::Element(nodes), part, false);
            }
            Test::ElemObject(node) => {
                // The fields of the elements are under this path. A number there would mean something else.
                if has_digits(&field.path) {
                    return Ok(());
                }
                let number = self.elements;
                self.elements += 1;
                let outer = std::mem::take(&mut self.all);
                self.add(node, part, false)?;
                let inner = std::mem::replace(&mut self.all, outer);
                for predicate in inner {
                    if has_digits(&predicate.path)
                        || matches!(predicate.test, PredicateTest::Not(_))
                    {
                        continue;
                    }
                    let path = format!("{}.{}", field.path.as_str(), predicate.path.as_str());
                    let (number, depth) = match predicate.element {
                        Some(inner) => (inner.number, inner.depth),
                        None => (number, 0),
                    };
                    self.all.push(Predicate {
                        path: Cow::Owned(Path::parse(&path)),
                        element: Some(Element {
                            number,
                            depth: field.path.len() + depth,
                        }),
                        ..predicate
                    });
                }
            }
            test => {
                let is_complete = is_complete && bounds::is_exact(test)?;
                self.push(&field.path, PredicateTest::Is(test), part, is_complete);
            }
        }
        Ok(())
    }

    fn push(&mut self, path: &'f Path, test: PredicateTest<'f>, part: usize, is_complete: bool) {
        self.all.push(Predicate {
            path: Cow::Borrowed(path),
            test,
            part,
            is_complete,
            element: None,
        });
    }
}
