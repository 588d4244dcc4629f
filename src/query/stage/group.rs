//! `$group`: one row for each key, with the accumulated values of its rows.

use std::sync::Arc;

use ahash::{HashMap, HashMapExt};

use super::sort::too_much;
use super::{Empty, Flow, RowBatch, RowContext, Rows, Stage, StageContext, StageOp};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::query::accumulator::{Accumulator, AccumulatorState, GroupEngine};
use crate::query::{Expr, PathOrigin, Scope, Survey, Vars};
use crate::value::{Doc, DocBuf, DocBuilder, Path, Type, Value, ValueRef, check_computed, key};

/// The bytes that one group needs besides its key, its `_id` and its accumulators.
const OVERHEAD: usize = 64;

/// The parsed form of `$group`. `$bucket`, `$sortByCount` and others are parsed into it too.
pub(super) struct Group {
    key: Key,
    fields: GroupFields,
}

/// How to find the group of a row.
pub(super) enum Key {
    Value(Expr),
    /// A document with this single field, which becomes null if its value is missing.
    SoleField(Box<str>, Expr),
    /// A document with several fields. Undefined counts as a missing value of a field.
    Fields(Expr),
    Buckets(super::bucket::Buckets),
}

/// The accumulated fields.
pub(super) struct GroupFields(Vec<(Box<str>, Accumulator)>);

struct GroupRows {
    input: Box<dyn Rows>,
    stage: Arc<Group>,
    engine: GroupEngine,
    /// Whether a stage of MongoDB's classic engine reads the rows of its newer one.
    hands_on: bool,
    batch: RowBatch,
    /// Maps the bytes of a key to the number of its group.
    numbers: HashMap<Box<[u8]>, u32>,
    ids: Vec<Value>,
    /// The state of field f of group g is at g * fields + f.
    states: Vec<Box<dyn AccumulatorState>>,
    used: usize,
    scratch: Vec<u8>,
    /// The next group to return, once the input has ended.
    leaving: Option<usize>,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let spec = value
        .as_doc()
        .ok_or_else(|| Error::location(15947, "a group's fields must be specified in an object"))?;
    let mut id = None;
    let mut fields = GroupFields(Vec::new());
    for elem in spec {
        match elem.name() {
            "_id" if id.is_some() => {
                return Err(Error::location(
                    15948,
                    "a group's _id may only be specified once",
                ));
            }
            "_id" => id = Some(parse_id(elem.value, context.scope)?),
            "$doingMerge" => {
                return Err(Error::location(
                    17030,
                    "$doingMerge should be true if present",
                ));
            }
            _ => fields.add(elem.name(), elem.value, context.scope)?,
        }
    }
    let key =
        id.ok_or_else(|| Error::location(15955, "a group specification must include an _id"))?;
    push(Stage::StageOp(Arc::new(Group { key, fields })));
    Ok(())
}

fn parse_id(value: ValueRef<'_>, scope: &Scope) -> Result<Key> {
    // {a: 1} looks like an inclusion and is rejected. Any other document is an expression.
    let plain = value.as_doc().filter(|doc| {
        doc.first()
            .is_some_and(|first| !first.name().starts_with('$'))
    });
    for elem in plain.into_iter().flatten() {
        if elem.value.ty().is_number() || elem.value.ty() == Type::Bool {
            return Err(Error::location(
                17390,
                "$group does not support inclusion-style expressions",
            ));
        }
    }
    let expr = Expr::parse(value, scope)?;
    Ok(match plain.map(|doc| (doc.count(), doc.first())) {
        Some((1, Some(field))) => Key::SoleField(field.name().into(), expr),
        Some(_) if expr.as_const().is_none() => Key::Fields(expr),
        _ => Key::Value(expr),
    })
}

