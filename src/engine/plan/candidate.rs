//! What each index could do for a query, and which one does.

use super::{
    Access, Direction, Hint, IdPoints, IndexInfo, IndexScan, Plan, SortKey,
    bounds::{Bounds, Kind},
    implies::implies,
    predicates::{self, Predicate},
    ranges,
};
use crate::{
    error::{Error, Result},
    query::{
        Filter,
        filter::{Node, Op, Test},
    },
    storage::index::TS_FIELD,
    value::{self, Type, Value, key},
};

/// Chooses how to find the documents of a query. The same input gives the same plan.
pub fn plan(
    filter: &Filter,
    sort: &[SortKey<'_>],
    hint: Option<Hint<'_>>,
    indexes: &[IndexInfo<'_>],
) -> Result<Plan> {
    let root = filter.root();
    if matches!(root, Node::False) {
        return Ok(Plan {
            access: Access::Nothing,
            sort_covered: true,
        });
    }
    let natural = match hint {
        Some(Hint::Natural(direction)) => Some(direction),
        _ => None,
    };
    if natural.is_some() || (matches!(root, Node::True) && sort.is_empty() && hint.is_none()) {
        return Ok(collection(natural.unwrap_or(Direction::Forward)));
    }
    let predicates = predicates::collect(root);
    if hint.is_none()
        && let Some(plan) = by_id(root, &predicates)
    {
        return Ok(plan);
    }
    let hinted = hint.map(|hint| find(hint, indexes)).transpose()?;
    let best = best(root, &predicates, sort, hinted, indexes);
    let narrow = best
        .as_ref()
        .is_some_and(|(score, _)| score.bounded || score.sorted);
    if hint.is_none()
        && !narrow
        && let Some(plan) = by_alternatives(root, sort, indexes)
    {
        return Ok(plan);
    }
    match best {
        Some((_, plan)) => Ok(plan),
        // The index on _id need not be one of the list.
        None if matches!(hinted, Some(None)) => {
            Ok(by_id(root, &predicates).unwrap_or_else(|| collection(Direction::Forward)))
        }
        None => Ok(collection(Direction::Forward)),
    }
}

fn collection(direction: Direction) -> Plan {
    Plan {
        access: Access::CollScan(direction),
        sort_covered: false,
    }
}

/// The index that a hint names; `None` within for the index on `_id` where it is not listed.
fn find(hint: Hint<'_>, indexes: &[IndexInfo<'_>]) -> Result<Option<usize>> {
    let found = indexes.iter().position(|index| match hint {
        Hint::Name(name) => index.spec.name == name,
        Hint::Key(key) => value::compare_docs(index.spec.key.as_doc(), key).is_eq(),
        Hint::Natural(_) => false,
    });
    let on_id = match hint {
        Hint::Name(name) => name == "_id_",
        Hint::Key(key) => key.count() == 1 && key.get("_id").as_num().is_some(),
        Hint::Natural(_) => false,
    };
    match found {
        Some(at) if !indexes.get(at).is_some_and(|index| index.spec.hidden) => Ok(Some(at)),
        None if on_id => Ok(None),
        _ => Err(Error::bad_value(
            "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index",
        )),
    }
}

/// `_id` equal to a value or to one of several: nothing is quicker.
fn by_id(root: &Node, predicates: &[Predicate<'_>]) -> Option<Plan> {
    let exact = |value: &&Value| !matches!(value.ty(), Type::Array | Type::Regex);
    let (part, values): (usize, Vec<&Value>) = predicates
        .iter()
        .filter(|predicate| predicate.path.as_str() == "_id")
        .find_map(|predicate| match predicate.test {
            predicates::Ask::Is(Test::Compare(comparison)) if comparison.op == Op::Eq => {
                Some((predicate.part, vec![&comparison.value]))
            }
            predicates::Ask::Is(Test::In(members)) if members.patterns().is_empty() => {
                Some((predicate.part, members.values().iter().collect()))
            }
            _ => None,
        })
        .filter(|(_, values)| values.iter().all(exact))?;
    // Members come in order, each once.
    let keys = values
        .iter()
        .map(|value| {
            let mut bytes = Vec::new();
            key::encode(value.as_ref(), false, &mut bytes);
            bytes
        })
        .collect();
    let alone = matches!(root, Node::Field(field) if matches!(&field.test, Test::Compare(_)));
    Some(Plan {
        // One document is in any order.
        sort_covered: values.len() <= 1,
        access: Access::Ids(IdPoints {
            values: values.into_iter().cloned().collect(),
            keys,
            alone,
            used: vec![part],
        }),
    })
}

/// What the best index does for a query. With a hint only the hinted one is asked.
fn best(
    root: &Node,
    predicates: &[Predicate<'_>],
    sort: &[SortKey<'_>],
    hinted: Option<Option<usize>>,
    indexes: &[IndexInfo<'_>],
) -> Option<(Score, Plan)> {
    indexes
        .iter()
        .enumerate()
        .filter(|(at, index)| match &hinted {
            Some(hinted) => *hinted == Some(*at),
            None => !index.spec.hidden,
        })
        .filter_map(|(at, index)| candidate(at, index, root, predicates, sort, hinted.is_some()))
        // `max_by` would take the last of equals: the first index wins.
        .rev()
        .max_by(|(a, _), (b, _)| a.cmp(b))
}

/// The alternatives of an `$or` that all documents must satisfy, each through the index that serves it. One that no index
/// serves would be a scan of everything, and that can be had once.
fn by_alternatives(root: &Node, sort: &[SortKey<'_>], indexes: &[IndexInfo<'_>]) -> Option<Plan> {
    let branches = match root {
        Node::Or(branches) => branches,
        Node::And(parts) => parts.iter().find_map(|part| match part {
            Node::Or(branches) => Some(branches),
            _ => None,
        })?,
        _ => return None,
    };
    let mut ways = Vec::new();
    for branch in branches
        .iter()
        .filter(|branch| !matches!(branch, Node::False))
    {
        let predicates = predicates::collect(branch);
        if let Some(plan) = by_id(branch, &predicates) {
            ways.push(plan.access);
            continue;
        }
        let (score, plan) = best(branch, &predicates, &[], None, indexes)?;
        if !score.bounded {
            return None;
        }
        ways.push(plan.access);
    }
    Some(Plan {
        access: Access::Union(ways),
        sort_covered: sort.is_empty(),
    })
}

/// What is preferred, the weightier reason first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// All fields of a unique index are given: at most one document.
    one: bool,
    bounded: bool,
    /// Fields that are given: three each, two where there are several values.
    points: usize,
    sorted: bool,
    ranges: usize,
    wide: usize,
    /// Fewer fields make a smaller index.
    short: std::cmp::Reverse<usize>,
}

fn candidate(
    at: usize,
    index: &IndexInfo<'_>,
    root: &Node,
    predicates: &[Predicate<'_>],
    sort: &[SortKey<'_>],
    hinted: bool,
) -> Option<(Score, Plan)> {
    // A partial index lacks what does not pass its filter, a sparse one documents that have none of its fields. Who hints at
    // one takes what it holds, as in MongoDB.
    if let Some(partial) = &index.partial
        && !hinted
        && !implies(root, partial.root())
    {
        return None;
    }
    if index.spec.sparse
        && !hinted
        && !index.spec.paths.iter().any(|path| {
            predicates
                .iter()
                .any(|predicate| predicate.path == *path && predicate.needs_field())
        })
    {
        return None;
    }
    // The server keeps `_ts`, documents need not show it: who accepts a missing field is not served.
    if index.spec.names_ts()
        && predicates
            .iter()
            .any(|predicate| predicate.path.first() == TS_FIELD && !predicate.needs_field())
    {
        return None;
    }
    let (bounds, parts) = field_bounds(index, predicates);
    let (ranges, used) = ranges::ranges(&index.spec.descending, &bounds);
    let order = sort_order(index, &bounds, sort);
    let given = bounds.get(..used).unwrap_or_default();
    let count = |kind: Kind| given.iter().flatten().filter(|b| b.kind == kind).count();
    // An index on fields that must exist is smaller than its collection.
    let selective = index.spec.sparse || index.partial.is_some();
    let score = Score {
        one: index.spec.unique && count(Kind::Point) == index.spec.paths.len(),
        bounded: used > 0 && count(Kind::Wide) < used,
        points: 3 * count(Kind::Point) + 2 * count(Kind::Points),
        sorted: order.is_some() && !sort.is_empty(),
        ranges: count(Kind::Range),
        wide: count(Kind::Wide),
        short: std::cmp::Reverse(index.spec.paths.len()),
    };
    if !(hinted || used > 0 || score.sorted || selective) {
        return None;
    }
    let plan = Plan {
        sort_covered: score.sorted || sort.is_empty(),
        access: Access::IndexScan(IndexScan {
            index: at,
            ranges,
            direction: order.unwrap_or(Direction::Forward),
            bounds: bounds
                .into_iter()
                .map(|bounds| bounds.map(|bounds| bounds.intervals))
                .collect(),
            multikey: index.multikey != 0,
            used: parts.into_iter().take(used).flatten().collect(),
        }),
    };
    Some((score, plan))
}

/// The bounds of each field, and the parts of the filter behind them. Two fields that run through the same array are not
/// both bounded: each predicate may be satisfied by another element, but a key stands for one.
fn field_bounds(
    index: &IndexInfo<'_>,
    predicates: &[Predicate<'_>],
) -> (Vec<Option<Bounds>>, Vec<Vec<usize>>) {
    let mut taken: Vec<&str> = Vec::new();
    index
        .spec
        .paths
        .iter()
        .enumerate()
        .map(|(at, path)| {
            let multikey = index.is_multikey(at);
            if multikey && taken.contains(&path.first()) {
                return (None, Vec::new());
            }
            match predicates::best_bounds(predicates, path.as_str(), multikey) {
                None => (None, Vec::new()),
                Some((bounds, parts)) => {
                    if multikey {
                        taken.push(path.first());
                    }
                    (Some(bounds), parts)
                }
            }
        })
        .unzip()
}

/// The direction in which the index yields the order of the sort, if it does: fields that are fixed to one value do not
/// matter, the others must be the sort's, in its directions or all reversed. Through arrays an index has another order.
fn sort_order(
    index: &IndexInfo<'_>,
    bounds: &[Option<Bounds>],
    sort: &[SortKey<'_>],
) -> Option<Direction> {
    let fixed = |at: usize| {
        bounds
            .get(at)
            .and_then(Option::as_ref)
            .is_some_and(|bounds| bounds.kind == Kind::Point && bounds.intervals.len() == 1)
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
            Direction::Forward
        } else {
            Direction::Backward
        };
        if !fixed(at) && *direction.get_or_insert(this) != this {
            return None;
        }
        wanted.next();
    }
    // A sort key that is fixed needs no order, wherever it stands.
    for rest in wanted {
        let at = index.spec.paths.iter().position(|path| path == rest.path)?;
        if !fixed(at) || index.is_multikey(at) {
            return None;
        }
    }
    Some(direction.unwrap_or(Direction::Forward))
}
