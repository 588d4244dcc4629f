//! Tables of filters and sorts: which index they use, and with which bounds.

mod dice;
mod joins;
mod plans;

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::*;
use crate::error::Code;
use crate::interrupt::{Limit, observe};
use crate::query::Scope;
use crate::value::DocBuf;

fn filter(filter: &Document) -> Filter {
    Filter::parse(DocBuf::from(filter).as_doc(), &Scope::default())
        .unwrap_or_else(|error| panic!("{filter}: {error:?}"))
}

fn named(name: &str, key: Document) -> IndexFacts {
    IndexFacts {
        number: IndexNumber(0),
        spec: Arc::new(IndexSpec::new(name, DocBuf::from(key))),
        multikey: MultikeyPaths::default(),
        partial: None,
    }
}

fn index(key: Document) -> IndexFacts {
    named("i", key)
}

/// Numbers the indexes by their positions.
fn facts(mut indexes: Vec<IndexFacts>) -> Facts {
    for (at, index) in indexes.iter_mut().enumerate() {
        index.number = IndexNumber(at as u64);
    }
    Facts {
        indexes,
        ts_index: None,
        refuses_scans: false,
    }
}

/// Returns the keys of a sort. An index specification parses the same document.
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

fn explain(query: Document, sort: Document, indexes: Vec<IndexFacts>) -> Document {
    let facts = facts(indexes);
    let filter = filter(&query);
    let sorting = sorting(&sort);
    let plan = plan(&filter, &keys_of(&sorting), None, &facts).unwrap();
    let sort = DocBuf::from(&sort);
    let shown = winning_plan(&plan, &filter, Some(sort.as_doc()), false).unwrap();
    Document::from_reader(shown.bytes()).unwrap()
}

/// Returns the stages, outermost first and joined, and the bounds of the innermost.
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
            doc! {"c": 1, "$or": [{"a": 1}, {"a": {"$gt": 2}}]},
            doc! {"c": 1},
            ab(),
            "SORT SUBPLAN FETCH OR",
            "",
        ),
        (
            doc! {"$or": [{"a": 3}, {"a": 1}, {"a": 3}]},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [1, 1] [3, 3]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"$or": [{"_id": 2}, {"_id": 1}]},
            none(),
            ab(),
            "FETCH IXSCAN",
            "_id: [1, 1] [2, 2]",
        ),
        (doc! {"$alwaysFalse": 1}, none(), ab(), "EOF", ""),
    ];
    for (query, sort, indexes, stages, bounds) in table {
        let found = shape(explain(query.clone(), sort.clone(), indexes));
        assert_eq!(
            found,
            (stages.to_owned(), bounds.to_owned()),
            "{query} {sort}"
        );
    }
}

fn with(mut index: IndexFacts, set: impl FnOnce(&mut IndexSpec)) -> IndexFacts {
    set(Arc::make_mut(&mut index.spec));
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
        IndexFacts {
            partial: Some(Arc::new(filter(&doc! {"p": {"$gt": 5}}))),
            ..named("p", doc! {"p": 1})
        },
    ];
    let facts = facts(indexes);
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
        let (filter, sorting) = (filter(&query), sorting(&sort));
        let plan = plan(&filter, &keys_of(&sorting), None, &facts).unwrap();
        let first = match &plan.access {
            AccessPath::Union(accesses) => &accesses[0],
            access => access,
        };
        let found = match first {
            AccessPath::IndexScan(scan) => Some(scan.spec.name.as_str()),
            _ => None,
        };
        assert_eq!(found, expected, "{query} {sort}");
    }
    let filter = filter(&doc! {"a": 1});
    let hinted = |hint: Hint| match plan(&filter, &[], Some(&hint), &facts) {
        Ok(plan) => match plan.access {
            AccessPath::IndexScan(scan) => Ok(scan.spec.name.clone()),
            AccessPath::CollScan(direction) => Ok(direction.name().to_owned()),
            access => panic!("{access:?}"),
        },
        Err(error) => Err(error.code().number()),
    };
    let name = |name: &str| Hint::Name(name.to_owned());
    let document = |key: Document| Hint::of_document(DocBuf::from(key));
    for (hint, expected) in [
        (name("b"), Ok("b")),
        (name("p"), Ok("p")),
        (document(doc! {"a": 1, "b": 1}), Ok("ab")),
        (document(doc! {"$natural": -1}), Ok("backward")),
        // The ordered index of `_id`s may not have been built yet.
        (name("_id_"), Ok("forward")),
        (document(doc! {"_id": 1}), Ok("forward")),
        (name("x"), Err(2)),
        (name("h"), Err(2)),
    ] {
        assert_eq!(
            hinted(hint.clone()),
            expected.map(str::to_owned),
            "{hint:?}"
        );
    }
}

