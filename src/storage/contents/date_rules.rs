//! The rules of TTL indexes on dates: which end they give a document, and how new rules replace them (see
//! [`crate::storage::expiry::dates`]).

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
    /// Returns the rules that are in force.
    pub fn date_rules(&self) -> Vec<IndexSpec> {
        let rules = self.indexes.iter().filter(|index| index.is_date_rule());
        rules.map(|index| IndexSpec::clone(&index.spec)).collect()
    }

    /// Returns the earliest end that these rules give a document.
    #[inline]
    pub fn date_end(&self, doc: Doc<'_>) -> End {
        let rules = self.indexes.iter().filter(|index| index.is_date_rule());
        earliest(rules.map(|index| &*index.spec), doc)
    }

    /// Returns whether a change of the rules is being prepared.
    #[inline]
    pub fn has_coming(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the earliest end that the next rules give a document.
    #[inline]
    pub fn pending_end(&self, doc: Doc<'_>) -> End {
        match &self.pending {
            Some(pending) => earliest(pending.rules.iter(), doc),
            None => End::NEVER,
        }
    }

    /// Starts to prepare new rules. No end is computed yet.
    pub fn begin_dates(&mut self, rules: Vec<IndexSpec>) -> Arc<[IndexSpec]> {
        let rules: Arc<[IndexSpec]> = rules.into();
        self.pending = Some(PendingDateRules {
            rules: Arc::clone(&rules),
            from: 0,
            until: self.next_segment,
        });
        rules
    }

    /// Computes ends under the next rules until the deadline. Returns `true` when all are computed.
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

    /// Gives up the preparation of these rules.
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

    /// Puts the present rules in force, after they have changed. Uses the ends that a migration has prepared, or else
    /// computes them now (for a collection that is just being created).
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
            contents.note_end();
        });
    }
}
