//! Rating what each index can do for a query, and choosing the best.

use std::rc::Rc;
use std::sync::Arc;

use super::{
    AccessPath, ExplainedAccess, ExplainedIndex, Facts, Hint, IndexFacts, IndexScan, Plan,
    ScanDirection, SkipBounds, SortKey,
    bounds::BoundKind,
    hint::Hinted,
    id_point::{ID_FIELD, id_values},
    implies::implies,
    predicates::{self, FieldBounds, Predicate, Predicates},
    ranges,
};
use crate::ttl::TS_FIELD;
use crate::{
    error::Result,
    interrupt,
    query::{
        Filter,
        filter::{FilterNode, Test},
    },
    value::{ArrayParts, Path, key},
};

/// Chooses how to find the documents of a query. The same input gives the same plan. Fails if a hint names no index, or if
/// the command must end.
pub fn plan<'f>(
    filter: &'f Filter,
    sort: &[SortKey<'_>],
    hint: Option<&Hint>,
    facts: &Facts,
) -> Result<Plan<'f>> {
    let root = filter.root();
    // This comes first: a hint that names no index is refused whatever the filter says, as in mongod.
    let hinted = hint.map(|hint| hint.find(facts)).transpose()?;
    if matches!(root, FilterNode::False) {
        return Ok(Plan {
            access: AccessPath::Nothing,
            sort_covered: true,
            exact: true,
            explained: Vec::new(),
        });
    }
    if let Some(Hinted::Natural(direction)) = hinted {
        return Ok(collection(direction, sort));
    }
    if matches!(root, FilterNode::True) && sort.is_empty() && hinted.is_none() {
        return Ok(collection(ScanDirection::Forward, sort));
    }
    let predicates = Predicates::of(root)?;
    if hinted.is_none()
        && let Some(plan) = alone_by_id(root, &predicates, sort)?
    {
        return Ok(plan);
    }
    let best = best(root, &predicates, sort, hinted, facts)?;
    let narrow = best
        .as_ref()
        .is_some_and(|best| best.score.bounded || best.score.sorted);
    if hinted.is_none()
        && !narrow
        && let Some(plan) = by_alternatives(root, sort, facts)?
    {
        return Ok(plan);
    }
    if let Some(best) = best {
        return best.plan(root, &predicates, sort);
    }
    // There is no ordered index of `_id`s. A hint on `_id` then leads to the map of `_id`s, or to a scan of the collection.
    if hinted == Some(Hinted::Ids)
        && let Some(plan) = alone_by_id(root, &predicates, sort)?
    {
        return Ok(plan);
    }
    Ok(collection(ScanDirection::Forward, sort))
}

fn collection<'f>(direction: ScanDirection, sort: &[SortKey<'_>]) -> Plan<'f> {
    Plan {
        access: AccessPath::CollScan(direction),
        sort_covered: sort.is_empty(),
        exact: false,
        explained: Vec::new(),
    }
}

/// Returns the plan by `_id` for a whole filter. Explain names no index if the filter asks for one `_id` only.
fn alone_by_id<'f>(
    root: &'f FilterNode,
    predicates: &Predicates<'f>,
    sort: &[SortKey<'_>],
) -> Result<Option<Plan<'f>>> {
    let is_one = matches!(root, FilterNode::Field(field) if matches!(field.test, Test::Compare(_)));
    let mut plan = by_id(root, predicates, sort)?;
    if let Some(plan) = plan.as_mut().filter(|_| is_one) {
        plan.explained.clear();
    }
    Ok(plan)
}

