//! The names of the variables that an expression may use, known while it is parsed.

use std::sync::{Arc, OnceLock};

use ahash::AHashMap;

use crate::error::{Code, Error, Result};

/// The visible variables, oldest first.
///
/// A variable's slot is its position in this list, and the position of its value in [`super::Vars`] or in a frame above
/// them. A later variable of the same name hides an earlier one.
///
/// A client may define a hundred thousand variables and read each of them in as many places. So lookups use a map, and an
/// inner scope shares the names of the outer one and does not copy them.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The variables that were defined together last, linked to those defined before.
    newest: Option<Arc<Layer>>,
    len: usize,
    /// True if the command offers neither `$$NOW` nor `$$CLUSTER_TIME`.
    without_constants: bool,
    /// True if the filter of an upsert is parsed.
    of_upsert: bool,
    /// True if the client uses only the stable API.
    api_strict: bool,
    failures: ConstantFailures,
}

/// What happens to a constant expression that fails, such as a division by zero. MongoDB reports it when it optimises the
/// expression, and keeps it where it does not.
#[derive(Debug, Clone, Default)]
enum ConstantFailures {
    #[default]
    Reported,
    /// The first one is noted here. MongoDB optimises when everything is parsed, so any other mistake is reported before it.
    Noted(Arc<OnceLock<Error>>),
    /// Kept until a document reaches it.
    Kept,
}

/// The words of MongoDB's optimiser of pipelines.
const OPTIMIZING: &str = "Failed to optimize pipeline";

#[derive(Debug, Clone, Default)]
struct Layer {
    slots: AHashMap<Box<str>, usize>,
    before: Option<Arc<Layer>>,
}

// === impl Scope ===

impl Scope {
    /// Creates a scope with the built-in variables only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a scope for `count`, `distinct` and the list commands, which run without `$$NOW` and `$$CLUSTER_TIME`.
    pub fn without_constants() -> Self {
        Self {
            without_constants: true,
            ..Self::default()
        }
    }

    /// Returns this scope for a pipeline or projection as a whole. [`Scope::noted`] returns the first constant of it that
    /// fails.
    #[must_use]
    pub fn noting(mut self) -> Self {
        self.failures = ConstantFailures::Noted(Arc::default());
        self
    }

    /// Returns this scope for expressions that MongoDB does not optimise, such as those of an update.
    #[must_use]
    pub fn of_update(mut self) -> Self {
        self.failures = ConstantFailures::Kept;
        self
    }

    /// Returns this scope for an expression that MongoDB evaluates while it parses.
    #[must_use]
    pub(super) fn at_once(mut self) -> Self {
        self.failures = ConstantFailures::Reported;
        self
    }

    /// Returns this scope for the filter of an upsert.
    #[must_use]
    pub fn of_upsert(mut self) -> Self {
        self.of_upsert = true;
        self
    }

    /// Returns this scope for a client that may use only the stable API.
    #[must_use]
    pub fn strict(self, api_strict: bool) -> Self {
        Self { api_strict, ..self }
    }

    /// Refuses an expression outside the stable API to a client that may use only that.
    pub(super) fn check_stable(&self, name: &str) -> Result<()> {
        match self.api_strict {
            true => Err(Error::new(
                Code::APIStrictError,
                format!("{name} is not allowed with 'apiStrict: true' in API Version 1"),
            )),
            false => Ok(()),
        }
    }

    /// Refuses an expression in the filter of an upsert, which copies fields from its filter: an expression gives none.
    pub(super) fn check_expression(&self) -> Result<()> {
        match self.of_upsert {
            true => Err(Error::new(
                Code::QueryFeatureNotAllowed,
                "$expr is not allowed in the query predicate for an upsert",
            )),
            false => Ok(()),
        }
    }

    /// Returns the error of a constant expression that fails, unless it is to fail later.
    pub(super) fn report(&self, failure: Error) -> Option<Error> {
        match &self.failures {
            ConstantFailures::Reported => Some(failure),
            ConstantFailures::Noted(first) => {
                first.get_or_init(|| failure);
                None
            }
            ConstantFailures::Kept => None,
        }
    }

