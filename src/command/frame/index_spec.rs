//! An entry of `indexes` in createIndexes: parses the client's specification into the form that storage keeps.

use std::sync::Arc;

use crate::command::create::{check_collation, check_storage_engine};
use crate::engine::PartialFilter;
use crate::engine::ddl::{IndexSpec, Partial, WantedIndex};
use crate::error::{Code, Error, Result};
use crate::query::filter::{Filter, FilterNode, Test};
use crate::query::{Scope, Survey};
use crate::ttl::{Expiry, TS_FIELD, TsIndex, names_ts};
use crate::value::{Doc, DocBuf, Type, ValueRef, is_true};

/// The most fields of a compound key.
const MAX_FIELDS: usize = 32;

/// Options of MongoDB that belong to kinds of indexes that are not built.
const OTHER_KINDS: &[&str] = &[
    "2dsphereIndexVersion",
    "bits",
    "bucketSize",
    "coarsestIndexedLevel",
    "default_language",
    "finestIndexedLevel",
    "language_override",
    "max",
    "min",
    "textIndexVersion",
    "weights",
    "wildcardProjection",
];

/// The options of an entry, before they are checked.
#[derive(Default)]
struct IndexOptions<'a> {
    name: Option<&'a str>,
    key: Option<Doc<'a>>,
    unique: bool,
    prepare_unique: bool,
    sparse: bool,
    hidden: bool,
    expire: Option<ValueRef<'a>>,
    partial: Option<Doc<'a>>,
    only_shown: DocBuf,
    /// An option that belongs to another kind of index.
    foreign: Option<&'a str>,
    /// Unknown options that the client asked to ignore.
    ignored: Vec<&'a str>,
}

/// How to treat unknown options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum Unknown {
    Refused,
    /// mongorestore asks for this, because old servers stored any option.
    Ignored,
}

pub(in crate::command) fn parse(spec: Doc<'_>, unknown: Unknown) -> Result<WantedIndex> {
    let in_spec = |error| in_specification(spec, error);
    let options = IndexOptions::read(spec, unknown).map_err(in_spec)?;
    let (key, name) = options.key_and_name().map_err(in_spec)?;
    // dropIndexes takes `*` as all indexes.
    if name == "*" {
        return Err(Error::bad_value("The index name '*' is not valid."));
    }
    if is_id_key(key) {
        return options.check_id(spec).map(|()| WantedIndex::Id);
    }
    if key.count() == 1 && !key.get("_id").is_missing() && key.get("_id").as_str().is_none() {
        return Err(Error::bad_value(format!(
            "The field 'key' for an _id index must be {{_id: 1}}, but got {key}"
        )));
    }
    if name == "_id_" {
        return Err(Error::bad_value(format!(
            "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: 1}}, found key: {key}"
        )));
    }
    if options.expire.is_some() && names_ts(key) {
        return options.default_ttl(name, key, spec);
    }
    check_kind(key)
        .and_then(|()| options.check_foreign(spec))
        .map_err(in_spec)?;
    options
        .index(name, key, spec)
        .map(|index| WantedIndex::Index(Box::new(index)))
}

/// Puts the specification in front of the error, as mongod does for most mistakes. An error about an unbuilt feature stays
/// as it is.
fn in_specification(spec: Doc<'_>, error: Error) -> Error {
    match error.code() {
        Code::NotImplemented => error,
        _ => error.caused(&format!("Error in specification {spec}")),
    }
}

fn cannot(message: impl Into<String>) -> Error {
    Error::new(Code::CannotCreateIndex, message)
}

fn is_id_key(key: Doc<'_>) -> bool {
    key.count() == 1 && key.get("_id").as_num().is_some_and(|n| n.to_f64() > 0.0)
}

fn check_key(key: Doc<'_>) -> Result<()> {
    let mut count = 0;
    for elem in key {
        count += 1;
        if count > MAX_FIELDS {
            return Err(Error::location(
                13103,
                format!("compound index may contain at most {MAX_FIELDS} fields"),
            ));
        }
        let name = elem.name();
        if name.is_empty() {
            return Err(cannot("Index keys cannot contain an empty field."));
        }
        if name.split('.').any(str::is_empty) {
            return Err(cannot("Index keys cannot contain an empty field."));
        }
        let wildcard = name == "$**" || name.ends_with(".$**");
        if !wildcard
            && name
                .split('.')
                .enumerate()
                .any(|(at, part)| part.starts_with('$') && (at == 0 || !is_reference(part)))
        {
            return Err(cannot(
                "Index key contains an illegal field name: field name starts with '$'.",
            ));
        }
        check_direction(elem.value)?;
        if key
            .iter()
            .take(count - 1)
            .any(|before| before.name_bytes() == elem.name_bytes())
        {
            return Err(cannot(format!("Duplicate field in index key: {name}")));
        }
    }
    if count == 0 {
        return Err(cannot("Index keys cannot be empty."));
    }
    Ok(())
}

