//! The predicates of a filter: its parts that every document must satisfy and that concern one path.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use super::bounds::{self, PathBounds, PathFacts};
use crate::{
    error::Result,
    interrupt,
    query::filter::{CompareOp, Comparison, FieldTest, FilterNode, Test},
    value::{Path, Type},
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
}

#[derive(Debug, Clone, Copy)]
pub enum PredicateTest<'f> {
    Is(&'f Test),
    Not(&'f Test),
    /// Some element passes all of these.
    Element(&'f [FilterNode]),
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

    /// Returns whether only documents that have the field can pass.
    pub fn needs_field(&self) -> bool {
        match self.test {
            PredicateTest::Is(test) => needs_field(test),
            PredicateTest::Not(_) => false,
            PredicateTest::Element(_) => true,
        }
    }
}

pub fn needs_field(test: &Test) -> bool {
    match test {
        Test::Compare(comparison) => !accepts_missing(comparison),
        Test::In(members) | Test::All(members) => !members.has_null(),
        _ => true,
    }
}

/// Returns whether a missing field passes. It equals null and lies between MinKey and MaxKey.
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

/// The predicates of a conjunction, sorted by path.
pub struct Predicates<'f> {
    sorted: Vec<Predicate<'f>>,
    /// How many parts the top conjunction has.
    pub parts: usize,
    /// A cache of the bounds computed so far: several indexes may begin with the same field.
    known: RefCell<Vec<CachedBounds>>,
}

/// The bounds of a path, multikey or not, if it has any.
struct CachedBounds {
    path: String,
    multikey: bool,
    bounds: Option<Rc<FieldBounds>>,
}

/// The bounds of a field of an index.
#[derive(Debug)]
pub struct FieldBounds {
    pub bounds: PathBounds,
    /// The parts of the top conjunction that the bounds express.
    pub parts: Vec<usize>,
}

// === impl Predicates ===

impl<'f> Predicates<'f> {
    pub fn of(root: &'f FilterNode) -> Result<Self> {
        let parts = match root {
            FilterNode::And(nodes) => nodes.as_slice(),
            node => std::slice::from_ref(node),
        };
        let mut sorted = Vec::with_capacity(parts.len());
        for (part, node) in parts.iter().enumerate() {
            add(
                node,
                part,
                matches!(node, FilterNode::Field(_)),
                &mut sorted,
            )?;
        }
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

    /// Returns the strongest bounds for a path. If an array can give one document many keys, different keys may satisfy
    /// different predicates, so the bounds come from one predicate alone.
    pub fn bounds(&self, path: &str, multikey: bool) -> Result<Option<Rc<FieldBounds>>> {
        let same = |known: &&CachedBounds| known.path == path && known.multikey == multikey;
        if let Some(known) = self.known.borrow().iter().find(same) {
            return Ok(known.bounds.clone());
        }
        let bounds = self.best_bounds(path, multikey)?.map(Rc::new);
        self.known.borrow_mut().push(CachedBounds {
            path: path.to_owned(),
            multikey,
            bounds: bounds.clone(),
        });
        Ok(bounds)
    }

    fn best_bounds(&self, path: &str, multikey: bool) -> Result<Option<FieldBounds>> {
        let mut found = Vec::new();
        let mut parts = Vec::new();
        for predicate in self.on(path) {
            interrupt::tick(1)?;
            let Some(bounds) = predicate.bounds(multikey)? else {
                continue;
            };
            // Making an interval takes longer than reading a condition.
            interrupt::tick_each(&bounds.intervals)?;
            let part = predicate.is_complete.then_some(predicate.part);
            if multikey {
                if found
                    .first()
                    .is_some_and(|known: &PathBounds| known.kind >= bounds.kind)
                {
                    continue;
                }
                found.clear();
                parts.clear();
            }
            found.push(bounds);
            parts.extend(part);
        }
        Ok(PathBounds::all_of(found)?.map(|bounds| FieldBounds { bounds, parts }))
    }
}

fn add<'f>(
    node: &'f FilterNode,
    part: usize,
    is_complete: bool,
    found: &mut Vec<Predicate<'f>>,
) -> Result<()> {
    interrupt::tick(1)?;
    match node {
        FilterNode::And(nodes) => {
            for node in nodes {
                add(node, part, false, found)?;
            }
        }
        FilterNode::Field(field) => add_field(field, part, is_complete, found)?,
        FilterNode::Expr(expr) => {
            for node in &expr.implied {
                add(node, part, false, found)?;
            }
        }
        FilterNode::Not(inner) => {
            if let FilterNode::Field(field) = &**inner {
                found.push(Predicate {
                    path: Cow::Borrowed(&field.path),
                    test: PredicateTest::Not(&field.test),
                    part,
                    is_complete: false,
                });
            }
        }
        _ => {}
    }
    Ok(())
}

fn add_field<'f>(
    field: &'f FieldTest,
    part: usize,
    is_complete: bool,
    found: &mut Vec<Predicate<'f>>,
) -> Result<()> {
    match &field.test {
        Test::ElemValue(nodes) => found.push(Predicate {
            path: Cow::Borrowed(&field.path),
            test: PredicateTest::Element(nodes),
            part,
            is_complete: false,
        }),
        Test::ElemObject(node) => {
            // The fields of the elements are under this path. A number there would mean something else.
            if has_digits(&field.path) {
                return Ok(());
            }
            let mut inner = Vec::new();
            add(node, part, false, &mut inner)?;
            for predicate in inner {
                if has_digits(&predicate.path) || matches!(predicate.test, PredicateTest::Not(_)) {
                    continue;
                }
                let path = format!("{}.{}", field.path.as_str(), predicate.path.as_str());
                found.push(Predicate {
                    path: Cow::Owned(Path::parse(&path)),
                    ..predicate
                });
            }
        }
        test => found.push(Predicate {
            path: Cow::Borrowed(&field.path),
            test: PredicateTest::Is(test),
            part,
            is_complete: is_complete && bounds::is_exact(test)?,
        }),
    }
    Ok(())
}
