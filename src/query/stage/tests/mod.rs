//! Pipelines over rows in memory.

mod facts;
mod law;
mod memory;

use bson::{Bson, Document, bson, doc};

use super::*;
use crate::query::Scope;
use crate::value::DocBuf;
use memory::{memory, numbers, run, run_with, stages};

#[test]
fn pipelines_return_what_mongodb_returns() {
    let ids = |ids: &[i32]| ids.iter().map(|id| doc! {"_id": id}).collect::<Vec<_>>();
    let only_id = || doc! {"$replaceWith": {"_id": "$_id"}};
    let rows: Vec<(Bson, Vec<Document>)> = vec![
        (
            bson!([{"$match": {"v": {"$lt": 2}}}, only_id()]),
            ids(&[18, 19]),
        ),
        (
            bson!([{"$sort": {"v": 1}}, {"$limit": 3}, only_id()]),
            ids(&[19, 18, 17]),
        ),
        (bson!([{"$skip": 17}, only_id()]), ids(&[17, 18, 19])),
        (
            bson!([{"$limit": 5}, {"$skip": 3}, {"$limit": 9}, only_id()]),
            ids(&[3, 4]),
        ),
        (
            bson!([{"$addFields": {"x": 1}}, {"$sort": {"v": 1}}, {"$skip": 2}, {"$limit": 1}, only_id()]),
            ids(&[17]),
        ),
        (bson!([{"$count": "n"}]), vec![doc! {"n": 20}]),
        (bson!([{"$match": {"v": 99}}, {"$count": "n"}]), vec![]),
        (
            bson!([{"$group": {"_id": "$m", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]),
            vec![
                doc! {"_id": 0, "n": 7},
                doc! {"_id": 1, "n": 7},
                doc! {"_id": 2, "n": 6},
            ],
        ),
        (
            bson!([{"$group": {"_id": {"m": "$m", "q": "$none"}}}, {"$sort": {"_id": -1}}, {"$limit": 1}]),
            vec![doc! {"_id": {"m": 2}}],
        ),
        (
            bson!([{"$group": {"_id": "$none", "n": {"$sum": 1}}}]),
            vec![doc! {"_id": null, "n": 20}],
        ),
        (
            bson!([{"$sortByCount": "$m"}, {"$skip": 2}]),
            vec![doc! {"_id": 2, "count": 6}],
        ),
        (
            bson!([{"$bucket": {"groupBy": "$v", "boundaries": [0, 5, 15], "default": "rest"}}]),
            vec![
                doc! {"_id": 0, "count": 5},
                doc! {"_id": 5, "count": 10},
                doc! {"_id": "rest", "count": 5},
            ],
        ),
        (
            bson!([{"$bucketAuto": {"groupBy": "$v", "buckets": 3}}]),
            vec![
                doc! {"_id": {"min": 0, "max": 7}, "count": 7},
                doc! {"_id": {"min": 7, "max": 14}, "count": 7},
                doc! {"_id": {"min": 14, "max": 19}, "count": 6},
            ],
        ),
        (
            bson!([{"$facet": {"few": [{"$match": {"m": 0}}, {"$count": "n"}], "first": [{"$limit": 1}, only_id()], "none": [{"$match": {"q": 1}}]}}]),
            vec![doc! {"few": [{"n": 7}], "first": [{"_id": 0}], "none": []}],
        ),
        (
            bson!([{"$sample": {"size": 50}}, {"$count": "n"}]),
            vec![doc! {"n": 20}],
        ),
        (
            bson!([{"$sample": {"size": 5}}, {"$count": "n"}]),
            vec![doc! {"n": 5}],
        ),
        (
            bson!([{"$match": {"_id": {"$lt": 2}}}, {"$lookup": {"from": "b", "localField": "_id", "foreignField": "_id", "as": "j"}}]),
            vec![
                doc! {"_id": 0, "m": 0, "v": 19, "j": []},
                doc! {"_id": 1, "m": 1, "v": 18, "j": [{"_id": 1, "x": "one", "k": [7, 8]}]},
            ],
        ),
        (
            bson!([{"$match": {"_id": 8}}, {"$lookup": {"from": "b", "localField": "_id", "foreignField": "k", "as": "j.k"}}, {"$replaceWith": {"n": "$j.k._id"}}]),
            vec![doc! {"n": [1, 2]}],
        ),
        (
            bson!([{"$match": {"_id": {"$lt": 3}}}, {"$lookup": {"from": "b", "let": {"i": "$_id"}, "pipeline": [{"$match": {"$expr": {"$gt": ["$_id", "$$i"]}}}, {"$count": "n"}], "as": "j"}}, {"$replaceWith": {"j": "$j"}}]),
            vec![
                doc! {"j": [{"n": 3}]},
                doc! {"j": [{"n": 2}]},
                doc! {"j": [{"n": 1}]},
            ],
        ),
        (
            bson!([{"$match": {"_id": {"$lt": 3}}}, {"$lookup": {"from": "b", "localField": "_id", "foreignField": "_id", "pipeline": [{"$replaceWith": {"x": "$x"}}], "as": "j"}}, {"$replaceWith": {"j": "$j"}}]),
            vec![
                doc! {"j": []},
                doc! {"j": [{"x": "one"}]},
                doc! {"j": [{"x": "two"}]},
            ],
        ),
        (
            bson!([{"$match": {"_id": {"$lt": 2}}}, {"$lookup": {"from": "b", "pipeline": [{"$skip": 2}], "as": "j"}}, {"$replaceWith": {"j": "$j"}}]),
            vec![
                doc! {"j": [{"_id": 3, "x": "three"}]},
                doc! {"j": [{"_id": 3, "x": "three"}]},
            ],
        ),
        (
            bson!([{"$limit": 1}, only_id(), {"$unionWith": {"coll": "b", "pipeline": [{"$match": {"_id": {"$gt": 1}}}, only_id()]}}]),
            ids(&[0, 2, 3]),
        ),
        (
            bson!([{"$limit": 1}, only_id(), {"$unionWith": {"pipeline": [{"$documents": [{"_id": 9}]}]}}]),
            ids(&[0, 9]),
        ),
        (
            bson!([{"$documents": [{"_id": 1}, {"_id": 2}]}, {"$match": {"_id": 2}}]),
            ids(&[2]),
        ),
        (
            bson!([{"$limit": 1}, {"$redact": {"$cond": [{"$eq": ["$m", 0]}, "$$KEEP", "$$PRUNE"]}}, only_id()]),
            ids(&[0]),
        ),
    ];
    let memory = numbers();
    for (pipeline, expected) in rows {
        let found = run(&memory, &stages(pipeline.clone()));
        assert_eq!(found.as_ref().ok(), Some(&expected), "{pipeline} {found:?}");
    }
}

#[test]
fn unwind_in_all_forms() {
    let memory = memory(vec![
        doc! {"_id": 1, "a": [1, 2]},
        doc! {"_id": 2, "a": []},
        doc! {"_id": 3, "a": null},
        doc! {"_id": 4},
        doc! {"_id": 5, "a": 7},
    ]);
    let short = vec![
        doc! {"_id": 1, "a": 1},
        doc! {"_id": 1, "a": 2},
        doc! {"_id": 5, "a": 7},
    ];
    let all = vec![
        doc! {"_id": 1, "a": 1},
        doc! {"_id": 1, "a": 2},
        doc! {"_id": 2},
        doc! {"_id": 3, "a": null},
        doc! {"_id": 4},
        doc! {"_id": 5, "a": 7},
    ];
    let mut with_index = all.clone();
    for (doc, index) in with_index
        .iter_mut()
        .zip([Some(0i64), Some(1), None, None, None, None])
    {
        doc.insert("i", index.map_or(Bson::Null, Bson::Int64));
    }
    for (spec, expected) in [
        (bson!("$a"), short),
        (
            bson!({"path": "$a", "preserveNullAndEmptyArrays": true}),
            all,
        ),
        (
            bson!({"path": "$a", "preserveNullAndEmptyArrays": true, "includeArrayIndex": "i"}),
            with_index,
        ),
    ] {
        assert_eq!(
            run(&memory, &[doc! {"$unwind": spec.clone()}]).unwrap(),
            expected,
            "{spec}"
        );
    }
    let long = super::tests::memory(vec![doc! {"_id": 1, "a": (0..1000).collect::<Vec<i32>>()}]);
    let found = run(&long, &[doc! {"$unwind": "$a"}]).unwrap();
    assert_eq!(found.len(), 1000);
    assert_eq!(found[999], doc! {"_id": 1, "a": 999});
}

#[test]
fn wrong_pipelines_have_their_codes() {
    let rows: Vec<(Bson, i32)> = vec![
        (bson!([{}]), 40323),
        (bson!([{"$match": {}, "$limit": 1}]), 40323),
        (bson!([{"$nope": 1}]), 40324),
        (bson!([{"$densify": {}}]), 238),
        (bson!([{"$match": 1}]), 15959),
        (bson!([{"$limit": 0}]), 15958),
        (bson!([{"$limit": -1}]), 5107201),
        (bson!([{"$skip": "x"}]), 5107200),
        (bson!([{"$skip": 1.5}]), 5107200),
        (bson!([{"$sort": {}}]), 15976),
        (bson!([{"$group": {}}]), 15955),
        (bson!([{"$group": {"_id": {"a": 1}}}]), 17390),
        (bson!([{"$group": {"_id": null, "a": 1}}]), 40234),
        (
            bson!([{"$group": {"_id": null, "a.b": {"$sum": 1}}}]),
            40235,
        ),
        (
            bson!([{"$group": {"_id": null, "a": {"$sum": [1]}}}]),
            40237,
        ),
        (bson!([{"$count": "a.b"}]), 40160),
        (bson!([{"$unwind": "a"}]), 28818),
        (bson!([{"$unwind": {"path": "$a", "q": 1}}]), 28811),
        (bson!([{"$facet": {}}]), 40169),
        (bson!([{"$facet": {"a": [{"$out": "x"}]}}]), 40600),
        (bson!([{"$facet": {"a": [{"$facet": {"b": []}}]}}]), 40600),
        (
            bson!([{"$facet": {"a": [{"$lookup": {"from": "b", "pipeline": [{"$collStats": {}}], "as": "j"}}]}}]),
            40600,
        ),
        (
            bson!([{"$lookup": {"from": "b", "pipeline": [{"$out": "x"}], "as": "j"}}]),
            51047,
        ),
        (
            bson!([{"$unionWith": {"coll": "b", "pipeline": [{"$out": "x"}]}}]),
            31441,
        ),
        (bson!([{"$lookup": {"from": "b", "as": "j"}}]), 9),
        (
            bson!([{"$lookup": {"from": "b", "localField": "a", "as": "j"}}]),
            9,
        ),
        (
            bson!([{"$lookup": {"from": "b", "localField": "a", "foreignField": "b"}}]),
            40414,
        ),
        (
            bson!([{"$lookup": {"from": "b", "let": {"A": 1}, "pipeline": [], "as": "j"}}]),
            9,
        ),
        (bson!([{"$out": "x"}, {"$limit": 1}]), 40601),
        (bson!([{"$limit": 1}, {"$collStats": {}}]), 40602),
        (bson!([{"$limit": 1}, {"$documents": []}]), 40602),
        (bson!([{"$documents": 5}]), 5858203),
        (bson!([{"$replaceRoot": {}}]), 40414),
        (bson!([{"$replaceWith": 5}]), 40228),
        (bson!([{"$redact": "DESCEND"}]), 17053),
        (
            bson!([{"$bucket": {"groupBy": "$v", "boundaries": [0, 1]}}]),
            40066,
        ),
        (
            bson!([{"$merge": {"into": "x", "whenMatched": "fail", "whenNotMatched": "fail"}}]),
            51181,
        ),
        (bson!([{"$out": 5}]), 16990),
    ];
    let memory = numbers();
    for (pipeline, code) in rows {
        let error = run(&memory, &stages(pipeline.clone())).expect_err(&pipeline.to_string());
        assert_eq!(error.code().number(), code, "{pipeline} {error:?}");
    }
    let many: Vec<Document> = (0..1001).map(|_| doc! {"$limit": 1}).collect();
    assert_eq!(run(&memory, &many).unwrap_err().code().number(), 7749501);
    let mut deep = doc! {"$limit": 1};
    for _ in 0..25 {
        deep = doc! {"$unionWith": {"coll": "b", "pipeline": [deep]}};
    }
    assert_eq!(run(&memory, &[deep]).unwrap_err().code().number(), 232);
}

#[test]
fn blocking_stages_have_a_memory_limit() {
    let big = memory(
        (0..600)
            .map(|n| doc! {"_id": n, "pad": "x".repeat(4000)})
            .collect(),
    );
    for pipeline in [
        bson!([{"$addFields": {"q": 1}}, {"$sort": {"_id": 1}}]),
        bson!([{"$addFields": {"q": 1}}, {"$group": {"_id": {"$concat": ["$pad", {"$toString": "$_id"}]}}}]),
        bson!([{"$facet": {"a": []}}]),
    ] {
        let Err(error) = run(&big, &stages(pipeline.clone())) else {
            panic!("{pipeline}");
        };
        assert!(
            [292, 238, 168].contains(&error.code().number()),
            "{pipeline} {error:?}"
        );
    }
    // Memory that a group has freed does not count: only one or two of the large texts are held at a time.
    let texts: Vec<Document> = (0..40)
        .map(|n| doc! {"_id": n, "t": "x".repeat(if n % 2 == 0 { 300_000 } else { 1 })})
        .collect();
    let texts = memory(texts);
    for accumulator in [
        bson!({"$last": "$t"}),
        bson!({"$lastN": {"n": 2, "input": "$t"}}),
        bson!({"$bottomN": {"n": 2, "sortBy": {"_id": 1}, "output": "$t"}}),
        bson!({"$max": {"$concat": [{"$toString": {"$add": ["$_id", 10]}}, "$t"]}}),
    ] {
        let found = run(
            &texts,
            &[doc! {"$group": {"_id": 1, "x": accumulator.clone()}}],
        );
        assert_eq!(found.unwrap().len(), 1, "{accumulator}");
    }
    // A bound keeps the memory small, no matter how many rows arrive.
    let first = run(
        &big,
        &stages(bson!([{"$addFields": {"q": 1}}, {"$sort": {"_id": -1}}, {"$limit": 5}])),
    )
    .unwrap();
    assert_eq!(first[0].get_i32("_id").unwrap(), 599);
    assert_eq!(first.len(), 5);
}

#[test]
fn rows_keep_the_origin_of_their_document() {
    let memory = numbers();
    for (pipeline, origins) in [
        (bson!([{"$addFields": {"x": 1}}, {"$sort": {"v": 1}}]), 20),
        (
            bson!([{"$lookup": {"from": "b", "localField": "m", "foreignField": "_id", "as": "j"}}, {"$unwind": "$j"}]),
            13,
        ),
        (bson!([{"$unionWith": "b"}]), 23),
        (bson!([{"$sample": {"size": 4}}]), 4),
        (bson!([{"$group": {"_id": "$m"}}]), 0),
        (bson!([{"$facet": {"a": []}}]), 0),
    ] {
        let (_, found) = run_with(&memory, &stages(pipeline.clone()), &Endless, true).unwrap();
        assert_eq!(found, origins, "{pipeline}");
    }
}

#[test]
fn the_first_stages_are_passed_to_the_source() {
    let scope = Scope::new();
    let context = StageContext::new(&scope, "db", Some("a"));
    for (pipeline, filter, sort, skip, limit, rest, count_only) in [
        (
            bson!([{"$match": {"a": 1}}, {"$sort": {"b": 1}}, {"$skip": 1}, {"$skip": 2}, {"$limit": 9}, {"$limit": 3}, {"$skip": 1}]),
            true,
            true,
            4,
            Some(2),
            0,
            false,
        ),
        (
            bson!([{"$limit": 9}, {"$match": {"a": 1}}]),
            false,
            false,
            0,
            Some(9),
            1,
            false,
        ),
        (
            bson!([{"$sort": {"b": 1}}, {"$match": {"a": 1}}]),
            false,
            true,
            0,
            None,
            1,
            false,
        ),
        (
            bson!([{"$match": {"a": 1}}, {"$count": "n"}]),
            true,
            false,
            0,
            None,
            1,
            true,
        ),
        (
            bson!([{"$match": {"a": 1}}, {"$group": {"_id": 1, "n": {"$sum": 1}}}]),
            true,
            false,
            0,
            None,
            1,
            true,
        ),
        (
            bson!([{"$group": {"_id": "$a", "n": {"$sum": 1}}}]),
            false,
            false,
            0,
            None,
            1,
            false,
        ),
    ] {
        let spec = DocBuf::from(doc! {"p": pipeline.clone()});
        let parsed = Pipeline::parse(spec.as_doc().get("p").as_array().unwrap(), &context).unwrap();
        let (spec, left) = parsed.split_source();
        let found = (
            spec.filter.is_some(),
            spec.sort.is_some(),
            spec.skip,
            spec.limit,
            left.steps().len(),
            spec.count_only,
        );
        assert_eq!(
            found,
            (filter, sort, skip, limit, rest, count_only),
            "{pipeline}"
        );
    }
}

#[test]
fn rows_have_the_nesting_limit_of_documents() {
    let memory = memory(vec![doc! {"_id": 1}]);
    let wrap = |levels: usize, inner: Bson| {
        (0..levels).fold(inner, |inner, _| Bson::from(doc! {"a": inner}))
    };
    let stage = |levels| doc! {"$replaceWith": wrap(levels, "$$ROOT".into())};
    let code = |stages: &[Document]| match run(&memory, stages) {
        Ok(_) => 0,
        Err(error) => error.code().number(),
    };
    assert_eq!(code(&vec![stage(1); 199]), 0);
    assert_eq!(code(&vec![stage(1); 200]), 15);
    assert_eq!(code(&[stage(150), stage(49)]), 0);
    assert_eq!(code(&[stage(150), stage(50)]), 15);
    let mut many = vec![stage(100); 900];
    many.push(doc! {"$group": {"_id": "$a", "n": {"$push": "$$ROOT"}}});
    many.push(doc! {"$sort": {"_id": 1}});
    assert_eq!(code(&many), 15);
    // Variables that refer to each other produce a result far deeper than the expression itself.
    let bound = (0..40).fold(
        bson!("$$x"),
        |inner, _| bson!({"$let": {"vars": {"x": wrap(90, "$$x".into())}, "in": inner}}),
    );
    let bound = bson!({"$let": {"vars": {"x": 1}, "in": bound}});
    assert_eq!(
        code(&[doc! {"$match": {"$expr": {"$eq": [bound.clone(), bound]}}}]),
        15
    );
    let mapped = (0..40).fold(
        bson!([1]),
        |input, _| bson!({"$map": {"input": input, "in": wrap(90, "$$this".into())}}),
    );
    assert_eq!(code(&[doc! {"$set": {"a": mapped}}]), 15);
}
