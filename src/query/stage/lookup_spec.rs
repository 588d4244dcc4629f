//! The specification of `$lookup`, in all its forms.

use std::sync::Arc;

use super::levels::{self, brings_rows};
use super::lookup::SubPipeline;
use super::stage_context::{InnerRules, stage_is_no_document, stages_of};
use super::{CollectionName, Pipeline, Stage, StageContext};
use crate::args::{Arg, fields, required};
use crate::error::{Code, Error, Result};
use crate::query::expr::FieldPath;
use crate::query::{Expr, scope};
use crate::value::{Doc, Path, Type, ValueRef};

/// A parsed `$lookup`.
#[derive(Clone)]
pub(super) struct Lookup {
    /// `None` if the pipeline has rows of its own.
    pub from: Option<CollectionName>,
    pub into: Path,
    /// `localField` and `foreignField`.
    pub fields: Option<(Path, Path)>,
    pub let_vars: Vec<(Box<str>, Expr)>,
    pub sub: Option<SubPipeline>,
    /// The first constant of the pipeline that fails. MongoDB reports it when a row arrives.
    pub failure: Option<Error>,
}

/// The options as given, before they are checked.
#[derive(Default)]
struct LookupOptions<'a> {
    from: Option<Arg<'a>>,
    into: Option<Arg<'a>>,
    local: Option<Arg<'a>>,
    foreign: Option<Arg<'a>>,
    let_vars: Option<Arg<'a>>,
    pipeline: Option<Arg<'a>>,
    /// The first unknown option. mongod checks `from` before it reports it.
    unknown: Option<Arg<'a>>,
}

const WITHIN: InnerRules = InnerRules {
    same_rows: false,
    refusal: (51047, "within a $lookup's sub-pipeline"),
    not_a_document: stage_is_no_document,
};

/// Visits the field that the stage sets.
pub(super) fn written<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
    let into = spec.as_doc().and_then(|spec| spec.get("as").as_str());
    into.into_iter().for_each(visit);
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let given = LookupOptions::read(object(value)?)?;
    let stages = given
        .pipeline
        .and_then(|pipeline| pipeline.value().as_array());
    let from = match given.from {
        Some(from) => Some(parse_from(from.value(), context)?),
        None => without_collection(stages)?,
    };
    if let Some(option) = given.unknown {
        return Err(option.unknown());
    }
    let into = FieldPath::parse(required(text(given.into)?, "$lookup", "as")?)?.into_path();
    let fields = parse_fields(&given)?;
    let let_vars = parse_let(&given, context)?;
    let mut failure = None;
    let sub = match given.pipeline {
        None => None,
        Some(pipeline) => {
            let inner = context.scope.with(let_vars.iter().map(|(name, _)| &**name));
            // MongoDB optimises the pipeline when a row arrives.
            let inner = inner.noting();
            let mut inside = context.inside(&WITHIN, &inner)?;
            inside.coll = from.as_ref().map(|from| from.coll.as_str());
            let stages = stages_of(pipeline.value())?;
            let parsed = Pipeline::parse(stages, &inside)?;
            failure = inner.check_pipeline().err();
            Some(SubPipeline::new(parsed))
        }
    };
    if fields.is_none() && sub.is_none() {
        return Err(Error::failed_to_parse(
            "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified",
        ));
    }
    push(Stage::StageOp(Arc::new(Lookup {
        from,
        into,
        fields,
        let_vars,
        sub,
        failure,
    })));
    Ok(())
}

/// Checks the collection, and the names of the stages inside.
pub(super) fn check_early(value: ValueRef<'_>, context: &StageContext<'_>) -> Result<()> {
    let spec = object(value)?;
    let pipeline = spec.get("pipeline");
    let from = spec.get("from");
    let from = match from.is_missing() {
        false => Some(parse_from(from, context)?),
        true => without_collection(pipeline.as_array())?,
    };
    if pipeline.is_missing() {
        return Ok(());
    }
    let mut inside = context.inside(&WITHIN, context.scope)?;
    inside.coll = from.as_ref().map(|from| from.coll.as_str());
    levels::check_early(stages_of(pipeline)?, &inside)
}

