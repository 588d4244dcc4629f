//! The values that a test can accept, as intervals of index keys.
//!
//! Bounds may hold too much, but never too little: if a document passes the test on a path, at least one of its keys under
//! that path lies inside. An index holds null for a missing field, undefined for an empty array, and the elements of an
//! array instead of the array.
//!
//! A list of values may be long. A function that goes through one counts its work, and fails when the command must end.

use super::id_point::has_one_key;
use super::interval::{self, Interval, IntervalEnd};
use crate::{
    error::Result,
    interrupt,
    query::{
        filter::{CompareOp, Comparison, FieldOrder, Members, Test, TypeSet},
        pattern::Pattern,
    },
    value::{Doc, Type, Value, ValueRef},
};

/// How much a predicate narrows a scan. Later variants are preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoundKind {
    /// Everything except some values.
    Wide,
    Range,
    Points,
    Point,
}

#[derive(Debug, Clone)]
pub struct PathBounds {
    pub intervals: Vec<Interval>,
    pub kind: BoundKind,
}

/// The facts about a path that bounds depend on.
#[derive(Debug, Clone, Copy)]
pub struct PathFacts {
    /// The path has a component that could name an array element. The query language then also sees missing values that the
    /// index does not hold, so a test that accepts a missing value has no bounds.
    pub digits: bool,
    pub multikey: bool,
}

// === impl PathBounds ===

impl PathBounds {
    /// Returns the values that all of these bounds allow, or `None` if the list is empty.
    pub fn all_of(all: Vec<Self>) -> Result<Option<Self>> {
        interrupt::tick_each(&all)?;
        let Some(strongest) = all.iter().map(|bounds| bounds.kind).max() else {
            return Ok(None);
        };
        let sets = all.into_iter().map(|bounds| bounds.intervals);
        let intervals = interval::intersection(sets.collect())?;
        let kind = match strongest {
            BoundKind::Points if intervals.len() == 1 => BoundKind::Point,
            kind => kind,
        };
        Ok(Some(Self { intervals, kind }))
    }
}

/// Returns whether the bounds of a test exclude every document that fails it, provided that no document has an array on the
/// path.
pub fn is_exact(test: &Test) -> Result<bool> {
    Ok(match test {
        Test::Compare(comparison) => is_exact_value(comparison.value.as_ref()),
        Test::In(members) => {
            interrupt::tick_each(members.values())?;
            let mut values = members.values().iter();
            members.patterns().is_empty() && values.all(|value| is_exact_value(value.as_ref()))
        }
        _ => false,
    })
}

/// Returns whether equality with this value has exact bounds. Null has not: a missing field equals it, too, and an index
/// need not know that.
pub fn is_exact_value(value: ValueRef<'_>) -> bool {
    has_one_key(value) && value.ty() != Type::Null
}

pub fn of_test(test: &Test, path_facts: PathFacts) -> Result<Option<PathBounds>> {
    match test {
        Test::Compare(comparison) => of_comparison(comparison, path_facts),
        Test::In(members) => of_members(members, path_facts),
        // All members must be present, so looking for one is enough.
        Test::All(members) => match members.values().first() {
            Some(first) => Ok(value_points(first.as_ref(), path_facts)?.map(points)),
            None => Ok(None),
        },
        Test::Regex(pattern) => of_pattern(pattern).map(Some),
        Test::Type(types) => of_types(*types),
        Test::Mod(_) => of_types(TypeSet::of(&[Type::Int32])),
        // A missing field is null in the index, so every key may be that of a field that exists.
        Test::Exists => Ok(Some(everything())),
        Test::Size(_) | Test::Bits(_) => Ok(None),
        Test::ElemObject(_) | Test::ElemValue(_) => Ok(None),
    }
}

/// Returns the bounds of a negated test.
pub fn of_negation(test: &Test, path_facts: PathFacts) -> Result<Option<PathBounds>> {
    let points = match test {
        Test::Exists => {
            return Ok((!path_facts.digits).then(|| point(ValueRef::NULL)));
        }
        // A missing field passes.
        Test::Compare(comparison) if has_exact_range(comparison) && !path_facts.digits => {
            match of_comparison(comparison, path_facts)? {
                Some(range) => Some(range.intervals),
                None => None,
            }
        }
        Test::Compare(comparison) if comparison.op == CompareOp::Eq => {
            value_points(comparison.value.as_ref(), path_facts)?
        }
        Test::In(members) if members.patterns().is_empty() => {
            match member_points(members, path_facts)? {
                Some(points) => Some(interval::union(points)?),
                None => None,
            }
        }
        _ => None,
    };
    let Some(points) = points else {
        return Ok(None);
    };
    // In an array with several elements only some keys are excluded. In an array that equals the excluded one, all keys
    // could be. And "not null" is true of `{a: [1]}` at `a.b`, whose key is null.
    let unsafe_value = |value: &Value| match value.ty() {
        Type::Array => true,
        Type::Null => path_facts.multikey,
        _ => false,
    };
    let refused = match test {
        Test::Compare(comparison) => unsafe_value(&comparison.value),
        Test::In(members) => members.values().iter().any(unsafe_value),
        _ => true,
    };
    if refused {
        return Ok(None);
    }
    Ok(Some(PathBounds {
        intervals: interval::complement(&points, lowest(), highest())?,
        kind: BoundKind::Wide,
    }))
}

