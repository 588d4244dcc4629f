//! `arrayFilters`: the elements that `$[identifier]` selects.

use crate::error::{Error, Result};
use crate::query::filter::Filter;
use crate::query::named::Named;
use crate::query::survey::MANY;
use crate::query::{Scope, Vars};
use crate::value::{Doc, DocBuilder, Type, ValueRef};

/// One element of `arrayFilters`.
pub struct ArrayFilter {
    pub identifier: Box<str>,
    filter: Filter,
}

/// All array filters of an update, by identifier.
pub type ArrayFilters = Named<ArrayFilter>;

/// Returns whether the filters may take long with one document, as [`Survey`](crate::query::Survey) explains.
pub fn are_slow(filters: &ArrayFilters) -> bool {
    filters.len() > MANY || filters.iter().any(|(_, filter)| filter.filter.is_slow())
}

/// Parses the `arrayFilters` array.
pub fn parse(filters: Doc<'_>, scope: &Scope) -> Result<ArrayFilters> {
    let mut parsed = ArrayFilters::default();
    for elem in filters.iter().filter(|elem| !elem.value.is_nullish()) {
        let Some(doc) = elem.value.as_doc() else {
            return Err(Error::wrong_type(
                "update.updates.arrayFilters",
                elem.name(),
                elem.value.ty(),
                &[Type::Document],
            ));
        };
        let filter = one(doc, scope)?;
        if parsed.find(filter.identifier.as_bytes()).is_some() {
            return Err(Error::failed_to_parse(format!(
                "Found multiple array filters with the same top-level field name {}",
                filter.identifier
            )));
        }
        let identifier = filter.identifier.clone();
        parsed.push(&identifier, filter);
    }
    Ok(parsed)
}

fn one(doc: Doc<'_>, scope: &Scope) -> Result<ArrayFilter> {
    let context = "Error parsing array filter";
    let filter = Filter::parse_plain(doc, scope).map_err(|error| error.caused(context))?;
    let mut identifier = None;
    top_level(doc, &mut identifier).map_err(|error| error.caused(context))?;
    let Some(identifier) = identifier else {
        return Err(Error::failed_to_parse(
            "Cannot use an expression without a top-level field name in arrayFilters",
        ));
    };
    let well_formed = identifier.starts_with(|c: char| c.is_ascii_lowercase())
        && identifier.bytes().all(|b| b.is_ascii_alphanumeric());
    if !well_formed {
        return Err(Error::bad_value(format!(
            "{context} :: caused by :: The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '{identifier}'"
        )));
    }
    Ok(ArrayFilter {
        identifier: identifier.into(),
        filter,
    })
}

/// Finds the single name with which every path in the filter begins.
fn top_level<'a>(doc: Doc<'a>, found: &mut Option<&'a str>) -> Result<()> {
    for elem in doc {
        let name = elem.name();
        match name {
            "$and" | "$or" | "$nor" => {
                for branch in elem.value.as_array().into_iter().flatten() {
                    if let Some(doc) = branch.value.as_doc() {
                        top_level(doc, found)?;
                    }
                }
            }
            "$comment" | "$alwaysTrue" | "$alwaysFalse" => {}
            _ if name.starts_with('$') => {}
            // MongoDB takes this for the condition that no document meets, which names no field.
            _ if asks_for_all_of_nothing(elem.value) => {}
            _ => {
                let first = name.split('.').next().unwrap_or_default();
                match *found {
                    None => *found = Some(first),
                    Some(known) if known == first => {}
                    Some(known) => {
                        return Err(Error::failed_to_parse(format!(
                            "Expected a single top-level field name, found '{known}' and '{first}'"
                        )));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns whether the condition is `{$all: []}`.
fn asks_for_all_of_nothing(condition: ValueRef<'_>) -> bool {
    let condition = condition
        .as_doc()
        .filter(|condition| condition.count() == 1);
    let all = condition.and_then(|condition| condition.get("$all").as_array());
    all.is_some_and(Doc::is_empty)
}

// === impl ArrayFilter ===

impl ArrayFilter {
    /// Returns whether the filter selects an element. It sees the element as the field that the identifier names.
    pub fn matches(&self, value: ValueRef<'_>, vars: &Vars, buffer: &mut Vec<u8>) -> Result<bool> {
        buffer.clear();
        let mut doc = DocBuilder::begin(buffer);
        doc.put(&self.identifier, value);
        doc.end();
        self.filter.matches(Doc::new(buffer), vars)
    }
}
