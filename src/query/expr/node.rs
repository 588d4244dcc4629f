//! The tree of an expression and its evaluation.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use super::field_access::SetField;
use super::{Env, FieldPath, fuel};
use crate::error::{Code, Error, Result};
use crate::interrupt;
use crate::query::{Scope, Survey, Vars};
use smallvec::SmallVec;

use crate::value::{
    ArrayBuilder, Doc, DocBuilder, Iter, Type, Val, Value, ValueRef, check_computed,
};

/// A parsed expression.
#[derive(Debug, Clone)]
pub enum Expr {
    /// A constant. A missing value here is `$$REMOVE`.
    Const(Value),
    /// "$a.b" in the document.
    Field(FieldPath),
    /// The whole document.
    Root,
    /// "$$x" or "$$x.a.b".
    Var {
        slot: usize,
        path: Option<FieldPath>,
    },
    Now,
    ClusterTime,
    /// A constant part that fails. The parser reports the error, unless the surrounding part can never be evaluated.
    Fails(Error),
    Object(Arc<[(Box<str>, Expr)]>),
    Array(Arc<[Expr]>),
    /// An operator with positional arguments.
    Call(Arc<ExprCall>),
    /// An operator with its own syntax.
    Op(Arc<dyn ExprOp>),
}

/// An operator with positional arguments. Their number has been checked.
#[derive(Debug)]
pub struct ExprCall {
    pub name: &'static str,
    pub args: Box<[Expr]>,
    pub eval: Eval,
}

pub type Eval = for<'a> fn(&'a ExprCall, Env<'a>) -> Result<Val<'a>>;

/// An operator that keeps its parts in its own struct.
pub trait ExprOp: fmt::Debug + Send + Sync {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>>;

    /// Visits every expression directly inside this one.
    fn each(&self, visit: &mut dyn FnMut(&Expr));

    /// Reports field names that are not expressions, inside the input of the operator, and whether the operator itself is slow.
    fn survey(&self, _: &mut Survey<'_>) {}

    /// Returns what MongoDB's optimiser does with the operator if its parts are constant.
    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Whole
    }

    /// Returns a `$setField`, which shares its document with a `$setField` around it.
    fn as_set_field(&self) -> Option<&SetField> {
        None
    }

    /// Returns whether equal input gives equal output. Only `$rand` returns false.
    fn is_pure(&self) -> bool {
        true
    }
}

/// How far MongoDB's optimiser goes into an operator. A constant that it does not compute fails with the first document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorFolding {
    /// The operator becomes its value.
    Whole,
    /// Only its parts become values.
    Parts,
    /// It stays as it is written.
    Nothing,
}

/// The depth limit of values, the same as for documents.
pub const MAX_DEPTH: usize = 200;

// === impl Expr ===

impl Expr {
    /// Parses any value that can be an expression.
    pub fn parse(value: ValueRef<'_>, scope: &Scope) -> Result<Self> {
        let expr = super::parse::operand(value, scope)?;
        match expr.failure().and_then(|failure| scope.report(failure)) {
            Some(error) => Err(error),
            None => Ok(expr),
        }
    }

    /// Parses the value of `$expr`. The first constant that fails is left in `failed`, in the words of MongoDB's optimiser
    /// of filters, which runs when the whole filter is parsed.
    pub fn parse_filter(
        value: ValueRef<'_>,
        scope: &Scope,
        failed: &OnceCell<Error>,
    ) -> Result<Self> {
        let expr = super::parse::operand(value, scope)?;
        let failure = expr.failure();
        let failure = failure.map(|error| error.caused("Failed to optimize expression"));
        if let Some(error) = failure.and_then(|failure| scope.report(failure)) {
            failed.get_or_init(|| error);
        }
        Ok(expr)
    }

