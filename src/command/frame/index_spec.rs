//! An entry of `indexes` in createIndexes: parses the client's specification into the form that storage keeps.

use std::sync::Arc;

use super::collation;
use crate::command::create::check_storage_engine;
use crate::engine::PartialFilter;
use crate::engine::ddl::{IndexSpec, Partial, WantedIndex};
use crate::error::{Code, Error, Result};
use crate::query::filter::{Filter, FilterNode, Test};
use crate::query::{Scope, Survey};
use crate::ttl::{Expiry, TS_FIELD, TsIndex, names_ts};
use crate::value::{Doc, DocBuf, Type, Value, ValueRef, is_true};

/// The most fields of a compound key.
const MAX_FIELDS: usize = 32;

/// Options of other kinds of indexes that MongoDB keeps with any index, and the type as which it shows them.
const OF_OTHER_KINDS: &[(&str, Type)] = &[
    ("2dsphereIndexVersion", Type::Int32),
    ("bits", Type::Int32),
    ("bucketSize", Type::Double),
    ("coarsestIndexedLevel", Type::Int32),
    ("default_language", Type::String),
    ("finestIndexedLevel", Type::Int32),
    ("language_override", Type::String),
    ("max", Type::Double),
    ("min", Type::Double),
    ("textIndexVersion", Type::Int32),
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
    storage_engine: Option<ValueRef<'a>>,
    partial: Option<Doc<'a>>,
    only_shown: DocBuf,
    /// The specification as a client wrote it. Members of a cluster send it, and it is checked like any other.
    original: Option<Doc<'a>>,
    has_weights: bool,
    has_collation: bool,
    /// An index of version 1.
    is_older: bool,
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
    let has_text = key.iter().any(|elem| elem.value.as_str() == Some("text"));
    if options.has_weights && !has_text {
        return Err(in_spec(cannot(format!(
            "Invalid index specification {spec}; the field 'weights' can only be specified with text indexes"
        ))));
    }
    if options.is_older && options.has_collation {
        return Err(in_spec(cannot(format!(
            "Invalid index specification {spec}; cannot create an index with the 'collation' option and v={OLDER}"
        ))));
    }
    if let Some(original) = options.original {
        IndexOptions::read(original, Unknown::Refused)
            .and_then(|options| options.key_and_name().map(drop))
            .map_err(in_spec)?;
    }
    // dropIndexes takes `*` as all indexes.
    if name == "*" {
        return Err(Error::bad_value("The index name '*' is not valid."));
    }
    // Any other number makes an index like those on other fields.
    if let Some(number) = id_direction(key).filter(|number| number.trunc().abs() == 1.0) {
        options.check_id(spec)?;
        return match number == 1.0 {
            true => check_name(name).map(|()| WantedIndex::Id).map_err(in_spec),
            false => Err(Error::bad_value(format!(
                "The field 'key' for an _id index must be {{_id: 1}}, but got {key}"
            ))),
        };
    }
    if name == "_id_" {
        return Err(Error::bad_value(format!(
            "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: 1}}, found key: {key}"
        )));
    }
    check_name(name).map_err(in_spec)?;
    if options.expire.is_some() && names_ts(key) {
        return options.default_ttl(name, key, spec);
    }
    check_kind(key).map_err(in_spec)?;
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

fn check_name(name: &str) -> Result<()> {
    match name {
        "" => Err(cannot("index name cannot be empty")),
        _ if name.contains('\0') => Err(cannot("index name cannot contain NUL bytes")),
        _ => Ok(()),
    }
}

/// Returns the direction of a key on `_id` alone.
fn id_direction(key: Doc<'_>) -> Option<f64> {
    let alone = key.count() == 1;
    let direction = key.get("_id").as_num().filter(|_| alone);
    direction.map(|direction| direction.to_f64())
}

pub(in crate::command) fn check_key(key: Doc<'_>) -> Result<()> {
    let mut count = 0;
    check_plugin(key)?;
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
        if name == "_fts" && elem.value.as_str() != Some("text") {
            return Err(cannot("Index key contains an illegal field name: '_fts'"));
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

/// Refuses an index of a kind that MongoDB does not know.
fn check_plugin(key: Doc<'_>) -> Result<()> {
    let mut kinds = key.iter().filter_map(|elem| elem.value.as_str());
    match kinds.find(|kind| !kind.is_empty()) {
        None | Some("text" | "2d" | "2dsphere" | "hashed") => Ok(()),
        Some("wildcard") => Err(Error::location(
            7246202,
            "The index type 'wildcard' is not a valid type",
        )),
        Some(kind) => Err(cannot(format!("Unknown index plugin '{kind}'"))),
    }
}

/// Refuses other kinds of indexes by name.
fn check_kind(key: Doc<'_>) -> Result<()> {
    for elem in key {
        match elem.value.as_str() {
            Some(kind @ ("text" | "2d" | "2dsphere" | "hashed")) => {
                return Err(Error::not_implemented(format_args!("index type '{kind}'")));
            }
            None if elem.name().ends_with("$**") => {
                return Err(Error::not_implemented("index type 'wildcard'"));
            }
            _ => {}
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
        Ok((key, name))
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
        if let Some((_, shown)) = OF_OTHER_KINDS.iter().find(|known| known.0 == name) {
            return self.keep(name, value, *shown).map_err(|()| {
                mismatch(match shown {
                    Type::String => "a string",
                    _ => "a number",
                })
            });
        }
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
                let partial = value.as_doc().ok_or_else(|| mismatch("an object"))?;
                // What such a filter may contain is checked behind the name.
                Filter::parse_plain(partial, &Scope::new())?;
                self.partial = Some(partial);
            }
            "collation" => {
                let spec = value.as_doc().ok_or_else(|| mismatch("an object"))?;
                if spec.is_empty() {
                    return Err(Error::bad_value(
                        "The field 'collation' cannot be an empty object.",
                    ));
                }
                if !collation::check(spec)? {
                    return Err(Error::not_implemented("index option 'collation'"));
                }
                self.has_collation = true;
            }
            "v" => {
                if check_version(value, spec)? == OLDER {
                    self.is_older = true;
                    let version = OLDER.to_le_bytes();
                    self.only_shown
                        .put(name, ValueRef::new(Type::Int32, &version));
                }
            }
            "storageEngine" => {
                self.storage_engine = Some(value);
                self.only_shown.put(name, value);
            }
            "ns" => {}
            "originalSpec" => {
                let original = value.as_doc().ok_or_else(|| mismatch("an object"))?;
                if original.is_empty() {
                    return Err(Error::bad_value(
                        "The field 'originalSpec' cannot be an empty object.",
                    ));
                }
                self.original = Some(original);
            }
            "weights" => {
                let wanted = [Type::Document, Type::Array, Type::String];
                if !wanted.contains(&value.ty()) {
                    return Err(mismatch("an object"));
                }
                self.has_weights = true;
            }
            "wildcardProjection" => {
                return Err(Error::bad_value(
                    "The field 'wildcardProjection' is only allowed in 'wildcard' indexes",
                ));
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

    /// Keeps an option of another kind of index, to be shown. Returns `Err` if the value has another type.
    fn keep(&mut self, name: &str, value: ValueRef<'_>, shown: Type) -> Result<(), ()> {
        if shown == Type::String {
            value.as_str().ok_or(())?;
            self.only_shown.put(name, value);
            return Ok(());
        }
        let number = value.as_num().ok_or(())?;
        let kept = match shown {
            Type::Double => Value::double(number.to_f64()),
            _ => {
                let limits = i64::from(i32::MIN)..=i64::from(i32::MAX);
                let number = number.to_i64_saturating();
                Value::int32(number.clamp(*limits.start(), *limits.end()) as i32)
            }
        };
        self.only_shown.put(name, kept.as_ref());
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
        if let Some(value) = self.storage_engine {
            check_engines(value).map_err(|error| in_specification(spec, error))?;
        }
        Ok(index)
    }
}

fn check_engines(value: ValueRef<'_>) -> Result<()> {
    let engines = value
        .as_doc()
        .ok_or_else(|| cannot("\"storageEngine\" options must be a document if present"))?;
    if engines.is_empty() {
        return Err(cannot(
            "Empty \"storageEngine\" options are invalid. Please remove the field or include valid options.",
        ));
    }
    check_storage_engine(engines)
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
    match version.to_i64_exact().map(i32::try_from) {
        Some(Ok(OLDER)) => Ok(OLDER),
        Some(Ok(2)) => Ok(2),
        None | Some(Err(_)) => Err(Error::bad_value(format!(
            "Index version must be representable as a 32-bit integer, but got {value}"
        ))),
        Some(Ok(_)) => Err(cannot(format!(
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
                // The values of an `$all` stand below an `$and` of their own.
                (tests.iter().count(), 1 + usize::from(tests.has("$all")))
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