/// An index without arrays answers a filter alone if its bounds express all of it.
#[test]
fn when_a_plan_is_exact() {
    let ab = |with_array: bool| {
        let mut index = index(doc! {"a": 1, "b": 1});
        if with_array {
            index.multikey.add(0, 0);
        }
        facts(vec![index])
    };
    for (query, expected) in [
        (doc! {"a": 1}, true),
        (doc! {"a": {"$gt": 1, "$lte": 9}}, true),
        (doc! {"a": {"$in": [1, "x"]}, "b": {"$lt": 5}}, true),
        // Behind a range the scan skips the keys of other values.
        (doc! {"a": {"$gt": 1}, "b": 5}, true),
        (doc! {"a": 1, "c": 1}, false),
        (doc! {"a": {"$ne": 1}}, false),
        (doc! {"a": Bson::Null}, false),
        (doc! {"a": {"$in": [1, Bson::Null]}}, false),
        (doc! {"a": {"$regex": "^x"}}, false),
        (doc! {"a": [1]}, false),
        (doc! {"_id": 1}, true),
        (doc! {"_id": {"$in": [1, 2]}}, true),
        (doc! {"_id": 1, "a": 1}, false),
    ] {
        let filter = filter(&query);
        let plan_of = |multikey| plan(&filter, &[], None, &ab(multikey)).unwrap();
        assert_eq!(plan_of(false).exact, expected, "{query}");
        let by_id = matches!(plan_of(true).access, AccessPath::Ids(_));
        assert_eq!(plan_of(true).exact, expected && by_id, "multikey: {query}");
    }
}

/// Counts, not times: the result of many conditions is no larger than they are.
#[test]
fn many_conditions_make_few_ranges() {
    let many = 20_000;
    let not: Vec<Document> = (0..many).map(|n| doc! {"a": {"$ne": n}}).collect();
    let above: Vec<Document> = (0..many).map(|n| doc! {"a": {"$gt": n}}).collect();
    let either: Vec<Document> = (0..many).map(|n| doc! {"a": n % 100}).collect();
    let facts = facts(vec![index(doc! {"a": 1})]);
    for (query, expected) in [
        (doc! {"$and": not}, many as usize + 1),
        (doc! {"$and": above}, 1),
        (doc! {"$or": either}, 100),
    ] {
        let name = query.keys().next().unwrap().clone();
        let filter = filter(&query);
        let plan = plan(&filter, &[], None, &facts).unwrap();
        let AccessPath::IndexScan(scan) = &plan.access else {
            panic!("{name}: {:?}", plan.access);
        };
        assert_eq!(scan.ranges.len(), expected, "{name}");
    }
}