/// Returns a computed value as a stage of MongoDB's classic engine reads it from the newer one. Code becomes a string, and MinKey
/// and MaxKey are wrapped in a document. Documents and arrays are left as they are, unless the group has made them: then the
/// same is done to their own values.
fn handed_on(value: ValueRef<'_>, is_made: bool) -> Value {
    match value.ty() {
        Type::Code => Value::new(Type::String, value.data()),
        Type::MinKey | Type::MaxKey => {
            let mut wrapped = DocBuf::new();
            wrapped.put("", value);
            Value::document(wrapped.into_bytes())
        }
        Type::Document | Type::Array if is_made => {
            let values = Doc::new(value.data()).iter();
            let made = DocBuf::build(|out| {
                for elem in values {
                    out.put(elem.name(), handed_on(elem.value, false).as_ref());
                }
            });
            Value::new(value.ty(), made.bytes())
        }
        _ => value.to_value(),
    }
}

fn has_undefined(doc: Doc<'_>) -> bool {
    doc.iter().any(|elem| elem.value.ty() == Type::Undefined)
}

fn without_undefined(doc: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for elem in doc.iter().filter(|elem| elem.value.ty() != Type::Undefined) {
            out.put(elem.name(), elem.value);
        }
    })
}

fn sole_null(name: &str) -> Value {
    let mut doc = DocBuf::new();
    doc.put(name, ValueRef::NULL);
    Value::document(doc.into_bytes())
}

/// From this many fields on, one row may take long.
const MANY: usize = 16;

// === impl GroupFields ===

impl GroupFields {
    pub fn parse(spec: Doc<'_>, scope: &Scope) -> Result<Self> {
        let mut fields = Self(Vec::new());
        for elem in spec {
            fields.add(elem.name(), elem.value, scope)?;
        }
        Ok(fields)
    }

    /// Returns `{count: {$sum: 1}}`, the default output of several stages.
    pub fn count(name: &str) -> Result<Self> {
        let one = DocBuf::build(|doc| {
            doc.put_i32("$sum", 1);
        });
        let mut fields = Self(Vec::new());
        fields.add(name, ValueRef::document(one.as_doc()), &Scope::new())?;
        Ok(fields)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| &**known == name)
    }

    /// Parses and adds one `name: {$operator: argument}`.
    fn add(&mut self, name: &str, value: ValueRef<'_>, scope: &Scope) -> Result<()> {
        let operator = value
            .as_doc()
            .and_then(|doc| Some((doc, doc.first()?)))
            .filter(|(_, first)| first.name().starts_with('$'));
        let Some((doc, first)) = operator else {
            return Err(Error::location(
                40234,
                format!("The field '{name}' must be an accumulator object"),
            ));
        };
        if name.contains('.') {
            return Err(Error::location(
                40235,
                format!("The field name '{name}' cannot contain '.'"),
            ));
        }
        if name.starts_with('$') {
            return Err(Error::location(
                40236,
                format!("The field name '{name}' cannot be an operator name"),
            ));
        }
        if doc.count() != 1 {
            return Err(Error::location(
                40238,
                format!("The field '{name}' must specify one accumulator"),
            ));
        }
        if first.value.ty() == Type::Array {
            return Err(Error::location(
                40237,
                format!("The {} accumulator is a unary operator", first.name()),
            ));
        }
        let accumulator = Accumulator::parse(first.name(), first.value, scope)?;
        self.0.push((name.into(), accumulator));
        Ok(())
    }

    /// Appends the states of the group with that `_id`.
    pub fn start(
        &self,
        id: ValueRef<'_>,
        vars: &Vars,
        states: &mut Vec<Box<dyn AccumulatorState>>,
    ) -> Result<()> {
        for (_, accumulator) in &self.0 {
            states.push(accumulator.start(id, vars)?);
        }
        Ok(())
    }

    /// Adds a row to the states of its group. Returns by how many bytes they have grown or shrunk.
    #[inline]
    pub fn feed(
        &self,
        states: &mut [Box<dyn AccumulatorState>],
        doc: Doc<'_>,
        vars: &Vars,
        engine: GroupEngine,
    ) -> Result<isize> {
        if self.0.len() >= MANY {
            interrupt::tick(u32::try_from(self.0.len()).unwrap_or(u32::MAX))?;
        }
        let mut growth = 0;
        for ((_, accumulator), state) in self.0.iter().zip(states) {
            growth += accumulator.feed(&mut **state, doc, vars, engine)?;
        }
        Ok(growth)
    }

    pub fn finish(
        &self,
        states: &mut [Box<dyn AccumulatorState>],
        out: &mut DocBuilder<'_>,
    ) -> Result<()> {
        self.finish_with(states, out, |_, value| value)
    }

    /// Finishes the states. `show` may change each value.
    fn finish_with(
        &self,
        states: &mut [Box<dyn AccumulatorState>],
        out: &mut DocBuilder<'_>,
        show: impl Fn(&dyn AccumulatorState, Value) -> Value,
    ) -> Result<()> {
        for ((name, _), state) in self.0.iter().zip(states) {
            let value = state.finish()?;
            out.put(name, show(&**state, value).as_ref());
        }
        check_computed(out.len())
    }

    /// Reports the fields that the accumulators read.
    pub fn survey(&self, survey: &mut Survey<'_>) {
        for (_, accumulator) in &self.0 {
            accumulator.survey(survey);
        }
    }

    fn reads_document(&self) -> bool {
        self.0
            .iter()
            .any(|(_, accumulator)| accumulator.reads_document())
    }
}

