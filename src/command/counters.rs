//! How often what was asked. Split over a few shards, so that connections on different cores do not write one line.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{COMMANDS, Command};

/// As many as there are bits in `SHARD_MASK` allow.
const SHARDS: usize = 8;

pub struct Counters {
    shards: Vec<Shard>,
}

/// Aligned so that no two shards share a cache line.
#[repr(align(128))]
struct Shard {
    operations: [AtomicU64; OPERATIONS.len()],
    /// (run, failed) for every row of the table.
    commands: Vec<[AtomicU64; 2]>,
}

/// `opcounters` of serverStatus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

pub const OPERATIONS: &[(&str, Counted)] = &[
    ("insert", Counted::Insert),
    ("query", Counted::Query),
    ("update", Counted::Update),
    ("delete", Counted::Delete),
    ("getmore", Counted::GetMore),
    ("command", Counted::Command),
];

// === impl Counters ===

impl Default for Counters {
    fn default() -> Self {
        let shard = || Shard {
            operations: Default::default(),
            commands: COMMANDS.iter().map(|_| Default::default()).collect(),
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
        }
    }
}

impl Counters {
    /// Where a connection counts.
    pub fn shard(connection: u64) -> usize {
        (connection as usize) % SHARDS
    }

    #[inline]
    pub fn add(&self, shard: usize, what: Counted, n: u64) {
        if let Some(shard) = self.shards.get(shard) {
            shard.operations[what as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn ran(&self, shard: usize, command: &'static Command) {
        self.command(shard, command, 0);
    }

    pub(super) fn failed(&self, shard: usize, command: &'static Command) {
        self.command(shard, command, 1);
    }

    #[inline]
    fn command(&self, shard: usize, command: &'static Command, which: usize) {
        // The row's place in the table is its place here.
        let base = COMMANDS.as_ptr() as usize;
        let row = (std::ptr::from_ref(command) as usize - base) / size_of::<Command>();
        if let Some(count) = self
            .shards
            .get(shard)
            .and_then(|shard| shard.commands.get(row))
        {
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

    /// (name, run, failed) of every command.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        COMMANDS.iter().enumerate().map(|(row, command)| {
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