    /// Evaluates the expression for one document. A missing value means that there is no result.
    #[inline]
    pub fn eval<'a>(&'a self, doc: Doc<'a>, vars: &'a Vars) -> Result<Val<'a>> {
        match self {
            // Most groups and sorts only need a field.
            Self::Field(path) => {
                interrupt::tick_read(doc.bytes().len())?;
                Ok(path.eval(doc))
            }
            Self::Const(value) => Ok(Val::Ref(value.as_ref())),
            _ => {
                fuel::fill();
                self.eval_in(Env::new(doc, vars))
            }
        }
    }

    /// Evaluates the expression for one document of a group in the newer engine, where a few errors have other codes.
    #[inline]
    pub fn eval_in_group<'a>(&'a self, doc: Doc<'a>, vars: &'a Vars) -> Result<Val<'a>> {
        match self {
            Self::Field(_) | Self::Const(_) => self.eval(doc, vars),
            _ => {
                fuel::fill();
                self.eval_in(Env::new(doc, vars).in_group())
            }
        }
    }

    pub fn eval_in<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let value = match self {
            Self::Const(value) => Val::Ref(value.as_ref()),
            Self::Field(path) => {
                fuel::spend_read(env.root.bytes().len())?;
                path.eval(env.root)
            }
            Self::Root => Val::Ref(ValueRef::document(env.root)),
            Self::Var { slot, path: None } => Val::Ref(env.var(*slot)),
            Self::Var {
                slot,
                path: Some(path),
            } => {
                let within = env.var(*slot);
                // The cost depends on the size of the variable, even if the result is small or missing.
                fuel::spend_read(within.data().len())?;
                path.eval_below(within)
            }
            Self::Now => Val::Own(Value::date(env.vars.start().0)),
            Self::ClusterTime => match env.vars.cluster_time() {
                Some(time) => {
                    let (seconds, increment) = time.parts();
                    Val::Own(Value::timestamp(seconds, increment))
                }
                None => {
                    return Err(Error::location(
                        10071200,
                        "Builtin variable '$$CLUSTER_TIME' is not available",
                    ));
                }
            },
            Self::Fails(error) => return Err(error.clone()),
            Self::Object(fields) => object(fields, env)?,
            Self::Array(items) => array(items, env)?,
            Self::Call(call) => (call.eval)(call, env)?,
            Self::Op(op) => op.eval(env)?,
        };
        match &value {
            Val::Own(built) => fuel::spend_bytes(built.as_ref().data().len())?,
            Val::Ref(there) => fuel::spend_read(there.data().len())?,
        }
        Ok(value)
    }

    pub fn as_const(&self) -> Option<ValueRef<'_>> {
        match self {
            Self::Const(value) => Some(value.as_ref()),
            _ => None,
        }
    }

    /// Visits every expression directly inside this one.
    pub fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        match self {
            Self::Object(fields) => fields.iter().for_each(|(_, expr)| visit(expr)),
            Self::Array(items) => items.iter().for_each(visit),
            Self::Call(call) => call.args.iter().for_each(visit),
            Self::Op(op) => op.each(visit),
            _ => {}
        }
    }

    /// Returns whether the expression reads the document.
    pub fn reads_document(&self) -> bool {
        match self {
            Self::Field(_) | Self::Root => true,
            _ => {
                let mut found = false;
                self.each(&mut |expr| found = found || expr.reads_document());
                found
            }
        }
    }

    /// Returns the error of the first constant part that fails.
    pub(super) fn failure(&self) -> Option<Error> {
        match self {
            Self::Fails(error) => Some(error.clone()),
            Self::Op(op) if op.optimised() == OperatorFolding::Nothing => None,
            _ => {
                let mut found = None;
                self.each(&mut |expr| {
                    if found.is_none() {
                        found = expr.failure();
                    }
                });
                found.or_else(|| match self {
                    Self::Call(call) => match call.name {
                        "$indexOfArray" => super::array::constant_is_no_array(call),
                        "$setIsSubset" => super::set::constant_is_no_array(call),
                        _ => None,
                    },
                    _ => None,
                })
            }
        }
    }

    /// Replaces the expression with its value if all its parts are constants.
    pub(super) fn fold(self) -> Self {
        let pure = match &self {
            Self::Object(_) | Self::Array(_) | Self::Call(_) => true,
            Self::Op(op) => op.is_pure() && op.optimised() == OperatorFolding::Whole,
            _ => false,
        };
        if !pure {
            return self;
        }
        let mut constant = true;
        self.each(&mut |expr| constant &= matches!(expr, Self::Const(_)));
        if !constant {
            return self;
        }
        let vars = Vars::at(crate::value::Millis(0));
        fuel::fill_for_folding();
        let value = self
            .eval_in(Env::new(Doc::EMPTY, &vars))
            .map(Val::into_value);
        if fuel::is_spent() {
            return self;
        }
        match value {
            Ok(value) => Self::Const(value),
            Err(error) => Self::Fails(error),
        }
    }

    pub(super) fn call(name: &'static str, args: Vec<Expr>, eval: Eval) -> Self {
        Self::Call(Arc::new(ExprCall {
            name,
            args: args.into_boxed_slice(),
            eval,
        }))
        .fold()
    }

    pub(super) fn op(op: impl ExprOp + 'static) -> Self {
        Self::Op(Arc::new(op)).fold()
    }
}

