//! Which commands may be sent a second time, and what a client is told if that does not help.
//!
//! Drivers retry only once, and at once. An election takes seconds. So Sundown does what a router does: it waits for the new
//! primary and sends the command again, where that cannot do any harm.

use bson::doc;

use crate::command::{Access, Flags, find};
use crate::error::{Code, Error};
use crate::value::{Doc, DocBuf};
use crate::wire::Request;

/// What a failure means for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryRule {
    /// A read, or the end of a transaction: the cluster may run it twice.
    Repeatable,
    /// A write with a transaction number: the cluster runs it once, however often it is sent.
    Numbered,
    /// A statement of a transaction. If it is lost, the transaction is lost.
    InTransaction,
    /// The commit of a transaction. It may be repeated; if it stays lost, nobody knows whether it has happened.
    Commit,
    /// Anything else: nobody knows whether it was run.
    Unrepeatable,
}

/// What a reply says about the node that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The node is not the primary: it has not run the command.
    NotPrimary,
    /// The node stopped being the primary, or shuts down, in the middle of the command.
    Interrupted,
}

/// Errors of a node that is not the primary and has done nothing.
const NOT_PRIMARY: [i32; 3] = [10107, 13435, 10058];
/// Errors of a node that has perhaps done something.
const INTERRUPTED: [i32; 5] = [11600, 11602, 13436, 189, 91];

/// Returns whether a new primary may answer what has failed with this error.
pub fn is_of_failover(error: &Error) -> bool {
    let code = error.code().number();
    error.code() == Code::HostUnreachable
        || NOT_PRIMARY.contains(&code)
        || INTERRUPTED.contains(&code)
}

// === impl RetryRule ===

impl RetryRule {
    pub fn of(request: &Request) -> Self {
        let body = request.body();
        let Some(name) = body.first() else {
            return Self::Unrepeatable;
        };
        let Some(command) = find(name.name_bytes()) else {
            return Self::Unrepeatable;
        };
        if !body.get("autocommit").is_missing() {
            return match command.name {
                "commitTransaction" => Self::Commit,
                "abortTransaction" => Self::Repeatable,
                _ => Self::InTransaction,
            };
        }
        if !body.get("txnNumber").is_missing() && command.facts.flags.has(Flags::RETRYABLE) {
            return Self::Numbered;
        }
        match (command.facts.access, command.name) {
            // A cursor is on the node that has gone. What it has returned is not returned again.
            (_, "getMore" | "killCursors") => Self::Unrepeatable,
            (_, "aggregate") if writes(body) => Self::Unrepeatable,
            (_, "explain") => Self::Unrepeatable,
            (Access::Read, _) => Self::Repeatable,
            (_, "listCollections" | "listDatabases" | "listIndexes" | "buildInfo") => {
                Self::Repeatable
            }
            _ => Self::Unrepeatable,
        }
    }

    /// Returns whether the command may be sent again after its connection broke.
    pub fn after_loss(self) -> bool {
        matches!(self, Self::Repeatable | Self::Numbered | Self::Commit)
    }

    /// Returns whether the command may be sent again after this refusal. In a transaction nothing else can be done: the
    /// new primary does not know the transaction, and the driver starts it again.
    pub fn after(self, refusal: Refusal) -> bool {
        match refusal {
            Refusal::NotPrimary => self != Self::InTransaction,
            Refusal::Interrupted => self.after_loss(),
        }
    }

    /// Returns the error for a client whose command was lost.
    pub fn lost(self, problem: impl std::fmt::Display) -> Error {
        self.label(Error::new(
            Code::HostUnreachable,
            format!("the connection to the upstream cluster broke :: caused by :: {problem}"),
        ))
    }

    /// Adds the labels by which a router tells drivers what to do.
    pub fn label(self, error: Error) -> Error {
        let labels: &[&str] = match self {
            Self::Numbered => &["RetryableWriteError"],
            Self::InTransaction => &["TransientTransactionError"],
            Self::Commit => &["RetryableWriteError", "UnknownTransactionCommitResult"],
            Self::Repeatable | Self::Unrepeatable => return error,
        };
        error.with_details(DocBuf::from(doc! {"errorLabels": labels.to_vec()}).into_bytes())
    }
}

