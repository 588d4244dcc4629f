//! A row of the table of commands.

use super::{Call, Needs, Route, Task};
use crate::error::Result;
use crate::value::DocBuilder;
use crate::vocabulary::{Entry, Status};

/// Everything that the framework knows about a command.
pub type Command = Entry<Run, CommandFacts>;

pub struct CommandFacts {
    /// Other spellings that old clients use.
    pub aliases: &'static [&'static str],
    pub access: Access,
    pub flags: Flags,
    /// What a user must be allowed to do to run the command.
    pub needs: Needs,
    /// Where the command goes if a cluster holds the documents.
    pub route: Route,
    /// A sentence for listCommands and the README.
    pub help: &'static str,
}

/// What a command does to data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No data: housekeeping.
    None,
    Read,
    Write,
    /// Collections, indexes, settings.
    Admin,
}

/// Runs a command. It writes the fields of the reply (the framework appends `ok`), or returns work that will write them.
pub type Run = fn(&mut Call<'_>, &mut DocBuilder<'_>) -> Result<Outcome>;

pub enum Outcome {
    /// The fields are in the reply.
    Reply,
    /// The fields are in the reply, and the command runs again for a further reply that the client gets without asking.
    Stream,
    /// The command takes longer. What it has written so far is discarded.
    Work(Box<dyn Task>),
}

/// A set of properties of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u16);

// === impl Flags ===

impl Flags {
    pub const NONE: Self = Self(0);
    /// Runs only in the database `admin`.
    pub const ADMIN_ONLY: Self = Self(1);
    /// Allowed before a client has logged in.
    pub const BEFORE_LOGIN: Self = Self(2);
    /// Takes a transaction number, because it is a retryable write.
    pub const RETRYABLE: Self = Self(4);
    /// Takes every level of read concern except `snapshot`.
    pub const READ_CONCERN: Self = Self(8);
    /// Takes a write concern.
    pub const WRITE_CONCERN: Self = Self(16);
    /// Part of MongoDB's stable API, version 1.
    pub const STABLE: Self = Self(32);
    /// Allowed on a secondary (listCommands shows it).
    pub const SECONDARY: Self = Self(64);
    /// Is not a `command` in the operation counters, because it counts its operations itself.
    pub const UNCOUNTED: Self = Self(128);
    /// Allowed inside an OP_QUERY.
    pub const LEGACY: Self = Self(256);
    /// Allowed in a multi-document transaction.
    pub const TRANSACTION: Self = Self(512);
    /// Has fields that must stay secret.
    pub const SECRETS: Self = Self(2048);
    /// Takes the UUID of a collection in the place of its name.
    pub const BY_UUID: Self = Self(4096);
    /// A write with a list of statements.
    pub const STATEMENTS: Self = Self::RETRYABLE
        .and(Self::WRITE_CONCERN)
        .and(Self::STABLE)
        .and(Self::TRANSACTION)
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
                route: Route::WithoutTtl,
                help,
            },
        }
    }

    /// Whether the reply may contain documents, which can make it large.
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
