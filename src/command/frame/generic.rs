//! The arguments that every command takes: database, session, concerns, time limit, API version.
//!
//! One pass over the raw command sorts its fields. Generic fields are checked here; the others are the command's own.

use smallvec::SmallVec;

use super::concern::{self, ReadConcern};
use super::write_concern::{self, WriteConcern};
use super::{Command, Flags, cluster_time, read_preference, stable_api, transaction};
use crate::args::NUMBERS;
use crate::config::Topology;
use crate::error::{Code, Error, Result};
use crate::names::check_database;
use crate::session::SessionId;
use crate::value::{ClusterTime, Elem, Type, ValueRef, is_true};
use crate::wire::Request;

pub(in crate::command) struct Generic<'a> {
    pub database: &'a str,
    pub session: Option<SessionId>,
    /// The number of a retryable write or a transaction.
    pub number: Option<i64>,
    /// The command belongs to a transaction, and whether it starts it.
    pub transaction: Option<bool>,
    /// Boxed, because it is rare and every call moves these arguments.
    pub read_concern: Option<Box<ReadConcern<'a>>>,
    /// `maxTimeMS`; zero means no limit.
    pub max_time_millis: u64,
    pub has_max_time: bool,
    pub write_concern: WriteConcern,
    /// The logical time that the client has heard of.
    pub cluster_time: Option<ClusterTime>,
    /// The command may use only the stable API.
    pub api_strict: bool,
    /// The client wants a description of the command; the command does not run.
    pub help: bool,
}

/// Generic fields that most commands do not have.
#[derive(Default)]
struct RareArguments<'a> {
    api_version: Option<ValueRef<'a>>,
    api_strict: Option<bool>,
    api_deprecation_errors: Option<bool>,
    autocommit: Option<bool>,
    start_transaction: Option<bool>,
}

// === impl Generic ===

impl<'a> Generic<'a> {
    /// Sorts the fields of `request`. The first field names the command.
    #[inline]
    pub fn parse(
        command: &'static Command,
        topology: &Topology,
        request: &'a Request,
        own: &mut SmallVec<[Elem<'a>; 10]>,
    ) -> Result<Self> {
        let mut generic = Self::none();
        let (mut database, mut read_concern) = (None, None);
        let mut rare = None;
        // One bit for each generic field found so far.
        let mut met = 0_u32;
        let mut fields = request.body().iter();
        if let Some(first) = fields.next() {
            own.push(first);
        }
        for elem in fields {
            let value = elem.value;
            let bit = match elem.name_bytes() {
                b"$db" => {
                    database = Some(value);
                    0
                }
                b"lsid" if value.is_nullish() => 1,
                b"lsid" => {
                    generic.session = Some(SessionId::parse(value, "OperationSessionInfo.lsid")?);
                    1
                }
                b"txnNumber" => {
                    if !value.is_nullish() {
                        generic.number = Some(read_number(value)?);
                    }
                    2
                }
                b"$clusterTime" => {
                    if value.as_doc().is_none() && !value.is_nullish() {
                        return Err(Error::wrong_type(
                            command.name,
                            elem.name(),
                            value.ty(),
                            &[Type::Document],
                        ));
                    }
                    if *topology != Topology::Standalone {
                        generic.cluster_time = cluster_time::parse(value)?;
                    }
                    3
                }
                b"$readPreference" => {
                    read_preference::check(command, value)?;
                    4
                }
                b"readConcern" => {
                    read_concern = Some(value);
                    5
                }
                b"writeConcern" => {
                    generic.write_concern = write_concern::check(command, topology, value)?;
                    6
                }
                b"maxTimeMS" => {
                    generic.max_time_millis = read_max_time(command, value)?;
                    generic.has_max_time = !value.is_nullish();
                    7
                }
                b"comment" => 8,
                b"help" => {
                    generic.help = is_true(value);
                    9
                }
                b"apiVersion"
                | b"apiStrict"
                | b"apiDeprecationErrors"
                | b"autocommit"
                | b"startTransaction" => rare
                    .get_or_insert_with(RareArguments::default)
                    .read(command, elem)?,
                b"$audit"
                | b"$client"
                | b"$configServerState"
                | b"$configTime"
                | b"$gleStats"
                | b"$queryOptions"
                | b"$replData"
                | b"$tenant"
                | b"$topologyTime"
                | b"$oplogQueryData"
                | b"allowImplicitCollectionCreation"
                | b"clientOperationKey"
                | b"coordinator"
                | b"databaseVersion"
                | b"expectPrefix"
                | b"maxTimeMSOpOnly"
                | b"mayBypassWriteBlocking"
                | b"rawData"
                | b"requestGossipRoutingCache"
                | b"shardVersion"
                | b"startOrContinueTransaction"
                | b"traceCtx"
                | b"versionContext" => continue,
                // Every command takes it; only writes that can be retried make use of it.
                b"stmtId" if !command.facts.flags.has(Flags::RETRYABLE) => continue,
                _ => {
                    own.push(elem);
                    continue;
                }
            };
            if met & 1 << bit != 0 {
                return Err(duplicate(command, elem.name()));
            }
            met |= 1 << bit;
        }
        refuse_duplicates(command, own)?;
        generic.database = match (database, &request.query_database) {
            (Some(value), _) => value.as_str().ok_or_else(|| {
                Error::wrong_type(command.name, "$db", value.ty(), &[Type::String])
            })?,
            (None, Some(name)) => name,
            (None, None) => {
                return Err(Error::location(
                    40571,
                    "OP_MSG requests require a $db argument",
                ));
            }
        };
        check_database(generic.database)?;
        if let Some(rare) = &rare {
            generic.api_strict = rare.api_strict == Some(true);
        }
        generic.check(command, topology, rare)?;
        if generic.api_strict {
            stable_api::check_strict(command, own)?;
        }
        if let Some(value) = read_concern {
            let in_transaction = generic.transaction.is_some();
            generic.read_concern = concern::read(command, topology, value, in_transaction)?;
        }
        Ok(generic)
    }

    /// Sorts the fields of a request that another server will check and answer.
    pub fn unchecked(request: &'a Request, own: &mut SmallVec<[Elem<'a>; 10]>) -> Self {
        own.extend(request.body().iter());
        let body = request.body();
        Self {
            database: body.get("$db").as_str().unwrap_or_default(),
            ..Self::none()
        }
    }

