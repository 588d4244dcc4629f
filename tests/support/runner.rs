//! Runs the statements of golden scripts and prints the answers.

use std::collections::HashMap;
use std::net::SocketAddr;

use bson::{Bson, Document};

use super::client::Client;
use super::literal::Read;
use super::print::Printer;
use super::script::NOTHING;
use super::statement::{self, Open, ParsedStatement};

/// Runs the statements of one script. Each speaker has its own connection.
pub struct Runner<'a> {
    address: SocketAddr,
    pub database: String,
    clients: HashMap<String, Speaker>,
    printer: Printer,
    /// The speaker of the current statement.
    speaking: String,
    /// Runs a `clock>` statement.
    clock: Box<Clock<'a>>,
}

type Clock<'a> = dyn FnMut(&str) -> Read<String> + 'a;

struct Speaker {
    client: Client,
    /// The cursor that `more` continues.
    cursor: Option<Open>,
}

// === impl Runner ===

impl<'a> Runner<'a> {
    pub fn new(
        address: SocketAddr,
        database: &str,
        clock: impl FnMut(&str) -> Read<String> + 'a,
    ) -> Self {
        Self {
            address,
            database: database.to_owned(),
            clients: HashMap::new(),
            printer: Printer::default(),
            speaking: String::new(),
            clock: Box::new(clock),
        }
    }

    /// Runs a statement and returns the lines of its answer, at least one.
    pub fn run(&mut self, speaker: &str, text: &str) -> Vec<String> {
        let answer = if speaker == "clock" {
            (self.clock)(text).map(|line| vec![line])
        } else {
            self.say(speaker, text)
        };
        let mut lines = answer.unwrap_or_else(|problem| vec![format!("cannot run: {problem}")]);
        lines.retain(|line| !line.is_empty());
        if lines.is_empty() {
            lines.push(NOTHING.to_owned());
        }
        lines
    }

    fn say(&mut self, speaker: &str, text: &str) -> Read<Vec<String>> {
        self.speaking = speaker.to_owned();
        let open = self.clients.get(speaker);
        let open = open.and_then(|speaker| speaker.cursor.clone());
        let ParsedStatement {
            verb,
            paths,
            command,
        } = statement::read(text, open)?;
        self.printer.learn(&Bson::Document(command.clone()));
        let database = match command.get_str("$db") {
            Ok(database) => database.to_owned(),
            Err(_) => self.database.clone(),
        };
        let speaker = self.speaker(speaker)?;
        let reply = speaker
            .client
            .command(&database, command)
            .map_err(|error| error.to_string())?;
        if !paths.is_empty() && succeeded(&reply) {
            return Ok(vec![self.printer.document(&parts(verb, &reply, &paths))]);
        }
        Ok(self.print(verb, &reply))
    }

    fn speaker(&mut self, name: &str) -> Read<&mut Speaker> {
        if !self.clients.contains_key(name) {
            let client = Client::connect(self.address).map_err(|error| error.to_string())?;
            let speaker = Speaker {
                client,
                cursor: None,
            };
            self.clients.insert(name.to_owned(), speaker);
        }
        self.clients
            .get_mut(name)
            .ok_or_else(|| "just added".to_owned())
    }

    fn print(&mut self, verb: &str, reply: &Document) -> Vec<String> {
        if !succeeded(reply) {
            return vec![self.error(reply)];
        }
        let mut lines = Vec::new();
        match verb {
            "find" | "aggregate" | "more" => self.print_cursor(reply, &mut lines),
            "rows" => {
                self.print_cursor(reply, &mut lines);
                lines.sort_unstable();
            }
            "eval" => {
                let row = reply
                    .get_document("cursor")
                    .and_then(|cursor| cursor.get_array("firstBatch"))
                    .ok()
                    .and_then(|batch| batch.first()?.as_document());
                lines.push(match row.and_then(|row| row.get("value")) {
                    Some(value) => self.printer.value(value),
                    None => "missing".to_owned(),
                });
            }
            "count" => lines.extend(reply.get("n").map(|n| self.printer.value(n))),
            "distinct" => {
                lines.extend(reply.get("values").map(|values| self.printer.value(values)))
            }
            "insert" | "delete" | "update" => {
                let mut line = Vec::new();
                for name in ["n", "nModified"] {
                    if let Some(value) = reply.get(name) {
                        line.push(format!("{name}={}", self.printer.value(value)));
                    }
                }
                lines.push(line.join(" "));
                for upserted in reply.get_array("upserted").into_iter().flatten() {
                    let id = upserted.as_document().and_then(|entry| entry.get("_id"));
                    lines.extend(id.map(|id| format!("upserted {}", self.printer.value(id))));
                }
                for error in reply.get_array("writeErrors").into_iter().flatten() {
                    if let Some(error) = error.as_document() {
                        let index = error.get("index").and_then(number).unwrap_or(-1);
                        lines.push(format!("[{index}] {}", self.error(error)));
                    }
                }
            }
            "findAndModify" => {
                lines.extend(reply.get("value").map(|value| self.printer.value(value)));
                let last = reply.get_document("lastErrorObject").ok();
                if let Some(id) = last.and_then(|last| last.get("upserted")) {
                    lines.push(format!("upserted {}", self.printer.value(id)));
                }
            }
            "create" | "drop" | "index" => lines.push("ok".to_owned()),
            _ => {
                let mut reply = reply.clone();
                for volatile in [
                    "$clusterTime",
                    "operationTime",
                    "electionId",
                    "opTime",
                    "millis",
                ] {
                    reply.remove(volatile);
                }
                lines.push(self.printer.document(&reply));
            }
        }
        lines
    }

