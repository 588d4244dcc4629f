//! The predicate and the test of one document are the same rule.

use bson::{Bson, DateTime, Document, bson, doc};
use proptest::prelude::*;

use crate::query::{Filter, Scope, Vars};
use crate::ttl::DefaultTtl;
use crate::upstream::rewrite::guess::Guess;
use crate::upstream::rewrite::{EndedPredicate, Visibility};
use crate::upstream::{CollectionRules, DateRule, Former};
use crate::value::{Doc, DocBuf, Millis};

const NOW: Millis = Millis(1_000_000);

fn rules(default: DefaultTtl, since: i64, dates: Vec<DateRule>) -> CollectionRules {
    CollectionRules {
        stamped: true,
        stores_ts: true,
        default,
        since: Millis(since),
        dates,
        ..CollectionRules::NONE
    }
}

fn on(path: &str, seconds: i32, filter: Option<Document>) -> DateRule {
    DateRule {
        path: path.into(),
        seconds,
        filter: filter.map(DocBuf::from),
    }
}

/// A rule that was lengthened, or switched off, still ends what it had ended until then.
#[test]
fn former_rules_hide_what_had_ended_by_them() {
    let former = rules(DefaultTtl::Seconds(10), 0, vec![]);
    for default in [DefaultTtl::Off, DefaultTtl::Never, DefaultTtl::Seconds(500)] {
        let now = rules(default, 0, vec![]);
        let now = CollectionRules {
            former: Some(Box::new(Former {
                rules: former.clone(),
                until: Millis(NOW.0 - 5_000),
            })),
            ..now
        };
        for (age, ended) in [(15_000, true), (14_999, false), (10_000, false), (0, false)] {
            let document = doc! {"_sundown": date(NOW.0 - age)};
            assert_eq!(has_ended(&now, &document, NOW), ended, "{default:?} {age}");
        }
    }
    let nothing = CollectionRules {
        former: Some(Box::new(Former {
            rules: rules(DefaultTtl::Off, 0, vec![]),
            until: NOW,
        })),
        ..rules(DefaultTtl::Off, 0, vec![])
    };
    assert!(!has_ended(&nothing, &doc! {}, NOW));
}

fn date(millis: i64) -> Bson {
    DateTime::from_millis(millis).into()
}

/// Returns whether the document has ended, after both ways to find out agreed.
fn has_ended(rules: &CollectionRules, document: &Document, now: Millis) -> bool {
    let doc = DocBuf::from(document);
    let predicate = EndedPredicate::new(rules, now);
    let matches = |filter: DocBuf| {
        let filter = Filter::parse(filter.as_doc(), &Scope::new()).unwrap();
        filter.matches(doc.as_doc(), &Vars::at(now)).unwrap()
    };
    let alive = matches(predicate.alive(Doc::EMPTY));
    let ended = matches(predicate.ended(Doc::EMPTY));
    assert_eq!(alive, !ended, "{rules:?} {document}");
    let visible = Visibility::new(rules).unwrap();
    assert_eq!(
        ended,
        visible.has_ended(doc.as_doc(), now),
        "{rules:?} {document}"
    );
    let by_id = DocBuf::from(doc! {"_id": 1});
    if let Some(guess) = Guess::of_filter(by_id.as_doc(), rules, now) {
        let guessed = matches(guess.alive(Doc::EMPTY));
        assert!(!(guessed && ended), "{rules:?} {document}");
        let is_usual = document.get_datetime("_sundown").is_ok() && !document.contains_key("ttl");
        assert!(guessed || ended || !is_usual, "{rules:?} {document}");
    }
    ended
}

