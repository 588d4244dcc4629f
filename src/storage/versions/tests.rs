//! Laws of snapshots and transactions, against a model that copies everything.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bson::doc;
use proptest::prelude::*;

use crate::storage::index::IndexSpec;
use crate::storage::{
    Catalog, Collection, CollectionOptions, CommitConflict, LogOp, LogPosition, LogTransaction,
    Namespace, New, NewTtl, NoDelta, ReadPoint, RecordId, Refused, Snapshot, Transaction, View,
    Writer,
};
use crate::ttl::DefaultTtl;
use crate::value::{Doc, DocBuf, Millis, Value, key};

const T: Millis = Millis(1_000_000);

/// The name of every transaction here.
fn client() -> LogTransaction {
    LogTransaction {
        lsid: DocBuf::from(doc! {"id": 1}),
        number: 7,
    }
}

fn bytes(id: i32, value: i32) -> Vec<u8> {
    doc! {"_id": id, "v": value}.to_vec().unwrap()
}

fn collection(catalog: &Catalog, name: &str, unique: bool) -> Arc<Collection> {
    let name = Namespace::new("db", name);
    let made = catalog.create(name, CollectionOptions::default(), T, |rules| {
        let mut spec = IndexSpec::new("v_1", DocBuf::from(doc! {"v": 1}));
        spec.unique = unique;
        rules.add_index(spec);
    });
    made.unwrap()
}

fn by_id<'v>(view: &View<'v>, id: i32) -> Option<(RecordId, &'v [u8])> {
    let found = key::with(Value::int32(id).as_ref(), |key| view.by_key(key));
    found.map(|(record, stored)| (record, stored.bytes))
}

fn value(bytes: &[u8]) -> i32 {
    Doc::new(bytes)
        .get("v")
        .as_num()
        .unwrap()
        .to_i64_exact()
        .unwrap() as i32
}

/// What a write to the document with this `_id` does.
#[derive(Debug, Clone, Copy)]
enum Write {
    /// Adds it, or changes it if it is there.
    Put(i32, i32),
    Remove(i32),
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Outside(Write),
    Begin(usize),
    Inside(usize, Write),
    Commit(usize),
    Abort(usize),
    Open(usize),
}

type State = BTreeMap<i32, i32>;

/// The model of a transaction: the state at its snapshot, and what it wrote itself.
struct ModelTransaction {
    open: Transaction,
    snapshot: State,
    /// The number of writes to each document when it began.
    versions: BTreeMap<i32, u32>,
    own: BTreeMap<i32, Option<i32>>,
}

#[derive(Default)]
struct Model {
    state: State,
    /// How often each document was written to.
    versions: BTreeMap<i32, u32>,
}

impl Model {
    fn write(&mut self, id: i32, value: Option<i32>) {
        *self.versions.entry(id).or_default() += 1;
        match value {
            Some(value) => drop(self.state.insert(id, value)),
            None => drop(self.state.remove(&id)),
        }
    }
}

impl ModelTransaction {
    fn state(&self) -> State {
        let mut state = self.snapshot.clone();
        for (id, value) in &self.own {
            match value {
                Some(value) => drop(state.insert(*id, *value)),
                None => drop(state.remove(id)),
            }
        }
        state
    }
}

/// Writes, and returns what became of the document: `None` if there was nothing to do.
fn write(writer: &mut Writer<'_>, write: Write) -> Result<Option<Option<i32>>, Refused> {
    let (Write::Put(id, _) | Write::Remove(id)) = write;
    let found = by_id(&writer.view(), id).map(|(record, _)| record);
    match (write, found) {
        (Write::Put(id, value), None) => {
            writer.insert(&bytes(id, value))?;
            Ok(Some(Some(value)))
        }
        (Write::Put(id, value), Some(record)) => {
            let written = writer.update(
                record,
                &New::Bytes(bytes(id, value)),
                NewTtl::Absent,
                &NoDelta,
            )?;
            Ok(written.map(|_| Some(value)))
        }
        (Write::Remove(_), Some(record)) => Ok(writer.remove(record)?.map(|_| None)),
        (Write::Remove(_), None) => Ok(None),
    }
}

