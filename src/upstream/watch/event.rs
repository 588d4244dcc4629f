//! One event of a change stream, as a client may see it.

use crate::ttl::TS_FIELD;
use crate::upstream::rewrite::{Moment, Visibility};
use crate::upstream::settings::is_physical_name;
use crate::upstream::{CollectionRules, HIDDEN_FIELD};
use crate::value::{Doc, DocBuf, DocBuilder, Millis, Type, ValueRef};

/// What a stream does with the events of one collection.
pub struct EventRule<'a> {
    pub rules: &'a CollectionRules,
    /// Full documents of updates are looked up when the event is read.
    pub looks_up: bool,
    pub moment: Moment,
}

/// Fields of an event that hold a document of the collection.
const DOCUMENTS: &[&str] = &["documentKey", "fullDocument", "fullDocumentBeforeChange"];

// === impl EventRule ===

impl EventRule<'_> {
    /// Returns the event without anything hidden. `None` if it is about nothing else.
    pub fn shown(&self, event: Doc<'_>) -> Option<DocBuf> {
        let kind = event.get("operationType").as_str().unwrap_or_default();
        let mut is_empty = false;
        let shown = DocBuf::build_sized(event.bytes().len(), |out| {
            for elem in event {
                let name = elem.name();
                match elem.value.as_doc() {
                    Some(document) if DOCUMENTS.contains(&name) => {
                        let looked_up = self.looks_up && kind == "update" && name == "fullDocument";
                        if looked_up && self.has_ended(document) {
                            out.put_null(name);
                        } else {
                            self.put_document(document, &mut out.doc(name));
                        }
                    }
                    Some(change) if name == "updateDescription" => {
                        is_empty = self.put_change(change, &mut out.doc(name));
                    }
                    Some(what) if name == "operationDescription" => {
                        is_empty = put_operation(what, &mut out.doc(name));
                    }
                    _ => {
                        out.put(name, elem.value);
                    }
                }
            }
        });
        (!is_empty).then_some(shown)
    }

    fn has_ended(&self, document: Doc<'_>) -> bool {
        // A partial filter that Sundown cannot test ends nothing here either.
        Visibility::new(self.rules).is_ok_and(|rule| rule.has_ended(document, self.moment.now))
    }

    /// Returns the hidden fields of such a document, or of such a change.
    fn hidden(&self, of: Doc<'_>) -> &'static [&'static str] {
        // Events stay when their collection is dropped or renamed, and the settings go.
        let is_stamped = self.rules.stamped || has_stamp(of);
        let stores_ts = self.rules.stores_ts || !self.rules.stamped;
        match (is_stamped, stores_ts && !self.moment.expose_ts) {
            (false, _) => &[],
            (true, false) => &[HIDDEN_FIELD],
            (true, true) => &[HIDDEN_FIELD, TS_FIELD],
        }
    }

    fn put_document(&self, document: Doc<'_>, out: &mut DocBuilder<'_>) {
        let hidden = self.hidden(document);
        for elem in document
            .iter()
            .filter(|elem| !hidden.contains(&elem.name()))
        {
            out.put(elem.name(), elem.value);
        }
    }

    /// Writes what an update has changed. Returns whether it was hidden fields only.
    fn put_change(&self, change: Doc<'_>, out: &mut DocBuilder<'_>) -> bool {
        let updated = change.get("updatedFields").as_doc().unwrap_or(Doc::EMPTY);
        let hidden = self.hidden(updated);
        let mut was_hidden = false;
        let mut is_empty = true;
        for elem in change {
            match elem.value.ty() {
                Type::Document => {
                    let mut fields = out.doc(elem.name());
                    for field in Doc::new(elem.value.data()) {
                        if hidden.contains(&field.name()) {
                            was_hidden = true;
                        } else {
                            is_empty = false;
                            fields.put(field.name(), field.value);
                        }
                    }
                    fields.end();
                }
                Type::Array => {
                    let mut fields = out.array(elem.name());
                    for field in Doc::new(elem.value.data()) {
                        let is_hidden = field.value.as_str().is_some_and(|f| hidden.contains(&f));
                        if is_hidden {
                            was_hidden = true;
                        } else {
                            is_empty = false;
                            fields.push(field.value);
                        }
                    }
                    fields.end();
                }
                _ => {
                    out.put(elem.name(), elem.value);
                }
            }
        }
        was_hidden && is_empty
    }
}

/// Returns whether these fields have a stamp as only Sundown writes it: the same moment in two forms.
fn has_stamp(fields: Doc<'_>) -> bool {
    let stamp = fields.get(HIDDEN_FIELD);
    let seconds = fields.get(TS_FIELD);
    stamp.ty() == Type::Date
        && seconds.ty() == Type::Int64
        && stamp.as_date().map(|at| Millis(at).seconds()) == seconds.as_i64()
}

