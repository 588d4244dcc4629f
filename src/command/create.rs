//! `create`: creates a collection.

use super::collation;
use super::frame::transaction::check_local;
use super::index_spec::check_key;
use super::{Access, Call, Command, Flags, Needs, Outcome, capped, schema};
use crate::args::Arg;
use crate::auth::Action;
use crate::engine::ddl::{Cap, CollectionOptions, CreateCollection, Namespace, SchemaChange};
use crate::error::{Code, Error, Result};
use crate::names::{check_created, is_internal};
use crate::ttl::{DefaultTtl, IndexingMode, parse_default, parse_indexing_policy};
use crate::value::{Doc, DocBuf, DocBuilder, Type, ValueRef};

pub(super) const COMMAND: Command =
    Command::ready("create", Access::Admin, "Creates a collection.", run)
        .with(
            Flags::STABLE
                .and(Flags::WRITE_CONCERN)
                .and(Flags::TRANSACTION),
        )
        .needs(Needs::Collection(Action::CreateCollection));

/// The options of the new collection.
#[derive(Default)]
struct Create<'a> {
    temp: bool,
    capped: bool,
    size: Option<u64>,
    max: Option<u64>,
    expires: bool,
    view_on: Option<String>,
    pipeline: bool,
    default_ttl: DefaultTtl,
    mode: Option<IndexingMode>,
    /// Options that have no effect and are kept only so that listCollections shows them.
    shown: DocBuf,
    /// An option that is known but not built.
    refused: Option<&'static str>,
    keeps_images: bool,
    /// They are checked behind the other options.
    id_index: Option<Arg<'a>>,
    /// `storageEngine`, and that of `indexOptionDefaults`. They are checked last, behind the name.
    engines: Vec<Doc<'a>>,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let create = Create::parse(call)?;
    let name = call.collection()?;
    create.check(call.is_in_transaction())?;
    check_created(call.database(), name)?;
    create
        .engines
        .iter()
        .try_for_each(|engines| check_storage_engine(*engines))?;
    let change = CreateCollection {
        namespace: Namespace::new(call.database(), name),
        options: CollectionOptions {
            cap: create.cap(),
            indexing_mode: create.mode,
            keeps_images: create.keeps_images,
            shown: create.shown,
        },
        default_ttl: create.default_ttl,
        ts_index: None,
        indexes: Vec::new(),
    };
    if call.is_in_transaction() {
        check_local(call)?;
        change.run_at(&call.context.catalog, call.read_point())?;
        return Ok(Outcome::Reply);
    }
    schema::run(call, reply, SchemaChange::CreateCollection(change))
}

// === impl Create ===

impl<'a> Create<'a> {
    fn parse(call: &Call<'a>) -> Result<Self> {
        let mut create = Self::default();
        for arg in call.args().skip(1) {
            create.read(arg)?;
        }
        check_images(call.database(), create.keeps_images)?;
        Ok(create)
    }

