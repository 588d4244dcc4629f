//! One command as it is run: what it was asked, by whom, and when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::generic::Generic;
use super::guard::Rights;
use super::{Client, Command, Context};
use crate::args::Arg;
use crate::clock::monotonic;
use crate::effort::Effort;
use crate::engine::ReadPoint;
use crate::engine::ddl::check_collection;
use crate::error::{Code, Error, Result};
use crate::query::Vars;
use crate::session::{Retry, SessionId};
use crate::value::{Doc, Elem, Iter, Millis, ValueRef};
use crate::wire::{Request, Sequence};

/// A command's view of its request. Everything generic is checked; the rest stands in [`Call::args`].
pub struct Call<'a> {
    pub context: &'a Arc<Context>,
    pub client: &'a Arc<Client>,
    pub command: &'static Command,
    pub request: &'a Request,
    /// The one moment that this command sees.
    pub now: Millis,
    /// When it has to be over.
    pub deadline: Option<Instant>,
    /// The retryable write that this is, if it is one. Work that goes on takes it along.
    pub retry: Option<Retry>,
    /// What it has done with documents. Work that goes on counts for itself ([`Task::effort`](super::Task::effort)).
    pub effort: Effort,
    /// What whoever sent it may do.
    pub(in crate::command) rights: Rights<'a>,
    pub(in crate::command) generic: Generic<'a>,
    pub(in crate::command) own: SmallVec<[Elem<'a>; 10]>,
}

// === impl Call ===

impl<'a> Call<'a> {
    /// Where its reads start from.
    pub fn read_point(&self) -> ReadPoint {
        ReadPoint::at(self.now)
    }

    pub fn database(&self) -> &'a str {
        self.generic.database
    }

    pub fn body(&self) -> Doc<'a> {
        self.request.body()
    }

    /// The command's own fields (the one that names it first), without the generic ones.
    #[inline]
    pub fn args(&self) -> impl Iterator<Item = Arg<'a>> {
        let path = self.command.name;
        self.own.iter().map(move |elem| Arg::new(path, *elem))
    }

    /// The value of the field that names the command.
    pub fn target(&self) -> ValueRef<'a> {
        self.own
            .first()
            .map_or(ValueRef::MISSING, |elem| elem.value)
    }

    /// One of the command's own fields, for commands that look at one or two.
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

    /// The collection that the command names in its first field.
    #[inline]
    pub fn collection(&self) -> Result<&'a str> {
        let target = self.target();
        let Some(name) = target.as_str() else {
            return Err(Error::new(
                Code::InvalidNamespace,
                format!("collection name has invalid type {}", target.ty().alias()),
            ));
        };
        check_collection(self.generic.database, name)?;
        Ok(name)
    }

    /// `db.collection`
    pub fn namespace(&self, collection: &str) -> String {
        format!("{}.{collection}", self.generic.database)
    }

    /// What expressions can read before a command adds variables of its own.
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

    /// The client set `maxTimeMS` (zero counts).
    pub fn has_max_time(&self) -> bool {
        self.generic.has_max_time
    }

    /// Nothing outside the stable API is to be used.
    pub fn is_api_strict(&self) -> bool {
        self.generic.api_strict
    }

    /// Sets a time limit that the command did not bring itself.
    pub fn limit_time(&mut self, millis: u64) {
        self.deadline = Some(monotonic() + Duration::from_millis(millis));
    }

    /// The documents of a field that stands in the command or in a sequence of its own (`documents`, `updates`, ...).
    pub fn documents(&self, name: &'static str) -> Result<Documents<'a>> {
        if let Some(sequence) = self.request.sequence(name) {
            return Ok(Documents::Sequence(sequence));
        }
        let arg = self
            .arg(name)
            .ok_or_else(|| Error::missing_field(self.command.name, name))?;
        let array = arg.array()?;
        array
            .map(Documents::Array)
            .ok_or_else(|| Error::missing_field(self.command.name, name))
    }
}

/// Documents that came either way.
#[derive(Clone, Copy)]
pub enum Documents<'a> {
    Array(Doc<'a>),
    Sequence(&'a Sequence),
}

// === impl Documents ===

impl<'a> Documents<'a> {
    /// The same documents again, for work that goes on with a request of its own.
    pub fn of(request: &'a Request, name: &str) -> Self {
        match request.sequence(name) {
            Some(sequence) => Self::Sequence(sequence),
            None => Self::Array(request.body().get(name).as_array().unwrap_or(Doc::EMPTY)),
        }
    }

    /// The document at `offset`, which is moved to the next one. Begin with 0.
    #[inline]
    pub fn take_next(self, offset: &mut usize) -> Option<ValueRef<'a>> {
        match self {
            Self::Array(array) => {
                let body = array.body();
                let mut rest = Iter::over(body.get(*offset..)?);
                let elem = rest.next()?;
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

    /// The documents in order; an element of an array that is none has its own type.
    pub fn iter(self) -> impl Iterator<Item = ValueRef<'a>> {
        let (array, sequence) = match self {
            Self::Array(array) => (Some(array), None),
            Self::Sequence(sequence) => (None, Some(sequence)),
        };
        array.into_iter().flatten().map(|elem| elem.value).chain(
            sequence
                .into_iter()
                .flat_map(Sequence::iter)
                .map(ValueRef::document),
        )
    }
}
