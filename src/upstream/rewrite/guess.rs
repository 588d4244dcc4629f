//! Writes to single documents by their `_id`: a first try that costs the cluster little.
//!
//! Some updates need no predicate at all (`unfiltered.rs`). For the others there is a guess. The expression of the
//! [`EndedPredicate`](super::EndedPredicate) costs the cluster as much as the write itself. But nearly every document of a
//! collection with a default inherits it, and then the stamp tells all. So the command is sent for such documents first. If it
//! misses one, it is sent again with the whole predicate.
//!
//! Both may have the same transaction number: a statement that matches nothing leaves no trace in the history of its session,
//! and one that was executed is answered from the history whatever its filter says (seen on MongoDB 6.0.5). So a command of
//! several statements is guessed only if it has such a number. Within a transaction nothing is guessed.

use std::collections::HashSet;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use super::Moment;
use super::batch::{errors_of, is_duplicate, is_ordered, part};
use super::change::OwnTtlCheck;
use super::fields::{doc_or_empty, with_body, with_fields};
use super::find::is_by_id;
use super::predicate::{before, put_date_ways, stamp_is};
use super::run::{RuledCollection, Stop, is_ok};
use super::takeover::in_transaction;
use super::unfiltered::UpdateById;
use crate::error::{Code, Result};
use crate::ttl::{DefaultTtl, OwnTtl};
use crate::upstream::retry::Refusal;
use crate::upstream::{Ask, CollectionRules, Term};
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
    /// Returns the guess for a statement with this filter, if one is worth it. It must be no upsert.
    pub fn of_filter(filter: Doc<'_>, rules: &'a CollectionRules, now: Millis) -> Option<Self> {
        let cutoff = match rules.default {
            DefaultTtl::Off => return None,
            DefaultTtl::Never => None,
            DefaultTtl::Seconds(seconds) => Some(before(now, seconds)),
        };
        let is_worth_it = rules.guesses.is_trusted() && rules.former.is_none() && is_by_id(filter);
        is_worth_it.then_some(Self { rules, cutoff, now })
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
            Type::Int32 | Type::Int64 => {
                let number = id.as_num().and_then(|number| number.to_i64_exact());
                number.map(Key::Number)
            }
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

/// How a statement is sent first.
#[derive(Clone, Copy)]
pub enum FirstTry<'a> {
    /// For a document that inherits the default.
    Guess(Guess<'a>),
    /// Without predicate.
    Unfiltered,
}

/// What came of a first try.
pub enum Guessed {
    /// The reply tells what became of the command.
    Reply(Bytes),
    /// Some document does not inherit the default, or is not there, or a duplicate key may be held by an ended document. This
    /// is the reply.
    Missed(Bytes),
    /// Some statements have failed without predicate. All others that the cluster came to are through, and must not be sent
    /// again: the command has no transaction number. This is the reply.
    Begun(Bytes),
    /// Nothing was sent.
    Nothing,
}

/// The statements of a command, and how each is sent first.
struct Plan<'a, 's> {
    rules: &'a CollectionRules,
    now: Millis,
    term: Term,
    ordered: bool,
    /// It is a `findAndModify`, which fails as a whole if its document cannot be changed.
    fails_whole: bool,
    /// It has several statements and no transaction number, so it goes on with those that have failed.
    goes_on: bool,
    tries: SmallVec<[(FirstTry<'a>, Option<UpdateById<'s>>); 1]>,
}

/// Sends the statements of a command in a way that costs little. `rewrite` returns a statement as it is sent.
pub async fn send<A: Ask>(
    ask: &mut A,
    request: &Request,
    (name, statements): (&'static str, &[Doc<'_>]),
    target: &RuledCollection<'_>,
    moment: Moment,
    rewrite: impl Fn(Doc<'_>, FirstTry<'_>) -> Result<DocBuf>,
) -> Result<Guessed, Stop> {
    let command = request.body();
    let term = ask.term();
    let Some(plan) = Plan::new(command, statements, target.rules, (moment.now, term)) else {
        return Ok(Guessed::Nothing);
    };
    let mut sent = Vec::new();
    for (&statement, (first, _)) in statements.iter().zip(&plan.tries) {
        // A statement that is refused is answered with the others.
        let Ok(changed) = rewrite(statement, *first) else {
            return Ok(Guessed::Nothing);
        };
        match statements {
            [_] => sent = changed.into_bytes(),
            _ => sent.extend_from_slice(changed.bytes()),
        }
    }
    plan.run(ask, part(request, name, sent, &[])).await
}

