//! Tables of filters and sorts: which index they take, within which bounds.

mod law;

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::*;
use crate::query::Scope;
use crate::value::DocBuf;

fn filter(filter: &Document) -> Filter {
    Filter::parse(DocBuf::from(filter).as_doc(), &Scope::default())
        .unwrap_or_else(|error| panic!("{filter}: {error:?}"))
}

/// An index as storage describes it, with what only the planner's caller knows.
struct Owned {
    spec: IndexSpec,
    multikey: u64,
    partial: Option<Arc<Filter>>,
}

fn named(name: &str, key: Document) -> Owned {
    Owned {
        spec: IndexSpec::new(name, DocBuf::from(key)),
        multikey: 0,
        partial: None,
    }
}

fn index(key: Document) -> Owned {
    named("i", key)
}

fn infos(all: &[Owned]) -> Vec<IndexInfo<'_>> {
    all.iter()
        .map(|owned| IndexInfo {
            spec: &owned.spec,
            multikey: owned.multikey,
            partial: owned.partial.clone(),
        })
        .collect()
}

/// The keys of a sort; an index specification parses the same document.
fn keys_of(sort: &IndexSpec) -> Vec<SortKey<'_>> {
    sort.paths
        .iter()
        .zip(&sort.descending)
        .map(|(path, &descending)| SortKey { path, descending })
        .collect()
}

fn sorting(sort: &Document) -> IndexSpec {
    IndexSpec::new("sort", DocBuf::from(sort))
}

fn explain(query: Document, sort: Document, indexes: &[Owned]) -> Document {
    let indexes = &infos(indexes);
    let filter = filter(&query);
    let plan = plan(&filter, &keys_of(&sorting(&sort)), None, indexes).unwrap();
    let sort = DocBuf::from(&sort);
    let shown = winning_plan(&plan, &filter, Some(sort.as_doc()), indexes);
    Document::from_reader(shown.bytes()).unwrap()
}

/// The stages from outside in, joined, and the bounds of the innermost.
fn shape(mut plan: Document) -> (String, String) {
    let mut stages = Vec::new();
    loop {
        stages.push(plan.get_str("stage").unwrap().to_owned());
        match plan.get_document("inputStage") {
            Ok(inner) => plan = inner.clone(),
            Err(_) => break,
        }
    }
    let bounds = plan
        .get_document("indexBounds")
        .cloned()
        .unwrap_or_default();
    let bounds: Vec<String> = bounds
        .iter()
        .map(|(name, list)| {
            let list: Vec<&str> = list
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Bson::as_str)
                .collect();
            format!("{name}: {}", list.join(" "))
        })
        .collect();
    (stages.join(" "), bounds.join("; "))
}

