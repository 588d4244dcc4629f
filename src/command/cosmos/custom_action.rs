//! `customAction`: databases and collections with throughput, as Cosmos DB's extension commands make and show them.
//!
//! What an action comes to is run as the commands that do it (create, createIndexes, dropIndexes), so their rules and their rights
//! hold here as well. Throughput is kept to be shown, and is a limit where `--request-units` switches limits on.

use std::sync::Arc;

use crate::auth::{Action, Target};
use crate::command::args::{fields, required};
use crate::command::{
    Access, Call, Command, Context, Needs, Outcome, Step, Task, check_collection, dispatch, reply,
};
use crate::cosmos::{Offer, Sold};
use crate::engine::stats::describe_indexes;
use crate::error::{Code, Error, Result};
use crate::handler::{Progress, Work};
use crate::value::{ArrayBuilder, Doc, DocBuf, DocBuilder};
use crate::wire::Request;

pub const COMMAND: Command = Command::ready(
    "customAction",
    Access::Admin,
    "Creates, updates or shows databases and collections with their throughput (Cosmos DB).",
    run,
)
.needs(Needs::Asked(may));

/// Whoever may see which collections there are, or make some. The commands that an action comes to are asked for, too.
fn may(call: &Call<'_>) -> Result<bool> {
    let action = match call.target().as_str() {
        Some("GetDatabase" | "GetCollection") => Action::ListCollections,
        _ => Action::CreateCollection,
    };
    Ok(call.may(Target::Database(call.database()), action))
}

/// What an action was given.
#[derive(Default)]
struct Asked<'a> {
    collection: Option<&'a str>,
    offer: Option<Offer>,
    shard_key: Option<&'a str>,
    indexes: Option<Vec<Doc<'a>>>,
    show_indexes: bool,
}

/// An action that is done by other commands.
struct Doing {
    /// Those still to be run, the next one last.
    left: Vec<Box<dyn Work>>,
    context: Arc<Context>,
    database: String,
    collection: String,
    offer: Option<Offer>,
    shard_key: Option<String>,
    /// Its first command makes the collection.
    new: bool,
    /// It has: if anything goes wrong from now on, the collection is taken away again.
    made: bool,
}

/// What one partition can do: more needs a shard key.
const MAX_UNSHARDED: u32 = 10_000;

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let asked = Asked::read(call)?;
    let action = call.target();
    match action.as_str() {
        Some("CreateDatabase") => {
            if database_exists(call) {
                return Err(Error::new(
                    Code::NamespaceExists,
                    format!("Database {} already exists.", call.database()),
                ));
            }
            call.context
                .cosmos
                .offers
                .set_database(call.database(), asked.offer);
            Ok(Outcome::Reply)
        }
        Some("UpdateDatabase") => {
            find_database(call)?;
            let offers = &call.context.cosmos.offers;
            let offer = asked.offer.or_else(|| offers.of_database(call.database()));
            offers.set_database(call.database(), offer);
            Ok(Outcome::Reply)
        }
        Some("GetDatabase") => {
            find_database(call)?;
            reply.put_str("database", call.database());
            put_offer(
                reply,
                call.context.cosmos.offers.of_database(call.database()),
            );
            Ok(Outcome::Reply)
        }
        Some("CreateCollection") => create_collection(call, &asked),
        Some("UpdateCollection") => update_collection(call, &asked),
        Some("GetCollection") => get_collection(call, &asked, reply),
        _ => Err(Error::new(
            Code::CommandNotSupported,
            format!("customAction {action} is not supported"),
        )),
    }
}

fn database_exists(call: &Call<'_>) -> bool {
    call.context
        .cosmos
        .offers
        .database(call.database())
        .is_some()
        || !call.context.catalog.in_database(call.database()).is_empty()
}

fn find_database(call: &Call<'_>) -> Result<()> {
    if database_exists(call) {
        return Ok(());
    }
    Err(Error::new(
        Code::NamespaceNotFound,
        format!("Database {} not found.", call.database()),
    ))
}