fn object<'a>(fields: &'a [(Box<str>, Expr)], env: Env<'a>) -> Result<Val<'a>> {
    let mut bytes = Vec::new();
    let mut doc = DocBuilder::begin(&mut bytes);
    for (name, expr) in fields {
        doc.put(name, expr.eval_in(env)?.as_ref());
        check_computed(doc.len())?;
    }
    doc.end();
    Ok(Val::Own(Value::document(bytes)))
}

fn array<'a>(items: &'a [Expr], env: Env<'a>) -> Result<Val<'a>> {
    let mut bytes = Vec::new();
    let mut array = ArrayBuilder::begin(&mut bytes);
    for expr in items {
        array.push(expr.eval_in(env)?.as_ref());
        check_computed(array.len())?;
    }
    array.end();
    Ok(Val::Own(Value::array(bytes)))
}

/// Returns an error for a value that is deeper than a document may be.
pub fn check_depth(value: ValueRef<'_>) -> Result<()> {
    // A level takes at least seven bytes, so a small value cannot be deep.
    if value.data().len() < MAX_DEPTH * 7 || nesting(value, MAX_DEPTH) <= MAX_DEPTH {
        return Ok(());
    }
    Err(Error::new(
        Code::Overflow,
        format!(
            "cannot convert document to BSON because it exceeds the limit of {MAX_DEPTH} levels of nesting"
        ),
    ))
}

/// Returns how deep documents and arrays are nested. Stops counting beyond `most`.
pub fn nesting(value: ValueRef<'_>, most: usize) -> usize {
    let mut open: SmallVec<[Iter<'_>; 8]> = SmallVec::new();
    let mut deepest = 0;
    let mut next = Some(value);
    loop {
        if let Some(value) = next.take()
            && matches!(value.ty(), Type::Document | Type::Array)
        {
            open.push(Doc::new(value.data()).iter());
            deepest = deepest.max(open.len());
            if deepest > most {
                return deepest;
            }
        }
        let Some(top) = open.last_mut() else {
            return deepest;
        };
        match top.next() {
            Some(elem) => next = Some(elem.value),
            None => {
                open.pop();
            }
        }
    }
}

// === impl ExprCall ===

impl ExprCall {
    /// Evaluates an argument. An optional argument that was not given is missing.
    #[inline]
    pub fn arg<'a>(&'a self, at: usize, env: Env<'a>) -> Result<Val<'a>> {
        match self.args.get(at) {
            Some(expr) => expr.eval_in(env),
            None => Ok(Val::MISSING),
        }
    }
}
