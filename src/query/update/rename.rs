//! `$rename`: a set of the new path and an unset of the old one, both within the same walk.

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::value::{Doc, Type, Val, ValueRef};

use super::check::element;
use super::modify::{Argument, At, Change, Leaf, Missing, Modify};
use super::path::{UpdatePath, index};

/// At the old path: takes the value away. Also keeps every other operator off that path.
struct From;

/// At the new path: brings the value.
struct To {
    from: Box<str>,
}

/// Reads `{from: to}`: what happens at both paths.
pub fn parse<'a>(argument: &Argument<'a>) -> Result<[(UpdatePath<'a>, Leaf); 2]> {
    let from = UpdatePath::parse(argument.field)?;
    let to = UpdatePath::parse(target(argument.field, argument.value)?)?;
    check(&from, &to)?;
    let bring = To {
        from: from.dotted.into(),
    };
    Ok([(from, Arc::new(From)), (to, Arc::new(bring))])
}

fn check(from: &UpdatePath<'_>, to: &UpdatePath<'_>) -> Result<()> {
    let pair = || format!("{}: \"{}\"", from.dotted, to.dotted);
    if from.dotted == to.dotted {
        return Err(Error::bad_value(format!(
            "The source and target field for $rename must differ: {}",
            pair()
        )));
    }
    if from.parts.starts_with(&to.parts) || to.parts.starts_with(&from.parts) {
        return Err(Error::bad_value(format!(
            "The source and target field for $rename must not be on the same path: {}",
            pair()
        )));
    }
    if from.is_dynamic() {
        return Err(Error::bad_value(format!(
            "The source field for $rename may not be dynamic: {}",
            from.dotted
        )));
    }
    if to.is_dynamic() {
        return Err(Error::bad_value(format!(
            "The destination field for $rename may not be dynamic: {}",
            to.dotted
        )));
    }
    Ok(())
}

/// The path that `$rename` names in its value.
fn target<'a>(field: &str, value: ValueRef<'a>) -> Result<&'a str> {
    let text = value.as_str().ok_or_else(|| {
        Error::bad_value(format!(
            "The 'to' field for $rename must be a string: {}",
            element(field, value)
        ))
    })?;
    if text.contains('\0') {
        return Err(Error::location(
            9_867_600,
            "The 'to' field for $rename cannot contain an embedded null byte",
        ));
    }
    Ok(text)
}

// === impl From ===

impl Modify for From {
    fn existing<'v>(&'v self, _: ValueRef<'v>, at: &At<'_, 'v>) -> Result<Change<'v>> {
        if at.trail.root_name() == "_id" {
            return Err(Error::new(
                Code::ImmutableField,
                format!(
                    "Performing an update on the path '{}' would modify the immutable field '_id'",
                    at.trail.dotted()
                ),
            ));
        }
        Ok(Change::Remove)
    }

    fn missing<'v>(&'v self, _: &At<'_, 'v>) -> Result<Missing<'v>> {
        Ok(Missing::Nothing)
    }
}

// === impl To ===

impl To {
    /// The value that moves; `None` where there is none.
    fn source<'v>(&self, root: Doc<'v>, at: &At<'_, 'v>) -> Result<Option<ValueRef<'v>>> {
        let mut current = ValueRef::document(root);
        let mut name = "";
        let mut array = None;
        for part in self.from.split('.') {
            let next = match current.ty() {
                Type::Document => Doc::new(current.data()).get(part),
                Type::Array if index(part).is_some() => {
                    array = array.or(Some(name));
                    let nth = index(part).unwrap_or(usize::MAX);
                    Doc::new(current.data())
                        .iter()
                        .nth(nth)
                        .map_or(ValueRef::MISSING, |elem| elem.value)
                }
                _ => {
                    return Err(Error::new(
                        Code::PathNotViable,
                        format!(
                            "cannot use the part ({name} of {}) to traverse the element ({{{}}})",
                            self.from,
                            element(name, current)
                        ),
                    ));
                }
            };
            if next.is_missing() {
                return Ok(None);
            }
            (current, name) = (next, part);
        }
        match array {
            None => Ok(Some(current)),
            Some(array) => Err(Error::bad_value(format!(
                "The source field cannot be an array element, '{}' in doc with {} has an array field called '{array}'",
                self.from,
                at.id()
            ))),
        }
    }

    fn check_target(at: &At<'_, '_>) -> Result<()> {
        match at.trail.array_above() {
            None => Ok(()),
            Some(array) => Err(Error::bad_value(format!(
                "The destination field cannot be an array element, '{}' in doc with {} has an array field called '{array}'",
                at.trail.dotted(),
                at.id()
            ))),
        }
    }
}

impl Modify for To {
    fn existing<'v>(&'v self, _: ValueRef<'v>, at: &At<'_, 'v>) -> Result<Change<'v>> {
        let Some(source) = self.source(at.root, at)? else {
            return Ok(Change::Same);
        };
        Self::check_target(at)?;
        // Also where the values are equal: the old name goes in any case, and `_id` is not written at all.
        Ok(Change::Put(Val::Ref(source)))
    }

    fn missing<'v>(&'v self, at: &At<'_, 'v>) -> Result<Missing<'v>> {
        let Some(source) = self.source(at.root, at)? else {
            return Ok(Missing::Nothing);
        };
        Self::check_target(at)?;
        Ok(Missing::Create(Val::Ref(source)))
    }

    fn depth(&self) -> Option<usize> {
        None
    }
}
