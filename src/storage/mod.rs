//! The documents of all collections, in memory.
//!
//! A [`Catalog`] finds a [`Collection`] by name. A collection keeps its documents as bytes in [`segment`]s, ordered by
//! [`RecordId`] (the natural order is the insertion order). A hash map finds a document by `_id`, and [`index`]es find
//! documents by other fields. One lock guards all of this. [`Collection::read`] and [`Collection::write`] acquire it and
//! pass a [`View`] or a [`Writer`] to a closure, so no lock guard leaves this module. Both apply the rule of
//! [`crate::ttl`]: neither shows an expired document. Only [`Rules`] can change the TTL settings of a collection, and only
//! [`Collection::drain_then`] and [`Catalog::create`] hand one out. [`DateRuleMigration`] prepares a change of TTL indexes
//! on dates. Storage answers with facts ([`Refused`]). It knows no command and no query language.
//!
//! # The order of locks
//!
//! A thread may acquire a lock while it holds locks above it in this table, never the other way round. No lock is held
//! across an await.
//!
//! | lock | guards | held for |
//! |---|---|---|
//! | `Clock::moving` | the clock while it is moved, and the list of its watchers | a move; for a step back, the whole step |
//! | `ExpiryEvents::telling` | the order in which ends of documents are told, with `--expiry-events instant` | all ends that have come |
//! | `Catalog::changing` | which collections exist | a create, drop or rename |
//! | `Collection::state` | the contents and the settings of a collection | one slice or one document |
//! | a shard of `Catalog::collections` | the map from names to collections | a lookup |
//! | a shard of `IdMap` | the map from an `_id` to its record; only under `Collection::state` | a lookup |
//! | `ChangeLog::kept` | the log of changes, and the order of their times | an entry, or a look at some hundred |
//! | `Followers::scopes` | who waits for entries of the log | a lookup |
//! | `Catalog::uncommitted` | the collections that open transactions have created | a lookup |
//! | `Snapshots::former`, then `Snapshots::times`; `Transactions::joined`; `NamespaceLocks::held` | which snapshots and transactions are open, and which names they use | a lookup |
//!
//! - A thread holds the lock of one collection at a time, with two exceptions. `Catalog::place` locks, under `changing`, the
//!   collection that is replaced, then the one that is renamed, and both before the shards of their names. The commit of a
//!   transaction that wrote to several collections locks all of them, in the order of their UUIDs and also under `changing`.
//! - `Catalog::create` sets up a new collection while it holds the shard of its name. This is safe because no other thread
//!   can find that collection yet. All other code releases the shard before it locks a collection (`Catalog::get`,
//!   `Catalog::each`).
//! - Closures run under the lock. A closure passed to [`Collection::read`], [`Collection::write`] or `Sources::find_equal`
//!   must not call storage again. A reader that keeps a collection for longer than one command checks whether it was
//!   dropped.
//! - A thread that waits for `state` or `changing` for more than a few milliseconds hands its worker to other tasks
//!   ([`crate::interrupt::run_blocking`]). The code that computes index keys under the exclusive lock may do so too.
//! - A schema change waits for the transactions that use its collections before it acquires any of these locks, and a statement of
//!   a transaction does so before it reads (`namespace_locks`). Both waits are futures, under no lock. A transaction ends without
//!   one, so whatever waits for it goes on.
//! - A [`Signal`](crate::wait::Signal) is given under `state`, and the followers of the log are woken there, too. Waking a listener acquires none of these locks.
//!
//! Some locks are never held together with these. In `session`: a shard of `Sessions::known`, then `Session::state`, then
//! `OutcomeBudget::kept`; and a shard of `Cursors::open`, then the source in it. In `auth`: a connection's
//! `LoginState::login`, then `Users::all`. The remaining locks (fail points, parameters, budgets, TLS) are held only to read
//! or change one value.

mod buffered;
mod by_id;
mod catalog;
mod change_log;
mod collection;
mod contents;
pub mod expiry;
mod idmap;
pub mod index;
mod indexing;
mod logical_clock;
mod namespace;
mod namespace_locks;
mod oplog;
mod options;
mod order;
mod read_point;
mod record;
mod rules;
mod segment;
mod segments;
mod shared;
mod snapshots;
mod stored;
mod transaction;
mod versions;
mod view;
mod writer;

pub use catalog::{Catalog, CreateError, Damaged, OtherCase, RenameError, Unreadable, free};
pub use change_log::{
    ChangeLog, HistoryLost, Images, LogEntry, LogLimits, LogOp, LogPosition, LogScope, LogStart,
    LogSubject, LogTransaction, NoDelta, UpdateDelta,
};
pub use collection::{Collection, Dropped};
pub use expiry::{DateRuleChange, DateRuleMigration, Slice};
pub use logical_clock::LogicalClock;
pub use namespace::Namespace;
pub use namespace_locks::{LockScope, SchemaLock};
pub use options::{Cap, CollectionOptions, SizeLimit};
pub use order::IdOrderBuild;
pub use read_point::ReadPoint;
pub use record::RecordId;
pub use rules::{IndexChange, IndexSelection, Rules};
pub use shared::Shared;
pub use snapshots::Snapshot;
pub use stored::{Stored, Totals};
pub use transaction::{CommitConflict, NotNew, Transaction};
pub use versions::TransactionId;
pub use view::View;
pub use writer::{Before, New, NewTtl, Refused, UniqueIndex, Writer, Written};
