//! Which fields a client's command names: the hidden field, which is refused, `_ts`, which is then shown, and whole
//! documents, in which hidden fields would be seen.

use crate::error::{Error, Result};
use crate::query::projection::ProjectionKind;
use crate::query::sort::Sort;
use crate::query::stage::{Pipeline, StageContext};
use crate::query::{Filter, Projection, Scope, Survey};
use crate::ttl::TS_FIELD;
use crate::upstream::HIDDEN_FIELD;
use crate::value::{Doc, Type, ValueRef};

/// Arguments and options whose plain string is the name of a field.
const NAMING: &[&str] = &[
    "$getField",
    "$unset",
    "as",
    "connectFromField",
    "connectToField",
    "distanceField",
    "field",
    "foreignField",
    "hint",
    "includeArrayIndex",
    "includeLocs",
    "key",
    "localField",
    "on",
    "path",
];

/// Variables that hold a whole document.
const WHOLE: &[&str] = &["$$ROOT", "$$CURRENT"];

/// Refuses a command that names the hidden field: as the first part of a path anywhere, in an expression, or as an option.
/// The fields `except` are not looked at.
pub fn check_hidden(command: Doc<'_>, except: &[&str]) -> Result<()> {
    let hidden = HIDDEN_FIELD.as_bytes();
    let is_exempt = |name: &[u8]| except.iter().any(|exempt| exempt.as_bytes() == name);
    for elem in command {
        // Nearly every field is done with here.
        let may_name = elem.name_bytes().starts_with(hidden) || contains(elem.value.data(), hidden);
        if may_name && !is_exempt(elem.name_bytes()) {
            check_element(elem.name(), elem.value)?;
        }
    }
    Ok(())
}

fn check_element(name: &str, value: ValueRef<'_>) -> Result<()> {
    if root(name) == HIDDEN_FIELD {
        return Err(reserved());
    }
    check_value(name, value)
}

/// Checks a value. Elements of an array stand for the field that holds the array.
fn check_value(name: &str, value: ValueRef<'_>) -> Result<()> {
    match value.ty() {
        Type::String => {
            let text = value.as_str().unwrap_or_default();
            let expression = text.strip_prefix('$').is_some_and(|path| {
                let path = path.strip_prefix('$').unwrap_or(path);
                path.split('.').any(|part| part == HIDDEN_FIELD)
            });
            // `$rename` names its targets by values.
            if expression || (root(text) == HIDDEN_FIELD && NAMING.contains(&name)) {
                return Err(reserved());
            }
            Ok(())
        }
        Type::Document if name == "$rename" => {
            let targets = value.as_doc().into_iter().flatten();
            let mut targets = targets.filter_map(|target| target.value.as_str());
            match targets.any(|target| root(target) == HIDDEN_FIELD) {
                true => Err(reserved()),
                false => check_hidden(Doc::new(value.data()), &[]),
            }
        }
        Type::Document => check_hidden(Doc::new(value.data()), &[]),
        Type::Array => Doc::new(value.data())
            .iter()
            .try_for_each(|elem| check_value(name, elem.value)),
        _ => Ok(()),
    }
}

/// Refuses a document to store that has the hidden field at its root.
pub fn check_document(doc: Doc<'_>) -> Result<()> {
    match doc.has(HIDDEN_FIELD) {
        true => Err(reserved()),
        false => Ok(()),
    }
}

fn reserved() -> Error {
    Error::bad_value(format!(
        "The field '{HIDDEN_FIELD}' is kept by the server and cannot be named"
    ))
}

/// The parts of a reading command that decide whether it sees `_ts`.
#[derive(Default)]
pub struct Parts<'a> {
    pub filter: Option<Doc<'a>>,
    pub sort: Option<Doc<'a>>,
    pub projection: Option<Doc<'a>>,
    pub pipeline: Option<Doc<'a>>,
    /// The variables of the command.
    pub lets: Option<Doc<'a>>,
}