fn object(value: ValueRef<'_>) -> Result<Doc<'_>> {
    value.as_doc().ok_or_else(|| {
        Error::failed_to_parse(format!(
            "the $lookup stage specification must be an object, but found {}",
            value.ty().alias()
        ))
    })
}

/// Checks that a pipeline without a collection has rows of its own.
fn without_collection(stages: Option<Doc<'_>>) -> Result<Option<CollectionName>> {
    match stages.is_some_and(brings_rows) {
        true => Ok(None),
        false => Err(Error::failed_to_parse(
            "must specify 'from' field for a $lookup",
        )),
    }
}

/// Reads an optional string.
fn text<'a>(option: Option<Arg<'a>>) -> Result<Option<&'a str>> {
    option.map_or(Ok(None), |option| option.str())
}

/// Parses `localField` and `foreignField`.
fn parse_fields(given: &LookupOptions<'_>) -> Result<Option<(Path, Path)>> {
    let local = text(given.local)?.filter(|text| !text.is_empty());
    let foreign = text(given.foreign)?.filter(|text| !text.is_empty());
    match (local, foreign) {
        (Some(local), Some(foreign)) => {
            let local = FieldPath::parse(local)?.into_path();
            Ok(Some((local, FieldPath::parse(foreign)?.into_path())))
        }
        (None, None) => Ok(None),
        _ => Err(Error::failed_to_parse(
            "$lookup requires both or neither of 'localField' and 'foreignField' to be specified",
        )),
    }
}

/// Parses the variables of the pipeline, which are computed for each row.
fn parse_let(
    given: &LookupOptions<'_>,
    context: &StageContext<'_>,
) -> Result<Vec<(Box<str>, Expr)>> {
    let Some(let_vars) = given.let_vars.map_or(Ok(None), |let_vars| let_vars.doc())? else {
        return Ok(Vec::new());
    };
    if given.pipeline.is_none() {
        return Err(Error::failed_to_parse(
            "$lookup with a 'let' argument must also specify 'pipeline'",
        ));
    }
    let mut bound = Vec::new();
    // MongoDB does not optimise these: a constant fails with the first row.
    let kept = context.scope.clone().of_update();
    for elem in let_vars {
        scope::check_definable(elem.name())
            .map_err(|error| Error::new(Code::FailedToParse, error.message()))?;
        bound.push((elem.name().into(), Expr::parse(elem.value, &kept)?));
    }
    Ok(bound)
}

fn parse_from(from: ValueRef<'_>, context: &StageContext<'_>) -> Result<CollectionName> {
    if let Some(coll) = from.as_str() {
        return collection(context.db, coll);
    }
    let Some(spec) = from.as_doc() else {
        return Err(Error::failed_to_parse(format!(
            "$lookup field 'from' must be a string, but found {}",
            from.ty().alias()
        )));
    };
    for option in fields("$lookup.from", spec) {
        match option.name() {
            "db" | "coll" => option.exactly(Type::String, ValueRef::as_str)?,
            _ => return Err(option.unknown()),
        };
    }
    // Only a few internal collections can be joined across databases.
    Err(Error::failed_to_parse(
        "$lookup with syntax {from: {db:<>, coll:<>},..} is not supported for this db and collection",
    ))
}

/// Checks the name of a collection in the command's database.
pub(super) fn collection(db: &str, coll: &str) -> Result<CollectionName> {
    if coll.is_empty() || coll.starts_with('.') || coll.contains('\0') {
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("Invalid namespace specified '{db}.{coll}'"),
        ));
    }
    Ok(CollectionName::new(db, coll))
}

// === impl LookupOptions ===

impl<'a> LookupOptions<'a> {
    fn read(spec: Doc<'a>) -> Result<Self> {
        let mut given = Self::default();
        for option in fields("$lookup", spec) {
            let slot = match option.name() {
                "from" => &mut given.from,
                "as" => &mut given.into,
                "localField" => &mut given.local,
                "foreignField" => &mut given.foreign,
                "let" => &mut given.let_vars,
                "pipeline" => &mut given.pipeline,
                name @ ("_internalUnwind" | "_internalCollation") => {
                    return Err(Error::not_implemented(format_args!("$lookup {name}")));
                }
                _ => {
                    given.unknown.get_or_insert(option);
                    continue;
                }
            };
            if slot.replace(option).is_some() {
                return Err(option.duplicate());
            }
        }
        Ok(given)
    }
}

// === impl Lookup ===

impl Lookup {
    /// Returns whether every row gets the same documents.
    pub fn is_uncorrelated(&self) -> bool {
        self.fields.is_none()
            && self.let_vars.is_empty()
            && self.sub.as_ref().is_some_and(|sub| sub.deterministic)
    }
}
