//! `$unset`: removes fields. It is parsed into an exclusion.

use std::sync::Arc;

use super::StageContext;
use super::document_map::DocumentMap;
use super::project::Project;
use crate::error::{Error, Result};
use crate::query::expr::FieldPath;
use crate::query::projection::{Projection, ProjectionKind};
use crate::value::{DocBuf, Type, ValueRef};

/// Visits the fields that are removed.
pub(super) fn written<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
    let list = spec.as_array().into_iter().flatten().map(|elem| elem.value);
    let fields = std::iter::once(spec).chain(list);
    fields.filter_map(ValueRef::as_str).for_each(visit);
}

pub(super) fn parse_unset(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
) -> Result<Arc<dyn DocumentMap>> {
    let mut fields = Vec::new();
    match value.ty() {
        Type::String => fields.extend(value.as_str()),
        Type::Array => {
            for elem in value.as_array().into_iter().flatten() {
                fields.push(elem.value.as_str().ok_or_else(|| {
                    Error::location(
                        31120,
                        "$unset specification must be a string or an array containing only string values",
                    )
                })?);
            }
            if fields.is_empty() {
                return Err(Error::location(
                    31119,
                    "$unset specification must be a string or an array with at least one field",
                ));
            }
        }
        _ => {
            return Err(Error::location(
                31002,
                "$unset specification must be a string or an array",
            ));
        }
    }
    // A document cannot contain a field name with a null byte, so the name is rejected before the exclusion is built.
    if fields.iter().any(|field| field.contains('\0')) {
        return Err(Error::location(
            9527900,
            "Invalid $unset :: caused by :: field names may not contain null bytes",
        ));
    }
    // The projection refuses a positional path in its own words.
    for field in fields.iter().filter(|field| !field.ends_with(".$")) {
        FieldPath::parse(field).map_err(|error| error.caused("Invalid $unset"))?;
    }
    let exclusion = DocBuf::build(|doc| {
        for field in &fields {
            doc.put_i32(field, 0);
        }
    });
    let projection =
        Projection::parse(exclusion.as_doc(), context.scope, ProjectionKind::Aggregate)
            .map_err(|error| error.caused("Invalid $unset"))?;
    Ok(Arc::new(Project(projection)))
}
