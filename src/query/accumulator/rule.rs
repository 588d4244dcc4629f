//! One accumulator of a stage: its rule and its input expression.

use std::sync::Arc;

use super::state::{AccumulatorRule, AccumulatorState, Input, PlainRule};
use super::table::{ACCUMULATORS, AccumulatorParser};
use crate::error::{Code, Error, Result};
use crate::query::expr::ExprArgument;
use crate::query::{Expr, Scope, Survey, Vars};
use crate::value::{Doc, Type, ValueRef};

/// A parsed accumulator.
#[derive(Debug, Clone)]
pub struct Accumulator {
    rule: Arc<dyn AccumulatorRule>,
    input: Expr,
}

/// The engine in which MongoDB computes a group. The newer one is told by its codes for some errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupEngine {
    Classic,
    Newer,
}

/// The most bytes that the state of one group may hold. MongoDB limits `$push` and `$addToSet` in this way.
const MAX_HELD: usize = 100 * 1024 * 1024;

// === impl Accumulator ===

impl Accumulator {
    pub(super) fn new(rule: Arc<dyn AccumulatorRule>, input: Expr) -> Self {
        Self { rule, input }
    }

    /// Parses an accumulator such as `{$sum: "$a"}` from the operator's name and its argument.
    pub fn parse(name: &str, value: ValueRef<'_>, scope: &Scope) -> Result<Self> {
        let row = ACCUMULATORS
            .find(name.as_bytes())
            .ok_or_else(|| Error::location(15952, format!("unknown group operator '{name}'")))?;
        if value.ty() == Type::Array {
            return Err(Error::location(
                40237,
                format!("The {name} accumulator is a unary operator"),
            ));
        }
        match *ACCUMULATORS.ready(row)? {
            AccumulatorParser::Plain(start) => {
                let input = Expr::parse(value, scope)?;
                Ok(Self::new(Arc::new(PlainRule(start)), input))
            }
            AccumulatorParser::Own(parse) => parse(ExprArgument {
                name: row.name,
                value,
                scope,
            }),
        }
    }

    /// Creates the state of the group with that `_id`.
    pub fn start(&self, id: ValueRef<'_>, vars: &Vars) -> Result<Box<dyn AccumulatorState>> {
        Arc::clone(&self.rule).start(id, vars)
    }

    /// Adds one document to the state. Returns by how many bytes the state has grown or shrunk.
    pub fn feed(
        &self,
        state: &mut dyn AccumulatorState,
        doc: Doc<'_>,
        vars: &Vars,
        engine: GroupEngine,
    ) -> Result<isize> {
        let is_newer = engine == GroupEngine::Newer;
        let is_needed = state.needs_input();
        let is_computed = is_needed || (is_newer && state.computes_in_vain());
        if !is_computed {
            return Ok(0);
        }
        let value = match engine {
            GroupEngine::Newer => self.input.eval_in_group(doc, vars)?,
            GroupEngine::Classic => self.input.eval(doc, vars)?,
        };
        if !is_needed {
            return Ok(0);
        }
        let before = state.size();
        state.add(Input {
            doc,
            value: value.as_ref(),
        })?;
        let after = state.size();
        if after > MAX_HELD {
            return Err(Error::new(
                Code::ExceededMemoryLimit,
                format!(
                    "used too much memory and cannot spill to disk. Memory limit: {MAX_HELD} bytes"
                ),
            ));
        }
        // Both sizes fit in memory, so they fit in an `isize`.
        Ok(after as isize - before as isize)
    }

    /// Reports the fields that this accumulator reads.
    pub fn survey(&self, survey: &mut Survey<'_>) {
        survey.expr(&self.input);
        if let Some(sort) = self.rule.sort() {
            sort.survey(survey);
        }
        if let Some(count) = self.rule.count() {
            survey.expr(count);
        }
    }