/// Reads a state in every way that there is.
fn check_state(collection: &Collection, at: ReadPoint, expected: &State) {
    collection.read(at, |view| {
        let mut up = Vec::new();
        let _ = view.each_up(RecordId::FIRST, |record, stored| {
            up.push((record, stored.bytes.to_vec()));
            ControlFlow::<()>::Continue(())
        });
        let mut down = Vec::new();
        let _ = view.each_down(view.newest(), |record, stored| {
            down.push((record, stored.bytes.to_vec()));
            ControlFlow::<()>::Continue(())
        });
        down.reverse();
        assert_eq!(up, down);
        assert!(up.is_sorted_by_key(|(record, _)| *record));
        let found: Vec<(i32, i32)> = up
            .iter()
            .map(|(_, bytes)| {
                let id = Doc::new(bytes).get("_id").as_num().unwrap();
                (id.to_i64_exact().unwrap() as i32, value(bytes))
            })
            .collect();
        let state: State = found.iter().copied().collect();
        assert_eq!(state.len(), found.len(), "a document came twice");
        assert_eq!(state, *expected);
        for id in 0..8 {
            let found = by_id(view, id).map(|(_, bytes)| value(bytes));
            assert_eq!(found, expected.get(&id).copied(), "{id}");
        }
        let index = view.way("v_1").unwrap();
        for v in 0..10 {
            let mut key = Vec::new();
            key::encode(Value::int32(v).as_ref(), false, &mut key);
            let mut held: Vec<i32> = view
                .holders(index, &key)
                .filter_map(|record| view.get(record))
                .map(|stored| value(stored.bytes))
                .collect();
            held.retain(|held| *held == v);
            let expected = expected.values().filter(|value| **value == v).count();
            assert_eq!(held.len(), expected, "{v}");
        }
    });
}

fn run(steps: &[Step]) {
    let catalog = Arc::new(Catalog::new());
    let c = collection(&catalog, "c", false);
    let mut model = Model::default();
    let mut open: BTreeMap<usize, ModelTransaction> = BTreeMap::new();
    let mut snapshots: BTreeMap<usize, (Snapshot, State)> = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Outside(change) => {
                let (Write::Put(id, _) | Write::Remove(id)) = change;
                let claimed = open.values().any(|other| other.own.contains_key(&id));
                match c.write(T, |writer| write(writer, change)).unwrap() {
                    Ok(Some(value)) => {
                        assert!(!claimed, "{step:?}");
                        model.write(id, value);
                    }
                    Ok(None) => assert!(!model.state.contains_key(&id)),
                    Err(refused) => assert_eq!((claimed, refused), (true, Refused::Claimed)),
                }
            }
            Step::Begin(n) => {
                let begun = ModelTransaction {
                    open: catalog.begin(),
                    snapshot: model.state.clone(),
                    versions: model.versions.clone(),
                    own: BTreeMap::new(),
                };
                open.insert(n, begun);
            }
            Step::Inside(n, change) => {
                let (Write::Put(id, _) | Write::Remove(id)) = change;
                let others = |(m, other): (&usize, &ModelTransaction)| {
                    *m != n && other.own.contains_key(&id)
                };
                let claimed = open.iter().any(others);
                let Some(inside) = open.get_mut(&n) else {
                    continue;
                };
                let changed = inside.versions.get(&id) != model.versions.get(&id);
                let conflict = claimed || changed && !inside.own.contains_key(&id);
                let at = inside.open.read_point(T);
                match c.write_at(at, |writer| write(writer, change)).unwrap() {
                    Ok(Some(value)) => {
                        assert!(!conflict, "{step:?}");
                        inside.own.insert(id, value);
                    }
                    Ok(None) => assert!(!inside.state().contains_key(&id)),
                    Err(refused) => {
                        assert_eq!((conflict, refused), (true, Refused::Conflict));
                        open.remove(&n);
                    }
                }
            }
            Step::Commit(n) => {
                if let Some(inside) = open.remove(&n) {
                    assert_eq!(inside.open.commit(T, client), Ok(()));
                    for (id, value) in inside.own {
                        if model.state.get(&id).copied() != value || value.is_some() {
                            model.write(id, value);
                        }
                    }
                }
            }
            Step::Abort(n) => drop(open.remove(&n)),
            Step::Open(n) => {
                snapshots.insert(n, (catalog.snapshot(), model.state.clone()));
            }
        }
        check_state(&c, ReadPoint::at(T), &model.state);
        for inside in open.values() {
            check_state(&c, inside.open.read_point(T), &inside.state());
        }
        for (snapshot, state) in snapshots.values() {
            check_state(&c, ReadPoint::of(snapshot, T), state);
        }
    }
    drop((open, snapshots));
    assert_eq!(catalog.buffered_bytes(), 0);
    c.write(T, |writer| writer.contents_mut().prune_versions())
        .unwrap();
    assert!(
        c.shared().contents().versions().is_none(),
        "nothing is left"
    );
}

