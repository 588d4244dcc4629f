//! What a `$lookup` says, in all its forms.

use std::sync::Arc;

use super::levels::brings_rows;
use super::lookup::Sub;
use super::place::{Within, stage_is_no_document, stages_of};
use super::{Pipeline, Place, Stage, Target};
use crate::error::{Code, Error, Result};
use crate::query::expr::FieldPath;
use crate::query::{Expr, scope};
use crate::value::{Path, Type, ValueRef};

pub(super) struct Lookup {
    /// None where the pipeline brings its own rows.
    pub from: Option<Target>,
    pub into: Path,
    /// localField and foreignField.
    pub fields: Option<(Path, Path)>,
    pub lets: Vec<(Box<str>, Expr)>,
    pub sub: Option<Sub>,
}

const WITHIN: Within = Within {
    same_rows: false,
    refusal: (51047, "within a $lookup's sub-pipeline"),
    not_a_document: stage_is_no_document,
};

/// The field that the stage sets.
pub(super) fn written<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
    let into = spec.as_doc().and_then(|spec| spec.get("as").as_str());
    into.into_iter().for_each(visit);
}

pub(super) fn parse(
    value: ValueRef<'_>,
    place: &Place<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let spec = value.as_doc().ok_or_else(|| {
        Error::failed_to_parse("the $lookup stage specification must be an Object")
    })?;
    let (mut from, mut into, mut local, mut foreign, mut lets, mut pipeline) = Default::default();
    let mut unknown = None;
    for elem in spec {
        let slot: &mut Option<ValueRef<'_>> = match elem.name() {
            "from" => &mut from,
            "as" => &mut into,
            "localField" => &mut local,
            "foreignField" => &mut foreign,
            "let" => &mut lets,
            "pipeline" => &mut pipeline,
            "_internalUnwind" | "_internalCollation" => {
                return Err(Error::not_implemented(format_args!(
                    "$lookup {}",
                    elem.name()
                )));
            }
            other => {
                unknown.get_or_insert(other);
                continue;
            }
        };
        if slot.replace(elem.value).is_some() {
            return Err(duplicate_field("$lookup", elem.name()));
        }
    }
    // A pipeline that brings its own rows needs no collection.
    let own_rows = pipeline
        .and_then(ValueRef::as_array)
        .is_some_and(brings_rows);
    let from = match from {
        None if !own_rows => {
            return Err(Error::failed_to_parse(
                "must specify 'from' field for a $lookup",
            ));
        }
        None => None,
        Some(from) => Some(parse_from(from, place)?),
    };
    if let Some(name) = unknown {
        return Err(Error::unknown_field("$lookup", name));
    }
    let into = text("as", into)?.ok_or_else(|| Error::missing_field("$lookup", "as"))?;
    let into = FieldPath::parse(into)?.into_path();
    let local = text("localField", local)?.filter(|text| !text.is_empty());
    let foreign = text("foreignField", foreign)?.filter(|text| !text.is_empty());
    let fields = match (local, foreign) {
        (Some(local), Some(foreign)) => {
            let local = FieldPath::parse(local)?.into_path();
            Some((local, FieldPath::parse(foreign)?.into_path()))
        }
        (None, None) => None,
        _ => {
            return Err(Error::failed_to_parse(
                "$lookup requires both or neither of 'localField' and 'foreignField' to be specified",
            ));
        }
    };
    let lets = match lets.filter(|lets| lets.ty() != Type::Null) {
        None => Vec::new(),
        Some(lets) => parse_let(lets, pipeline.is_some(), place)?,
    };
    let sub = match pipeline {
        None => None,
        Some(pipeline) => {
            let inner = place.scope.with(lets.iter().map(|(name, _)| &**name));
            let mut inside = place.inside(&WITHIN, &inner)?;
            inside.coll = from.as_ref().map(|from| from.coll.as_str());
            Some(Sub::new(Pipeline::parse(stages_of(pipeline)?, &inside)?))
        }
    };
    if fields.is_none() && sub.is_none() {
        return Err(Error::failed_to_parse(
            "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified",
        ));
    }
    push(Stage::Op(Arc::new(Lookup {
        from,
        into,
        fields,
        lets,
        sub,
    })));
    Ok(())
}

/// A field that is text; null counts as left out.
fn text<'a>(name: &str, value: Option<ValueRef<'a>>) -> Result<Option<&'a str>> {
    match value.filter(|value| value.ty() != Type::Null) {
        None => Ok(None),
        Some(value) => value
            .as_str()
            .map(Some)
            .ok_or_else(|| Error::wrong_type("$lookup", name, value.ty(), &[Type::String])),
    }
}

/// The variables that the pipeline gets, computed for each row.
fn parse_let(
    lets: ValueRef<'_>,
    has_pipeline: bool,
    place: &Place<'_>,
) -> Result<Vec<(Box<str>, Expr)>> {
    let lets = lets
        .as_doc()
        .ok_or_else(|| Error::wrong_type("$lookup", "let", lets.ty(), &[Type::Document]))?;
    if !has_pipeline {
        return Err(Error::failed_to_parse(
            "$lookup with a 'let' argument must also specify 'pipeline'",
        ));
    }
    let mut bound = Vec::new();
    for elem in lets {
        scope::check_definable(elem.name())
            .map_err(|error| Error::new(Code::FailedToParse, error.message()))?;
        bound.push((elem.name().into(), Expr::parse(elem.value, place.scope)?));
    }
    Ok(bound)
}

fn parse_from(from: ValueRef<'_>, place: &Place<'_>) -> Result<Target> {
    if let Some(coll) = from.as_str() {
        return collection(place.db, coll);
    }
    let Some(spec) = from.as_doc() else {
        return Err(Error::failed_to_parse(format!(
            "$lookup field 'from' must be a string, but found {}",
            from.ty().alias()
        )));
    };
    for elem in spec {
        match elem.name() {
            "db" | "coll" if elem.value.as_str().is_some() => {}
            "db" | "coll" => {
                return Err(Error::wrong_type(
                    "$lookup.from",
                    elem.name(),
                    elem.value.ty(),
                    &[Type::String],
                ));
            }
            other => return Err(Error::unknown_field("$lookup.from", other)),
        }
    }
    // Only a few internal collections may be joined across databases.
    Err(Error::failed_to_parse(
        "$lookup with syntax {from: {db:<>, coll:<>},..} is not supported for this db and collection",
    ))
}

/// The name of a collection beside the one the command names.
pub(super) fn collection(db: &str, coll: &str) -> Result<Target> {
    if coll.is_empty() || coll.starts_with('.') || coll.contains('\0') {
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("Invalid namespace specified '{db}.{coll}'"),
        ));
    }
    Ok(Target::new(db, coll))
}

pub(super) fn duplicate_field(stage: &str, name: &str) -> Error {
    Error::new(
        Code::IDLDuplicateField,
        format!("BSON field '{stage}.{name}' is a duplicate field"),
    )
}

// === impl Lookup ===

impl Lookup {
    /// Whether every row gets the same documents.
    pub fn is_uncorrelated(&self) -> bool {
        self.fields.is_none()
            && self.lets.is_empty()
            && self.sub.as_ref().is_some_and(|sub| sub.deterministic)
    }
}