#[test]
fn when_documents_end() {
    let default = |n| {
        rules(
            DefaultTtl::from_seconds(n).unwrap_or_default(),
            500_000,
            vec![],
        )
    };
    let (off, never, ten) = (default(0), default(-1), default(10));
    let older = rules(DefaultTtl::Seconds(10), 990_000, vec![]);
    let decimal: Bson = Bson::Decimal128("5".parse().unwrap());
    let rows: Vec<(&CollectionRules, Document, bool)> = vec![
        (&off, doc! {"_sundown": date(0), "ttl": 1}, false),
        (&never, doc! {"_sundown": date(0)}, false),
        (&never, doc! {"_sundown": date(990_000), "ttl": 10}, true),
        (&never, doc! {"_sundown": date(990_001), "ttl": 10}, false),
        (&never, doc! {"_sundown": date(0), "ttl": -1}, false),
        (&never, doc! {"_sundown": date(0), "ttl": [5]}, false),
        (
            &never,
            doc! {"_sundown": date(0), "ttl": decimal.clone()},
            false,
        ),
        (&ten, doc! {"_sundown": date(990_000)}, true),
        (&ten, doc! {"_sundown": date(990_001)}, false),
        (&ten, doc! {"_sundown": date(0), "ttl": -1}, false),
        (&ten, doc! {"_sundown": date(0), "ttl": -1.0}, false),
        (&ten, doc! {"_sundown": date(0), "ttl": 20.5}, true),
        (&ten, doc! {"_sundown": date(995_000), "ttl": 20.5}, false),
        (&ten, doc! {"_sundown": date(980_001), "ttl": 20i64}, false),
        (&ten, doc! {"_sundown": date(980_000), "ttl": 20.0}, true),
        (&ten, doc! {"_sundown": date(0), "ttl": decimal}, true),
        (&ten, doc! {"_sundown": date(0), "ttl": Bson::Null}, true),
        (&ten, doc! {"_sundown": date(0), "ttl": [-1]}, true),
        (&ten, doc! {"_sundown": date(0), "ttl": [Bson::Null]}, true),
        (
            &ten,
            doc! {"_sundown": date(999_000), "ttl": 3_000_000_000i64},
            false,
        ),
        // Without a stamp: since the default was switched on.
        (&ten, doc! {}, true),
        (&ten, doc! {"_sundown": [date(999_000)]}, true),
        (&older, doc! {}, true),
        (&older, doc! {"ttl": 11}, false),
    ];
    for (rules, document, expected) in rows {
        assert_eq!(
            has_ended(rules, &document, NOW),
            expected,
            "{rules:?} {document}"
        );
    }
    let rows: Vec<(DateRule, Document, bool)> = vec![
        (on("at", 0, None), doc! {"at": date(1_000_000)}, true),
        (on("at", 0, None), doc! {"at": date(1_000_001)}, false),
        (on("at", 10, None), doc! {"at": date(990_001)}, false),
        (
            on("at", 0, None),
            doc! {"at": [date(2_000_000), date(5)]},
            true,
        ),
        (on("at", 0, None), doc! {"at": 5}, false),
        (on("at", 0, None), doc! {}, false),
        (
            on("a.b", 0, None),
            doc! {"a": [{"b": date(5)}, {"b": 7}]},
            true,
        ),
        (
            on("at", 0, Some(doc! {"at": {"$gt": date(9)}})),
            doc! {"at": date(5)},
            false,
        ),
        (
            on("at", 0, Some(doc! {"done": true})),
            doc! {"at": date(5), "done": true},
            true,
        ),
    ];
    for (rule, document, expected) in rows {
        let rules = rules(DefaultTtl::Off, 0, vec![rule]);
        assert_eq!(
            has_ended(&rules, &document, NOW),
            expected,
            "{rules:?} {document}"
        );
    }
}

/// Any value that a client may have stored under a name, with moments around the interesting one.
fn junk() -> impl Strategy<Value = Option<Bson>> {
    let moment = prop_oneof![
        (985_000..1_001_000i64).prop_map(date),
        prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0)].prop_map(date),
    ];
    let number = prop_oneof![
        (-3..25i32).prop_map(Bson::from),
        (-3..25i64).prop_map(Bson::from),
        (-3..25i32).prop_map(|n| Bson::from(f64::from(n))),
        (-3.0..25.0f64).prop_map(Bson::from),
        prop_oneof![
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
            Just(-0.0),
            Just(2_147_483_647.0),
            Just(2_147_483_648.0),
            Just(1e300),
        ]
        .prop_map(Bson::from),
        prop_oneof![
            Just(i64::MAX),
            Just(i64::MIN),
            Just(2_147_483_648),
            Just(2_147_483_647)
        ]
        .prop_map(Bson::from),
        prop_oneof![Just("7"), Just("NaN"), Just("-1"), Just("1E+6000")]
            .prop_map(|text| Bson::Decimal128(text.parse().unwrap())),
    ];
    let other = prop_oneof![
        Just(Bson::Null),
        Just(Bson::from(true)),
        Just(Bson::from("20")),
        Just(Bson::Undefined),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
        Just(bson!({"ttl": 5})),
        Just(bson!([])),
        Just(bson!([[5]])),
    ];
    let one = prop_oneof![3 => moment, 4 => number, 2 => other].boxed();
    let list = prop::collection::vec(one.clone(), 1..3).prop_map(Bson::from);
    prop_oneof![2 => Just(None), 6 => one.prop_map(Some), 1 => list.prop_map(Some)]
}

proptest! {
    #[test]
    fn both_agree_on_any_document(
        (stamp, ttl, at, done) in (junk(), junk(), junk(), junk()),
        default in prop_oneof![Just(0), Just(-1), 1..20i64, Just(i64::from(i32::MAX))],
        since in 985_000..1_000_500i64,
        partial in any::<bool>(),
    ) {
        let mut document = Document::new();
        for (name, value) in [("_sundown", stamp), ("ttl", ttl), ("at", at), ("done", done)] {
            if let Some(value) = value {
                document.insert(name, value);
            }
        }
        let default = DefaultTtl::from_seconds(default).unwrap_or_default();
        let partial = partial.then(|| doc! {"done": {"$gt": 3}});
        let rules = rules(default, since, vec![on("at", 5, partial)]);
        has_ended(&rules, &document, NOW);
    }
}
