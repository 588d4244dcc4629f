//! `$rename`: sets the new path and unsets the old one in the same walk.

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::value::{Doc, Type, Val, ValueRef};

use super::check::element;
use super::modify::{LeafContext, Modify, OnMissing, UpdateArgument, ValueChange};
use super::path::{UpdatePath, index};
use super::table::{PathLeaf, TwoLeaves};

/// The leaf at the old path. It removes the value, and prevents other operators on that path.
struct RenameFrom;

/// The leaf at the new path. It sets the value.
struct RenameTo {
    from: Box<str>,
}

/// Parses `{from: to}` into a leaf for each of the two paths.
pub fn parse<'a>(argument: &UpdateArgument<'a>) -> Result<TwoLeaves<'a>> {
    let from = UpdatePath::parse(argument.field)?;
    let to = parse_to(argument, &from);
    Ok(((from, Arc::new(RenameFrom)), to))
}

fn parse_to<'a>(argument: &UpdateArgument<'a>, from: &UpdatePath<'a>) -> Result<PathLeaf<'a>> {
    let to = UpdatePath::parse(target(argument.field, argument.value)?)?;
    check(from, &to)?;
    let bring = RenameTo {
        from: from.dotted.into(),
    };
    Ok((to, Arc::new(bring)))
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

/// Returns the target path of `$rename`.
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

// === impl RenameFrom ===

impl Modify for RenameFrom {
    fn existing<'v>(
        &'v self,
        _: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        if at.trail.root_name() == "_id" {
            return Err(Error::new(
                Code::ImmutableField,
                format!(
                    "Performing an update on the path '{}' would modify the immutable field '_id'",
                    at.trail.dotted()
                ),
            ));
        }
        Ok(ValueChange::Remove)
    }

    fn missing<'v>(&'v self, _: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        Ok(OnMissing::Nothing)
    }
}

// === impl RenameTo ===

impl RenameTo {
    /// Returns the value to move, or `None` if there is none.
    fn source<'v>(&self, root: Doc<'v>, at: &LeafContext<'_, 'v>) -> Result<Option<ValueRef<'v>>> {
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

    fn check_target(at: &LeafContext<'_, '_>) -> Result<()> {
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

impl Modify for RenameTo {
    fn existing<'v>(
        &'v self,
        _: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        let Some(source) = self.source(at.root, at)? else {
            return Ok(ValueChange::Same);
        };
        Self::check_target(at)?;
        // This also counts as a change if the values are equal, because the old name disappears. `_id` is never written.
        Ok(ValueChange::Put(Val::Ref(source)))
    }

    fn missing<'v>(&'v self, at: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        let Some(source) = self.source(at.root, at)? else {
            return Ok(OnMissing::Nothing);
        };
        Self::check_target(at)?;
        Ok(OnMissing::Create(Val::Ref(source)))
    }

    fn depth(&self) -> Option<usize> {
        None
    }
}
