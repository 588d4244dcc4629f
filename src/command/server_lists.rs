//! What a pipeline can list of the server as a whole: its operations (`$currentOp`) and its sessions
//! (`$listLocalSessions`, `$listSessions`).

use std::sync::Arc;

use super::current_op::CurrentOpCaller;
use super::{Call, Context};
use crate::auth::{Action, AuthTarget, User, UserName};
use crate::engine::ServerLists;
use crate::query::stage::{CurrentOps, ListSessions};
use crate::session::{NOBODY, SessionId};
use crate::value::{DocBuf, DocBuilder, Millis, ValueRef};

/// The client that sent the pipeline.
struct ListsCaller {
    context: Arc<Context>,
    operations: CurrentOpCaller,
    /// The session of the command, which is listed even if the server has nothing to remember of it.
    session: Option<SessionId>,
    user: Option<Arc<User>>,
    now: Millis,
}

/// Returns the lists, which are made when the pipeline runs.
pub(super) fn lists(call: &Call<'_>) -> Box<dyn ServerLists> {
    Box::new(ListsCaller {
        context: Arc::clone(call.context),
        operations: CurrentOpCaller::of(call),
        session: call.session(),
        user: call.user().cloned(),
        now: call.now,
    })
}

/// Returns whether the client may list these sessions. Every user may see their own.
pub(super) fn may_list_sessions(call: &Call<'_>, spec: ValueRef<'_>) -> bool {
    let own = match ListSessions::parse("", spec) {
        Ok(ListSessions::Everybody) => false,
        Ok(ListSessions::Of(users)) => call
            .user()
            .is_some_and(|own| users.iter().all(|user| name(user) == own.name)),
        // A mistake is told later.
        Ok(ListSessions::Own) | Err(_) => true,
    };
    own && call.is_logged_in() || call.may(AuthTarget::Cluster, Action::ListSessions)
}

// === impl ListsCaller ===

impl ServerLists for ListsCaller {
    fn put_latencies(&self, namespace: &str, with_buckets: bool, out: &mut DocBuilder<'_>) {
        let usage = self.context.usage().collection(namespace);
        usage.put_latencies(with_buckets, out);
    }

    fn put_events(&self, namespace: &str, out: &mut DocBuilder<'_>) {
        self.context.usage().collection(namespace).put_events(out);
    }

    fn operations(&self, wanted: &CurrentOps) -> Vec<DocBuf> {
        self.operations.list(wanted)
    }

    fn sessions(&self, wanted: &ListSessions) -> Vec<DocBuf> {
        let digests = match wanted {
            ListSessions::Everybody => None,
            ListSessions::Own => Some(vec![self.user.as_ref().map_or(NOBODY, |user| user.digest)]),
            ListSessions::Of(users) => Some(users.iter().map(digest).collect()),
        };
        let shown = |id: &SessionId| match &digests {
            None => true,
            Some(digests) => digests.iter().any(|digest| id.is_of(digest)),
        };
        let mut sessions = self.context.sessions.list(self.now);
        if let Some(own) = self.session {
            sessions.retain(|(id, _)| *id != own);
            sessions.push((own, self.now));
        }
        sessions.retain(|(id, _)| shown(id));
        let rows = sessions.iter().map(|(id, used)| self.session(*id, *used));
        rows.collect()
    }
}

impl ListsCaller {
    fn session(&self, id: SessionId, used: Millis) -> DocBuf {
        DocBuf::build(|doc| {
            doc.put_doc("_id", id.to_doc().as_doc())
                .put_date("lastUse", used.0);
            let users = self.context.users.list();
            if let Some(user) = users.iter().find(|user| id.is_of(&user.digest)) {
                doc.put_str("user", &user.name.to_string());
            }
        })
    }
}

fn name((user, db): &(String, String)) -> UserName {
    UserName::new(user, db)
}

/// Returns the digest in the ids of the user's sessions. The empty name stands for a client that has not logged in.
fn digest(user: &(String, String)) -> [u8; 32] {
    match user.0.is_empty() && user.1.is_empty() {
        true => NOBODY,
        false => name(user).digest(),
    }
}
