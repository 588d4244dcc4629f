//! `$addFields` and `$set`: add fields, each computed from the input document.

use std::sync::Arc;

use super::StageContext;
use super::document_map::DocumentMap;
use crate::error::{Error, Result};
use crate::query::{PathOrigin, Projection, Survey, Vars};
use crate::value::{Doc, Path, ValueRef, check_computed};

struct AddFields(Projection);

pub(super) fn parse_add_fields(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
) -> Result<Arc<dyn DocumentMap>> {
    parse_fields("$addFields", value, context)
}

pub(super) fn parse_set(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
) -> Result<Arc<dyn DocumentMap>> {
    parse_fields("$set", value, context)
}

/// Visits the fields that the stage sets.
pub(super) fn written<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
    for field in spec.as_doc().into_iter().flatten() {
        visit(field.name());
    }
}

fn parse_fields(
    name: &'static str,
    value: ValueRef<'_>,
    context: &StageContext<'_>,
) -> Result<Arc<dyn DocumentMap>> {
    let spec = value.as_doc().ok_or_else(|| {
        Error::location(
            40272,
            format!(
                "{name} specification stage must be an object, got {}",
                value.ty().alias()
            ),
        )
    })?;
    let fields = Projection::parse_add_fields(spec, context.scope)
        .map_err(|error| error.caused(&format!("Invalid {name}")))?;
    Ok(Arc::new(AddFields(fields)))
}

// === impl AddFields ===

impl DocumentMap for AddFields {
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        self.0.apply(doc, vars, None, out)?;
        check_computed(out.len() - start)?;
        Ok(true)
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        self.0.survey(survey);
    }

    fn origin(&self, path: &Path) -> PathOrigin {
        self.0.origin(path)
    }

    fn projection(&self) -> Option<&Projection> {
        Some(&self.0)
    }
}
