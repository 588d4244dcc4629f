//! Documents at rest, in memory.
//!
//! [`Catalog`] finds a [`Collection`] by its name. A collection keeps documents as bytes in [`segment`]s by
//! [`RecordId`] (natural order is insertion order), finds them by `_id` through a hash map and by other fields through
//! [`index`]es. One lock guards it all; it is taken by [`Collection::read`] and [`Collection::write`], which hand a
//! [`View`] or a [`Writer`] to a closure, so no guard leaves this room. Both apply the rule of [`crate::ttl`]: an ended
//! document cannot be seen through either. What documents live by is changed through [`Rules`], which only
//! [`Collection::drain_then`] and [`Catalog::create`] hand out; [`DateRuleMigration`] prepares a change of the rules that go by
//! dates. Storage answers with facts ([`Refused`]), knows no command and no query language.
//!
//! # The order of locks
//!
//! A lock may be taken while those above it are held, never the other way round. None is held across an await.
//!
//! | lock | guards | held for |
//! |---|---|---|
//! | `Clock::moving` | the clock while it is moved, and who is told | a move; going back, all of it |
//! | `Catalog::changing` | which collections there are | a create, drop or rename |
//! | `Collection::state` | all that a collection holds and how it is set up | one slice or one document |
//! | a shard of `Catalog::collections` | the way from a name to its collection | a look-up |
//! | a shard of `IdMap` | the way from an `_id` to its record; only under `Collection::state` | a look-up |
//!
//! - One collection's lock at a time. The exception is `Catalog::place`: under `changing` it holds the collection that gives way
//!   and takes the one that is renamed, and both of these before the shards of their names.
//! - `Catalog::create` sets a new collection up while it holds the shard of its name: nobody can have found that collection.
//!   Everybody else lets go of the shard before a collection's lock is taken (`Catalog::get`, `Catalog::each`).
//! - Closures run under the lock: what [`Collection::read`], [`Collection::write`] and `Sources::find_equal` are given must not
//!   come back to storage. A reader that holds a collection for longer than a command asks whether it was dropped.
//! - Whoever waits for `state` or `changing` for longer than a few milliseconds lets others have the worker
//!   ([`crate::aside::uncut`]). Keys for an index are made under the exclusive lock and may do so as well.
//! - A [`Signal`](crate::wait::Signal) is given under `state`; waking somebody takes no lock of ours.
//!
//! Apart from these, and never taken together with them: in `session` a shard of `Sessions::known`, then `Session::state`, then
//! `OutcomeBudget::kept`; a shard of `Cursors::open`, then the source in it; in `auth` a connection's `Standing::login`, then
//! `Users::all`. The remaining locks (fail points, parameters, budgets, TLS) are held for a look or a change alone.

mod by_id;
mod catalog;
mod collection;
mod contents;
pub mod expiry;
mod idmap;
pub mod index;
mod indexing;
mod namespace;
mod options;
mod order;
mod read_point;
mod record;
mod rules;
mod segment;
mod segments;
mod stored;
mod view;
mod writer;

pub use catalog::{Catalog, CreateError, Damaged, OtherCase, RenameError, free};
pub use collection::{Collection, Dropped};
pub use expiry::{DateRuleChange, DateRuleMigration, Slice};
pub use namespace::Namespace;
pub use options::{Cap, Options, SizeLimit};
pub use order::IdOrderBuild;
pub use read_point::ReadPoint;
pub use record::RecordId;
pub use rules::{IndexChange, IndexSelection, Rules};
pub use stored::{Stored, Totals};
pub use view::View;
pub use writer::{Before, New, NewTtl, Refused, UniqueIndex, Writer, Written};