#[test]
fn bounds_as_mongod_prints_them() {
    let ab = || vec![index(doc! {"a": 1, "b": -1})];
    let none = || doc! {};
    let table = [
        (
            doc! {"a": 5},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [5, 5]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": {"$gt": 5}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: (5, inf.0]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": {"$gte": 1, "$lt": 5}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [1, 5); b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": 1, "b": {"$lt": 5}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [1, 1]; b: (5, -inf.0]",
        ),
        (
            doc! {"a": {"$in": [3, 1]}, "b": 2},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [1, 1] [3, 3]; b: [2, 2]",
        ),
        (
            doc! {"a": {"$regex": "^ab"}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [\"ab\", \"ac\") [/^ab/, /^ab/]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": Bson::Null},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [null, null]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": {"$ne": 3}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [MinKey, 3) (3, MaxKey]; b: [MaxKey, MinKey]",
        ),
        (doc! {"b": 1}, none(), ab(), "COLLSCAN", ""),
        (doc! {"_id": 1}, none(), ab(), "IDHACK", ""),
        (
            doc! {"_id": {"$in": [2, 1]}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "_id: [1, 1] [2, 2]",
        ),
        (
            doc! {"_id": 1, "c": 2},
            none(),
            ab(),
            "FETCH IXSCAN",
            "_id: [1, 1]",
        ),
        (
            doc! {},
            doc! {"a": 1, "b": -1},
            ab(),
            "FETCH IXSCAN",
            "a: [MinKey, MaxKey]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {},
            doc! {"a": -1, "b": 1},
            ab(),
            "FETCH IXSCAN",
            "a: [MaxKey, MinKey]; b: [MinKey, MaxKey]",
        ),
        (doc! {}, doc! {"a": 1, "b": 1}, ab(), "SORT COLLSCAN", ""),
        (
            doc! {"a": 1},
            doc! {"b": 1},
            ab(),
            "FETCH IXSCAN",
            "a: [1, 1]; b: [MinKey, MaxKey]",
        ),
        (
            doc! {"a": {"$gt": 1}},
            doc! {"b": 1},
            ab(),
            "SORT FETCH IXSCAN",
            "a: (1, inf.0]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"$or": [{"a": 1}, {"b": 1}]},
            none(),
            ab(),
            "COLLSCAN",
            "",
        ),
        (
            doc! {"$or": [{"a": 1}, {"_id": 1}]},
            none(),
            ab(),
            "SUBPLAN FETCH OR",
            "",
        ),
        (
            doc! {"c": 1, "$or": [{"a": 1}, {"a": 2}]},
            doc! {"c": 1},
            ab(),
            "SORT SUBPLAN FETCH OR",
            "",
        ),
        (doc! {"$alwaysFalse": 1}, none(), ab(), "EOF", ""),
    ];
    for (query, sort, indexes, stages, bounds) in table {
        let found = shape(explain(query.clone(), sort.clone(), &indexes));
        assert_eq!(
            found,
            (stages.to_owned(), bounds.to_owned()),
            "{query} {sort}"
        );
    }
}

fn with(mut index: Owned, set: impl FnOnce(&mut IndexSpec)) -> Owned {
    set(&mut index.spec);
    index
}

#[test]
fn which_index_wins() {
    let indexes = vec![
        named("a", doc! {"a": 1}),
        named("ab", doc! {"a": 1, "b": 1}),
        named("b", doc! {"b": 1}),
        with(named("u", doc! {"u": 1}), |spec| spec.unique = true),
        with(named("s", doc! {"s": 1}), |spec| spec.sparse = true),
        with(named("h", doc! {"h": 1}), |spec| spec.hidden = true),
        Owned {
            partial: Some(Arc::new(filter(&doc! {"p": {"$gt": 5}}))),
            ..named("p", doc! {"p": 1})
        },
    ];
    let indexes = infos(&indexes);
    for (query, sort, expected) in [
        (doc! {"a": 1}, doc! {}, Some("a")),
        (doc! {"a": 1, "b": 1}, doc! {}, Some("ab")),
        (doc! {"a": 1, "b": {"$gt": 1}}, doc! {}, Some("ab")),
        (doc! {"a": {"$gt": 1}, "b": 1}, doc! {}, Some("b")),
        (doc! {"a": 1}, doc! {"b": 1}, Some("ab")),
        (doc! {"a": {"$gt": 1}}, doc! {"b": 1}, Some("a")),
        (doc! {"a": 1, "u": 2}, doc! {}, Some("u")),
        (doc! {"s": 1}, doc! {}, Some("s")),
        (doc! {"s": Bson::Null}, doc! {}, None),
        (doc! {}, doc! {"s": 1}, None),
        (doc! {"s": {"$exists": true}}, doc! {}, Some("s")),
        (doc! {"h": 1}, doc! {}, None),
        (doc! {"p": 9}, doc! {}, Some("p")),
        (doc! {"p": {"$gte": 6}}, doc! {}, Some("p")),
        (doc! {"p": 1}, doc! {}, None),
        (doc! {"p": {"$gt": "x"}}, doc! {}, None),
        (doc! {"$or": [{"p": 7}, {"p": 8}]}, doc! {}, Some("p")),
    ] {
        let plan = plan(&filter(&query), &keys_of(&sorting(&sort)), None, &indexes).unwrap();
        let first = match &plan.access {
            Access::Union(ways) => &ways[0],
            access => access,
        };
        let found = match first {
            Access::IndexScan(scan) => Some(indexes[scan.index].spec.name.as_str()),
            _ => None,
        };
        assert_eq!(found, expected, "{query} {sort}");
    }
    let hint = |hint| plan(&filter(&doc! {"a": 1}), &[], Some(hint), &indexes);
    assert!(
        matches!(hint(Hint::Name("b")).unwrap().access, Access::IndexScan(scan) if scan.index == 2)
    );
    assert!(matches!(
        hint(Hint::Natural(Direction::Backward)).unwrap().access,
        Access::CollScan(Direction::Backward)
    ));
    assert!(
        matches!(hint(Hint::Name("p")).unwrap().access, Access::IndexScan(scan) if scan.index == 6)
    );
    assert_eq!(hint(Hint::Name("x")).unwrap_err().code().number(), 2);
    assert_eq!(hint(Hint::Name("h")).unwrap_err().code().number(), 2);
    let key = DocBuf::from(doc! {"a": 1, "b": 1});
    assert!(
        matches!(hint(Hint::Key(key.as_doc())).unwrap().access, Access::IndexScan(scan) if scan.index == 1)
    );
}
