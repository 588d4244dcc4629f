//! Deleting documents that have ended, so that a write can take their place.

use bytes::Bytes;

use crate::error::{Code, Error};
use crate::upstream::{Ask, CollectionRules};
use crate::value::{Doc, DocBuf, Millis, Type, ValueRef};
use crate::wire::Request;

use super::EndedPredicate;
use super::run::Stop;

/// The collection in which documents make way, and the command for which they do.
pub struct Takeover<'a> {
    pub database: &'a str,
    pub collection: &'a str,
    pub rules: &'a CollectionRules,
    pub now: Millis,
    /// The client's command.
    pub command: Doc<'a>,
    /// The cluster has not been asked for the client's write, so it is not known whether the client may write at all.
    pub untried: bool,
}

/// Fields of the client's command that its deletes share.
const SHARED: &[&str] = &["let", "apiVersion", "apiStrict", "apiDeprecationErrors"];

/// What makes a command part of a transaction. The first one also starts it.
const TRANSACTION: &[&str] = &[
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "readConcern",
    "$clusterTime",
];

/// One delete: of what ended among the documents that match.
pub struct Ended<'a> {
    pub filter: Doc<'a>,
    pub collation: ValueRef<'a>,
}

// === impl Takeover ===

impl Takeover<'_> {
    pub fn in_transaction(&self) -> bool {
        in_transaction(self.command)
    }

    /// Returns the way to delete outside the transaction of the command.
    pub fn outside(&self) -> Self {
        Self {
            command: Doc::EMPTY,
            ..*self
        }
    }

    /// Returns the way to delete before the client's write is tried.
    pub fn ahead(&self) -> Self {
        Self {
            untried: true,
            ..*self
        }
    }

    /// Deletes and returns how many documents were deleted. A transaction does it itself, so that nobody can take the place
    /// before it. Otherwise the session of the client has no part in it: a retry finds its own history unchanged.
    pub async fn delete<A: Ask>(
        &self,
        ask: &mut A,
        ended: impl IntoIterator<Item = Ended<'_>>,
    ) -> Result<u64, Stop> {
        if !self.rules.can_end() {
            return Ok(0);
        }
        let predicate = EndedPredicate::new(self.rules, self.now);
        let mut any = false;
        let body = DocBuf::build(|out| {
            out.put_str("delete", self.collection);
            let mut deletes = out.array("deletes");
            for ended in ended {
                any = true;
                let filter = predicate.ended(ended.filter);
                let mut delete = deletes.doc();
                delete.put_doc("q", filter.as_doc()).put_i32("limit", 0);
                delete.put("collation", ended.collation);
                delete.end();
            }
            deletes.end();
            out.put_bool("ordered", false);
            let shared = SHARED.iter();
            let transaction = TRANSACTION.iter().filter(|_| self.in_transaction());
            for name in shared.chain(transaction) {
                out.put(name, self.command.get(name));
            }
            out.put_str("$db", self.database);
        });
        if !any {
            return Ok(0);
        }
        let request = Request::new(body.into_bytes());
        let reply = match self.in_transaction() || !ask.is_bound() {
            true => ask.ask(request).await?,
            false => match Box::pin(self.delete_for_client(ask, request)).await? {
                Some(reply) => reply,
                None => return Ok(0),
            },
        };
        let answer = Doc::new(&reply);
        if !super::run::is_ok(answer) {
            return Err(Stop::Reply(reply));
        }
        if let Some(error) = first_error(answer) {
            return Err(Stop::Reply(error));
        }
        let deleted = answer
            .get("n")
            .as_num()
            .map_or(0, |n| n.to_i64_saturating());
        Ok(deleted.unsigned_abs())
    }

    /// Deletes for a client that is logged in to the cluster itself. An ended document makes way also for one that may write and
    /// not delete: then Sundown does it. Returns `None` if the client may not write: the cluster will refuse its command.
    async fn delete_for_client<A: Ask>(
        &self,
        ask: &mut A,
        request: Request,
    ) -> Result<Option<Bytes>, Stop> {
        let reply = ask.ask(request.clone()).await?;
        if !is_unauthorized(&reply) {
            return Ok(Some(reply));
        }
        let may_write = !self.untried
            || !is_unauthorized(&ask.ask(self.update_nothing()).await?)
            || !is_unauthorized(&ask.ask(self.insert_nothing()).await?);
        match may_write {
            true => Ok(Some(ask.ask_as_sundown(request).await?)),
            false => Ok(None),
        }
    }

    /// Returns an update that matches no document.
    fn update_nothing(&self) -> Request {
        let body = DocBuf::build(|out| {
            out.put_str("update", self.collection);
            let mut updates = out.array("updates");
            let mut update = updates.doc();
            update.put_doc("q", EndedPredicate::none().ended(Doc::EMPTY).as_doc());
            update.doc("u").doc("$unset").put_i32("_", 1);
            update.end();
            updates.end();
            out.put_str("$db", self.database);
        });
        Request::new(body.into_bytes())
    }

    /// Returns an insert that fails after the rights were checked: an `_id` is never an array.
    fn insert_nothing(&self) -> Request {
        let body = DocBuf::build(|out| {
            out.put_str("insert", self.collection);
            let mut documents = out.array("documents");
            documents.doc().array("_id").end();
            documents.end();
            out.put_str("$db", self.database);
        });
        Request::new(body.into_bytes())
    }

    /// Deletes everything that has ended.
    pub async fn drain<A: Ask>(&self, ask: &mut A) -> Result<u64, Stop> {
        let all = Ended {
            filter: Doc::EMPTY,
            collation: ValueRef::MISSING,
        };
        self.delete(ask, [all]).await
    }

    /// Deletes the holders of the keys in these errors, if they have ended. The error says which key it was, unless a
    /// collation or an empty array hides it: then everything that has ended makes way.
    pub async fn free_keys<A: Ask>(
        &self,
        ask: &mut A,
        errors: impl IntoIterator<Item = Doc<'_>>,
    ) -> Result<u64, Stop> {
        let keys: Option<Vec<DocBuf>> = errors.into_iter().map(holder).collect();
        let Some(keys) = keys else {
            return self.drain(ask).await;
        };
        let ended = keys.iter().map(|key| Ended {
            filter: key.as_doc(),
            collation: ValueRef::MISSING,
        });
        self.delete(ask, ended).await
    }
}