pub fn lowest() -> IntervalEnd {
    IntervalEnd::new(ValueRef::new(Type::MinKey, &[]), true)
}

pub fn highest() -> IntervalEnd {
    IntervalEnd::new(ValueRef::new(Type::MaxKey, &[]), true)
}

fn everything() -> PathBounds {
    PathBounds {
        intervals: vec![Interval::new(lowest(), highest())],
        kind: BoundKind::Wide,
    }
}

/// Returns whether the range of an order comparison holds the keys of the values that pass it, and no other key.
fn has_exact_range(comparison: &Comparison) -> bool {
    let value = comparison.value.as_ref();
    let ordered = match value.ty() {
        Type::String | Type::Bool | Type::Date | Type::ObjectId | Type::Timestamp => true,
        _ => value.as_num().is_some_and(|number| !number.is_nan()),
    };
    comparison.op != CompareOp::Eq && ordered
}

fn point(value: ValueRef<'_>) -> PathBounds {
    PathBounds {
        intervals: vec![Interval::point(value)],
        kind: BoundKind::Point,
    }
}

fn range(intervals: Vec<Interval>) -> Result<PathBounds> {
    Ok(PathBounds {
        intervals: interval::union(intervals)?,
        kind: BoundKind::Range,
    })
}

/// Returns the keys of documents with this value.
fn value_points(value: ValueRef<'_>, path_facts: PathFacts) -> Result<Option<Vec<Interval>>> {
    Ok(match value.ty() {
        Type::Null if path_facts.digits => None,
        // An array is found by its first element, or by itself if it is an element of another array.
        Type::Array => {
            let first = value
                .as_array()
                .and_then(|array| array.first())
                .map_or(ValueRef::UNDEFINED, |elem| elem.value);
            Some(interval::union(vec![
                Interval::point(first),
                Interval::point(value),
            ])?)
        }
        _ => Some(vec![Interval::point(value)]),
    })
}

fn points(intervals: Vec<Interval>) -> PathBounds {
    let kind = if intervals.len() == 1 {
        BoundKind::Point
    } else {
        BoundKind::Points
    };
    PathBounds { intervals, kind }
}

/// Returns the keys of documents with one of these values.
fn member_points(members: &Members, path_facts: PathFacts) -> Result<Option<Vec<Interval>>> {
    let mut all = Vec::with_capacity(members.values().len());
    for value in members.values() {
        interrupt::tick(1)?;
        let Some(points) = value_points(value.as_ref(), path_facts)? else {
            return Ok(None);
        };
        all.extend(points);
    }
    Ok(Some(all))
}

fn of_members(members: &Members, path_facts: PathFacts) -> Result<Option<PathBounds>> {
    let Some(mut all) = member_points(members, path_facts)? else {
        return Ok(None);
    };
    if members.patterns().is_empty() {
        return Ok(Some(points(interval::union(all)?)));
    }
    for pattern in members.patterns() {
        interrupt::tick(1)?;
        all.extend(of_pattern(pattern)?.intervals);
    }
    range(all).map(Some)
}

fn of_comparison(comparison: &Comparison, path_facts: PathFacts) -> Result<Option<PathBounds>> {
    let value = comparison.value.as_ref();
    let op = comparison.op;
    if op == CompareOp::Eq {
        return Ok(value_points(value, path_facts)?.map(points));
    }
    let strict = matches!(op, CompareOp::Lt | CompareOp::Gt);
    let nan = value.as_num().is_some_and(|num| num.is_nan());
    if nan || value.ty() == Type::Null {
        return match strict {
            true => range(Vec::new()).map(Some),
            false => Ok(value_points(value, path_facts)?.map(points)),
        };
    }
    let is_upper = matches!(op, CompareOp::Lt | CompareOp::Lte);
    if let Some(array) = value.as_array() {
        return range(vec![array_range(array, value, is_upper)]).map(Some);
    }
    let Some((lowest, highest)) = bracket(value.ty()) else {
        return Ok(None);
    };
    let end = IntervalEnd::new(value, !strict);
    let interval = match is_upper {
        true => Interval::new(lowest, end),
        false => Interval::new(end, highest),
    };
    range(vec![interval]).map(Some)
}

/// Returns the keys of the values that compare like this, if no document has an array on the path. A missing field, which is
/// less than null, has the key of null.
pub fn of_order(order: &FieldOrder) -> Result<PathBounds> {
    let value = order.value.as_ref();
    let is_strict = matches!(order.op, CompareOp::Lt | CompareOp::Gt);
    let is_less_than_null = order.op == CompareOp::Lt && value.ty() == Type::Null;
    let end = IntervalEnd::new(value, !is_strict || is_less_than_null);
    let interval = match order.op {
        CompareOp::Lt | CompareOp::Lte => Interval::new(lowest(), end),
        CompareOp::Gt | CompareOp::Gte => Interval::new(end, highest()),
        CompareOp::Eq => Interval::point(value),
    };
    range(vec![interval])
}

