//! The rule of one collection at one moment, as a filter that the cluster can test.
//!
//! The filter is `{$nor: [the ways to have ended]}`. A root `$or` of the ways to be alive would be planned branch by branch.
//! Each way is total: whatever a document holds in `ttl` or `_sundown`, testing it never fails. Parts of a filter are not
//! tested in the order in which they are written, so no part may rely on another one.

use crate::ttl::{DefaultTtl, OwnTtl};
use crate::upstream::{CollectionRules, HIDDEN_FIELD};
use crate::value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Millis, Value};

/// The ways in which a document of one collection can have ended at one moment.
#[derive(Debug, Clone)]
pub struct EndedPredicate {
    /// The array of the ways, each a filter. `None` if no document can have ended.
    ways: Option<DocBuf>,
}

/// The bytes of the ways of a collection with a DefaultTTL, and some more.
const USUAL_SIZE: usize = 1536;

/// The path of `ttl` and of the stamp in expressions.
const TTL: &str = "$ttl";
const STAMP: &str = "$_sundown";

// === impl EndedPredicate ===

impl EndedPredicate {
    pub fn new(rules: &CollectionRules, now: Millis) -> Self {
        if !rules.can_end() {
            return Self::none();
        }
        let mut bytes = Vec::with_capacity(USUAL_SIZE);
        let mut ways = ArrayBuilder::begin(&mut bytes);
        put_ways(rules, now, &mut ways);
        if let Some((former, until)) = rules.former_at(now) {
            put_ways(former, until, &mut ways);
        }
        // Former rules may have no ways of their own, and an empty list is an error.
        let ways = (!ways.is_empty()).then(|| ways.end());
        Self {
            ways: ways.map(|()| DocBuf::from_bytes(bytes)),
        }
    }

    /// Returns the predicate that every document passes.
    pub fn none() -> Self {
        Self { ways: None }
    }

    pub fn is_none(&self) -> bool {
        self.ways.is_none()
    }

    /// Returns whether the predicate of such a collection has an `$expr`, which MongoDB refuses in a few places.
    pub fn needs_expr(rules: &CollectionRules) -> bool {
        in_force(rules).any(|rules| rules.default != DefaultTtl::Off)
    }

    /// Returns the client's filter, narrowed to the documents that have not ended.
    pub fn alive(&self, filter: Doc<'_>) -> DocBuf {
        self.joined(filter, "$nor")
    }

    /// Returns the client's filter, narrowed to the documents that have ended.
    pub fn ended(&self, filter: Doc<'_>) -> DocBuf {
        match self.ways {
            Some(_) => self.joined(filter, "$or"),
            // No document matches an empty list.
            None => DocBuf::build(|none| {
                none.doc("_id").array("$in").end();
            }),
        }
    }

    fn joined(&self, filter: Doc<'_>, operator: &str) -> DocBuf {
        let Some(ways) = &self.ways else {
            return DocBuf::from(filter);
        };
        let size = filter.bytes().len() + ways.bytes().len() + 64;
        DocBuf::build_sized(size, |joined| {
            let ways = crate::value::ValueRef::array(ways.as_doc());
            if filter.has(operator) {
                // A second field of the same name could be taken for a mistake.
                let mut both = joined.array("$and");
                both.push_doc(filter);
                both.doc().put(operator, ways);
                both.end();
            } else {
                joined.put_body(filter.body()).put(operator, ways);
            }
        })
    }
}

/// Writes the ways in which a document has ended by these rules at `now`.
fn put_ways(rules: &CollectionRules, now: Millis, ways: &mut ArrayBuilder<'_>) {
    if let DefaultTtl::Seconds(seconds) = rules.default {
        by_default(rules, before(now, seconds), &mut ways.doc());
    }
    if rules.default != DefaultTtl::Off {
        by_own_ttl(rules, now, &mut ways.doc());
    }
    put_date_ways(rules, now, ways);
}

/// Writes the ways in which a document has ended by a TTL index on dates. They have no expression.
pub(super) fn put_date_ways(rules: &CollectionRules, now: Millis, ways: &mut ArrayBuilder<'_>) {
    for rule in &rules.dates {
        let cutoff = before(now, rule.seconds);
        let ended = DocBuf::build(|way| {
            // The second condition holds whenever the first one does. With it the cluster does not use an index on the date to
            // find the documents that have not ended: it would examine all of them, and change their order.
            let mut past = way.doc(&rule.path);
            past.put_date("$lte", cutoff).put_date("$gte", i64::MIN);
            past.end();
        });
        match &rule.filter {
            None => drop(ways.push_doc(ended.as_doc())),
            // The two may name the same path, so they stay apart.
            Some(partial) => {
                let mut way = ways.doc();
                let mut both = way.array("$and");
                both.push_doc(partial.as_doc()).push_doc(ended.as_doc());
                both.end();
                way.end();
            }
        }
    }
}

