//! A change holds all that is needed to make it: run again on another catalog, it leads to the same schema.

use super::*;
use crate::engine::PartialFilter;
use crate::engine::describe::{describe_collection, describe_indexes};
use crate::query::Scope;
use crate::query::filter::Filter;
use crate::storage::ReadPoint;
use crate::ttl::{DefaultTtl, IndexingMode, TsIndex};

use crate::value::{Doc, DocBuf, Value};
use bson::doc;

const NOW: Millis = Millis(1_000_000);

fn name(collection: &str) -> Namespace {
    Namespace::new("db", collection)
}

fn create(collection: &str, default_ttl: DefaultTtl) -> SchemaChange {
    SchemaChange::CreateCollection(CreateCollection {
        namespace: name(collection),
        options: CollectionOptions::default(),
        default_ttl,
        ts_index: None,
        indexes: Vec::new(),
    })
}

fn build(collection: &str, indexes: Vec<WantedIndex>) -> SchemaChange {
    SchemaChange::BuildIndexes(BuildIndexes {
        namespace: name(collection),
        indexes,
    })
}

fn index(field: &str, set: impl FnOnce(&mut IndexSpec)) -> WantedIndex {
    let mut spec = IndexSpec::new(field, DocBuf::from(doc! {field: 1}));
    set(&mut spec);
    WantedIndex::Index(Box::new(spec))
}

fn modify(collection: &str, set: impl FnOnce(&mut ModifyCollection)) -> SchemaChange {
    let mut change = ModifyCollection::new(name(collection));
    set(&mut change);
    SchemaChange::ModifyCollection(change)
}

fn modify_index(field: &str) -> ModifyIndex {
    ModifyIndex {
        index: IndexName::Name(field.to_owned()),
        expire_after: None,
        hidden: None,
        unique: None,
        prepare_unique: None,
        force_non_unique: None,
    }
}

fn partial(filter: &bson::Document) -> Partial {
    let filter = DocBuf::from(filter.clone());
    let parsed = Filter::parse_plain(filter.as_doc(), &Scope::new()).unwrap();
    Partial {
        condition: Arc::new(PartialFilter(Arc::new(parsed))),
        filter,
    }
}

/// Runs a change to its end.
fn make(catalog: &Arc<Catalog>, change: SchemaChange) -> Result<Done> {
    match change.begin(catalog, NOW)? {
        Begun::Done(done) => Ok(done),
        Begun::Steps(mut steps) => loop {
            match steps.step(NOW)? {
                Advance::Done(done) => return Ok(done),
                Advance::More => {}
                Advance::Wait(_) | Advance::Locked(_) => panic!("there is nobody to wait for"),
            }
        },
    }
}

/// Returns everything that clients see of the schema, except UUIDs.
fn schema(catalog: &Catalog) -> Vec<String> {
    let mut seen = Vec::new();
    for collection in catalog.collections() {
        let at = ReadPoint::at(NOW);
        let described = describe_collection(&collection, at);
        let options = described
            .as_doc()
            .get("options")
            .as_doc()
            .unwrap_or(Doc::EMPTY);
        seen.push(format!("{} {options}", collection.namespace()));
        let indexes = collection.read(at, describe_indexes);
        seen.extend(indexes.iter().map(ToString::to_string));
    }
    seen
}

#[test]
fn replaying_the_changes_gives_the_same_schema() {
    let ts_index = TsIndex::new(Some("ends"), None);
    let changes = [
        create("a", DefaultTtl::Seconds(60)),
        create("b", DefaultTtl::Off),
        build(
            "a",
            vec![index("x", |_| {}), index("y", |spec| spec.sparse = true)],
        ),
        build(
            "made",
            vec![
                index("z", |spec| spec.prepare_unique = true),
                index("at", |spec| spec.expire_after = Some(5)),
                index("p", |spec| spec.partial = Some(partial(&doc! {"on": true}))),
                WantedIndex::Default {
                    default: DefaultTtl::Never,
                    ts_index,
                },
            ],
        ),
        modify("a", |change| change.default_ttl = Some(DefaultTtl::Off)),
        modify("a", |change| {
            let hidden = Some(true);
            change.index = Some(ModifyIndex {
                hidden,
                ..modify_index("x")
            });
        }),
        modify("made", |change| {
            let expire_after = Some(Value::int32(9));
            change.index = Some(ModifyIndex {
                expire_after,
                ..modify_index("at")
            });
        }),
        modify("made", |change| {
            let unique = Some(true);
            change.index = Some(ModifyIndex {
                unique,
                ..modify_index("z")
            });
        }),
        SchemaChange::DropIndexes(DropIndexes {
            namespace: name("a"),
            indexes: Some(vec![IndexName::Key(DocBuf::from(doc! {"y": 1}))]),
        }),
        SchemaChange::RenameCollection(
            RenameCollection::new(name("made"), name("c"), false).unwrap(),
        ),
        SchemaChange::DropCollection(DropCollection {
            namespace: name("b"),
            uuid: None,
        }),
    ];
    let (first, second) = (Arc::new(Catalog::new()), Arc::new(Catalog::new()));
    let mut log = Vec::new();
    let mut before = schema(&first);
    for change in changes {
        log.push(change.clone());
        make(&first, change).unwrap();
        let after = schema(&first);
        assert_ne!(after, before, "{:?}", log.last());
        before = after;
    }
    for change in log {
        make(&second, change).unwrap();
    }
    assert_eq!(schema(&second), before);
    let expected = [
        "db.a {}",
        "{ v: 2, key: { _id: 1 }, name: \"_id_\" }",
        "{ v: 2, key: { x: 1 }, name: \"x\", hidden: true }",
        "db.c { defaultTtl: -1 }",
        "{ v: 2, key: { _id: 1 }, name: \"_id_\" }",
        "{ v: 2, key: { z: 1 }, name: \"z\", unique: true }",
        "{ v: 2, key: { at: 1 }, name: \"at\", expireAfterSeconds: 9 }",
        "{ v: 2, key: { p: 1 }, name: \"p\", partialFilterExpression: { on: true } }",
        "{ v: 2, key: { _ts: 1 }, name: \"ends\", expireAfterSeconds: -1 }",
    ];
    assert_eq!(before, expected);
}