    fn read(&mut self, arg: Arg<'a>) -> Result<()> {
        match arg.name() {
            "defaultTtl" => self.default_ttl = parse_default(arg.value())?,
            "indexingPolicy" => self.mode = parse_indexing_policy(arg)?,
            "capped" => self.capped = arg.bool()?.unwrap_or(false),
            "size" => self.size = capped::bytes(&arg)?,
            "max" => self.max = capped::documents(&arg)?,
            "temp" => self.temp = arg.bool()?.is_some(),
            "flags" => {
                arg.int()?;
            }
            "idIndex" => {
                arg.doc()?;
                self.id_index = Some(arg);
            }
            "viewOn" => self.view_on = arg.str()?.map(ToOwned::to_owned),
            "pipeline" => {
                self.pipeline = arg.docs()?.is_some();
            }
            "validator" => {
                if arg.doc()?.is_some_and(|validator| !validator.is_empty()) {
                    self.refused = Some("validator");
                }
            }
            "validationLevel" => {
                arg.one_of(VALIDATION_LEVELS)?;
                self.shown.put(arg.name(), or_missing(arg));
            }
            "validationAction" => {
                arg.one_of(VALIDATION_ACTIONS)?;
                self.shown.put(arg.name(), or_missing(arg));
            }
            "collation" => {
                if let Some(spec) = arg.doc()?
                    && !collation::check(spec)?
                {
                    self.refused = Some("collation");
                }
            }
            "storageEngine" => {
                if let Some(engines) = arg.doc()? {
                    self.engines.push(engines);
                    if !engines.is_empty() {
                        self.shown.put(arg.name(), arg.value());
                    }
                }
            }
            "indexOptionDefaults" => {
                if let Some(defaults) = arg.doc()? {
                    for field in crate::args::fields("create.indexOptionDefaults", defaults) {
                        match field.name() {
                            "storageEngine" => {
                                self.engines.extend(field.doc()?);
                            }
                            _ => return Err(field.unknown()),
                        }
                    }
                    if !defaults.is_empty() {
                        self.shown.put(arg.name(), arg.value());
                    }
                }
            }
            "changeStreamPreAndPostImages" => {
                if let Some(images) = arg.doc()?
                    && wants_images("create", images)?
                {
                    self.keeps_images = true;
                }
            }
            "timeseries" => {
                if arg.doc()?.is_some() {
                    self.refused = Some("timeseries");
                }
            }
            "clusteredIndex" => {
                if arg.value().as_doc().is_some() {
                    self.refused = Some("clusteredIndex");
                } else if arg.bool()?.unwrap_or(false) {
                    return Err(Error::location(
                        5979703,
                        "'clusteredIndex' must be a document in the form {key: {_id: 1}, unique: true}",
                    ));
                }
            }
            "encryptedFields" => {
                if arg.doc()?.is_some() {
                    self.refused = Some("encryptedFields");
                }
            }
            "expireAfterSeconds" => self.expires = arg.int()?.is_some(),
            "recordIdsReplicated" => {
                arg.strict_bool()?;
            }
            _ => return Err(arg.unknown()),
        }
        Ok(())
    }

    fn check(&self, in_transaction: bool) -> Result<()> {
        let invalid = |why: &str| Err(Error::new(Code::InvalidOptions, why));
        if self.temp {
            return invalid("the 'temp' field is an invalid option");
        }
        if self.capped && self.size.is_none() {
            return invalid("the 'size' field is required when 'capped' is true");
        }
        if !self.capped && (self.size.is_some() || self.max.is_some()) {
            return invalid(
                "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
            );
        }
        if self.pipeline && self.view_on.is_none() {
            return invalid("'pipeline' requires 'viewOn' to also be specified");
        }
        let end_by_themselves = matches!(
            self.refused,
            Some("timeseries" | "clusteredIndex" | "encryptedFields")
        );
        if self.expires && !end_by_themselves {
            return invalid(
                "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' option \
                 is specified",
            );
        }
        self.id_index.map_or(Ok(()), check_id_index)?;
        if self.view_on.is_some() && in_transaction {
            return Err(Error::new(
                Code::OperationNotSupportedInTransaction,
                "Cannot create a view in a multi-document transaction.",
            ));
        }
        if self.view_on.is_some() {
            return Err(Error::not_implemented("create option 'viewOn'"));
        }
        match self.refused {
            Some(option) => Err(Error::not_implemented(format_args!(
                "create option '{option}'"
            ))),
            None => Ok(()),
        }
    }

    fn cap(&self) -> Option<Cap> {
        let bytes = self.size.filter(|_| self.capped)?;
        let documents = self.max;
        Some(Cap { bytes, documents })
    }
}

pub(super) const VALIDATION_LEVELS: &[&str] = &["off", "strict", "moderate"];
pub(super) const VALIDATION_ACTIONS: &[&str] = &["error", "warn", "errorAndLog"];

