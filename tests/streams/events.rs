//! Events without what differs from server to server, and how they are compared.

use std::collections::HashMap;

use bson::spec::BinarySubtype;
use bson::{Bson, Document};

use crate::random::Random;
use crate::sides::Start;

/// What a stream has told: Sundown's, and mongod's.
#[derive(Default)]
pub struct Told {
    pub raw: [Vec<Document>; 2],
    pub normal: [Vec<String>; 2],
    /// The code of the error that ended the stream, or that it was closed.
    pub ends: [Option<Bson>; 2],
}

// === impl Told ===

impl Told {
    pub fn len(&self) -> usize {
        self.raw[0].len()
    }

    pub fn kind(&self, at: usize) -> &str {
        self.raw[0][at].get_str("operationType").unwrap_or("")
    }

    /// Returns a start at or behind an event.
    pub fn start(&self, at: usize, random: &mut Random) -> Start {
        let option = random.pick(&["resumeAfter", "startAfter", "startAtOperationTime"]);
        let field = match option {
            "startAtOperationTime" => "clusterTime",
            _ => "_id",
        };
        let value = [0, 1].map(|side| self.raw[side][at].get(field).cloned().unwrap_or(Bson::Null));
        Start { option, at, value }
    }
}

/// Returns events as text, without times and tokens, and with numbers instead of UUIDs and ObjectIds. `looks_elsewhere` says that
/// mongod 6.0 looks documents up in other collections than 8.2 does.
pub fn normal(events: &[Document], looks_elsewhere: bool) -> Vec<String> {
    let mut uuids = HashMap::new();
    let mut before = None;
    let events = events.iter().map(|event| {
        let mut event = event.clone();
        assert!(event.remove("_id").is_some(), "{event}");
        // Only whether it is the time of the event before.
        let time = event.remove("clusterTime");
        let is_same = before.replace(time.clone()) == Some(time);
        if event.remove("wallTime").is_none() {
            event.insert("noWallTime", true);
        }
        if looks_elsewhere
            && event
                .get_str("operationType")
                .is_ok_and(|kind| kind == "update")
        {
            event.remove("fullDocument");
        }
        // Since 8.1 and 6.1.
        event.remove("nsType");
        if let Ok(description) = event.get_document_mut("updateDescription") {
            description.remove("disambiguatedPaths");
        }
        // A transaction may have been tried several times.
        if event.contains_key("txnNumber") {
            event.insert("txnNumber", 0);
        }
        if let Some(session) = event.remove("lsid") {
            event.insert("hasSession", session.as_document().is_some());
        }
        number(&mut event, &mut uuids);
        format!("{}{event}", if is_same { "(same time) " } else { "" })
    });
    events.collect()
}

/// Replaces UUIDs and ObjectIds by numbers, in the order in which they come.
fn number(document: &mut Document, uuids: &mut HashMap<Vec<u8>, usize>) {
    for (_, value) in document.iter_mut() {
        match value {
            Bson::Document(inner) => number(inner, uuids),
            Bson::Binary(binary) if binary.subtype == BinarySubtype::Uuid => {
                let next = uuids.len();
                let nth = *uuids.entry(binary.bytes.clone()).or_insert(next);
                *value = Bson::from(format!("UUID {nth}"));
            }
            Bson::ObjectId(id) => {
                let next = uuids.len();
                let nth = *uuids.entry(id.bytes().to_vec()).or_insert(next);
                *value = Bson::from(format!("ObjectId {nth}"));
            }
            _ => {}
        }
    }
}

/// Checks that both sides have told the same.
pub fn check_same(told: &Told, context: &dyn Fn() -> String) {
    let [ours, theirs] = &told.normal;
    let differs = ours
        .iter()
        .zip(theirs)
        .position(|(ours, theirs)| ours != theirs);
    let at = differs.unwrap_or(ours.len().min(theirs.len()));
    let show = |events: &[String]| events.get(at).cloned().unwrap_or("(nothing)".into());
    assert!(
        ours == theirs,
        "event {at}\nSundown {}\nmongod  {}\nends: {:?}\n{}",
        show(ours),
        show(theirs),
        told.ends,
        context()
    );
    assert_eq!(
        told.ends[0],
        told.ends[1],
        "the end of the stream\n{}",
        context()
    );
    for raw in &told.raw {
        let tokens = raw.iter().map(|event| {
            let token = event.get_document("_id").unwrap();
            token.get_str("_data").unwrap()
        });
        assert!(tokens.is_sorted(), "tokens are ordered\n{}", context());
    }
}

/// Checks that a resumed stream tells what the first one has told from there on.
pub fn check_resumed(told: &Told, resumed: &Told, start: &Start, context: &dyn Fn() -> String) {
    let key = |event: &Document| {
        (
            event.get("_id").cloned(),
            event.get("operationType").cloned(),
        )
    };
    let first = match start.option {
        "startAtOperationTime" => {
            let time = told.raw[0][start.at].get("clusterTime");
            let mut all = told.raw[0].iter();
            match time {
                Some(_) => all
                    .position(|event| event.get("clusterTime") == time)
                    .unwrap(),
                None => return,
            }
        }
        _ => start.at + 1,
    };
    if resumed.ends[0]
        .as_ref()
        .is_some_and(|end| end.as_str() != Some("closed"))
    {
        return; // it has failed as mongod has
    }
    let expected: Vec<_> = told.raw[0][first..].iter().map(key).collect();
    let found: Vec<_> = resumed.raw[0].iter().map(key).collect();
    // A stream that goes on behind its end tells more.
    let found = &found[..found.len().min(expected.len())];
    assert_eq!(found, expected, "the rest of the stream\n{}", context());
}
