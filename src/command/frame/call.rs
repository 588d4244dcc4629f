//! A call of a command: its arguments, its client, and its time.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dispatch::LockWait;
use super::generic::Generic;
use super::guard::Rights;
use super::{Client, Command, Context};
use crate::args::Arg;
use crate::clock::monotonic;
use crate::effort::Effort;
use crate::engine::{ReadPoint, Snapshot};
use crate::error::{Code, Error, Result};
use crate::names::check_collection;
use crate::query::{Scope, Vars};
use crate::session::{InTransaction, Retry, SessionId};
use crate::value::{Doc, Elem, Iter, Millis, ValueRef};
use crate::wire::{Request, Sequence};

/// A command's view of its request. The framework has checked the generic arguments; [`Call::args`] holds the others.
pub struct Call<'a> {
    pub context: &'a Arc<Context>,
    pub client: &'a Arc<Client>,
    pub command: &'static Command,
    pub request: &'a Request,
    /// The instant at which this command happens.
    pub now: Millis,
    /// The time at which the command must end.
    pub deadline: Option<Instant>,
    /// The retryable write that this command is, if it is one. Work that continues the command takes it along.
    pub retry: Option<Retry>,
    /// The transaction that the command belongs to. Work that continues the command gets it from the framework.
    pub transaction: Option<InTransaction>,
    /// The snapshot that the command reads, outside a transaction.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The work done on documents. Work that continues the command keeps its own count
    /// ([`Task::effort`](super::Task::effort)).
    pub effort: Effort,
    /// The command is parsed and has begun to write. If it fails now, its write concern counts nevertheless.
    pub(in crate::command) has_begun_to_write: Cell<bool>,
    /// Set while this statement of a transaction waits for a schema change.
    pub(in crate::command) lock_wait: Option<Box<LockWait>>,
    /// What the sender of the command may do.
    pub(in crate::command) rights: Rights<'a>,
    pub(in crate::command) generic: Generic<'a>,
    /// The command's own fields. Borrowed, because they are too large to be moved.
    pub(in crate::command) own: &'a [Elem<'a>],
}

// === impl Call ===

impl<'a> Call<'a> {
    /// Returns the point from which the command's reads start.
    pub fn read_point(&self) -> ReadPoint {
        let transaction = self.transaction.as_ref();
        let within = transaction.and_then(|transaction| transaction.read_point(self.now));
        match (within, &self.snapshot) {
            (Some(at), _) => at,
            (None, Some(snapshot)) => ReadPoint::of(snapshot, self.now),
            (None, None) => ReadPoint::at(self.now),
        }
    }