fn is_unauthorized(reply: &Bytes) -> bool {
    let code = Doc::new(reply).get("code").as_i32();
    code.map(Code::numbered) == Some(Code::Unauthorized)
}

/// Returns the filter for the document that holds the key of a duplicate key error.
fn holder(error: Doc<'_>) -> Option<DocBuf> {
    let key = error.get("keyValue").as_doc()?;
    if error.has("collation") || error.has("hexEncoded") || key.is_empty() {
        return None;
    }
    // The key of an empty array is reported as null.
    let hides = |ty| matches!(ty, Type::Null | Type::Undefined | Type::Regex);
    if key.iter().any(|elem| hides(elem.value.ty())) {
        return None;
    }
    Some(DocBuf::build(|filter| {
        for elem in key {
            filter.doc(elem.name()).put("$eq", elem.value);
        }
    }))
}

/// Returns a failed statement of a delete as a reply of its own.
fn first_error(reply: Doc<'_>) -> Option<Bytes> {
    let errors = reply.get("writeErrors").as_array()?;
    let error = errors.first()?.value.as_doc()?;
    let code = error.get("code").as_i32().unwrap_or_default();
    let text = error.get("errmsg").as_str().unwrap_or_default();
    let mut reply = Vec::new();
    Error::new(Code::numbered(code), text).write_reply(&mut reply);
    Some(reply.into())
}

/// Returns whether a command is part of a transaction.
pub fn in_transaction(command: Doc<'_>) -> bool {
    command.get("autocommit").as_bool() == Some(false)
}

/// Returns the fields that a client's command loses because a delete came before it in its transaction.
pub fn started(command: Doc<'_>) -> Vec<(&'static str, ValueRef<'static>)> {
    match in_transaction(command) && command.has("startTransaction") {
        true => vec![
            ("startTransaction", ValueRef::MISSING),
            ("readConcern", ValueRef::MISSING),
        ],
        false => Vec::new(),
    }
}