impl Parts<'_> {
    /// Returns whether the command names root `_ts`. A part that Sundown cannot parse counts if it seems to: the cluster may
    /// know more than Sundown does.
    pub fn name_ts(&self) -> bool {
        let parts = [self.filter, self.sort, self.projection, self.pipeline];
        let mut parts = parts.into_iter().flatten();
        // Nearly every command ends here. (A computed name counts as any name.)
        if !parts.any(|part| {
            contains(part.bytes(), TS_FIELD.as_bytes()) || contains(part.bytes(), b"$getField")
        }) {
            return false;
        }
        let names: Vec<&str> = self.lets.into_iter().flatten().map(|v| v.name()).collect();
        let scope = Scope::new().with(names);
        let filter = self
            .filter
            .is_some_and(|spec| match Filter::parse(spec, &scope) {
                Ok(filter) => Survey::of(TS_FIELD, |survey| filter.survey(survey)).names_field,
                Err(_) => seems_to_name_ts(spec),
            });
        let sort = self.sort.is_some_and(|spec| match Sort::parse(spec) {
            Ok(sort) => Survey::of(TS_FIELD, |survey| sort.survey(survey)).names_field,
            Err(_) => seems_to_name_ts(spec),
        });
        let projection = self.projection.is_some_and(|spec| {
            match Projection::parse(spec, &scope, ProjectionKind::Find) {
                Ok(parsed) => Survey::of(TS_FIELD, |survey| parsed.survey(survey)).names_field,
                Err(_) => seems_to_name_ts(spec),
            }
        });
        let pipeline = self.pipeline.is_some_and(|stages| {
            let place = StageContext::new(&scope, "db", Some("c"));
            match Pipeline::parse(stages, &place) {
                Ok(parsed) => Survey::of(TS_FIELD, |survey| parsed.survey(survey)).names_field,
                Err(_) => seems_to_name_ts(stages),
            }
        });
        filter || sort || projection || pipeline
    }
}

fn seems_to_name_ts(spec: Doc<'_>) -> bool {
    spec.iter().any(|elem| {
        let value = match elem.value.ty() {
            Type::Document | Type::Array => seems_to_name_ts(Doc::new(elem.value.data())),
            Type::String => {
                let text = elem.value.as_str().unwrap_or_default();
                let path = text.strip_prefix('$');
                let names = |path: &str| path.split('.').any(|part| part == TS_FIELD);
                path.map_or(text == TS_FIELD, names)
            }
            _ => false,
        };
        value || root(elem.name()) == TS_FIELD
    })
}

/// Returns whether an expression, or a stage, may see whole documents: through a variable, or by a computed name.
pub fn sees_whole(value: ValueRef<'_>) -> bool {
    match value.ty() {
        Type::String => value.as_str().is_some_and(|text| WHOLE.contains(&text)),
        Type::Array => Doc::new(value.data())
            .iter()
            .any(|elem| sees_whole(elem.value)),
        Type::Document => Doc::new(value.data())
            .iter()
            .any(|elem| computes_name(elem.name(), elem.value) || sees_whole(elem.value)),
        _ => false,
    }
}

/// Returns whether an operator reads or writes a field whose name is not known before it runs.
pub fn computes_name(operator: &str, argument: ValueRef<'_>) -> bool {
    let field = match (operator, argument.as_doc()) {
        ("$getField" | "$setField" | "$unsetField", Some(args)) if args.has("field") => {
            args.get("field")
        }
        ("$getField", _) => argument,
        _ => return false,
    };
    field.as_str().is_none_or(|name| name.starts_with('$'))
}

/// Returns whether a string of bytes occurs.
pub fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    let Some((&first, rest)) = wanted.split_first() else {
        return true;
    };
    let mut at = bytes;
    while let Some(next) = at.iter().position(|&byte| byte == first) {
        at = at.get(next + 1..).unwrap_or_default();
        if at.starts_with(rest) {
            return true;
        }
    }
    false
}

/// Returns the first name of a path.
pub fn root(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}