/// Returns the value, or missing for a null: a null counts as left out, and is not shown among the options either.
fn or_missing(arg: Arg<'_>) -> ValueRef<'_> {
    if arg.is_null() {
        ValueRef::MISSING
    } else {
        arg.value()
    }
}

/// Checks `storageEngine`. Only `wiredTiger` and `inMemory`, the name that `serverStatus` tells, are accepted, with no settings or
/// an empty `configString`, because their settings have no meaning here.
pub fn check_storage_engine(engines: Doc<'_>) -> Result<()> {
    for engine in engines {
        let Some(options) = engine.value.as_doc() else {
            return Err(Error::bad_value(format!(
                "'storageEngine.{}' has to be an embedded document.",
                engine.name()
            )));
        };
        if !matches!(engine.name(), "wiredTiger" | "inMemory") {
            return Err(Error::new(
                Code::InvalidOptions,
                format!(
                    "{} is not a registered storage engine for this server",
                    engine.name()
                ),
            ));
        }
        for option in options {
            match (option.name(), option.value.as_str()) {
                ("configString", Some(text)) if text.contains('\0') => {
                    return Err(Error::failed_to_parse("malformed 'configString' value."));
                }
                ("configString", Some("")) => {}
                ("configString", _) => {
                    return Err(Error::bad_value(format!(
                        "storageEngine.{}.configString has no meaning for documents in memory",
                        engine.name()
                    )));
                }
                (name, _) => {
                    return Err(Error::new(
                        Code::InvalidOptions,
                        format!(
                            "'{name}' is not a supported option in storageEngine.{}",
                            engine.name()
                        ),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Parses `changeStreamPreAndPostImages: {enabled: bool}`.
pub(super) fn wants_images(command: &str, images: Doc<'_>) -> Result<bool> {
    let path = format!("{command}.changeStreamPreAndPostImages");
    let mut enabled = None;
    for field in crate::args::fields(&path, images) {
        match field.name() {
            "enabled" => enabled = field.strict_bool()?,
            _ => return Err(field.unknown()),
        }
    }
    crate::args::required(enabled, &path, "enabled")
}

/// Refuses images in the server's own databases.
pub(super) fn check_images(database: &str, enabled: bool) -> Result<()> {
    match is_internal(database) && enabled {
        true => Err(Error::new(
            Code::InvalidOptions,
            format!(
                "changeStreamPreAndPostImages collection option is not supported on the {database} database"
            ),
        )),
        false => Ok(()),
    }
}

fn check_id_index(arg: Arg<'_>) -> Result<()> {
    let Some(spec) = arg.doc()? else {
        return Ok(());
    };
    for field in crate::args::fields("create.idIndex", spec) {
        match field.name() {
            "key" => {
                let Some(key) = field.value().as_doc() else {
                    return Err(field.wrong_type(&[Type::Document]));
                };
                check_key(key)?;
            }
            "name" => match field.value().as_str() {
                None => return Err(field.wrong_type(&[Type::String])),
                Some("") => {
                    return Err(Error::new(
                        Code::CannotCreateIndex,
                        "The index name cannot be empty",
                    ));
                }
                Some(_) => {}
            },
            "v" => {
                let version = field.int()?;
                if version.is_some() && field.exact_int().is_err() {
                    return Err(Error::bad_value(format!(
                        "Index version must be a whole number, but found {}",
                        field.value()
                    )));
                }
                if !matches!(version, None | Some(1 | 2)) {
                    return Err(Error::new(
                        Code::CannotCreateIndex,
                        format!(
                            "Invalid index specification {spec}; cannot create an index with v={}",
                            field.value()
                        ),
                    ));
                }
            }
            "ns" | "collation" => {}
            other => {
                return Err(Error::new(
                    Code::InvalidIndexSpecificationOption,
                    format!(
                        "The field '{other}' is not valid for an _id index specification. Specification: {spec}"
                    ),
                ));
            }
        }
    }
    if spec.get("key").is_missing() {
        return Err(Error::failed_to_parse(
            "The 'key' field is a required property of an index specification",
        ));
    }
    if spec.get("name").is_missing() {
        return Err(Error::failed_to_parse(
            "The 'name' field is a required property of an index specification",
        ));
    }
    let key = spec.get("key").as_doc().unwrap_or(Doc::EMPTY);
    let is_one = key.get("_id").as_num().is_some_and(|n| n.to_f64() == 1.0);
    if key.count() != 1 || !is_one {
        return Err(Error::bad_value(format!(
            "The field 'key' for an _id index must be {{_id: 1}}, but got {key}"
        )));
    }
    Ok(())
}
