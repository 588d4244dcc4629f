//! The values of variables and the time, known while a tree runs.

use crate::error::{Code, Error, Result};
use crate::query::expr::{MAX_LIVE_BYTES, shallow};
use crate::query::{Expr, Scope, scope};
use crate::value::{ClusterTime, Doc, Millis, Value, ValueRef};

/// The context of a run. It is immutable. A whole command shares one, but a `$lookup` with `let` has one for each outer
/// document.
#[derive(Debug, Clone)]
pub struct Vars {
    /// The time at which documents are visible.
    now: Millis,
    /// The time of the command that opened the cursor.
    start: Millis,
    /// The logical time at that moment. A standalone server has none.
    cluster_time: Option<ClusterTime>,
    /// Indexed by slot of the [`Scope`] in which the tree was parsed.
    values: Vec<Value>,
}

// === impl Vars ===

impl Vars {
    /// Creates a context without variables, in which `$$NOW` is `now`.
    pub fn at(now: Millis) -> Self {
        Self {
            now,
            start: now,
            cluster_time: None,
            values: Vec::new(),
        }
    }

    /// Sets `$$CLUSTER_TIME`, which is rejected otherwise.
    #[must_use]
    pub fn with_cluster_time(mut self, time: ClusterTime) -> Self {
        self.cluster_time = Some(time);
        self
    }

    /// Returns a copy with further variables, in the next slots.
    #[must_use]
    pub fn with(&self, values: impl IntoIterator<Item = Value>) -> Self {
        let mut vars = self.clone();
        vars.values.extend(values);
        vars
    }

    /// Returns a copy with a later `now`. A getMore needs it, because it is a command of its own.
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

    /// Returns `$$NOW`. For a cursor this is the time at which it was opened, no matter when it is read.
    pub fn start(&self) -> Millis {
        self.start
    }

    /// Returns `$$CLUSTER_TIME`: the time of the latest write before the command.
    pub fn cluster_time(&self) -> Option<ClusterTime> {
        self.cluster_time
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the bytes that the values occupy.
    pub fn held(&self) -> usize {
        let bytes = |value: &Value| size_of::<Value>() + value.as_ref().data().len();
        self.values.iter().map(bytes).sum()
    }

    #[inline]
    pub fn get(&self, slot: usize) -> Option<ValueRef<'_>> {
        self.values.get(slot).map(Value::as_ref)
    }
}

/// Evaluates the `let` of a command at once. Each entry may use the entries before it. It runs before any document is
/// read, so it may not name a field.
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
        // MongoDB does not optimise it, so a field counts even where it is never read.
        let expr = Expr::parse(elem.value, &scope.clone().of_update())?;
        if expr.reads_document() {
            return Err(Error::location(
                4890500,
                "Command let Expression tried to access a field, but this is not allowed because Command let \
                 Expressions run before the query examines any documents.",
            ));
        }
        let value = shallow(expr.eval(Doc::EMPTY, &vars)?)?.into_value();
        held += value.as_ref().data().len();
        // Each value is bounded, but a short command can define many.
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
    fn let_entries_see_earlier_entries() {
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
