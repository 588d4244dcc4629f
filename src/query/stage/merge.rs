//! `$merge`: writes each row into a collection, as a new document or into the matching one.

use std::sync::Arc;

use ahash::AHashSet;

use super::out::{check_target, writes};
use super::{CollectionName, Output, Stage, StageContext, Transform};
use crate::args::{Arg, fields, required};
use crate::error::{Code, Error, Result};
use crate::names::{is_internal, is_system};
use crate::query::expr::FieldPath;
use crate::query::{Expr, Scope, Survey, scope};
use crate::value::{Doc, Type, Value, ValueRef};

/// A parsed `$merge`. The engine executes it.
pub struct Merge {
    pub into: CollectionName,
    /// The fields by which a row matches a document; `_id` by default. The engine checks that a unique index covers them.
    pub on: Vec<Box<str>>,
    pub when_matched: WhenMatched,
    pub when_not_matched: WhenNotMatched,
    /// The variables of the `when_matched` pipeline, computed from the row. Their slots follow those of the command's
    /// variables and of `$$new`, which is the row itself.
    pub let_vars: Vec<(Box<str>, Expr)>,
}

/// The treatment of a row that matches a document.
pub enum WhenMatched {
    Replace,
    KeepExisting,
    Merge,
    Fail,
    /// An update, parsed when the first row arrives, as in mongod. It can use `$$new` and the variables of `let`.
    Pipeline {
        stages: Value,
        scope: Scope,
    },
}

/// The treatment of a row that matches no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenNotMatched {
    Insert,
    Discard,
    Fail,
}

/// The options, each checked for itself.
#[derive(Default)]
struct MergeOptions<'a> {
    into: Option<CollectionName>,
    on: Option<Vec<&'a str>>,
    let_vars: Option<Doc<'a>>,
    matched: Option<Matched<'a>>,
    not_matched: Option<WhenNotMatched>,
}

/// The option `whenMatched`.
enum Matched<'a> {
    Mode(WhenMatched),
    Pipeline(Doc<'a>),
}

// === impl Merge ===

impl Merge {
    /// Reports the fields that the stage names in rows and, through `$$new`, in the row as a whole.
    pub(super) fn survey(&self, survey: &mut Survey<'_>) {
        for path in &self.on {
            survey.parts(path.split('.'));
        }
        for (_, expr) in &self.let_vars {
            survey.expr(expr);
        }
        if let WhenMatched::Pipeline { stages, scope } = &self.when_matched {
            survey.carry();
            // An invalid pipeline is rejected when the first row arrives.
            let stages = stages.as_ref().as_array().unwrap_or(Doc::EMPTY);
            if let Ok(transform) = Transform::parse(stages, scope) {
                transform.survey(survey);
            }
        }
    }
}

/// Checks what needs no more than the argument itself.
pub(super) fn check_early(value: ValueRef<'_>, context: &StageContext<'_>) -> Result<()> {
    MergeOptions::read(value, context).map(drop)
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let given = MergeOptions::read(value, context)?;
    let into = required(given.into, "$merge", "into")?;
    let matched = given.matched.unwrap_or(Matched::Mode(WhenMatched::Merge));
    let not_matched = given.not_matched.unwrap_or(WhenNotMatched::Insert);
    let on = given.on.map_or(Ok(vec!["_id".into()]), check_on)?;
    if is_system(&into.coll) {
        return Err(Error::location(
            31319,
            format!("Cannot $merge to special collection: {}", into.coll),
        ));
    }
    if is_internal(&into.db) && into.db != context.db {
        return Err(Error::location(
            31320,
            format!("Cannot $merge to internal database: {}", into.db),
        ));
    }
    let (when_matched, let_vars) = match matched {
        Matched::Pipeline(stages) => {
            // MongoDB adds the row itself to the variables only where it may insert it.
            let has_new = given.let_vars.is_none_or(|vars| vars.has("new"))
                || not_matched == WhenNotMatched::Insert;
            parse_update(stages, given.let_vars, has_new, context)?
        }
        Matched::Mode(_) if given.let_vars.is_some() => {
            return Err(Error::location(
                51199,
                "Cannot use 'let' variables with 'whenMatched' mode other than a pipeline",
            ));
        }
        Matched::Mode(mode) => (mode, Lets::new()),
    };
    push(writes(Output::Merge(Arc::new(Merge {
        into,
        on,
        when_matched,
        when_not_matched: not_matched,
        let_vars,
    }))));
    Ok(())
}

