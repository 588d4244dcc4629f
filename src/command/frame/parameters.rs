//! The settings that getParameter shows and setParameter changes: one sorted table.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::args::to_i64;
use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder, Num, Type, Value, ValueRef, is_true};

/// The current values. setParameter writes them under the locks.
pub struct Parameters {
    values: Mutex<Vec<Value>>,
    verbosity: Mutex<BTreeMap<&'static str, i32>>,
}

/// A row of the table.
pub struct Parameter {
    pub name: &'static str,
    kind: ParameterKind,
    /// Whether setParameter may change it while the server runs.
    pub at_runtime: bool,
    /// Whether mongod takes it from its command line.
    pub at_startup: bool,
}

enum ParameterKind {
    Bool(bool),
    /// The default, the least value, the greatest value.
    Int(i64, i64, i64),
    /// The default, the greatest length.
    Text(&'static str, usize),
    /// `{version: "8.2"}`
    CompatibilityVersion,
    /// The log-in mechanisms: an empty list.
    Mechanisms,
    /// Log verbosity by component.
    Verbosity,
}

const fn runtime(name: &'static str, kind: ParameterKind) -> Parameter {
    Parameter {
        name,
        kind,
        at_runtime: true,
        at_startup: true,
    }
}

const fn fixed(name: &'static str, kind: ParameterKind) -> Parameter {
    Parameter {
        name,
        kind,
        at_runtime: false,
        at_startup: true,
    }
}

/// A property of the server that cannot be set.
const fn read_only(name: &'static str, kind: ParameterKind) -> Parameter {
    Parameter {
        name,
        kind,
        at_runtime: false,
        at_startup: false,
    }
}

const INT: i64 = i32::MAX as i64;

/// All parameters, sorted by name. The server accepts some parameters without using them, because clients and tests set
/// them.
pub static PARAMETERS: &[Parameter] = &[
    fixed(
        "KeysRotationIntervalSec",
        ParameterKind::Int(7_776_000, 1, INT),
    ),
    runtime(
        "ShardingTaskExecutorPoolReplicaSetMatching",
        ParameterKind::Text("automatic", 64),
    ),
    runtime("allowDiskUseByDefault", ParameterKind::Bool(true)),
    read_only("authSchemaVersion", ParameterKind::Int(5, 5, 5)),
    fixed("authenticationMechanisms", ParameterKind::Mechanisms),
    runtime("automationServiceDescriptor", ParameterKind::Text("", 64)),
    runtime(
        "clientCursorMonitorFrequencySecs",
        ParameterKind::Int(4, 1, INT),
    ),
    runtime("cursorTimeoutMillis", ParameterKind::Int(600_000, 1, INT)),
    fixed("enableLocalhostAuthBypass", ParameterKind::Bool(true)),
    fixed("enableTestCommands", ParameterKind::Bool(false)),
    read_only(
        "featureCompatibilityVersion",
        ParameterKind::CompatibilityVersion,
    ),
    // The rows of a first batch if the client sets no size.
    fixed(
        "internalQueryFindCommandBatchSize",
        ParameterKind::Int(101, 0, INT),
    ),
    runtime(
        "internalQueryFrameworkControl",
        ParameterKind::Text("trySbeRestricted", 64),
    ),
    runtime(
        "internalQueryMaxBlockingSortMemoryUsageBytes",
        ParameterKind::Int(104_857_600, 0, i64::MAX),
    ),
    fixed(
        "localLogicalSessionTimeoutMinutes",
        ParameterKind::Int(30, 1, INT),
    ),
    runtime("logComponentVerbosity", ParameterKind::Verbosity),
    runtime("logLevel", ParameterKind::Int(0, 0, INT)),
    runtime(
        "maxTransactionLockRequestTimeoutMillis",
        ParameterKind::Int(5, -INT - 1, INT),
    ),
    runtime("notablescan", ParameterKind::Bool(false)),
    runtime(
        "oplogFetcherInitialSyncMaxFetcherRestarts",
        ParameterKind::Int(10, 0, INT),
    ),
    runtime(
        "oplogFetcherSteadyStateMaxFetcherRestarts",
        ParameterKind::Int(1, 0, INT),
    ),
    runtime("planCacheSize", ParameterKind::Text("5%", 64)),
    runtime("quiet", ParameterKind::Bool(false)),
    runtime("redactEncryptedFields", ParameterKind::Bool(true)),
    fixed("requireApiVersion", ParameterKind::Bool(false)),
    runtime(
        "transactionLifetimeLimitSeconds",
        ParameterKind::Int(60, 1, INT),
    ),
    runtime("ttlMonitorEnabled", ParameterKind::Bool(true)),
    runtime("ttlMonitorSleepSecs", ParameterKind::Int(60, 1, INT)),
];

/// The components of the log, sorted. A component with a parent has a dotted path.
const COMPONENTS: &[&str] = &[
    "accessControl",
    "assert",
    "command",
    "control",
    "executor",
    "ftdc",
    "geo",
    "index",
    "network",
    "network.asio",
    "network.bridge",
    "network.connectionPool",
    "query",
    "query.optimizer",
    "queryStats",
    "replication",
    "replication.election",
    "replication.heartbeats",
    "replication.initialSync",
    "replication.rollback",
    "sharding",
    "storage",
    "storage.journal",
    "storage.recovery",
    "storage.wt",
    "test",
    "tracking",
    "transaction",
    "write",
];

/// The verbosity of a component that uses its parent's.
const INHERITED: i32 = -1;

// === impl Parameters ===

impl Default for Parameters {
    fn default() -> Self {
        Self {
            values: Mutex::new(PARAMETERS.iter().map(|row| row.kind.default()).collect()),
            verbosity: Mutex::new(COMPONENTS.iter().map(|&name| (name, INHERITED)).collect()),
        }
    }
}

impl Parameters {
    pub fn get(&self, name: &str) -> Option<(&'static Parameter, Value)> {
        let row = PARAMETERS.binary_search_by(|row| row.name.cmp(name)).ok()?;
        let parameter = PARAMETERS.get(row)?;
        let value = match parameter.kind {
            ParameterKind::Verbosity => self.verbosity(),
            _ => self.values.lock().get(row)?.clone(),
        };
        // A text that is empty is not set.
        if value.as_ref().as_str() == Some("") {
            return None;
        }
        Some((parameter, value))
    }

