//! `collMod`: changes the options of a collection or of one of its indexes.

use super::create::{VALIDATION_ACTIONS, VALIDATION_LEVELS, check_images, wants_images};
use super::{Access, Call, Command, Flags, Needs, Outcome, capped, collection_uuid, schema};
use crate::args::{Arg, NUMBERS, fields};
use crate::auth::Action;
use crate::engine::ddl::{
    IndexName, ModifyCollection, ModifyIndex, Namespace, SchemaChange, no_collection,
};
use crate::error::{Code, Error, Result};
use crate::ttl::{parse_default, parse_indexing_policy};
use crate::value::{Doc, DocBuf, DocBuilder, Type};

pub(super) const COMMAND: Command = Command::ready(
    "collMod",
    Access::Admin,
    "Changes options of a collection or an index.",
    run,
)
.with(Flags::STABLE.and(Flags::WRITE_CONCERN))
.needs(Needs::Collection(Action::CollMod));

/// The parsed command.
struct CollMod {
    change: ModifyCollection,
    /// An option that is known but not built.
    refused: Option<&'static str>,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    let exists = call.context.catalog.get(call.database(), name)?.is_some();
    let parsed = CollMod::parse(call, name).map_err(|error| match error.code() {
        // That options do not go together is told of a collection that is there.
        Code::InvalidOptions if !exists => no_collection(),
        _ => error,
    });
    let CollMod { change, refused } = parsed?;
    if !exists {
        return Err(no_collection());
    }
    let makes_unique = change
        .index
        .as_ref()
        .is_some_and(|index| index.unique == Some(true));
    if change.dry_run && !makes_unique {
        return Err(Error::new(
            Code::InvalidOptions,
            "dry run mode requires an index modification with unique: true.",
        ));
    }
    if let Some(option) = refused {
        return Err(Error::not_implemented(format_args!(
            "collMod option '{option}'"
        )));
    }
    schema::run(call, reply, SchemaChange::ModifyCollection(change))
}

// === impl CollMod ===

impl CollMod {
    fn parse(call: &Call<'_>, name: &str) -> Result<Self> {
        let mut changes = Self {
            change: ModifyCollection::new(Namespace::new(call.database(), name)),
            refused: None,
        };
        let mut others = 0;
        for arg in call.args().skip(1) {
            match arg.name() {
                "collectionUUID" => collection_uuid::check(call, arg)?,
                name => {
                    others += usize::from(!matches!(name, "dryRun" | "index"));
                    changes.read(arg)?;
                }
            }
        }
        changes.check_dry_run(others)?;
        check_images(call.database(), changes.change.images == Some(true))?;
        Ok(changes)
    }

    /// Checks that a dry run does nothing but to look whether an index could become unique.
    fn check_dry_run(&self, others: usize) -> Result<()> {
        if !self.change.dry_run {
            return Ok(());
        }
        let invalid = |why: &str| Err(Error::new(Code::InvalidOptions, why));
        match &self.change.index {
            None => invalid("dry run mode requires an valid index modification."),
            Some(index) if index.unique != Some(true) => {
                invalid("dry run mode requires an index modification with unique: true.")
            }
            Some(index) if others > 0 || !index.is_only_unique() => invalid(
                "unique: true cannot be combined with any other modification in dry run mode.",
            ),
            Some(_) => Ok(()),
        }
    }

    fn read(&mut self, arg: Arg<'_>) -> Result<()> {
        match arg.name() {
            "defaultTtl" => self.change.default_ttl = Some(parse_default(arg.value())?),
            "indexingPolicy" => self.change.indexing_mode = parse_indexing_policy(arg)?,
            "index" => self.change.index = arg.doc()?.map(parse_index).transpose()?,
            "validator" => {
                if arg.doc()?.is_some_and(|validator| !validator.is_empty()) {
                    self.refused = Some("validator");
                }
            }
            "validationLevel" => drop(arg.one_of(VALIDATION_LEVELS)?),
            "validationAction" => drop(arg.one_of(VALIDATION_ACTIONS)?),
            "viewOn" => {
                if arg.str()?.is_some() {
                    self.refused = Some("viewOn");
                }
            }
            "pipeline" => {
                if arg.docs()?.is_some() {
                    self.refused = Some("pipeline");
                }
            }
            "changeStreamPreAndPostImages" => {
                if let Some(images) = arg.doc()? {
                    self.change.images = Some(wants_images("collMod", images)?);
                }
            }
            "timeseries" => {
                if arg.doc()?.is_some() {
                    self.refused = Some("timeseries");
                }
            }
            "cappedSize" => self.change.size = capped::bytes(&arg)?,
            "cappedMax" => self.change.max = capped::documents(&arg)?,
            "expireAfterSeconds" => {
                if !matches!(arg.value().ty(), Type::String) && arg.int()?.is_none() {
                    return Ok(());
                }
                return Err(Error::new(
                    Code::InvalidOptions,
                    "option only supported on collections clustered by _id: expireAfterSeconds",
                ));
            }
            "dryRun" => self.change.dry_run = arg.bool()?.unwrap_or(false),
            _ => return Err(arg.unknown()),
        }
        Ok(())
    }
}

