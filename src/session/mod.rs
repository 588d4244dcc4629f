//! State that outlives a single command: logical sessions, the outcomes of retryable writes, transactions, open cursors.
//!
//! A command with a session id and a transaction number checks its session out ([`Session::check_out`]), asks which of its
//! statements have run before ([`Retry::outcome`]) and records those that it runs ([`Retry::record`]). A command of a transaction
//! checks out the transaction instead ([`Session::join`]). A read that has rows
//! left stores its [`Source`] in [`Cursors`] until a getMore continues it. Unused sessions and cursors are removed: idle
//! times are counted in [`Idle`] minutes, so that a use need not read a clock. This module knows no command and no socket.

mod batch;
mod cursor_budget;
mod cursors;
mod id;
mod idle;
mod outcome_budget;
mod retry;
mod sessions;
mod source;
mod transaction;
mod transaction_counts;

pub use batch::ReplyBatch;
pub use cursors::{CursorId, CursorInfo, Cursors, OpenCursor};
pub use id::{NOBODY, SessionId};
pub use idle::Idle;
pub use retry::{Retry, StatementOutcome};
pub use sessions::{Busy, SESSION_MINUTES, Session, Sessions};
pub use source::{Fill, Source};
pub use transaction::{InTransaction, Joining, TransactionInfo, TransactionStart, too_old};
pub use transaction_counts::TransactionCounts;