    /// Sets a value that the server determines itself (`enableTestCommands`).
    pub(in crate::command) fn fix(&self, name: &str, value: Value) {
        if let Ok(row) = PARAMETERS.binary_search_by(|row| row.name.cmp(name))
            && let Some(slot) = self.values.lock().get_mut(row)
        {
            *slot = value;
        }
    }

    /// Checks a new value without setting it.
    pub(in crate::command) fn check(
        name: &str,
        value: ValueRef<'_>,
    ) -> Result<(&'static Parameter, Value)> {
        let unknown = || {
            Error::new(
                Code::InvalidOptions,
                format!(
                    "attempted to set unrecognized parameter [{name}], use help:true to see options "
                ),
            )
        };
        let row = PARAMETERS
            .binary_search_by(|row| row.name.cmp(name))
            .map_err(|_| unknown())?;
        let parameter = PARAMETERS.get(row).ok_or_else(unknown)?;
        if !parameter.at_runtime {
            return Err(Error::new(
                Code::IllegalOperation,
                format!("not allowed to change [{name}] at runtime"),
            ));
        }
        Ok((parameter, parameter.kind.read(name, value)?))
    }

    /// Sets a value that [`Parameters::check`] has accepted, and returns the previous one.
    pub(in crate::command) fn set(&self, parameter: &'static Parameter, value: Value) -> Value {
        if let ParameterKind::Verbosity = parameter.kind {
            let before = self.verbosity();
            if let Some(doc) = value.as_ref().as_doc() {
                // The level of the whole log is one setting with logLevel. It inherits from nothing.
                if let Some(top) = level(doc.get("verbosity")) {
                    self.fix("logLevel", Value::int32(top.max(0)));
                }
                let mut levels = self.verbosity.lock();
                each_level(doc, "", &mut |name, level| {
                    levels.insert(name, level);
                });
            }
            return before;
        }
        let mut values = self.values.lock();
        match PARAMETERS
            .iter()
            .position(|row| row.name == parameter.name)
            .and_then(|row| values.get_mut(row))
        {
            Some(slot) => std::mem::replace(slot, value),
            None => Value::missing(),
        }
    }

