//! The values of variables and the time, while a tree runs.

use crate::error::{Code, Error, Result};
use crate::query::expr::{MAX_LIVE_BYTES, shallow};
use crate::query::{Expr, Scope, scope};
use crate::value::{Doc, Millis, Value, ValueRef};

/// What a run is given: immutable, one for a whole command (or, in a `$lookup` with `let`, one for each outer document).
#[derive(Debug, Clone)]
pub struct Vars {
    /// The moment at which documents are looked at.
    now: Millis,
    /// The moment of the command that everything began with.
    began: Millis,
    /// In a standalone there is no cluster time.
    clustered: bool,
    /// By slot of the [`Scope`] that the tree was parsed in.
    values: Vec<Value>,
}

// === impl Vars ===

impl Vars {
    /// No variables; `$$NOW` is `now`.
    pub fn at(now: Millis) -> Self {
        Self {
            now,
            began: now,
            clustered: true,
            values: Vec::new(),
        }
    }

    /// As in a standalone: `$$CLUSTER_TIME` is refused.
    #[must_use]
    pub fn without_cluster_time(mut self) -> Self {
        self.clustered = false;
        self
    }

    /// These and further variables, in the next slots.
    #[must_use]
    pub fn with(&self, values: impl IntoIterator<Item = Value>) -> Self {
        let mut vars = self.clone();
        vars.values.extend(values);
        vars
    }

    /// The same variables, with documents looked at at another moment: for a getMore, which is a command of its own.
    #[must_use]
    pub fn moved_to(&self, now: Millis) -> Self {
        Self {
            now,
            ..self.clone()
        }
    }

    pub fn now(&self) -> Millis {
        self.now
    }

    /// `$$NOW`: of a cursor the moment at which it was opened, whatever moment it is read at.
    pub fn began(&self) -> Millis {
        self.began
    }

    /// `$$CLUSTER_TIME`: the second of [`Vars::began`], and its milliseconds as the increment, so that it grows from
    /// one command to a later one.
    pub fn cluster_time(&self) -> Option<(u32, u32)> {
        let seconds = u32::try_from(self.began.seconds()).unwrap_or_default();
        let millis = u32::try_from(self.began.0.rem_euclid(1000)).unwrap_or_default();
        self.clustered.then_some((seconds, millis + 1))
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Bytes that the values take.
    pub fn held(&self) -> usize {
        let bytes = |value: &Value| size_of::<Value>() + value.as_ref().data().len();
        self.values.iter().map(bytes).sum()
    }

    #[inline]
    pub fn get(&self, slot: usize) -> Option<ValueRef<'_>> {
        self.values.get(slot).map(Value::as_ref)
    }
}

/// The `let` of a command: evaluated at once, each entry in reach of the next. It runs before any document is read,
/// so it may not name a field.
pub fn bind_let(vars: &Vars, scope: &Scope, spec: Doc<'_>) -> Result<(Scope, Vars)> {
    let (mut scope, mut vars) = (scope.clone(), vars.clone());
    let mut held = 0;
    for elem in spec {
        let name = elem.name();
        if matches!(name, "NOW" | "CLUSTER_TIME") {
            return Err(Error::location(
                4738901,
                format!("Attempt to set internal constant: {name}"),
            ));
        }
        if elem
            .value
            .as_str()
            .is_some_and(|text| matches!(text, "$$NOW" | "$$CLUSTER_TIME"))
        {
            return Err(Error::location(
                51144,
                "Command let expressions cannot use the builtin variables NOW and CLUSTER_TIME",
            ));
        }
        scope::check_definable(name)?;
        let expr = Expr::parse(elem.value, &scope)?;
        if expr.reads_document() {
            return Err(Error::location(
                4890500,
                "Command let Expression tried to access a field, but this is not allowed because Command let \
                 Expressions run before the query examines any documents.",
            ));
        }
        let value = shallow(expr.eval(Doc::EMPTY, &vars)?)?.into_value();
        held += value.as_ref().data().len();
        // Each is bounded, but a short text can name many.
        if held > MAX_LIVE_BYTES {
            return Err(Error::new(
                Code::ExceededMemoryLimit,
                format!("The variables of 'let' take more than {MAX_LIVE_BYTES} bytes"),
            ));
        }
        scope.define(name);
        vars.values.push(value);
    }
    Ok((scope, vars))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DocBuf;
    use bson::doc;

    #[test]
    fn let_entries_see_those_before_them() {
        let bind = |spec: bson::Document| {
            bind_let(
                &Vars::at(Millis(5)),
                &Scope::new(),
                DocBuf::from(spec).as_doc(),
            )
        };
        let (scope, vars) = bind(doc! {"a": 1, "b": ["$$a", "$$NOW"]}).unwrap();
        assert_eq!(scope.slot("b"), Some(1));
        assert_eq!(format!("{:?}", vars.get(0)), "Some(Some(1))");
        assert_eq!(bind(doc! {"a": "$x"}).unwrap_err().code().number(), 4890500);
        assert_eq!(bind(doc! {"A": 1}).unwrap_err().code().number(), 9);
        assert_eq!(bind(doc! {"b": "$$a"}).unwrap_err().code().number(), 17276);
    }
}
