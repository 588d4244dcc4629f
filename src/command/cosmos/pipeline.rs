//! The rules of `--strict cosmos` for pipelines.

use crate::cosmos::strict;
use crate::error::Result;
use crate::query::stage::{self, Changes, STAGES};
use crate::value::{Doc, ValueRef};

/// Checks the stages of a pipeline and of the pipelines within it.
pub fn check_stages(stages: Doc<'_>) -> Result<()> {
    stage::each_stage(stages, &mut |row, spec| match row.name {
        "$lookup" => strict::check_lookup(spec.as_doc().unwrap_or(Doc::EMPTY)),
        _ => Ok(()),
    })
}

/// Returns the sorts that the collection must serve: sorts by fields of its documents, after stages that only filter the
/// documents or change other fields. The output of any other stage is sorted in memory.
pub fn sorts_of_source(stages: Doc<'_>) -> Vec<Doc<'_>> {
    let mut sorts = Vec::new();
    // The stages so far that change their rows.
    let mut changes: Vec<(Changes, ValueRef<'_>)> = Vec::new();
    for stage in stage::names(stages) {
        let Some(row) = STAGES.find(stage.name_bytes()) else {
            break;
        };
        match row.facts.changes {
            Changes::Everything => break,
            Changes::Nothing if row.name == "$sort" => {
                let sort = stage.value.as_doc().unwrap_or(Doc::EMPTY);
                let is_own = |name: &str| {
                    let mut changes = changes.iter();
                    changes.all(|(change, spec)| change.passes(*spec, name))
                };
                if sort.iter().all(|field| is_own(field.name())) {
                    sorts.push(sort);
                }
            }
            Changes::Nothing => {}
            change @ (Changes::Fields(_) | Changes::Selection(..)) => {
                changes.push((change, stage.value));
            }
        }
    }
    sorts
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};

    use super::*;
    use crate::value::DocBuf;

    fn stages(stages: &[Document]) -> DocBuf {
        let stages: Vec<Bson> = stages.iter().cloned().map(Bson::from).collect();
        DocBuf::from(doc! {"p": stages})
    }

    #[test]
    fn which_lookups_are_refused() {
        let plain =
            doc! {"$lookup": {"from": "x", "localField": "a", "foreignField": "b", "as": "c"}};
        let rich = doc! {"$lookup": {"from": "x", "let": {}, "pipeline": [], "as": "c"}};
        let rows: Vec<(Document, Option<&str>)> = vec![
            (plain.clone(), None),
            (rich.clone(), Some("let")),
            (
                doc! {"$lookup": {"from": "x", "pipeline": [], "as": "c"}},
                Some("pipeline"),
            ),
            (
                doc! {"$facet": {"a": [plain.clone()], "b": [rich.clone()]}},
                Some("let"),
            ),
            (
                doc! {"$unionWith": {"coll": "x", "pipeline": [{"$facet": {"a": [rich.clone()]}}]}},
                Some("let"),
            ),
            (doc! {"$unionWith": "x"}, None),
            (doc! {"$match": {"let": 1}}, None),
        ];
        for (stage, refused) in rows {
            let pipeline = stages(std::slice::from_ref(&stage));
            let got = check_stages(pipeline.as_doc().get("p").as_array().unwrap());
            let words = refused.map(|name| format!("Unrecognized parameter to $lookup: {name}"));
            let got = got.err().map(|error| error.message().to_owned());
            assert_eq!(got, words, "{stage}");
        }
    }

    #[test]
    fn sorts_before_the_fields_change() {
        let sort = doc! {"$sort": {"a": 1}};
        let rows: Vec<(Vec<Document>, usize)> = vec![
            (vec![], 0),
            (vec![sort.clone()], 1),
            (vec![doc! {"$match": {}}, sort.clone(), sort.clone()], 2),
            (
                vec![
                    doc! {"$limit": 1},
                    doc! {"$project": {"a": 1}},
                    sort.clone(),
                ],
                1,
            ),
            (vec![doc! {"$project": {"a": "$b"}}, sort.clone()], 0),
            (vec![doc! {"$project": {"a": 0}}, sort.clone()], 0),
            (vec![doc! {"$project": {"b": 1}}, sort.clone()], 0),
            (vec![doc! {"$project": {"b": "$c"}}, sort.clone()], 0),
            (vec![doc! {"$project": {"a.b": 1}}, sort.clone()], 0),
            (
                vec![doc! {"$project": {"a.b": 1}}, doc! {"$sort": {"a.b.c": 1}}],
                1,
            ),
            (vec![doc! {"$project": {"b": 0}}, sort.clone()], 1),
            (vec![doc! {"$set": {"b": 1}}, sort.clone()], 1),
            (vec![doc! {"$set": {"a.x": 1}}, sort.clone()], 0),
            (vec![doc! {"$unset": "a"}, sort.clone()], 0),
            (vec![doc! {"$unset": ["b"]}, sort.clone()], 1),
            (vec![doc! {"$group": {"_id": "$a"}}, sort.clone()], 0),
            (vec![doc! {"$unwind": "$a"}, sort.clone()], 0),
        ];
        for (pipeline, expected) in rows {
            let stages = stages(&pipeline);
            let got = sorts_of_source(stages.as_doc().get("p").as_array().unwrap());
            assert_eq!(got.len(), expected, "{pipeline:?}");
        }
    }
}