// === impl Group ===

impl Group {
    pub fn new(key: Key, fields: GroupFields) -> Self {
        Self { key, fields }
    }

    fn open_in(
        self: Arc<Self>,
        input: Box<dyn Rows>,
        engine: GroupEngine,
        hands_on: bool,
    ) -> Box<dyn Rows> {
        Box::new(GroupRows {
            input,
            stage: self,
            engine,
            hands_on,
            batch: RowBatch::new(),
            numbers: HashMap::new(),
            ids: Vec::new(),
            states: Vec::new(),
            used: 0,
            scratch: Vec::new(),
            leaving: None,
        })
    }

    /// Creates a group that counts the rows of each key.
    pub fn counting(key: Expr, name: &str) -> Result<Self> {
        Ok(Self::new(Key::Value(key), GroupFields::count(name)?))
    }
}

impl StageOp for Group {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        self.open_in(input, GroupEngine::Newer, false)
    }

    fn open_before_classic_engine(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        self.open_in(input, GroupEngine::Newer, true)
    }

    fn runs_in_newer_engine(&self) -> bool {
        true
    }

    fn open_in_classic_engine(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        self.open_in(input, GroupEngine::Classic, false)
    }

    /// Covers the count that drivers send: `{_id: 1, n: {$sum: 1}}`.
    fn only_counts(&self) -> bool {
        matches!(&self.key, Key::Value(expr) | Key::SoleField(_, expr) | Key::Fields(expr) if !expr.reads_document())
            && !self.fields.reads_document()
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        match &self.key {
            Key::Value(expr) | Key::SoleField(_, expr) | Key::Fields(expr) => survey.expr(expr),
            Key::Buckets(buckets) => buckets.survey(survey),
        }
        self.fields.survey(survey);
    }

    /// Rows of one group have equal keys, so a condition on the key keeps or drops them together.
    fn origin(&self, path: &Path) -> PathOrigin {
        let (Key::Value(key) | Key::SoleField(_, key) | Key::Fields(key)) = &self.key else {
            return PathOrigin::Computed;
        };
        let (source, names) = match key {
            Expr::Object(fields) if path.len() > 1 => {
                let mut fields = fields.iter();
                let found = fields.find(|(name, _)| **name == *path.part(1));
                (found.map(|(_, expr)| expr), 2)
            }
            key => (Some(key), 1),
        };
        match source {
            Some(Expr::Field(from)) if path.first() == "_id" && from.path().len() == 1 => {
                let mut origin = from.path().as_str().to_owned();
                for name in path.parts().skip(names) {
                    origin.push('.');
                    origin.push_str(name);
                }
                PathOrigin::Grouped(origin)
            }
            _ => PathOrigin::Computed,
        }
    }
}

// === impl GroupRows ===

