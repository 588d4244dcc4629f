//! Opens and continues change streams.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::doc;
use bytes::Bytes;

use super::event::EventRule;
use super::scope::{WatchScope, WatchStage};
use super::stages::{EventStages, push_selection};
use super::streams::{OpenStreams, WatchedStream};
use crate::clock::monotonic;
use crate::error::{Code, Error, Result};
use crate::upstream::rewrite::{
    Moment, contains, cursor_id, is_ok, kill_cursor, with_body, with_cursor, with_fields,
};
use crate::upstream::settings::{RuleSettings, SETTINGS_DATABASE};
use crate::upstream::{Ask, CollectionRules, HIDDEN_FIELD, Lost};
use crate::value::{ArrayBuilder, Doc, DocBuf, Value, ValueRef};
use crate::wire::Request;

/// How long the cluster waits for an event if the client does not say.
const AWAITED: Duration = Duration::from_secs(1);

/// A change stream as the commands of one client see it.
struct Watch<'a, A> {
    settings: &'a RuleSettings,
    ask: &'a mut A,
    streams: &'a OpenStreams,
    expose_ts: bool,
}

/// Runs a command that opens or continues a change stream. Returns `None` for all others.
pub async fn run<A: Ask>(
    settings: &RuleSettings,
    ask: &mut A,
    request: &Request,
    streams: &OpenStreams,
    expose_ts: bool,
) -> Option<Result<Bytes, Lost>> {
    let mut watch = Watch {
        settings,
        ask,
        streams,
        expose_ts,
    };
    let command = request.body();
    if let Some(stage) = WatchStage::of(command) {
        return Some(watch.open(request, &stage).await);
    }
    let id = command.get("getMore").as_i64()?;
    let stream = streams.get(id)?;
    Some(watch.more(request, id, &stream).await)
}

// === impl Watch ===

impl<A: Ask> Watch<'_, A> {
    async fn open(&mut self, request: &Request, stage: &WatchStage<'_>) -> Result<Bytes, Lost> {
        let command = request.body();
        // The cluster refuses to watch a view.
        if stage.scope.is_view(self.settings).await? {
            return self.ask.ask(request.clone()).await;
        }
        // By a TTL index on dates alone, what is looked up may have ended.
        let meets_rules =
            stage.looks_up() || stage.resumes() || stage.scope.has_rules(self.settings).await?;
        let stages = match meets_rules {
            true => {
                let lets = command.get("let").as_doc().unwrap_or(Doc::EMPTY);
                EventStages::parse(&stage.later, lets, self.settings.now())?
            }
            false => None,
        };
        if stages.is_some() && has_order(command.get("collation")) {
            return Err(Error::not_implemented(
                "'collation' in a change stream that sees a collection with a TTL, in front of a cluster,",
            )
            .into());
        }
        let sent = match stages {
            Some(_) => with_body(request, selected(command, stage)),
            None => request.clone(),
        };
        let reply = self.ask.ask(sent).await?;
        let id = cursor_id(Doc::new(&reply));
        let stream = Arc::new(WatchedStream {
            scope: stage.scope.clone(),
            looks_up: stage.looks_up(),
            stages,
        });
        if id != 0 {
            self.streams.opened(id, Arc::clone(&stream));
        }
        match self.shown(&reply, &stream).await {
            Ok(shown) => Ok(shown.reply.unwrap_or(reply)),
            Err(error) => Err(self.ended(request, id, error).await),
        }
    }

    async fn more(
        &mut self,
        request: &Request,
        id: i64,
        stream: &WatchedStream,
    ) -> Result<Bytes, Lost> {
        let command = request.body();
        if stream.stages.is_none() {
            match stream.scope.has_rules(self.settings).await {
                Ok(false) => {}
                Ok(true) => return Err(self.ended(request, id, has_to_resume()).await),
                Err(error) => return Err(self.ended(request, id, error).await),
            }
        }
        let start = monotonic();
        let limit = command.get("maxTimeMS").as_num();
        let limit = limit.map_or(AWAITED, |limit| {
            Duration::from_millis(u64::try_from(limit.to_i64_saturating()).unwrap_or_default())
        });
        let mut sent = request.clone();
        sent.exhaust_allowed = false;
        loop {
            let reply = self.ask.ask(sent.clone()).await?;
            let document = Doc::new(&reply);
            if !is_ok(document) {
                if document.get("code").as_i32() == Some(CURSOR_NOT_FOUND) {
                    self.streams.closed(id);
                }
                return Ok(reply);
            }
            if cursor_id(document) == 0 {
                self.streams.closed(id);
            }
            let shown = match self.shown(&reply, stream).await {
                Ok(shown) => shown,
                Err(error) => return Err(self.ended(request, id, error).await),
            };
            // If no event is left for the client, the wait goes on, as it does where the cluster leaves them out.
            match left(start, limit) {
                Some(left) if shown.is_emptied && cursor_id(document) != 0 => {
                    let left = Value::int64(i64::try_from(left.as_millis()).unwrap_or(i64::MAX));
                    let fields = [("maxTimeMS", left.as_ref())];
                    sent = with_body(request, with_fields(command, &fields));
                    sent.exhaust_allowed = false;
                }
                _ => return Ok(shown.reply.unwrap_or(reply)),
            }
        }
    }

    /// Rewrites the events of a reply.
    async fn shown(&self, reply: &Bytes, stream: &WatchedStream) -> Result<Shown> {
        let document = Doc::new(reply);
        let cursor = document.get("cursor").as_doc().filter(|_| is_ok(document));
        let (Some(stages), Some(cursor)) = (&stream.stages, cursor) else {
            // A collection may have had a TTL for a moment, and be gone.
            return match contains(reply, HIDDEN_FIELD.as_bytes()) {
                true => Err(has_to_resume()),
                false => Ok(Shown {
                    reply: None,
                    is_emptied: false,
                }),
            };
        };
        let name = match cursor.has("firstBatch") {
            true => "firstBatch",
            false => "nextBatch",
        };
        let events = cursor.get(name).as_array().unwrap_or(Doc::EMPTY);
        let rules = self.rules(events).await?;
        let moment = Moment {
            now: self.settings.now(),
            expose_ts: self.expose_ts,
        };
        let mut bytes = Vec::with_capacity(events.bytes().len());
        let mut batch = ArrayBuilder::begin(&mut bytes);
        for event in events.iter().filter_map(|event| event.value.as_doc()) {
            let none = CollectionRules::NONE;
            let of = namespace(event).and_then(|namespace| rules.get(&namespace));
            let rule = EventRule {
                rules: of.map_or(&none, |rules| rules),
                looks_up: stream.looks_up,
                moment,
            };
            let Some(event) = rule.shown(event) else {
                continue;
            };
            if let Some(event) = stages.apply(event.as_doc(), moment.now)? {
                batch.push_doc(Doc::new(&event));
            }
        }
        let is_emptied = batch.is_empty() && !events.is_empty();
        batch.end();
        let batch = ValueRef::array(Doc::new(&bytes));
        Ok(Shown {
            reply: Some(with_cursor(document, (name, batch))),
            is_emptied,
        })
    }

    /// Returns the rules of the collections that the events are about.
    async fn rules<'e>(
        &self,
        events: Doc<'e>,
    ) -> Result<HashMap<(&'e str, &'e str), Arc<CollectionRules>>> {
        let mut rules = HashMap::new();
        let events = events.iter().filter_map(|event| event.value.as_doc());
        for (database, collection) in events.filter_map(namespace) {
            if let Entry::Vacant(place) = rules.entry((database, collection)) {
                place.insert(self.settings.rules(database, collection).await?);
            }
        }
        Ok(rules)
    }

    /// Ends a stream that cannot go on. Events that were read and not returned come again when the driver resumes it.
    async fn ended(&mut self, request: &Request, id: i64, error: Error) -> Lost {
        let command = request.body();
        self.streams.closed(id);
        if id != 0 {
            let database = command.get("$db").as_str().unwrap_or_default();
            let collection = command.get("collection").as_str();
            let collection = collection.unwrap_or("$cmd.aggregate");
            // If it cannot be closed, the cluster forgets it after a while.
            let _ = kill_cursor(self.ask, database, collection, id).await;
        }
        let label = match error.code() {
            Code::ChangeStreamFatalError => "NonResumableChangeStreamError",
            _ => "ResumableChangeStreamError",
        };
        let labels = DocBuf::from(&doc! {"errorLabels": [label]});
        Lost::Error(error.with_details(labels.into_bytes()))
    }
}

