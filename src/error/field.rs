//! Errors about the fields of a command, a stage or an operator, with the codes and messages that mongod uses for all of
//! them.

use super::{Code, Error};
use crate::value::Type;

impl Error {
    /// Returns an error that mongod knows by its number. `{}` in `words` is replaced by what was found: a type or a name.
    pub fn found(number: i32, words: &str, found: &str) -> Self {
        Self::location(number, words.replacen("{}", found, 1))
    }

    /// A required field is missing.
    pub fn missing_field(path: &str, name: &str) -> Self {
        Self::new(
            Code::IDLFailedToParse,
            format!("BSON field '{path}.{name}' is missing but a required field"),
        )
    }

    /// The field is unknown.
    pub fn unknown_field(path: &str, name: &str) -> Self {
        Self::new(
            Code::IDLUnknownField,
            format!("BSON field '{path}.{name}' is an unknown field."),
        )
    }

    /// The field is given twice.
    pub fn duplicate_field(path: &str, name: &str) -> Self {
        Self::new(
            Code::IDLDuplicateField,
            format!("BSON field '{path}.{name}' is a duplicate field"),
        )
    }

    /// The field has the wrong type. Several expected types are printed as a list.
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

    /// The field is binary data of the wrong subtype.
    pub fn wrong_subtype(path: &str, name: &str, got: u8, expected: u8) -> Self {
        Self::type_mismatch(format!(
            "BSON field '{path}.{name}' is the wrong binData type '{}', expected type '{}'",
            subtype_name(got),
            subtype_name(expected)
        ))
    }
}

fn subtype_name(subtype: u8) -> &'static str {
    match subtype {
        0 => "general",
        1 => "function",
        2 => "byte(deprecated)",
        3 => "UUID(deprecated)",
        4 => "UUID",
        5 => "MD5",
        6 => "encrypt",
        7 => "column",
        8 => "sensitive",
        9 => "vector",
        _ => "Custom",
    }
}
