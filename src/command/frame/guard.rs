//! Checks whether the sender of a command may run it.
//!
//! Each row of the table of commands says what the command [needs](Needs). If clients need not log in, the check costs one
//! load of a flag. Otherwise [`enter`] runs after the generic arguments are read and before the command itself, so the
//! server reads none of the command's own arguments for a sender who may not run it.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::dispatch::find;
use super::generic::Generic;
use super::{Access, Call, Client, Command, Context, Flags};
use crate::auth::{Action, AuthTarget, Privileges, User};
use crate::command::{current_op, server_lists};
use crate::effort::Effort;
use crate::error::{Code, Error, Result};
use crate::query::stage::{
    Entry, Need, Output, Pipeline, PipelineInput, WhenMatched, WhenNotMatched,
};
use crate::value::{Doc, DocBuf, ValueRef, is_true};
use crate::wire::Request;

/// What a user must be allowed to do to run a command.
#[derive(Clone, Copy)]
pub enum Needs {
    /// The user must have logged in. Commands with [`Flags::BEFORE_LOGIN`] do not require even that.
    Nothing,
    /// An action on the collection that the command's first field names.
    Collection(Action),
    /// An action on the database that the command runs in.
    Database(Action),
    /// An action on the server.
    Server(Action),
    /// The needs depend on the arguments of the command.
    Asked(fn(&Call<'_>) -> Result<bool>),
    /// All actions. The default for rows that do not say what they need.
    Everything,
}

/// What the sender of a command may do.
#[derive(Clone, Default)]
pub(in crate::command) enum Rights<'a> {
    /// Everything, because clients need not log in.
    #[default]
    All,
    User(Arc<User>),
    /// What a client on the same machine may do while there are no users.
    Bootstrap(&'a Privileges),
    Nobody,
}

/// Identifies the sender of the command, and refuses the command if the sender may not run it.
#[cold]
pub(in crate::command) fn enter(call: &mut Call<'_>) -> Result<()> {
    let users = &call.context.users;
    call.rights = match call.client.login.user(users) {
        Some(user) => Rights::User(user),
        None => users
            .before_login(call.client.address.ip())
            .map_or(Rights::Nobody, Rights::Bootstrap),
    };
    if let Rights::User(user) = &call.rights
        && let Some(session) = call.generic.session
    {
        call.generic.session = Some(session.of(&user.digest).ok_or_else(foreign_session)?);
    }
    check(call)
}

/// Refuses a request that the sender may not run, where another server answers it. A command that is not known here needs
/// every right.
#[cold]
pub(in crate::command) fn admit(
    context: &Arc<Context>,
    client: &Arc<Client>,
    request: &Request,
) -> Result<()> {
    static UNKNOWN: Command = Command::planned("unknown", Access::None, "");
    let name = request.body().first();
    let command = name.and_then(|name| find(name.name_bytes()));
    let mut own = SmallVec::new();
    let generic = Generic::unchecked(request, &mut own);
    enter(&mut Call {
        context,
        client,
        command: command.unwrap_or(&UNKNOWN),
        request,
        now: context.clock.now(),
        deadline: None,
        retry: None,
        transaction: None,
        snapshot: None,
        effort: Effort::default(),
        has_begun_to_write: Cell::new(false),
        lock_wait: None,
        rights: Rights::All,
        generic,
        own: &own,
    })
}

/// Refuses a command that the sender may not run. Also used for the command inside another one, such as explain.
pub(in crate::command) fn check(call: &Call<'_>) -> Result<()> {
    if call.command.facts.flags.has(Flags::BEFORE_LOGIN) {
        return Ok(());
    }
    if matches!(call.rights, Rights::Nobody) {
        return Err(requires_login(call.command));
    }
    let database = call.database();
    if call.command.facts.access == Access::Write
        && let Some(name) = call.target().as_str()
        && !call.may_bypass(AuthTarget::Collection(database, name))
    {
        return Err(refusal(call));
    }
    let allowed = match call.command.facts.needs {
        Needs::Nothing => call.is_logged_in(),
        // The command itself refuses a name of the wrong type, before it reaches any data.
        Needs::Collection(action) => match call.target().as_str() {
            Some(name) => call.may(AuthTarget::Collection(database, name), action),
            None => call.may(AuthTarget::Database(database), action),
        },
        Needs::Database(action) => call.may(AuthTarget::Database(database), action),
        Needs::Server(action) => call.may(AuthTarget::Cluster, action),
        Needs::Asked(ask) => ask(call)?,
        Needs::Everything => call.rights.everything(),
    };
    if allowed { Ok(()) } else { Err(refusal(call)) }
}

pub(in crate::command) fn requires_login(command: &Command) -> Error {
    Error::new(
        Code::Unauthorized,
        format!("Command {} requires authentication", command.name),
    )
}

pub(in crate::command) fn foreign_session() -> Error {
    Error::new(
        Code::Unauthorized,
        "Unauthorized to set user digest in LogicalSessionId",
    )
}

/// Refuses a command in mongod's words, which repeat the whole command without its secrets.
pub(in crate::command) fn refusal(call: &Call<'_>) -> Error {
    let shown = redacted(call.command, call.request);
    Error::new(
        Code::Unauthorized,
        format!(
            "not authorized on {} to execute command {}",
            call.database(),
            ValueRef::document(Doc::new(&shown))
        ),
    )
}

/// Returns a command as others may see it, in errors and in currentOp.
pub(in crate::command) fn redacted(command: &Command, request: &Request) -> Bytes {
    const SECRET: &[&str] = &["payload", "pwd", "speculativeAuthenticate"];
    if !command.facts.flags.has(Flags::SECRETS) {
        return request.body.clone();
    }
    let shown = DocBuf::build(|shown| {
        for elem in request.body() {
            if SECRET.contains(&elem.name()) {
                shown.put_str(elem.name(), "xxx");
            } else {
                shown.put(elem.name(), elem.value);
            }
        }
    });
    shown.into_bytes().into()
}

/// Checks what a pipeline and all pipelines inside its stages read and write. `on` is the source of the outermost pipeline.
pub(in crate::command) fn check_pipeline(
    call: &Call<'_>,
    pipeline: &Pipeline,
    on: PipelineInput<'_>,
) -> Result<()> {
    if matches!(call.rights, Rights::All) {
        return Ok(());
    }
    let mut allowed = true;
    pipeline.each_level(on, &mut |level, on| {
        let first = level
            .steps()
            .first()
            .map(|step| (step.row, step.spec.as_ref()));
        allowed &= match on {
            PipelineInput::Collection(from) => {
                may_begin(call, first, AuthTarget::Collection(&from.db, &from.coll))
            }
            PipelineInput::Nothing => may_begin(call, first, AuthTarget::Database(call.database())),
            // The pipeline around this one reads these rows, and its own check covers them.
            PipelineInput::SameRows => true,
        };
        if let Some(output) = level.output() {
            let into = Output::into(output);
            let into = AuthTarget::Collection(&into.db, &into.coll);
            allowed &= writes(output).iter().all(|action| call.may(into, *action));
            allowed &= call.may_bypass(into);
        }
    });
    if allowed { Ok(()) } else { Err(refusal(call)) }
}

/// Whether the sender may begin a pipeline on this collection or database with this stage and argument. A pipeline without
/// stages reads its source.
pub(in crate::command) fn may_begin(
    call: &Call<'_>,
    first: Option<(&Entry, ValueRef<'_>)>,
    on: AuthTarget<'_>,
) -> bool {
    let (need, spec) = first.map_or((Need::Find, ValueRef::MISSING), |(row, spec)| {
        (row.facts.needs, spec)
    });
    match need {
        Need::Find => call.may(on, Action::Find),
        Need::LoggedIn => call.is_logged_in(),
        Need::ChangeStream => call.may(on, Action::ChangeStream) && call.may(on, Action::Find),
        Need::CollStats => call.may(on, Action::CollStats),
        Need::IndexStats => call.may(on, Action::IndexStats),
        Need::ListCatalog => {
            call.may(on, Action::ListCollections) && call.may(on, Action::ListIndexes)
        }
        Need::ListSearchIndexes => call.may(on, Action::ListSearchIndexes),
        Need::PlanCacheRead => call.may(on, Action::PlanCacheRead),
        Need::CurrentOp => current_op::may_see(call, spec),
        Need::ListSessions => server_lists::may_list_sessions(call, spec),
        Need::QueryStats => call.may(AuthTarget::Cluster, Action::QueryStatsRead),
        Need::Everything => call.rights.everything(),
    }
}

/// Returns the actions that `$out` or `$merge` needs.
fn writes(output: &Output) -> &'static [Action] {
    match output {
        Output::Replace(_) => &[Action::Insert, Action::Remove],
        Output::Merge(merge) => {
            let updates = !matches!(
                merge.when_matched,
                WhenMatched::KeepExisting | WhenMatched::Fail
            );
            match (updates, merge.when_not_matched) {
                (true, WhenNotMatched::Insert) => &[Action::Insert, Action::Update],
                (true, _) => &[Action::Update],
                (false, _) => &[Action::Insert],
            }
        }
    }
}

// === impl Rights ===

impl Rights<'_> {
    fn privileges(&self) -> Option<&Privileges> {
        match self {
            Self::All | Self::Nobody => None,
            Self::User(user) => Some(user.privileges()),
            Self::Bootstrap(privileges) => Some(privileges),
        }
    }

    fn has(&self, ask: impl FnOnce(&Privileges) -> bool) -> bool {
        match self {
            Self::All => true,
            _ => self.privileges().is_some_and(ask),
        }
    }

    fn everything(&self) -> bool {
        self.has(|privileges| {
            Action::ALL
                .iter()
                .all(|action| privileges.allow(AuthTarget::Cluster, *action))
        })
    }
}

// === impl Call ===

impl Call<'_> {
    /// Whether the sender may do this. Every sender may if clients need not log in.
    pub(in crate::command) fn may(&self, target: AuthTarget<'_>, action: Action) -> bool {
        self.rights
            .has(|privileges| privileges.allow(target, action))
    }

