//! Commands that touch any collections, under the rules of all of them.

use bytes::Bytes;

use super::CollectionRules;
use super::ask::Lost;
use super::command_rules::LoadedCommand;
use super::relay::Relay;
use super::rewrite::{self, CursorRules, Moment, ViewCursors, cursor_id, kill_cursor, written};
use super::schema;
use super::settings::RuleSettings;
use super::statistics::{self, WithFigures};
use super::watch::{self, OpenStreams};
use crate::error::Hangup;
use crate::handler::Answer;
use crate::value::Doc;
use crate::wire::Request;

/// What commands need to run under the rules of their collections.
pub struct Ruling {
    pub settings: RuleSettings,
    /// The open cursors whose rows are changed on their way.
    pub cursors: CursorRules,
    /// The open cursors of views.
    pub views: ViewCursors,
    /// The open change streams.
    pub streams: OpenStreams,
    pub expose_ts: bool,
}

// === impl Ruling ===

impl Ruling {
    pub fn moment(&self) -> Moment {
        Moment {
            now: self.settings.now(),
            expose_ts: self.expose_ts,
        }
    }

    /// Runs a command, whatever collections it touches.
    pub async fn answer(
        &self,
        relay: &mut Relay,
        request: Request,
        exhausts: bool,
    ) -> Result<Answer, Hangup> {
        let watched = watch::run(
            &self.settings,
            relay,
            &request,
            &self.streams,
            self.expose_ts,
        );
        if let Some(reply) = watched.await {
            relay.count_rewritten();
            return reply.map_or_else(Lost::answer, |document| Ok(Answer::of(document)));
        }
        let ran = self.run(relay, &request).await;
        ran.map_or_else(Lost::answer, |document| Ok(answered(document, exhausts)))
    }

    /// Runs a command under the rules of its collections. If they have changed when a read has its reply, it is read again: there
    /// may be another collection of that name by now, whose documents have other hidden fields and ends.
    async fn run(&self, relay: &mut Relay, request: &Request) -> Result<Bytes, Lost> {
        let Self {
            settings,
            cursors,
            views,
            ..
        } = self;
        let written = written(request)?;
        loop {
            let known = settings.known_now();
            let writing = settings.begin_write(&written, can_wait(request)).await?;
            let loaded = LoadedCommand::load(settings, request.clone(), (cursors, views)).await?;
            let (sent, book, of_view) = (loaded.request, loaded.rules, loaded.reply);
            if book.is_closed() && !written.is_empty() && can_wait(request) {
                drop(writing);
                settings.gates_open(&written).await?;
                continue;
            }
            if !book.is_none() {
                relay.count_rewritten();
            }
            let moment = self.moment();
            let sent = match statistics::with_figures(settings, relay, sent, &book).await? {
                WithFigures::Reply(reply) => return Ok(reply),
                WithFigures::Request(sent) => sent,
            };
            let replaced = schema::Replaced::begin(settings, (&sent, &book), writing).await?;
            let reply = rewrite::run(relay, sent, &book, moment, cursors).await;
            let reply = replaced.end(reply).await?;
            if is_read(request)
                && !settings.is_known_since(known)
                && !book.still_holds(settings).await?
            {
                self.abandon(relay, request, &reply).await?;
                continue;
            }
            return Ok(match of_view {
                Some(of_view) => of_view.shown(reply, views),
                None => reply,
            });
        }
    }

    /// Returns the reply of a read under these rules of its collection, if they hold. Otherwise it is read again.
    pub async fn confirmed(
        &self,
        relay: &mut Relay,
        (request, reply, rules): (&Request, Bytes, &CollectionRules),
        exhausts: bool,
    ) -> Result<Answer, Hangup> {
        let body = request.body();
        let database = body.get("$db").as_str().unwrap_or_default();
        let collection = body.first().and_then(|first| first.value.as_str());
        let found = self
            .settings
            .rules(database, collection.unwrap_or_default());
        let reply = match found.await {
            Ok(found) if found.is_none() && rules.is_none() || *found == *rules => Ok(reply),
            Ok(_) => match self.abandon(relay, request, &reply).await {
                Ok(()) => self.run(relay, request).await,
                Err(lost) => Err(lost),
            },
            Err(error) => Err(Lost::Error(error)),
        };
        reply.map_or_else(Lost::answer, |reply| Ok(answered(reply, exhausts)))
    }

    /// Closes the cursor of a reply that no client will see.
    async fn abandon(
        &self,
        relay: &mut Relay,
        request: &Request,
        reply: &Bytes,
    ) -> Result<(), Lost> {
        let id = cursor_id(Doc::new(reply));
        if id == 0 {
            return Ok(());
        }
        self.cursors.remove(id);
        let body = request.body();
        let database = body.get("$db").as_str().unwrap_or_default();
        let collection = body.first().and_then(|first| first.value.as_str());
        // The client's session has no part in it.
        kill_cursor(relay, database, collection.unwrap_or_default(), id).await
    }
}

// === impl Lost ===

impl Lost {
    /// Returns what the client gets instead of a reply.
    pub fn answer(self) -> Result<Answer, Hangup> {
        match self {
            Self::Error(error) => {
                let mut reply = Vec::new();
                error.write_reply(&mut reply);
                Ok(Answer::of(reply.into()))
            }
            Self::Hangup(hangup) => Err(hangup),
        }
    }
}

/// Returns whether a command only reads, and can be run again. What a transaction sees does not change.
pub fn is_read(request: &Request) -> bool {
    let body = request.body();
    let reads = match body.first().map(|first| first.name_bytes()) {
        Some(b"find" | b"count" | b"distinct") => true,
        Some(b"aggregate") => {
            let stages = body.get("pipeline").as_array().into_iter().flatten();
            let last = stages.last().and_then(|stage| stage.value.as_doc());
            last.is_none_or(|last| !last.has("$out") && !last.has("$merge"))
        }
        _ => false,
    };
    reads && !body.has("autocommit")
}

/// Returns whether a write can wait. A transaction that has begun holds locks, for which the cluster would wait in turn.
fn can_wait(request: &Request) -> bool {
    let body = request.body();
    !body.has("autocommit") || body.has("startTransaction")
}

/// Returns the answer with this reply.
pub fn answered(document: Bytes, exhausts: bool) -> Answer {
    Answer {
        streaming: exhausts && cursor_id(Doc::new(&document)) != 0,
        document,
    }
}
