//! Parses BSON into expressions.

use ahash::AHashSet;

use super::args::ExprArgument;
use super::node::Expr;
use super::table::{Arity, EXPRESSIONS, ExprParser};
use super::text::check_length;
use super::{FieldPath, associative, field};
use crate::error::{Code, Error, Result};
use crate::interrupt;
use crate::query::{Scope, scope};
use crate::value::{Doc, Type, Value, ValueRef};

/// Parses an expression, a literal, or an object or array of them.
pub fn operand(value: ValueRef<'_>, scope: &Scope) -> Result<Expr> {
    interrupt::tick(1)?;
    match value.ty() {
        Type::String => match value.as_str() {
            Some(text) if text.starts_with('$') => path(text, scope),
            _ => {
                check_length(value.data().len().saturating_sub(5))?;
                Ok(Expr::Const(value.to_value()))
            }
        },
        Type::Document => object(Doc::new(value.data()), scope),
        Type::Array => {
            let items: Vec<Expr> = Doc::new(value.data())
                .iter()
                .map(|elem| operand(elem.value, scope))
                .collect::<Result<_>>()?;
            Ok(Expr::Array(items.into()).fold())
        }
        _ => Ok(Expr::Const(value.to_value())),
    }
}

/// Parses "$a.b", "$$x" or "$$x.a.b".
pub fn path(text: &str, scope: &Scope) -> Result<Expr> {
    let Some(rest) = text.strip_prefix('$') else {
        return Err(Error::location(
            16873,
            format!("FieldPath '{text}' doesn't start with $"),
        ));
    };
    if rest.is_empty() {
        return Err(Error::location(
            16872,
            "'$' by itself is not a valid FieldPath",
        ));
    }
    let Some(variable) = rest.strip_prefix('$') else {
        // "$a" means "$$CURRENT.a", and the client may have bound CURRENT to another value.
        let path = FieldPath::parse(rest)?;
        return Ok(match scope.slot("CURRENT") {
            Some(slot) => Expr::Var {
                slot,
                path: Some(path),
            },
            None => Expr::Field(path),
        });
    };
    let (name, below) = match variable.split_once('.') {
        Some((name, below)) => (name, Some(below)),
        None => (variable, None),
    };
    scope::check_readable(name)?;
    if variable.ends_with('.') {
        return Err(Error::location(40353, "FieldPath must not end with a '.'."));
    }
    let path = below.map(FieldPath::parse).transpose()?;
    if let Some(slot) = scope.slot(name) {
        return Ok(Expr::Var { slot, path });
    }
    // Dates and timestamps have no fields, so a path into one gives a missing value.
    let scalar = |expr: Expr| match path {
        Some(_) => Expr::Const(Value::missing()),
        None => expr,
    };
    Ok(match name {
        "ROOT" | "CURRENT" => match path {
            Some(path) => Expr::Field(path),
            None => Expr::Root,
        },
        "NOW" => {
            scope.check_constant(name)?;
            scalar(Expr::Now)
        }
        "CLUSTER_TIME" => {
            scope.check_constant(name)?;
            scalar(Expr::ClusterTime)
        }
        "REMOVE" => Expr::Const(Value::missing()),
        "USER_ROLES" | "SEARCH_META" | "JS_SCOPE" | "IS_MR" => {
            return Err(Error::not_implemented(format_args!("$${name}")));
        }
        _ => {
            return Err(Error::location(
                17276,
                format!("Use of undefined variable: {name}"),
            ));
        }
    })
}

/// Parses an operator if the first name begins with a dollar sign, otherwise an object literal.
fn object(doc: Doc<'_>, scope: &Scope) -> Result<Expr> {
    let Some(first) = doc.first() else {
        return Ok(Expr::Const(Value::new(Type::Document, doc.bytes())));
    };
    if first.name_bytes().first() == Some(&b'$') {
        if doc.count() != 1 {
            return Err(Error::location(
                15983,
                "an object representing an expression must have exactly one field",
            ));
        }
        return operator(first.name(), first.value, scope);
    }
    let mut fields: Vec<(Box<str>, Expr)> = Vec::new();
    let mut names = AHashSet::new();
    for elem in doc {
        let name = elem.name();
        field::check_name(name)?;
        if !names.insert(name) {
            return Err(Error::location(
                16406,
                format!("duplicate field name specified in object literal: {name}"),
            ));
        }
        fields.push((name.into(), operand(elem.value, scope)?));
    }
    Ok(Expr::Object(fields.into()).fold())
}

