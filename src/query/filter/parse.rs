//! Parses a filter document into the tree.

use std::cell::OnceCell;

use smallvec::SmallVec;

use super::table::{FILTERS, FilterParser, Level};
use super::{CompareOp, Comparison, FilterNode, Test};
use crate::{
    error::{Code, Error, Result},
    interrupt,
    query::{Scope, pattern::Pattern, survey::MANY},
    value::{Doc, Elem, Type, ValueRef},
    vocabulary::{Entry, Status},
};

/// Parses an operator at the level of fields. `None` means that there is nothing to test (`$comment`).
pub type TopParser =
    fn(&ParseContext<'_>, name: &str, arg: ValueRef<'_>) -> Result<Option<FilterNode>>;
/// Parses an operator inside a field's condition.
pub type FieldParser =
    fn(&ParseContext<'_>, &OperatorSite<'_>, arg: ValueRef<'_>) -> Result<Option<FilterNode>>;

/// The conditions of one document. Usually there is only one.
pub(super) type Nodes = SmallVec<[FilterNode; 1]>;

/// The context of the parser.
#[derive(Clone, Copy)]
pub struct ParseContext<'a> {
    pub scope: &'a Scope,
    /// Whether this is inside `$elemMatch`, where operators that need the whole document (`$expr`, `$text`) are refused.
    pub inner: bool,
    /// Whether this is a condition inside an update or a projection, where `$expr`, `$jsonSchema` and operators that need
    /// an index are refused.
    pub plain: bool,
    /// The first constant in an `$expr` that fails.
    pub failed: &'a OnceCell<Error>,
}

/// The place of a field operator.
pub struct OperatorSite<'a> {
    /// The path of the field; empty inside the value form of `$elemMatch`.
    pub path: &'a str,
    /// The name of the operator.
    pub name: &'a str,
    /// The whole condition, because `$regex` and `$options` need each other.
    pub siblings: Doc<'a>,
}

// === impl ParseContext ===

impl ParseContext<'_> {
    pub fn allows(&self, name: &str) -> Result<()> {
        if self.plain {
            let message = format!("{name} is not allowed in this context");
            return Err(Error::new(Code::QueryFeatureNotAllowed, message));
        }
        Ok(())
    }
}

/// MongoDB's limit on the nesting of logical operators.
const MAX_DEPTH: usize = 100;

/// Parses a whole filter.
pub(super) fn parse(doc: Doc<'_>, scope: &Scope, plain: bool) -> Result<FilterNode> {
    check_depth(doc)?;
    let failed = OnceCell::new();
    let cx = ParseContext {
        scope,
        inner: false,
        plain,
        failed: &failed,
    };
    let node = document(&cx, doc)?;
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(node),
    }
}

/// Bounds the recursion of the parser. A request holds documents of at most 200 levels, and a filter of that depth needs
/// little stack. A filter that was never validated must be refused as well.
fn check_depth(doc: Doc<'_>) -> Result<()> {
    /// The least bytes of a level: a type tag, the end of a name and an empty document.
    const LEVEL: usize = 7;
    if doc.bytes().len() < 2 * MAX_DEPTH * LEVEL {
        return Ok(());
    }
    let mut stack: SmallVec<[_; 4]> = SmallVec::new();
    stack.push(doc.iter());
    while let Some(top) = stack.last_mut() {
        match top.next() {
            None => {
                stack.pop();
            }
            Some(elem) => {
                if matches!(elem.value.ty(), Type::Document | Type::Array) {
                    if stack.len() >= 2 * MAX_DEPTH {
                        return Err(Error::bad_value(format!(
                            "exceeded maximum query tree depth of {MAX_DEPTH}"
                        )));
                    }
                    stack.push(Doc::new(elem.value.data()).iter());
                }
            }
        }
    }
    Ok(())
}

/// Parses a document of fields and logical operators into a conjunction.
pub(super) fn document(cx: &ParseContext<'_>, doc: Doc<'_>) -> Result<FilterNode> {
    let mut nodes = Nodes::new();
    for elem in doc {
        let name = elem.name();
        many(nodes.len())?;
        if name.starts_with('$') {
            nodes.extend(top(cx, name, elem.value)?);
        } else {
            field(cx, &elem, &mut nodes)?;
        }
    }
    Ok(FilterNode::and(nodes))
}

