//! A law: a pipeline gives the same rows with and without the optimiser, if neither fails.

use bson::{Bson, Document, bson, doc};
use proptest::prelude::*;

use super::super::Endless;
use super::memory::{memory, run_with};

const PATHS: [&str; 8] = ["a", "b", "c", "s", "s.x", "s.y", "z", "a.0"];

/// Values with arrays and documents on the way, so that paths go through all of them.
fn value() -> impl Strategy<Value = Bson> {
    let number = || (0..3i32).prop_map(Bson::from);
    let leaf = || prop_oneof![4 => number(), 1 => Just(Bson::Null), 1 => Just(Bson::from("t"))];
    let object = || {
        (leaf(), leaf(), 0..4).prop_map(|(x, y, which)| match which {
            0 => bson!({"x": x}),
            1 => bson!({"y": y}),
            _ => bson!({"x": x, "y": y}),
        })
    };
    let element = prop_oneof![leaf(), object()];
    prop_oneof![
        3 => leaf(),
        2 => object(),
        2 => prop::collection::vec(element, 0..3).prop_map(Bson::Array),
    ]
}

fn documents() -> impl Strategy<Value = Vec<Document>> {
    let field = || prop::option::weighted(0.8, value());
    prop::collection::vec((field(), field(), field(), field()), 1..7).prop_map(|rows| {
        let with_fields = |(id, (a, b, c, s)): (usize, (_, _, _, _))| {
            let fields = [("a", a), ("b", b), ("c", c), ("s", s)];
            let fields = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            let id = ("_id", Bson::from(id as i32));
            std::iter::once(id)
                .chain(fields)
                .map(|(name, value)| (name.to_owned(), value))
                .collect()
        };
        rows.into_iter().enumerate().map(with_fields).collect()
    })
}

fn path() -> impl Strategy<Value = String> {
    prop::sample::select(&PATHS[..]).prop_map(str::to_owned)
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&["a", "b", "c", "s", "s.x", "z"][..]).prop_map(str::to_owned)
}

fn condition() -> impl Strategy<Value = Document> {
    let test = prop_oneof![
        4 => (0..3i32).prop_map(Bson::from),
        1 => Just(Bson::Null),
        2 => (0..3i32).prop_map(|n| bson!({"$gt": n})),
        1 => (0..3i32).prop_map(|n| bson!({"$ne": n})),
        1 => any::<bool>().prop_map(|yes| bson!({"$exists": yes})),
        1 => (0..3i32).prop_map(|n| bson!({"$elemMatch": {"$gte": n}})),
        1 => Just(bson!({"$type": "int"})),
        1 => Just(bson!({"$in": [null, 1]})),
    ];
    let field = || (path(), test.clone()).prop_map(|(path, test)| doc! {path: test});
    prop_oneof![
        6 => field(),
        1 => (field(), field()).prop_map(|(p, q)| doc! {"$or": [p, q]}),
        1 => (field(), field()).prop_map(|(p, q)| doc! {"$nor": [p, q]}),
        1 => (path(), 0..3i32).prop_map(|(path, n)| {
            let path = path.trim_end_matches(".0").to_owned();
            doc! {"$expr": {"$gte": [format!("${path}"), n]}}
        }),
        1 => path().prop_map(|path| doc! {"$jsonSchema": {"required": [path.trim_end_matches(".0")]}}),
    ]
}

fn expression() -> impl Strategy<Value = Bson> {
    let read =
        || prop::sample::select(&["$a", "$b", "$s", "$s.x", "$z", "$c"][..]).prop_map(Bson::from);
    prop_oneof![
        4 => read(),
        2 => read().prop_map(|path| bson!({"$ifNull": [path, 1]})),
        1 => read().prop_map(|path| bson!({"$divide": [6, path]})),
        1 => Just(bson!("$$REMOVE")),
        1 => Just(bson!({"$literal": 1})),
    ]
}