    /// Returns whether this accumulator reads the document.
    pub fn reads_document(&self) -> bool {
        self.input.reads_document() || self.rule.sort().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{DocBuf, Millis};
    use bson::{Bson, bson, doc};

    fn run(spec: bson::Document, docs: &[bson::Document]) -> Bson {
        let spec = DocBuf::from(spec);
        let Some(first) = spec.as_doc().first() else {
            return Bson::Null;
        };
        let accumulator = match Accumulator::parse(first.name(), first.value, &Scope::new()) {
            Ok(accumulator) => accumulator,
            Err(error) => return Bson::String(error.code().number().to_string()),
        };
        let vars = Vars::at(Millis(0));
        let mut state = match accumulator.start(ValueRef::NULL, &vars) {
            Ok(state) => state,
            Err(error) => return Bson::String(error.code().number().to_string()),
        };
        for doc in docs {
            let doc = DocBuf::from(doc);
            if let Err(error) =
                accumulator.feed(&mut *state, doc.as_doc(), &vars, GroupEngine::Newer)
            {
                return Bson::String(error.code().number().to_string());
            }
        }
        let value = state.finish().unwrap();
        let out = DocBuf::build(|d| {
            d.put("r", value.as_ref());
        });
        bson::Document::from_reader(out.bytes())
            .unwrap()
            .get("r")
            .unwrap()
            .clone()
    }

    #[test]
    fn values() {
        let docs = [
            doc! {"a": 3, "b": "x", "o": {"p": 1}, "l": [1, 2]},
            doc! {"a": 1.5, "b": "y", "o": {"q": 2}, "l": [2, 3]},
            doc! {"a": "text", "b": "x", "o": Bson::Null},
            doc! {"a": 2i64, "l": []},
        ];
        for (spec, expected) in [
            (doc! {"$sum": "$a"}, bson!(6.5)),
            (doc! {"$sum": 1}, bson!(4)),
            (doc! {"$sum": "$none"}, bson!(0)),
            (doc! {"$count": {}}, bson!(4)),
            (doc! {"$avg": "$a"}, bson!(6.5 / 3.0)),
            (doc! {"$avg": "$none"}, Bson::Null),
            (doc! {"$min": "$a"}, bson!(1.5)),
            (doc! {"$max": "$a"}, bson!("text")),
            (doc! {"$min": "$none"}, Bson::Null),
            (doc! {"$first": "$b"}, bson!("x")),
            (doc! {"$last": "$b"}, Bson::Null),
            (doc! {"$push": "$b"}, bson!(["x", "y", "x"])),
            (doc! {"$addToSet": "$b"}, bson!(["x", "y"])),
            (doc! {"$mergeObjects": "$o"}, bson!({"p": 1, "q": 2})),
            (doc! {"$firstN": {"n": 2, "input": "$b"}}, bson!(["x", "y"])),
            (
                doc! {"$lastN": {"n": 2, "input": "$b"}},
                bson!(["x", Bson::Null]),
            ),
            (doc! {"$minN": {"n": 2, "input": "$a"}}, bson!([1.5, 2i64])),
            (doc! {"$maxN": {"n": 2, "input": "$a"}}, bson!(["text", 3])),
            (
                doc! {"$top": {"sortBy": {"a": -1}, "output": "$b"}},
                bson!("x"),
            ),
            (
                doc! {"$bottom": {"sortBy": {"a": -1}, "output": ["$a", "$b"]}},
                bson!([1.5, "y"]),
            ),
            (
                doc! {"$topN": {"n": 2, "sortBy": {"a": 1}, "output": "$a"}},
                bson!([1.5, 2i64]),
            ),
            (
                doc! {"$bottomN": {"n": 2, "sortBy": {"a": 1}, "output": "$a"}},
                bson!([3, "text"]),
            ),
            (doc! {"$concatArrays": "$l"}, bson!([1, 2, 2, 3])),
            (doc! {"$setUnion": "$l"}, bson!([1, 2, 3])),
            (doc! {"$stdDevPop": "$none"}, Bson::Null),
            (
                doc! {"$median": {"input": "$a", "method": "approximate"}},
                bson!(2.0),
            ),
            (doc! {"$nope": 1}, bson!("15952")),
            (doc! {"$sum": [1, 2]}, bson!("40237")),
            (doc! {"$count": 1}, bson!("14")),
            (doc! {"$accumulator": {}}, bson!("238")),
            (doc! {"$mergeObjects": "$a"}, bson!("5911200")),
            (doc! {"$firstN": {"n": 0, "input": 1}}, bson!("7548606")),
            (doc! {"$sum": {"$divide": ["$a", 0]}}, bson!("4848401")),
            (
                doc! {"$push": {"$let": {"vars": {"z": 0}, "in": {"$mod": ["$a", "$$z"]}}}},
                bson!("4848403"),
            ),
        ] {
            assert_eq!(run(spec.clone(), &docs), expected, "{spec}");
        }
    }

    #[test]
    fn accumulators_report_their_memory() {
        let spec = DocBuf::from(doc! {"$push": "$$ROOT"});
        let elem = spec.as_doc().first().unwrap();
        let push = Accumulator::parse(elem.name(), elem.value, &Scope::new()).unwrap();
        let doc = DocBuf::from(doc! {"text": "x".repeat(1000)});
        let vars = Vars::at(Millis(0));
        let mut state = push.start(ValueRef::NULL, &vars).unwrap();
        let growth: isize = (0..10)
            .map(|_| {
                push.feed(&mut *state, doc.as_doc(), &vars, GroupEngine::Newer)
                    .unwrap()
            })
            .sum();
        assert!((10_000..12_000).contains(&growth), "{growth}");
    }
}