    pub fn database(&self) -> &'a str {
        self.generic.database
    }

    pub fn body(&self) -> Doc<'a> {
        self.request.body()
    }

    /// Iterates over the command's own fields, without the generic ones. The field that names the command comes first.
    #[inline]
    pub fn args(&self) -> impl Iterator<Item = Arg<'a>> {
        let path = self.command.name;
        self.own.iter().map(move |elem| Arg::new(path, *elem))
    }

    /// Returns the value of the field that names the command. As in MongoDB, a symbol is as good as a string.
    pub fn target(&self) -> ValueRef<'a> {
        let first = self.own.first();
        first.map_or(ValueRef::MISSING, |elem| elem.value.symbol_as_string())
    }

    /// Returns one of the command's own fields, for commands that read only one or two.
    pub fn arg(&self, name: &str) -> Option<Arg<'a>> {
        self.own
            .iter()
            .find(|elem| elem.name_bytes() == name.as_bytes())
            .map(|elem| Arg::new(self.command.name, *elem))
    }

    /// Refuses fields that the command does not have.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        for arg in self.args().skip(1) {
            if !known.contains(&arg.name()) {
                return Err(arg.unknown());
            }
        }
        Ok(())
    }

    /// Returns the collection that the command names in its first field.
    #[inline]
    pub fn collection(&self) -> Result<&'a str> {
        let target = self.target();
        let Some(name) = target.as_str() else {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("Collection name has invalid type {}", target.ty().alias()),
            ));
        };
        check_collection(self.generic.database, name)?;
        Ok(name)
    }

    /// Returns `db.collection`.
    pub fn namespace(&self, collection: &str) -> String {
        format!("{}.{collection}", self.generic.database)
    }

    /// Returns the names that expressions can use before the command adds variables of its own.
    pub fn scope(&self) -> Scope {
        Scope::new().strict(self.is_api_strict())
    }

    /// Returns what expressions can read before the command adds variables of its own.
    pub fn vars(&self) -> Vars {
        self.context.vars(self.now)
    }

    pub fn transaction_number(&self) -> Option<i64> {
        self.generic.number
    }

    pub fn session(&self) -> Option<SessionId> {
        self.generic.session
    }

    pub fn max_time_millis(&self) -> u64 {
        self.generic.max_time_millis
    }

    /// Whether the client set `maxTimeMS`, even to zero.
    pub fn has_max_time(&self) -> bool {
        self.generic.has_max_time
    }

    /// Whether the command may use only the stable API.
    pub fn is_api_strict(&self) -> bool {
        self.generic.api_strict
    }

    /// Sets a time limit that is not in the request.
    pub fn limit_time(&mut self, millis: u64) {
        self.deadline = Some(monotonic() + Duration::from_millis(millis));
    }

    /// Returns the documents of a field such as `documents` or `updates`. The field is in the command or in a document
    /// sequence of the message.
    pub fn documents(&self, name: &'static str) -> Result<DocumentList<'a>> {
        if let Some(sequence) = self.request.sequence(name) {
            return Ok(DocumentList::Sequence(sequence));
        }
        let arg = self
            .arg(name)
            .ok_or_else(|| Error::missing_field(self.command.name, name))?;
        let array = arg.array()?;
        array
            .map(DocumentList::Array)
            .ok_or_else(|| Error::missing_field(self.command.name, name))
    }
}

/// Documents from an array in the command or from a document sequence.
#[derive(Clone, Copy)]
pub enum DocumentList<'a> {
    Array(Doc<'a>),
    Sequence(&'a Sequence),
}

// === impl DocumentList ===

impl<'a> DocumentList<'a> {
    pub const NONE: DocumentList<'static> = DocumentList::Array(Doc::EMPTY);

    /// Returns the same documents again, for work that continues the command with its own request.
    pub fn of(request: &'a Request, name: &str) -> Self {
        match request.sequence(name) {
            Some(sequence) => Self::Sequence(sequence),
            None => Self::Array(request.body().get(name).as_array().unwrap_or(Doc::EMPTY)),
        }
    }

    /// Returns the document at `offset` and moves `offset` to the next one. The first offset is 0.
    #[inline]
    pub fn take_next(self, offset: &mut usize) -> Option<ValueRef<'a>> {
        match self {
            Self::Array(array) => {
                let body = array.body();
                let mut rest = Iter::over(body.get(*offset..)?);
                // MongoDB's IDL parser passes over null in arrays.
                let elem = rest.find(|elem| !elem.value.is_nullish())?;
                *offset = body.len() - rest.rest().len();
                Some(elem.value)
            }
            Self::Sequence(sequence) => {
                let doc = sequence.document_at(*offset)?;
                *offset += doc.bytes().len();
                Some(ValueRef::document(doc))
            }
        }
    }

    /// Iterates over the documents in order. An array element that is not a document keeps its own type.
    pub fn iter(self) -> impl Iterator<Item = ValueRef<'a>> {
        let (array, sequence) = match self {
            Self::Array(array) => (Some(array), None),
            Self::Sequence(sequence) => (None, Some(sequence)),
        };
        let values = array.into_iter().flatten().map(|elem| elem.value);
        values.filter(|value| !value.is_nullish()).chain(
            sequence
                .into_iter()
                .flat_map(Sequence::iter)
                .map(ValueRef::document),
        )
    }
}
