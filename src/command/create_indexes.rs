//! `createIndexes`: what is asked for, what of it is there, and what has to be made ([`Building`]).

use std::sync::Arc;

use super::args::required;
use super::index_build::{Building, Reply};
use super::index_spec::{self, Unknown, Wanted};
use super::{
    Access, Call, Command, Context, Flags, Needs, Outcome, Step, Task, collection_uuid,
    commit_quorum, default_ttl, drained, list_indexes,
};
use crate::auth::Action;
use crate::engine::ddl::check_written;
use crate::engine::write::collection_for;
use crate::error::{Code, Error, Result};
use crate::storage::index::IndexSpec;
use crate::storage::ttl::DefaultTtl;
use crate::storage::{IndexingMode, TsIndex, View};
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef, compare_docs};

pub(super) const COMMAND: Command =
    Command::ready("createIndexes", Access::Admin, "Makes indexes.", run)
        .with(Flags::STABLE.and(Flags::WRITE_CONCERN))
        .needs(Needs::Collection(Action::CreateIndex));

/// A collection has at most that many indexes.
const MAX_INDEXES: usize = 64;

/// One createIndexes, from the moment at which its words are understood.
struct Creating {
    context: Arc<Context>,
    database: String,
    collection: String,
    wanted: Vec<Wanted>,
    created_collection: bool,
    /// Not begun while somebody else makes one of the indexes: then this one waits, and looks again at what there is.
    building: Option<Building>,
}

/// What has to be made, after a look at what there is.
struct Missing {
    indexes: Vec<IndexSpec>,
    default: Option<(DefaultTtl, TsIndex)>,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    let mut specs = None;
    let mut unknown = Unknown::Refused;
    for arg in call.args().skip(1) {
        match arg.name() {
            "indexes" => specs = arg.docs()?,
            "collectionUUID" => collection_uuid::check(call, arg)?,
            "ignoreUnknownIndexOptions" => {
                if arg.bool()? == Some(true) {
                    unknown = Unknown::Ignored;
                }
            }
            // Of the command; each index may say its own.
            "v" => drop(arg.int()?),
            "commitQuorum" => commit_quorum::check(&call.context.config.topology, arg)?,
            _ => return Err(arg.unknown()),
        }
    }
    let specs = required(specs, "createIndexes", "indexes")?;
    if specs.is_empty() {
        return Err(Error::bad_value(
            "Must specify at least one index to create",
        ));
    }
    let wanted = specs
        .into_iter()
        .map(|spec| index_spec::parse(spec, unknown))
        .collect::<Result<Vec<_>>>()?;
    check_written(call.database(), name)?;
    let hides = |wanted: &Wanted| matches!(wanted, Wanted::Index(spec) if spec.hidden);
    if name.starts_with("system.") && wanted.iter().any(hides) {
        return Err(index_spec::hides_systems_own());
    }
    let mut creating = Creating {
        context: Arc::clone(call.context),
        database: call.database().to_owned(),
        collection: name.to_owned(),
        wanted,
        created_collection: false,
        building: None,
    };
    match creating.step(reply)? {
        Step::Done => Ok(Outcome::Reply),
        _ => Ok(Outcome::Work(Box::new(creating))),
    }
}

// === impl Creating ===

impl Creating {
    /// `None`: one of the indexes is being made by somebody else, or the collection went away after it was found.
    fn begin(&mut self) -> Result<Option<Building>> {
        let (collection, created) =
            collection_for(&self.context.catalog, &self.database, &self.collection)?;
        self.created_collection |= created;
        let now = self.context.clock.now();
        let begun = collection.write(now, |writer| {
            let before = list_indexes::count(&writer.view());
            let Some(missing) = Missing::find(&writer.view(), &self.wanted)? else {
                return Ok(None);
            };
            let begun = missing.indexes.into_iter();
            let numbers: Vec<_> = begun.map(|spec| writer.begin_index(spec)).collect();
            Ok(Some((before, numbers, missing.default)))
        });
        let begun: Result<_> = begun.unwrap_or(Ok(None));
        Ok(begun?.map(|(before, numbers, default)| {
            let reply = Reply {
                before,
                created_collection: self.created_collection,
            };
            Building::new(&self.context, collection, numbers, default, reply)
        }))
    }
}

impl Task for Creating {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        if self.building.is_none() {
            self.building = self.begin()?;
        }
        match &mut self.building {
            Some(building) => building.step(reply),
            None => Ok(Step::Sleep(drained::A_MOMENT)),
        }
    }
}

// === impl Missing ===

