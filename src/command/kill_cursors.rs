//! `killCursors`: closes open cursors.

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::args::required;
use crate::auth::{Action, AuthTarget};
use crate::error::{Error, Result};
use crate::value::{DocBuilder, Type, Value};

pub(super) const COMMAND: Command =
    Command::ready("killCursors", Access::Read, "Closes cursors.", run)
        .with(Flags::STABLE.and(Flags::SECONDARY).and(Flags::TRANSACTION))
        .needs(Needs::Asked(may));

/// Checks the rights: every user may kill their own cursors, and other cursors only with `killAnyCursor`.
fn may(call: &Call<'_>) -> Result<bool> {
    let ids = call.arg("cursors").and_then(|arg| arg.value().as_array());
    let own = ids.into_iter().flatten().all(|elem| {
        let info = elem
            .value
            .as_i64()
            .and_then(|id| call.context.cursors.info(id));
        info.is_none_or(|info| call.owns(info.owner))
    });
    Ok(own || call.may(AuthTarget::Cluster, Action::KillAnyCursor))
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut cursors = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "cursors" => cursors = arg.array()?,
            _ => return Err(arg.unknown()),
        }
    }
    let mut ids = Vec::new();
    for elem in required(cursors, "killCursors", "cursors")? {
        // All ids are checked before the first cursor is killed. Nulls are ignored.
        match elem.value.as_i64() {
            Some(id) => ids.push(id),
            None if elem.value.is_nullish() => {}
            None => {
                return Err(Error::wrong_type(
                    "killCursors.cursors",
                    elem.name(),
                    elem.value.ty(),
                    &[Type::Int64],
                ));
            }
        }
    }
    call.collection()?;
    ids.iter().try_for_each(|&id| check_transaction(call, id))?;
    // Like MongoDB, the server looks only at the id, not at the collection that the command names.
    let (killed, missing): (Vec<_>, Vec<_>) = ids
        .into_iter()
        .partition(|&id| call.context.cursors.kill(id));
    for (name, ids) in [
        ("cursorsKilled", &killed),
        ("cursorsNotFound", &missing),
        ("cursorsAlive", &Vec::new()),
        ("cursorsUnknown", &Vec::new()),
    ] {
        let mut array = reply.array(name);
        for id in ids {
            array.push(Value::int64(*id).as_ref());
        }
        array.end();
    }
    Ok(Outcome::Reply)
}

/// Checks that a command of a transaction kills only cursors of that transaction.
fn check_transaction(call: &Call<'_>, id: i64) -> Result<()> {
    let (Some(transaction), Some(info)) = (&call.transaction, call.context.cursors.info(id)) else {
        return Ok(());
    };
    let (session, number) = (transaction.session(), transaction.number());
    if info.session != Some(session) {
        return Err(Error::location(
            8_912_345,
            format!(
                "tried to kill a cursor {id} belonging to another session while in txn {number} of session {session}"
            ),
        ));
    }
    if info.transaction != Some(number) {
        return Err(Error::location(
            8_912_321,
            format!(
                "tried to kill a cursor {id} that does not belong to txn {number} of session {session}"
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::command::tests::server::{ask, server};
    use crate::config::Config;
    use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

    /// A command in the session, and in the transaction if it has a number.
    fn in_session(mut command: Document, session: u8, number: Option<i64>) -> Document {
        let id = Binary {
            subtype: BinarySubtype::Uuid,
            bytes: vec![session; 16],
        };
        command.extend(doc! {"$db": "d", "lsid": {"id": id}});
        if let Some(number) = number {
            command.extend(doc! {"txnNumber": number, "autocommit": false});
        }
        command
    }

    /// A transaction must not kill cursors that live outside it, not even those of its own session.
    #[test]
    fn a_transaction_kills_only_its_own_cursors() {
        let mut server = server(Config::default());
        let rows: Vec<Bson> = (0..5).map(|n| doc! {"_id": n}.into()).collect();
        ask(
            &mut server,
            doc! {"insert": "c", "documents": rows, "$db": "d"},
        );
        let find = doc! {"find": "c", "batchSize": 1};
        let mut start = find.clone();
        start.insert("startTransaction", true);
        let mut open = |command: Document| {
            let reply = ask(&mut server, command);
            let cursor = reply.get_document("cursor").cloned();
            cursor
                .unwrap_or_else(|_| panic!("{reply}"))
                .get_i64("id")
                .unwrap()
        };
        let outside = open(in_session(find.clone(), 1, None));
        let foreign = open(in_session(find, 2, None));
        let own = open(in_session(start.clone(), 1, Some(1)));
        let mut kill = |id: i64, number: i64| {
            let command = doc! {"killCursors": "c", "cursors": [id]};
            let reply = ask(&mut server, in_session(command, 1, Some(number)));
            reply.get_i32("code").ok()
        };
        assert_eq!(kill(own, 1), None);
        assert_eq!(kill(foreign, 1), Some(8_912_345));
        ask(&mut server, in_session(start, 1, Some(2)));
        let command = doc! {"killCursors": "c", "cursors": [outside]};
        let reply = ask(&mut server, in_session(command, 1, Some(2)));
        assert_eq!(reply.get_i32("code").ok(), Some(8_912_321), "{reply}");
    }
}
