//! One accumulator of a stage: its rule, and the expression that it is fed with.

use super::many::Many;
use super::percentile::Percentile;
use super::state::State;
use super::table::{self, Status};
use super::top::Top;
use super::{collect, extreme};
use crate::error::{Code, Error, Result};
use crate::query::expr::total::Total;
use crate::query::{Expr, Scope, Vars};
use crate::value::{Decimal, Doc, DocBuf, Num, Type, Value, ValueRef};

#[derive(Debug, Clone)]
pub struct Accumulator {
    rule: Rule,
    input: Expr,
}

/// What is done with the values, without any name to look up.
#[derive(Debug, Clone)]
pub enum Rule {
    Sum,
    Average,
    Min,
    Max,
    First,
    Last,
    Push,
    AddToSet,
    ConcatArrays,
    SetUnion,
    Merge,
    Deviation { sample: bool },
    FirstN(Many),
    LastN(Many),
    MinN(Many),
    MaxN(Many),
    Top(Top),
    Percentile(Percentile),
}

/// What the state of one group may hold, as MongoDB bounds `$push` and `$addToSet`.
const MAX_HELD: usize = 100 * 1024 * 1024;

// === impl Accumulator ===

impl Accumulator {
    pub(super) fn new(rule: Rule, input: Expr) -> Self {
        Self { rule, input }
    }

    /// From `{$sum: "$a"}`: the operator's name and its argument.
    pub fn parse(name: &str, value: ValueRef<'_>, scope: &Scope) -> Result<Self> {
        let row = table::find(name)
            .ok_or_else(|| Error::location(15952, format!("unknown group operator '{name}'")))?;
        if value.ty() == Type::Array {
            return Err(Error::location(
                40237,
                format!("The {name} accumulator is a unary operator"),
            ));
        }
        match row.status {
            Status::Ready(parse) => parse(row.name, value, scope),
            Status::Planned => Err(Error::not_implemented(format_args!("Accumulator {name}"))),
        }
    }

    /// The state of the group with that `_id`, when no document has been fed to it.
    pub fn start(&self, id: ValueRef<'_>, vars: &Vars) -> Result<State> {
        Ok(match &self.rule {
            Rule::Sum | Rule::Average => State::Total {
                total: Total::default(),
                count: 0,
            },
            Rule::Min | Rule::Max | Rule::First | Rule::Last => State::One(None),
            Rule::Push | Rule::ConcatArrays => State::List(collect::List::default()),
            Rule::AddToSet | Rule::SetUnion => State::Set(collect::Set::default()),
            Rule::Merge => State::Merged(DocBuf::new()),
            Rule::Deviation { .. } => State::Deviation(super::Deviation::default()),
            Rule::FirstN(n) | Rule::LastN(n) | Rule::MinN(n) | Rule::MaxN(n) => {
                State::Few(extreme::Few::new(n.of(id, vars)?))
            }
            Rule::Top(spec) => State::Top(spec.start(id, vars)?),
            Rule::Percentile(_) => State::Numbers(Vec::new()),
        })
    }

    /// Takes one document in; tells by how many bytes the state has grown.
    pub fn feed(&self, state: &mut State, doc: Doc<'_>, vars: &Vars) -> Result<usize> {
        let value = self.input.eval(doc, vars).map_err(as_in_groups)?;
        let value = value.as_ref();
        let before = state.held();
        match (&self.rule, &mut *state) {
            (Rule::Sum | Rule::Average, State::Total { total, count }) => {
                if let Some(num) = value.as_num() {
                    total.add(num);
                    *count += 1;
                }
                return Ok(0);
            }
            (Rule::Min, State::One(least)) => extreme::keep(least, value, false),
            (Rule::Max, State::One(most)) => extreme::keep(most, value, true),
            (Rule::First, State::One(first @ None)) => *first = Some(value.to_value()),
            (Rule::First, State::One(Some(_))) => return Ok(0),
            (Rule::Last, State::One(last)) => *last = Some(value.to_value()),
            (Rule::Push, State::List(list)) => list.push(value),
            (Rule::ConcatArrays, State::List(list)) => {
                collect::each_element("$concatArrays", value, |item| list.push(item))?;
            }
            (Rule::AddToSet, State::Set(set)) => set.add(value),
            (Rule::SetUnion, State::Set(set)) => {
                collect::each_element("$setUnion", value, |item| set.add(item))?;
            }
            (Rule::Merge, State::Merged(merged)) => collect::merge(merged, value)?,
            (Rule::Deviation { .. }, State::Deviation(deviation)) => {
                if let Some(num) = value.as_num() {
                    deviation.add(num.to_f64());
                }
                return Ok(0);
            }
            (Rule::FirstN(_), State::Few(few)) => few.first_n(value),
            (Rule::LastN(_), State::Few(few)) => few.last_n(value),
            (Rule::MinN(_), State::Few(few)) => few.best_n(value, false),
            (Rule::MaxN(_), State::Few(few)) => few.best_n(value, true),
            (Rule::Top(spec), State::Top(best)) => best.feed(spec, doc, value)?,
            (Rule::Percentile(_), State::Numbers(numbers)) => {
                if let Some(num) = value.as_num()
                    && !num.is_nan()
                {
                    numbers.push(num.to_f64());
                }
            }
            // A state always comes from `start` of the same accumulator.
            _ => {}
        }
        let after = state.held();
        if after > MAX_HELD {
            return Err(Error::new(
                Code::ExceededMemoryLimit,
                format!(
                    "used too much memory and cannot spill to disk. Memory limit: {MAX_HELD} bytes"
                ),
            ));
        }
        Ok(after.saturating_sub(before))
    }

