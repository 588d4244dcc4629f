//! The last step of every walk: tests a document and offers it to the caller.

use std::ops::ControlFlow;

use super::Found;
use crate::engine::write::append_ts;
use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::storage::{RecordId, Stored};
use crate::value::Doc;

/// A function that takes each document that was found.
pub(super) trait OnFound: FnMut(Found<'_>) -> Result<ControlFlow<()>> {}
impl<F: FnMut(Found<'_>) -> Result<ControlFlow<()>>> OnFound for F {}

/// The test that every document passes through.
pub(super) struct DocumentTest<'t, F> {
    /// The number of documents that may be read.
    pub(super) chunk: usize,
    pub(super) filter: &'t Filter,
    pub(super) vars: &'t Vars,
    pub(super) exact: bool,
    pub(super) show_ts: bool,
    pub(super) scratch: &'t mut Vec<u8>,
    pub(super) matched: u64,
    pub(super) each: &'t mut F,
}

// === impl DocumentTest ===

impl<F: OnFound> DocumentTest<'_, F> {
    #[inline]
    pub(super) fn offer(&mut self, id: RecordId, stored: Stored<'_>) -> Result<ControlFlow<()>> {
        let mut shown = Doc::new(stored.bytes);
        if self.show_ts {
            self.scratch.clear();
            append_ts(shown, stored.ts, self.scratch);
            shown = Doc::new(self.scratch);
        }
        if !self.exact && !self.filter.matches(shown, self.vars)? {
            return Ok(ControlFlow::Continue(()));
        }
        self.matched += 1;
        (self.each)(Found { id, stored, shown })
    }
}

/// Returns what reading a document counts as: a filter may read all of its bytes.
#[inline]
pub(super) fn cost(stored: &Stored<'_>) -> usize {
    const SMALL: usize = 4096;
    1 + stored.bytes.len() / SMALL
}