fn a_write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => (0..8, 0..10).prop_map(|(id, value)| Write::Put(id, value)),
        1 => (0..8).prop_map(Write::Remove),
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => a_write().prop_map(Step::Outside),
        1 => (0..3_usize).prop_map(Step::Begin),
        5 => (0..3_usize, a_write()).prop_map(|(n, write)| Step::Inside(n, write)),
        1 => (0..3_usize).prop_map(Step::Commit),
        1 => (0..3_usize).prop_map(Step::Abort),
        1 => (0..2_usize).prop_map(Step::Open),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 10_000 }))]

    #[test]
    fn snapshots_and_transactions_agree_with_a_model(steps in prop::collection::vec(a_step(), 1..40)) {
        run(&steps);
    }
}

#[test]
fn a_commit_is_whole_in_all_collections() {
    let catalog = Arc::new(Catalog::new());
    let all = ["a", "b", "c"].map(|name| collection(&catalog, name, false));
    catalog.time().tick(T);
    let before = catalog.snapshot();
    let transaction = catalog.begin();
    for c in &all {
        let at = transaction.read_point(T);
        c.write_at(at, |writer| writer.insert(&bytes(1, 1)))
            .unwrap()
            .unwrap();
        check_state(c, ReadPoint::at(T), &State::new());
    }
    let time = catalog.time().latest();
    assert_eq!(transaction.commit(Millis(T.0 + 5), client), Ok(()));
    assert_eq!(
        catalog.time().latest().0,
        time.0 + 1,
        "one logical time for all"
    );
    for c in &all {
        check_state(c, ReadPoint::at(T), &State::from([(1, 1)]));
        check_state(c, ReadPoint::of(&before, T), &State::new());
        let ts = c.read(ReadPoint::at(T), |view| {
            view.all()
                .iter()
                .map(|(_, stored)| stored.ts)
                .collect::<Vec<_>>()
        });
        assert_eq!(ts, [Millis(T.0 + 5)], "the time of the commit");
    }
}

#[test]
fn unique_keys_are_checked_at_once_and_may_move_between_documents() {
    let catalog = Arc::new(Catalog::new());
    let c = collection(&catalog, "c", true);
    for id in [1, 2, 10] {
        c.write(T, |writer| writer.insert(&bytes(id, id)))
            .unwrap()
            .unwrap();
    }
    let (first, second) = (catalog.begin(), catalog.begin());
    let put = |transaction: &Transaction, id, value| {
        let at = transaction.read_point(T);
        c.write_at(at, |writer| write(writer, Write::Put(id, value)))
            .unwrap()
    };
    // The two documents exchange their keys.
    for (id, value) in [(1, 3), (2, 1), (1, 2)] {
        assert_eq!(put(&first, id, value), Ok(Some(Some(value))));
    }
    assert!(matches!(put(&first, 9, 2), Err(Refused::Duplicate { .. })));
    assert_eq!(put(&first, 5, 5), Ok(Some(Some(5))));
    assert_eq!(put(&second, 6, 5), Err(Refused::Conflict));
    // What its snapshot shows, though the other transaction has taken the key away.
    assert_eq!(put(&first, 10, 11), Ok(Some(Some(11))));
    assert!(matches!(
        put(&second, 6, 10),
        Err(Refused::Duplicate { .. })
    ));
    // But the other one has also brought this key in.
    assert_eq!(put(&second, 6, 1), Err(Refused::Conflict));
    let outside = c.write(T, |writer| writer.insert(&bytes(7, 5))).unwrap();
    assert_eq!(outside, Err(Refused::Claimed));
    // One that was added after the snapshot.
    c.write(T, |writer| writer.insert(&bytes(8, 8)))
        .unwrap()
        .unwrap();
    assert_eq!(put(&second, 4, 8), Err(Refused::Conflict));
    assert_eq!(first.commit(T, client), Ok(()));
    let expected = State::from([(1, 2), (2, 1), (5, 5), (8, 8), (10, 11)]);
    check_state(&c, ReadPoint::at(T), &expected);
}

