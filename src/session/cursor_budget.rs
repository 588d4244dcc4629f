//! What all cursors that wait for a getMore hold together.
//!
//! A cursor holds its place, which is next to nothing; but one over sorted or grouped rows holds those, up to 100 MB, and there may be
//! many of them. So there is a limit for all: a command that would leave more behind is refused, and the cursors that wait
//! already are not disturbed. What a command holds while it runs is bounded for each command, and not counted here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Code, Error, Result};

/// How many bytes there are.
#[derive(Debug)]
pub(super) struct CursorBudget {
    bytes: AtomicUsize,
    limit: usize,
}

/// What one cursor has of them. It travels with the cursor's rows and goes where they go, however the cursor ends.
#[derive(Debug)]
pub(super) struct CursorShare {
    all: Arc<CursorBudget>,
    bytes: usize,
}

/// Ten of the largest sorts.
pub(super) const LIMIT: usize = 1024 * 1024 * 1024;

/// A place in a collection and the command that asked for it are not counted, as their number is bounded.
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
    /// Sets how much the cursor holds now. What becomes less always may.
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
