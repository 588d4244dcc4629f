//! Turns a client's command into what the cluster is asked, and the cluster's reply into what the client sees.
//!
//! [`run()`] is the only entry. It looks up the rules of all collections that the command touches ([`namespaces()`]). If none
//! of them has rules, the request passes as it is. Otherwise the command's own file writes the command anew: filters get
//! the [`EndedPredicate`], writes get the [`WriteStamp`], rows of a reply pass [`Visibility`] once more and lose the hidden fields.
//! This module knows no connection ([`Ask`](super::Ask)), no clock ([`Moment`]) and no place where rules come from
//! ([`Rulebook`]).

mod aggregate;
mod batch;
mod bulk_write;
mod carry;
mod change;
mod cursors;
mod cut;
mod delete;
mod error_text;
mod explain;
mod fields;
mod filter;
mod find;
mod find_and_modify;
mod get_more;
mod guess;
mod hint;
mod inner;
mod insert;
mod namespaces;
mod naming;
mod pipeline;
mod predicate;
mod reads;
mod rows;
mod rulebook;
mod run;
mod stamp;
mod takeover;
mod unfiltered;
mod update;
mod views;
mod visible;
mod whole;

#[cfg(test)]
mod tests;

pub use cursors::CursorRules;
pub use fields::{with_body, with_cursor, with_fields};
pub use get_more::{cursor_id, kill as kill_cursor};
pub use namespaces::{
    NamespacePair, check_by_name, check_database, namespaces, pipeline_namespaces, written,
};
pub use naming::{contains, root};
pub use predicate::EndedPredicate;
pub use rulebook::{Moment, Rulebook};
pub use run::{is_ok, run, run_on_one};
pub use stamp::WriteStamp;
pub use views::{ViewCursors, ViewReply, expand};
pub use visible::Visibility;
