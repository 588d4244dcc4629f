//! Open cursors that clients know as cursors of a view, and the cluster as cursors of a collection.

use std::time::{Duration, Instant};

use ahash::AHashMap;
use parking_lot::Mutex;

use super::ViewReply;
use crate::clock::monotonic;
use crate::upstream::rewrite::fields::{with_body, with_fields};
use crate::value::{Doc, Value};
use crate::wire::Request;

/// The names of such cursors. Shared by all connections, since drivers continue a cursor on any of them.
#[derive(Debug, Default)]
pub struct ViewCursors {
    open: Mutex<AHashMap<i64, CursorNames>>,
}

#[derive(Debug, Clone)]
struct CursorNames {
    /// `database.view`.
    view: String,
    /// `database.collection`.
    base: String,
    used: Instant,
}

/// With more cursors than this, those that the cluster must have forgotten are removed.
const MANY: usize = 10_000;

/// The cluster forgets a cursor after ten minutes, unless an administrator has changed that.
const FORGOTTEN: Duration = Duration::from_secs(60 * 60);

// === impl ViewCursors ===

impl ViewCursors {
    pub fn contains(&self, id: i64) -> bool {
        self.open.lock().contains_key(&id)
    }

    /// Remembers the cursor of a reply if it stays open.
    pub fn opened(&self, cursor: Doc<'_>, view: &str) {
        let id = cursor.get("id").as_i64().filter(|&id| id != 0);
        let (Some(id), Some(base)) = (id, cursor.get("ns").as_str()) else {
            return;
        };
        let names = CursorNames {
            view: view.to_owned(),
            base: base.to_owned(),
            used: monotonic(),
        };
        let mut open = self.open.lock();
        if open.len() >= MANY {
            open.retain(|_, known| names.used - known.used < FORGOTTEN);
        }
        open.insert(id, names);
    }

    pub fn closed(&self, id: i64) {
        self.open.lock().remove(&id);
    }

    /// Returns a getMore as the cluster understands it, or `None` if its cursor is not one of a view.
    pub fn sent(&self, request: &Request) -> Option<(Request, ViewReply)> {
        let command = request.body();
        let id = command.get("getMore").as_i64()?;
        let names = self.open.lock().get(&id).cloned()?;
        let (database, view) = names.view.split_once('.')?;
        // Another name is the client's mistake, and the cluster's to refuse.
        let is_named = command.get("$db").as_str() == Some(database)
            && command.get("collection").as_str() == Some(view);
        let (_, base) = names.base.split_once('.').filter(|_| is_named)?;
        let base = Value::string(base);
        let body = with_fields(command, &[("collection", base.as_ref())]);
        let reply = ViewReply::MoreRows {
            view: names.view,
            cursor: id,
        };
        Some((with_body(request, body), reply))
    }
}
