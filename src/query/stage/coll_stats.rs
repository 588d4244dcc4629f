//! `$collStats`: figures of the collection, as one row.

use std::sync::Arc;

use super::{Batch, Cx, Flow, Op, Place, Report, Rows, Stage, Target};
use crate::error::{Error, Result};
use crate::query::Naming;
use crate::value::{Doc, Type, ValueRef};

/// A stage that reports instead of reading.
pub(super) struct Reports {
    pub on: Target,
    pub what: Report,
}

struct Running(Arc<Reports>);

pub(super) fn parse(
    value: ValueRef<'_>,
    place: &Place<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let spec = value.as_doc().ok_or_else(|| {
        Error::location(
            5447000,
            format!(
                "$collStats must take a nested object but found: {}",
                value.ty().alias()
            ),
        )
    })?;
    let (mut latency, mut storage, mut count, mut exec) = (None, None, false, false);
    for elem in spec {
        let (name, given) = (elem.name(), elem.value);
        match name {
            "latencyStats" => {
                if let Some(options) = nested(name, given)? {
                    latency = Some(histograms(options)?);
                }
            }
            "storageStats" => {
                if let Some(options) = nested(name, given)? {
                    storage = Some(scale(options)?);
                }
            }
            "count" => count |= empty(name, given)?,
            "queryExecStats" => exec |= empty(name, given)?,
            "operationStats" => {
                empty(name, given)?;
            }
            other => return Err(Error::unknown_field("$collStats", other)),
        }
    }
    push(Stage::Op(Arc::new(Reports {
        on: Target::new(place.db, place.coll.unwrap_or_default()),
        what: Report::CollStats {
            latency,
            storage,
            count,
            exec,
        },
    })));
    Ok(())
}

/// Whether nothing but the number of documents is asked for.
pub(super) fn only_counts(spec: ValueRef<'_>) -> bool {
    let mut options = spec.as_doc().into_iter().flatten();
    options.all(|option| option.name() == "count")
}

/// What is said of one kind of figures; `None` for null, which asks for nothing.
fn nested<'a>(name: &str, value: ValueRef<'a>) -> Result<Option<Doc<'a>>> {
    match value.ty() {
        Type::Document => Ok(value.as_doc()),
        Type::Null => Ok(None),
        other => Err(Error::wrong_type(
            "$collStats",
            name,
            other,
            &[Type::Document],
        )),
    }
}

/// Whether figures without options are asked for.
fn empty(name: &str, value: ValueRef<'_>) -> Result<bool> {
    match nested(name, value)? {
        None => Ok(false),
        Some(doc) if doc.is_empty() => Ok(true),
        Some(_) => Err(Error::location(
            31170,
            format!("{name} argument to $collStats must be an empty object"),
        )),
    }
}

/// `{histograms}`
fn histograms(options: Doc<'_>) -> Result<bool> {
    const PATH: &str = "$collStats.latencyStats";
    let mut wanted = false;
    for elem in options {
        let (name, value) = (elem.name(), elem.value);
        if name != "histograms" {
            return Err(Error::unknown_field(PATH, name));
        }
        wanted = value
            .as_bool()
            .ok_or_else(|| Error::wrong_type(PATH, name, value.ty(), &[Type::Bool]))?;
    }
    Ok(wanted)
}

/// `{scale}`: by what sizes are divided.
fn scale(options: Doc<'_>) -> Result<f64> {
    let mut scale = 1.0;
    for elem in options {
        let (name, value) = (elem.name(), elem.value);
        if name != "scale" || value.ty() == Type::Null {
            continue;
        }
        let number = value.as_num().ok_or_else(|| {
            Error::wrong_type("$collStats.storageStats", name, value.ty(), &[Type::Int32])
        })?;
        let whole = number.to_i64_saturating();
        if whole < 1 {
            return Err(Error::bad_value(format!(
                "BSON field 'scale' value must be >= 1, actual value '{whole}'"
            )));
        }
        scale = whole as f64;
    }
    Ok(scale)
}

// === impl Reports ===

impl Op for Reports {
    fn open(self: Arc<Self>, _: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(Running(self))
    }

    fn names(&self, _: &mut Naming<'_>) {}
}

// === impl Running ===

impl Rows for Running {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
        cx.sources.report(cx, &self.0.on, &self.0.what, out)?;
        Ok(Flow::End)
    }

    fn at_rest(&mut self) -> usize {
        0
    }
}
