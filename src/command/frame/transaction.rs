//! Commands inside a multi-document transaction: which are allowed, and how they end.

use super::{Access, Call, Command, Context, Flags, stable_api};
use crate::error::{Code, Error, Result};
use crate::names::is_system;
use crate::session::{InTransaction, Joining, TransactionStart};
use crate::value::{Doc, Millis};

/// The label that tells a driver to run the whole transaction again.
pub(in crate::command) const TRANSIENT: &str = "TransientTransactionError";

/// Checks whether a command may be part of a transaction. A command that may not leaves the transaction as it is.
pub(super) fn check(call: &Call<'_>, starts: bool) -> Result<()> {
    let command = call.command;
    check_command(command)?;
    let refuse = |message: &str| Err(not_supported(message.to_owned()));
    if starts {
        match command.name {
            "commitTransaction" => return refuse("Cannot start a transaction with a commit"),
            "abortTransaction" => return refuse("Cannot start a transaction with an abort"),
            "killCursors" => {
                return refuse(
                    "Cannot run killCursors as the first operation in a multi-document transaction.",
                );
            }
            _ => {}
        }
    }
    let invalid = |message| Err(Error::new(Code::InvalidOptions, message));
    let ends = ends(command);
    if call.body().has("writeConcern") && !ends {
        return invalid("writeConcern is not allowed within a multi-statement transaction");
    }
    let concern = call.generic.read_concern.as_deref();
    if concern.is_some_and(|concern| !concern.is_empty()) && !starts {
        return invalid("Only the first command in a transaction may specify a readConcern");
    }
    if ends {
        return Ok(());
    }
    let level = concern.and_then(|concern| concern.level);
    if !matches!(level, None | Some("local" | "majority" | "snapshot")) {
        return invalid(
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a transaction",
        );
    }
    match call.database() {
        "config" => refuse("Cannot run command against the config database in a transaction."),
        "local" => refuse("Cannot run command against the 'local' database in a transaction."),
        _ => match call.target().as_str() {
            Some(name @ ("system.profile" | "system.views")) => Err(not_supported(format!(
                "Cannot run command against the '{}' collection in a transaction.",
                call.namespace(name)
            ))),
            _ => Ok(()),
        },
    }
}

/// Refuses a command that writes to a system collection. It ends the transaction.
pub(super) fn check_target(call: &Call<'_>) -> Result<()> {
    let Some(name) = call.target().as_str().filter(|name| is_system(name)) else {
        return Ok(());
    };
    let namespace = call.namespace(name);
    match call.command.name {
        "create" => Err(not_supported(format!(
            "Cannot create system collection {namespace} within a transaction."
        ))),
        "createIndexes" => Err(not_supported(format!(
            "Cannot write to system collection {namespace} within a transaction."
        ))),
        _ if call.command.facts.access == Access::Write => {
            refused_system(call.database(), name).map_or(Ok(()), Err)
        }
        _ => Ok(()),
    }
}

/// Returns the error for a write to a system collection. Those of users and roles can be written to.
pub(in crate::command) fn refused_system(database: &str, name: &str) -> Option<Error> {
    let has_users = database == "admin" && matches!(name, "system.roles" | "system.users");
    (is_system(name) && !has_users).then(|| {
        Error::location(
            50791,
            format!("Cannot write to system collection {database}.{name} within a transaction."),
        )
    })
}

/// Checks whether a command may be part of any transaction.
pub(super) fn check_command(command: &Command) -> Result<()> {
    let flags = command.facts.flags;
    if flags.has(Flags::TRANSACTION) {
        return Ok(());
    }
    Err(not_supported(match command.name {
        _ if flags.has(Flags::BEFORE_LOGIN) => {
            "This command is not supported in transactions".to_owned()
        }
        "count" => "Cannot run 'count' in a multi-document transaction. Please see \
                    http://dochub.mongodb.org/core/transaction-count for a recommended alternative."
            .to_owned(),
        name => format!("Cannot run '{name}' in a multi-document transaction."),
    }))
}

fn not_supported(message: String) -> Error {
    Error::new(Code::OperationNotSupportedInTransaction, message)
}

/// Refuses a schema change in a transaction that reads more than what is local.
pub(in crate::command) fn check_local(call: &Call<'_>) -> Result<()> {
    let info = call.transaction.as_ref().and_then(InTransaction::info);
    let level = match info.and_then(|info| info.level) {
        None | Some("local") => return Ok(()),
        Some(level) => level,
    };
    Err(Error::new(
        Code::InvalidOptions,
        format!(
            "Command {} does not support this transaction's {{ readConcern: {{ level: \"{level}\", provenance: \
             \"clientSupplied\" }} }} :: caused by :: read concern not supported",
            call.command.name
        ),
    ))
}