/// Writes what an operation on indexes has done. Returns whether it was about Sundown's own indexes only.
fn put_operation(what: Doc<'_>, out: &mut DocBuilder<'_>) -> bool {
    let is_own = |index: ValueRef<'_>| {
        let name = index.as_doc().and_then(|index| index.get("name").as_str());
        name.is_some_and(is_physical_name)
    };
    let mut only_own = false;
    for elem in what {
        match (elem.name(), elem.value.as_array()) {
            ("indexes", Some(indexes)) => {
                let mut shown = out.array("indexes");
                for index in indexes.iter().filter(|index| !is_own(index.value)) {
                    shown.push(index.value);
                }
                only_own = shown.is_empty() && !indexes.is_empty();
                shown.end();
            }
            (name, _) => {
                only_own |= name == "index" && is_own(elem.value);
                out.put(name, elem.value);
            }
        }
    }
    only_own
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, DateTime, Document, doc};

    use crate::ttl::DefaultTtl;

    const NOW: i64 = 1_800_000_000_000;

    fn shown(rules: &CollectionRules, looks_up: bool, event: Document) -> Option<Document> {
        let rule = EventRule {
            rules,
            looks_up,
            moment: Moment {
                now: Millis(NOW),
                expose_ts: false,
            },
        };
        let event = DocBuf::from(&event);
        let shown = rule.shown(event.as_doc())?;
        Some(Document::from_reader(shown.bytes()).unwrap())
    }

    #[test]
    fn events_lose_what_is_hidden() {
        let ten = CollectionRules {
            stamped: true,
            stores_ts: true,
            default: DefaultTtl::Seconds(10),
            ..CollectionRules::NONE
        };
        let stamp = |at: i64| doc! {"_sundown": DateTime::from_millis(at), "_ts": at / 1000};
        let with = |mut document: Document, at: i64| {
            document.extend(stamp(at));
            document
        };
        let change = |fields: Document, removed: Vec<&str>| {
            doc! {"updatedFields": fields, "removedFields": removed, "truncatedArrays": []}
        };
        let update = |change: Document, full: Bson| {
            doc! {"operationType": "update", "fullDocument": full, "updateDescription": change}
        };
        let a = || doc! {"_id": 1, "a": 1};
        let none = CollectionRules::NONE;
        let own = doc! {"name": "_sundown_default", "key": {"_sundown": 1}};
        let theirs = doc! {"name": "a_1", "key": {"a": 1}};
        let indexes = |list: Vec<Document>| doc! {"operationType": "createIndexes", "operationDescription": {"indexes": list}};
        let rows: Vec<(&CollectionRules, Document, Option<Document>)> = vec![
            (
                &ten,
                doc! {"operationType": "insert", "fullDocument": with(a(), NOW), "documentKey": {"_id": 1}},
                Some(
                    doc! {"operationType": "insert", "fullDocument": a(), "documentKey": {"_id": 1}},
                ),
            ),
            // An insert is what was written then, also if it has ended.
            (
                &ten,
                doc! {"operationType": "insert", "fullDocument": with(a(), NOW - 20_000)},
                Some(doc! {"operationType": "insert", "fullDocument": a()}),
            ),
            (
                &ten,
                update(
                    change(with(doc! {"a": 1}, NOW), vec!["b"]),
                    with(a(), NOW - 9_999).into(),
                ),
                Some(update(change(doc! {"a": 1}, vec!["b"]), a().into())),
            ),
            (
                &ten,
                update(
                    change(with(doc! {"a": 1}, NOW), vec![]),
                    with(a(), NOW - 10_000).into(),
                ),
                Some(update(change(doc! {"a": 1}, vec![]), Bson::Null)),
            ),
            (
                &ten,
                update(change(stamp(NOW), vec![]), with(a(), NOW).into()),
                None,
            ),
            (
                &ten,
                update(change(doc! {}, vec!["_sundown", "_ts"]), a().into()),
                None,
            ),
            (
                &ten,
                update(change(stamp(NOW), vec!["b"]), Bson::Null),
                Some(update(change(doc! {}, vec!["b"]), Bson::Null)),
            ),
            (
                &ten,
                doc! {"operationType": "delete", "fullDocumentBeforeChange": with(a(), NOW)},
                Some(doc! {"operationType": "delete", "fullDocumentBeforeChange": a()}),
            ),
            // The collection is gone, and its settings with it.
            (
                &none,
                doc! {"operationType": "insert", "fullDocument": with(a(), NOW)},
                Some(doc! {"operationType": "insert", "fullDocument": a()}),
            ),
            // The fields of a client that only look alike.
            (
                &none,
                doc! {"operationType": "insert", "fullDocument": {"_sundown": 1, "_ts": 2}},
                Some(doc! {"operationType": "insert", "fullDocument": {"_sundown": 1, "_ts": 2}}),
            ),
            (&ten, indexes(vec![own.clone()]), None),
            (
                &ten,
                indexes(vec![own, theirs.clone()]),
                Some(indexes(vec![theirs])),
            ),
            (
                &ten,
                doc! {"operationType": "modify", "operationDescription": {"index": {"name": "_sundown_default"}}},
                None,
            ),
        ];
        for (rules, event, expected) in rows {
            assert_eq!(shown(rules, true, event.clone()), expected, "{event}");
        }
        // Without a look-up, the full document is what was written.
        let event = update(
            change(with(doc! {"a": 1}, NOW), vec![]),
            with(a(), NOW - 10_000).into(),
        );
        let full = update(change(doc! {"a": 1}, vec![]), a().into());
        assert_eq!(shown(&ten, false, event), Some(full));
    }
}