fn stage() -> impl Strategy<Value = Document> {
    let matches = (condition(), condition(), any::<bool>()).prop_map(|(p, q, both)| match both {
        true => doc! {"$match": {"$and": [p, q]}},
        false => doc! {"$match": p},
    });
    let lookup = (name(), any::<bool>()).prop_map(|(into, piped)| match piped {
        true => doc! {"$lookup": {"from": "b", "as": into, "let": {"v": "$b"}, "pipeline": [
            {"$set": {"w": "$_id"}}, {"$match": {"$expr": {"$gte": ["$_id", "$$v"]}, "_id": {"$lt": 3}}},
        ]}},
        false => doc! {"$lookup": {"from": "b", "as": into, "localField": "a", "foreignField": "_id"}},
    });
    prop_oneof![
        6 => matches,
        3 => (name(), expression()).prop_map(|(name, expr)| doc! {"$set": {name: expr}}),
        2 => (name(), expression()).prop_map(|(name, expr)| doc! {"$project": {name: expr, "b": 1}}),
        1 => name().prop_map(|name| doc! {"$project": {name: 1}}),
        2 => name().prop_map(|name| doc! {"$unset": name}),
        2 => (name(), any::<bool>(), any::<bool>()).prop_map(|(path, keep, index)| {
            let mut unwind = doc! {"path": format!("${path}"), "preserveNullAndEmptyArrays": keep};
            if index {
                unwind.insert("includeArrayIndex", "z");
            }
            doc! {"$unwind": unwind}
        }),
        2 => lookup,
        1 => expression().prop_map(|key| doc! {"$group": {"_id": key, "b": {"$sum": 1}}}),
        1 => (expression(), expression()).prop_map(|(p, q)| doc! {"$group": {"_id": {"x": p, "y": q}, "a": {"$first": "$a"}}}),
        1 => (0..3i64).prop_map(|count| doc! {"$skip": count}),
        2 => (1..4i64).prop_map(|count| doc! {"$limit": count}),
        2 => prop::sample::select(&["a", "s.x", "c", "_id"][..]).prop_map(|path| doc! {"$sort": {path: 1}}),
        1 => condition().prop_map(|filter| doc! {"$unionWith": {"coll": "b", "pipeline": [{"$match": filter}]}}),
        1 => condition().prop_map(|filter| doc! {"$facet": {"f": [{"$set": {"z": "$a"}}, {"$match": filter}]}}),
        1 => name().prop_map(|name| doc! {"$sortByCount": format!("${name}")}),
    ]
}

/// Returns whether two sorts may meet. The optimiser drops the first, so the order of rows that compare equal is another.
fn has_two_sorts(stages: &[Document]) -> bool {
    let sorts =
        |stage: &&Document| stage.contains_key("$sort") || stage.contains_key("$sortByCount");
    stages.iter().filter(sorts).count() > 1
}

/// Returns whether only some of the rows that a sort finds equal are kept. Which ones depends on how far the limit stands
/// behind the sort (`tie_order.rs`), and the optimiser brings it nearer, as MongoDB does.
fn has_limited_sort(stages: &[Document]) -> bool {
    let has = |name: &str| stages.iter().any(|stage| stage.contains_key(name));
    (has("$sort") || has("$sortByCount")) && has("$limit")
}

/// Returns whether a field that one stage may remove may be set again by a later one. Its place then depends on what stands
/// between the two, which the optimiser changes.
fn has_returning_field(stages: &[Document]) -> bool {
    let root = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
    let mut removed = Vec::new();
    stages.iter().any(|stage| {
        let set = stage.get_document("$set").ok();
        let set = set.and_then(|set| set.keys().next()).map(|path| root(path));
        let returns = set.as_ref().is_some_and(|name| removed.contains(name));
        removed.extend(stage.get_str("$unset").ok().map(root));
        removed.extend(set);
        returns
    })
}

fn with_sorted_fields(rows: Vec<Document>) -> Vec<Document> {
    fn sorted(value: Bson) -> Bson {
        match value {
            Bson::Document(document) => {
                let mut fields: Vec<_> = document.into_iter().collect();
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| (name, sorted(value)));
                Bson::Document(fields.collect())
            }
            Bson::Array(values) => values.into_iter().map(sorted).collect(),
            value => value,
        }
    }
    let sort = |row| match sorted(Bson::Document(row)) {
        Bson::Document(row) => row,
        _ => Document::new(),
    };
    rows.into_iter().map(sort).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 3000 } else { 100_000 },
        // Pipelines with two sorts are left out.
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_optimiser_changes_no_answer(docs in documents(), stages in prop::collection::vec(stage(), 1..6)) {
        prop_assume!(!has_two_sorts(&stages));
        let memory = memory(docs);
        let rows = |optimise| run_with(&memory, &stages, &Endless, optimise).map(|(rows, _)| rows);
        if let (Ok(mut plain), Ok(mut optimised)) = (rows(false), rows(true)) {
            if has_returning_field(&stages) {
                (plain, optimised) = (with_sorted_fields(plain), with_sorted_fields(optimised));
            }
            match has_limited_sort(&stages) {
                true => prop_assert_eq!(plain.len(), optimised.len(), "{:?}", stages),
                false => prop_assert_eq!(plain, optimised, "{:?}", stages),
            }
        }
    }
}
