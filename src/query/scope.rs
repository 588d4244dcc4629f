//! The names of variables that an expression may use, while it is parsed.

use std::sync::Arc;

use ahash::AHashMap;

use crate::error::{Error, Result};

/// The variables in reach, oldest first. A variable's slot is its place among them, and its value's place in
/// [`super::Vars`] or in a frame above them. A later variable of the same name hides an earlier one.
///
/// A client may define a hundred thousand and read each of them in as many places, so none is looked for one by one, and no
/// name is copied for the scopes within.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// What was defined together, and what was in reach before.
    newest: Option<Arc<Layer>>,
    len: usize,
    /// The command offers neither `$$NOW` nor `$$CLUSTER_TIME`.
    without_constants: bool,
}

#[derive(Debug, Clone, Default)]
struct Layer {
    slots: AHashMap<Box<str>, usize>,
    before: Option<Arc<Layer>>,
}

// === impl Scope ===

impl Scope {
    /// No variables but the built-in ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// As in count, distinct and the commands that list: they run without `$$NOW` and `$$CLUSTER_TIME`.
    pub fn without_constants() -> Self {
        Self {
            without_constants: true,
            ..Self::default()
        }
    }

    /// Refuses a built-in constant where there is none.
    pub fn check_constant(&self, name: &str) -> Result<()> {
        if self.without_constants {
            let message = format!("Builtin variable '$${name}' is not available");
            return Err(Error::location(51144, message));
        }
        Ok(())
    }

    /// This scope and further variables, in the next slots.
    #[must_use]
    pub fn with<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut scope = Self {
            newest: Some(Arc::new(Layer {
                slots: AHashMap::new(),
                before: self.newest.clone(),
            })),
            ..*self
        };
        for name in names {
            scope.define(name);
        }
        scope
    }

    /// Adds a variable, in the next slot.
    pub fn define(&mut self, name: &str) {
        // Nobody else has this layer, as a rule.
        let layer = Arc::make_mut(self.newest.get_or_insert_default());
        layer.slots.insert(name.into(), self.len);
        self.len += 1;
    }

    /// How many slots are taken: the next variable's slot.
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

/// Names that `let`, `$let` and `as` may define.
pub fn check_definable(name: &str) -> Result<()> {
    if name == "CURRENT" {
        return Ok(());
    }
    check(name, |c| c.is_ascii_lowercase() || !c.is_ascii())
}

/// Names that may stand behind `$$`.
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
    fn the_newest_wins() {
        let scope = Scope::new().with(["a", "b"]).with(["a"]);
        assert_eq!(scope.slot("a"), Some(2));
        assert_eq!(scope.slot("b"), Some(1));
        assert_eq!(scope.slot("c"), None);
    }
}
