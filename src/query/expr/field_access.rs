//! Access to one field by its exact name, even with dots and dollar signs: `$getField`, `$setField`, `$unsetField`.

use super::args::{ExprArgument, found_unknown};
use super::node::{Expr, ExprOp, OperatorFolding};
use super::{Env, LiveValues, fuel};
use crate::args::{ArgumentError, named_as};
use crate::error::{Error, Result};
use crate::query::Survey;
use crate::value::{Doc, DocBuilder, Type, Val, Value, ValueRef, check_computed};
use smallvec::SmallVec;

#[derive(Debug)]
struct GetField {
    field: Expr,
    input: Expr,
}

/// `$setField`, and `$unsetField`, which sets `$$REMOVE`.
#[derive(Debug)]
pub struct SetField {
    name: &'static str,
    field: Box<str>,
    input: Expr,
    value: Expr,
}

/// Parses `{field, input}`, or only the name of a field of the current document.
pub fn get_field(arg: ExprArgument<'_>) -> Result<Expr> {
    // An operator here computes the name.
    let (field, input) = if arg.plain_object().is_none() {
        let field = arg.operand(arg.value)?;
        (field, super::parse::path("$$CURRENT", arg.scope)?)
    } else {
        let [field, input] = arg.operands(
            ["field", "input"],
            // A value that is not an object is the name of the field, so the first code is never used.
            found_unknown("$getField", [3041701, 3041701], |field| match field {
                "field" => 3041702,
                _ => 3041703,
            }),
        )?;
        (field.required()?, input.required()?)
    };
    if let Some(name) = field.as_const()
        && name.as_str().is_none()
    {
        return Err(not_a_name(name));
    }
    Ok(Expr::op(GetField { field, input }))
}

fn not_a_name(value: ValueRef<'_>) -> Error {
    Error::location(
        3041704,
        format!(
            "$getField requires 'field' to evaluate to type String, but got {}",
            value.ty().alias()
        ),
    )
}

pub fn set_field(arg: ExprArgument<'_>) -> Result<Expr> {
    let mut written = ValueRef::MISSING;
    let names = ["field", "input", "value"];
    let [field, input, value] = named_as(arg.value, names, words(arg.name), |name, value| {
        if name == "field" {
            written = value;
        }
        arg.operand(value)
    })?;
    let (field, value) = (field.required()?, value.required()?);
    set(arg, (written, field), input.required()?, value)
}

pub fn unset_field(arg: ExprArgument<'_>) -> Result<Expr> {
    let mut written = ValueRef::MISSING;
    let names = ["field", "input"];
    let [field, input] = named_as(arg.value, names, words(arg.name), |name, value| {
        if name == "field" {
            written = value;
        }
        arg.operand(value)
    })?;
    let (field, value) = (field.required()?, Expr::Const(Value::missing()));
    set(arg, (written, field), input.required()?, value)
}

fn words(name: &str) -> impl Fn(ArgumentError<'_>) -> (i32, String) + Copy {
    move |wrong| match wrong {
        ArgumentError::NotAnObject(_) => (
            4161100,
            format!("{name} only supports an object as its argument"),
        ),
        ArgumentError::Unknown(field) => {
            let words = format!("{name} found an unknown argument: {field}");
            (4161101, words)
        }
        ArgumentError::Missing(field) => {
            let number = match field {
                "field" => 4161102,
                "value" => 4161103,
                _ => 4161109,
            };
            (number, format!("{name} requires '{field}' to be specified"))
        }
    }
}