fn parse_into(value: ValueRef<'_>, context: &StageContext<'_>) -> Result<CollectionName> {
    if let Some(coll) = value.as_str() {
        if coll.is_empty() {
            return Err(Error::location(
                5786800,
                "Invalid $merge 'into': the collection name cannot be empty",
            ));
        }
        return Ok(CollectionName::new(context.db, coll));
    }
    let Some(spec) = value.as_doc() else {
        return Err(Error::location(
            51178,
            format!(
                "$merge 'into' field must be either a string or an object, but found {}",
                value.ty().alias()
            ),
        ));
    };
    let (mut db, mut coll) = (None, None);
    for option in fields("$merge.into", spec) {
        let slot = match option.name() {
            "db" => &mut db,
            "coll" => &mut coll,
            _ => return Err(option.unknown()),
        };
        *slot = option.str()?.or(*slot);
    }
    let coll = coll.filter(|coll| !coll.is_empty()).ok_or_else(|| {
        Error::location(
            5786801,
            "Invalid $merge 'into': 'coll' must name a collection",
        )
    })?;
    let db = db.filter(|db| !db.is_empty()).unwrap_or(context.db);
    Ok(CollectionName::new(db, coll))
}

fn parse_on(value: ValueRef<'_>) -> Result<Vec<&str>> {
    let mut fields = Vec::new();
    match value.ty() {
        Type::String => fields.push(value.as_str().unwrap_or_default()),
        Type::Array => {
            for elem in value.as_array().into_iter().flatten() {
                let field = elem.value.as_str().ok_or_else(|| {
                    Error::location(
                        51134,
                        format!(
                            "$merge 'on' array elements must be strings, but found {}",
                            elem.value.ty().alias()
                        ),
                    )
                })?;
                fields.push(field);
            }
            if fields.is_empty() {
                return Err(Error::location(
                    51187,
                    "If explicitly specifying $merge 'on', must include at least one field",
                ));
            }
        }
        other => {
            return Err(Error::location(
                51186,
                format!(
                    "$merge 'on' field must be either a string or an array of strings, but found {}",
                    other.alias()
                ),
            ));
        }
    }
    Ok(fields)
}

/// Checks that the fields are paths, and that none occurs twice.
fn check_on(fields: Vec<&str>) -> Result<Vec<Box<str>>> {
    let mut names = AHashSet::new();
    for field in &fields {
        FieldPath::parse(field)?;
        if !names.insert(*field) {
            return Err(Error::location(
                31465,
                format!("Found a duplicate field '{field}' in $merge 'on'"),
            ));
        }
    }
    Ok(fields.into_iter().map(Box::from).collect())
}

fn parse_not_matched(option: Arg<'_>) -> Result<Option<WhenNotMatched>> {
    Ok(match option.str()? {
        None => None,
        Some("insert") => Some(WhenNotMatched::Insert),
        Some("discard") => Some(WhenNotMatched::Discard),
        Some("fail") => Some(WhenNotMatched::Fail),
        Some(other) => return Err(option.not_a_value(other)),
    })
}

type Lets = Vec<(Box<str>, Expr)>;

