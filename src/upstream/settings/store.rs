//! The cluster, as the control plane talks to it: with the `mongodb` driver and Sundown's own rights.

use std::collections::HashMap;
use std::time::Duration;

use bson::{Bson, Document, doc};
use mongodb::Client;
use mongodb::error::ErrorKind;
use tokio::sync::OnceCell;

use super::members::{self, Member};
use super::record::SettingRecord;
use crate::error::{Code, Error, Result};
use crate::upstream::retry::is_of_failover;
use crate::value::Millis;

/// The database that holds the settings. Clients never see it.
pub const SETTINGS_DATABASE: &str = "sundown";
const COLLECTIONS: &str = "collections";
const STATE: &str = "state";
/// The only document of [`STATE`].
const STATE_ID: &str = "sundowns";
/// The number of documents that are read or deleted at a time.
pub(super) const SLICE: i32 = 1_000;

pub(super) struct SettingsStore {
    client: Client,
    /// A request to the settings must not take longer: its answer would come too late to be used.
    timeout: Duration,
    kind: OnceCell<StoreKind>,
}

/// What the cluster is. It is asked once, by the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoreKind {
    /// A replica set or a sharded cluster: it has read concerns that mean something.
    pub replicated: bool,
    /// It is a Sundown, which keeps `_ts` itself.
    pub keeps_ts: bool,
    /// It refuses to apply `$pullAll` to a value that is no array, as MongoDB does.
    pub checks_pull_all: bool,
    /// Sundown talks to the node that stores the documents. It notices if that node loses its writes. Behind a router, or in
    /// front of another database, it would not.
    pub is_direct: bool,
}

/// The reply to a heartbeat.
#[derive(Debug)]
pub(super) struct SharedState {
    /// Counts the announcements of all Sundowns.
    pub version: i64,
    pub members: HashMap<String, Member>,
    /// The time of the primary, if this Sundown is a member.
    pub at: Option<Millis>,
    /// The moment in the cluster's history, for reads that must see at least this state.
    operation_time: Option<Bson>,
}

/// The outcome of writing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordWrite {
    Yes,
    /// Somebody else has changed the record since it was read.
    Outdated,
}

/// Returns the error for a cluster that does not answer.
///
/// The code is HostUnreachable (6): drivers try such a command once more, on their own, but do not take Sundown for a
/// server that steps down, as they would with ShutdownInProgress (91) or the codes of an election.
pub(super) fn unreachable(why: impl std::fmt::Display) -> Error {
    Error::new(Code::HostUnreachable, why.to_string())
}

fn fault(error: mongodb::error::Error) -> Error {
    match &*error.kind {
        ErrorKind::Command(refused) => {
            Error::new(Code::numbered(refused.code), refused.message.clone())
        }
        kind => unreachable(format_args!("the TTL settings cannot be read: {kind}")),
    }
}

// === impl SettingsStore ===

impl SettingsStore {
    pub fn new(client: Client, timeout: Duration) -> Self {
        Self {
            client,
            timeout,
            kind: OnceCell::new(),
        }
    }

    /// Runs a command on the primary. A write that was not replicated as wanted is an error, too.
    pub async fn run(&self, database: &str, command: Document) -> Result<Document> {
        let reply = self.client.database(database).run_command(command).await;
        let reply = reply.map_err(fault)?;
        if let Ok(error) = reply.get_document("writeConcernError") {
            return Err(unreachable(format_args!(
                "the cluster did not confirm a write: {error}"
            )));
        }
        let failed = reply.get_array("writeErrors").ok();
        if let Some(error) = failed
            .and_then(|all| all.first())
            .and_then(Bson::as_document)
        {
            let message = error.get_str("errmsg").unwrap_or_default();
            let code = error.get_i32("code").unwrap_or(1);
            return Err(Error::new(Code::numbered(code), message));
        }
        Ok(reply)
    }

    /// Runs a command on the settings. It fails when its answer would be too late.
    async fn run_in_time(&self, command: Document) -> Result<Document> {
        let run = self.run(SETTINGS_DATABASE, command);
        match tokio::time::timeout(self.timeout, run).await {
            Ok(reply) => reply,
            Err(_) => Err(unreachable("the cluster does not answer in time")),
        }
    }

    /// Runs a command that returns a cursor, and returns all rows.
    pub async fn rows(&self, database: &str, command: Document) -> Result<Vec<Document>> {
        let mut rows = Vec::new();
        self.each(database, command, |row| rows.push(row)).await?;
        Ok(rows)
    }

