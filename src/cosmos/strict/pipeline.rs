//! What a pipeline asks for that is refused.

use super::is_on;
use super::rules::LOOKUP;
use crate::error::Result;
use crate::value::Doc;

/// The stages of a pipeline, and of those within it.
pub fn check_pipeline(stages: Doc<'_>) -> Result<()> {
    for stage in stages {
        let Some(stage) = stage.value.as_doc().and_then(|stage| stage.first()) else {
            continue;
        };
        let Some(said) = stage.value.as_doc() else {
            continue;
        };
        match stage.name() {
            "$lookup" => {
                if let Some(option) = ["let", "pipeline"].iter().find(|name| said.has(name)) {
                    return Err(LOOKUP.about(option));
                }
            }
            "$facet" => {
                for branch in said {
                    check_pipeline(branch.value.as_array().unwrap_or(Doc::EMPTY))?;
                }
            }
            "$unionWith" => {
                check_pipeline(said.get("pipeline").as_array().unwrap_or(Doc::EMPTY))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The sorts that the collection has to serve: by fields that its documents have, behind stages that only filter them or
/// change other fields. What comes out of any other stage is sorted in memory.
pub fn sorts_of_source(stages: Doc<'_>) -> Vec<Doc<'_>> {
    let mut sorts = Vec::new();
    // Fields that a stage has made or taken away.
    let mut changed: Vec<&str> = Vec::new();
    for stage in stages {
        let Some(stage) = stage.value.as_doc().and_then(|stage| stage.first()) else {
            break;
        };
        let said = stage.value.as_doc().unwrap_or(Doc::EMPTY);
        match stage.name() {
            "$match" | "$limit" | "$skip" | "$sample" => {}
            "$addFields" | "$set" => changed.extend(said.iter().map(|field| field.name())),
            "$project" => {
                let others = said.iter().filter(|field| !is_on(field.value));
                changed.extend(others.map(|field| field.name()));
            }
            "$unset" => match stage.value.as_array() {
                Some(names) => changed.extend(names.iter().filter_map(|name| name.value.as_str())),
                None => changed.extend(stage.value.as_str()),
            },
            "$lookup" => changed.extend(said.get("as").as_str()),
            "$sort" => {
                let own = |name: &str| changed.iter().all(|other| root(other) != root(name));
                if said.iter().all(|field| own(field.name())) {
                    sorts.push(said);
                }
            }
            _ => break,
        }
    }
    sorts
}

fn root(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
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
            let got = check_pipeline(pipeline.as_doc().get("p").as_array().unwrap());
            let words = refused.map(|name| format!("Unrecognized parameter to $lookup: {name}"));
            let got = got.err().map(|error| error.message().to_owned());
            assert_eq!(got, words, "{stage}");
        }
    }

    #[test]
    fn which_sorts_the_collection_serves() {
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