/// Sends a `findAndModify` in a way that costs little. `rewrite` returns the command as it is sent, or nothing if it cannot be.
pub async fn send_one<A: Ask>(
    ask: &mut A,
    request: &Request,
    target: &RuledCollection<'_>,
    moment: Moment,
    rewrite: impl FnOnce(FirstTry<'_>) -> Result<Option<DocBuf>>,
) -> Result<Guessed, Stop> {
    let command = request.body();
    let term = ask.term();
    let Some(plan) = Plan::of_one(command, target.rules, (moment.now, term)) else {
        return Ok(Guessed::Nothing);
    };
    let Some((first, _)) = plan.tries.first() else {
        return Ok(Guessed::Nothing);
    };
    match rewrite(*first)? {
        Some(body) => plan.run(ask, with_body(request, body)).await,
        None => Ok(Guessed::Nothing),
    }
}

// === impl FirstTry ===

impl FirstTry<'_> {
    fn is_unfiltered(self) -> bool {
        matches!(self, Self::Unfiltered)
    }

    /// Returns the client's filter as it is sent.
    pub fn narrow(self, filter: Doc<'_>) -> DocBuf {
        match self {
            Self::Guess(guess) => guess.alive(filter),
            Self::Unfiltered => DocBuf::from(filter),
        }
    }

    pub fn check(self) -> OwnTtlCheck {
        match self {
            Self::Guess(_) => OwnTtlCheck::None,
            Self::Unfiltered => OwnTtlCheck::PullAll,
        }
    }
}

// === impl Plan ===

impl<'a, 's> Plan<'a, 's> {
    /// Returns the plan for a command with these statements, if one is worth it.
    fn new(
        command: Doc<'_>,
        statements: &[Doc<'s>],
        rules: &'a CollectionRules,
        (now, term): (Millis, Term),
    ) -> Option<Self> {
        if rules.default == DefaultTtl::Off || in_transaction(command) {
            return None;
        }
        let ordered = is_ordered(command);
        let is_numbered = command.has("txnNumber");
        let may_repeat = match statements {
            [] => false,
            [_] => true,
            // What was missed comes after all others in the end. That is no matter if no document occurs twice.
            several if is_numbered => !ordered || have_distinct_ids(several),
            _ => true,
        };
        let first = |statement: &Doc<'s>| {
            let update = UpdateById::of_statement(*statement);
            let known = update.is_some_and(|update| update.needs_no_predicate(rules, now, term));
            if known {
                return Some((FirstTry::Unfiltered, update));
            }
            if statements.len() > 1 && !is_numbered {
                // The reply would not tell which statements were missed.
                return None;
            }
            let is_single = !is_true(statement.get("upsert")) && !is_true(statement.get("multi"));
            let guess = Guess::of_filter(doc_or_empty(*statement, "q"), rules, now);
            let guess = guess.filter(|_| is_single);
            guess.map(|guess| (FirstTry::Guess(guess), update))
        };
        let tries = may_repeat.then(|| statements.iter().map(first).collect());
        Some(Self {
            rules,
            now,
            term,
            ordered,
            fails_whole: false,
            goes_on: statements.len() > 1 && !is_numbered,
            tries: tries.flatten()?,
        })
    }

    /// Returns the plan for a `findAndModify`, if one is worth it.
    fn of_one(
        command: Doc<'s>,
        rules: &'a CollectionRules,
        (now, term): (Millis, Term),
    ) -> Option<Self> {
        if rules.default == DefaultTtl::Off || in_transaction(command) {
            return None;
        }
        let update = UpdateById::of_find_and_modify(command);
        let known = update.is_some_and(|update| update.needs_no_predicate(rules, now, term));
        let first = match known {
            true => FirstTry::Unfiltered,
            false if is_true(command.get("upsert")) => return None,
            false => FirstTry::Guess(Guess::of_filter(
                doc_or_empty(command, "query"),
                rules,
                now,
            )?),
        };
        Some(Self {
            rules,
            now,
            term,
            ordered: true,
            fails_whole: true,
            goes_on: false,
            tries: smallvec![(first, update)],
        })
    }