impl Missing {
    /// `None`: an index that is wanted is being made. Whether it will be there is not known before that is done.
    fn find(view: &View<'_>, wanted: &[Wanted]) -> Result<Option<Self>> {
        let mut indexes: Vec<IndexSpec> = Vec::new();
        let mut default = None;
        let mut begun = false;
        let mode = view.options().indexing_mode;
        for wanted in wanted {
            match wanted {
                Wanted::Id => {}
                Wanted::Default {
                    default: value,
                    shown,
                } => {
                    default_ttl::check_mode(mode, *value, Code::CannotCreateIndex)?;
                    default = Some((*value, shown.clone()));
                }
                Wanted::Index(_) if mode == Some(IndexingMode::None) => {
                    return Err(Error::new(
                        Code::CannotCreateIndex,
                        "Indexing mode 'none' allows no index but the one on _id",
                    ));
                }
                Wanted::Index(spec) => {
                    check_against_default(view, spec)?;
                    let existing = view.indexes().map(|index| &index.spec);
                    if !exists(existing.chain(&indexes), spec)? {
                        indexes.push(IndexSpec::clone(spec));
                    }
                    begun |= view.index(&spec.name).is_some_and(|there| !there.ready);
                    // Asked here and not at the end: each is compared with all before it, and the collection is locked.
                    if view.indexes().count() + indexes.len() + 1 > MAX_INDEXES {
                        return Err(Error::new(
                            Code::CannotCreateIndex,
                            format!("add index fails, too many indexes for {}", view.namespace()),
                        ));
                    }
                }
            }
        }
        if let Some((_, shown)) = &default {
            let mut specs = view.indexes().map(|index| &index.spec).chain(&indexes);
            // A plain index on `_ts` becomes the default's own; any other would be taken for it.
            if specs.any(|spec| spec.name == shown.name && !default_ttl::is_plain(spec)) {
                return Err(has_name(&shown.name));
            }
        }
        Ok((!begun).then_some(Self { indexes, default }))
    }
}

/// The index that shows the default takes part in the rules about names and keys.
fn check_against_default(view: &View<'_>, spec: &IndexSpec) -> Result<()> {
    let Some(ts) = view.ts_index() else {
        return Ok(());
    };
    if view.index(&ts.name).is_some() {
        return Ok(());
    }
    let same_key = default_ttl::is_ts_key(spec.key.as_doc());
    if same_key {
        return Err(Error::new(
            Code::IndexOptionsConflict,
            format!(
                "An equivalent index already exists with different options. Requested index: {}, existing index: {}",
                spec.name, ts.name
            ),
        ));
    }
    if ts.name == spec.name {
        return Err(has_name(&ts.name));
    }
    Ok(())
}

fn has_name(name: &str) -> Error {
    Error::new(
        Code::IndexKeySpecsConflict,
        format!("An existing index has the same name as the requested index: {name}"),
    )
}