    /// Whether the sender may skip validation there, if the command asks for that.
    pub(in crate::command) fn may_bypass(&self, target: AuthTarget<'_>) -> bool {
        let asked = self.arg("bypassDocumentValidation");
        !asked.is_some_and(|arg| is_true(arg.value()))
            || self.may(target, Action::BypassDocumentValidation)
    }

    /// Whether the sender may do anything in this database.
    pub(in crate::command) fn may_enter(&self, db: &str) -> bool {
        self.rights.has(|privileges| privileges.enter(db))
    }

    /// Whether the sender may do anything with this collection.
    pub(in crate::command) fn may_reach(&self, db: &str, collection: &str) -> bool {
        self.rights
            .has(|privileges| privileges.reach(db, collection))
    }

    /// Returns the user who sends the command, if users are checked.
    pub(in crate::command) fn user(&self) -> Option<&Arc<User>> {
        match &self.rights {
            Rights::User(user) => Some(user),
            _ => None,
        }
    }

    /// Whether the sender has logged in, or need not.
    pub(in crate::command) fn is_logged_in(&self) -> bool {
        matches!(self.rights, Rights::All | Rights::User(_))
    }

    /// Returns the owner of cursors and sessions that the command creates.
    pub(in crate::command) fn owner(&self) -> Option<[u8; 32]> {
        self.user().map(|user| user.digest)
    }

    /// Whether the sender owns an object with this owner.
    pub(in crate::command) fn owns(&self, owner: Option<[u8; 32]>) -> bool {
        matches!(self.rights, Rights::All) || self.user().is_some() && owner == self.owner()
    }
}
