//! aggregate, stage by stage.

use bson::{Bson, Document, doc};

use super::super::change::{Conditions, apply, project, stage};
use super::super::matcher::matches;
use super::super::order::{by_sort, compare, equal, number};
use super::super::state::{Collection, Model};
use super::{Expect, names_ts};

pub(super) fn aggregate(model: &mut Model, name: &str, command: &Document) -> Option<Expect> {
    let with_ts = names_ts(command);
    let mut rows: Vec<Document> = model
        .get(name)
        .docs
        .iter()
        .map(|stored| Collection::seen(stored, with_ts))
        .collect();
    let mut ordered = false;
    let mut groups = false;
    for given in command.get_array("pipeline").expect("a pipeline") {
        let (name, spec) = stage(given);
        match name {
            "$match" => {
                let filter = spec.as_document().expect("a filter");
                rows.retain(|row| matches(filter, row));
            }
            "$sort" => {
                let sort = spec.as_document().expect("a sort");
                rows.sort_by(|a, b| by_sort(sort, a, b));
                ordered = true;
            }
            "$limit" => rows.truncate(number(spec).expect("a number") as usize),
            "$skip" => drop(rows.drain(..rows.len().min(number(spec).expect("a number") as usize))),
            "$project" => {
                let projection = spec.as_document().expect("a projection");
                rows = rows.iter().map(|row| project(projection, row)).collect();
            }
            "$unwind" => {
                let field = spec.as_str().expect("a path").trim_start_matches('$');
                rows = rows.iter().flat_map(|row| unwind(row, field)).collect();
            }
            "$count" => {
                let n = rows.len() as i64;
                rows = (n > 0)
                    .then(|| doc! {"_id": null, (spec.as_str().expect("a name")): n})
                    .into_iter()
                    .collect();
                groups = true;
            }
            "$group" => {
                let spec = spec.as_document().expect("a group");
                rows = group(
                    spec.get_str("_id").expect("a path").trim_start_matches('$'),
                    &rows,
                );
                groups = true;
            }
            "$lookup" => {
                let spec = spec.as_document().expect("a lookup");
                if let Ok(stages) = spec.get_array("pipeline") {
                    let filter = stages[0].as_document().expect("a stage")["$match"].clone();
                    let from = model.get(spec.get_str("from").expect("a collection"));
                    let mut joined =
                        from.matching(filter.as_document().expect("a filter"), with_ts);
                    joined.sort_by(|(_, a), (_, b)| compare(&a["_id"], &b["_id"]));
                    let joined: Vec<Document> = joined.into_iter().map(|(_, seen)| seen).collect();
                    for row in &mut rows {
                        row.insert("joined", joined.clone());
                    }
                    continue;
                }
                let (local, foreign) = (
                    spec.get_str("localField").expect("a field"),
                    spec.get_str("foreignField").expect("a field"),
                );
                let from = model.get(spec.get_str("from").expect("a collection"));
                for row in &mut rows {
                    let value = row.get(local).cloned().unwrap_or(Bson::Null);
                    let mut joined = from.matching(&doc! {foreign: {"$eq": value}}, with_ts);
                    joined.sort_by(|(_, a), (_, b)| compare(&a["_id"], &b["_id"]));
                    let joined: Vec<Document> = joined.into_iter().map(|(_, seen)| seen).collect();
                    row.insert(spec.get_str("as").expect("a name"), joined);
                }
            }
            "$sortByCount" => {
                let path = spec.as_str().expect("a path").trim_start_matches('$');
                rows = group(path, &rows);
                for row in &mut rows {
                    row.remove("total");
                }
                groups = true;
            }
            "$sample" => {
                let size = spec.as_document().expect("a size")["size"].clone();
                let size = number(&size).expect("a number") as usize;
                return Some(Expect::Some(size.min(rows.len()), rows));
            }
            "$facet" => {
                let spec = spec.as_document().expect("facets");
                let mut faceted = Document::new();
                for (name, stages) in spec {
                    let first = stages.as_array().expect("stages")[0].as_document();
                    let filter = first.and_then(|stage| stage.get_document("$match").ok());
                    let passes = |row: &&Document| filter.is_none_or(|filter| matches(filter, row));
                    let n = rows.iter().filter(passes).count() as i32;
                    let counted: Vec<Document> =
                        (n > 0).then(|| doc! {"count": n}).into_iter().collect();
                    faceted.insert(name, counted);
                }
                rows = vec![faceted];
            }
            "$unionWith" => {
                let other = model.get(spec.as_str().expect("a collection"));
                rows.extend(
                    other
                        .docs
                        .iter()
                        .map(|stored| Collection::seen(stored, with_ts)),
                );
                ordered = false;
            }
            "$out" if with_ts => return None,
            "$out" => {
                out(
                    model,
                    spec.as_str().expect("a name"),
                    std::mem::take(&mut rows),
                )?;
            }
            "$merge" if with_ts => return None,
            "$merge" => {
                let rows = std::mem::take(&mut rows);
                if let Err(code) = merge(model, spec.as_document().expect("a merge"), rows)? {
                    return Some(Expect::Error(code));
                }
            }
            other => panic!("the model knows no {other}"),
        }
    }
    Some(match (groups, ordered) {
        (true, _) => Expect::Groups(rows),
        (false, true) => Expect::Ordered(rows),
        (false, false) => Expect::Set(rows),
    })
}