/// Returns the rules and, while their ended documents are being deleted, the former ones.
pub fn in_force(rules: &CollectionRules) -> impl Iterator<Item = &CollectionRules> {
    let former = rules.former.as_deref().map(|former| &former.rules);
    std::iter::once(rules).chain(former)
}

/// Returns the last moment of writing whose documents have ended `seconds` later, at `now`.
pub(super) fn before(now: Millis, seconds: i32) -> i64 {
    now.0.saturating_sub(i64::from(seconds) * 1000)
}

/// Writes the way of documents without a `ttl`: most of them, so this way has no expression.
fn by_default(rules: &CollectionRules, cutoff: i64, way: &mut DocBuilder<'_>) {
    way.put_null(OwnTtl::FIELD);
    if rules.since.0 > cutoff {
        // Documents without a stamp live.
        stamp_is("$lte", cutoff, way);
    } else {
        // They have ended: all but those with a later stamp.
        let mut later = way.array("$nor");
        stamp_is("$gt", cutoff, &mut later.doc());
        later.end();
    }
}

/// Writes a comparison of the stamp. An array is no stamp, although a comparison looks into arrays.
pub(super) fn stamp_is(operator: &str, cutoff: i64, filter: &mut DocBuilder<'_>) {
    let mut stamp = filter.doc(HIDDEN_FIELD);
    stamp.put_date(operator, cutoff);
    stamp.doc("$not").put_str("$type", "array");
    stamp.end();
}

/// Writes the way of documents with any `ttl`: the meaningful ones, and the others, which inherit.
fn by_own_ttl(rules: &CollectionRules, now: Millis, way: &mut DocBuilder<'_>) {
    match rules.default {
        // Only a positive number can end a document. (An array may hold one: the expression finds out.)
        DefaultTtl::Never => way.doc(OwnTtl::FIELD).put_i32("$gte", 1),
        // A ttl of null inherits, and the other way covers it.
        _ => way.doc(OwnTtl::FIELD).put_null("$ne"),
    };
    let inherited = |out: &mut ArrayBuilder<'_>| match rules.default {
        DefaultTtl::Seconds(seconds) => not_after(rules, out, |out| {
            out.push(Value::date(before(now, seconds)).as_ref());
        }),
        _ => {
            out.push(Value::boolean(false).as_ref());
        }
    };
    let mut expression = way.doc("$expr");
    let mut choice = expression.array("$cond");
    call("$in", &mut choice, |args| {
        put_type(TTL, args);
        let mut numbers = args.array();
        for name in ["int", "long", "double"] {
            numbers.push_str(name);
        }
        numbers.end();
    });
    call("$cond", &mut choice, |args| {
        meaningful(args);
        own_has_come(rules, now, args);
        inherited(args);
    });
    inherited(&mut choice);
    choice.end();
    expression.end();
}

/// Writes whether a number is one that sets an end, or none.
fn meaningful(out: &mut ArrayBuilder<'_>) {
    call("$and", out, |all| {
        call("$eq", all, |sides| {
            sides.push_str(TTL);
            call("$trunc", sides, |args| {
                args.push_str(TTL);
            });
        });
        compare_ttl("$gte", -1, all);
        compare_ttl("$lte", i32::MAX, all);
        compare_ttl("$ne", 0, all);
    });
}

/// Writes whether the end that `ttl` sets has come.
fn own_has_come(rules: &CollectionRules, now: Millis, out: &mut ArrayBuilder<'_>) {
    call("$and", out, |both| {
        compare_ttl("$gte", 1, both);
        not_after(rules, both, |out| {
            call("$subtract", out, |args| {
                args.push(Value::date(now.0).as_ref());
                call("$multiply", args, |args| {
                    args.push_str(TTL).push(Value::int32(1000).as_ref());
                });
            });
        });
    });
}

/// Writes whether the document was not written after a moment.
fn not_after(
    rules: &CollectionRules,
    out: &mut ArrayBuilder<'_>,
    moment: impl FnOnce(&mut ArrayBuilder<'_>),
) {
    call("$lte", out, |sides| {
        call("$cond", sides, |args| {
            call("$eq", args, |sides| {
                put_type(STAMP, sides);
                sides.push_str("date");
            });
            let since = Value::date(rules.since.0);
            args.push_str(STAMP).push(since.as_ref());
        });
        moment(sides);
    });
}

fn compare_ttl(operator: &str, number: i32, out: &mut ArrayBuilder<'_>) {
    call(operator, out, |sides| {
        sides.push_str(TTL).push(Value::int32(number).as_ref());
    });
}

fn put_type(path: &str, out: &mut ArrayBuilder<'_>) {
    out.doc().put_str("$type", path);
}

/// Writes the call of an operator, in place: the predicate is written for every command.
fn call(operator: &str, out: &mut ArrayBuilder<'_>, args: impl FnOnce(&mut ArrayBuilder<'_>)) {
    let mut call = out.doc();
    let mut list = call.array(operator);
    args(&mut list);
    list.end();
    call.end();
}