/// A snapshot keeps no document alive, a transaction's own writes do not end, and a write to a document that ends is lost as
/// a whole.
#[test]
fn documents_end_under_transactions() {
    let catalog = Arc::new(Catalog::new());
    let name = Namespace::new("db", "c");
    let ten = DefaultTtl::from_seconds(10).unwrap();
    let made = catalog.create(name, CollectionOptions::default(), T, |rules| {
        rules.set_default_ttl(ten, None);
        rules.add_index(IndexSpec::new("v_1", DocBuf::from(doc! {"v": 1})));
    });
    let c = made.unwrap();
    let later = |seconds: i64| Millis(T.0 + seconds * 1_000);
    for id in 1..=3 {
        c.write(T, |writer| writer.insert(&bytes(id, id)))
            .unwrap()
            .unwrap();
    }
    let snapshot = catalog.snapshot();
    let (writes, removes) = (catalog.begin(), catalog.begin());
    let own = writes.read_point(later(5));
    c.write_at(own, |writer| write(writer, Write::Put(1, 9)))
        .unwrap()
        .unwrap();
    let own = removes.read_point(later(5));
    c.write_at(own, |writer| write(writer, Write::Remove(2)))
        .unwrap()
        .unwrap();
    // Another client extends the life of a document; the snapshot's version ends as it would have.
    c.write(later(5), |writer| write(writer, Write::Put(3, 4)))
        .unwrap()
        .unwrap();
    check_state(
        &c,
        ReadPoint::of(&snapshot, later(9)),
        &State::from([(1, 1), (2, 2), (3, 3)]),
    );
    check_state(&c, ReadPoint::of(&snapshot, later(10)), &State::new());
    check_state(&c, writes.read_point(later(10)), &State::from([(1, 9)]));
    assert_eq!(writes.commit(later(10), client), Err(CommitConflict));
    assert_eq!(removes.commit(later(10), client), Ok(()));
    check_state(&c, ReadPoint::at(later(10)), &State::from([(3, 4)]));
    // A longer life for all does not revive the version that has ended.
    let until = crate::clock::monotonic() + std::time::Duration::from_secs(60);
    let hour = DefaultTtl::from_seconds(3_600).unwrap();
    let changed = c.drain_then(later(10), until, |rules| rules.set_default_ttl(hour, None));
    assert!(matches!(changed, Ok(Ok(()))));
    check_state(&c, ReadPoint::of(&snapshot, later(11)), &State::new());
}

#[test]
fn a_drop_or_a_new_index_is_a_conflict() {
    let catalog = Arc::new(Catalog::new());
    for drops in [true, false] {
        let c = collection(&catalog, "c", false);
        let transaction = catalog.begin();
        let at = transaction.read_point(T);
        c.write_at(at, |writer| writer.insert(&bytes(1, 1)))
            .unwrap()
            .unwrap();
        if !drops {
            let spec = IndexSpec::new("w_1", DocBuf::from(doc! {"w": 1}));
            c.write(T, |writer| writer.begin_index(spec)).unwrap();
            assert_eq!(transaction.commit(T, client), Err(CommitConflict));
            catalog.drop_collection("db", "c", None, T);
        } else {
            catalog.drop_collection("db", "c", None, T);
            assert_eq!(transaction.commit(T, client), Err(CommitConflict));
        }
        assert_eq!(catalog.buffered_bytes(), 0);
    }
}

/// Returns what the log has from a position on: the place of each entry in its transaction, its collection, and the change.
fn logged(catalog: &Catalog, from: LogPosition) -> Vec<(u32, String, String)> {
    let mut found = Vec::new();
    let mut times = Vec::new();
    let read = catalog.shared().log.read(from, |entry| {
        assert_eq!(entry.transaction.as_deref(), Some(&client()));
        times.push(entry.time);
        let op = match &entry.op {
            LogOp::Insert { document } => format!("insert {}", value(document.bytes())),
            LogOp::Replace { document, .. } => format!("replace {}", value(document.bytes())),
            LogOp::Delete { .. } => "delete".to_owned(),
            LogOp::Create { .. } => "create".to_owned(),
            other => panic!("{other:?}"),
        };
        let name = entry.subject.namespace.collection().to_owned();
        found.push((entry.index, name, op));
        true
    });
    assert!(read.is_ok());
    times.dedup();
    assert!(times.len() <= 1, "one time for all");
    found
}