/// Makes the expression. `field` is the name of the field as it is written and as it was parsed.
fn set(
    arg: ExprArgument<'_>,
    field: (ValueRef<'_>, Expr),
    input: Expr,
    value: Expr,
) -> Result<Expr> {
    // `$unsetField` is a `$setField` to MongoDB, also in these messages.
    let name = "$setField";
    let (field, parsed) = field;
    if let Some(path) = field.as_str().and_then(|text| text.strip_prefix('$')) {
        let path = match path.strip_prefix('$') {
            Some(variable) => format!("${variable}"),
            None => format!("$CURRENT.{path}"),
        };
        return Err(Error::location(
            4161108,
            format!(
                "'{path}' is a field path reference which is not allowed in this context. Did you mean {{$literal: '{path}'}}?"
            ),
        ));
    }
    // Only `$literal` and `{}` count as constants. Other operators are refused, even with constant arguments.
    let computed = match field.as_doc().and_then(Doc::first) {
        Some(elem) => !matches!(elem.name(), "$literal" | "$const"),
        None => field.ty() == Type::Array,
    };
    let Some(constant) = parsed.as_const().filter(|_| !computed) else {
        return Err(Error::location(
            4161106,
            format!(
                "{name} requires 'field' to evaluate to a constant, but got a non-constant argument"
            ),
        ));
    };
    let Some(text) = constant.as_str() else {
        return Err(Error::location(
            4161107,
            format!(
                "{name} requires 'field' to evaluate to type String, but got {}",
                constant.ty().alias()
            ),
        ));
    };
    if text.contains('\0') {
        return Err(Error::location(
            9534700,
            format!("{name}: 'field' cannot contain an embedded null byte"),
        ));
    }
    Ok(Expr::op(SetField {
        name: arg.name,
        field: text.into(),
        input,
        value,
    }))
}

// === impl GetField ===

impl ExprOp for GetField {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let field = self.field.eval_in(env)?;
        let Some(name) = field.as_ref().as_str() else {
            return Err(not_a_name(field.as_ref()));
        };
        let input = self.input.eval_in(env)?;
        Ok(match &input {
            _ if input.ty() == Type::Null => Val::NULL,
            Val::Ref(value) => match value.as_doc() {
                Some(doc) => Val::Ref(doc.get(name)),
                None => Val::MISSING,
            },
            Val::Own(value) => match value.as_ref().as_doc() {
                Some(doc) => Val::Own(doc.get(name).to_value()),
                None => Val::MISSING,
            },
        })
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.field);
        visit(&self.input);
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        match self.field.as_const() {
            Some(name) => survey.name(name.as_str().unwrap_or_default(), false),
            None => survey.any_name(),
        }
    }
}

// === impl SetField ===

impl SetField {
    /// Returns the operators of which each is the input of the next, innermost first. This one is the last.
    fn chain(&self) -> SmallVec<[&Self; 2]> {
        let mut chain = SmallVec::new();
        let mut next = Some(self);
        while let Some(operator) = next {
            chain.push(operator);
            next = match &operator.input {
                Expr::Op(input) => input.as_set_field(),
                _ => None,
            };
        }
        chain.reverse();
        chain
    }
}

impl ExprOp for SetField {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let chain = self.chain();
        let input = chain.first().map_or(&self.input, |first| &first.input);
        let input = input.eval_in(env)?;
        let input = input.as_ref();
        if input.is_nullish() {
            return Ok(Val::NULL);
        }
        let Some(doc) = input.as_doc() else {
            return Err(Error::location(
                4161105,
                format!("{} requires 'input' to evaluate to type Object", self.name),
            ));
        };
        let values = LiveValues::eval(chain.iter().map(|operator| &operator.value), env)?;
        // A field that is removed and set again keeps its place, so a missing value stays until the end.
        let mut fields: Vec<_> = doc.iter().map(|elem| (elem.name(), elem.value)).collect();
        for (operator, value) in chain.iter().zip(values.iter()) {
            fuel::spend(fields.len() as u64)?;
            let name = &*operator.field;
            match fields.iter_mut().find(|field| field.0 == name) {
                Some(field) => field.1 = value.as_ref(),
                None => fields.push((name, value.as_ref())),
            }
        }
        let mut bytes = Vec::with_capacity(doc.bytes().len() + 16);
        let mut out = DocBuilder::begin(&mut bytes);
        for (name, value) in fields {
            out.put(name, value);
        }
        check_computed(out.len())?;
        out.end();
        Ok(Val::Own(Value::document(bytes)))
    }

    fn as_set_field(&self) -> Option<&SetField> {
        Some(self)
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Nothing
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
        visit(&self.value);
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        survey.name(&self.field, false);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{bson, doc};

    #[test]
    fn values() {
        check::values_in(
            &doc! {"b.c": 2, "d": {"e": 3}},
            &[
                (bson!({"$getField": "b.c"}), bson!(2)),
                (
                    bson!({"$getField": {"field": "e", "input": "$d"}}),
                    bson!(3),
                ),
                (
                    bson!({"$setField": {"field": {"$literal": "$x"}, "input": "$d", "value": 1}}),
                    bson!({"e": 3, "$x": 1}),
                ),
                (
                    bson!({"$unsetField": {"field": "e", "input": {"e": 1, "f": 2}}}),
                    bson!({"f": 2}),
                ),
            ],
        );
        check::errors(&[
            (bson!({"$getField": {"field": 1, "input": 1}}), 3041704),
            (
                bson!({"$setField": {"field": "$a", "input": {}, "value": 1}}),
                4161108,
            ),
        ]);
    }
}