fn create_collection(call: &Call<'_>, asked: &Asked<'_>) -> Result<Outcome> {
    let name = asked.collection(call)?;
    if call.context.catalog.get(call.database(), name).is_some() {
        return Err(Error::new(
            Code::NamespaceExists,
            format!("Collection {}.{name} already exists.", call.database()),
        ));
    }
    let shared = call
        .context
        .cosmos
        .offers
        .of_database(call.database())
        .is_some();
    let offer = asked.offer.or((!shared).then_some(Offer::Manual(400)));
    if asked.shard_key.is_none()
        && asked
            .offer
            .is_some_and(|offer| offer.units() > MAX_UNSHARDED)
    {
        return Err(Error::bad_value(format!(
            "A collection without a shardKey has at most {MAX_UNSHARDED} request units per second"
        )));
    }
    let mut left = asked.make_indexes(call, name)?;
    left.push(asked_for(
        call,
        &DocBuf::build(|body| {
            body.put_str("create", name).put_str("$db", call.database());
        }),
    ));
    Ok(doing(
        call,
        name,
        left,
        Sold {
            offer,
            shard_key: asked.shard_key.map(ToOwned::to_owned),
            ..Sold::default()
        },
        true,
    ))
}

fn update_collection(call: &Call<'_>, asked: &Asked<'_>) -> Result<Outcome> {
    let name = asked.collection(call)?;
    let sold = find_collection(call, name)?;
    let mut left = Vec::new();
    if asked.indexes.is_some() {
        // The list replaces whatever there is.
        left = asked.make_indexes(call, name)?;
        left.push(asked_for(
            call,
            &DocBuf::build(|body| {
                body.put_str("dropIndexes", name)
                    .put_str("index", "*")
                    .put_str("$db", call.database());
            }),
        ));
    }
    let offer = asked.offer.or(sold.offer);
    Ok(doing(call, name, left, Sold { offer, ..sold }, false))
}

fn get_collection(
    call: &Call<'_>,
    asked: &Asked<'_>,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let name = asked.collection(call)?;
    let sold = find_collection(call, name)?;
    reply
        .put_str("database", call.database())
        .put_str("collection", name);
    if let Some(path) = &sold.shard_key {
        let mut key = reply.doc("shardKeyDefinition");
        key.put_str(path, "hashed");
        key.end();
    }
    put_offer(reply, sold.offer);
    if asked.show_indexes
        && let Some(there) = call.context.catalog.get(call.database(), name)
    {
        let mut indexes = reply.array("indexes");
        for index in there.read(call.now, describe_indexes) {
            let mut entry = indexes.doc();
            entry
                .put_body(index.as_doc().body())
                .put_str("ns", &call.namespace(name));
            entry.end();
        }
        indexes.end();
    }
    Ok(Outcome::Reply)
}

fn find_collection(call: &Call<'_>, name: &str) -> Result<Sold> {
    let Some(there) = call.context.catalog.get(call.database(), name) else {
        return Err(Error::new(
            Code::NamespaceNotFound,
            format!("Collection {}.{name} not found.", call.database()),
        ));
    };
    let offers = &call.context.cosmos.offers;
    Ok(offers.collection(
        call.database(),
        &call.namespace(name),
        *there.uuid().as_bytes(),
    ))
}

/// `provisionedThroughput`, and `autoScaleSettings` where it scales by itself.
fn put_offer(reply: &mut DocBuilder<'_>, offer: Option<Offer>) {
    let Some(offer) = offer else {
        return;
    };
    reply::put_count(
        reply,
        "provisionedThroughput",
        u64::from(offer.provisioned()),
    );
    if let Offer::Autoscale(most) = offer {
        let mut settings = reply.doc("autoScaleSettings");
        reply::put_count(&mut settings, "maxThroughput", u64::from(most));
        settings.end();
    }
}

/// A command as the client could have sent it, to be run in its name.
fn asked_for(call: &Call<'_>, body: &DocBuf) -> Box<dyn Work> {
    let request = Request {
        body: body.bytes().to_vec().into(),
        sequences: Vec::new(),
        query_database: None,
        unacknowledged: false,
        exhaust_allowed: false,
        ..call.request.clone()
    };
    dispatch::later(call.context, call.client, request)
}

fn doing(call: &Call<'_>, name: &str, left: Vec<Box<dyn Work>>, sold: Sold, new: bool) -> Outcome {
    Outcome::Work(Box::new(Doing {
        left,
        context: Arc::clone(call.context),
        database: call.database().to_owned(),
        collection: name.to_owned(),
        offer: sold.offer,
        shard_key: sold.shard_key,
        new,
        made: false,
    }))
}

// === impl Asked ===

