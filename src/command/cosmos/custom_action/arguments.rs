//! The arguments of an action.

use super::{AUTOSCALE, MANUAL};
use crate::args::{Arg, fields, required};
use crate::command::Call;
use crate::cosmos::Offer;
use crate::error::{Error, Result};
use crate::names::check_collection;
use crate::value::{Doc, DocBuf};

#[derive(Default)]
pub struct ActionArguments<'a> {
    collection: Option<&'a str>,
    pub offer: Option<Offer>,
    pub shard_key: Option<DocBuf>,
    pub indexes: Option<Vec<Doc<'a>>>,
    pub show_indexes: bool,
}

// === impl ActionArguments ===

impl<'a> ActionArguments<'a> {
    /// Reads the fields that the action takes. Cosmos DB ignores unknown fields. Sundown refuses them, because a TTL set by
    /// such a field would silently have no effect.
    pub fn read(call: &Call<'a>, known: &[&str]) -> Result<Self> {
        call.only(known)?;
        let mut arguments = Self::default();
        for arg in call.args().skip(1) {
            match arg.name() {
                "collection" => arguments.collection = arg.str()?,
                MANUAL => {
                    let units = arg.int()?;
                    let offer = units.map(|units| units_in(units, 400, 100).map(Offer::Manual));
                    arguments.set_offer(offer.transpose()?)?;
                }
                AUTOSCALE => {
                    let offer = arg.doc()?.map(autoscale);
                    arguments.set_offer(offer.transpose()?)?;
                }
                "shardKey" => arguments.shard_key = shard_key(&arg)?,
                "indexes" => arguments.indexes = arg.docs()?,
                "showIndexes" => arguments.show_indexes = arg.bool()?.unwrap_or(false),
                _ => return Err(arg.unknown()),
            }
        }
        Ok(arguments)
    }

    fn set_offer(&mut self, offer: Option<Offer>) -> Result<()> {
        if self.offer.is_some() && offer.is_some() {
            return Err(Error::bad_value(
                "customAction takes either offerThroughput or autoScaleSettings, not both",
            ));
        }
        self.offer = self.offer.or(offer);
        Ok(())
    }

    pub fn collection(&self, call: &Call<'_>) -> Result<&'a str> {
        let name = required(self.collection, "customAction", "collection")?;
        check_collection(call.database(), name)?;
        Ok(name)
    }
}

/// Reads `{maxThroughput: n}`.
fn autoscale(settings: Doc<'_>) -> Result<Offer> {
    let path = "customAction.autoScaleSettings";
    let mut most = None;
    for field in fields(path, settings) {
        match field.name() {
            "maxThroughput" => most = field.int()?,
            _ => return Err(field.unknown()),
        }
    }
    let most = most.ok_or_else(|| Error::missing_field(path, "maxThroughput"))?;
    units_in(most, 1000, 1000).map(Offer::Autoscale)
}

/// Checks that throughput is a multiple of `step` and at least `least`.
fn units_in(units: i64, least: i64, step: i64) -> Result<u32> {
    match u32::try_from(units) {
        Ok(fits) if units >= least && units % step == 0 => Ok(fits),
        _ => Err(Error::bad_value(format!(
            "Throughput must be a multiple of {step} and at least {least}, but found: {units}"
        ))),
    }
}

/// Reads a shard key. A path stands for `{path: "hashed"}`.
fn shard_key(arg: &Arg<'_>) -> Result<Option<DocBuf>> {
    let Some(path) = arg.str()? else {
        return Ok(None);
    };
    let is_name = |part: &str| !part.is_empty() && !part.starts_with('$');
    if !path.split('.').all(is_name) {
        return Err(Error::bad_value(format!(
            "customAction 'shardKey' must be the path of a field, but found: '{path}'"
        )));
    }
    Ok(Some(DocBuf::build(|key| {
        key.put_str(path, "hashed");
    })))
}
