//! Counters of commands, operations and traffic. They are split into a few shards, so that connections on different cores do
//! not write to the same cache line.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Command;
use crate::command::COMMANDS;
use crate::handler::Traffic;
use crate::wire::{CompressedMessage, Compressor};

/// The number of shards. Connections are distributed over them.
const SHARDS: usize = 8;

pub struct Counters {
    shards: Vec<Shard>,
    /// By compressor, direction (sent or received) and size (uncompressed or compressed). Compression costs so much more
    /// than counting that these counters need no shards.
    compression: [[[AtomicU64; 2]; 2]; COMPRESSORS],
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
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            compression: Default::default(),
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

    pub(in crate::command) fn failed(&self, shard: usize, command: &'static Command) {
        self.command(shard, command, 1);
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
