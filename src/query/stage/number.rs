//! Counts in the arguments of stages.

use crate::value::{Num, ValueRef};

/// Returns a whole non-negative number. Otherwise returns the reason, in mongod's words.
pub(super) fn non_negative(value: ValueRef<'_>, name: &str) -> Result<u64, String> {
    let shown = || format!("{name}: {}", value);
    let Some(number) = value.as_num() else {
        return Err(format!("Expected a number in: {}", shown()));
    };
    let integer = match number {
        Num::Int32(n) => i64::from(n),
        Num::Int64(n) => n,
        other => match other.to_i64_exact() {
            Some(n) => n,
            None => {
                let double = other.to_f64();
                return Err(if double.is_finite() && double.fract() != 0.0 {
                    format!("Expected an integer: {}", shown())
                } else {
                    format!("Cannot represent as a 64-bit integer: {}", shown())
                });
            }
        },
    };
    u64::try_from(integer).map_err(|_| format!("Expected a non-negative number in: {}", shown()))
}