    /// `{verbosity: 0, accessControl: {verbosity: -1}, ..., network: {verbosity: -1, asio: {verbosity: -1}}}`
    fn verbosity(&self) -> Value {
        let top = self
            .get("logLevel")
            .and_then(|(_, value)| value.as_ref().as_i32())
            .unwrap_or(0);
        let levels = self.verbosity.lock();
        let doc = DocBuf::build(|doc| {
            doc.put_i32("verbosity", top);
            for (name, level) in levels.iter().filter(|(name, _)| !name.contains('.')) {
                let mut component = doc.doc(name);
                component.put_i32("verbosity", *level);
                for (child, level) in levels.iter() {
                    if let Some((parent, child)) = child.split_once('.')
                        && parent == *name
                    {
                        let mut nested: DocBuilder<'_> = component.doc(child);
                        nested.put_i32("verbosity", *level);
                        nested.end();
                    }
                }
                component.end();
            }
        });
        Value::document(doc.into_bytes())
    }
}

// === impl ParameterKind ===

impl ParameterKind {
    fn default(&self) -> Value {
        match self {
            Self::Bool(value) => Value::boolean(*value),
            Self::Int(value, ..) => int(*value),
            Self::Text(value, _) => Value::string(value),
            Self::CompatibilityVersion => Value::document(
                DocBuf::build(|doc| {
                    doc.put_str("version", "8.2");
                })
                .into_bytes(),
            ),
            Self::Mechanisms => Value::array(DocBuf::new().into_bytes()),
            Self::Verbosity => Value::missing(),
        }
    }

    fn read(&self, name: &str, value: ValueRef<'_>) -> Result<Value> {
        match self {
            Self::Bool(_) => Ok(Value::boolean(is_true(value))),
            Self::Int(_, least, most) => {
                let number = match value.as_bool() {
                    Some(flag) => i64::from(flag),
                    None => to_i64(value).filter(|_| !value.as_num().is_some_and(Num::is_nan)).ok_or_else(|| {
                        Error::bad_value(format!(
                            "Failed to set parameter {name}: expected a number, found a value of type {}",
                            value.ty().alias()
                        ))
                    })?,
                };
                if number < *least || number > *most {
                    let bound = if number < *least {
                        ("greater", least)
                    } else {
                        ("less", most)
                    };
                    return Err(Error::bad_value(format!(
                        "Invalid value for parameter {name}: {number} is not {} than or equal to {}",
                        bound.0, bound.1
                    )));
                }
                Ok(int(number))
            }
            Self::Text(_, longest) => {
                let text = value.as_str().ok_or_else(|| {
                    Error::type_mismatch(format!(
                        "Expected type string for parameter {name}, found {}",
                        value.ty().alias()
                    ))
                })?;
                if text.len() > *longest {
                    return Err(Error::new(
                        Code::Overflow,
                        format!("Value for parameter {name} must be no more than {longest} bytes"),
                    ));
                }
                Ok(Value::string(text))
            }
            Self::Verbosity => {
                let doc = value.as_doc().ok_or_else(|| {
                    Error::type_mismatch(format!(
                        "log component verbosity is not a BSON object: {}",
                        value.ty().alias()
                    ))
                })?;
                check_levels(doc, "")?;
                Ok(value.to_value())
            }
            Self::CompatibilityVersion | Self::Mechanisms => Err(Error::new(
                Code::InvalidOptions,
                format!("not allowed to change [{name}] at runtime"),
            )),
        }
    }
}

fn int(value: i64) -> Value {
    i32::try_from(value).map_or_else(|_| Value::int64(value), Value::int32)
}

fn component(parent: &str, name: &str) -> Option<&'static str> {
    let matches = |known: &str| {
        if parent.is_empty() {
            known == name
        } else {
            known.split_once('.') == Some((parent, name))
        }
    };
    COMPONENTS.iter().find(|known| matches(known)).copied()
}

/// Reads a level. Every negative one means that the parent's counts.
fn level(value: ValueRef<'_>) -> Option<i32> {
    let number = value.as_num()?;
    let number = number.is_finite().then(|| number.to_i64_saturating())?;
    Some(i32::try_from(number).ok()?.max(INHERITED))
}

