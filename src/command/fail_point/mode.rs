//! How often a fail point strikes.

use crate::error::{Error, Result};
use crate::value::{Num, ValueRef};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FailPointMode {
    Off,
    AlwaysOn,
    /// Strikes this many times, then never again.
    Times(i64),
    /// Skips this many times, then always strikes.
    Skip(i64),
    /// Strikes with this probability.
    Sometimes(f64),
}

// === impl FailPointMode ===

impl FailPointMode {
    /// Parses `"off"`, `"alwaysOn"`, `{times: n}`, `{skip: n}` or `{activationProbability: p}`.
    pub fn parse(value: ValueRef<'_>) -> Result<Self> {
        if let Some(name) = value.as_str() {
            return match name {
                "off" => Ok(Self::Off),
                "alwaysOn" => Ok(Self::AlwaysOn),
                _ => Err(Error::bad_value(format!("unknown mode: {name}"))),
            };
        }
        let Some(doc) = value.as_doc() else {
            return Err(Error::type_mismatch(
                "'mode' must be a string or JSON object",
            ));
        };
        match doc.first() {
            Some(elem) if elem.name() == "times" => count("times", elem.value).map(Self::Times),
            Some(elem) if elem.name() == "skip" => count("skip", elem.value).map(Self::Skip),
            Some(elem) if elem.name() == "activationProbability" => odds(elem.value),
            _ => Err(Error::bad_value(
                "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or '{activationProbability:p}'",
            )),
        }
    }

    /// Decides whether the fail point strikes this time. `entered` is the number of strikes so far.
    pub fn strikes(&mut self, entered: i64) -> bool {
        match self {
            Self::Off => false,
            Self::AlwaysOn => true,
            Self::Times(left) => {
                *left -= 1;
                if *left <= 0 {
                    *self = Self::Off;
                }
                true
            }
            Self::Skip(left) if *left > 0 => {
                *left -= 1;
                false
            }
            Self::Skip(_) => true,
            Self::Sometimes(odds) => {
                // A hash with a new random key each time serves as a random number.
                let drawn = ahash::RandomState::new().hash_one(entered) >> 11;
                (drawn as f64 / (1_u64 << 53) as f64) < *odds
            }
        }
    }
}

fn odds(value: ValueRef<'_>) -> Result<FailPointMode> {
    let Some(odds) = value.as_num().map(Num::to_f64) else {
        return Err(Error::type_mismatch(
            "the 'activationProbability' option to 'mode' must be a double between 0 and 1",
        ));
    };
    match (0.0..=1.0).contains(&odds) {
        true => Ok(FailPointMode::Sometimes(odds)),
        false => Err(Error::bad_value(format!(
            "activationProbability must be between 0.0 and 1.0; found {odds}"
        ))),
    }
}

fn count(option: &str, value: ValueRef<'_>) -> Result<i64> {
    let Some(number) = value.as_num() else {
        return Err(Error::type_mismatch(format!(
            "'{option}' option to 'mode' must be a number"
        )));
    };
    let count = number.to_i64_saturating();
    if count < 0 {
        return Err(Error::bad_value(format!(
            "'{option}' option to 'mode' must be positive"
        )));
    }
    if count > i64::from(i32::MAX) {
        return Err(Error::bad_value(format!(
            "'{option}' option to 'mode' is too large"
        )));
    }
    Ok(count)
}
