//! Choosing a way to the documents: the planner's answer, ready to be walked.

use std::sync::Arc;

use super::access::{Access, KeyRange};
use super::plan::{self, Direction, IndexInfo, Plan, SortKey};
use crate::aside::Limit;
use crate::error::{Code, Error, Result};
use crate::query::Vars;
use crate::query::filter::{Filter, Node, Op, Test};
use crate::query::sort::Sort;
use crate::storage::index::{Condition, ID_INDEX, Index};
use crate::storage::{Collection, ReadPoint, TsIndex, View};
use crate::value::{Doc, DocBuf, Millis, Type, ValueRef, compare_docs, equal, key};

/// The client says which way to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    Name(String),
    /// An index by its key, or `{$natural: 1}`.
    Key(DocBuf),
}

/// A way, and whether it yields the documents in the order of the sort.
#[derive(Debug)]
pub struct Chosen {
    pub access: Access,
    pub sorted: bool,
    /// The way leads to nothing that the filter would not let pass.
    pub exact: bool,
}

/// Ends of a hinted index that a client sets itself: from `min` on, and below `max`.
#[derive(Debug, Clone)]
pub struct Between {
    pub min: Option<DocBuf>,
    pub max: Option<DocBuf>,
}

/// A filter as storage asks it of documents: the condition of a partial index.
#[derive(Debug)]
pub struct PartialFilter(pub Arc<Filter>);

pub fn choose(
    collection: &Arc<Collection>,
    filter: &Filter,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    at: ReadPoint,
) -> Result<Chosen> {
    // The most frequent query needs neither the lock nor a plan.
    if hint.is_none()
        && let Some(id) = id_equality(filter)
    {
        return Ok(Chosen {
            access: Access::Ids(vec![key::with(id, <[u8]>::to_vec)]),
            sorted: true,
            exact: true,
        });
    }
    order_ids(collection, filter, sort, at);
    collection.read(at, |view| {
        let indexes = indexes(view);
        let plan = make(filter, sort, hint, &indexes, view)?;
        let exact = says_it_all(&plan, filter);
        let sorted = plan.sort_covered || sort.is_none_or(Sort::is_empty);
        let access = walkable(plan.access, &indexes, view);
        Ok(Chosen {
            access,
            sorted,
            exact,
        })
    })
}

/// The part of an index that lies between two keys.
pub fn between(
    collection: &Arc<Collection>,
    hint: Option<&Hint>,
    ends: &Between,
    at: ReadPoint,
) -> Result<Access> {
    let Some(hint) = hint else {
        return Err(Error::location(
            51173,
            "When using min()/max() a hint of which index to use must be provided",
        ));
    };
    let of_ids = match hint {
        Hint::Name(name) => name == ID_INDEX,
        Hint::Key(key) => names_id_first(key.as_doc()),
    };
    if of_ids {
        collection.order_ids_now(at.now());
    }
    collection.read(at, |view| {
        let named = |index: &&Index| match hint {
            Hint::Name(name) => index.spec.name == *name,
            Hint::Key(key) => compare_docs(index.spec.key.as_doc(), key.as_doc()).is_eq(),
        };
        let index = view
            .ways()
            .iter()
            .filter(|index| index.ready)
            .find(named)
            .ok_or_else(|| {
                Error::bad_value("hint provided does not correspond to an existing index")
            })?;
        let lower = ends.min.as_ref().map(|end| key_of(index, end.as_doc()));
        let upper = ends.max.as_ref().map(|end| key_of(index, end.as_doc()));
        let range = KeyRange {
            lower: lower.transpose()?.unwrap_or_else(|| vec![0]),
            upper: upper.transpose()?.unwrap_or_else(|| vec![0xff]),
        };
        if range.lower >= range.upper {
            return Err(Error::location(
                51175,
                "The value provided for min() does not come before the value provided for max() in the hinted index",
            ));
        }
        Ok(Access::Index {
            number: index.number,
            name: index.spec.name.clone(),
            ranges: vec![range],
            descending: false,
        })
    })
}

