//! What may be wrong with a field of a command, a stage or an operator, in the words that mongod has for all of them.

use super::{Code, Error};
use crate::value::Type;

impl Error {
    /// A field that has to be there is not.
    pub fn missing_field(path: &str, name: &str) -> Self {
        Self::new(
            Code::IDLFailedToParse,
            format!("BSON field '{path}.{name}' is missing but a required field"),
        )
    }

    /// There is no such field.
    pub fn unknown_field(path: &str, name: &str) -> Self {
        Self::new(
            Code::IDLUnknownField,
            format!("BSON field '{path}.{name}' is an unknown field."),
        )
    }

    /// The field has the wrong type; several expected types are printed as a list.
    pub fn wrong_type(path: &str, name: &str, got: Type, expected: &[Type]) -> Self {
        let expected = match expected {
            [one] => format!("type '{}'", one.alias()),
            many => {
                let names: Vec<_> = many.iter().map(|ty| ty.alias()).collect();
                format!("types '[{}]'", names.join(", "))
            }
        };
        let dot = if path.is_empty() { "" } else { "." };
        Self::type_mismatch(format!(
            "BSON field '{path}{dot}{name}' is the wrong type '{}', expected {expected}",
            got.alias()
        ))
    }
}