    fn print_cursor(&mut self, reply: &Document, lines: &mut Vec<String>) {
        let Ok(cursor) = reply.get_document("cursor") else {
            lines.push(self.printer.document(reply));
            return;
        };
        let batch = cursor
            .get_array("firstBatch")
            .or_else(|_| cursor.get_array("nextBatch"));
        for row in batch.into_iter().flatten() {
            lines.push(self.printer.value(row));
        }
        let id = cursor.get_i64("id").unwrap_or(0);
        let namespace = cursor.get_str("ns").unwrap_or_default();
        let collection = namespace.split_once('.').map_or("", |(_, name)| name);
        if id != 0 {
            lines.push("...".to_owned());
        }
        let open = (id != 0).then(|| (id, collection.to_owned()));
        self.keep(open);
    }

    /// Stores the open cursor for the current speaker.
    fn keep(&mut self, open: Option<Open>) {
        if let Some(speaker) = self.clients.get_mut(&self.speaking) {
            speaker.cursor = open;
        }
    }

    fn error(&mut self, error: &Document) -> String {
        let code = error.get("code").and_then(number).unwrap_or(0);
        let message = error.get_str("errmsg").unwrap_or("no message");
        // mongod prints plans on several lines.
        let message = message.replace('\n', "\\n");
        let message = without_tokens(&without_cursor_ids(&without_uuids(&message)));
        match error.get_str("codeName") {
            Ok(name) => format!("error {code} {name}: {message}"),
            Err(_) => format!("error {code}: {message}"),
        }
    }
}

/// Replaces the resume tokens of change streams, which contain UUIDs.
fn without_tokens(message: &str) -> String {
    const BEFORE: &str = "_data: \"";
    let mut parts = message.split(BEFORE);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        out.push_str(BEFORE);
        out.push_str("<token>");
        out.push_str(rest);
    }
    out
}

/// Returns the fields at some paths of a reply, or the names of their types.
fn parts(verb: &str, reply: &Document, paths: &[String]) -> Document {
    let found = paths.iter().filter_map(|path| {
        let (parents, name) = path.rsplit_once('.').unwrap_or(("", path));
        let mut steps = parents.split('.').filter(|step| !step.is_empty());
        let inner = steps.try_fold(reply, |inner, step| inner.get_document(step).ok());
        let value = inner?.get(name)?.clone();
        Some(match verb {
            "types" => (path.clone(), type_name(&value).into()),
            _ => (path.clone(), value),
        })
    });
    found.collect()
}

/// Returns the name that `$type` uses for the type of a value.
fn type_name(value: &Bson) -> String {
    let name = match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Null => "null",
        Bson::Int32(_) => "int",
        Bson::Timestamp(_) => "timestamp",
        Bson::Int64(_) => "long",
        other => return format!("{:?}", other.element_type()),
    };
    name.to_owned()
}

fn succeeded(reply: &Document) -> bool {
    reply.get("ok").and_then(number) == Some(1)
}

/// Replaces UUIDs in a message, because they differ from run to run.
fn without_uuids(message: &str) -> String {
    let is_uuid = |word: &str| {
        word.len() == 36
            && word.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
    };
    let words = message.split_inclusive(|c: char| !c.is_ascii_hexdigit() && c != '-');
    words
        .map(|word| {
            let bare = word.trim_end_matches(|c: char| !c.is_ascii_hexdigit() && c != '-');
            match is_uuid(bare) {
                true => word.replace(bare, "<uuid>"),
                false => word.to_owned(),
            }
        })
        .collect()
}

/// Replaces generated cursor ids, which also differ from run to run. They are recognized by their length.
fn without_cursor_ids(message: &str) -> String {
    let Some((before, rest)) = message.split_once("cursor id ") else {
        return message.to_owned();
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match digits > 12 {
        true => format!("{before}cursor id <id>{}", &rest[digits..]),
        false => message.to_owned(),
    }
}

fn number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(int) => Some(i64::from(*int)),
        Bson::Int64(long) => Some(*long),
        Bson::Double(double) => Some(*double as i64),
        _ => None,
    }
}
