//! A set of BSON types, as `$type` and `$jsonSchema` name them.

use super::integer;
use crate::{
    error::{Error, Result},
    value::{Type, ValueRef},
};

/// A set of BSON types with one bit per type tag. MinKey (255) and MaxKey (127) are moved next to the others.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct TypeSet(u32);

/// The alias for all four number types.
const NUMBER: &str = "number";

// === impl TypeSet ===

impl TypeSet {
    pub fn of(types: &[Type]) -> Self {
        let mut set = Self::default();
        types.iter().for_each(|&ty| set.add(ty));
        set
    }

    fn bit(ty: Type) -> u32 {
        match ty {
            Type::MinKey => 1 << 30,
            Type::MaxKey => 1 << 31,
            ty => 1 << ty.tag(),
        }
    }

    fn add(&mut self, ty: Type) {
        self.0 |= Self::bit(ty);
    }

    #[inline]
    pub fn has(self, ty: Type) -> bool {
        ty != Type::Missing && self.0 & Self::bit(ty) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the set without these types.
    #[must_use]
    pub fn without(self, types: &[Type]) -> Self {
        Self(self.0 & !Self::of(types).0)
    }

    /// Parses the argument of `$type`: an alias, a number, or an array of them.
    pub(super) fn parse(path: &str, arg: ValueRef<'_>) -> Result<Self> {
        let mut set = Self::default();
        match arg.as_array() {
            Some(array) => {
                for elem in array {
                    set.add_one(elem.value)?;
                }
            }
            None => set.add_one(arg)?,
        }
        if set.is_empty() {
            return Err(Error::failed_to_parse(format!(
                "{path} must match at least one type"
            )));
        }
        Ok(set)
    }

    fn add_one(&mut self, arg: ValueRef<'_>) -> Result<()> {
        if let Some(alias) = arg.as_str() {
            return self.add_alias(alias, Type::from_alias);
        }
        if !arg.ty().is_number() {
            return Err(Error::type_mismatch(
                "type must be represented as a number or a string",
            ));
        }
        let invalid = || {
            let shown = integer::show(arg);
            Error::bad_value(format!("Invalid numerical type code: {shown}"))
        };
        let code = integer::exact(arg).ok_or_else(invalid)?;
        match code {
            0 => Err(Error::bad_value(
                "Invalid numerical type code: 0. Instead use {$exists:false}.",
            )),
            -1 => {
                self.add(Type::MinKey);
                Ok(())
            }
            1..=127 => {
                self.add(Type::from_tag(code as u8).ok_or_else(invalid)?);
                Ok(())
            }
            _ => Err(invalid()),
        }
    }

    /// Adds the type that an alias has in the given vocabulary, or all number types.
    pub(super) fn add_alias(
        &mut self,
        alias: &str,
        vocabulary: impl Fn(&str) -> Option<Type>,
    ) -> Result<()> {
        if alias == NUMBER {
            *self = Self(self.0 | Self::numbers().0);
            return Ok(());
        }
        let ty = vocabulary(alias)
            .ok_or_else(|| Error::bad_value(format!("Unknown type name alias: {alias}")))?;
        self.add(ty);
        Ok(())
    }

    pub(super) fn numbers() -> Self {
        Self::of(&[Type::Double, Type::Int32, Type::Int64, Type::Decimal])
    }
}

impl std::fmt::Debug for TypeSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
