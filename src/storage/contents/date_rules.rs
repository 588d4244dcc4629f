//! The rules of TTL indexes on dates: what they say of a document, and how others take their place
//! (see [`crate::storage::expiry::dates`]).

use std::sync::Arc;
use std::time::Instant;

use super::Contents;
use crate::clock;
use crate::storage::expiry::dates::{PendingDateRules, earliest, same};
use crate::storage::index::IndexSpec;
use crate::ttl::End;
use crate::value::Doc;

// === impl Contents ===

impl Contents {
    /// The rules that hold.
    pub fn date_rules(&self) -> Vec<IndexSpec> {
        let rules = self.indexes.iter().filter(|index| index.is_date_rule());
        rules.map(|index| IndexSpec::clone(&index.spec)).collect()
    }

    /// The earliest end that they give a document.
    pub fn date_end(&self, doc: Doc<'_>) -> End {
        let rules = self.indexes.iter().filter(|index| index.is_date_rule());
        earliest(rules.map(|index| &*index.spec), doc)
    }

    /// A change of the rules is being prepared.
    #[inline]
    pub fn has_coming(&self) -> bool {
        self.pending.is_some()
    }

    /// The earliest end that the rules to come give a document.
    pub fn pending_end(&self, doc: Doc<'_>) -> End {
        match &self.pending {
            Some(pending) => earliest(pending.rules.iter(), doc),
            None => End::NEVER,
        }
    }

    pub fn begin_dates(&mut self, rules: Vec<IndexSpec>) -> Arc<[IndexSpec]> {
        let rules: Arc<[IndexSpec]> = rules.into();
        self.pending = Some(PendingDateRules {
            rules: Arc::clone(&rules),
            from: 0,
            until: self.next_segment,
        });
        rules
    }

    /// Computes ends under the rules to come; `true` when all are there.
    pub fn compute_date_ends(&mut self, until: Option<Instant>) -> bool {
        self.guarded(|contents| {
            let Some(pending) = &mut contents.pending else {
                return true;
            };
            for (number, segment) in contents.segments.rest_mut(pending.from) {
                if number >= pending.until {
                    break;
                }
                segment.compute_pending(|doc| earliest(pending.rules.iter(), doc));
                pending.from = number + 1;
                if until.is_some_and(|until| clock::monotonic() >= until) {
                    return false;
                }
            }
            pending.from = pending.until;
            true
        })
    }

    /// These rules will not come.
    pub fn discard_pending_dates(&mut self, rules: &Arc<[IndexSpec]>) {
        let own = |pending: &PendingDateRules| Arc::ptr_eq(&pending.rules, rules);
        if !self.pending.as_ref().is_some_and(own) {
            return;
        }
        self.guarded(|contents| {
            contents.pending = None;
            contents.settled.give();
            for segment in contents.segments.all_mut() {
                segment.forget_coming();
            }
        });
    }

    /// The rules have changed: their ends hold from now on. They are there where somebody has prepared this, else they are
    /// computed on the spot (for a collection that is just being made).
    pub(super) fn install_date_rules(&mut self) {
        self.guarded(|contents| {
            let rules = contents.date_rules();
            let prepared = |pending: &PendingDateRules| {
                pending.from == pending.until && same(&pending.rules, &rules)
            };
            if !contents.pending.as_ref().is_some_and(prepared) {
                contents.begin_dates(rules);
                contents.compute_date_ends(None);
            }
            contents.pending = None;
            contents.settled.give();
            for segment in contents.segments.all_mut() {
                segment.install_pending();
            }
            contents.half_way();
            contents.tighten();
        });
    }
}