/// Whether the very same index is there; an error if one is there that it would clash with.
fn exists<'a>(existing: impl Iterator<Item = &'a IndexSpec>, spec: &IndexSpec) -> Result<bool> {
    for there in existing {
        let same_name = there.name == spec.name;
        let same_kind = is_same_kind(there, spec);
        let describe = |spec: &IndexSpec| DocBuf::build(|doc| spec.describe(doc)).to_string();
        if same_name && !same_kind {
            return Err(Error::new(
                Code::IndexKeySpecsConflict,
                format!(
                    "An existing index has the same name as the requested index. When index names are not specified, they \
                     are auto generated and can cause conflicts. Please refer to our documentation. Requested index: {}, \
                     existing index: {}",
                    describe(spec),
                    describe(there)
                ),
            ));
        }
        if same_kind && !same_name {
            return Err(Error::new(
                Code::IndexOptionsConflict,
                format!("Index already exists with a different name: {}", there.name),
            ));
        }
        if same_kind && same_name {
            if there.expire_after != spec.expire_after || there.hidden != spec.hidden {
                return Err(Error::new(
                    Code::IndexOptionsConflict,
                    format!(
                        "An equivalent index already exists with the same name but different options. Requested index: {}, \
                         existing index: {}",
                        describe(spec),
                        describe(there)
                    ),
                ));
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// What makes two indexes the same: key, uniqueness, and which documents they hold.
fn is_same_kind(one: &IndexSpec, other: &IndexSpec) -> bool {
    let conditions = |spec: &IndexSpec| {
        spec.partial.as_ref().map(|partial| {
            let mut all = Vec::new();
            clauses(partial.filter.as_doc(), &mut all);
            all.sort_unstable();
            all
        })
    };
    // By value and not by direction: `{a: 1}` and `{a: 2}` are two indexes, `{a: 1}` and `{a: 1.0}` are one.
    compare_docs(one.key.as_doc(), other.key.as_doc()).is_eq()
        && (one.unique, one.sparse) == (other.unique, other.sparse)
        && conditions(one) == conditions(other)
}

/// A filter as the conditions that must all hold: `{a: 1, b: 2}` and `{$and: [{b: {$eq: 2}}, {a: 1}]}` say the same.
fn clauses(filter: Doc<'_>, all: &mut Vec<Vec<u8>>) {
    for elem in filter {
        if let Some(array) = elem.value.as_array()
            && elem.name() == "$and"
        {
            let members = array.iter().filter_map(|member| member.value.as_doc());
            members.for_each(|member| clauses(member, all));
            continue;
        }
        let operators = elem.value.as_doc().filter(|doc| {
            doc.first()
                .is_some_and(|first| first.name().starts_with('$'))
        });
        let mut clause = |operator: &str, value: ValueRef<'_>| {
            let doc = DocBuf::build(|doc| {
                let mut condition = doc.doc(elem.name());
                condition.put(operator, value);
                condition.end();
            });
            all.push(doc.into_bytes());
        };
        match operators {
            Some(operators) => operators
                .iter()
                .for_each(|operator| clause(operator.name(), operator.value)),
            None => clause("$eq", elem.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{ask, begin, finish, server};
    use crate::config::Config;
    use crate::handler::Progress;
    use bson::{Document, doc};

    type Server = (super::super::Commands, super::super::Connection);

    /// A collection that is large enough for an index on it to take steps.
    fn with_documents(a: impl Fn(i32) -> i32) -> Server {
        let mut server = server(Config::default());
        for from in (0..6_000).step_by(1_000) {
            let documents: Vec<Document> = (from..from + 1_000)
                .map(|n| doc! {"_id": n, "a": a(n)})
                .collect();
            ask(
                &mut server,
                doc! {"insert": "c", "documents": documents, "$db": "d"},
            );
        }
        server
    }

    fn create() -> Document {
        let unique = doc! {"key": {"a": 1}, "name": "a_1", "unique": true};
        doc! {"createIndexes": "c", "indexes": [unique], "$db": "d"}
    }

    fn numbers(reply: &Document) -> (i32, i32) {
        let number = |name| reply.get_i32(name).unwrap();
        (number("numIndexesBefore"), number("numIndexesAfter"))
    }

    #[test]
    fn whoever_asks_for_an_index_that_is_being_made_waits_for_it() {
        let mut server = with_documents(|n| n);
        let mut first = begin(&mut server, create());
        let mut second = begin(&mut server, create());
        let mut reply = Vec::new();
        while first.step(&mut reply).unwrap() != Progress::Done {
            let waits = second.step(&mut Vec::new()).unwrap();
            assert!(matches!(waits, Progress::Sleep(_)), "{waits:?}");
        }
        assert_eq!(numbers(&Document::from_reader(&reply[..]).unwrap()), (1, 2));
        let second = finish(second);
        assert_eq!(numbers(&second), (2, 2), "{second}");
        assert_eq!(second.get_str("note").unwrap(), "all indexes already exist");
    }

    #[test]
    fn if_it_cannot_be_made_neither_is_told_that_it_was() {
        let mut server = with_documents(|n| n.min(5_998));
        let first = begin(&mut server, create());
        let second = begin(&mut server, create());
        let third = begin(&mut server, create());
        for work in [first, second] {
            let reply = finish(work);
            assert_eq!(reply.get_i32("code").ok(), Some(11_000), "{reply}");
        }
        // One that is left to itself can be made.
        let gone = doc! {"delete": "c", "deletes": [{"q": {"_id": 5_999}, "limit": 1}], "$db": "d"};
        ask(&mut server, gone);
        assert_eq!(numbers(&finish(third)), (1, 2));
    }

    #[test]
    fn one_that_is_dropped_while_it_is_made_is_not_taken_for_another_of_its_name() {
        let mut server = with_documents(|n| n);
        let mut first = begin(&mut server, create());
        first.step(&mut Vec::new()).unwrap();
        ask(
            &mut server,
            doc! {"dropIndexes": "c", "index": "a_1", "$db": "d"},
        );
        let second = begin(&mut server, create());
        let reply = finish(first);
        assert_eq!(reply.get_i32("code").ok(), Some(276), "{reply}");
        assert_eq!(numbers(&finish(second)), (1, 2));
        for n in [0, 50, 3_000, 5_999] {
            let find = doc! {"count": "c", "query": {"a": n}, "hint": "a_1", "$db": "d"};
            assert_eq!(ask(&mut server, find).get_i32("n").ok(), Some(1), "{n}");
        }
    }

    /// As MongoDB words it: a build that somebody puts an end to has failed, and a collection is renamed when it is over.
    #[test]
    fn a_collection_that_goes_takes_the_build_along_and_none_is_renamed_under_it() {
        let drops = [
            doc! {"drop": "c", "$db": "d"},
            doc! {"dropDatabase": 1, "$db": "d"},
        ];
        for drop in drops {
            let mut server = with_documents(|n| n);
            let mut work = begin(&mut server, create());
            work.step(&mut Vec::new()).unwrap();
            for (from, to) in [("d.c", "d.other"), ("d.source", "d.c")] {
                ask(&mut server, doc! {"create": "source", "$db": "d"});
                let rename =
                    doc! {"renameCollection": from, "to": to, "dropTarget": true, "$db": "admin"};
                let reply = ask(&mut server, rename);
                assert_eq!(reply.get_i32("code").ok(), Some(12_587), "{reply}");
            }
            assert_eq!(ask(&mut server, drop).get_f64("ok").ok(), Some(1.0));
            let reply = finish(work);
            assert_eq!(reply.get_i32("code").ok(), Some(276), "{reply}");
            let message = reply.get_str("errmsg").unwrap();
            assert!(message.starts_with("Index build failed: "), "{message}");
            assert!(message.ends_with(") is being dropped"), "{message}");
            assert_eq!(numbers(&ask(&mut server, create())), (1, 2));
        }
    }
}