/// A reply with its events rewritten.
struct Shown {
    /// `None` if it stays as it is.
    reply: Option<Bytes>,
    /// There were events, and the client sees none of them.
    is_emptied: bool,
}

const CURSOR_NOT_FOUND: i32 = 43;

/// The error upon which drivers resume a stream behind the last event that they have seen.
fn has_to_resume() -> Error {
    Error::new(
        Code::CursorNotFound,
        "a collection that the change stream sees has got a TTL, so the stream has to be resumed",
    )
}

/// Returns whether a collation compares strings otherwise than byte by byte.
fn has_order(collation: ValueRef<'_>) -> bool {
    collation.as_doc().is_some_and(|collation| {
        !collation.is_empty() && collation.get("locale").as_str() != Some("simple")
    })
}

/// Returns what is left of a time limit.
fn left(start: Instant, limit: Duration) -> Option<Duration> {
    let left = limit.saturating_sub(monotonic() - start);
    (left >= Duration::from_millis(1)).then_some(left)
}

/// Returns the command with only those stages that the cluster runs.
fn selected(command: Doc<'_>, stage: &WatchStage<'_>) -> DocBuf {
    let mut bytes = Vec::new();
    let mut stages = ArrayBuilder::begin(&mut bytes);
    stages.doc().put_doc("$changeStream", stage.options);
    if stage.scope == WatchScope::Cluster {
        let mut own = stages.doc();
        let mut filter = own.doc("$match");
        filter.doc("ns.db").put_str("$ne", SETTINGS_DATABASE);
        filter.end();
        own.end();
    }
    push_selection(&stage.later, &mut stages);
    stages.end();
    with_fields(command, &[("pipeline", ValueRef::array(Doc::new(&bytes)))])
}

fn namespace(event: Doc<'_>) -> Option<(&str, &str)> {
    let namespace = event.get("ns").as_doc()?;
    Some((
        namespace.get("db").as_str()?,
        namespace.get("coll").as_str()?,
    ))
}
