//! What the commands that write share.
//!
//! A command reads the [`WriteOptions`] beside its statements. [`run`](run()) then runs the statements, at once or in steps.
//! [`each`] runs updates and deletes one by one, and [`add`](add()) inserts documents. [`Tally`] counts the results and
//! writes them into the reply. [`select`] parses what selects documents, also for commands that only read. How a document is
//! changed and stored is up to `engine`.

mod add;
mod each;
mod options;
mod repeats;
mod run;
mod select;
mod tally;
mod target;

pub(super) use add::{Added, add};
pub(super) use each::{RunningAction, Statement, StatementKind, Writing, only, run_each};
pub(super) use options::{MAX_STATEMENTS, Numbers, WriteOptions, check_statements};
pub(super) use repeats::Repeats;
pub(super) use run::{StatementRun, Statements, run};
pub(super) use select::{Selecting, hint};
pub(super) use tally::Tally;
pub(super) use target::{StatementNames, StatementSelector};

use options::only_statement;
