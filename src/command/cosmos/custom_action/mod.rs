//! `customAction`: Cosmos DB's extension commands, which create and show databases and collections with throughput.
//!
//! One table holds the [actions](ACTIONS). [`arguments`] reads the arguments of an action; [`database`] and [`collection`] carry
//! it out. They run other commands for that (create, createIndexes, dropIndexes; see [`work`]), so the rules and rights of
//! those commands also hold here. Throughput is stored and shown. It is a limit only if `--request-units` turns limits on.

mod arguments;
mod collection;
mod database;
mod indexes;
mod work;

use crate::auth::{Action, AuthTarget};
use crate::command::{Access, Call, Command, Needs, Outcome, reply};
use crate::cosmos::Offer;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuilder, Type};

use arguments::ActionArguments;

pub const COMMAND: Command = Command::ready(
    "customAction",
    Access::Admin,
    "Creates, updates or shows databases and collections with their throughput (Cosmos DB).",
    run,
)
.needs(Needs::Asked(may));

/// An action of the command.
struct CustomAction {
    name: &'static str,
    /// The fields that the action takes.
    fields: &'static [&'static str],
    /// What the sender must be allowed to do with the database. The commands that the action runs check their own rights,
    /// too.
    needs: Action,
    /// `None` if Cosmos DB has the action and Sundown does not.
    run: Option<Run>,
}

type Run = fn(&Call<'_>, &ActionArguments<'_>, &mut DocBuilder<'_>) -> Result<Outcome>;

/// The fields that set throughput.
const MANUAL: &str = "offerThroughput";
const AUTOSCALE: &str = "autoScaleSettings";

/// All actions, sorted by name.
static ACTIONS: &[CustomAction] = &[
    CustomAction {
        name: "CreateCollection",
        fields: &["collection", MANUAL, AUTOSCALE, "shardKey", "indexes"],
        needs: Action::CreateCollection,
        run: Some(collection::create),
    },
    CustomAction {
        name: "CreateDatabase",
        fields: &[MANUAL, AUTOSCALE],
        needs: Action::CreateCollection,
        run: Some(database::create),
    },
    CustomAction {
        name: "GetChangeStreamTokens",
        fields: &[],
        needs: Action::ListCollections,
        run: None,
    },
    CustomAction {
        name: "GetCollection",
        fields: &["collection", "showIndexes"],
        needs: Action::ListCollections,
        run: Some(collection::get),
    },
    CustomAction {
        name: "GetDatabase",
        fields: &[],
        needs: Action::ListCollections,
        run: Some(database::get),
    },
    CustomAction {
        name: "UpdateCollection",
        fields: &["collection", MANUAL, AUTOSCALE, "indexes"],
        needs: Action::CreateCollection,
        run: Some(collection::update),
    },
    CustomAction {
        name: "UpdateDatabase",
        fields: &[MANUAL, AUTOSCALE],
        needs: Action::CreateCollection,
        run: Some(database::update),
    },
];

fn find(call: &Call<'_>) -> Result<&'static CustomAction> {
    let target = call.target();
    let name = target
        .as_str()
        .ok_or_else(|| Error::wrong_type("", "customAction", target.ty(), &[Type::String]))?;
    let known = ACTIONS.iter().find(|action| action.name == name);
    known.ok_or_else(|| {
        Error::new(
            Code::CommandNotSupported,
            format!("customAction '{name}' is not supported"),
        )
    })
}

fn may(call: &Call<'_>) -> Result<bool> {
    let needs = find(call).map_or(Action::ListCollections, |action| action.needs);
    Ok(call.may(AuthTarget::Database(call.database()), needs))
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let action = find(call)?;
    let Some(run) = action.run else {
        return Err(Error::not_implemented(format_args!(
            "customAction {}",
            action.name
        )));
    };
    let arguments = ActionArguments::read(call, action.fields)?;
    run(call, &arguments, reply)
}

/// Writes `provisionedThroughput`, and `autoScaleSettings` if the throughput scales automatically.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_sorted() {
        assert!(ACTIONS.is_sorted_by_key(|action| action.name));
    }
}
