//! Checks of new documents: `_id` comes first and has a storable type, there is no `_ts` and no empty timestamp.

use std::borrow::Cow;

use crate::engine::ObjectIds;
use crate::error::{Code, Error, Result};
use crate::query::update::{MAX_DEPTH, check_id, depth};
use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuilder, MAX_DOCUMENT, Millis, Value, ValueRef};

/// The context for checking new documents.
pub struct Intake<'a> {
    pub ids: &'a ObjectIds,
    pub now: Millis,
    /// Whether an empty timestamp is stored as it is (`bypassEmptyTsReplacement`).
    pub keeps_empty_timestamps: bool,
}

// === impl Intake ===

impl Intake<'_> {
    /// Returns the document as it will be stored, without copying it if it needs no change.
    pub fn admit<'d>(&self, doc: Doc<'d>) -> Result<Cow<'d, [u8]>> {
        let mut as_is = true;
        let mut id = ValueRef::MISSING;
        for (n, elem) in doc.iter().enumerate() {
            match elem.name_bytes() {
                b"_id" => {
                    check_id(elem.value)?;
                    if !id.is_missing() {
                        return Err(Error::bad_value(
                            "can't have multiple _id fields in one document",
                        ));
                    }
                    id = elem.value;
                    as_is &= n == 0;
                }
                name if name == TS_FIELD.as_bytes() => as_is = false,
                _ if self.is_stamped(elem.value) => as_is = false,
                _ => {}
            }
            check_depth(elem.value)?;
        }
        if id.is_missing() || !as_is {
            let bytes = self.rewrite(doc, id);
            check_size(bytes.len())?;
            return Ok(Cow::Owned(bytes));
        }
        check_size(doc.bytes().len())?;
        Ok(Cow::Borrowed(doc.bytes()))
    }

    fn rewrite(&self, doc: Doc<'_>, id: ValueRef<'_>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(doc.bytes().len() + 20);
        let mut out = DocBuilder::begin(&mut bytes);
        if id.is_missing() {
            out.put("_id", Value::oid(self.ids.next(self.now)).as_ref());
        } else {
            out.put("_id", id);
        }
        for elem in doc {
            match elem.name() {
                "_id" | TS_FIELD => {}
                name if self.is_stamped(elem.value) => {
                    let count = self.ids.next(self.now);
                    let increment = u32::from_be_bytes([0, count[9], count[10], count[11]]);
                    let seconds = self.now.seconds() as u32;
                    out.put(name, Value::timestamp(seconds, increment.max(1)).as_ref());
                }
                name => {
                    out.put(name, elem.value);
                }
            }
        }
        out.end();
        bytes
    }

    /// Returns whether the value is `Timestamp(0, 0)`, which means "now" in a root field of a stored document.
    fn is_stamped(&self, value: ValueRef<'_>) -> bool {
        value.as_timestamp() == Some((0, 0)) && !self.keeps_empty_timestamps
    }
}

/// The size below which a document cannot nest too deep: a level takes at least a type, an empty name, a length and an end.
const SHALLOW: usize = MAX_DEPTH * 7;

fn check_depth(value: ValueRef<'_>) -> Result<()> {
    if value.data().len() >= SHALLOW && depth(value) >= MAX_DEPTH {
        return Err(Error::new(
            Code::Overflow,
            format!("cannot insert document because it exceeds {MAX_DEPTH} levels of nesting"),
        ));
    }
    Ok(())
}

fn check_size(len: usize) -> Result<()> {
    if len > MAX_DOCUMENT {
        let message =
            format!("object to insert too large. size in bytes: {len}, max size: {MAX_DOCUMENT}");
        return Err(Error::new(Code::BSONObjectTooLarge, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::value::DocBuf;
    use bson::{Bson, Timestamp, doc};

    fn admitted(document: bson::Document) -> Result<bson::Document> {
        let ids = ObjectIds::new();
        let intake = Intake {
            ids: &ids,
            now: Millis(5_000),
            keeps_empty_timestamps: false,
        };
        let doc = DocBuf::from(document);
        intake
            .admit(doc.as_doc())
            .map(|bytes| bson::Document::from_reader(&*bytes).unwrap())
    }

    #[test]
    fn what_is_fit_to_be_stored_is_left_alone() {
        let doc = DocBuf::from(doc! {"_id": 1, "a": {"_ts": 5}});
        let ids = ObjectIds::new();
        let intake = Intake {
            ids: &ids,
            now: Millis(0),
            keeps_empty_timestamps: false,
        };
        assert!(matches!(intake.admit(doc.as_doc()), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn id_goes_first_and_ts_goes_away() {
        assert_eq!(
            admitted(doc! {"a": 1, "_id": 2, "_ts": 3}).unwrap(),
            doc! {"_id": 2, "a": 1}
        );
        let made = admitted(doc! {"a": 1}).unwrap();
        assert_eq!(made.keys().collect::<Vec<_>>(), ["_id", "a"]);
        assert!(made.get_object_id("_id").is_ok());
        let stamped = admitted(doc! {"_id": 1, "t": Timestamp { time: 0, increment: 0 }}).unwrap();
        assert_eq!(stamped.get_timestamp("t").unwrap().time, 5);
    }

    #[test]
    fn how_deep_a_document_may_be() {
        let deep = |levels: usize| {
            let inner = (1..levels).fold(doc! {}, |inner, _| doc! {"a": inner});
            admitted(doc! {"_id": 1, "a": inner}).map(drop)
        };
        assert_eq!(deep(179).map_err(|error| error.code()), Ok(()));
        assert_eq!(deep(180).unwrap_err().code(), Code::Overflow);
    }

    #[test]
    fn which_ids_are_refused() {
        let rows = [
            (Bson::Array(vec![]), Code::InvalidIdField),
            (Bson::Undefined, Code::InvalidIdField),
            (doc! {"$a": 1}.into(), Code::DollarPrefixedFieldName),
        ];
        for (id, code) in rows {
            assert_eq!(
                admitted(doc! {"_id": id.clone()}).unwrap_err().code(),
                code,
                "{id}"
            );
        }
        let regex = DocBuf::build(|d| {
            d.put("_id", Value::regex("a", "").as_ref());
        });
        let ids = ObjectIds::new();
        assert!(
            Intake {
                ids: &ids,
                now: Millis(0),
                keeps_empty_timestamps: false,
            }
            .admit(regex.as_doc())
            .is_err()
        );
        assert!(admitted(doc! {"_id": null}).is_ok());
        let twice = DocBuf::build(|doc| {
            doc.put_i32("_id", 1).put_i32("a", 2).put_i32("_id", 3);
        });
        let ids = ObjectIds::new();
        let intake = Intake {
            ids: &ids,
            now: Millis(0),
            keeps_empty_timestamps: false,
        };
        let refused = intake.admit(twice.as_doc()).unwrap_err();
        assert_eq!(refused.code(), Code::BadValue);
    }
}
