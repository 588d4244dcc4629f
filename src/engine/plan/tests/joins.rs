//! The law of joins, tested with random documents and indexes: a join by equality through an index finds the same documents
//! as a scan.

use bson::{Bson, Document, doc};

use super::super::*;
use super::dice::{Dice, is_operand, value_at};
use super::filter;
use crate::clock::monotonic;
use crate::engine::matching_records::matching_records;
use crate::query::Vars;
use crate::storage::{
    Collection, CollectionOptions, Namespace, ReadPoint, RecordId, Stored, Writer,
};
use crate::value::{Doc, DocBuf, Millis};

/// Compares the results of [`matching_records`] in a collection with a scan of all documents.
fn check_joins(rounds: u64, first_seed: u64) {
    let vars = Vars::at(Millis(0));
    let (mut answered, mut found_some) = (0, 0);
    for seed in first_seed..first_seed + rounds {
        let mut dice = Dice::new(seed);
        let collection = Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
        let write = |change: &mut dyn FnMut(&mut Writer<'_>)| {
            collection
                .write(Millis(0), |writer| change(writer))
                .unwrap();
        };
        for at in 0..=dice.roll(2) {
            let mut spec = IndexSpec::clone(&dice.index().spec);
            spec.name = format!("i{at}");
            // If two documents have the same value, the second is refused and is not part of the collection.
            spec.unique = dice.roll(4) == 0;
            let added =
                collection.drain_then(Millis(0), monotonic(), |rules| rules.add_index(spec));
            assert!(added.unwrap().is_ok());
        }
        let depth = dice.pick(&[0, 0, 1, 3]);
        let mut docs: Vec<Document> = Vec::new();
        for n in 0..12 {
            let id = match dice.roll(3) {
                0 => dice.scalar(),
                _ => Bson::Int32(n),
            };
            if !is_operand(&id) {
                continue;
            }
            let mut doc = doc! {"_id": id};
            doc.extend(dice.fields(depth));
            let bytes = doc.to_vec().unwrap();
            write(&mut |writer| {
                if writer.insert(&bytes).is_ok() {
                    docs.push(doc.clone());
                }
            });
        }
        for _ in 0..8 {
            let field = dice.path();
            let keys: Vec<Bson> = (0..=dice.roll(2))
                .map(|_| {
                    let from = dice.roll(docs.len() + 2);
                    let present = docs.get(from).and_then(|doc| value_at(doc, &field));
                    present
                        .filter(is_operand)
                        .unwrap_or_else(|| dice.constant())
                })
                .collect();
            let equalities: Vec<Document> =
                keys.iter().map(|key| doc! {&field: {"$eq": key}}).collect();
            let parsed = filter(&doc! {"$or": equalities});
            let keys = DocBuf::from(doc! {"k": keys});
            let keys = keys.as_doc().get("k").as_array().unwrap();
            let keys: Vec<_> = keys.iter().map(|elem| elem.value).collect();
            collection.read(ReadPoint::at(Millis(0)), |view| {
                let Some(found) = matching_records(view, &field, &keys) else {
                    return;
                };
                let mut found: Vec<RecordId> = found.iter().map(|(id, _)| *id).collect();
                found.sort_unstable();
                let matching = |stored: &Stored<'_>| parsed.matches(Doc::new(stored.bytes), &vars);
                let all = view.all();
                let scanned = all.iter().filter(|(_, stored)| matching(stored).unwrap());
                let scanned: Vec<RecordId> = scanned.map(|(id, _)| *id).collect();
                let specs: Vec<_> = view.indexes().map(|index| &index.spec).collect();
                assert_eq!(
                    found, scanned,
                    "seed {seed}: {field} {keys:?} under {specs:?}"
                );
                answered += 1;
                found_some += u64::from(!found.is_empty());
            });
        }
    }
    assert!(answered > rounds / 2, "{answered} joins in {rounds} rounds");
    assert!(
        found_some > rounds / 4,
        "{found_some} of {answered} found something"
    );
}

#[test]
fn a_join_by_equality_finds_what_a_scan_finds() {
    check_joins(4_000, 1);
}