    /// Returns the arguments of a command that gives none.
    #[inline(always)]
    fn none() -> Self {
        Self {
            database: "",
            session: None,
            number: None,
            transaction: None,
            read_concern: None,
            max_time_millis: 0,
            has_max_time: false,
            write_concern: WriteConcern::default(),
            cluster_time: None,
            api_strict: false,
            help: false,
        }
    }

    fn check(
        &mut self,
        command: &Command,
        topology: &Topology,
        rare: Option<RareArguments<'_>>,
    ) -> Result<()> {
        if let Some(rare) = rare {
            rare.check_api(command)?;
            self.transaction = rare.check_transaction(self)?;
        }
        if let Some(number) = self.number {
            self.check_number(command, topology, number, self.transaction.is_some())?;
        }
        if command.facts.flags.has(Flags::ADMIN_ONLY) && self.database != "admin" {
            if self.transaction.is_some() {
                transaction::check_command(command)?;
            }
            return Err(Error::new(
                Code::Unauthorized,
                format!(
                    "{} may only be run against the admin database.",
                    command.name
                ),
            ));
        }
        Ok(())
    }

    fn check_number(
        &self,
        command: &Command,
        topology: &Topology,
        number: i64,
        in_transaction: bool,
    ) -> Result<()> {
        if self.session.is_none() {
            return Err(Error::new(
                Code::InvalidOptions,
                "Transaction number requires a session ID to also be specified",
            ));
        }
        if number < 0 {
            return Err(Error::new(
                Code::InvalidOptions,
                "Transaction number cannot be negative",
            ));
        }
        if *topology == Topology::Standalone {
            return Err(Error::new(
                Code::IllegalOperation,
                "Transaction numbers are only allowed on a replica set member or mongos",
            ));
        }
        if !in_transaction && !command.facts.flags.has(Flags::RETRYABLE) {
            return Err(Error::new(
                Code::NotARetryableWriteCommand,
                format!(
                    "txnNumber may only be provided for multi-document transactions and retryable write commands. \
                     autocommit:false was not provided, and {} is not a retryable write command.",
                    command.name
                ),
            ));
        }
        Ok(())
    }
}

// === impl RareArguments ===

impl<'a> RareArguments<'a> {
    /// Reads one of these fields. Returns its bit among the generic fields.
    fn read(&mut self, command: &Command, elem: Elem<'a>) -> Result<u32> {
        let (name, value) = (elem.name(), elem.value);
        let is_there = !value.is_nullish();
        let wrong_type = |wanted| Error::wrong_type(command.name, name, value.ty(), &[wanted]);
        if name == "apiVersion" {
            if is_there {
                value.as_str().ok_or_else(|| wrong_type(Type::String))?;
                self.api_version = Some(value);
            }
            return Ok(10);
        }
        let flag = match is_there {
            true => Some(value.as_bool().ok_or_else(|| wrong_type(Type::Bool))?),
            false => None,
        };
        Ok(match name {
            "apiStrict" => {
                self.api_strict = flag;
                11
            }
            "apiDeprecationErrors" => {
                self.api_deprecation_errors = flag;
                12
            }
            "autocommit" => {
                self.autocommit = flag;
                13
            }
            _ => {
                self.start_transaction = flag;
                14
            }
        })
    }

