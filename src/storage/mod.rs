//! Documents at rest, in memory.
//!
//! [`Catalog`] finds a [`Collection`] by its name. A collection keeps documents as bytes in [`segment`]s by
//! [`RecordId`] (natural order is insertion order), finds them by `_id` through a hash map and by other fields through
//! [`index`]es. One lock guards it all; it is taken by [`Collection::read`] and [`Collection::write`], which hand a
//! [`View`] or a [`Writer`] to a closure, so no guard leaves this room. Both apply the rule of [`ttl`]: an ended
//! document cannot be seen through either. [`DateRuleMigration`] prepares a change of the rules that go by dates. Storage
//! answers with facts ([`Refused`]), knows no command and no query language.

mod by_id;
mod catalog;
mod collection;
mod contents;
mod date_ends;
mod dates;
mod idmap;
pub mod index;
mod indexing;
mod namespace;
mod options;
mod order;
mod read_point;
mod reap;
mod record;
mod rewind;
mod rules;
mod segment;
mod segments;
mod stored;
pub mod ttl;
mod view;
mod writer;

pub use catalog::{Catalog, CreateError, Damaged, OtherCase, RenameError, free};
pub use collection::{Collection, Dropped};
pub use dates::{DateRuleChange, DateRuleMigration};
pub use namespace::Namespace;
pub use options::{Cap, IndexingMode, Options, SizeLimit, TsIndex};
pub use read_point::ReadPoint;
pub use reap::Slice;
pub use record::RecordId;
pub use rules::{IndexChange, IndexSelection};
pub use stored::{Stored, Totals};
pub use view::View;
pub use writer::{New, NewTtl, Refused, UniqueIndex, Writer, Written};