/// Refuses unknown components and invalid levels. All levels are checked before any is set.
fn check_levels(doc: Doc<'_>, parent: &str) -> Result<()> {
    for elem in doc {
        let bad_level = || {
            Err(Error::bad_value(format!(
                "Expected a number for the verbosity of log component '{parent}', found {}",
                elem.value
            )))
        };
        if elem.name() == "verbosity" {
            if level(elem.value).is_none() {
                return bad_level();
            }
            continue;
        }
        let Some(known) = component(parent, elem.name()) else {
            return Err(Error::bad_value(format!(
                "Invalid component name {parent}.{}",
                elem.name()
            )));
        };
        match elem.value.ty() {
            Type::Document => {
                check_levels(elem.value.as_doc().unwrap_or(Doc::EMPTY), known)?;
            }
            _ if level(elem.value).is_some() => {}
            _ => return bad_level(),
        }
    }
    Ok(())
}

/// Calls `set` for each level. Components have one level of children and their names are checked, so the recursion is at
/// most two deep.
fn each_level(doc: Doc<'_>, parent: &str, set: &mut dyn FnMut(&'static str, i32)) {
    for elem in doc {
        if elem.name() == "verbosity" {
            if let Some(known) = COMPONENTS.iter().find(|known| **known == parent)
                && let Some(level) = level(elem.value)
            {
                set(known, level);
            }
        } else if let Some(known) = component(parent, elem.name()) {
            match elem.value.as_doc() {
                Some(nested) => each_level(nested, known, set),
                None => set(known, level(elem.value).unwrap_or(INHERITED)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted() {
        assert!(PARAMETERS.is_sorted_by(|a, b| a.name < b.name));
        assert!(COMPONENTS.is_sorted());
    }

    #[test]
    fn the_level_of_the_whole_log_is_set_by_either_name() {
        let parameters = Parameters::default();
        let set = |levels: bson::Document| {
            let value = Value::document(levels.to_vec().unwrap());
            let (row, value) =
                Parameters::check("logComponentVerbosity", value.as_ref()).expect("levels");
            parameters.set(row, value);
            let value = |name: &str| parameters.get(name).map(|(_, value)| value).unwrap();
            let levels = value("logComponentVerbosity");
            let levels = levels.as_ref().as_doc().unwrap();
            let storage = levels.get("storage").as_doc().unwrap();
            let journal = storage.get("journal").as_doc().unwrap();
            let each = [levels, storage, journal].map(|level| level.get("verbosity").as_i32());
            assert_eq!(
                Some(value("logLevel").as_ref()),
                Some(levels.get("verbosity"))
            );
            each.map(Option::unwrap)
        };
        let journal = |level: i32| bson::doc! {"journal": {"verbosity": level}};
        let first = bson::doc! {"verbosity": 2, "storage": {"verbosity": 3, "journal": 5}};
        assert_eq!(set(first), [2, 3, 5]);
        assert_eq!(set(bson::doc! {"storage": journal(-7)}), [2, 3, -1]);
        assert_eq!(set(bson::doc! {"verbosity": -1, "storage": 4}), [0, 4, -1]);
    }

    #[test]
    fn a_parameter_is_checked_then_set() {
        let parameters = Parameters::default();
        let (row, value) =
            Parameters::check("ttlMonitorEnabled", Value::int32(0).as_ref()).expect("a flag");
        assert_eq!(parameters.set(row, value), Value::boolean(true));
        assert_eq!(
            parameters.get("ttlMonitorEnabled").map(|(_, value)| value),
            Some(Value::boolean(false))
        );
        let refused = [
            ("nonsense", Value::int32(1), 72),
            ("port", Value::int32(1), 72),
            ("featureCompatibilityVersion", Value::string("8.0"), 20),
            ("KeysRotationIntervalSec", Value::int32(1), 20),
            ("logLevel", Value::int32(-1), 2),
            ("logLevel", Value::string("1"), 2),
            ("automationServiceDescriptor", Value::int32(1), 14),
        ];
        for (name, value, code) in refused {
            let error = Parameters::check(name, value.as_ref()).err().expect(name);
            assert_eq!(error.code().number(), code, "{name}");
        }
    }
}
