//! `$changeStreamSplitLargeEvent`: cuts an event that is too large for one document into fragments.

use std::sync::Arc;

use super::ResumeToken;
use crate::error::{Error, Result};
use crate::query::Survey;
use crate::query::stage::{Flow, RowBatch, RowContext, Rows, Stage, StageContext, StageOp};
use crate::value::{Doc, DocBuf, MAX_DOCUMENT, ValueRef};

struct SplitLargeEvent;

struct SplitRows {
    input: Box<dyn Rows>,
    events: RowBatch,
}

/// A field of the event with its size, by which the fields are ordered.
type SizedField<'e> = (usize, &'e str, ValueRef<'e>);

pub(in crate::query::stage) fn parse(
    value: ValueRef<'_>,
    _: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    if !value.as_doc().is_some_and(Doc::is_empty) {
        return Err(Error::location(
            7182800,
            "$changeStreamSplitLargeEvent spec should be an empty object",
        ));
    }
    push(Stage::StageOp(Arc::new(SplitLargeEvent)));
    Ok(())
}

/// Appends the fragments of an event. The smallest fields come first, so the first fragment has as many as possible.
fn split(event: Doc<'_>, limit: usize, out: &mut RowBatch) -> Result<()> {
    let token = ResumeToken::parse(event.get("_id").as_doc().unwrap_or(Doc::EMPTY))?;
    let fields = event.iter().filter(|field| field.name() != "_id");
    let mut fields: Vec<SizedField<'_>> = fields
        .map(|field| {
            let size = 2 + field.name_bytes().len() + field.value.data().len();
            (size, field.name(), field.value)
        })
        .collect();
    fields.sort_by_key(|&(size, name, _)| (size, name));
    let mut fragments: Vec<Vec<SizedField<'_>>> = Vec::new();
    let mut room = 0;
    let around = head(token, 0, 0).bytes().len();
    for field in fields {
        let size = field.0;
        match fragments.last_mut() {
            Some(fragment) if size <= room => {
                room -= size;
                fragment.push(field);
            }
            _ if around + size > limit => {
                return Err(Error::location(
                    7182500,
                    format!(
                        "Splitting change event failed: fragment size {} is greater than maximum allowed fragment size \
                         {limit}",
                        around + size
                    ),
                ));
            }
            _ => {
                room = limit - around - size;
                fragments.push(vec![field]);
            }
        }
    }
    if fragments.is_empty() {
        return Err(Error::location(
            7182502,
            "Cannot split an empty event or an event containing solely '_id' field",
        ));
    }
    for (number, fragment) in fragments.iter().enumerate() {
        let head = head(token, number, fragments.len());
        out.push_doc(None, |out| {
            out.put_body(head.as_doc().body());
            for (_, name, value) in fragment {
                out.put(name, *value);
            }
        });
    }
    Ok(())
}

/// Returns the fields with which a fragment begins.
fn head(token: ResumeToken, number: usize, count: usize) -> DocBuf {
    let int = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    DocBuf::build(|head| {
        head.put_doc("_id", token.of_fragment(number as u32).encode().as_doc());
        let mut split = head.doc("splitEvent");
        split
            .put_i32("fragment", int(number + 1))
            .put_i32("of", int(count));
        split.end();
    })
}

// === impl StageOp ===

impl StageOp for SplitLargeEvent {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(SplitRows {
            input,
            events: RowBatch::new(),
        })
    }

    fn survey(&self, _: &mut Survey<'_>) {}
}

// === impl Rows ===

impl Rows for SplitRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        self.events.restart(out.room());
        let flow = self.input.fill(cx, &mut self.events)?;
        for row in self.events.iter() {
            match row.doc.bytes().len() > MAX_DOCUMENT {
                true => split(row.doc, MAX_DOCUMENT, out)?,
                false => out.push(row.doc, row.origin),
            }
        }
        Ok(flow)
    }

    fn suspend(&mut self) -> usize {
        self.events.suspend() + self.input.suspend()
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::value::ClusterTime;

    #[test]
    fn fragments_have_the_small_fields_first() {
        let token = ResumeToken::before(ClusterTime(7)).encode();
        let mut event = doc! {"operationType": "update", "big": "x".repeat(300), "n": 1, "half": "y".repeat(120)};
        let id = Document::from_reader(token.bytes()).unwrap();
        event.insert("_id", id);
        let event = DocBuf::from(&event);
        let mut out = RowBatch::new();
        split(event.as_doc(), 450, &mut out).unwrap();
        let names: Vec<Vec<String>> = out
            .iter()
            .map(|row| {
                row.doc
                    .iter()
                    .map(|field| field.name().to_owned())
                    .collect()
            })
            .collect();
        assert_eq!(
            names,
            [
                vec!["_id", "splitEvent", "n", "operationType", "half"],
                vec!["_id", "splitEvent", "big"],
            ]
        );
        let of = |row: usize| {
            let split = out
                .get(row)
                .unwrap()
                .doc
                .get("splitEvent")
                .as_doc()
                .unwrap();
            (split.get("fragment").as_i32(), split.get("of").as_i32())
        };
        assert_eq!([of(0), of(1)], [(Some(1), Some(2)), (Some(2), Some(2))]);
        let refused = split(event.as_doc(), 300, &mut out).unwrap_err();
        assert_eq!(refused.code().number(), 7182500);
    }
}