    async fn each(
        &self,
        database: &str,
        command: Document,
        mut take: impl FnMut(Document),
    ) -> Result<()> {
        let mut cursor = self.cursor(database, command).await?;
        while cursor.advance().await.map_err(fault)? {
            take(cursor.deserialize_current().map_err(fault)?);
        }
        Ok(())
    }

    pub async fn cursor(
        &self,
        database: &str,
        command: Document,
    ) -> Result<mongodb::Cursor<Document>> {
        let database = self.client.database(database);
        database.run_cursor_command(command).await.map_err(fault)
    }

    /// Returns the next rows of a cursor: at most a slice. It is empty at the end.
    pub async fn slice(cursor: &mut mongodb::Cursor<Document>) -> Result<Vec<Document>> {
        let mut rows = Vec::new();
        while rows.len() < SLICE as usize && cursor.advance().await.map_err(fault)? {
            rows.push(cursor.deserialize_current().map_err(fault)?);
        }
        Ok(rows)
    }

    pub async fn kind(&self) -> Result<StoreKind> {
        let ask = || async {
            let hello = self.run("admin", doc! {"hello": 1}).await?;
            let build = self.run("admin", doc! {"buildInfo": 1}).await?;
            let is_router = hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
            let keeps_ts = build.contains_key("sundown");
            let engines = build.get_array("storageEngines").ok();
            let is_mongod =
                engines.is_some_and(|all| all.iter().any(|one| one.as_str() == Some("wiredTiger")));
            Ok(StoreKind {
                replicated: hello.contains_key("setName") || is_router,
                keeps_ts,
                checks_pull_all: self.checks_pull_all().await?,
                // A Sundown in front of yet another cluster would not let settings be stored there.
                is_direct: keeps_ts || (is_mongod && !is_router),
            })
        };
        self.kind.get_or_try_init(ask).await.copied()
    }

    /// Tries a `$pullAll` that must fail: in the document that would be inserted, the field is a number.
    async fn checks_pull_all(&self) -> Result<bool> {
        let id = doc! {"_id": "pullAll"};
        let mut query = id.clone();
        query.insert("ttl", 1);
        let command = doc! {
            "update": STATE,
            "updates": [{"q": query, "u": {"$pullAll": {"ttl": []}}, "upsert": true}],
        };
        match self.run_in_time(command).await {
            Err(error) if error.code() == Code::BadValue => Ok(true),
            Err(error) if is_of_failover(&error) => Err(error),
            Err(_) => Ok(false),
            Ok(_) => {
                let delete = doc! {"delete": STATE, "deletes": [{"q": id, "limit": 1}]};
                self.run_in_time(delete).await?;
                Ok(false)
            }
        }
    }

    /// Writes the heartbeat of a Sundown, and a new version if it announces something. Returns the state of all.
    ///
    /// The state of all Sundowns is *one* document, so that one write that a majority confirms does all of these at one
    /// instant: it registers the Sundown, acknowledges what it has seen, tells what others have announced and who they are,
    /// and tells the primary's time. A primary that has been replaced without knowing it cannot confirm the write, so the
    /// version is never an old one, which a read with read concern "majority" does not promise.
    pub async fn beat(
        &self,
        id: &str,
        (seen, clear): (i64, i64),
        announce: bool,
    ) -> Result<SharedState> {
        let member = |field: &str| format!("members.{id}.{field}");
        let command = doc! {
            "findAndModify": STATE,
            "query": {"_id": STATE_ID},
            "update": {
                "$set": {member("seen"): seen, member("clear"): clear},
                "$inc": {member("beat"): 1_i64, "version": i64::from(announce)},
                "$currentDate": {member("at"): true},
            },
            "upsert": true,
            "new": true,
            "writeConcern": {"w": "majority"},
        };
        let reply = match self.run_in_time(command.clone()).await {
            // Two Sundowns have made the document at the same time.
            Err(error) if error.code() == Code::DuplicateKey => self.run_in_time(command).await?,
            other => other?,
        };
        let state = reply.get_document("value");
        let state = state.map_err(|_| unreachable("the cluster lost a heartbeat"))?;
        let mut read = Self::read_state(state);
        let own = state.get_document("members").ok();
        let own = own.and_then(|members| members.get_document(id).ok());
        let at = own.and_then(|own| own.get_datetime("at").ok());
        read.at = at.map(|at| Millis(at.timestamp_millis()));
        read.operation_time = reply.get("operationTime").cloned();
        Ok(read)
    }

