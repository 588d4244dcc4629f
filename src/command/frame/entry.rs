//! One row of the table of commands.

use super::{Call, Needs, Task};
use crate::error::Result;
use crate::value::DocBuilder;
use crate::vocabulary::{Entry, Status};

/// Everything that the framework knows of a command.
pub type Command = Entry<Run, CommandFacts>;

pub struct CommandFacts {
    /// Other spellings that old clients use.
    pub aliases: &'static [&'static str],
    pub access: Access,
    pub flags: Flags,
    /// What a user must be allowed to do to run it.
    pub needs: Needs,
    /// For listCommands and the README.
    pub help: &'static str,
}

/// What a command does to data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Housekeeping: no data.
    None,
    Read,
    Write,
    /// Collections, indexes, settings.
    Admin,
}

/// Writes the fields of the reply (the framework appends `ok`), or returns work that will.
pub type Run = fn(&mut Call<'_>, &mut DocBuilder<'_>) -> Result<Outcome>;

pub enum Outcome {
    /// The fields stand in the reply.
    Reply,
    /// They do, and the client gets another reply without asking, from the same command run again.
    Stream,
    /// It takes longer; what was written so far is dropped.
    Work(Box<dyn Task>),
}

/// A set of properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u16);

// === impl Flags ===

impl Flags {
    pub const NONE: Self = Self(0);
    /// Only against the database `admin`.
    pub const ADMIN_ONLY: Self = Self(1);
    /// Allowed before a client has logged in.
    pub const BEFORE_LOGIN: Self = Self(2);
    /// Takes a transaction number: a retryable write.
    pub const RETRYABLE: Self = Self(4);
    /// Takes every level of read concern but `snapshot`.
    pub const READ_CONCERN: Self = Self(8);
    /// Takes a write concern.
    pub const WRITE_CONCERN: Self = Self(16);
    /// Part of MongoDB's stable API, version 1.
    pub const STABLE: Self = Self(32);
    /// Allowed on a secondary (listCommands shows it).
    pub const SECONDARY: Self = Self(64);
    /// Does not count as a command in the operation counters: it counts by itself.
    pub const UNCOUNTED: Self = Self(128);
    /// Allowed inside an OP_QUERY.
    pub const LEGACY: Self = Self(256);
    /// Takes a transaction number without being a retryable write: it ends a transaction.
    pub const TRANSACTION: Self = Self(512);
    /// Has fields that nobody else may see.
    pub const SECRETS: Self = Self(2048);
    /// A write that brings a list of statements.
    pub const STATEMENTS: Self = Self::RETRYABLE
        .and(Self::WRITE_CONCERN)
        .and(Self::STABLE)
        .and(Self::UNCOUNTED);
    /// Takes every level of read concern.
    pub const SNAPSHOT: Self = Self(1024).and(Self::READ_CONCERN);

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }
}

// === impl Command ===

impl Command {
    pub const fn ready(name: &'static str, access: Access, help: &'static str, run: Run) -> Self {
        Self {
            status: Status::Ready(run),
            ..Self::planned(name, access, help)
        }
    }

    pub const fn planned(name: &'static str, access: Access, help: &'static str) -> Self {
        Self {
            name,
            status: Status::Planned,
            facts: CommandFacts {
                aliases: &[],
                access,
                flags: Flags::NONE,
                needs: Needs::Everything,
                help,
            },
        }
    }

    /// Whether documents may stand in its reply, and make it large.
    pub fn shows_documents(&self) -> bool {
        self.facts.access == Access::Read || self.name == "findAndModify"
    }

    #[must_use]
    pub const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.facts.aliases = aliases;
        self
    }

    #[must_use]
    pub const fn needs(mut self, needs: Needs) -> Self {
        self.facts.needs = needs;
        self
    }

    #[must_use]
    pub const fn with(mut self, flags: Flags) -> Self {
        self.facts.flags = self.facts.flags.and(flags);
        self
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.facts.aliases.iter().copied())
    }
}
