//! Differences that have a reason. Everything else is a fault.

use crate::pair::Difference;

/// A difference of one cause.
struct Known {
    /// A difference of version with where it is told, or the entry of the list of faults that is to be mended.
    reason: &'static str,
    is: fn(&Difference) -> bool,
}

const KNOWN: &[Known] = &[
    Known {
        reason: "8.2: dropping what is not there is no error since 7.0 (SERVER-43894)",
        is: |found| found.says("drop") && found.codes() == (26, 0),
    },
    Known {
        reason: "8.2: codes of the IDL parser have names (error_codes.yml)",
        is: |found| matches!(found.codes(), (40414, 40414) | (40415, 40415)),
    },
];

pub fn reason(difference: &Difference) -> Option<&'static str> {
    let known = KNOWN.iter().find(|known| (known.is)(difference))?;
    Some(known.reason)
}