    /// Reads the state without a heartbeat.
    pub async fn state(&self) -> Result<SharedState> {
        let mut find = doc! {"find": STATE, "filter": {"_id": STATE_ID}, "limit": 1};
        if self.kind().await?.replicated {
            find.insert("readConcern", doc! {"level": "majority"});
        }
        let reply = self.run_in_time(find).await?;
        let state = first_row(&reply).unwrap_or_default();
        Ok(Self::read_state(&state))
    }

    fn read_state(state: &Document) -> SharedState {
        SharedState {
            version: state
                .get("version")
                .and_then(super::record::number)
                .unwrap_or(0),
            members: members::read(state),
            at: None,
            operation_time: None,
        }
    }

    /// Removes a Sundown from the state: one that leaves, or one that has not been heard of since this heartbeat.
    pub async fn remove_member(&self, id: &str, beat: Option<i64>) -> Result<()> {
        let mut query = doc! {"_id": STATE_ID};
        if let Some(beat) = beat {
            query.insert(format!("members.{id}.beat"), beat);
        }
        let gone = doc! {"$unset": {format!("members.{id}"): 1}};
        let command = doc! {
            "update": STATE,
            "updates": [{"q": query, "u": gone}],
            "writeConcern": {"w": "majority"},
        };
        self.run_in_time(command).await.map(drop)
    }

    /// Reads the settings of all collections, as they were at this heartbeat or later.
    pub async fn settings(&self, state: &SharedState) -> Result<HashMap<String, SettingRecord>> {
        let mut find = doc! {"find": COLLECTIONS, "batchSize": SLICE};
        if self.kind().await?.replicated {
            let mut concern = doc! {"level": "majority"};
            if let Some(time) = &state.operation_time {
                concern.insert("afterClusterTime", time.clone());
            }
            find.insert("readConcern", concern);
        }
        let mut all = HashMap::new();
        let rows = self.rows(SETTINGS_DATABASE, find);
        let rows = tokio::time::timeout(self.timeout, rows).await;
        for row in rows.map_err(|_| unreachable("the cluster does not answer in time"))?? {
            let setting = SettingRecord::parse(&row)?;
            all.insert(setting.namespace.clone(), setting);
        }
        Ok(all)
    }

    /// Reads the settings of one collection, as they are at some moment during this call.
    pub async fn setting(&self, namespace: &str) -> Result<Option<SettingRecord>> {
        let mut find = doc! {"find": COLLECTIONS, "filter": {"_id": namespace}, "limit": 1};
        if self.kind().await?.replicated {
            find.insert("readConcern", doc! {"level": "linearizable"});
            let most = i64::try_from(self.timeout.as_millis()).unwrap_or(i64::MAX);
            find.insert("maxTimeMS", most);
        }
        let reply = self.run_in_time(find).await?;
        first_row(&reply)
            .map(|row| SettingRecord::parse(&row))
            .transpose()
    }

    /// Writes a record if the stored one still has the revision before it. The first revision is 1.
    pub async fn write(&self, setting: &SettingRecord) -> Result<RecordWrite> {
        let before = setting.revision - 1;
        let command = doc! {
            "update": COLLECTIONS,
            "updates": [{
                "q": {"_id": &setting.namespace, "revision": before},
                "u": setting.to_document(),
                "upsert": before == 0,
            }],
            "writeConcern": {"w": "majority"},
        };
        match self.run_in_time(command).await {
            Ok(reply) if reply.get_i32("n").unwrap_or(0) == 1 => Ok(RecordWrite::Yes),
            Ok(_) => Ok(RecordWrite::Outdated),
            Err(error) if error.code() == Code::DuplicateKey => Ok(RecordWrite::Outdated),
            Err(error) => Err(error),
        }
    }

    /// Removes a record that has this revision.
    pub async fn remove(&self, namespace: &str, revision: i64) -> Result<RecordWrite> {
        let command = doc! {
            "delete": COLLECTIONS,
            "deletes": [{"q": {"_id": namespace, "revision": revision}, "limit": 1}],
            "writeConcern": {"w": "majority"},
        };
        let reply = self.run_in_time(command).await?;
        Ok(match reply.get_i32("n") {
            Ok(1) => RecordWrite::Yes,
            _ => RecordWrite::Outdated,
        })
    }
}

/// Returns the first row of a reply with a cursor.
fn first_row(reply: &Document) -> Option<Document> {
    let batch = reply.get_document("cursor").ok()?.get_array("firstBatch");
    batch.ok()?.first()?.as_document().cloned()
}
