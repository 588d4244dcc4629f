//! The change that an update makes, with the stamp: operators, a replacement or a pipeline.

use crate::error::{Error, Result};
use crate::query::stage::{STAGES, names};
use crate::ttl::{OwnTtl, TS_FIELD};
use crate::upstream::HIDDEN_FIELD;
use crate::value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Type, Value, ValueRef};

use super::WriteStamp;
use super::naming::{Parts, check_document, root};

/// Whether an update by operators shall fail if its document has a `ttl` of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnTtlCheck {
    None,
    /// `$pullAll` fails if `ttl` has a value that is no array, and does nothing otherwise. An array is no meaningful `ttl`.
    PullAll,
}

/// Returns the change with the stamp.
pub fn stamped(
    change: ValueRef<'_>,
    stamp: Option<WriteStamp>,
    check: OwnTtlCheck,
) -> Result<Value> {
    let Some(stamp) = stamp else {
        return Ok(change.to_value());
    };
    match change.ty() {
        Type::Array => pipeline(Doc::new(change.data()), stamp),
        Type::Document => {
            let doc = Doc::new(change.data());
            let changed = match is_operators(doc) {
                true => operators(doc, stamp, check)?,
                false => {
                    check_document(doc)?;
                    stamp.document(doc)
                }
            };
            Ok(Value::document(changed.into_bytes()))
        }
        // The cluster refuses it.
        _ => Ok(change.to_value()),
    }
}

/// Returns whether a change that is a pipeline names `_ts`.
pub fn names_ts(change: ValueRef<'_>) -> bool {
    let parts = Parts {
        pipeline: change.as_array(),
        ..Parts::default()
    };
    parts.name_ts()
}

pub fn is_operators(doc: Doc<'_>) -> bool {
    doc.first()
        .is_some_and(|first| first.name().starts_with('$'))
}

/// Returns whether an update by operators names a root field.
pub fn names_root(doc: Doc<'_>, name: &str) -> bool {
    doc.iter().any(|operator| {
        let mut fields = operator.value.as_doc().into_iter().flatten();
        fields.any(|field| {
            let to = field
                .value
                .as_str()
                .filter(|_| operator.name() == "$rename");
            root(field.name()) == name || to.is_some_and(|to| root(to) == name)
        })
    })
}

fn operators(doc: Doc<'_>, stamp: WriteStamp, check: OwnTtlCheck) -> Result<DocBuf> {
    for operator in doc {
        let fields = operator.value.as_doc().into_iter().flatten();
        for field in fields {
            check_path(field.name())?;
            if let ("$rename", Some(to)) = (operator.name(), field.value.as_str()) {
                check_path(to)?;
            }
        }
    }
    let put_check = |fields: &mut DocBuilder<'_>| {
        fields.array(OwnTtl::FIELD).end();
    };
    let checks = check == OwnTtlCheck::PullAll;
    Ok(DocBuf::build_sized(doc.bytes().len() + 96, |out| {
        for operator in doc {
            match (operator.name(), operator.value.as_doc()) {
                ("$set", Some(fields)) => {
                    let mut nested = out.doc("$set");
                    nested.put_body(fields.body());
                    stamp.put(&mut nested);
                    nested.end();
                }
                ("$pullAll", Some(fields)) if checks => {
                    let mut nested = out.doc("$pullAll");
                    nested.put_body(fields.body());
                    put_check(&mut nested);
                    nested.end();
                }
                _ => {
                    out.put(operator.name(), operator.value);
                }
            }
        }
        // A `$set` of another type than an object stays alone, so that the cluster can refuse it.
        if !doc.has("$set") {
            let mut nested = out.doc("$set");
            stamp.put(&mut nested);
            nested.end();
        }
        if checks && !doc.has("$pullAll") {
            let mut nested = out.doc("$pullAll");
            put_check(&mut nested);
            nested.end();
        }
    }))
}

/// Hides the fields from the client's stages, and sets them last.
fn pipeline(stages: Doc<'_>, stamp: WriteStamp) -> Result<Value> {
    for stage in names(stages) {
        let Some(row) = STAGES.find(stage.name_bytes()) else {
            continue;
        };
        let mut checked = Ok(());
        row.facts.changes.each_written(stage.value, &mut |path| {
            if checked.is_ok() {
                checked = check_path(path);
            }
        });
        checked?;
    }
    let shows_ts = names_ts(ValueRef::array(stages));
    let mut bytes = Vec::with_capacity(stages.bytes().len() + 128);
    let mut out = ArrayBuilder::begin(&mut bytes);
    out.doc().put_str("$unset", HIDDEN_FIELD);
    if !shows_ts && stamp.with_ts() {
        out.doc().put_str("$unset", TS_FIELD);
    }
    for stage in stages {
        out.push(stage.value);
    }
    out.push_doc(stamp.stage().as_doc());
    out.end();
    Ok(Value::array(bytes))
}

/// Refuses a write to `_ts`, in the words of the in-memory engine.
fn check_path(path: &str) -> Result<()> {
    if root(path) == TS_FIELD {
        return Err(Error::bad_value(format!(
            "Performing an update on the path '{path}' would modify the field '{TS_FIELD}', which is kept by the server"
        )));
    }
    Ok(())
}
