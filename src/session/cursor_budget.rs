//! A memory budget for all cursors that wait for a getMore.
//!
//! Most cursors hold only their position, which is small. A cursor over sorted or grouped rows holds the rows, up to 100
//! MB, and there may be many such cursors. So there is a limit for all of them together: a command that would exceed it
//! with its cursor is refused, and the waiting cursors are kept. The memory of a running command has its own limit and is
//! not counted here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Code, Error, Result};

/// The bytes that all waiting cursors hold.
#[derive(Debug)]
pub(super) struct CursorBudget {
    bytes: AtomicUsize,
    limit: usize,
}

/// The share of one cursor. It is dropped together with the cursor's rows, however the cursor ends.
#[derive(Debug)]
pub(super) struct CursorShare {
    all: Arc<CursorBudget>,
    bytes: usize,
}

/// Ten of the largest sorts.
pub(super) const LIMIT: usize = 1024 * 1024 * 1024;

/// A position in a collection and a small command are not counted, because the number of cursors is limited.
const SMALL: usize = 4 * 1024;

// === impl CursorBudget ===

impl CursorBudget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes: AtomicUsize::new(0),
            limit,
        })
    }

    pub(super) fn part(self: &Arc<Self>) -> CursorShare {
        CursorShare {
            all: Arc::clone(self),
            bytes: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

// === impl CursorShare ===

impl CursorShare {
    /// Sets how many bytes the cursor holds now. A decrease always succeeds.
    pub(super) fn set(&mut self, bytes: usize) -> Result<()> {
        let bytes = if bytes > SMALL { bytes } else { 0 };
        if let Some(less) = self.bytes.checked_sub(bytes) {
            self.all.bytes.fetch_sub(less, Ordering::Relaxed);
        } else {
            let (more, limit) = (bytes - self.bytes, self.all.limit);
            let fits = |all: usize| all.checked_add(more).filter(|all| *all <= limit);
            let (order, found) = (Ordering::Relaxed, Ordering::Relaxed);
            if self.all.bytes.fetch_update(order, found, fits).is_err() {
                return Err(Error::new(
                    Code::ExceededMemoryLimit,
                    format!(
                        "Cannot leave a cursor open that holds {bytes} bytes, since open cursors already hold nearly as many \
                         as they may together (limit {limit} bytes)"
                    ),
                ));
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for CursorShare {
    fn drop(&mut self) {
        self.all.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
