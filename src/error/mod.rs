//! The three kinds of errors.
//!
//! - [`Error`] becomes a reply `{ok: 0, code, codeName, errmsg}` with the number and the message that mongod uses.
//! - [`WriteError`] is one entry of `writeErrors` in a successful reply of a write command.
//! - [`Hangup`] means that no reply can be given: the server closes this connection, and other connections go on.
//!
//! `code` is the table of codes and `field` has the errors that all commands share. This module knows no command.

mod code;
mod field;
mod hangup;
mod reply;
mod write;

use std::fmt;

pub use code::Code;
pub use hangup::Hangup;
pub use write::WriteError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed command. It is a single pointer, because nearly every function on the hot path returns it.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<ErrorData>);

#[derive(Clone, PartialEq, Eq)]
struct ErrorData {
    code: Code,
    message: String,
    /// Further fields of the reply as a BSON document, such as `keyPattern` and `keyValue` of a duplicate key.
    details: Option<Vec<u8>>,
    /// The entry of `errorLabels`, which tells drivers how to go on.
    label: Option<&'static str>,
}

// === impl Error ===

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorData {
            code,
            message: message.into(),
            details: None,
            label: None,
        }))
    }

    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(Code::BadValue, message)
    }

    pub fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::new(Code::FailedToParse, message)
    }

    pub fn type_mismatch(message: impl Into<String>) -> Self {
        Self::new(Code::TypeMismatch, message)
    }

    /// Returns an error that mongod knows by its number only. Its codeName is `Location<number>`.
    pub fn location(number: i32, message: impl Into<String>) -> Self {
        Self::new(Code::Location(number), message)
    }

    /// Refuses a feature that MongoDB has and Sundown does not have (yet). Such a feature is never ignored.
    pub fn not_implemented(what: impl fmt::Display) -> Self {
        Self::new(
            Code::NotImplemented,
            format!("{what} is not implemented in Sundown"),
        )
    }

    #[must_use]
    pub fn with_details(mut self, document: Vec<u8>) -> Self {
        self.0.details = Some(document);
        self
    }

    #[must_use]
    pub fn with_label(mut self, label: &'static str) -> Self {
        self.0.label = Some(label);
        self
    }

    /// Puts `context` in front of the message, as mongod does: `context :: caused by :: message`.
    #[must_use]
    pub fn caused(mut self, context: &str) -> Self {
        self.0.message = format!("{context} :: caused by :: {}", self.0.message);
        self
    }

    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Returns whether the error ends the whole command, not only one of its statements.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self.0.code,
            Code::Interrupted | Code::MaxTimeMSExpired | Code::WriteConflict
        )
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn details(&self) -> Option<&[u8]> {
        self.0.details.as_deref()
    }

    pub fn label(&self) -> Option<&'static str> {
        self.0.label
    }
}

/// Converts the number and the message of an error that mongod knows by its number only.
impl From<(i32, String)> for Error {
    fn from((number, words): (i32, String)) -> Self {
        Self::location(number, words)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.0.code.number(),
            self.0.code.name(),
            self.0.message
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}