/// Parses `index: {name | keyPattern, expireAfterSeconds, hidden, unique, prepareUnique, forceNonUnique}`
fn parse_index(spec: Doc<'_>) -> Result<ModifyIndex> {
    let (mut name, mut key) = (None, None);
    let (mut expire_after, mut hidden) = (None, None);
    let (mut unique, mut prepare_unique, mut force_non_unique) = (None, None, None);
    for arg in fields("collMod.index", spec) {
        match arg.name() {
            "name" => name = arg.str()?,
            "keyPattern" => key = arg.doc()?,
            "expireAfterSeconds" => {
                if !arg.is_null() {
                    if !arg.value().ty().is_number() {
                        return Err(arg.wrong_type(NUMBERS));
                    }
                    expire_after = Some(arg.value().to_value());
                }
            }
            "hidden" => hidden = arg.bool()?,
            "unique" => unique = arg.bool()?,
            "prepareUnique" => prepare_unique = arg.bool()?,
            "forceNonUnique" => force_non_unique = arg.bool()?,
            _ => return Err(arg.unknown()),
        }
    }
    let invalid = |why: &str| Err(Error::new(Code::InvalidOptions, why));
    let index = match (name, key) {
        (Some(_), Some(_)) => return invalid("Cannot specify both key pattern and name."),
        (None, None) => return invalid("Must specify either index name or key pattern."),
        (Some(name), None) => IndexName::Name(name.to_owned()),
        (None, Some(key)) => IndexName::Key(DocBuf::from(key)),
    };
    let flags = [hidden, unique, prepare_unique, force_non_unique];
    if expire_after.is_none() && flags.iter().all(Option::is_none) {
        return invalid("no expireAfterSeconds, hidden, unique, or prepareUnique field");
    }
    if unique.is_some() && force_non_unique.is_some() {
        return invalid(
            "collMod does not support 'unique' and 'forceNonUnique' options at the same time",
        );
    }
    Ok(ModifyIndex {
        index,
        expire_after,
        hidden,
        unique,
        prepare_unique,
        force_non_unique,
    })
}

#[cfg(test)]
mod tests {
    use crate::command::tests::server::{ask, server};
    use crate::config::Config;
    use bson::{Document, doc};

    /// There are more keys than one step examines, and one key has documents on both sides of the boundary between two
    /// steps.
    #[test]
    fn all_documents_that_share_a_key_are_reported() {
        let mut server = server(Config::default());
        let keys = 193;
        let docs: Vec<Document> = (0..2 * keys)
            .map(|n| doc! {"_id": n, "a": n % keys})
            .collect();
        let index = doc! {"key": {"a": 1}, "name": "a", "prepareUnique": true};
        for command in [
            doc! {"insert": "c", "documents": docs, "$db": "d"},
            doc! {"createIndexes": "c", "indexes": [index], "$db": "d"},
        ] {
            assert_eq!(ask(&mut server, command).get_f64("ok").ok(), Some(1.0));
        }
        let convert = doc! {"collMod": "c", "index": {"name": "a", "unique": true}, "$db": "d"};
        let refused = ask(&mut server, convert.clone());
        assert_eq!(refused.get_i32("code").ok(), Some(359), "{refused}");
        let reported: Vec<_> = refused.get_array("violations").unwrap().iter().collect();
        assert_eq!(reported.len(), keys as usize);
        for (n, shared) in (0..keys).zip(reported) {
            assert_eq!(shared.as_document(), Some(&doc! {"ids": [n, n + keys]}));
        }
        let one_each = doc! {"q": {"_id": {"$gte": keys}}, "limit": 0};
        ask(
            &mut server,
            doc! {"delete": "c", "deletes": [one_each], "$db": "d"},
        );
        let made = ask(&mut server, convert);
        assert_eq!(made.get_bool("unique_new").ok(), Some(true), "{made}");
    }
}
