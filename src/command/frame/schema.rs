//! Schema changes for commands. The engine makes the change, in steps if it takes long; this file writes the reply.

use std::sync::Arc;

use super::{Call, Context, Outcome, Step, Task};
use crate::engine::ddl::{
    Advance, Begun, BuiltIndexes, Done, Existed, ModifiedIndex, SchemaChange, Steps,
};
use crate::error::Result;
use crate::value::DocBuilder;

/// A schema change that takes longer than a step.
struct SchemaTask {
    context: Arc<Context>,
    steps: Box<dyn Steps>,
}

/// Makes the change, usually at once; as work if it takes long.
pub(in crate::command) fn run(
    call: &Call<'_>,
    reply: &mut DocBuilder<'_>,
    change: SchemaChange,
) -> Result<Outcome> {
    call.has_begun_to_write.set(true);
    let steps = match change.begin(&call.context.catalog, call.now)? {
        Begun::Done(done) => {
            tell(call.context, &done, reply);
            return Ok(Outcome::Reply);
        }
        Begun::Steps(steps) => steps,
    };
    let mut changing = SchemaTask {
        context: Arc::clone(call.context),
        steps,
    };
    match changing.step(reply)? {
        Step::Done => Ok(Outcome::Reply),
        _ => Ok(Outcome::Work(Box::new(changing))),
    }
}

// === impl SchemaTask ===

impl Task for SchemaTask {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        Ok(match self.steps.step(self.context.clock.now())? {
            Advance::Done(done) => {
                tell(&self.context, &done, reply);
                Step::Done
            }
            Advance::More => Step::More,
            Advance::Wait(wait) => Step::Wait(wait),
            Advance::Locked(wait) => Step::Locked(wait),
        })
    }
}

/// Writes the fields of the reply. Also forgets the throughput and the usage of a dropped collection or database.
fn tell(context: &Context, done: &Done, reply: &mut DocBuilder<'_>) {
    match done {
        Done::Created | Done::NothingToCreate | Done::NothingToDrop => {}
        Done::Renamed(from) => context.usage().forget_collection(from.as_str()),
        Done::Modified(modified) => put_modified(modified, reply),
        Done::BuiltIndexes(built) => put_built(built, reply),
        Done::DroppedIndexes(dropped) => {
            reply.put_i32("nIndexesWas", dropped.before);
            if dropped.all {
                reply.put_str("msg", "non-_id indexes dropped for collection");
            }
        }
        Done::DroppedCollection(namespace, indexes) => {
            let namespace = namespace.as_str();
            context.cosmos.offers.forget_collection(namespace);
            context.usage().forget_collection(namespace);
            reply
                .put_i32("nIndexesWas", *indexes)
                .put_str("ns", namespace);
        }
        Done::DroppedDatabase(database) => {
            context.cosmos.offers.forget_database(database);
            context.usage().forget_database(database);
        }
    }
}

/// Writes which indexes were built.
pub(in crate::command) fn put_built(built: &BuiltIndexes, reply: &mut DocBuilder<'_>) {
    reply
        .put_i32("numIndexesBefore", built.before)
        .put_i32("numIndexesAfter", built.after);
    // MongoDB says nothing about the collection if it finds all indexes there.
    if built.created_collection || built.existed != Existed::All {
        reply.put_bool("createdCollectionAutomatically", built.created_collection);
    }
    match built.existed {
        Existed::None => {}
        Existed::Some => drop(reply.put_str("note", "index already exists")),
        Existed::All => drop(reply.put_str("note", "all indexes already exist")),
    }
}

fn put_modified(modified: &ModifiedIndex, reply: &mut DocBuilder<'_>) {
    if let Some((old, new)) = modified.expire_after {
        if let Some(old) = old {
            reply.put_i64("expireAfterSeconds_old", old.into());
        }
        reply.put_i64("expireAfterSeconds_new", new.into());
    }
    if let Some((old, new)) = modified.hidden {
        reply
            .put_bool("hidden_old", old)
            .put_bool("hidden_new", new);
    }
    if let Some(unique) = modified.unique {
        let name = if unique {
            "unique_new"
        } else {
            "forceNonUnique_new"
        };
        reply.put_bool(name, true);
    }
    if let Some((old, new)) = modified.prepare_unique {
        reply
            .put_bool("prepareUnique_old", old)
            .put_bool("prepareUnique_new", new);
    }
}
