//! The open cursors whose rows Sundown changes. All data connections go to one node, so a cursor's id is enough.

use std::sync::Arc;

use ahash::AHashMap;
use parking_lot::Mutex;

use super::carry::{hidden, needed};
use super::namespaces::NamespacePair;
use super::rows::{RowRule, Window};
use super::{Rulebook, Visibility};
use crate::upstream::CollectionRules;
use crate::value::Millis;

/// The rules of open cursors. Shared by all connections, since drivers continue a cursor on any of them.
#[derive(Debug, Default)]
pub struct CursorRules {
    open: Mutex<AHashMap<i64, CursorRule>>,
}

#[derive(Debug, Clone)]
pub struct CursorRule {
    pub rows: RowRule,
    pub window: Window,
    /// The rules of the collection that the rows are tested by.
    pub rules: Arc<CollectionRules>,
    /// When it was last used. The cluster forgets a cursor that nobody continues.
    pub used: Millis,
}

/// With more cursors than this, those that the cluster must have forgotten are removed.
const MANY: usize = 10_000;

/// The cluster forgets a cursor after ten minutes, unless an administrator has changed that.
const FORGOTTEN: i64 = 60 * 60 * 1000;

// === impl CursorRules ===

impl CursorRules {
    pub fn get(&self, id: i64) -> Option<CursorRule> {
        self.open.lock().get(&id).cloned()
    }

    pub fn has(&self, id: i64) -> bool {
        self.open.lock().contains_key(&id)
    }

    pub fn put(&self, id: i64, rule: CursorRule) {
        let mut open = self.open.lock();
        if open.len() >= MANY {
            let now = rule.used.0;
            open.retain(|_, known| now.saturating_sub(known.used.0) < FORGOTTEN);
        }
        open.insert(id, rule);
    }

    pub fn remove(&self, id: i64) {
        self.open.lock().remove(&id);
    }

    /// Forgets all cursors, when their node is no longer asked.
    pub fn clear(&self) {
        self.open.lock().clear();
    }

    pub fn len(&self) -> usize {
        self.open.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.lock().is_empty()
    }
}

// === impl CursorRule ===

impl CursorRule {
    /// Returns the collections whose rules hold for the rows, besides the cursor's own.
    pub fn joined(&self) -> impl Iterator<Item = &NamespacePair> {
        self.rows.joined.iter().map(|joined| &joined.namespace)
    }

    /// Tests the rows by the rules that hold now.
    pub fn follow<B: Rulebook>(&mut self, database: &str, collection: &str, book: &B) {
        follow(
            &mut self.rows,
            &mut self.rules,
            book.rules(database, collection),
        );
        for joined in &mut self.rows.joined {
            let current = book.rules(&joined.namespace.0, &joined.namespace.1);
            follow(&mut joined.rows, &mut joined.rules, current);
        }
    }
}

/// Tests rows by other rules. If these need a field that the rows do not hold, the former rules stay: the rows were found
/// under them.
fn follow(rows: &mut RowRule, rules: &mut Arc<CollectionRules>, current: Arc<CollectionRules>) {
    if *rules == current {
        return;
    }
    if current.stamped && !rules.stamped {
        // The documents have got the hidden fields since the cursor was opened.
        let hidden = hidden(&current, rows.shows_ts).iter();
        let cut = rows.cut.iter().cloned();
        rows.cut = cut.chain(hidden.map(|&name| name.into())).collect();
        rows.ts_last = rows.whole && current.stores_ts && rows.shows_ts;
    }
    let holds = |wanted: &CollectionRules| {
        rows.whole
            || rows.test.is_some()
                && match (needed(wanted), needed(rules)) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some(new), Some(held)) => new.iter().all(|path| held.contains(path)),
                }
    };
    if !holds(&current) {
        return;
    }
    let Ok(mut test) = Visibility::new(&current) else {
        return;
    };
    // A document that the cursor has read long ago may have ended under rules that are over.
    for past in current.past.iter().filter(|past| holds(&past.rules)) {
        if test.add_past(past).is_err() {
            return;
        }
    }
    rows.test = Some(Arc::new(test));
    *rules = current;
}
