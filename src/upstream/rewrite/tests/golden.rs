//! Commands in, commands out: `golden.case`, with the bytes that are sent printed as text.
//!
//! ```text
//! reply {ok: 1, ...}     what the cluster answers, in order; without it, that all is well
//! > {find: "a"}          a command of a client
//! < {find: "a", ...}     what the cluster is asked
//! = {ok: 1, ...}         what the client gets, if replies were given
//! ```
//!
//! `UPDATE=1` writes the lines that begin with `<` and `=`. A person then reads the difference.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{Bson, Document, doc};
use bytes::Bytes;

use super::world::{Book, START, block_on, request};
use crate::error::Result;
use crate::ttl::DefaultTtl;
use crate::upstream::rewrite::{
    CursorRules, EndedPredicate, Moment, ViewCursors, ViewReply, expand, run,
};
use crate::upstream::{Ask, CollectionRules, DateRule, LastWrites, Lost, RuledView};
use crate::value::{Doc, DocBuf, Millis};
use crate::wire::Request;

#[path = "../../../../tests/support/literal.rs"]
#[allow(dead_code, clippy::duplicate_mod)] // the tests of updates have it, too
mod literal;
#[path = "../../../../tests/support/print.rs"]
#[allow(dead_code)]
mod print;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/upstream/rewrite/tests/golden.case"
);

/// Answers what the case says.
#[derive(Default)]
struct Scripted {
    replies: VecDeque<Document>,
    asked: Vec<String>,
}

impl Ask for Scripted {
    async fn ask(&mut self, request: Request) -> Result<Bytes, Lost> {
        let mut text = printed(&Document::from_reader(&request.body[..]).unwrap());
        for sequence in &request.sequences {
            text += &format!(" + {}:", sequence.name);
            for document in sequence.iter() {
                let document = Document::from_reader(document.bytes()).unwrap();
                text += &format!(" {}", printed(&document));
            }
        }
        self.asked.push(text);
        let well =
            doc! {"ok": 1.0, "n": 1, "cursor": {"firstBatch": [], "id": 0i64, "ns": "rewrite.a"}};
        let reply = self.replies.pop_front().unwrap_or(well);
        Ok(reply.to_vec().unwrap().into())
    }
}

fn printed(document: &Document) -> String {
    print::Printer::default().document(document)
}

fn rules(name: &str) -> CollectionRules {
    let stamped = |seconds| CollectionRules {
        stamped: true,
        stores_ts: true,
        default: DefaultTtl::from_seconds(seconds).unwrap(),
        since: Millis(START),
        dates: Vec::new(),
        ..CollectionRules::NONE
    };
    match name {
        "a" => stamped(10),
        "b" => stamped(-1),
        // The last writes to these are remembered.
        "seen" | "never" => CollectionRules {
            writes: Some(Arc::<LastWrites>::default().of(name, [1; 16], 0)),
            ..stamped(if name == "seen" { 1_000 } else { -1 })
        },
        _ => CollectionRules {
            dates: vec![DateRule {
                path: "at".into(),
                seconds: 5,
                filter: None,
            }],
            ..CollectionRules::NONE
        },
    }
}

const COLLECTIONS: &[&str] = &["a", "b", "dates", "seen", "never"];

/// Views: their name, what they are based on, their stages. The last one has a collation.
fn views() -> Vec<(&'static str, RuledView)> {
    let view = |base: &str, stages: Vec<Document>, collation: Option<Document>| RuledView {
        base: base.into(),
        stages: stages_of(stages),
        collation: collation.as_ref().map(DocBuf::from),
    };
    vec![
        ("va", view("a", vec![doc! {"$match": {"x": 1}}], None)),
        (
            "grouped",
            view("a", vec![doc! {"$group": {"_id": "$x"}}], None),
        ),
        (
            "joining",
            view(
                "plain",
                vec![
                    doc! {"$lookup": {"from": "va", "localField": "k", "foreignField": "_id", "as": "found"}},
                ],
                None,
            ),
        ),
        (
            "english",
            view("a", vec![], Some(doc! {"locale": "en", "strength": 1})),
        ),
    ]
}

fn stages_of(stages: Vec<Document>) -> DocBuf {
    let stages = doc! {"": stages};
    let stages = DocBuf::from(&stages);
    DocBuf::from(stages.as_doc().get("").as_array().unwrap())
}

/// Replaces views as long as there are any.
fn without_views(mut sent: Request, book: &Book) -> Result<(Request, Option<ViewReply>)> {
    let mut reply = None;
    while let Some(expanded) = expand(&sent, book)? {
        sent = expanded.request;
        reply = reply.or(expanded.reply);
    }
    Ok((sent, reply))
}

#[test]
fn commands_in_and_out() {
    let mut book = Book::default();
    for name in COLLECTIONS {
        book.set(name, rules(name));
    }
    for (name, view) in views() {
        let rules = CollectionRules {
            view: Some(Arc::new(view)),
            ..CollectionRules::NONE
        };
        book.set(name, rules);
    }
    let moment = Moment {
        now: Millis(START + 60_000),
        expose_ts: false,
    };
    // The predicates are printed in full once, and abbreviated then.
    let ended = COLLECTIONS.iter().map(|name| {
        let alive = EndedPredicate::new(&rules(name), moment.now).alive(Doc::EMPTY);
        let alive = Document::from_reader(alive.bytes()).unwrap();
        let Some(Bson::Array(ways)) = alive.get("$nor") else {
            panic!("{alive}");
        };
        let ways = printed(&doc! {"": ways.clone()});
        (
            *name,
            ways[ways.find('[').unwrap()..ways.len() - 1].to_owned(),
        )
    });
    let ended: Vec<(&str, String)> = ended.collect();

    let text = std::fs::read_to_string(FILE).unwrap();
    let mut now = String::new();
    let mut cluster = Scripted::default();
    let mut full = false;
    for line in text.lines() {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        let parse = |text: &str| match literal::value(text) {
            Ok(Bson::Document(document)) => document,
            other => panic!("{line}: {other:?}"),
        };
        match mark {
            "<" | "=" => continue,
            "reply" => cluster.replies.push_back(parse(rest)),
            "#" => full = rest.starts_with("In full"),
            _ => {}
        }
        now += line;
        now.push('\n');
        if mark != ">" {
            continue;
        }
        let scripted = !cluster.replies.is_empty();
        let cursors = CursorRules::default();
        let reply = match without_views(request(parse(rest)), &book) {
            Ok((sent, of_view)) => {
                let ran = run(&mut cluster, sent, &book, moment, &cursors);
                let reply = block_on(ran).unwrap();
                of_view.map_or(reply.clone(), |v| v.shown(reply, &ViewCursors::default()))
            }
            Err(error) => {
                let mut reply = Vec::new();
                error.write_reply(&mut reply);
                reply.into()
            }
        };
        let reply = Document::from_reader(&reply[..]).unwrap();
        let refused = cluster.asked.is_empty();
        for mut asked in cluster.asked.drain(..) {
            for (name, ways) in ended.iter().filter(|_| !full) {
                asked = asked.replace(ways, &format!("<ended in {name}>"));
            }
            now += &format!("< {asked}\n");
        }
        if scripted || refused {
            now += &format!("= {}\n", printed(&reply));
        }
        assert!(
            cluster.replies.is_empty(),
            "{line}: not all replies were used"
        );
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, &now).unwrap();
    } else if now != text {
        let differs = now
            .lines()
            .zip(text.lines())
            .find(|(now, then)| now != then);
        panic!("golden.case differs (UPDATE=1 writes it): {differs:#?}");
    }
}