    fn check_api(&self, command: &Command) -> Result<()> {
        let Some(version) = self.api_version else {
            if self.api_strict.is_some() || self.api_deprecation_errors.is_some() {
                return Err(Error::location(
                    4886600,
                    "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion",
                ));
            }
            return Ok(());
        };
        if version.as_str() != Some("1") {
            return Err(Error::new(
                Code::APIVersionError,
                "API version must be \"1\"",
            ));
        }
        if self.api_strict == Some(true) && !command.facts.flags.has(Flags::STABLE) {
            return Err(Error::new(
                Code::APIStrictError,
                format!(
                    "Provided apiStrict:true, but the command {} is not in API Version 1. Information on supported commands \
                     and migrations in API Version 1 can be found at \
                     https://dochub.mongodb.org/core/manual-versioned-api",
                    command.name
                ),
            ));
        }
        Ok(())
    }

    /// Returns whether the command starts a multi-document transaction, if it is part of one.
    fn check_transaction(&self, generic: &Generic<'_>) -> Result<Option<bool>> {
        let invalid = |message| Err(Error::new(Code::InvalidOptions, message));
        match self.autocommit {
            _ if self.start_transaction == Some(false) => {
                invalid("Specifying startTransaction=false is not allowed.")
            }
            Some(true) => invalid("Specifying autocommit=true is not allowed."),
            Some(false) if generic.number.is_none() => {
                invalid("'autocommit' field requires a transaction number to also be specified")
            }
            None if self.start_transaction.is_some() => {
                invalid("'startTransaction' field requires 'autocommit' field to also be specified")
            }
            autocommit => Ok(autocommit.map(|_| self.start_transaction.is_some())),
        }
    }
}

fn read_number(value: ValueRef<'_>) -> Result<i64> {
    value
        .as_i64()
        .ok_or_else(|| Error::wrong_type("", "txnNumber", value.ty(), &[Type::Int64]))
}

fn read_max_time(command: &Command, value: ValueRef<'_>) -> Result<u64> {
    if value.is_nullish() {
        return Ok(0);
    }
    let Some(number) = value.as_num() else {
        return Err(Error::wrong_type(
            command.name,
            "maxTimeMS",
            value.ty(),
            NUMBERS,
        ));
    };
    let Some(millis) = number.to_i64_exact() else {
        return Err(Error::failed_to_parse(format!(
            "maxTimeMS has non-integral value: {value}"
        )));
    };
    if !(0..=i64::from(i32::MAX)).contains(&millis) {
        return Err(Error::bad_value(format!(
            "{millis} value for maxTimeMS is out of range [0, {}]",
            i32::MAX
        )));
    }
    Ok(millis.unsigned_abs())
}

/// Refuses a field that occurs twice, as MongoDB does, because its meaning would be ambiguous.
#[inline]
fn refuse_duplicates(command: &Command, own: &[Elem<'_>]) -> Result<()> {
    // Commands have a handful of fields. Only a hostile command has so many that comparing pairs costs more than sorting.
    if own.len() > 64 {
        let mut names: Vec<_> = own.iter().map(Elem::name).collect();
        names.sort_unstable();
        return match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(duplicate(command, pair[0])),
            None => Ok(()),
        };
    }
    for (i, elem) in own.iter().enumerate() {
        if own[..i]
            .iter()
            .any(|other| other.name_bytes() == elem.name_bytes())
        {
            return Err(duplicate(command, elem.name()));
        }
    }
    Ok(())
}

#[cold]
fn duplicate(command: &Command, name: &str) -> Error {
    Error::duplicate_field(command.name, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::dispatch::find;
    use crate::value::DocBuf;

    #[test]
    fn duplicate_fields_are_refused() {
        let names = [
            "$clusterTime",
            "$db",
            "$readPreference",
            "apiDeprecationErrors",
            "apiStrict",
            "apiVersion",
            "autocommit",
            "batchSize",
            "comment",
            "find",
            "help",
            "limit",
            "lsid",
            "maxTimeMS",
            "readConcern",
            "startTransaction",
            "txnNumber",
            "writeConcern",
        ];
        let find = find(b"find").unwrap();
        for name in names {
            for further in [0, 100] {
                let body = DocBuf::build(|doc| {
                    doc.put_str("find", "c").put_str("$db", "shop");
                    for n in 0..further {
                        doc.put_i32(&format!("x{n}"), 1);
                    }
                    for _ in 0..2 {
                        match name {
                            "$db" => drop(doc.put_str(name, "shop")),
                            "lsid" => SessionId::new([7; 16]).put(doc, name),
                            _ => drop(doc.put_null(name)),
                        }
                    }
                });
                let request = Request::new(body.bytes().to_vec());
                let parsed =
                    Generic::parse(find, &Topology::Router, &request, &mut SmallVec::new());
                let error = parsed.err().unwrap_or_else(|| panic!("{name}"));
                assert_eq!(error.code(), Code::IDLDuplicateField, "{name}: {error}");
                assert_eq!(
                    error.message(),
                    format!("BSON field 'find.{name}' is a duplicate field")
                );
            }
        }
    }
}
