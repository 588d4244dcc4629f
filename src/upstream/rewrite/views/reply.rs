//! The reply to an aggregate, as the client of a view expects it.

use bytes::Bytes;

use super::ViewCursors;
use crate::upstream::rewrite::{cursor_id, is_ok, with_cursor};
use crate::value::{Doc, DocBuf, DocBuilder, Value, ValueRef};

/// What becomes of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewReply {
    /// Its rows are those of the view that is named here, with its database.
    Rows(String),
    /// The same, for the rows that a cursor of the view still had.
    MoreRows { view: String, cursor: i64 },
    /// Its only row holds the count. There is no row if there is nothing to count.
    Count,
    /// Its only row holds the values.
    Distinct,
}

// === impl ViewReply ===

impl ViewReply {
    /// Returns what the client sees. A cursor that stays open is remembered.
    pub fn shown(&self, reply: Bytes, cursors: &ViewCursors) -> Bytes {
        let document = Doc::new(&reply);
        let Some(cursor) = document.get("cursor").as_doc().filter(|_| is_ok(document)) else {
            return reply;
        };
        let rows = cursor.get("firstBatch").as_array().unwrap_or(Doc::EMPTY);
        let row = rows.first().and_then(|row| row.value.as_doc());
        let row = row.unwrap_or(Doc::EMPTY);
        let shown = match self {
            Self::Rows(view) => {
                cursors.opened(cursor, view);
                return renamed(document, view);
            }
            Self::MoreRows { view, cursor: id } => {
                if cursor_id(document) == 0 {
                    cursors.closed(*id);
                }
                return renamed(document, view);
            }
            Self::Count => DocBuf::build(|out| {
                match row.get("n") {
                    none if none.is_missing() => out.put_i32("n", 0),
                    counted => out.put("n", counted),
                };
                put_rest(document, out);
            }),
            Self::Distinct => DocBuf::build(|out| {
                let values = row.get("values").as_array().unwrap_or(Doc::EMPTY);
                out.put("values", ValueRef::array(values));
                put_rest(document, out);
            }),
        };
        shown.into_bytes().into()
    }
}

fn put_rest(reply: Doc<'_>, out: &mut DocBuilder<'_>) {
    for elem in reply.iter().filter(|elem| elem.name() != "cursor") {
        out.put(elem.name(), elem.value);
    }
}

/// Returns a reply whose cursor has another namespace.
fn renamed(reply: Doc<'_>, namespace: &str) -> Bytes {
    let namespace = Value::string(namespace);
    with_cursor(reply, ("ns", namespace.as_ref()))
}