/// Returns filters with `many` conditions, each in a different form. All indexes must be checked for them.
fn long_filters(many: i32) -> Vec<(&'static str, Document)> {
    let list = |each: fn(i32) -> Document| (0..many).map(each).collect::<Vec<Document>>();
    let numbers: Vec<i32> = (0..many).collect();
    vec![
        (
            "all differ",
            doc! {"$and": list(|n| doc! {"a": {"$ne": n}})},
        ),
        ("ids", doc! {"$and": list(|n| doc! {"_id": {"$ne": n}})}),
        ("above", doc! {"$and": list(|n| doc! {"a": {"$gt": n}})}),
        (
            "nested",
            doc! {"$and": [{"$and": list(|n| doc! {"a": {"$ne": n}})}, {"b": 1}]},
        ),
        ("none of", doc! {"a": {"$nin": &numbers}}),
        ("one of", doc! {"a": {"$in": &numbers}}),
        ("one id", doc! {"_id": {"$in": &numbers}}),
        (
            "either",
            doc! {"$or": list(|n| doc! {"a": n, "b": {"$gt": n}})},
        ),
        ("element", doc! {"a": {"$elemMatch": {"$in": &numbers}}}),
        ("fields", doc! {"$and": list(|n| doc! {format!("f{n}"): n})}),
    ]
}

fn long_facts() -> Facts {
    let mut sparse = index(doc! {"a": 1, "c": 1});
    Arc::make_mut(&mut sparse.spec).sparse = true;
    let mut partial = index(doc! {"b": 1});
    partial.partial = Some(Arc::new(filter(&doc! {"a": {"$gt": -1}, "b": {"$lt": 7}})));
    let mut multikey = index(doc! {"a": -1});
    multikey.multikey.add(0, 0);
    let ids = named("_id_", doc! {"_id": 1});
    facts(vec![
        index(doc! {"a": 1, "b": 1}),
        sparse,
        partial,
        multikey,
        ids,
    ])
}

/// Counts, not times: twice as many conditions take twice the work, for the planner and for explain.
#[test]
fn planning_is_linear_in_the_conditions() {
    let facts = long_facts();
    let work = |query: &Document| {
        let filter = filter(query);
        let (planned, units) = observe::units(|| plan(&filter, &[], None, &facts));
        let planned = planned.unwrap();
        let (shown, more) = observe::units(|| winning_plan(&planned, &filter, None, false));
        shown.unwrap();
        (units, more)
    };
    let many = 2_000;
    for ((name, query), (_, twice)) in long_filters(many).iter().zip(&long_filters(2 * many)) {
        let (once, twice) = (work(query), work(twice));
        for (once, twice) in [(once.0, twice.0), (once.1, twice.1)] {
            assert!(once >= many as u64, "{name}: {once} units are not all");
            assert!(10 * twice <= 21 * once, "{name}: {once}, then {twice}");
        }
    }
}

/// A long planning run ends with its command, whatever ends that. It checks after every few thousand units of work.
#[test]
fn planning_stops_when_its_command_ends() {
    let facts = long_facts();
    let over = || Limit::within(std::time::Duration::ZERO);
    let abandoned = || {
        let flag = Arc::new(crate::wait::Flag::default());
        flag.set();
        Limit::until_abandoned(flag)
    };
    for (name, query) in long_filters(20_000) {
        let filter = filter(&query);
        for (limit, code) in [
            (over(), Code::MaxTimeMSExpired),
            (Limit::of_killed(), Code::Interrupted),
            (abandoned(), Code::Interrupted),
        ] {
            let ended = limit.watch(|| observe::units(|| plan(&filter, &[], None, &facts)));
            assert_eq!(ended.0.unwrap_err().code(), code, "{name}");
            assert!(ended.1 < 30_000, "{name}: it went on for {} units", ended.1);
        }
    }
}

/// An explain output with very many bounds still fits into a reply.
#[test]
fn explain_leaves_out_bounds_that_are_too_large() {
    let shown = |many: i32| {
        let query = doc! {"a": {"$in": (0..many).collect::<Vec<_>>()}};
        let shown = explain(query, doc! {}, vec![index(doc! {"a": 1})]);
        let scan = shown.get_document("inputStage").unwrap().clone();
        (
            scan.contains_key("indexBounds"),
            scan.get_str("warning").ok().map(str::to_owned),
        )
    };
    assert_eq!(shown(1_000), (true, None));
    let warning = "index bounds omitted due to BSON size limit for explain";
    assert_eq!(shown(500_000), (false, Some(warning.to_owned())));
}
