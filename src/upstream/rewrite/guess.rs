//! Writes to single documents by their `_id`: a guess that costs the cluster little.
//!
//! The expression of the [`EndedPredicate`](super::EndedPredicate) costs the cluster as much as the write itself. But nearly
//! every document of a collection with a default inherits it, and then the stamp tells all. So the command is sent for such
//! documents first. If it misses one, it is sent again with the whole predicate.
//!
//! Both may have the same transaction number: a statement that matches nothing leaves no trace in the history of its session,
//! and one that was executed is answered from the history whatever its filter says (seen on MongoDB 6.0.5). So a command of
//! several statements is guessed only if it has such a number. Within a transaction nothing is guessed.

use std::collections::HashSet;

use bytes::Bytes;

use super::Moment;
use super::batch::{errors_of, is_duplicate, is_ordered, part};
use super::fields::{doc_or_empty, with_fields};
use super::find::is_by_id;
use super::predicate::{before, put_date_ways, stamp_is};
use super::run::{RuledCollection, Stop, is_ok};
use super::takeover::in_transaction;
use crate::error::Result;
use crate::ttl::{DefaultTtl, OwnTtl};
use crate::upstream::{Ask, CollectionRules};
use crate::value::{Doc, DocBuf, Millis, Type, is_true};
use crate::wire::Request;

/// The filter of documents that inherit a default and have not ended.
#[derive(Clone, Copy)]
pub struct Guess<'a> {
    rules: &'a CollectionRules,
    /// The last moment of writing whose documents have ended. `None` if those that inherit never end.
    cutoff: Option<i64>,
    now: Millis,
}

// === impl Guess ===

impl<'a> Guess<'a> {
    /// Returns the guess for a command, if one is worth it.
    fn new(command: Doc<'_>, rules: &'a CollectionRules, now: Millis) -> Option<Self> {
        let cutoff = match rules.default {
            DefaultTtl::Off => return None,
            DefaultTtl::Never => None,
            DefaultTtl::Seconds(seconds) => Some(before(now, seconds)),
        };
        let is_worth_it = rules.guesses.is_trusted() && rules.former.is_none();
        (is_worth_it && !in_transaction(command)).then_some(Self { rules, cutoff, now })
    }

    /// Returns the guess for a command with this filter, if one is worth it. It must not be an upsert.
    pub fn of_filter(
        command: Doc<'_>,
        filter: Doc<'_>,
        rules: &'a CollectionRules,
        now: Millis,
    ) -> Option<Self> {
        Self::new(command, rules, now).filter(|_| is_by_id(filter))
    }

    /// Returns the guess for a command with these statements, if one is worth it.
    fn of_statements(
        command: Doc<'_>,
        statements: &[Doc<'_>],
        rules: &'a CollectionRules,
        now: Millis,
    ) -> Option<Self> {
        let guess = Self::new(command, rules, now)?;
        let is_single = |statement: &Doc<'_>| {
            let is_of_one = is_by_id(doc_or_empty(*statement, "q"));
            is_of_one && !is_true(statement.get("upsert")) && !is_true(statement.get("multi"))
        };
        let may_repeat = match statements {
            [] => false,
            [_] => true,
            // What was missed comes after all others in the end. That is no matter if no document occurs twice.
            several => {
                command.has("txnNumber") && (!is_ordered(command) || have_distinct_ids(several))
            }
        };
        (may_repeat && statements.iter().all(is_single)).then_some(guess)
    }

    /// Returns the client's filter, narrowed to a document that inherits the default and has not ended.
    pub fn alive(self, filter: Doc<'_>) -> DocBuf {
        DocBuf::build_sized(filter.bytes().len() + 96, |out| {
            out.put_body(filter.body()).put_null(OwnTtl::FIELD);
            if let Some(cutoff) = self.cutoff {
                stamp_is("$gt", cutoff, out);
            }
            if !self.rules.dates.is_empty() {
                let mut ways = out.array("$nor");
                put_date_ways(self.rules, self.now, &mut ways);
                ways.end();
            }
        })
    }
}

