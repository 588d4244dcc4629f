//! Counters of commands, operations and traffic. They are split into a few shards, so that connections on different cores do
//! not write to the same cache line.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Command;
use crate::command::COMMANDS;
use crate::error::{Code, Error};
use crate::handler::Traffic;
use crate::query::update::{Style, Update};
use crate::wire::{CompressedMessage, Compressor};

/// The number of shards. Connections are distributed over them.
pub(super) const SHARDS: usize = 8;

/// The commands whose updates are counted by their form.
const UPDATING: [&str; 3] = ["bulkWrite", "findAndModify", "update"];

/// The updates that are pipelines, and those with array filters.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpdateForms {
    pub pipelines: u64,
    pub array_filters: u64,
}

pub struct Counters {
    shards: Vec<Shard>,
    /// By compressor, direction (sent or received) and size (uncompressed or compressed). Compression costs so much more
    /// than counting that these counters need no shards.
    compression: [[[AtomicU64; 2]; 2]; COMPRESSORS],
    /// By command, in the order of [`UPDATING`]. Such updates cost more than counting, too.
    update_forms: [[AtomicU64; 2]; UPDATING.len()],
    /// The commands that have failed because another transaction had written first. They are rare.
    conflicts: AtomicU64,
}

/// The compressors' numbers on the wire are below this.
const COMPRESSORS: usize = 4;

/// Aligned so that no two shards share a cache line.
#[repr(align(128))]
struct Shard {
    operations: [AtomicU64; OPERATIONS.len()],
    /// Bytes read and bytes written.
    traffic: [AtomicU64; 2],
    /// (run, failed) for each row of the table of commands.
    commands: Vec<[AtomicU64; 2]>,
    /// Commands that are in no row.
    unknown: AtomicU64,
}

/// `opcounters` of serverStatus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

pub const OPERATIONS: &[(&str, Counter)] = &[
    ("insert", Counter::Insert),
    ("query", Counter::Query),
    ("update", Counter::Update),
    ("delete", Counter::Delete),
    ("getmore", Counter::GetMore),
    ("command", Counter::Command),
];

// === impl UpdateForms ===

impl UpdateForms {
    #[inline]
    pub fn note(&mut self, update: &Update) {
        self.pipelines += u64::from(update.style() == Style::Pipeline);
        self.array_filters += u64::from(update.has_array_filters());
    }
}

// === impl Counters ===

impl Default for Counters {
    fn default() -> Self {
        let shard = || Shard {
            operations: Default::default(),
            traffic: Default::default(),
            commands: COMMANDS
                .entries()
                .iter()
                .map(|_| Default::default())
                .collect(),
            unknown: AtomicU64::default(),
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            compression: Default::default(),
            update_forms: Default::default(),
            conflicts: AtomicU64::default(),
        }
    }
}

impl Counters {
    /// Returns the shard in which a connection counts.
    pub fn shard(connection: u64) -> usize {
        (connection as usize) % SHARDS
    }

    #[inline]
    pub fn add(&self, shard: usize, what: Counter, n: u64) {
        if let Some(shard) = self.shards.get(shard) {
            shard.operations[what as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(in crate::command) fn moved(&self, shard: usize, traffic: Traffic) {
        if let Some(shard) = self.shards.get(shard) {
            for (counter, n) in shard.traffic.iter().zip([traffic.read, traffic.written]) {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    pub(in crate::command) fn traffic(&self) -> Traffic {
        let sum = |which: usize| {
            let counters = self.shards.iter().map(|shard| &shard.traffic[which]);
            counters.map(|n| n.load(Ordering::Relaxed)).sum()
        };
        Traffic {
            read: sum(0),
            written: sum(1),
        }
    }

    pub(in crate::command) fn message_compressed(
        &self,
        message: CompressedMessage,
        received: bool,
    ) {
        let row =
            &self.compression[message.compressor as usize % COMPRESSORS][usize::from(received)];
        for (counter, n) in row.iter().zip([message.large, message.small]) {
            counter.fetch_add(n as u64, Ordering::Relaxed);
        }
    }

    /// Returns the bytes of the messages that were compressed, in one direction: before compression, and on the wire.
    pub(in crate::command) fn compression(
        &self,
        compressor: Compressor,
        received: bool,
    ) -> [u64; 2] {
        let row = &self.compression[compressor as usize % COMPRESSORS][usize::from(received)];
        [0, 1].map(|which| row[which].load(Ordering::Relaxed))
    }

    #[inline]
    pub(in crate::command) fn ran(&self, shard: usize, command: &'static Command) {
        self.command(shard, command, 0);
    }

    pub(in crate::command) fn failed(
        &self,
        shard: usize,
        command: &'static Command,
        error: &Error,
    ) {
        self.command(shard, command, 1);
        if error.code() == Code::WriteConflict {
            self.conflicts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many commands have failed because another transaction had written first.
    pub(in crate::command) fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// Counts a command that does not exist.
    pub(in crate::command) fn unknown(&self, shard: usize) {
        if let Some(shard) = self.shards.get(shard) {
            shard.unknown.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(in crate::command) fn unknown_total(&self) -> u64 {
        let counters = self.shards.iter().map(|shard| &shard.unknown);
        counters.map(|n| n.load(Ordering::Relaxed)).sum()
    }

    #[inline]
    fn command(&self, shard: usize, command: &'static Command, which: usize) {
        // The row has the same position in the table and here.
        let row = COMMANDS.entries().element_offset(command);
        let shard = self.shards.get(shard);
        if let Some(count) = shard.and_then(|shard| shard.commands.get(row?)) {
            count[which].fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(in crate::command) fn updated(&self, command: &str, forms: UpdateForms) {
        if forms.pipelines + forms.array_filters == 0 {
            return;
        }
        let row = UPDATING.iter().position(|name| *name == command);
        if let Some(row) = row.and_then(|row| self.update_forms.get(row)) {
            row[0].fetch_add(forms.pipelines, Ordering::Relaxed);
            row[1].fetch_add(forms.array_filters, Ordering::Relaxed);
        }
    }

    /// Returns the forms of the updates of this command, if it has updates.
    pub(in crate::command) fn update_forms(&self, command: &str) -> Option<UpdateForms> {
        let row = UPDATING.iter().position(|name| *name == command)?;
        let [pipelines, array_filters] = self.update_forms.get(row)?;
        Some(UpdateForms {
            pipelines: pipelines.load(Ordering::Relaxed),
            array_filters: array_filters.load(Ordering::Relaxed),
        })
    }

    pub fn operations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OPERATIONS.iter().map(|&(name, what)| {
            let sum = self
                .shards
                .iter()
                .map(|shard| shard.operations[what as usize].load(Ordering::Relaxed))
                .sum();
            (name, sum)
        })
    }

    /// Returns (name, run, failed) of each command.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        COMMANDS.entries().iter().enumerate().map(|(row, command)| {
            let sum = |which: usize| {
                self.shards
                    .iter()
                    .filter_map(|shard| shard.commands.get(row))
                    .map(|count| count[which].load(Ordering::Relaxed))
                    .sum()
            };
            (command.name, sum(0), sum(1))
        })
    }
}