#[test]
fn the_log_gets_each_write_of_a_transaction_in_order_at_its_commit() {
    use Write::{Put, Remove};
    let in_order = [
        (0, "b", "insert 1"),
        (1, "a", "insert 2"),
        (2, "b", "replace 3"),
        (3, "a", "delete"),
        (4, "b", "insert 4"),
        (5, "c", "create"),
    ];
    // If nobody followed the log in the beginning, only the outcome is known.
    let outcome = [
        (0, "b", "insert 3"),
        (1, "b", "insert 4"),
        (2, "c", "create"),
    ];
    for (is_late, expected) in [(false, &in_order[..]), (true, &outcome)] {
        let catalog = Arc::new(Catalog::new());
        let [a, b] = ["a", "b"].map(|name| collection(&catalog, name, false));
        let log = &catalog.shared().log;
        if !is_late {
            log.start(catalog.time(), T);
        }
        let (aborted, transaction) = (catalog.begin(), catalog.begin());
        let at = transaction.read_point(T);
        for (c, at, step) in [
            (&a, aborted.read_point(T), Put(9, 9)),
            (&b, at, Put(1, 1)),
            (&a, at, Put(1, 2)),
            (&b, at, Put(1, 3)),
            (&a, at, Remove(1)),
            (&b, at, Put(2, 4)),
        ] {
            let written = c.write_at(at, |writer| write(writer, step)).unwrap();
            written.unwrap();
        }
        let name = Namespace::new("db", "c");
        let created = catalog.create_at(name, CollectionOptions::default(), at, |_| ());
        created.unwrap();
        log.start(catalog.time(), T);
        let from = log.end();
        assert_eq!(logged(&catalog, from), []);
        drop(aborted);
        assert_eq!(transaction.commit(T, client), Ok(()));
        let mut found = logged(&catalog, from);
        if is_late {
            // The collections come in no particular order.
            found.sort_by(|x, y| x.1.cmp(&y.1));
            for (at, entry) in (0..).zip(&mut found) {
                entry.0 = at;
            }
        }
        let found: Vec<_> = (found.iter())
            .map(|(n, name, op)| (*n, &name[..], &op[..]))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(catalog.buffered_bytes(), 0);
    }
}

#[test]
fn a_transaction_finds_what_it_wrote_to_a_document_that_was_freed() {
    let catalog = Arc::new(Catalog::new());
    let name = Namespace::new("db", "c");
    let ten = DefaultTtl::from_seconds(10).unwrap();
    let made = catalog.create(name, CollectionOptions::default(), T, |rules| {
        rules.set_default_ttl(ten, None);
    });
    let c = made.unwrap();
    c.write(T, |writer| writer.insert(&bytes(1, 1)))
        .unwrap()
        .unwrap();
    let transaction = catalog.begin();
    let put = |value| {
        let at = transaction.read_point(T);
        c.write_at(at, |writer| write(writer, Write::Put(1, value)))
            .unwrap()
    };
    assert_eq!(put(2), Ok(Some(Some(2))));
    let later = Millis(T.0 + 11_000);
    catalog.sweep(later);
    assert_eq!(catalog.freed(), 1);
    let found = c.read(transaction.read_point(later), |view| {
        by_id(view, 1).map(|(_, bytes)| value(bytes))
    });
    assert_eq!(found, Some(2));
    assert_eq!(put(3), Ok(Some(Some(3))));
    assert_eq!(transaction.commit(later, client), Err(CommitConflict));
}

#[test]
fn the_writes_of_all_transactions_take_bounded_memory() {
    let catalog = Arc::new(Catalog::new());
    let c = collection(&catalog, "c", false);
    let insert = |transaction: &Transaction, id: i32| {
        let at = transaction.read_point(T);
        c.write_at(at, |writer| writer.insert(&bytes(id, 0)).err())
            .unwrap()
    };
    catalog.shared().transactions.limit_to(1_000);
    let (first, second) = (catalog.begin(), catalog.begin());
    let refused = (0..100).find_map(|id| insert(&first, id));
    assert!(matches!(refused, Some(Refused::TransactionTooLarge)));
    assert!((1_000..1_300).contains(&catalog.buffered_bytes()));
    let refused = insert(&second, 200);
    assert!(matches!(refused, Some(Refused::TransactionTooLarge)));
    drop(first);
    assert_eq!(catalog.buffered_bytes(), 0);
    assert!(insert(&second, 200).is_none());
}

#[test]
fn a_build_that_is_given_up_leaves_transactions_alone() {
    let catalog = Arc::new(Catalog::new());
    let c = collection(&catalog, "c", true);
    let spec = IndexSpec::new("w_1", DocBuf::from(doc! {"w": 1}));
    let number = c.write(T, |writer| writer.begin_index(spec)).unwrap();
    let transaction = catalog.begin();
    let at = transaction.read_point(T);
    let insert = |writer: &mut Writer<'_>| writer.insert(&bytes(1, 1)).is_ok();
    assert_eq!(c.write_at(at, insert), Ok(true));
    let gone = c.write(T, |writer| writer.abandon_indexes(&[number]));
    assert_eq!(gone.unwrap().len(), 1);
    assert_eq!(transaction.commit(T, client), Ok(()));
}