/// Returns the keys of arrays on one side of an array. The key is the first element of such an array, which is on the same
/// side of the first element or equal to it, or the array itself if it is an element of another array. The empty array is
/// the lowest one, so an array above it may begin with any value.
fn array_range(array: Doc<'_>, value: ValueRef<'_>, is_upper: bool) -> Interval {
    let first = array.first().map(|elem| elem.value);
    let first = match (first, is_upper) {
        (Some(first), _) => first,
        (None, true) => ValueRef::UNDEFINED,
        (None, false) => return Interval::new(lowest(), highest()),
    };
    let ends = [first, value].map(|value| IntervalEnd::new(value, true));
    let [first, whole] = ends;
    let first_is_lower = first.key() < whole.key();
    match is_upper {
        true => Interval::new(lowest(), if first_is_lower { whole } else { first }),
        false => Interval::new(if first_is_lower { first } else { whole }, highest()),
    }
}

/// Returns the lowest and the highest end of a type's values, for the types whose values comparisons by order accept.
fn bracket(ty: Type) -> Option<(IntervalEnd, IntervalEnd)> {
    let oid = |byte| Value::oid([byte; 12]);
    let document = || Value::document(crate::value::Doc::EMPTY.bytes().to_vec());
    let array = || Value::array(crate::value::Doc::EMPTY.bytes().to_vec());
    let binary = || Value::binary(0, &[]);
    let (low, high, included) = match ty {
        Type::Double | Type::Int32 | Type::Int64 | Type::Decimal => (
            Value::double(f64::NEG_INFINITY),
            Value::double(f64::INFINITY),
            true,
        ),
        Type::String | Type::Symbol => (Value::string(""), document(), false),
        Type::Document => (document(), array(), false),
        Type::Binary => (binary(), oid(0), false),
        Type::ObjectId => (oid(0), oid(0xff), true),
        Type::Bool => (Value::boolean(false), Value::boolean(true), true),
        Type::Date => (Value::date(i64::MIN), Value::date(i64::MAX), true),
        Type::Timestamp => (
            Value::timestamp(0, 0),
            Value::timestamp(u32::MAX, u32::MAX),
            true,
        ),
        _ => return None,
    };
    Some((
        IntervalEnd::new(low.as_ref(), true),
        IntervalEnd::new(high.as_ref(), included),
    ))
}

fn of_types(types: TypeSet) -> Result<Option<PathBounds>> {
    const SIMPLE: &[Type] = &[
        Type::Double,
        Type::Int32,
        Type::Int64,
        Type::Decimal,
        Type::String,
        Type::Document,
        Type::Binary,
        Type::ObjectId,
        Type::Bool,
        Type::Date,
        Type::Timestamp,
        Type::Symbol,
    ];
    // All values of such a type have one key.
    const SINGLE: &[Type] = &[Type::Null, Type::Undefined, Type::MinKey, Type::MaxKey];
    // An array shows its elements.
    if types.has(Type::Array) {
        return Ok(Some(everything()));
    }
    if types.without(SIMPLE).without(SINGLE) != TypeSet::default() {
        return Ok(None);
    }
    let singles = SINGLE.iter().filter(|&&ty| types.has(ty));
    let mut all: Vec<Interval> = singles
        .map(|&ty| Interval::point(ValueRef::new(ty, &[])))
        .collect();
    for &ty in SIMPLE.iter().filter(|&&ty| types.has(ty)) {
        let Some((mut low, high)) = bracket(ty) else {
            return Ok(None);
        };
        if ty.is_number() {
            low = IntervalEnd::new(Value::double(f64::NAN).as_ref(), true);
        }
        all.push(Interval::new(low, high));
    }
    range(all).map(Some)
}

/// Returns the bounds of a regular expression: strings with its prefix, and a stored regular expression equal to it.
fn of_pattern(pattern: &Pattern) -> Result<PathBounds> {
    let same = Value::regex(pattern.source(), pattern.flags());
    let (low, high) = match pattern.prefix() {
        None => (Value::string(""), None),
        Some((prefix, _)) => {
            let next = successor(&prefix);
            (Value::string(&prefix), next)
        }
    };
    let high = high.map_or_else(
        || Value::document(crate::value::Doc::EMPTY.bytes().to_vec()),
        |text| Value::string(&text),
    );
    range(vec![
        Interval::new(
            IntervalEnd::new(low.as_ref(), true),
            IntervalEnd::new(high.as_ref(), false),
        ),
        Interval::point(same.as_ref()),
    ])
}

/// Returns the first string behind all that begin with `prefix`, if there is one.
fn successor(prefix: &str) -> Option<String> {
    let last = prefix.chars().next_back()?;
    let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32)?;
    let mut text = prefix[..prefix.len() - last.len_utf8()].to_owned();
    text.push(next);
    Some(text)
}
