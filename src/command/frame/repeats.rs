//! Equal commands in a row on one connection, which are counted together.
//!
//! Many connections send the same command to the same collection again and again. To read the clock twice and to find the
//! counts of the collection takes longer than a hundredth of the shortest command. So of equal commands one in [`EVERY`] is
//! measured. The others wait here and are counted with its latency.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Command;
use super::usage::Used;
use crate::latency::Stopwatch;
use crate::value::{Type, ValueRef};

/// Of so many equal commands in a row, one is measured.
const EVERY: u32 = 64;

/// The latest commands of a connection. Its commands run one after the other, so nobody waits for the lock.
#[derive(Default)]
pub struct Repeats {
    commands: AtomicU32,
    /// The address of the latest command in its table.
    latest: AtomicUsize,
    waiting: Mutex<Waiting>,
}

/// Commands that are not counted yet.
#[derive(Default)]
struct Waiting {
    command: Option<&'static Command>,
    database: String,
    /// The type and the bytes of the value that names the collection.
    name_type: Option<Type>,
    name: Vec<u8>,
    commands: u64,
    statements: u64,
    /// The latency of the last one that was measured.
    micros: u64,
}

// === impl Repeats ===

impl Repeats {
    /// Starts to measure a command, if it is the one that is measured.
    #[inline]
    pub fn start(&self, command: &'static Command) -> Option<Stopwatch> {
        let number = self.commands.load(Ordering::Relaxed).wrapping_add(1);
        self.commands.store(number, Ordering::Relaxed);
        let address = std::ptr::from_ref(command) as usize;
        let is_other = self.latest.load(Ordering::Relaxed) != address;
        if is_other {
            self.latest.store(address, Ordering::Relaxed);
        }
        (is_other || number.is_multiple_of(EVERY)).then(Stopwatch::start)
    }

    /// Takes a command that is over. `count` counts commands, with the time that they took together.
    #[inline]
    pub(super) fn note(
        &self,
        used: &Used<'_>,
        micros: Option<u64>,
        count: impl Fn(&Used<'_>, u64),
    ) {
        let mut waiting = self.waiting.lock();
        let is_repeated = waiting
            .command
            .is_some_and(|command| std::ptr::eq(command, used.command))
            && waiting.name() == used.name
            && waiting.database == used.database;
        if is_repeated && micros.is_none() {
            waiting.commands += 1;
            waiting.statements += used.statements;
        } else {
            waiting.replace(used, micros, is_repeated, count);
        }
    }

    /// Counts what waits.
    pub(super) fn flush(&self, count: impl Fn(&Used<'_>, u64)) {
        self.waiting.lock().flush(count);
    }
}

// === impl Waiting ===

impl Waiting {
    fn name(&self) -> ValueRef<'_> {
        ValueRef::new(self.name_type.unwrap_or(Type::Missing), &self.name)
    }

    fn flush(&mut self, count: impl Fn(&Used<'_>, u64)) {
        if let Some(command) = self.command.filter(|_| self.commands > 0) {
            let used = Used {
                command,
                database: &self.database,
                name: self.name(),
                commands: self.commands,
                statements: self.statements,
            };
            count(&used, self.micros * self.commands);
            self.commands = 0;
            self.statements = 0;
        }
    }

    /// Counts what waits, and a command that was measured. One that was not, because only its collection is another one, waits
    /// with the latency of those before it.
    #[inline(never)]
    fn replace(
        &mut self,
        used: &Used<'_>,
        micros: Option<u64>,
        is_repeated: bool,
        count: impl Fn(&Used<'_>, u64),
    ) {
        self.flush(&count);
        if !is_repeated {
            self.command = Some(used.command);
            self.database.clear();
            self.database.push_str(used.database);
            self.name_type = Some(used.name.ty());
            self.name.clear();
            self.name.extend_from_slice(used.name.data());
        }
        match micros {
            Some(micros) => {
                count(used, micros);
                self.micros = micros;
            }
            None => {
                self.commands = used.commands;
                self.statements = used.statements;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::command::find;
    use crate::value::Value;

    #[test]
    fn every_command_is_counted_and_few_are_measured() {
        let repeats = Repeats::default();
        let (commands, statements) = (Cell::new(0), Cell::new(0));
        let count = |used: &Used<'_>, micros: u64| {
            assert!(micros >= used.commands);
            commands.set(commands.get() + used.commands);
            statements.set(statements.get() + used.statements);
        };
        let [a, b] = ["a", "b"].map(Value::string);
        let mut measured = 0;
        for at in 0..1_000 {
            let command = find(if at % 100 == 0 { b"update" } else { b"find" }).unwrap();
            let stopwatch = repeats.start(command);
            measured += u32::from(stopwatch.is_some());
            let used = Used {
                command,
                database: "db",
                name: if at % 10 == 0 { a.as_ref() } else { b.as_ref() },
                commands: 1,
                statements: 2,
            };
            repeats.note(&used, stopwatch.map(|watch| watch.micros()), count);
        }
        repeats.flush(count);
        repeats.flush(count);
        assert_eq!((commands.get(), statements.get()), (1_000, 2_000));
        assert!(measured < 120, "{measured}");
    }
}