impl GroupRows {
    fn take(&mut self, cx: &RowContext<'_>) -> Result<()> {
        let width = self.stage.fields.len();
        for row in self.batch.iter() {
            let id = match &self.stage.key {
                Key::Value(expr) | Key::Fields(expr) => expr.eval(row.doc, cx.vars)?,
                Key::SoleField(name, expr) => {
                    let id = expr.eval(row.doc, cx.vars)?;
                    match id.as_ref().as_doc() {
                        Some(doc) if doc.is_empty() => sole_null(name).into(),
                        _ => id,
                    }
                }
                Key::Buckets(buckets) => buckets.find(row.doc, cx.vars)?,
            };
            // A missing key belongs to the null group.
            let id = id.as_ref().or_null();
            self.scratch.clear();
            match (&self.stage.key, id.as_doc()) {
                (Key::Fields(_), Some(doc)) if has_undefined(doc) => {
                    let without = without_undefined(doc);
                    key::encode(
                        ValueRef::document(without.as_doc()),
                        false,
                        &mut self.scratch,
                    );
                }
                _ => key::encode(id, false, &mut self.scratch),
            }
            let number = match self.numbers.get(self.scratch.as_slice()) {
                Some(&number) => number as usize,
                None => {
                    let number = self.ids.len();
                    self.numbers
                        .insert(self.scratch.as_slice().into(), number as u32);
                    self.ids.push(match (&self.stage.key, self.hands_on) {
                        (_, false) | (Key::Value(Expr::Const(_)), _) => id.to_value(),
                        (Key::SoleField(..) | Key::Fields(_), true) => handed_on(id, true),
                        _ => handed_on(id, false),
                    });
                    self.stage.fields.start(id, cx.vars, &mut self.states)?;
                    let new_states = self.states.get(number * width..).unwrap_or_default();
                    self.used += OVERHEAD
                        + self.scratch.len()
                        + id.data().len()
                        + size_of_val(new_states)
                        + new_states
                            .iter()
                            .map(|state| size_of_val(&**state))
                            .sum::<usize>();
                    number
                }
            };
            let states = self
                .states
                .get_mut(number * width..(number + 1) * width)
                .unwrap_or_default();
            let growth = self
                .stage
                .fields
                .feed(states, row.doc, cx.vars, self.engine)?;
            self.used = self.used.saturating_add_signed(growth);
            if self.used > cx.limits.memory {
                return Err(too_much("$group", cx));
            }
        }
        Ok(())
    }
}

impl Rows for GroupRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        while self.leaving.is_none() {
            self.batch.restart(usize::MAX);
            let flow = self.input.fill(cx, &mut self.batch)?;
            self.take(cx)?;
            match flow {
                Flow::End => {
                    self.leaving = Some(0);
                    // This frees the memory of the stages before this one, which are no longer needed.
                    self.input = Box::new(Empty);
                }
                Flow::More if !cx.out_of_time() => {}
                _ => return Ok(Flow::Pause),
            }
        }
        let width = self.stage.fields.len();
        let mut next = self.leaving.unwrap_or_default();
        while let Some(id) = self.ids.get(next) {
            if out.is_full() {
                self.leaving = Some(next);
                return Ok(Flow::More);
            }
            let states = self
                .states
                .get_mut(next * width..(next + 1) * width)
                .unwrap_or_default();
            out.push_with(None, |bytes| {
                let mut doc = DocBuilder::begin(bytes);
                doc.put("_id", id.as_ref());
                match self.hands_on {
                    false => self.stage.fields.finish(states, &mut doc)?,
                    true => self
                        .stage
                        .fields
                        .finish_with(states, &mut doc, |state, value| {
                            handed_on(value.as_ref(), state.makes_container())
                        })?,
                }
                doc.end();
                Ok::<_, Error>(true)
            })?;
            next += 1;
        }
        Ok(Flow::End)
    }

    fn suspend(&mut self) -> usize {
        self.batch.clear();
        self.batch.suspend() + self.used + self.input.suspend()
    }
}