/// The part of an index that lies between two keys, or the beginnings of such, as a shard's part is said: the index is
/// any that holds each document once, and whose key begins as `pattern` does (without one, with the fields of `min`).
pub fn within(
    collection: &Arc<Collection>,
    pattern: Option<Doc<'_>>,
    min: Doc<'_>,
    max: Doc<'_>,
    at: ReadPoint,
) -> Result<Access> {
    if names_id_first(min) {
        collection.order_ids_now(at.now());
    }
    let inferred = DocBuf::build(|key| {
        for elem in min {
            key.put_i32(elem.name(), 1);
        }
    });
    let pattern = pattern.unwrap_or_else(|| inferred.as_doc());
    collection.read(at, |view| {
        let fits = |index: &&Index| {
            let key = index.spec.key.as_doc();
            let mut fields = key.iter();
            let begins = pattern.iter().all(|wanted| {
                let next = fields.next();
                next.is_some_and(|elem| {
                    elem.name() == wanted.name() && equal(elem.value, wanted.value)
                })
            });
            let of_all = !index.spec.sparse && index.spec.partial.is_none();
            begins && of_all && index.ready && index.multikey == 0
        };
        let index = view.ways().iter().find(fits).ok_or_else(|| {
            Error::new(
                Code::OperationFailed,
                "Couldn't find valid index containing key pattern",
            )
        })?;
        let range = KeyRange {
            lower: beginning_of(index, min)?,
            upper: beginning_of(index, max)?,
        };
        if range.lower >= range.upper {
            return Ok(Access::None);
        }
        Ok(Access::Index {
            number: index.number,
            name: index.spec.name.clone(),
            ranges: vec![range],
            descending: false,
        })
    })
}

fn names_id_first(key: Doc<'_>) -> bool {
    key.first().is_some_and(|elem| elem.name() == ID_FIELD)
}

/// The first key of the index that begins like this.
fn beginning_of(index: &Index, bound: Doc<'_>) -> Result<Vec<u8>> {
    let pattern = index.spec.key.as_doc();
    let mut fields = pattern.iter();
    for elem in bound {
        let Some(field) = fields.next() else {
            return Err(Error::location(
                16649,
                format!("keyPattern {pattern} shorter than bound {bound}"),
            ));
        };
        if field.name() != elem.name() {
            return Err(Error::location(
                16634,
                format!("field names of bound {bound} do not match those of keyPattern {pattern}"),
            ));
        }
    }
    Ok(encoded(index, bound))
}

fn encoded(index: &Index, values: Doc<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (elem, descending) in values.iter().zip(&index.spec.descending) {
        key::encode(elem.value, *descending, &mut bytes);
    }
    bytes
}

fn key_of(index: &Index, end: Doc<'_>) -> Result<Vec<u8>> {
    let names = index.spec.paths.iter().map(|path| path.as_str());
    if !end.iter().map(|elem| elem.name()).eq(names) {
        return Err(Error::location(
            51174,
            "The index chosen is not compatible with min/max",
        ));
    }
    Ok(encoded(index, end))
}