/// Whether this is a field of a DBRef, which may begin with a dollar below the root.
fn is_reference(part: &str) -> bool {
    matches!(part, "$id" | "$ref" | "$db")
}

fn check_direction(value: ValueRef<'_>) -> Result<()> {
    match value.ty() {
        Type::String => match value.as_str() {
            Some("") => Err(cannot(
                "Values in the index key pattern cannot be empty strings",
            )),
            _ => Ok(()),
        },
        ty if ty.is_number() => match value.as_num() {
            Some(n) if n.is_nan() => Err(cannot("Values in the index key pattern cannot be NaN.")),
            Some(n) if n.is_zero() => Err(cannot("Values in the index key pattern cannot be 0.")),
            _ => Ok(()),
        },
        ty => Err(cannot(format!(
            "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and strings are allowed.",
            ty.alias()
        ))),
    }
}

/// Refuses other kinds of indexes by name.
fn check_kind(key: Doc<'_>) -> Result<()> {
    for elem in key {
        match elem.value.as_str() {
            Some(kind @ ("text" | "2d" | "2dsphere" | "hashed")) => {
                return Err(Error::not_implemented(format_args!("index type '{kind}'")));
            }
            Some("wildcard") => {
                return Err(Error::location(
                    7246202,
                    "The index type 'wildcard' is not a valid type",
                ));
            }
            Some(kind) => return Err(cannot(format!("Unknown index plugin '{kind}'"))),
            None if elem.name().ends_with("$**") => {
                return Err(Error::not_implemented("index type 'wildcard'"));
            }
            None => {}
        }
    }
    Ok(())
}

// === impl IndexOptions ===

impl<'a> IndexOptions<'a> {
    fn read(spec: Doc<'a>, unknown: Unknown) -> Result<Self> {
        let mut options = Self::default();
        for elem in spec {
            options.read_one(elem.name(), elem.value, spec, unknown)?;
        }
        Ok(options)
    }

    /// Returns the options that every index has.
    fn key_and_name(&self) -> Result<(Doc<'a>, &'a str)> {
        let required = |name: &str| {
            Error::failed_to_parse(format!(
                "The '{name}' field is a required property of an index specification"
            ))
        };
        let key = self.key.ok_or_else(|| required("key"))?;
        let name = self.name.ok_or_else(|| required("name"))?;
        match name {
            "" => Err(cannot("index name cannot be empty")),
            _ if name.contains('\0') => Err(cannot("index name cannot contain NUL bytes")),
            _ => Ok((key, name)),
        }
    }

    /// Refuses options of other kinds of indexes.
    fn check_foreign(&self, spec: Doc<'_>) -> Result<()> {
        match self.foreign {
            None => Ok(()),
            Some("wildcardProjection") => Err(Error::bad_value(
                "The field 'wildcardProjection' is only allowed in an 'wildcard' index",
            )),
            Some("weights") => Err(cannot(format!(
                "Invalid index specification {spec}; the field 'weights' can only be specified with text indexes"
            ))),
            Some(option) => Err(cannot(format!(
                "The field '{option}' is not valid for this kind of index. Specification: {spec}"
            ))),
        }
    }