/// The end of an `$out`: it identifies the filled collection by name, or by UUID if another collection may have taken the
/// name.
#[test]
fn replacing_a_collection_is_a_schema_change() {
    let changes = [
        create("a", DefaultTtl::Seconds(60)),
        build("a", vec![index("x", |_| {})]),
        create("filled", DefaultTtl::Off),
        build("filled", vec![index("x", |_| {})]),
    ];
    let (first, second) = (Arc::new(Catalog::new()), Arc::new(Catalog::new()));
    for catalog in [&first, &second] {
        for change in changes.clone() {
            make(catalog, change).unwrap();
        }
    }
    let there = |name| first.get("db", name).unwrap().unwrap();
    let (target, filled) = (there("a"), there("filled"));
    let expected = target.read(ReadPoint::at(NOW), |view| CollectionSetup::of(Some(view)));
    let replace = |uuid, expected: &CollectionSetup| {
        SchemaChange::ReplaceCollection(ReplaceCollection {
            from: name("filled"),
            uuid,
            to: name("a"),
            expected: expected.clone(),
        })
    };
    for (change, code) in [
        (
            replace(Some(target.uuid()), &expected),
            Code::NamespaceNotFound,
        ),
        (
            replace(None, &CollectionSetup::default()),
            Code::CommandFailed,
        ),
    ] {
        let refusal = make(&first, change.clone()).map_err(|error| error.code());
        assert_eq!(refusal, Err(code), "{change:?}");
    }
    make(&first, replace(Some(filled.uuid()), &expected)).unwrap();
    assert!(Arc::ptr_eq(&there("a"), &filled));
    make(&second, replace(None, &expected)).unwrap();
    let expected = [
        "db.a { defaultTtl: 60 }",
        "{ v: 2, key: { _id: 1 }, name: \"_id_\" }",
        "{ v: 2, key: { x: 1 }, name: \"x\" }",
        "{ v: 2, key: { _ts: 1 }, name: \"_ts_1\", expireAfterSeconds: 60 }",
    ];
    assert_eq!(schema(&first), expected);
    assert_eq!(schema(&second), expected);
}

#[test]
fn a_drop_with_a_uuid_drops_only_that_collection() {
    let catalog = Arc::new(Catalog::new());
    for collection in ["a", "b"] {
        make(&catalog, create(collection, DefaultTtl::Off)).unwrap();
    }
    let uuid = catalog.get("db", "b").unwrap().unwrap().uuid();
    let drop_it = |collection| {
        SchemaChange::DropCollection(DropCollection {
            namespace: name(collection),
            uuid: Some(uuid),
        })
    };
    assert_eq!(make(&catalog, drop_it("a")), Ok(Done::NothingToDrop));
    let dropped = Done::DroppedCollection(name("b"), 1);
    assert_eq!(make(&catalog, drop_it("b")), Ok(dropped));
    assert_eq!(catalog.in_database("db").len(), 1);
}

#[test]
fn a_refused_change_changes_nothing() {
    let catalog = Arc::new(Catalog::new());
    for change in [
        create("a", DefaultTtl::Seconds(60)),
        build("a", vec![index("x", |_| {})]),
    ] {
        make(&catalog, change).unwrap();
    }
    let before = schema(&catalog);
    let drop_names = |names: &[&str]| {
        let name = |name: &&str| IndexName::Name((*name).to_owned());
        SchemaChange::DropIndexes(DropIndexes {
            namespace: self::name("a"),
            indexes: Some(names.iter().map(name).collect()),
        })
    };
    let refused = [
        (create("a", DefaultTtl::Off), Code::NamespaceExists),
        (create("a$b", DefaultTtl::Off), Code::InvalidNamespace),
        (
            build("a$b", vec![index("x", |_| {})]),
            Code::InvalidNamespace,
        ),
        (
            build(
                "a",
                vec![index("y", |_| {}), index("x", |spec| spec.sparse = true)],
            ),
            Code::IndexKeySpecsConflict,
        ),
        (
            modify("a", |change| {
                change.indexing_mode = Some(IndexingMode::None)
            }),
            Code::BadValue,
        ),
        (modify("b", |_| {}), Code::NamespaceNotFound),
        (drop_names(&["x", "y"]), Code::IndexNotFound),
        (drop_names(&["x", "_id_"]), Code::InvalidOptions),
    ];
    for (change, code) in refused {
        let refusal = make(&catalog, change.clone()).map_err(|error| error.code());
        assert_eq!(refusal, Err(code), "{change:?}");
        assert_eq!(schema(&catalog), before, "{change:?}");
    }
}