/// `view` is the one that the indexes were seen in.
fn walkable(access: plan::Access, indexes: &[IndexInfo<'_>], view: &View<'_>) -> Access {
    match access {
        plan::Access::Nothing => Access::None,
        plan::Access::CollScan(direction) => Access::All {
            descending: direction == Direction::Backward,
        },
        plan::Access::Ids(ids) => Access::Ids(ids.keys),
        plan::Access::IndexScan(scan) => {
            let info = indexes.get(scan.index);
            match info.and_then(|info| view.way(&info.spec.name)) {
                Some(index) => Access::Index {
                    number: index.number,
                    name: index.spec.name.clone(),
                    ranges: scan.ranges,
                    descending: scan.direction == Direction::Backward,
                },
                None => Access::None,
            }
        }
        plan::Access::Union(ways) => {
            let ways = ways.into_iter();
            Access::Union(ways.map(|way| walkable(way, indexes, view)).collect())
        }
    }
}

/// The plan as explain shows it under `winningPlan`. `sort` comes parsed and as it was written.
pub fn winning_plan(
    collection: &Arc<Collection>,
    filter: &Filter,
    sort: Option<(&Sort, Doc<'_>)>,
    hint: Option<&Hint>,
    at: ReadPoint,
) -> Result<DocBuf> {
    order_ids(collection, filter, sort.map(|(sort, _)| sort), at);
    collection.read(at, |view| {
        let indexes = indexes(view);
        let plan = make(filter, sort.map(|(sort, _)| sort), hint, &indexes, view)?;
        let written = sort.map(|(_, written)| written);
        Ok(plan::winning_plan(&plan, filter, written, &indexes))
    })
}

fn make(
    filter: &Filter,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    indexes: &[IndexInfo<'_>],
    view: &View<'_>,
) -> Result<Plan> {
    let hint = hint.map(|hint| match hint {
        // The index that stands for DefaultTTL has no entries: all documents is what it leads to.
        _ if view.ts_index().is_some_and(|index| hint.names(index)) => {
            plan::Hint::Natural(Direction::Forward)
        }
        Hint::Name(name) => plan::Hint::Name(name),
        Hint::Key(key) => match key.as_doc().get("$natural").as_num() {
            Some(way) if way.is_negative() => plan::Hint::Natural(Direction::Backward),
            Some(_) => plan::Hint::Natural(Direction::Forward),
            None => plan::Hint::Key(key.as_doc()),
        },
    });
    let sort: Vec<SortKey<'_>> = sort
        .into_iter()
        .flat_map(Sort::parts)
        .map(|(path, descending)| SortKey { path, descending })
        .collect();
    plan::plan(filter, &sort, hint, indexes)
}

/// The indexes that are ready to be read.
fn indexes<'v>(view: &View<'v>) -> Vec<IndexInfo<'v>> {
    view.ways()
        .iter()
        .filter(|index| index.ready)
        .filter_map(|index| {
            let partial = match &index.spec.partial {
                None => None,
                Some(partial) => {
                    let condition = partial.condition.as_any().downcast_ref::<PartialFilter>()?;
                    Some(Arc::clone(&condition.0))
                }
            };
            Some(IndexInfo {
                spec: &index.spec,
                multikey: index.multikey,
                partial,
            })
        })
        .collect()
}

/// Whether the ranges of the plan hold exactly the documents that the filter lets pass: plain comparisons with plain
/// values, all of them in the bounds of an index without arrays.
fn says_it_all(plan: &Plan, filter: &Filter) -> bool {
    let plan::Access::IndexScan(scan) = &plan.access else {
        return false;
    };
    let parts = match filter.root() {
        Node::And(nodes) => nodes.as_slice(),
        node => std::slice::from_ref(node),
    };
    !scan.multikey
        && parts.iter().enumerate().all(|(part, node)| {
            let Node::Field(field) = node else {
                return false;
            };
            let Test::Compare(comparison) = &field.test else {
                return false;
            };
            let value = comparison.value.as_ref();
            let plain = match value.ty() {
                Type::String | Type::ObjectId | Type::Date | Type::Int32 | Type::Int64 => true,
                Type::Double => value.as_f64().is_some_and(|n| !n.is_nan()),
                _ => false,
            };
            plain && scan.used.contains(&part)
        })
}

/// The `_id` that the filter asks for, if it does nothing else.
pub fn id_equality(filter: &Filter) -> Option<ValueRef<'_>> {
    let Node::Field(field) = filter.root() else {
        return None;
    };
    let Test::Compare(comparison) = &field.test else {
        return None;
    };
    if field.path.len() != 1 || field.path.first() != "_id" || comparison.op != Op::Eq {
        return None;
    }
    let value = comparison.value.as_ref();
    has_one_key(value).then_some(value)
}