/// Returns the plan for `_id` equal to one value or to one of several. No other access is quicker.
fn by_id<'f>(
    root: &'f FilterNode,
    predicates: &Predicates<'f>,
    sort: &[SortKey<'_>],
) -> Result<Option<Plan<'f>>> {
    let mut found = None;
    for predicate in predicates.on(ID_FIELD) {
        interrupt::tick(1)?;
        if let Some(values) = id_values(predicate)? {
            found = Some((predicate.part, values));
            break;
        }
    }
    let Some((part, values)) = found else {
        return Ok(None);
    };
    let mut keys = Vec::with_capacity(values.len());
    for value in values {
        interrupt::tick(1)?;
        keys.push(key::with(value.as_ref(), <[u8]>::to_vec));
    }
    let whole = match root {
        FilterNode::And(parts) => parts.get(part),
        root => Some(root),
    };
    // An expression only implies the `_id`.
    let is_expressed = !matches!(whole, Some(FilterNode::Expr(_)));
    let explained = ExplainedAccess {
        by: ExplainedIndex::Ids(values),
        used: is_expressed.then_some(part).into_iter().collect(),
    };
    Ok(Some(Plan {
        // A single document is in any order.
        sort_covered: values.len() <= 1 || sort.is_empty(),
        access: AccessPath::Ids(keys),
        exact: matches!(root, FilterNode::Field(_)),
        explained: vec![explained],
    }))
}

/// Returns the best index for a query. With a hint, only the hinted index is considered.
fn best<'i>(
    root: &FilterNode,
    predicates: &Predicates<'_>,
    sort: &[SortKey<'_>],
    hinted: Option<Hinted>,
    facts: &'i Facts,
) -> Result<Option<IndexCandidate<'i>>> {
    let mut best: Option<IndexCandidate<'_>> = None;
    for (at, index) in facts.indexes.iter().enumerate() {
        let is_allowed = match hinted {
            Some(hinted) => hinted == Hinted::Index(at),
            None => !index.spec.hidden,
        };
        if !is_allowed {
            continue;
        }
        let Some(next) = candidate(index, root, predicates, sort, hinted.is_some())? else {
            continue;
        };
        // Among equals the first index wins.
        if best.as_ref().is_none_or(|best| next.score > best.score) {
            best = Some(next);
        }
    }
    Ok(best)
}

/// Plans an `$or` that all documents must satisfy, with the best index for each alternative. Gives up if an alternative has
/// no index: it would need a scan of the collection, and then one scan serves them all.
fn by_alternatives<'f>(
    root: &'f FilterNode,
    sort: &[SortKey<'_>],
    facts: &Facts,
) -> Result<Option<Plan<'f>>> {
    let branches = match root {
        FilterNode::Or(branches) => Some(branches),
        FilterNode::And(parts) => parts.iter().find_map(|part| match part {
            FilterNode::Or(branches) => Some(branches),
            _ => None,
        }),
        _ => None,
    };
    let Some(branches) = branches else {
        return Ok(None);
    };
    let mut plans = Vec::new();
    for branch in branches
        .iter()
        .filter(|branch| !matches!(branch, FilterNode::False))
    {
        interrupt::tick(1)?;
        let predicates = Predicates::of(branch)?;
        let plan = match by_id(branch, &predicates, &[])? {
            Some(plan) => plan,
            None => match best(branch, &predicates, &[], None, facts)? {
                Some(best) if best.score.bounded => best.plan(branch, &predicates, &[])?,
                _ => return Ok(None),
            },
        };
        plans.push(plan);
    }
    // As in mongod: first the look-ups by `_id`, then the indexes, the oldest first.
    plans.sort_by_key(|plan| match &plan.access {
        AccessPath::IndexScan(scan) => Some(scan.number),
        _ => None,
    });
    let mut accesses = Vec::new();
    let mut explained = Vec::new();
    for plan in plans {
        accesses.push(plan.access);
        explained.extend(plan.explained);
    }
    Ok(Some(Plan {
        access: AccessPath::Union(accesses),
        sort_covered: sort.is_empty(),
        exact: false,
        explained,
    }))
}

/// What an index can do for a query.
struct IndexCandidate<'i> {
    score: Score,
    index: &'i IndexFacts,
    /// One entry per field of the index.
    bounds: Vec<Option<Rc<FieldBounds>>>,
    /// How many of the fields make the ranges.
    used: usize,
    order: Option<ScanDirection>,
}

/// The rating of an index, the most important criterion first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// All fields of a unique index are fixed: at most one document matches.
    one: bool,
    bounded: bool,
    /// The fixed fields: three points each, two if there are several values.
    points: usize,
    sorted: bool,
    ranges: usize,
    /// The fields behind the ranges whose bounds let the scan skip entries.
    skipping: usize,
    wide: usize,
    /// An index with fewer fields is smaller.
    short: std::cmp::Reverse<usize>,
}

