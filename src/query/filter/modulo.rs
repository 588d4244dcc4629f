//! `$mod: [divisor, remainder]`. Both numbers and the value of the field are truncated to integers.

use super::{
    FilterNode, Test, integer,
    parse::{OperatorSite, ParseContext},
};
use crate::{
    error::{Error, Result},
    value::ValueRef,
};

#[derive(Debug, Clone)]
pub struct Modulo {
    pub divisor: i64,
    pub remainder: i64,
}

// === impl Modulo ===

impl Modulo {
    pub fn passes(&self, value: ValueRef<'_>) -> bool {
        // `wrapping_rem`: i64::MIN % -1 is 0, not an overflow.
        integer::is_number(value)
            && integer::truncated(value)
                .is_ok_and(|number| number.wrapping_rem(self.divisor) == self.remainder)
    }
}

pub(super) fn modulo(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    let malformed = |what: &str| Error::bad_value(format!("malformed mod, {what}"));
    let array = arg
        .as_array()
        .ok_or_else(|| malformed("needs to be an array"))?;
    let mut args = array.iter().map(|elem| elem.value);
    let mut next = |name: &str| -> Result<i64> {
        let arg = args
            .next()
            .ok_or_else(|| malformed("not enough elements"))?;
        if !integer::is_number(arg) {
            return Err(malformed(&format!("{name} not a number")));
        }
        integer::truncated(arg)
            .map_err(|why| malformed(&format!("{name} value is invalid :: caused by :: {why}")))
    };
    let divisor = next("divisor")?;
    let remainder = next("remainder")?;
    if args.next().is_some() {
        return Err(malformed("too many elements"));
    }
    if divisor == 0 {
        return Err(Error::bad_value("divisor cannot be 0"));
    }
    Ok(Some(FilterNode::field(
        site.path,
        Test::Mod(Modulo { divisor, remainder }),
    )))
}