/// The same of a filter that was not parsed yet: most are `{_id: value}`, and there is no more to them.
pub fn plain_id(filter: Doc<'_>) -> Option<ValueRef<'_>> {
    let mut fields = filter.iter();
    let only = fields.next().filter(|elem| elem.name_bytes() == b"_id")?;
    // A document may hold operators.
    if fields.next().is_some() || only.value.ty() == Type::Document {
        return None;
    }
    has_one_key(only.value).then_some(only.value)
}

/// Whether equality with that value is equality of keys: with values of these types it reaches further.
pub(super) fn has_one_key(value: ValueRef<'_>) -> bool {
    !matches!(value.ty(), Type::Array | Type::Regex | Type::Undefined)
}

/// Where a range or an order of `_id`s is asked for, which the map from `_id` to record cannot give, has them ordered.
fn order_ids(collection: &Arc<Collection>, filter: &Filter, sort: Option<&Sort>, at: ReadPoint) {
    let sorts = sort
        .and_then(|sort| sort.parts().next())
        .is_some_and(|(path, _)| path.as_str() == ID_FIELD);
    if sorts || wants_id_range(filter.root()) {
        collection.order_ids(at.now());
    }
}

fn wants_id_range(node: &Node) -> bool {
    match node {
        Node::And(nodes) => nodes.iter().any(wants_id_range),
        Node::Field(field) if field.path.as_str() == ID_FIELD => match &field.test {
            Test::Compare(comparison) => comparison.op != Op::Eq,
            Test::Regex(_) => true,
            _ => false,
        },
        _ => false,
    }
}

const ID_FIELD: &str = "_id";

// === impl Hint ===

impl Hint {
    fn names(&self, index: &TsIndex) -> bool {
        match self {
            Self::Name(name) => *name == index.name,
            Self::Key(key) => *key == index.key,
        }
    }
}

// === impl PartialFilter ===

impl Condition for PartialFilter {
    fn holds(&self, doc: Doc<'_>) -> bool {
        // A partial filter has no expressions that could fail. It is not ended with its command either: what is said when a document
        // is taken out of the index has to be what was said when it was put in.
        Limit::default()
            .watch(|| self.0.matches(doc, &Vars::at(Millis(0))))
            .unwrap_or(false)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;
    use crate::query::Scope;

    #[test]
    fn an_id_seen_before_parsing_is_the_one_seen_behind_it() {
        let values: Vec<(Bson, bool)> = vec![
            (Bson::Int32(5), true),
            (Bson::Double(f64::NAN), true),
            (Bson::Null, true),
            (Bson::from("a"), true),
            (
                Bson::ObjectId(bson::oid::ObjectId::from_bytes([7; 12])),
                true,
            ),
            (Bson::MaxKey, true),
            // Equal values of these types are found by parsing alone, or not at all.
            (Bson::from(doc! {"a": 1}), false),
            (Bson::from(doc! {"$gt": 1}), false),
            (Bson::from(vec![1, 2]), false),
            (Bson::Undefined, false),
            (
                Bson::RegularExpression(bson::Regex {
                    pattern: bson::cstr!("a").into(),
                    options: bson::cstr!("").into(),
                }),
                false,
            ),
        ];
        for (value, plain) in values {
            let filter = DocBuf::from(doc! {"_id": value});
            let seen = plain_id(filter.as_doc());
            assert_eq!(seen.is_some(), plain, "{filter:?}");
            if plain {
                let parsed = Filter::parse(filter.as_doc(), &Scope::new()).unwrap();
                assert_eq!(seen, id_equality(&parsed), "{filter:?}");
            }
        }
        for other in [
            doc! {},
            doc! {"a": 1},
            doc! {"_id": 1, "a": 1},
            doc! {"_id": 1, "_id.a": 1},
            doc! {"_id.a": 1},
        ] {
            assert_eq!(
                plain_id(DocBuf::from(other.clone()).as_doc()),
                None,
                "{other}"
            );
        }
    }
}
