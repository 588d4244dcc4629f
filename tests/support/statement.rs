//! The statements of golden scripts, which are short forms of commands.

use bson::{Bson, Document, doc};

use super::literal::{Read, Reader};

/// A parsed statement.
pub struct ParsedStatement<'a> {
    pub verb: &'a str,
    /// The paths of the reply that `show` and `types` print.
    pub paths: Vec<String>,
    pub command: Document,
}

/// A cursor id and its collection.
pub type Open = (i64, String);

/// Parses a statement. `open` is the cursor that `more` continues.
pub fn read(text: &str, open: Option<Open>) -> Read<ParsedStatement<'_>> {
    let mut reader = Reader::new(text);
    let verb = reader.word();
    let paths = match verb {
        "show" | "types" => paths(&mut reader),
        _ => Vec::new(),
    };
    let command = command(verb, &mut reader, open)?;
    match reader.at_end() {
        true => Ok(ParsedStatement {
            verb,
            paths,
            command,
        }),
        false => Err(format!("left over: {}", reader.rest())),
    }
}

fn command(verb: &str, reader: &mut Reader<'_>, open: Option<Open>) -> Read<Document> {
    if matches!(verb, "run" | "show" | "types" | "rows") {
        return reader.document();
    }
    if verb == "eval" {
        // An expression. A document may follow, and the expression is evaluated on it.
        let expression = reader.value()?;
        let document = match reader.at_end() {
            true => Bson::Document(doc! {}),
            false => reader.value()?,
        };
        let stages = [
            doc! {"$documents": [{"$literal": document}]},
            doc! {"$project": {"_id": 0, "value": expression}},
        ];
        return Ok(doc! {"aggregate": 1, "pipeline": &stages, "cursor": {}});
    }
    if verb == "more" {
        let (id, collection) = open.ok_or("no open cursor")?;
        let mut command = doc! {"getMore": id, "collection": collection};
        options(reader, &mut command)?;
        return Ok(command);
    }
    let collection: Bson = match reader.peek() {
        Some(c) if c.is_ascii_digit() => reader.value()?,
        _ => reader.word().into(),
    };
    let mut command = Document::new();
    match verb {
        "insert" => {
            let documents = match reader.value()? {
                Bson::Array(array) => array,
                one => vec![one],
            };
            command = doc! {"insert": collection, "documents": documents};
            options(reader, &mut command)?;
        }
        "find" => {
            command.insert("find", collection);
            if reader.peek() == Some('{') {
                command.insert("filter", reader.value()?);
            }
            options(reader, &mut command)?;
        }
        "count" => {
            command.insert("count", collection);
            if reader.peek() == Some('{') {
                command.insert("query", reader.value()?);
            }
            options(reader, &mut command)?;
        }
        "distinct" => {
            command = doc! {"distinct": collection, "key": reader.value()?};
            if reader.peek() == Some('{') {
                command.insert("query", reader.value()?);
            }
            options(reader, &mut command)?;
        }
        "aggregate" => {
            command = doc! {"aggregate": collection, "pipeline": reader.value()?, "cursor": {}};
            options(reader, &mut command)?;
        }
        "update" => {
            let mut statement = doc! {"q": reader.value()?, "u": reader.value()?};
            options(reader, &mut statement)?;
            command = doc! {"update": collection};
            // These options belong to the command and not to the single statement.
            for name in ["let", "ordered", "bypassDocumentValidation"] {
                if let Some(value) = statement.remove(name) {
                    command.insert(name, value);
                }
            }
            command.insert("updates", [statement]);
        }
        "delete" => {
            let mut statement = doc! {"q": reader.value()?, "limit": 0};
            options(reader, &mut statement)?;
            command = doc! {"delete": collection, "deletes": [statement]};
        }
        "findAndModify" => {
            command = doc! {"findAndModify": collection, "query": reader.value()?};
            if matches!(reader.peek(), Some('{' | '[')) {
                command.insert("update", reader.value()?);
            }
            options(reader, &mut command)?;
        }
        "create" => {
            command.insert("create", collection);
            options(reader, &mut command)?;
        }
        "drop" => {
            command.insert("drop", collection);
        }
        "index" => {
            let mut index = doc! {"key": reader.value()?};
            let name: Vec<String> = index
                .get_document("key")
                .map_err(|error| error.to_string())?
                .iter()
                .map(|(field, direction)| {
                    format!("{field}_{}", direction.to_string().replace('"', ""))
                })
                .collect();
            index.insert("name", name.join("_"));
            options(reader, &mut index)?;
            command = doc! {"createIndexes": collection, "indexes": [index]};
        }
        other => return Err(format!("no such statement: {other}")),
    }
    Ok(command)
}

/// Reads `name=value name=value ...` up to the end of the line.
fn options(reader: &mut Reader<'_>, into: &mut Document) -> Read<()> {
    while !reader.at_end() {
        let name = reader.word().to_owned();
        if name.is_empty() || !reader.take('=') {
            return Err(format!("expected name=value before: {}", reader.rest()));
        }
        into.insert(name, reader.value()?);
    }
    Ok(())
}

/// Reads the paths before a command, as in `show version {buildInfo: 1}`.
fn paths(reader: &mut Reader<'_>) -> Vec<String> {
    let mut paths = Vec::new();
    while reader.peek().is_some_and(|c| c != '{') {
        let path = reader.word();
        if path.is_empty() {
            break;
        }
        paths.push(path.to_owned());
    }
    paths
}