    /// The group's value.
    pub fn finish(&self, state: &State) -> Result<Value> {
        Ok(match (&self.rule, state) {
            (Rule::Sum, State::Total { total, .. }) => total.to_num().to_value(),
            (Rule::Average, State::Total { total, count }) => average(*total, *count),
            (_, State::One(value)) => match value {
                Some(value) if !value.is_missing() => value.clone(),
                _ => Value::null(),
            },
            (_, State::List(list)) => list.to_array()?,
            (_, State::Set(set)) => set.to_array()?,
            (_, State::Merged(merged)) => Value::document(merged.bytes().to_vec()),
            (Rule::Deviation { sample }, State::Deviation(deviation)) => deviation.finish(*sample),
            (_, State::Few(few)) => few.to_array()?,
            (Rule::Top(spec), State::Top(best)) => best.finish(spec)?,
            (Rule::Percentile(spec), State::Numbers(numbers)) => spec.finish(numbers.clone()),
            _ => Value::null(),
        })
    }

    /// Whether the document is looked at.
    pub fn reads_document(&self) -> bool {
        self.input.reads_document() || matches!(self.rule, Rule::Top(_))
    }
}

/// Null of nothing; a decimal where one was among the numbers.
pub fn average(total: Total, count: u64) -> Value {
    if count == 0 {
        return Value::null();
    }
    if total.is_decimal() {
        let count = Decimal::from_i64(i64::try_from(count).unwrap_or(i64::MAX));
        return Num::Decimal(total.to_decimal().div(count)).to_value();
    }
    Value::double(total.to_f64() / count as f64)
}

/// MongoDB runs the expressions of a `$group` in its newer engine, which has codes of its own for these.
fn as_in_groups(error: Error) -> Error {
    match (error.code(), error.message()) {
        (Code::BadValue, "can't $divide by zero") => {
            Error::location(4848401, "can't $divide by zero")
        }
        (Code::Location(16610), "can't $mod by zero") => {
            Error::location(4848403, "can't $mod by zero")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Millis;
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
        let mut state = accumulator.start(ValueRef::NULL, &vars).unwrap();
        for doc in docs {
            let doc = DocBuf::from(doc);
            if let Err(error) = accumulator.feed(&mut state, doc.as_doc(), &vars) {
                return Bson::String(error.code().number().to_string());
            }
        }
        let value = accumulator.finish(&state).unwrap();
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
        ] {
            assert_eq!(run(spec.clone(), &docs), expected, "{spec}");
        }
    }

    #[test]
    fn what_is_held_is_told() {
        let spec = DocBuf::from(doc! {"$push": "$$ROOT"});
        let elem = spec.as_doc().first().unwrap();
        let push = Accumulator::parse(elem.name(), elem.value, &Scope::new()).unwrap();
        let doc = DocBuf::from(doc! {"text": "x".repeat(1000)});
        let vars = Vars::at(Millis(0));
        let mut state = push.start(ValueRef::NULL, &vars).unwrap();
        let grown: usize = (0..10)
            .map(|_| push.feed(&mut state, doc.as_doc(), &vars).unwrap())
            .sum();
        assert!((10_000..12_000).contains(&grown), "{grown}");
    }
}
