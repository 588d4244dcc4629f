//! `showRecordId`: adds the record id of its document to each row.

use crate::query::stage::{self, Rows};
use crate::value::DocBuilder;

pub(in crate::command) fn rows(input: Box<dyn Rows>) -> Box<dyn Rows> {
    stage::map(input, |row, _, out| {
        let mut shown = DocBuilder::begin(out);
        shown.put_body(row.doc.body());
        if let Some(origin) = row.origin {
            // MongoDB counts from 1.
            shown.put_i64("$recordId", origin.record.cast_signed().saturating_add(1));
        }
        shown.end();
        Ok(true)
    })
}