/// Refuses a stage that cannot run in a transaction.
pub(in crate::command) fn check_stage(call: &Call<'_>, name: &str) -> Result<()> {
    if !call.is_in_transaction() {
        return Ok(());
    }
    Err(not_supported(match name {
        "$merge" | "$out" => format!("{name} cannot be used in a transaction"),
        "$collStats" | "$indexStats" | "$unionWith" => {
            format!("Stage not supported inside of a multi-document transaction: {name}")
        }
        "$changeStream" | "$currentOp" | "$listLocalSessions" | "$listSessions"
        | "$planCacheStats" => format!(
            "Operation not permitted in transaction :: caused by :: Aggregation stage {name} cannot run within a \
             multi-document transaction."
        ),
        _ => return Ok(()),
    }))
}

/// Returns what the command wants of the transaction.
pub(super) fn joining<'a>(call: &Call<'a>, starts: bool) -> Joining<'a> {
    let concern = call.generic.read_concern.as_deref();
    match call.command.name {
        "commitTransaction" => Joining::Commit,
        "abortTransaction" => Joining::Abort,
        _ if !starts => Joining::Continue,
        _ => Joining::Start(TransactionStart {
            catalog: &call.context.catalog,
            at: concern.and_then(|concern| concern.at),
            level: concern.and_then(|concern| concern.known_level()),
            api: stable_api::chosen(call.body()),
            now: call.now,
            lifetime_seconds: call.context.transaction_lifetime(),
        }),
    }
}

fn ends(command: &Command) -> bool {
    matches!(command.name, "abortTransaction" | "commitTransaction")
}

/// Ends a command of a transaction. The transaction goes on only if the command and all of its statements have succeeded.
#[cold]
pub(super) fn finish(
    context: &Context,
    transaction: InTransaction,
    reply: Result<Doc<'_>, &Error>,
) {
    let goes_on = reply.is_ok_and(|reply| {
        let errors = reply.get("nErrors").as_num().and_then(|n| n.to_i64_exact());
        !reply.has("writeErrors") && errors.is_none_or(|n| n == 0)
    });
    if goes_on {
        transaction.keep();
    } else {
        abort(context, transaction);
    }
}

/// Aborts a transaction. Its cursors end with it.
pub(in crate::command) fn abort(context: &Context, transaction: InTransaction) {
    end_cursors(context, &transaction);
    drop(transaction);
}

/// Ends the cursors of a transaction.
pub(in crate::command) fn end_cursors(context: &Context, transaction: &InTransaction) {
    if transaction.has_cursors() {
        let (session, number) = (transaction.session(), transaction.number());
        context.cursors.kill_where(|cursor| {
            cursor.session == Some(session) && cursor.transaction == Some(number)
        });
    }
}

/// Checks that the time of a transaction is not over.
pub(super) fn check_lifetime(transaction: &InTransaction, now: Millis) -> Result<()> {
    match transaction.info() {
        Some(info) if info.expires <= now => Err(Error::new(
            Code::TransactionExceededLifetimeLimitSeconds,
            "operation was interrupted because the transaction exceeded the configured 'transactionLifetimeLimitSeconds'",
        )),
        _ => Ok(()),
    }
}

/// Returns whether a command that ends a transaction must tell of its write concern although it failed: what became of the
/// transaction may not be final, so the error does not say that the client may run it again.
pub(super) fn is_uncertain(call: &Call<'_>, error: &Error) -> bool {
    ends(call.command)
        && error.code() == Code::NoSuchTransaction
        && call.generic.write_concern.unmet.is_some()
}

/// Labels an error of a command that belongs to a transaction, if running the whole transaction again may help.
pub(super) fn labelled(error: Error) -> Error {
    match is_transient(error.code()) {
        true => error.with_label(TRANSIENT),
        false => error,
    }
}

/// Whether running the whole transaction again may help after this error, at whichever of its commands it comes.
pub(in crate::command) fn is_transient(code: Code) -> bool {
    matches!(
        code,
        Code::WriteConflict
            | Code::LockTimeout
            | Code::NoSuchTransaction
            | Code::PreparedTransactionInProgress
            | Code::SnapshotTooOld
            | Code::SnapshotUnavailable
            | Code::StaleEpoch
    )
}

// === impl Context ===

impl Context {
    /// Returns how many seconds a transaction may last.
    pub(super) fn transaction_lifetime(&self) -> i64 {
        let limit = self.parameters.get("transactionLifetimeLimitSeconds");
        let seconds = limit.and_then(|(_, value)| value.as_ref().as_num()?.to_i64_exact());
        seconds.unwrap_or(60)
    }
}

// === impl Call ===

impl Call<'_> {
    pub fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }
}