    fn read_one(
        &mut self,
        name: &'a str,
        value: ValueRef<'a>,
        spec: Doc<'a>,
        unknown: Unknown,
    ) -> Result<()> {
        let mismatch = |wanted: &str| {
            Error::type_mismatch(format!(
                "The field '{name}' must be {wanted}, but got {}",
                value.ty().alias()
            ))
        };
        let flag = || match value.ty() {
            ty if ty.is_number() || ty == Type::Bool => Ok(is_true(value)),
            _ => Err(Error::type_mismatch(format!(
                "The field '{name} has value {name}: {value}, which is not convertible to bool"
            ))),
        };
        match name {
            "name" => self.name = Some(value.as_str().ok_or_else(|| mismatch("a string"))?),
            "key" => {
                let key = value.as_doc().ok_or_else(|| mismatch("an object"))?;
                check_key(key)?;
                self.key = Some(key);
            }
            "unique" => self.unique = flag()?,
            "sparse" => {
                self.sparse = flag()?;
                if !self.sparse {
                    self.only_shown.put(name, ValueRef::new(Type::Bool, &[0]));
                }
            }
            "hidden" => self.hidden = value.as_bool().ok_or_else(|| mismatch("a bool"))?,
            "prepareUnique" => self.prepare_unique = flag()?,
            "background" => {
                let background = [u8::from(flag()?)];
                let background = ValueRef::new(Type::Bool, &background);
                self.only_shown.put(name, background);
            }
            "dropDups" => {
                flag()?;
            }
            "clustered" => {
                if !flag()? {
                    return Err(Error::location(
                        6492800,
                        "Value 'false' for field 'clustered' is invalid",
                    ));
                }
                return Err(Error::not_implemented("index option 'clustered'"));
            }
            "expireAfterSeconds" => self.expire = Some(value),
            "partialFilterExpression" => {
                self.partial = Some(value.as_doc().ok_or_else(|| mismatch("an object"))?);
            }
            "collation" => {
                let collation = value.as_doc().ok_or_else(|| mismatch("an object"))?;
                if collation.is_empty() {
                    return Err(Error::bad_value(
                        "The field 'collation' cannot be an empty object.",
                    ));
                }
                if !check_collation(collation)? {
                    return Err(Error::not_implemented("index option 'collation'"));
                }
            }
            "v" => {
                if check_version(value, spec)? == OLDER {
                    let version = OLDER.to_le_bytes();
                    self.only_shown
                        .put(name, ValueRef::new(Type::Int32, &version));
                }
            }
            "storageEngine" => {
                let engines = value.as_doc().ok_or_else(|| mismatch("an object"))?;
                if engines.is_empty() {
                    return Err(cannot(
                        "Empty \"storageEngine\" options are invalid. Please remove the field or include valid options.",
                    ));
                }
                check_storage_engine(engines)?;
                self.only_shown.put(name, value);
            }
            "ns" | "originalSpec" => {}
            _ if OTHER_KINDS.contains(&name) => {
                let wanted = match name {
                    "wildcardProjection" => Type::Document,
                    "language_override" | "default_language" => Type::String,
                    _ => value.ty(),
                };
                if value.ty() != wanted {
                    return Err(mismatch(if wanted == Type::String {
                        "a string"
                    } else {
                        "an object"
                    }));
                }
                self.foreign = Some(name);
            }
            _ if unknown == Unknown::Ignored => self.ignored.push(name),
            _ => {
                return Err(Error::new(
                    Code::InvalidIndexSpecificationOption,
                    format!(
                        "The field '{name}' is not valid for an index specification. Specification: {spec}"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Checks the options of the index on `_id`, which takes very few.
    fn check_id(&self, spec: Doc<'_>) -> Result<()> {
        for elem in spec {
            if !self.ignored.contains(&elem.name())
                && !matches!(elem.name(), "key" | "name" | "v" | "ns" | "collation")
            {
                return Err(Error::new(
                    Code::InvalidIndexSpecificationOption,
                    format!(
                        "The field '{}' is not valid for an _id index specification. Specification: {spec}",
                        elem.name()
                    ),
                ));
            }
        }
        Ok(())
    }

    fn default_ttl(&self, name: &str, key: Doc<'_>, spec: Doc<'_>) -> Result<WantedIndex> {
        let is_more = self.unique || self.prepare_unique || self.sparse || self.partial.is_some();
        let value = self.expire.unwrap_or(ValueRef::MISSING);
        Ok(WantedIndex::Default {
            default: Expiry::Create(spec).parse_ts_index(value, key, is_more || self.hidden)?,
            ts_index: TsIndex::new(Some(name), Some(key)),
        })
    }

    fn index(self, name: &str, key: Doc<'_>, spec: Doc<'_>) -> Result<IndexSpec> {
        if self.unique && self.prepare_unique {
            let error = Error::new(
                Code::CannotCreateIndex,
                format!(
                    "Invalid index specification {spec}; cannot create an index with the 'unique' option and the \
                     'prepareUnique' option"
                ),
            );
            return Err(in_specification(spec, error));
        }
        let mut index = IndexSpec::new(name, DocBuf::from(key));
        index.unique = self.unique;
        index.prepare_unique = self.prepare_unique;
        index.sparse = self.sparse;
        index.hidden = self.hidden;
        index.shown = self.only_shown;
        if let Some(value) = self.expire {
            index.expire_after = Some(Expiry::Create(spec).parse(value, key)?);
        }
        if let Some(partial) = self.partial {
            let read = read_partial(partial, self.sparse);
            index.partial = Some(read.map_err(|error| in_specification(spec, error))?);
        }
        Ok(index)
    }
}

fn read_partial(partial: Doc<'_>, sparse: bool) -> Result<Partial> {
    if sparse {
        return Err(cannot(
            "cannot mix \"partialFilterExpression\" and \"sparse\" options",
        ));
    }
    let filter = Filter::parse_plain(partial, &Scope::new())?;
    if Survey::of(TS_FIELD, |survey| filter.survey(survey)).names_field {
        // Documents do not contain `_ts`. The index would be empty, and a filter on `_ts` would find nothing through it.
        return Err(cannot(format!(
            "partialFilterExpression cannot name _ts, which is kept by the server: {partial}"
        )));
    }
    if names_always_true(partial) {
        return Err(unsupported_in_partial(partial));
    }
    if levels(partial) > MAX_PARTIAL_LEVELS {
        return Err(cannot(format!(
            "partialFilterExpression depth may not exceed {MAX_PARTIAL_LEVELS}"
        )));
    }
    check_partial(filter.root(), partial)?;
    Ok(Partial {
        filter: DocBuf::from(partial),
        condition: Arc::new(PartialFilter(Arc::new(filter))),
    })
}

/// The version of indexes before the present one. Both are the same here.
const OLDER: i32 = 1;

fn check_version(value: ValueRef<'_>, spec: Doc<'_>) -> Result<i32> {
    let Some(version) = value.as_num() else {
        return Err(Error::type_mismatch(format!(
            "The field 'v' must be a number, but got {}",
            value.ty().alias()
        )));
    };
    match version.to_i64_exact() {
        Some(1) => Ok(OLDER),
        Some(2) => Ok(2),
        _ => Err(cannot(format!(
            "Invalid index specification {spec}; cannot create an index with v={value}"
        ))),
    }
}

fn unsupported_in_partial(filter: Doc<'_>) -> Error {
    cannot(format!(
        "Expression not supported in partial index: {filter}"
    ))
}

/// Returns whether a condition is `$alwaysTrue`, which is parsed as no condition.
fn names_always_true(filter: Doc<'_>) -> bool {
    filter.iter().any(|field| match field.name() {
        "$alwaysTrue" => true,
        "$and" | "$or" => {
            let parts = field.value.as_array().into_iter().flatten();
            parts
                .filter_map(|part| part.value.as_doc())
                .any(names_always_true)
        }
        _ => false,
    })
}

/// The most levels of the filter of a partial index (`internalPartialFilterExpressionMaxDepth`).
const MAX_PARTIAL_LEVELS: usize = 4;

/// Counts the levels of a filter as it is written. The parsed one has fewer, because nested `$and` are joined there.
fn levels(filter: Doc<'_>) -> usize {
    let (mut conditions, mut deepest) = (0, 0);
    for field in filter {
        let (count, below) = match (field.name(), field.value.as_array(), field.value.as_doc()) {
            ("$and" | "$or", Some(parts), _) => {
                let parts = parts.iter().filter_map(|part| part.value.as_doc());
                (1, 1 + parts.map(levels).max().unwrap_or(0))
            }
            (_, _, Some(tests))
                if tests
                    .first()
                    .is_some_and(|test| test.name().starts_with('$')) =>
            {
                (tests.iter().count(), 1)
            }
            _ => (1, 1),
        };
        conditions += count;
        deepest = deepest.max(below);
    }
    // Several conditions stand below an `$and` that is not written.
    deepest + usize::from(conditions > 1)
}

/// Checks the filter of a partial index. It may contain comparisons, existence, type, and combinations of these.
fn check_partial(node: &FilterNode, filter: Doc<'_>) -> Result<()> {
    let unsupported = || Err(unsupported_in_partial(filter));
    match node {
        FilterNode::True => Ok(()),
        FilterNode::And(nodes) | FilterNode::Or(nodes) => nodes
            .iter()
            .try_for_each(|node| check_partial(node, filter)),
        FilterNode::Field(field) => match &field.test {
            Test::Compare(_) | Test::In(_) | Test::Exists | Test::Type(_) => Ok(()),
            _ => unsupported(),
        },
        _ => unsupported(),
    }
}
