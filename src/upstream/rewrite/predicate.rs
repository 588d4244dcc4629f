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

/// The path of `ttl` and of the stamp in expressions.
const TTL: &str = "$ttl";
const STAMP: &str = "$_sundown";

// === impl EndedPredicate ===

impl EndedPredicate {
    pub fn new(rules: &CollectionRules, now: Millis) -> Self {
        if !rules.can_end() {
            return Self::none();
        }
        let mut bytes = Vec::with_capacity(512);
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
    for rule in &rules.dates {
        let cutoff = before(now, rule.seconds);
        let ended = DocBuf::build(|way| {
            way.doc(&rule.path).put_date("$lte", cutoff);
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
fn before(now: Millis, seconds: i32) -> i64 {
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
fn stamp_is(operator: &str, cutoff: i64, filter: &mut DocBuilder<'_>) {
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
    let inherited = match rules.default {
        DefaultTtl::Seconds(seconds) => not_after(rules, Value::date(before(now, seconds))),
        _ => Value::boolean(false),
    };
    let scaled = call("$multiply", &[Value::string(TTL), Value::int32(1000)]);
    let own_end = call("$subtract", &[Value::date(now.0), scaled]);
    let own = call(
        "$and",
        &[
            compare("$gte", Value::string(TTL), Value::int32(1)),
            not_after(rules, own_end),
        ],
    );
    let whole = compare(
        "$eq",
        Value::string(TTL),
        call("$trunc", &[Value::string(TTL)]),
    );
    let meaningful = call(
        "$and",
        &[
            whole,
            compare("$gte", Value::string(TTL), Value::int32(-1)),
            compare("$lte", Value::string(TTL), Value::int32(i32::MAX)),
            compare("$ne", Value::string(TTL), Value::int32(0)),
        ],
    );
    let types = ["int", "long", "double"].map(Value::string);
    let number = call("$in", &[type_of(TTL), array(&types)]);
    let among_numbers = call("$cond", &[meaningful, own, inherited.clone()]);
    let ended = call("$cond", &[number, among_numbers, inherited]);
    way.put("$expr", ended.as_ref());
}

/// Returns the expression that the document was not written after a moment.
fn not_after(rules: &CollectionRules, moment: Value) -> Value {
    let has_stamp = compare("$eq", type_of(STAMP), Value::string("date"));
    let written = call(
        "$cond",
        &[has_stamp, Value::string(STAMP), Value::date(rules.since.0)],
    );
    compare("$lte", written, moment)
}

fn type_of(path: &str) -> Value {
    let of = DocBuf::build(|call| {
        call.put_str("$type", path);
    });
    Value::document(of.into_bytes())
}

fn compare(operator: &str, left: Value, right: Value) -> Value {
    call(operator, &[left, right])
}

fn call(operator: &str, args: &[Value]) -> Value {
    let args = array(args);
    let call = DocBuf::build(|call| {
        call.put(operator, args.as_ref());
    });
    Value::document(call.into_bytes())
}

fn array(values: &[Value]) -> Value {
    let mut bytes = Vec::new();
    let mut array = ArrayBuilder::begin(&mut bytes);
    for value in values {
        array.push(value.as_ref());
    }
    array.end();
    Value::array(bytes)
}