/// Returns whether a pipeline ends in a stage that writes.
fn writes(aggregate: Doc<'_>) -> bool {
    let stages = aggregate.get("pipeline").as_array();
    let last = stages.and_then(|stages| stages.iter().last());
    let name = last.and_then(|last| last.value.as_doc()?.first());
    name.is_some_and(|name| matches!(name.name(), "$out" | "$merge"))
}

// === impl Refusal ===

impl Refusal {
    /// Returns what the reply says, if it is such an error.
    #[inline]
    pub fn of(reply: Doc<'_>) -> Option<Self> {
        let ok = reply.get("ok");
        if ok.as_f64() == Some(1.0) {
            return None;
        }
        let code = reply.get("code").as_i32()?;
        if NOT_PRIMARY.contains(&code) {
            return Some(Self::NotPrimary);
        }
        INTERRUPTED.contains(&code).then_some(Self::Interrupted)
    }
}

#[cfg(test)]
mod tests {
    use bson::Document;

    use super::*;

    fn of(command: Document) -> RetryRule {
        RetryRule::of(&Request::new(command.to_vec().unwrap()))
    }

    #[test]
    fn which_commands_may_be_repeated() {
        let rows = [
            (doc! {"find": "c"}, RetryRule::Repeatable),
            (doc! {"count": "c"}, RetryRule::Repeatable),
            (
                doc! {"aggregate": "c", "pipeline": [{"$match": {}}]},
                RetryRule::Repeatable,
            ),
            (
                doc! {"aggregate": "c", "pipeline": []},
                RetryRule::Repeatable,
            ),
            (
                doc! {"aggregate": "c", "pipeline": [{"$out": "d"}]},
                RetryRule::Unrepeatable,
            ),
            (
                doc! {"aggregate": "c", "pipeline": [{"$match": {}}, {"$merge": "d"}]},
                RetryRule::Unrepeatable,
            ),
            (
                doc! {"getMore": 5_i64, "collection": "c"},
                RetryRule::Unrepeatable,
            ),
            (doc! {"insert": "c"}, RetryRule::Unrepeatable),
            (
                doc! {"insert": "c", "txnNumber": 1_i64},
                RetryRule::Numbered,
            ),
            (
                doc! {"findAndModify": "c", "txnNumber": 1_i64},
                RetryRule::Numbered,
            ),
            (
                doc! {"insert": "c", "txnNumber": 1_i64, "autocommit": false},
                RetryRule::InTransaction,
            ),
            (
                doc! {"find": "c", "txnNumber": 1_i64, "autocommit": false},
                RetryRule::InTransaction,
            ),
            (
                doc! {"commitTransaction": 1, "txnNumber": 1_i64, "autocommit": false},
                RetryRule::Commit,
            ),
            (
                doc! {"abortTransaction": 1, "txnNumber": 1_i64, "autocommit": false},
                RetryRule::Repeatable,
            ),
            (doc! {"create": "c"}, RetryRule::Unrepeatable),
            (doc! {"listIndexes": "c"}, RetryRule::Repeatable),
            (doc! {"nosuch": 1}, RetryRule::Unrepeatable),
            (doc! {}, RetryRule::Unrepeatable),
        ];
        for (command, retry) in rows {
            assert_eq!(of(command.clone()), retry, "{command}");
        }
    }

    #[test]
    fn replies_of_nodes_that_are_not_the_primary() {
        let rows = [
            (doc! {"ok": 1.0}, None),
            (doc! {"ok": 0.0, "code": 10107}, Some(Refusal::NotPrimary)),
            (doc! {"ok": 0.0, "code": 11602}, Some(Refusal::Interrupted)),
            (doc! {"ok": 0.0, "code": 91}, Some(Refusal::Interrupted)),
            (doc! {"ok": 0.0, "code": 11000}, None),
            (doc! {"ok": 0.0}, None),
        ];
        for (reply, refusal) in rows {
            let reply = DocBuf::from(reply);
            assert_eq!(Refusal::of(reply.as_doc()), refusal, "{reply:?}");
        }
    }
}