fn parse_matched(option: Arg<'_>) -> Result<Matched<'_>> {
    let Some(stages) = option.value().as_array() else {
        return parse_mode(option).map(Matched::Mode);
    };
    match stages.iter().all(|stage| stage.value.as_doc().is_some()) {
        true => Ok(Matched::Pipeline(stages)),
        false => Err(Error::type_mismatch(
            "Each element of the 'pipeline' array must be an object",
        )),
    }
}

fn parse_mode(option: Arg<'_>) -> Result<WhenMatched> {
    let words = "$merge 'whenMatched' field must be either a string or an array, but found {}";
    Ok(match option.expect(ValueRef::as_str, 51191, words)? {
        "replace" => WhenMatched::Replace,
        "keepExisting" => WhenMatched::KeepExisting,
        "merge" => WhenMatched::Merge,
        "fail" => WhenMatched::Fail,
        other => return Err(option.not_a_value(other)),
    })
}

/// Parses `whenMatched` as a pipeline, and the variables that it uses: those of `let`, and the row if `has_new` is set.
fn parse_update(
    stages: Doc<'_>,
    let_vars: Option<Doc<'_>>,
    has_new: bool,
    context: &StageContext<'_>,
) -> Result<(WhenMatched, Lets)> {
    let mut bound = Lets::new();
    // MongoDB does not optimise these: a constant fails with the first row.
    let kept = context.scope.clone().of_update();
    for elem in let_vars.into_iter().flatten() {
        if elem.name() == "new" && elem.value.as_str() == Some("$$ROOT") {
            continue;
        }
        if elem.name() == "new" {
            return Err(Error::location(
                51273,
                "'let' may not define a value for the reserved 'new' variable",
            ));
        }
        scope::check_definable(elem.name())
            .map_err(|error| Error::new(Code::FailedToParse, error.message()))?;
        let value = Expr::parse(elem.value, &kept)?;
        bound.push((elem.name().into(), value));
    }
    let names = bound.iter().map(|(name, _)| &**name);
    // The row has its slot in any case. No variable can have the empty name.
    let new = if has_new { "new" } else { "" };
    let scope = context
        .scope
        .with(std::iter::once(new).chain(names))
        .of_update();
    let stages = Value::new(Type::Array, stages.bytes());
    Ok((WhenMatched::Pipeline { stages, scope }, bound))
}

// === impl MergeOptions ===

impl<'a> MergeOptions<'a> {
    /// Reads the argument and checks that it names a target, and modes that go together.
    fn read(value: ValueRef<'a>, context: &StageContext<'_>) -> Result<Self> {
        let given = Self::read_fields(value, context)?;
        check_target("$merge", required(given.into.as_ref(), "$merge", "into")?)?;
        let keeps = matches!(
            given.matched,
            Some(Matched::Mode(WhenMatched::KeepExisting | WhenMatched::Fail))
        );
        match given.not_matched {
            Some(WhenNotMatched::Discard | WhenNotMatched::Fail) if keeps => Err(Error::location(
                51181,
                "Combination of {'whenMatched', 'whenNotMatched'} modes is not supported in $merge stage",
            )),
            _ => Ok(given),
        }
    }

    fn read_fields(value: ValueRef<'a>, context: &StageContext<'_>) -> Result<Self> {
        let mut given = Self::default();
        if let Some(coll) = value.as_str() {
            given.into = Some(CollectionName::new(context.db, coll));
            return Ok(given);
        }
        let spec = value.as_doc().ok_or_else(|| {
            Error::type_mismatch(format!(
                "$merge requires a string or object argument, but found {}",
                value.ty().alias()
            ))
        })?;
        for option in fields("$merge", spec) {
            match option.name() {
                "into" => given.into = Some(parse_into(option.value(), context)?),
                "on" => given.on = Some(parse_on(option.value())?),
                "let" => given.let_vars = option.doc()?,
                "whenMatched" => given.matched = Some(parse_matched(option)?),
                "whenNotMatched" => given.not_matched = parse_not_matched(option)?,
                // mongos sends these to shards.
                "targetCollectionVersion" | "allowMergeOnNullishValues" => {}
                _ => return Err(option.unknown()),
            }
        }
        Ok(given)
    }
}