    /// Returns whether a constant expression that fails is reported as soon as its expression is parsed.
    pub(super) fn reports_at_once(&self) -> bool {
        matches!(self.failures, ConstantFailures::Reported)
    }

    /// Returns whether MongoDB evaluates the expression as it is written, without optimising it first.
    pub(super) fn keeps_failures(&self) -> bool {
        matches!(self.failures, ConstantFailures::Kept)
    }

    /// Returns the first failure that was noted.
    pub(super) fn noted(&self) -> Option<Error> {
        match &self.failures {
            ConstantFailures::Noted(first) => first.get().cloned(),
            _ => None,
        }
    }

    /// Reports the first failure that was noted in a pipeline, in the words of MongoDB's optimiser.
    pub fn check_pipeline(&self) -> Result<()> {
        let noted = self.noted();
        noted.map_or(Ok(()), |failure| Err(failure.caused(OPTIMIZING)))
    }

    /// Rejects a built-in constant that the command does not offer.
    pub fn check_constant(&self, name: &str) -> Result<()> {
        if self.without_constants {
            let message = format!("Builtin variable '$${name}' is not available");
            return Err(Error::location(51144, message));
        }
        Ok(())
    }

    /// Returns this scope extended by further variables, in the next slots.
    #[must_use]
    pub fn with<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut scope = Self {
            newest: Some(Arc::new(Layer {
                slots: AHashMap::new(),
                before: self.newest.clone(),
            })),
            failures: self.failures.clone(),
            ..*self
        };
        for name in names {
            scope.define(name);
        }
        scope
    }

    /// Adds a variable in the next slot.
    pub fn define(&mut self, name: &str) {
        // Usually no other scope shares this layer, so `make_mut` copies nothing.
        let layer = Arc::make_mut(self.newest.get_or_insert_default());
        layer.slots.insert(name.into(), self.len);
        self.len += 1;
    }

    /// Returns the number of variables, which is the slot of the next one.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn slot(&self, name: &str) -> Option<usize> {
        let mut layer = self.newest.as_deref();
        while let Some(here) = layer {
            if let Some(slot) = here.slots.get(name) {
                return Some(*slot);
            }
            layer = here.before.as_deref();
        }
        None
    }
}

/// Checks a name that `let`, `$let` or `as` defines.
pub fn check_definable(name: &str) -> Result<()> {
    if name == "CURRENT" {
        return Ok(());
    }
    check(name, |c| c.is_ascii_lowercase() || !c.is_ascii())
}

/// Checks a name that follows `$$`.
pub fn check_readable(name: &str) -> Result<()> {
    check(name, |c| c.is_ascii_alphabetic() || !c.is_ascii())
}

fn check(name: &str, starts: impl Fn(char) -> bool) -> Result<()> {
    let mut letters = name.chars();
    let Some(first) = letters.next() else {
        return Err(Error::failed_to_parse(
            "empty variable names are not allowed",
        ));
    };
    if !starts(first) {
        return Err(Error::failed_to_parse(format!(
            "'{name}' starts with an invalid character for a user variable name"
        )));
    }
    match letters.find(|&c| c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_') {
        Some(bad) => Err(Error::failed_to_parse(format!(
            "'{name}' contains an invalid character for a variable name: '{bad}'"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, read, write) in [
            ("a", 0, 0),
            ("aB_9", 0, 0),
            ("é", 0, 0),
            ("", 9, 9),
            ("Up", 0, 9),
            ("9a", 9, 9),
            ("a-b", 9, 9),
            ("CURRENT", 0, 0),
            ("ROOT", 0, 9),
        ] {
            let code = |result: Result<()>| result.err().map_or(0, |e| e.code().number());
            assert_eq!(
                (code(check_readable(name)), code(check_definable(name))),
                (read, write),
                "{name:?}"
            );
        }
    }

    #[test]
    fn the_innermost_variable_wins() {
        let scope = Scope::new().with(["a", "b"]).with(["a"]);
        assert_eq!(scope.slot("a"), Some(2));
        assert_eq!(scope.slot("b"), Some(1));
        assert_eq!(scope.slot("c"), None);
    }
}