/// Returns whether statements are certainly about different documents. Values that can be equal in other ways than byte by
/// byte, such as strings under a collation, are not compared.
fn have_distinct_ids(statements: &[Doc<'_>]) -> bool {
    let mut seen = HashSet::with_capacity(statements.len());
    statements.iter().all(|statement| {
        let id = doc_or_empty(*statement, "q").get("_id");
        let key = match id.ty() {
            Type::Int32 | Type::Int64 => id.as_i64().map(Key::Number),
            ty @ (Type::ObjectId | Type::Binary | Type::Date) => Some(Key::Bytes(ty, id.data())),
            _ => None,
        };
        key.is_some_and(|key| seen.insert(key))
    })
}

#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Number(i64),
    Bytes(Type, &'a [u8]),
}

/// What came of a guess.
pub enum Guessed {
    /// The reply tells what became of the command.
    Reply(Bytes),
    /// Some document does not inherit the default, or is not there, or a duplicate key may be held by an ended document. This
    /// is the reply.
    Missed(Bytes),
    /// Nothing was sent.
    Nothing,
}

/// Sends the statements of a command for documents that inherit the default. `rewrite` returns a statement as it is sent.
pub async fn send<A: Ask>(
    ask: &mut A,
    request: &Request,
    (name, statements): (&'static str, &[Doc<'_>]),
    target: &RuledCollection<'_>,
    moment: Moment,
    rewrite: impl Fn(Doc<'_>, Guess<'_>) -> Result<DocBuf>,
) -> Result<Guessed, Stop> {
    let command = request.body();
    let Some(guess) = Guess::of_statements(command, statements, target.rules, moment.now) else {
        return Ok(Guessed::Nothing);
    };
    let mut sent = Vec::new();
    for &statement in statements {
        // A statement that is refused is answered with the others.
        let Ok(changed) = rewrite(statement, guess) else {
            return Ok(Guessed::Nothing);
        };
        match statements {
            [_] => sent = changed.into_bytes(),
            _ => sent.extend_from_slice(changed.bytes()),
        }
    }
    let reply = ask.ask(part(request, name, sent, &[])).await?;
    let is_settled = is_settled(Doc::new(&reply), statements.len(), is_ordered(command));
    Ok(Guessed::of(reply, is_settled, target.rules))
}

/// Returns whether each statement has matched its document or has failed. A duplicate key is no failure yet.
fn is_settled(reply: Doc<'_>, statements: usize, ordered: bool) -> bool {
    if !is_ok(reply) {
        return !is_duplicate(reply);
    }
    let errors = errors_of(reply);
    let reached = match errors.first() {
        Some((at, _)) if ordered => at + 1,
        _ => statements,
    };
    let duplicate = errors.iter().any(|(_, error)| is_duplicate(*error));
    !duplicate && usize::try_from(matched(reply)) == Ok(reached.saturating_sub(errors.len()))
}

// === impl Guessed ===

impl Guessed {
    fn of(reply: Bytes, is_settled: bool, rules: &CollectionRules) -> Self {
        if !is_settled {
            return Self::Missed(reply);
        }
        rules.guesses.right();
        Self::Reply(reply)
    }

    /// Judges the reply to a guess of findAndModify.
    pub fn of_one(reply: Bytes, rules: &CollectionRules) -> Self {
        let is_settled = is_settled(Doc::new(&reply), 1, true);
        Self::of(reply, is_settled, rules)
    }

    /// Takes the reply to the command with the whole predicate, and returns what the client sees of it.
    pub fn then(self, reply: Bytes, rules: &CollectionRules) -> Bytes {
        let Self::Missed(first) = self else {
            return reply;
        };
        let (first, answer) = (Doc::new(&first), Doc::new(&reply));
        let before = matched(first);
        if matched(answer) > before {
            rules.guesses.wrong();
        }
        if before == 0 {
            return reply;
        }
        // The client has not retried what the guess has executed.
        let retried = ("retriedStmtIds", first.get("retriedStmtIds"));
        with_fields(answer, &[retried]).into_bytes().into()
    }
}

/// Returns how many documents a write has matched.
fn matched(reply: Doc<'_>) -> i64 {
    let counts = match reply.get("lastErrorObject").as_doc() {
        Some(of_find_and_modify) => of_find_and_modify,
        None => reply,
    };
    let n = counts.get("n").as_num().map(|n| n.to_i64_saturating());
    n.unwrap_or_default()
}