fn candidate<'i>(
    index: &'i IndexFacts,
    root: &FilterNode,
    predicates: &Predicates<'_>,
    sort: &[SortKey<'_>],
    hinted: bool,
) -> Result<Option<IndexCandidate<'i>>> {
    // A partial index lacks documents that do not pass its filter. A sparse index lacks documents that have none of its
    // fields. A client that hints at such an index gets only what it holds, as in MongoDB.
    if let Some(partial) = &index.partial
        && !hinted
        && !implies(root, partial.root())?
    {
        return Ok(None);
    }
    if index.spec.sparse && !hinted && !needs_one_of(index, predicates)? {
        return Ok(None);
    }
    // The server keeps `_ts`, and documents need not show it. So the index cannot serve a predicate that accepts a missing
    // field.
    if index.spec.names_ts()
        && predicates.any(None, |predicate| {
            predicate.path.first() == TS_FIELD && !predicate.needs_field(true)
        })?
    {
        return Ok(None);
    }
    let bounds = field_bounds(index, predicates)?;
    let used = ranges::narrowing(&bounds)?;
    let order = sort_order(index, &bounds, sort);
    let given = bounds.get(..used).unwrap_or_default();
    let count = |kind: BoundKind| {
        let fields = given.iter().flatten();
        fields.filter(|field| field.bounds.kind == kind).count()
    };
    // An index on fields that must exist is smaller than its collection. Without a condition on its first field MongoDB does
    // not use it, and its order would show.
    let is_smaller = index.spec.sparse || index.partial.is_some();
    let selective = is_smaller && bounds.first().is_some_and(Option::is_some);
    let score = Score {
        one: index.spec.unique && count(BoundKind::Point) == index.spec.paths.len(),
        bounded: used > 0 && count(BoundKind::Wide) < used,
        points: 3 * count(BoundKind::Point) + 2 * count(BoundKind::Points),
        sorted: order.is_some() && !sort.is_empty(),
        ranges: count(BoundKind::Range),
        skipping: bounds.iter().skip(used).flatten().count(),
        wide: count(BoundKind::Wide),
        short: std::cmp::Reverse(index.spec.paths.len()),
    };
    let useful = hinted || used > 0 || score.sorted || selective;
    Ok(useful.then_some(IndexCandidate {
        score,
        index,
        bounds,
        used,
        order,
    }))
}

