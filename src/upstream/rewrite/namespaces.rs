//! The collections that a command reads or writes.

use crate::error::{Code, Error, Result};
use crate::query::stage::STAGES;
use crate::value::{Doc, Elem, UUID_SUBTYPE, ValueRef};
use crate::wire::Request;

/// A database and a collection in it.
pub type NamespacePair = (Box<str>, Box<str>);

/// Databases that clients may not reach: the settings of Sundown, and what the cluster keeps for itself.
const CLOSED: &[&str] = &["local", "sundown"];

/// Returns every collection that the command touches, also in nested pipelines. Refuses a closed database.
pub fn namespaces(request: &Request) -> Result<Vec<NamespacePair>> {
    let mut found = Vec::new();
    let db = database(request);
    check_database(db)?;
    of_command(request, request.body(), db, &mut found)?;
    Ok(found)
}

/// Returns every collection that the stages of a pipeline name.
pub fn pipeline_namespaces(stages: Doc<'_>, db: &str) -> Result<Vec<NamespacePair>> {
    let mut found = Vec::new();
    of_pipeline(stages, db, &mut found)?;
    Ok(found)
}

/// Returns the collections whose documents the command writes.
pub fn written(request: &Request) -> Result<Vec<NamespacePair>> {
    let command = request.body();
    let mut found = Vec::new();
    let db = database(request);
    match command.first().map(|first| first.name_bytes()) {
        Some(
            b"insert" | b"update" | b"delete" | b"findAndModify" | b"findandmodify" | b"bulkWrite",
        ) => {
            of_command(request, command, db, &mut found)?;
        }
        Some(b"aggregate") => {
            let stages = command.get("pipeline").as_array().into_iter().flatten();
            let last = stages
                .last()
                .and_then(|stage| stage.value.as_doc()?.first());
            let writes = last.filter(|last| matches!(last.name(), "$out" | "$merge"));
            if let Some((db, collection)) = writes.as_ref().and_then(|last| target(last, db)) {
                add_named(db, collection, &mut found)?;
            }
        }
        _ => {}
    }
    Ok(found)
}

/// Returns the database of a request.
pub fn database(request: &Request) -> &str {
    let named = request.body().get("$db").as_str();
    named
        .or(request.query_database.as_deref())
        .unwrap_or_default()
}

fn of_command(
    request: &Request,
    command: Doc<'_>,
    db: &str,
    found: &mut Vec<NamespacePair>,
) -> Result<()> {
    let Some(first) = command.first() else {
        return Ok(());
    };
    match first.name() {
        "explain" => match first.value.as_doc() {
            Some(inner) => of_command(request, inner, db, found),
            None => Ok(()),
        },
        "getMore" => add(db, command.get("collection"), found),
        "bulkWrite" => {
            let known = |info: Doc<'_>, found: &mut Vec<NamespacePair>| {
                let ns = info.get("ns").as_str().unwrap_or_default();
                let (db, coll) = ns.split_once('.').unwrap_or((ns, ""));
                add_named(db, coll, found)
            };
            for info in super::fields::statements(request, "nsInfo").unwrap_or_default() {
                known(info, found)?;
            }
            Ok(())
        }
        _ => {
            check_by_name(first.value)?;
            add(db, first.value, found)?;
            match (first.name(), command.get("pipeline").as_array()) {
                ("aggregate", Some(stages)) => of_pipeline(stages, db, found),
                _ => Ok(()),
            }
        }
    }
}

fn of_pipeline(stages: Doc<'_>, db: &str, found: &mut Vec<NamespacePair>) -> Result<()> {
    let stages = stages.iter().filter_map(|stage| stage.value.as_doc());
    for stage in stages.filter_map(Doc::first) {
        if let Some((db, coll)) = target(&stage, db) {
            add_named(db, coll, found)?;
        }
        let Some(row) = STAGES.find(stage.name_bytes()) else {
            continue;
        };
        let mut inner = Ok(());
        (row.facts.inner)(stage.value, &mut |stages| {
            if inner.is_ok() {
                inner = of_pipeline(stages, db, found);
            }
        });
        inner?;
    }
    Ok(())
}

