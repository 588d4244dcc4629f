//! `$readPreference`: checked as in MongoDB, then accepted. All reads go to the only node.

use super::Command;
use crate::args::{Arg, NUMBERS, fields, required};
use crate::error::{Code, Error, Result};
use crate::value::{Doc, Type, ValueRef};

const PATH: &str = "readPreference";
const PRIMARY: &str = "primary";
const MODES: &[&str] = &[
    "nearest",
    PRIMARY,
    "primaryPreferred",
    "secondary",
    "secondaryPreferred",
];
/// The least allowed staleness in seconds. A client cannot measure the lag of a member more precisely.
const LEAST_STALENESS: i64 = 90;

pub fn check(command: &Command, value: ValueRef<'_>) -> Result<()> {
    if value.is_nullish() {
        return Ok(());
    }
    let Some(preference) = value.as_doc() else {
        return Err(Error::wrong_type(
            command.name,
            "$readPreference",
            value.ty(),
            &[Type::Document],
        ));
    };
    let mut mode = None;
    let (mut tagged, mut hedged, mut staleness) = (false, false, 0);
    // Unknown fields are ignored.
    for arg in fields(PATH, preference) {
        match arg.name() {
            "mode" => mode = arg.one_of(MODES)?,
            "tags" => tagged = arg.array()?.is_some_and(names_members),
            "hedge" => hedged = arg.doc()?.map_or(Ok(false), is_hedged)?,
            "maxStalenessSeconds" => staleness = read_staleness(arg)?,
            _ => {}
        }
    }
    if required(mode, PATH, "mode")? != PRIMARY {
        return Ok(());
    }
    if hedged {
        return Err(Error::new(
            Code::InvalidOptions,
            "cannot enable hedging for $readPreference mode \"primaryOnly\"",
        ));
    }
    if tagged {
        return Err(Error::bad_value(
            "Only empty tags are allowed with primary read preference",
        ));
    }
    if staleness != 0 {
        return Err(Error::bad_value(
            "maxStalenessSeconds can not be set for the primary mode",
        ));
    }
    Ok(())
}

/// Whether the tags select particular members. `[]` and `[{}]` mean any member.
fn names_members(tags: Doc<'_>) -> bool {
    let any = |value: ValueRef<'_>| value.as_doc().is_some_and(|tags| tags.first().is_none());
    let mut sets = tags.iter();
    match (sets.next(), sets.next()) {
        (None, _) => false,
        (Some(only), None) => !any(only.value),
        _ => true,
    }
}

fn is_hedged(hedge: Doc<'_>) -> Result<bool> {
    let mut enabled = true;
    for arg in fields("readPreference.hedge", hedge) {
        match arg.name() {
            "enabled" => enabled = arg.strict_bool()?.unwrap_or(true),
            _ => return Err(arg.unknown()),
        }
    }
    Ok(enabled)
}

fn read_staleness(arg: Arg<'_>) -> Result<i64> {
    if !arg.is_null() && !arg.value().ty().is_number() {
        return Err(arg.wrong_type(NUMBERS));
    }
    let name = arg.name();
    match arg.int()?.unwrap_or(0) {
        0 => Ok(0),
        ..0 => Err(Error::bad_value(format!(
            "{name} must be a non-negative integer"
        ))),
        i64::MAX => Err(Error::bad_value(format!(
            "{name} value cannot exceed {}",
            i64::MAX
        ))),
        1..LEAST_STALENESS => Err(Error::new(
            Code::MaxStalenessOutOfRange,
            format!("{name} value cannot be less than {LEAST_STALENESS}"),
        )),
        seconds => Ok(seconds),
    }
}