/// Returns whether the effect of a write stage depends on the order of its rows.
fn has_unique(model: &Model, name: &str) -> bool {
    model
        .get(name)
        .indexes
        .iter()
        .any(|index| index.flag("unique"))
}

/// The target keeps its settings and gets new documents.
fn out(model: &mut Model, into: &str, rows: Vec<Document>) -> Option<()> {
    if has_unique(model, into) {
        return None;
    }
    model.at(into).docs.clear();
    for row in rows {
        model.insert(into, row).expect("nothing is unique but _id");
    }
    Some(())
}

/// The first error. The following rows of the same batch are written in any case.
fn merge(model: &mut Model, spec: &Document, rows: Vec<Document>) -> Option<Result<(), i64>> {
    let into = spec.get_str("into").expect("a name");
    if has_unique(model, into) {
        return None;
    }
    // Rows are written in batches. After a batch with an error nothing is written, and the size of batches is not defined.
    let bytes = rows.iter().map(|row| row.to_vec().expect("encodes").len());
    let one_batch = rows.len() < 200 && bytes.sum::<usize>() < 100_000;
    let how = &spec["whenMatched"];
    let by_name = matches!(how.as_str(), Some("merge" | "keepExisting"));
    let mut failed = Ok(());
    for mut row in rows {
        // If an earlier row has ended a document (with a past date), this row does not see it.
        model.expire();
        if by_name {
            // The stage is an update with $set or $setOnInsert, so new fields are added in the order of their names.
            let mut fields: Vec<(String, Bson)> = row.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| (a != "_id", a).cmp(&(b != "_id", b)));
            row = fields.into_iter().collect();
        }
        let there = model
            .get(into)
            .docs
            .into_iter()
            .find(|stored| equal(&stored.doc["_id"], &row["_id"]));
        let Some(there) = there else {
            if spec.get_str("whenNotMatched").expect("a word") == "insert" {
                model.insert(into, row).ok()?;
            }
            continue;
        };
        // Equal numbers of two types: which one stays is not defined.
        if there.doc["_id"] != row["_id"] {
            return None;
        }
        let changed = match how.as_str() {
            Some("replace") => Ok(row),
            Some("merge") => {
                let mut merged = there.doc.clone();
                merged.extend(row);
                Ok(merged)
            }
            Some("fail") => Err(11_000),
            Some(_) => continue,
            None => apply(how, &there.doc, &Conditions::default(), model.now, false),
        };
        let written = changed.and_then(|changed| model.write(into, there.uid, changed));
        failed = failed.and(written);
    }
    (one_batch || failed.is_ok()).then_some(failed)
}

fn unwind(row: &Document, field: &str) -> Vec<Document> {
    let with = |value: &Bson| {
        let mut row = row.clone();
        row.insert(field, value.clone());
        row
    };
    match row.get(field) {
        None | Some(Bson::Null) => vec![],
        Some(Bson::Array(array)) => array.iter().map(with).collect(),
        Some(value) => vec![with(value)],
    }
}

fn group(path: &str, rows: &[Document]) -> Vec<Document> {
    let mut groups: Vec<(Bson, i64, f64)> = Vec::new();
    for row in rows {
        let key = row.get(path).cloned().unwrap_or(Bson::Null);
        let n = row.get("n").and_then(number).unwrap_or(0.0);
        match groups.iter_mut().find(|(known, ..)| equal(known, &key)) {
            Some((_, count, total)) => {
                *count += 1;
                *total += n;
            }
            None => groups.push((key, 1, n)),
        }
    }
    groups.sort_by(|a, b| compare(&a.0, &b.0));
    groups
        .into_iter()
        .map(|(key, count, total)| doc! {"_id": key, "count": count, "total": total})
        .collect()
}