fn operator(name: &str, value: ValueRef<'_>, scope: &Scope) -> Result<Expr> {
    let Some(operator) = EXPRESSIONS.find(name.as_bytes()) else {
        return Err(Error::new(
            Code::InvalidPipelineOperator,
            format!("Unrecognized expression '{name}'"),
        ));
    };
    let name = operator.name;
    match EXPRESSIONS.ready(operator)? {
        ExprParser::Own(parse) => parse(ExprArgument { name, value, scope }),
        ExprParser::Call(arity, eval) => {
            let args = arguments(value, scope)?;
            arity.check(name, args.len())?;
            // The expressions of an update stay as they are written.
            let args = match scope.keeps_failures() {
                true => args,
                false => associative::join(name, args, *eval),
            };
            Ok(Expr::call(name, args, *eval))
        }
    }
}

/// Parses a list of arguments. A value that is not an array is the only argument.
pub fn arguments(value: ValueRef<'_>, scope: &Scope) -> Result<Vec<Expr>> {
    match value.as_array() {
        Some(items) => items
            .iter()
            .map(|elem| operand(elem.value, scope))
            .collect(),
        None => Ok(vec![operand(value, scope)?]),
    }
}

// === impl Arity ===

impl Arity {
    pub fn check(self, name: &str, given: usize) -> Result<()> {
        match self {
            Self::Any => Ok(()),
            Self::Exactly(count) if given == count => Ok(()),
            Self::Exactly(count) => Err(Error::location(
                16020,
                format!(
                    "Expression {name} takes exactly {count} arguments. {given} were passed in."
                ),
            )),
            Self::Between(least, most) if (least..=most).contains(&given) => Ok(()),
            Self::Between(least, most) => Err(Error::location(
                28667,
                format!(
                    "Expression {name} takes at least {least} arguments, and at most {most}, but {given} were passed in."
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, DateTime, Timestamp, bson, doc};

    #[test]
    fn leaves_and_literals() {
        let root = doc! {"_id": 1, "a": {"b": [{"c": 1}, {"c": 2}]}};
        check::values_in(
            &root,
            &[
                (bson!(1), bson!(1)),
                (bson!("text"), bson!("text")),
                (bson!("$a.b.c"), bson!([1, 2])),
                (bson!("$$x"), bson!(42)),
                (bson!("$$ROOT._id"), bson!(1)),
                (bson!("$$CURRENT._id"), bson!(1)),
                (bson!("$$ROOT"), root.clone().into()),
                (bson!("$$NOW"), DateTime::from_millis(7000).into()),
                (
                    bson!("$$CLUSTER_TIME"),
                    Timestamp {
                        time: 7,
                        increment: 1,
                    }
                    .into(),
                ),
                (bson!({}), bson!({})),
                (
                    bson!({"p": "$_id", "q": "$none", "r": {"s": 1}}),
                    bson!({"p": 1, "r": {"s": 1}}),
                ),
                (bson!(["$_id", "$none", 3]), bson!([1, Bson::Null, 3])),
                (bson!({"$literal": "$a"}), bson!("$a")),
                (bson!({"$literal": {"$no": 1}}), bson!({"$no": 1})),
            ],
        );
        check::missing(
            &root,
            &[
                bson!("$$REMOVE"),
                bson!("$$x.y"),
                bson!("$b"),
                bson!("$_id.c"),
            ],
        );
    }

    #[test]
    fn refusals() {
        check::errors(&[
            (bson!("$"), 16872),
            (bson!("$$"), 9),
            (bson!("$$nope"), 17276),
            (bson!("$$1"), 9),
            (bson!("$a."), 40353),
            (bson!("$a\0"), 16411),
            (bson!({"$nope": 1}), 168),
            (bson!({"$literal": 1, "$add": 2}), 15983),
            (bson!({"a": 1, "$add": 2}), 16410),
            (bson!({"a.b": 1}), 16412),
            (bson!({"$function": {}}), 238),
        ]);
    }
}
