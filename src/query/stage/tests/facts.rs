//! Invariants of the table of stages.

use bson::{Bson, bson};

use super::super::facts::{InChangeStream, Position, RunsOn, StageParser};
use super::*;
use crate::vocabulary::Status;

fn argument(spec: &Bson) -> DocBuf {
    DocBuf::from(doc! {"v": spec.clone()})
}

/// The inner pipelines that a row visits are those that the parsed stage runs.
#[test]
fn rows_and_parsed_stages_show_the_same_inner_pipelines() {
    let empty = bson!([]);
    let stages = bson!([{"$match": {"a": 1}}, {"$limit": 1}]);
    let by_fields = bson!({"from": "b", "localField": "a", "foreignField": "b", "as": "x"});
    for (name, spec) in [
        ("$facet", bson!({"a": empty.clone(), "b": stages.clone()})),
        (
            "$lookup",
            bson!({"from": "b", "pipeline": stages.clone(), "as": "x"}),
        ),
        ("$lookup", by_fields),
        ("$unionWith", bson!({"coll": "b", "pipeline": stages})),
        ("$unionWith", bson!({"coll": "b", "pipeline": empty})),
        ("$match", bson!({"pipeline": [{"$limit": 1}]})),
    ] {
        let pipeline = DocBuf::from(doc! {"p": [{name: spec.clone()}]});
        let stages = pipeline.as_doc().get("p").as_array().unwrap();
        let scope = Scope::new();
        let parsed = Pipeline::parse(stages, &StageContext::new(&scope, "d", Some("c"))).unwrap();
        let mut run = Vec::new();
        parsed.each_level(PipelineInput::Nothing, &mut |level, _| {
            run.extend(level.steps().iter().map(|step| step.row.name));
        });
        let mut shown = Vec::new();
        each_stage(stages, &mut |row, _| {
            shown.push(row.name);
            Ok(())
        })
        .unwrap();
        assert_eq!(run, shown, "{name}: {spec}");
    }
}

/// Every stage whose specification contains pipelines is one of the rows above, or not built yet.
#[test]
fn which_stages_have_inner_pipelines() {
    let stages = bson!([{"$limit": 1}]);
    let spec = argument(&bson!({
        "pipeline": stages.clone(), "a": stages.clone(), "input": {"pipelines": {"p": stages}},
    }));
    let having: Vec<&str> = STAGES
        .entries()
        .iter()
        .filter(|row| {
            let mut count = 0;
            (row.facts.inner)(spec.as_doc().get("v"), &mut |_| count += 1);
            count > 0
        })
        .map(|row| row.name)
        .collect();
    let expected = [
        "$facet",
        "$lookup",
        "$rankFusion",
        "$scoreFusion",
        "$unionWith",
    ];
    assert_eq!(having, expected);
}

/// The facts of a row are consistent.
#[test]
fn facts_agree() {
    for row in STAGES.entries() {
        let name = row.name;
        let first = matches!(row.facts.position, Position::First { .. });
        let own_rows = row.facts.rows_from != RowsFrom::Input;
        assert!(first || !own_rows, "{name} brings rows, so it stands first");
        assert!(
            own_rows || matches!(row.facts.needs, Need::Find | Need::ChangeStream),
            "{name} reads documents"
        );
        assert!(
            !first || !row.facts.in_facet,
            "{name}: $facet has its input"
        );
        assert!(
            row.facts.runs_on == RunsOn::Database || row.facts.rows_from != RowsFrom::Server,
            "{name} is about the server"
        );
        let writes = row.facts.position == Position::Last;
        let whole = matches!(row.facts.runs_on, RunsOn::Database | RunsOn::Only { .. });
        let follows = row.facts.needs == Need::ChangeStream
            || row.facts.in_change_stream == InChangeStream::OnlyLast;
        let bars_view = writes || whole || follows;
        assert_eq!(row.facts.in_view, !bars_view, "{name} in a view");
        assert!(!writes || !row.facts.in_sub, "{name} writes");
    }
}

/// mongod's list of the stages that an update may use.
#[test]
fn stages_of_updates() {
    let updates: Vec<&str> = STAGES
        .entries()
        .iter()
        .filter(|row| matches!(row.status, Status::Ready(StageParser::Each(_))))
        .map(|row| row.name)
        .collect();
    assert_eq!(
        updates,
        [
            "$addFields",
            "$project",
            "$replaceRoot",
            "$replaceWith",
            "$set",
            "$unset"
        ]
    );
}

/// The fields that a stage sets or removes.
#[test]
fn fields_that_are_written() {
    let rows: Vec<(&str, Bson, &[&str])> = vec![
        ("$set", bson!({"a": 1, "b.c": "$x"}), &["a", "b.c"]),
        (
            "$project",
            bson!({"a": 1, "b": 0, "c": "$x", "d": true, "e": false}),
            &["b", "c", "e"],
        ),
        ("$unset", bson!("a"), &["a"]),
        ("$unset", bson!(["a", "b.c"]), &["a", "b.c"]),
        ("$lookup", bson!({"as": "x"}), &["x"]),
        (
            "$setWindowFields",
            bson!({"output": {"x": 1, "y": 1}}),
            &["x", "y"],
        ),
    ];
    for (name, spec, expected) in rows {
        let argument = argument(&spec);
        let changes = STAGES.find(name.as_bytes()).unwrap().facts.changes;
        let mut found = Vec::new();
        changes.each_written(argument.as_doc().get("v"), &mut |path| found.push(path));
        assert_eq!(found, expected, "{name}: {spec}");
    }
}

/// The paths whose values pass through a stage unchanged.
#[test]
fn fields_that_pass() {
    let rows: Vec<(&str, Bson, &[&str])> = vec![
        ("$match", bson!({"a": 1}), &["_id", "a", "a.x", "b"]),
        ("$set", bson!({"a.x": 1}), &["_id", "b"]),
        ("$unset", bson!(["b"]), &["_id", "a", "a.x"]),
        ("$project", bson!({"a": 1}), &["_id", "a", "a.x"]),
        ("$project", bson!({"a": true, "_id": 0}), &["a", "a.x"]),
        ("$project", bson!({"a.x": 1}), &["_id", "a.x"]),
        ("$project", bson!({"a.y": 1, "a.x": 1}), &["_id", "a.x"]),
        ("$project", bson!({"a.x": 0}), &["_id", "b"]),
        ("$project", bson!({"a": {"x": 1}}), &["_id"]),
        ("$project", bson!({"c": "$a"}), &["_id"]),
        ("$project", bson!({"_id": 0, "c": {"$add": [1, "$a"]}}), &[]),
        ("$project", bson!({"_id": 1}), &["_id"]),
        ("$project", bson!({"a": 0}), &["_id", "b"]),
        ("$project", bson!({"_id": 0}), &["a", "a.x", "b"]),
        ("$project", bson!({"_id": 1, "a": false}), &["_id", "b"]),
        ("$project", bson!({"a": {"x": 0}}), &["_id", "b"]),
        ("$group", bson!({"_id": "$a"}), &[]),
    ];
    for (name, spec, expected) in rows {
        let argument = argument(&spec);
        let changes = STAGES.find(name.as_bytes()).unwrap().facts.changes;
        let passes = |path: &&str| changes.passes(argument.as_doc().get("v"), path);
        let found: Vec<&str> = ["_id", "a", "a.x", "b"]
            .into_iter()
            .filter(passes)
            .collect();
        assert_eq!(found, expected, "{name}: {spec}");
    }
}
