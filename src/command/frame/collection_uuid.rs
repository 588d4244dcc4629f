//! `collectionUUID`: a client that also gives a UUID means only the collection with that UUID.

use uuid::Uuid;

use super::{Call, Context};
use crate::args::Arg;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuf, Type, UUID_SUBTYPE, Value, ValueRef};

/// Checks the UUID of a command on one collection.
pub(in crate::command) fn check(call: &Call<'_>, arg: Arg<'_>) -> Result<()> {
    check_in(call, call.database(), call.collection()?, arg)
}

/// Checks the UUID of any collection.
pub(in crate::command) fn check_in(
    call: &Call<'_>,
    database: &str,
    name: &str,
    arg: Arg<'_>,
) -> Result<()> {
    if arg.is_null() {
        return Ok(());
    }
    let wanted = read(arg)?;
    let there = call.context.catalog.get(database, name)?;
    if there.is_some_and(|c| *c.uuid().as_bytes() == wanted) {
        return Ok(());
    }
    let actual = call
        .context
        .catalog
        .in_database(database)
        .into_iter()
        .find(|c| *c.uuid().as_bytes() == wanted)
        .map(|c| c.namespace().collection().to_owned());
    let details = DocBuf::build(|doc| {
        doc.put_str("db", database)
            .put("collectionUUID", arg.value())
            .put_str("expectedCollection", name);
        match &actual {
            Some(actual) => doc.put_str("actualCollection", actual),
            None => doc.put_null("actualCollection"),
        };
    });
    Err(Error::new(
        Code::CollectionUUIDMismatch,
        "Collection UUID does not match that specified",
    )
    .with_details(details.into_bytes()))
}

/// Returns the name of the collection with this UUID, as a value that can stand in the place of the UUID. Other binary data
/// stays as it is, and no collection has such a name.
pub(in crate::command) fn resolve(
    context: &Context,
    database: &str,
    target: ValueRef<'_>,
) -> Result<Value> {
    let Some((UUID_SUBTYPE, bytes)) = target.as_binary() else {
        return Ok(target.to_value());
    };
    let wanted = Uuid::from_slice(bytes).map_err(|_| invalid())?;
    let collections = context.catalog.in_database(database);
    let found = collections.iter().find(|c| c.uuid() == wanted);
    found
        .map(|found| Value::string(found.namespace().collection()))
        .ok_or_else(|| {
            Error::new(
                Code::NamespaceNotFound,
                format!("Unable to resolve {wanted}"),
            )
        })
}

/// Reads sixteen bytes of binary subtype 4.
pub(in crate::command) fn read(arg: Arg<'_>) -> Result<[u8; 16]> {
    match arg.value().as_binary() {
        Some((UUID_SUBTYPE, bytes)) => bytes.try_into().map_err(|_| invalid()),
        Some((subtype, _)) => Err(arg.wrong_subtype(subtype, UUID_SUBTYPE)),
        None => Err(arg.wrong_type(&[Type::Binary])),
    }
}

pub(in crate::command) fn invalid() -> Error {
    Error::new(
        Code::InvalidUUID,
        "uuid must be a 16-byte binary field with UUID (4) subtype",
    )
}

#[cfg(test)]
mod tests {
    use crate::command::tests::server::{ask, server};
    use crate::command::{Commands, Connection};
    use crate::config::Config;
    use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

    fn uuid(subtype: BinarySubtype, bytes: &[u8]) -> Bson {
        let bytes = bytes.to_vec();
        Bson::Binary(Binary { subtype, bytes })
    }

    /// Creates the collections `d.a` and `d.b` and returns their UUIDs.
    fn made(server: &mut (Commands, Connection)) -> [Bson; 2] {
        ["a", "b"].map(|name| {
            ask(server, doc! {"create": name, "$db": "d"});
            let list = doc! {"listCollections": 1, "filter": {"name": name}, "$db": "d"};
            let reply = ask(server, list);
            let cursor = reply.get_document("cursor").unwrap();
            let first = cursor.get_array("firstBatch").unwrap()[0].as_document();
            first.unwrap().get_document("info").unwrap()["uuid"].clone()
        })
    }

    #[test]
    fn a_command_with_a_uuid_runs_only_on_that_collection() {
        let mut server = server(Config::default());
        let [own, other] = made(&mut server);
        let commands: [Document; 12] = [
            doc! {"find": "a"},
            doc! {"count": "a"},
            doc! {"distinct": "a", "key": "x"},
            doc! {"aggregate": "a", "pipeline": [], "cursor": {}},
            doc! {"explain": {"find": "a"}},
            doc! {"insert": "a", "documents": [{"x": 1}]},
            doc! {"update": "a", "updates": [{"q": {}, "u": {"$set": {"x": 2}}}]},
            doc! {"delete": "a", "deletes": [{"q": {}, "limit": 1}]},
            doc! {"createIndexes": "a", "indexes": [{"key": {"x": 1}, "name": "x"}]},
            doc! {"dropIndexes": "a", "index": "x"},
            doc! {"collMod": "a"},
            doc! {"drop": "a"},
        ];
        for (given, code, actual) in [
            (other.clone(), Some(361), Some(Bson::String("b".into()))),
            (
                uuid(BinarySubtype::Uuid, &[7; 16]),
                Some(361),
                Some(Bson::Null),
            ),
            (uuid(BinarySubtype::Uuid, &[7; 15]), Some(207), None),
            (uuid(BinarySubtype::Generic, &[7; 16]), Some(14), None),
            (Bson::String("x".into()), Some(14), None),
            (Bson::Null, None, None),
            (own.clone(), None, None),
        ] {
            for command in &commands {
                if command.contains_key("drop") && given == Bson::Null {
                    // This command would drop the collection, and the last row needs it.
                    continue;
                }
                let mut command = command.clone();
                match command.get_mut("explain") {
                    Some(Bson::Document(inside)) => {
                        inside.insert("collectionUUID", given.clone());
                    }
                    _ => {
                        command.insert("collectionUUID", given.clone());
                    }
                }
                command.insert("$db", "d");
                let reply = ask(&mut server, command.clone());
                assert_eq!(reply.get_i32("code").ok(), code, "{command}\n{reply}");
                assert_eq!(
                    reply.get("actualCollection"),
                    actual.as_ref(),
                    "{command}\n{reply}"
                );
            }
        }
    }

    #[test]
    fn a_rename_may_give_the_uuids_of_both_collections() {
        let mut server = server(Config::default());
        let [own, other] = made(&mut server);
        let rename = doc! {"renameCollection": "d.a", "to": "d.b", "$db": "admin"};
        for (field, given, refusal) in [
            ("collectionUUID", &other, Some(["a", "b"])),
            ("dropTarget", &own, Some(["b", "a"])),
            ("dropTarget", &other, None),
        ] {
            let mut command = rename.clone();
            command.insert(field, given.clone());
            let reply = ask(&mut server, command.clone());
            let told =
                ["expectedCollection", "actualCollection"].map(|name| reply.get_str(name).ok());
            let wanted = refusal.map_or([None; 2], |names| names.map(Some));
            assert_eq!(told, wanted, "{command}\n{reply}");
            let ok = if refusal.is_some() { 0.0 } else { 1.0 };
            assert_eq!(reply.get_f64("ok").ok(), Some(ok), "{command}\n{reply}");
        }
    }
}