impl<'a> Asked<'a> {
    fn read(call: &Call<'a>) -> Result<Self> {
        let mut asked = Self::default();
        for arg in call.args().skip(1) {
            match arg.name() {
                "collection" => asked.collection = arg.str()?,
                "offerThroughput" => {
                    if let Some(units) = arg.int()? {
                        asked.offer = Some(Offer::Manual(units_in(units, 400, 100)?));
                    }
                }
                "autoScaleSettings" => {
                    for field in fields("autoScaleSettings", arg.doc()?.unwrap_or(Doc::EMPTY)) {
                        match field.name() {
                            "maxThroughput" => {
                                let units = field.int()?.unwrap_or_default();
                                asked.offer = Some(Offer::Autoscale(units_in(units, 1000, 1000)?));
                            }
                            _ => return Err(field.unknown()),
                        }
                    }
                }
                "shardKey" => asked.shard_key = arg.str()?,
                "indexes" => asked.indexes = arg.docs()?,
                "showIndexes" => asked.show_indexes = arg.bool()?.unwrap_or(false),
                // What the service does not know it passes over; a TTL set this way would be missed without a word.
                _ => return Err(arg.unknown()),
            }
        }
        Ok(asked)
    }

    fn collection(&self, call: &Call<'_>) -> Result<&'a str> {
        let name = required(self.collection, "customAction", "collection")?;
        check_collection(call.database(), name)?;
        Ok(name)
    }

    /// The createIndexes that the list comes to. The index on `_id` has to be in it, and is there anyway.
    fn make_indexes(&self, call: &Call<'_>, name: &str) -> Result<Vec<Box<dyn Work>>> {
        let Some(specs) = &self.indexes else {
            return Ok(Vec::new());
        };
        let is_id = |spec: &Doc<'_>| {
            let key = spec.get("key").as_doc().unwrap_or(Doc::EMPTY);
            key.count() == 1 && key.has("_id")
        };
        if !specs.iter().any(is_id) {
            return Err(Error::bad_value(
                "customAction 'indexes' must contain the index on _id",
            ));
        }
        if specs.iter().all(is_id) {
            return Ok(Vec::new());
        }
        let body = DocBuf::build(|body| {
            body.put_str("createIndexes", name);
            let mut list: ArrayBuilder<'_> = body.array("indexes");
            for spec in specs.iter().filter(|spec| !is_id(spec)) {
                list.push_doc(*spec);
            }
            list.end();
            body.put_str("$db", call.database());
        });
        Ok(vec![asked_for(call, &body)])
    }
}

/// Throughput is sold in steps, from a least amount on.
fn units_in(units: i64, least: i64, step: i64) -> Result<u32> {
    match u32::try_from(units) {
        Ok(fits) if units >= least && units % step == 0 => Ok(fits),
        _ => Err(Error::bad_value(format!(
            "Throughput must be a multiple of {step} and at least {least}, but found: {units}"
        ))),
    }
}

// === impl Doing ===

impl Task for Doing {
    fn step(&mut self, _: &mut DocBuilder<'_>) -> Result<Step> {
        let Some(work) = self.left.last_mut() else {
            self.sell();
            return Ok(Step::Done);
        };
        let mut out = Vec::new();
        match work.step(&mut out) {
            Ok(Progress::More) => Ok(Step::More),
            Ok(Progress::Sleep(time)) => Ok(Step::Sleep(time)),
            Ok(Progress::Done | Progress::Streaming) => {
                self.left.pop();
                let checked = check(Doc::new(&out));
                if checked.is_err() && self.made {
                    let catalog = &self.context.catalog;
                    catalog.drop_collection(&self.database, &self.collection);
                }
                self.made = self.new;
                checked.map(|()| Step::More)
            }
            Err(hangup) => Err(Error::new(Code::InternalError, hangup.to_string())),
        }
    }
}

impl Doing {
    /// Notes what was bought, when all is done.
    fn sell(&self) {
        let Some(there) = self.context.catalog.get(&self.database, &self.collection) else {
            return;
        };
        self.context.cosmos.offers.set_collection(
            format!("{}.{}", self.database, self.collection),
            Sold {
                uuid: *there.uuid().as_bytes(),
                offer: self.offer,
                shard_key: self.shard_key.clone(),
            },
        );
    }
}

/// What a command that was run on the way says against it.
fn check(reply: Doc<'_>) -> Result<()> {
    if reply.get("ok").as_f64() == Some(1.0) {
        return Ok(());
    }
    let code = reply.get("code").as_i32().unwrap_or(1);
    let words = reply.get("errmsg").as_str().unwrap_or_default();
    Err(Error::new(Code::numbered(code), words))
}
