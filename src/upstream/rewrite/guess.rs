//! A write to one document by its `_id`: a guess that costs the cluster little.
//!
//! The expression of the [`EndedPredicate`](super::EndedPredicate) costs the cluster as much as the write itself. But nearly
//! every document of a collection with a default inherits it, and then the stamp tells all. So the command is sent for such
//! a document first. If it matches none, it is sent again with the whole predicate.
//!
//! Both may have the same transaction number: a statement that matches nothing leaves no trace in the history of its session,
//! and one that was executed is answered from the history whatever its filter says (seen on MongoDB 6.0.5). Within a
//! transaction nothing is guessed.

use bytes::Bytes;

use super::Moment;
use super::batch::{has_duplicate, is_duplicate, part};
use super::fields::doc_or_empty;
use super::find::is_by_id;
use super::predicate::{before, put_date_ways, stamp_is};
use super::run::{RuledCollection, Stop, is_ok};
use super::takeover::in_transaction;
use crate::error::Result;
use crate::ttl::{DefaultTtl, OwnTtl};
use crate::upstream::{Ask, CollectionRules};
use crate::value::{Doc, DocBuf, Millis, is_true};
use crate::wire::Request;

/// The filter of documents that inherit a default and have not ended.
#[derive(Clone, Copy)]
pub struct Guess<'a> {
    rules: &'a CollectionRules,
    /// The last moment of writing whose documents have ended.
    cutoff: i64,
    now: Millis,
}

// === impl Guess ===

impl<'a> Guess<'a> {
    /// Returns the guess for a statement with this filter, if one is worth it. It must not be an upsert.
    pub fn new(
        command: Doc<'_>,
        filter: Doc<'_>,
        rules: &'a CollectionRules,
        now: Millis,
    ) -> Option<Self> {
        let DefaultTtl::Seconds(seconds) = rules.default else {
            return None;
        };
        let is_worth_it = rules.guesses.is_trusted() && rules.former.is_none();
        (is_worth_it && is_by_id(filter) && !in_transaction(command)).then_some(Self {
            rules,
            cutoff: before(now, seconds),
            now,
        })
    }

    /// Returns the client's filter, narrowed to a document that inherits the default and has not ended.
    pub fn alive(self, filter: Doc<'_>) -> DocBuf {
        DocBuf::build_sized(filter.bytes().len() + 96, |out| {
            out.put_body(filter.body()).put_null(OwnTtl::FIELD);
            stamp_is("$gt", self.cutoff, out);
            if !self.rules.dates.is_empty() {
                let mut ways = out.array("$nor");
                put_date_ways(self.rules, self.now, &mut ways);
                ways.end();
            }
        })
    }
}

/// What came of a guess.
pub enum Guessed {
    /// The reply tells what became of the command.
    Reply(Bytes),
    /// No such document inherits the default.
    Missed,
    /// Nothing was sent.
    Nothing,
}

/// Sends a command with a single statement for a document that inherits the default. `rewrite` returns the statement as it is
/// sent.
pub async fn send<A: Ask>(
    ask: &mut A,
    request: &Request,
    (name, statements): (&'static str, &[Doc<'_>]),
    target: &RuledCollection<'_>,
    moment: Moment,
    rewrite: impl Fn(Doc<'_>, Guess<'_>) -> Result<DocBuf>,
) -> Result<Guessed, Stop> {
    let &[statement] = statements else {
        return Ok(Guessed::Nothing);
    };
    if is_true(statement.get("upsert")) || is_true(statement.get("multi")) {
        return Ok(Guessed::Nothing);
    }
    let filter = doc_or_empty(statement, "q");
    let Some(guess) = Guess::new(request.body(), filter, target.rules, moment.now) else {
        return Ok(Guessed::Nothing);
    };
    // A statement that is refused is answered with the others.
    let Ok(sent) = rewrite(statement, guess) else {
        return Ok(Guessed::Nothing);
    };
    let reply = ask.ask(part(request, name, sent.into_bytes(), &[])).await?;
    Ok(Guessed::of(reply, target.rules))
}

// === impl Guessed ===

impl Guessed {
    /// Judges the reply to a guess. A duplicate key may be held by an ended document, which makes way later.
    pub fn of(reply: Bytes, rules: &CollectionRules) -> Self {
        let answer = Doc::new(&reply);
        if matched_nothing(answer) || has_duplicate(answer) || is_duplicate(answer) {
            return Self::Missed;
        }
        rules.guesses.right();
        Self::Reply(reply)
    }

    /// Takes note of the reply to the command with the whole predicate.
    pub fn learn(&self, reply: &Bytes, rules: &CollectionRules) {
        if matches!(self, Self::Missed) && !matched_nothing(Doc::new(reply)) {
            rules.guesses.wrong();
        }
    }
}

/// Returns whether a reply to a write says that nothing was matched, and nothing else.
fn matched_nothing(reply: Doc<'_>) -> bool {
    let counts = match reply.get("lastErrorObject").as_doc() {
        Some(of_find_and_modify) => of_find_and_modify,
        None => reply,
    };
    let n = counts.get("n").as_num().map(|n| n.to_i64_saturating());
    n == Some(0) && is_ok(reply) && !reply.has("writeErrors")
}
