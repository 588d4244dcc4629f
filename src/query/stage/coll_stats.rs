//! `$collStats`: figures of the collection, as one row.

use std::sync::Arc;

use super::{Batch, Cx, Flow, Op, Place, Report, Rows, Stage, Target};
use crate::error::{Error, Result};
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
        let name = elem.name();
        let nested = || -> Result<Option<Doc<'_>>> {
            match elem.value.ty() {
                Type::Document => Ok(elem.value.as_doc()),
                Type::Null => Ok(None),
                other => Err(Error::wrong_type(
                    "$collStats",
                    name,
                    other,
                    &[Type::Document],
                )),
            }
        };
        let empty = || -> Result<bool> {
            match nested()? {
                None => Ok(false),
                Some(doc) if doc.is_empty() => Ok(true),
                Some(_) => Err(Error::location(
                    31170,
                    format!("{name} argument to $collStats must be an empty object"),
                )),
            }
        };
        match name {
            "latencyStats" => {
                for inner in nested()?.into_iter().flatten() {
                    if inner.name() != "histograms" {
                        return Err(Error::unknown_field(
                            "$collStats.latencyStats",
                            inner.name(),
                        ));
                    }
                    match inner.value.ty() {
                        Type::Bool => latency = inner.value.as_bool(),
                        other => {
                            return Err(Error::wrong_type(
                                "$collStats.latencyStats",
                                "histograms",
                                other,
                                &[Type::Bool],
                            ));
                        }
                    }
                }
                if elem.value.ty() == Type::Document {
                    latency = Some(latency.unwrap_or(false));
                }
            }
            "storageStats" => {
                let mut scale = 1.0;
                for inner in nested()?.into_iter().flatten() {
                    if inner.name() != "scale" || inner.value.ty() == Type::Null {
                        continue;
                    }
                    let Some(number) = inner.value.as_num() else {
                        return Err(Error::wrong_type(
                            "$collStats.storageStats",
                            "scale",
                            inner.value.ty(),
                            &[Type::Int32],
                        ));
                    };
                    let whole = number.to_i64_saturating();
                    if whole < 1 {
                        return Err(Error::bad_value(format!(
                            "BSON field 'scale' value must be >= 1, actual value '{whole}'"
                        )));
                    }
                    scale = whole as f64;
                }
                if elem.value.ty() == Type::Document {
                    storage = Some(scale);
                }
            }
            "count" => count |= empty()?,
            "queryExecStats" => exec |= empty()?,
            "operationStats" => {
                empty()?;
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

// === impl Reports ===

impl Op for Reports {
    fn open(self: Arc<Self>, _: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(Running(self))
    }

    fn is_source(&self) -> bool {
        true
    }
}

// === impl Running ===

impl Rows for Running {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
        cx.sources.report(cx, &self.0.on, &self.0.what, out)?;
        Ok(Flow::End)
    }
}