/// Returns the other collection that a stage reads or writes.
pub fn target<'a>(stage: &Elem<'a>, db: &'a str) -> Option<(&'a str, &'a str)> {
    let spec = stage.value.as_doc();
    let named = match stage.name() {
        "$lookup" | "$graphLookup" => spec?.get("from"),
        "$unionWith" if spec.is_some() => spec?.get("coll"),
        "$merge" if spec.is_some_and(|spec| spec.has("into")) => spec?.get("into"),
        "$unionWith" | "$merge" | "$out" => stage.value,
        _ => return None,
    };
    match named.as_doc() {
        Some(named) => Some((
            named.get("db").as_str().unwrap_or(db),
            named.get("coll").as_str()?,
        )),
        None => Some((db, named.as_str()?)),
    }
}

fn add(db: &str, collection: ValueRef<'_>, found: &mut Vec<NamespacePair>) -> Result<()> {
    match collection.as_str() {
        Some(collection) => add_named(db, collection, found),
        None => Ok(()),
    }
}

fn add_named(db: &str, collection: &str, found: &mut Vec<NamespacePair>) -> Result<()> {
    check_database(db)?;
    if !found.iter().any(|(d, c)| &**d == db && &**c == collection) {
        found.push((db.into(), collection.into()));
    }
    Ok(())
}

/// Refuses a command that gives the UUID of its collection in place of the name: the rules are known by names.
pub fn check_by_name(collection: ValueRef<'_>) -> Result<()> {
    match collection.as_binary() {
        Some((UUID_SUBTYPE, bytes)) if bytes.len() == 16 => Err(Error::not_implemented(
            "a collection by its UUID with --upstream",
        )),
        _ => Ok(()),
    }
}

/// Refuses a closed database.
pub fn check_database(db: &str) -> Result<()> {
    match CLOSED.contains(&db) {
        true => Err(Error::new(
            Code::Unauthorized,
            format!("The database '{db}' cannot be used through Sundown"),
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Binary, doc, spec::BinarySubtype};

    use super::*;

    #[test]
    fn what_a_command_writes() {
        for (command, names) in [
            (doc! {"find": "c", "$db": "d"}, ""),
            (doc! {"insert": "c", "documents": [], "$db": "d"}, "d.c"),
            (doc! {"findandmodify": "c", "$db": "d"}, "d.c"),
            (
                doc! {"aggregate": "c", "pipeline": [{"$lookup": {"from": "e"}}], "$db": "d"},
                "",
            ),
            (
                doc! {"aggregate": "c", "pipeline": [{"$out": "e"}], "$db": "d"},
                "d.e",
            ),
            (
                doc! {"aggregate": "c", "pipeline": [{"$merge": {"into": {"db": "f", "coll": "e"}}}], "$db": "d"},
                "f.e",
            ),
            (
                doc! {"bulkWrite": 1, "nsInfo": [{"ns": "d.c"}, {"ns": "f.e"}], "$db": "admin"},
                "d.c f.e",
            ),
        ] {
            let request = Request::new(command.to_vec().unwrap());
            let found = written(&request).unwrap();
            let found: Vec<String> = found.iter().map(|(d, c)| format!("{d}.{c}")).collect();
            assert_eq!(found.join(" "), names, "{command}");
        }
    }

    #[test]
    fn a_collection_is_known_by_its_name() {
        let uuid = |len: usize| Binary {
            subtype: BinarySubtype::Uuid,
            bytes: vec![7; len],
        };
        for (command, refused) in [
            (doc! {"find": "c", "$db": "d"}, false),
            (doc! {"find": uuid(16), "$db": "d"}, true),
            (
                doc! {"explain": {"count": uuid(16), "$db": "d"}, "$db": "d"},
                true,
            ),
            // The cluster says what is wrong with these.
            (doc! {"find": uuid(3), "$db": "d"}, false),
            (doc! {"find": 1, "$db": "d"}, false),
        ] {
            let request = Request::new(command.to_vec().unwrap());
            assert_eq!(namespaces(&request).is_err(), refused, "{command}");
        }
    }
}