    async fn run<A: Ask>(&self, ask: &mut A, request: Request) -> Result<Guessed, Stop> {
        let unfiltered = self.tries.iter();
        let unfiltered = unfiltered
            .filter(|(first, _)| first.is_unfiltered())
            .count();
        let depends = unfiltered > 0 && self.rules.default != DefaultTtl::Never;
        let reply = match depends {
            false => ask.ask(request).await?,
            true => match ask.ask_within(self.term, request).await? {
                Some(reply) => reply,
                // What was seen of the documents may be lost.
                None => return Ok(Guessed::Nothing),
            },
        };
        let answer = Doc::new(&reply);
        let is_settled = self.is_settled(answer);
        if let Some(writes) = self.rules.writes.as_ref().filter(|_| unfiltered > 0) {
            writes.count_unfiltered(unfiltered, !is_settled);
        }
        if !is_settled {
            self.forget_failed(answer);
            return Ok(match self.goes_on && is_ok(answer) {
                true => Guessed::Begun(reply),
                false => Guessed::Missed(reply),
            });
        }
        self.rules.guesses.right();
        self.remember(answer);
        Ok(Guessed::Reply(reply))
    }

    /// Returns whether each statement has matched its document or has failed. A duplicate key is no failure yet. Nor is an
    /// error without predicate: the document may have ended.
    fn is_settled(&self, reply: Doc<'_>) -> bool {
        let is_unfiltered = |at: usize| {
            let first = self.tries.get(at);
            first.is_some_and(|(first, _)| first.is_unfiltered())
        };
        if !is_ok(reply) {
            let refused = self.fails_whole && is_unfiltered(0) && !is_interrupted(reply);
            return !is_duplicate(reply) && !refused;
        }
        let errors = errors_of(reply);
        let open = |(at, error): &(usize, Doc<'_>)| is_duplicate(*error) || is_unfiltered(*at);
        if errors.iter().any(open) {
            return false;
        }
        let reached = match errors.first() {
            Some((at, _)) if self.ordered => at + 1,
            _ => self.tries.len(),
        };
        // What is not found without predicate is not there.
        let all = (0..reached).all(is_unfiltered);
        all || usize::try_from(matched(reply)) == Ok(reached.saturating_sub(errors.len()))
    }

    /// Forgets the documents whose updates have failed without predicate.
    fn forget_failed(&self, reply: Doc<'_>) {
        let mut failed: Vec<usize> = errors_of(reply).iter().map(|(at, _)| *at).collect();
        if self.fails_whole && !is_ok(reply) {
            failed.push(0);
        }
        let tries = failed.into_iter().filter_map(|at| self.tries.get(at));
        for update in tries.filter_map(|(_, update)| *update) {
            update.forget(self.rules);
        }
    }

    /// Remembers the documents of a reply, if each was found. A retried statement was executed some time ago.
    fn remember(&self, reply: Doc<'_>) {
        let is_retried = reply.has("retriedStmtIds") || reply.has("retriedStmtId");
        let is_whole = usize::try_from(matched(reply)) == Ok(self.tries.len());
        if is_retried || !is_whole || !is_ok(reply) {
            return;
        }
        for update in self.tries.iter().filter_map(|(_, update)| *update) {
            update.remember(self.rules, self.now, self.term);
        }
    }
}

/// Returns whether a command was ended from outside: by its time limit, by an administrator, or because the node stops. Then
/// it is not sent again, and perhaps it was executed.
fn is_interrupted(reply: Doc<'_>) -> bool {
    let code = reply.get("code").as_i32().map(Code::numbered);
    let is_limit = |code| {
        matches!(
            code,
            Code::MaxTimeMSExpired | Code::Interrupted | Code::ExceededTimeLimit
        )
    };
    code.is_some_and(is_limit) || Refusal::of(reply).is_some()
}

// === impl Guessed ===

impl Guessed {
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
