//! What the commands that write share.
//!
//! [`Options`] are what stands beside the statements, [`Tally`] is what came of them. [`each`] runs the statements of
//! update and delete one after the other, [`add`](add()) puts documents in; [`run`](run()) does either at once or in
//! steps. [`select`] reads which documents are meant, for commands that only read, too.

mod add;
mod each;
mod options;
mod repeats;
mod run;
mod select;
mod tally;
mod target;

pub(super) use add::add;
pub(super) use each::{Action, Statement, StatementKind, Writing, only, run_each};
pub(super) use options::{MAX_STATEMENTS, Numbers, Options, check_statements};
pub(super) use repeats::Repeats;
pub(super) use run::{StatementRun, Statements, run};
pub(super) use select::{Selecting, check_upsert, collation, hint};
pub(super) use tally::Tally;
pub(super) use target::{Names, Target};

use options::only_statement;
