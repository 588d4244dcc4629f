//! How MongoDB counts each command: as what, and under which collection.

use std::sync::LazyLock;

use crate::command::COMMANDS;
use crate::command::frame::Command;
use crate::value::{Doc, ValueRef};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandClass {
    Commands,
    Reads,
    Writes,
}

/// The classes of commands in the order in which MongoDB shows them.
pub(super) const CLASSES: [&str; 3] = ["commands", "reads", "writes"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsageEvent {
    Query,
    GetMore,
    Insert,
    Update,
    Remove,
    Command,
}

pub(super) const EVENTS: [&str; 6] = [
    "queries", "getmore", "insert", "update", "remove", "commands",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locked {
    No,
    Shared,
    Exclusively,
}

/// Where a command names its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// In its first field.
    First,
    /// In its first field, together with the database.
    InFull,
    /// In the first field of the command inside.
    Inside,
    /// In this field.
    Field(&'static str),
    /// Nowhere, or it names several.
    Nowhere,
}

/// How MongoDB counts a command.
pub(super) struct CommandUse {
    name: &'static str,
    pub(super) class: CommandClass,
    pub(super) event: UsageEvent,
    pub(super) locked: Locked,
    named: Named,
    /// The field with its statements, if each counts on its own.
    pub(super) statements: Option<&'static str>,
}

/// The commands that use a collection, sorted by name. Every other command counts only among all commands.
const USES: &[CommandUse] = &[
    command("aggregate", Locked::Shared).reads(),
    command("bulkWrite", Locked::No)
        .writes(UsageEvent::Command)
        .named(Named::Nowhere),
    command("collMod", Locked::Exclusively),
    command("collStats", Locked::Shared),
    command("count", Locked::Shared).reads(),
    command("create", Locked::No),
    command("createIndexes", Locked::Exclusively),
    command("dataSize", Locked::Shared).named(Named::InFull),
    command("delete", Locked::Exclusively)
        .writes(UsageEvent::Remove)
        .each("deletes"),
    command("distinct", Locked::Shared).reads(),
    command("dropIndexes", Locked::Exclusively),
    command("explain", Locked::Shared).named(Named::Inside),
    command("find", Locked::Shared)
        .reads()
        .counted_as(UsageEvent::Query),
    command("findAndModify", Locked::Exclusively).writes(UsageEvent::Command),
    command("getMore", Locked::Shared)
        .reads()
        .counted_as(UsageEvent::GetMore)
        .named(Named::Field("collection")),
    command("insert", Locked::Exclusively).writes(UsageEvent::Insert),
    command("killCursors", Locked::No),
    command("listIndexes", Locked::Shared),
    command("planCacheClear", Locked::Shared),
    command("update", Locked::Exclusively)
        .writes(UsageEvent::Update)
        .each("updates"),
];

/// By the position of the command in its table.
static USE_OF: LazyLock<Vec<Option<&'static CommandUse>>> = LazyLock::new(|| {
    let commands = COMMANDS.entries().iter();
    commands
        .map(|command| USES.iter().find(|row| row.name == command.name))
        .collect()
});

/// No collection has a longer name, whatever a client asks for.
const LONGEST_NAME: usize = 255;

/// The bytes of a value that may be such a name. Longer ones are not kept.
const LONGEST_VALUE: usize = 2 * LONGEST_NAME;

// === impl CommandUse ===

const fn command(name: &'static str, locked: Locked) -> CommandUse {
    CommandUse {
        name,
        class: CommandClass::Commands,
        event: UsageEvent::Command,
        locked,
        named: Named::First,
        statements: None,
    }
}

impl CommandUse {
    const fn reads(mut self) -> Self {
        self.class = CommandClass::Reads;
        self
    }

    const fn writes(mut self, event: UsageEvent) -> Self {
        self.class = CommandClass::Writes;
        self.counted_as(event)
    }

    const fn counted_as(mut self, event: UsageEvent) -> Self {
        self.event = event;
        self
    }

    const fn named(mut self, named: Named) -> Self {
        self.named = named;
        self
    }

    const fn each(mut self, statements: &'static str) -> Self {
        self.statements = Some(statements);
        self
    }

    pub(super) fn of(command: &'static Command) -> Option<&'static Self> {
        let row = COMMANDS.entries().element_offset(command)?;
        USE_OF.get(row).copied().flatten()
    }

    /// Returns the value by which a command with this value in its first field names its collection, or a missing one.
    #[inline]
    pub(super) fn name<'a>(&self, first: ValueRef<'a>, body: Doc<'a>) -> ValueRef<'a> {
        let name = match self.named {
            Named::First | Named::InFull => first,
            Named::Inside => {
                let inside = first.as_doc().and_then(Doc::first);
                inside.map_or(ValueRef::MISSING, |inside| inside.value)
            }
            Named::Field(field) => body.get(field),
            Named::Nowhere => ValueRef::MISSING,
        };
        match name.data().len() {
            ..=LONGEST_VALUE => name,
            _ => ValueRef::MISSING,
        }
    }

    /// Returns the database and the name of the collection that has this name for the command.
    pub(super) fn collection<'a>(
        &self,
        database: &'a str,
        name: ValueRef<'a>,
    ) -> Option<(&'a str, &'a str)> {
        let name = name.as_str()?;
        if self.named == Named::InFull {
            return name.split_once('.');
        }
        let is_one = !name.is_empty() && !name.starts_with("$cmd.");
        (is_one && name.len() + database.len() < LONGEST_NAME).then_some((database, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::find;

    #[test]
    fn every_row_is_a_command_and_the_rows_are_sorted() {
        assert!(USES.is_sorted_by(|a, b| a.name < b.name));
        for row in USES {
            let command = find(row.name.as_bytes()).expect(row.name);
            assert_eq!(CommandUse::of(command).map(|row| row.name), Some(row.name));
        }
    }
}