/// Counts work for each part of a filter, given the number of parts before it. Parsing many parts takes long by itself.
pub(super) fn many(before: usize) -> Result<()> {
    match before < MANY {
        true => Ok(()),
        false => interrupt::tick(1),
    }
}

fn top(cx: &ParseContext<'_>, name: &str, arg: ValueRef<'_>) -> Result<Option<FilterNode>> {
    let Some(row) = find(name, Level::Top) else {
        let advice = match name {
            "$not" => "If you are trying to negate an entire expression, use $nor.",
            _ => {
                "If you have a field name that starts with a '$' symbol, consider using $getField or $setField."
            }
        };
        return Err(Error::bad_value(format!(
            "unknown top level operator: {name}. {advice}"
        )));
    };
    match row.status {
        Status::Ready(FilterParser::Top(parse)) => parse(cx, name, arg),
        _ if cx.inner => Err(Error::bad_value(if name == "$where" {
            "$elemMatch cannot contain $where expression".to_string()
        } else {
            format!("{name} can only be applied to the top-level document")
        })),
        _ if cx.plain => Err(Error::bad_value(format!(
            "{name} is not allowed in this context"
        ))),
        _ => Err(FILTERS.refuse(row)),
    }
}

fn field(cx: &ParseContext<'_>, elem: &Elem<'_>, nodes: &mut Nodes) -> Result<()> {
    let path = elem.name();
    match elem.value.ty() {
        Type::Document if is_operator_document(elem.value, false) => {
            conditions(cx, path, Doc::new(elem.value.data()), nodes)
        }
        Type::Regex => {
            nodes.push(FilterNode::field(
                path,
                Test::Regex(Pattern::from_value(elem.value)?),
            ));
            Ok(())
        }
        _ => {
            let equal = Comparison::parse(path, CompareOp::Eq, elem.value)?;
            nodes.push(FilterNode::field(path, Test::Compare(equal)));
            Ok(())
        }
    }
}

/// Parses a field's condition, `{$gt: 1, $lt: 5}`, into one node per operator.
pub(super) fn conditions(
    cx: &ParseContext<'_>,
    path: &str,
    doc: Doc<'_>,
    nodes: &mut Nodes,
) -> Result<()> {
    for elem in doc {
        let name = elem.name();
        let site = OperatorSite {
            path,
            name,
            siblings: doc,
        };
        many(nodes.len())?;
        let Some(row) = find(name, Level::Field) else {
            return Err(Error::bad_value(match name {
                "$where" => "$where cannot be applied to a field".to_owned(),
                _ => format!("unknown operator: {name}"),
            }));
        };
        match row.status {
            Status::Ready(FilterParser::Field(parse)) => {
                nodes.extend(parse(cx, &site, elem.value)?)
            }
            // These operators sort, which a condition cannot do.
            _ if cx.plain && matches!(name, "$near" | "$nearSphere" | "$geoNear") => {
                return Err(Error::location(
                    5_626_500,
                    "$geoNear, $near, and $nearSphere are not allowed in this context",
                ));
            }
            _ => return Err(FILTERS.refuse(row)),
        }
    }
    Ok(())
}

/// Returns whether a value is a condition and not a document to compare with. A condition's first name begins with `$`, and
/// it is not a DBRef (`{$ref, $id}`; with `incomplete`, one of them or `$db` is enough).
pub fn is_operator_document(value: ValueRef<'_>, incomplete: bool) -> bool {
    let Some(doc) = value.as_doc() else {
        return false;
    };
    let dollar = doc
        .first()
        .is_some_and(|elem| elem.name_bytes().first() == Some(&b'$'));
    let dbref = || {
        if incomplete {
            doc.has("$ref") || doc.has("$id") || doc.has("$db")
        } else {
            doc.has("$ref") && doc.has("$id")
        }
    };
    dollar && !dbref()
}

/// Finds the operator with this name, if it belongs to this level.
fn find(name: &str, level: Level) -> Option<&'static Entry<FilterParser, Level>> {
    let row = FILTERS.find(name.as_bytes())?;
    (row.facts == level).then_some(row)
}

/// Returns whether a name is an operator at the level of fields.
pub(super) fn is_top(name: &str) -> bool {
    find(name, Level::Top).is_some()
}

/// Returns whether a name is an operator inside a field's condition.
pub(super) fn is_field(name: &str) -> bool {
    find(name, Level::Field).is_some()
}