/// Returns whether only documents that have one of the fields can pass.
fn needs_one_of(index: &IndexFacts, predicates: &Predicates<'_>) -> Result<bool> {
    for (at, path) in index.spec.paths.iter().enumerate() {
        let needs_field = |predicate: &Predicate<'_>| predicate.needs_field(index.is_multikey(at));
        if predicates.any(Some(path.as_str()), needs_field)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the bounds of each field. Two fields that pass through the same array are not both bounded: different elements
/// may satisfy the two predicates, but a key comes from one element. They are if both predicates are those of one
/// `$elemMatch`, and all arrays that the fields share lead to its elements.
fn field_bounds(
    index: &IndexFacts,
    predicates: &Predicates<'_>,
) -> Result<Vec<Option<Rc<FieldBounds>>>> {
    let mut all: Vec<Option<Rc<FieldBounds>>> = Vec::with_capacity(index.spec.paths.len());
    for (at, path) in index.spec.paths.iter().enumerate() {
        let arrays = index.multikey.of(at);
        let element = if arrays.is_empty() {
            Some(None)
        } else {
            common_element(index, &all, path, arrays)
        };
        all.push(match element {
            Some(element) => predicates.bounds(path.as_str(), arrays, element)?,
            None => None,
        });
    }
    Ok(all)
}

/// Returns the `$elemMatch` that further bounds must come from because of the bounds of earlier fields. The inner `None`
/// allows any; the outer one allows no bounds.
fn common_element(
    index: &IndexFacts,
    earlier: &[Option<Rc<FieldBounds>>],
    path: &Path,
    arrays: ArrayParts,
) -> Option<Option<usize>> {
    let mut common = None;
    for (at, (earlier, other)) in earlier.iter().zip(&index.spec.paths).enumerate() {
        let Some(bounds) = earlier else { continue };
        let shared = arrays.shared(path, index.multikey.of(at), other);
        if shared.is_empty() {
            continue;
        }
        let element = bounds.element.filter(|element| element.is_behind(shared))?;
        if common.is_some_and(|common| common != element.number) {
            return None;
        }
        common = Some(element.number);
    }
    Some(common)
}

// === impl IndexCandidate ===

impl IndexCandidate<'_> {
    fn plan<'f>(
        self,
        root: &FilterNode,
        predicates: &Predicates<'f>,
        sort: &[SortKey<'_>],
    ) -> Result<Plan<'f>> {
        let given = self.bounds.get(..self.used).unwrap_or_default();
        let descending = &self.index.spec.descending;
        let mut ranges = ranges::ranges(descending, given)?;
        let skip = SkipBounds::of(descending, &self.bounds, self.used)?;
        if let Some(skip) = &skip {
            interrupt::tick_each(&ranges)?;
            match skip.is_empty() {
                true => ranges.clear(),
                false => {
                    let starts = ranges.iter_mut().map(|range| &mut range.lower);
                    starts.for_each(|lower| skip.extend(lower));
                }
            }
        }
        let mut used: Vec<usize> = Vec::new();
        for field in self.bounds.iter().flatten() {
            interrupt::tick_each(&field.parts)?;
            used.extend_from_slice(&field.parts);
        }
        // All documents of a partial index pass its filter, so what that implies needs no test.
        if let Some(partial) = &self.index.partial {
            for (part, node) in predicates::conjunction(root).iter().enumerate() {
                if implies(partial.root(), node)? {
                    used.push(part);
                }
            }
        }
        used.sort_unstable();
        used.dedup();
        let direction = self.order.unwrap_or(ScanDirection::Forward);
        Ok(Plan {
            sort_covered: self.score.sorted || sort.is_empty(),
            // The bounds express every part of the filter, and each document has one key.
            exact: self.index.multikey.is_empty() && used.len() == predicates.parts,
            access: AccessPath::IndexScan(IndexScan {
                number: self.index.number,
                spec: self.index.spec.clone(),
                ranges,
                skip: skip.map(Arc::new),
                direction,
                multikey: self.index.multikey.clone(),
            }),
            explained: vec![ExplainedAccess {
                by: ExplainedIndex::Scan {
                    index: self.index.clone(),
                    direction,
                    bounds: Some(self.bounds),
                },
                used,
            }],
        })
    }
}

/// Returns the direction in which the index yields the order of the sort, if it does. Fields that are fixed to one value do
/// not matter. The others must be those of the sort, in its directions or all reversed. An index with arrays has another
/// order.
fn sort_order(
    index: &IndexFacts,
    bounds: &[Option<Rc<FieldBounds>>],
    sort: &[SortKey<'_>],
) -> Option<ScanDirection> {
    let fixed = |at: usize| {
        bounds
            .get(at)
            .and_then(Option::as_deref)
            .is_some_and(|FieldBounds { bounds, .. }| {
                bounds.kind == BoundKind::Point && bounds.intervals.len() == 1
            })
    };
    let mut direction = None;
    let mut wanted = sort.iter().peekable();
    for (at, path) in index.spec.paths.iter().enumerate() {
        let Some(next) = wanted.peek() else { break };
        if next.path != path {
            if fixed(at) {
                continue;
            }
            return None;
        }
        if index.is_multikey(at) {
            return None;
        }
        let this = if next.descending == index.is_descending(at) {
            ScanDirection::Forward
        } else {
            ScanDirection::Backward
        };
        if !fixed(at) && *direction.get_or_insert(this) != this {
            return None;
        }
        wanted.next();
    }
    // A sort key that is fixed needs no order, whatever its position.
    for rest in wanted {
        let at = index.spec.paths.iter().position(|path| path == rest.path)?;
        if !fixed(at) || index.is_multikey(at) {
            return None;
        }
    }
    Some(direction.unwrap_or(ScanDirection::Forward))
}
