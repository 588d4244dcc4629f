//! MongoDB's whole list of expression operators.

use super::node::{Eval, Expr};
use super::{
    arithmetic, binding, bitwise, boolean, comparison, conditional, power, rounding, trigonometry,
};
use crate::error::Result;
use crate::query::Scope;
use crate::value::ValueRef;

pub struct Operator {
    pub name: &'static str,
    pub status: Status,
}

#[derive(Clone, Copy)]
pub enum Status {
    Ready(Form),
    /// Known, and refused by name.
    Planned,
}

/// How an operator takes its arguments.
#[derive(Clone, Copy)]
pub enum Form {
    /// By position.
    Call(Arity, Eval),
    /// In its own way.
    Own(fn(&'static str, ValueRef<'_>, &Scope) -> Result<Expr>),
}

#[derive(Clone, Copy)]
pub enum Arity {
    Any,
    Exactly(usize),
    Between(usize, usize),
}

const fn call(name: &'static str, arity: Arity, eval: Eval) -> Operator {
    Operator {
        name,
        status: Status::Ready(Form::Call(arity, eval)),
    }
}

const fn own(
    name: &'static str,
    parse: fn(&'static str, ValueRef<'_>, &Scope) -> Result<Expr>,
) -> Operator {
    Operator {
        name,
        status: Status::Ready(Form::Own(parse)),
    }
}

const fn planned(name: &'static str) -> Operator {
    Operator {
        name,
        status: Status::Planned,
    }
}

/// Sorted by name.
pub static EXPRESSIONS: &[Operator] = &[
    call("$abs", Arity::Exactly(1), arithmetic::abs),
    call("$acos", Arity::Exactly(1), trigonometry::acos),
    call("$acosh", Arity::Exactly(1), trigonometry::acosh),
    call("$add", Arity::Any, arithmetic::add),
    planned("$allElementsTrue"),
    own("$and", boolean::and),
    planned("$anyElementTrue"),
    planned("$arrayElemAt"),
    planned("$arrayToObject"),
    call("$asin", Arity::Exactly(1), trigonometry::asin),
    call("$asinh", Arity::Exactly(1), trigonometry::asinh),
    call("$atan", Arity::Exactly(1), trigonometry::atan),
    call("$atan2", Arity::Exactly(2), trigonometry::atan2),
    call("$atanh", Arity::Exactly(1), trigonometry::atanh),
    planned("$avg"),
    planned("$binarySize"),
    call("$bitAnd", Arity::Any, bitwise::and),
    call("$bitNot", Arity::Exactly(1), bitwise::not),
    call("$bitOr", Arity::Any, bitwise::or),
    call("$bitXor", Arity::Any, bitwise::xor),
    planned("$bsonSize"),
    call("$ceil", Arity::Exactly(1), rounding::ceil),
    call("$cmp", Arity::Exactly(2), comparison::cmp),
    planned("$concat"),
    planned("$concatArrays"),
    own("$cond", conditional::cond),
    own("$const", literal),
    planned("$convert"),
    call("$cos", Arity::Exactly(1), trigonometry::cos),
    call("$cosh", Arity::Exactly(1), trigonometry::cosh),
    planned("$dateAdd"),
    planned("$dateDiff"),
    planned("$dateFromParts"),
    planned("$dateFromString"),
    planned("$dateSubtract"),
    planned("$dateToParts"),
    planned("$dateToString"),
    planned("$dateTrunc"),
    planned("$dayOfMonth"),
    planned("$dayOfWeek"),
    planned("$dayOfYear"),
    call(
        "$degreesToRadians",
        Arity::Exactly(1),
        trigonometry::degrees_to_radians,
    ),
    call("$divide", Arity::Exactly(2), arithmetic::divide),
    planned("$encStrContains"),
    planned("$encStrEndsWith"),
    planned("$encStrNormalizedEq"),
    planned("$encStrStartsWith"),
    call("$eq", Arity::Exactly(2), comparison::eq),
    call("$exp", Arity::Exactly(1), power::exp),
    own("$filter", binding::filter),
    planned("$first"),
    planned("$firstN"),
    call("$floor", Arity::Exactly(1), rounding::floor),
    planned("$function"),
    planned("$getField"),
    call("$gt", Arity::Exactly(2), comparison::gt),
    call("$gte", Arity::Exactly(2), comparison::gte),
    planned("$hour"),
    own("$ifNull", conditional::if_null),
    planned("$in"),
    planned("$indexOfArray"),
    planned("$indexOfBytes"),
    planned("$indexOfCP"),
    planned("$isArray"),
    planned("$isNumber"),
    planned("$isoDayOfWeek"),
    planned("$isoWeek"),
    planned("$isoWeekYear"),
    planned("$last"),
    planned("$lastN"),
    own("$let", binding::let_),
    own("$literal", literal),
    call("$ln", Arity::Exactly(1), power::ln),
    call("$log", Arity::Exactly(2), power::log),
    call("$log10", Arity::Exactly(1), power::log10),
    call("$lt", Arity::Exactly(2), comparison::lt),
    call("$lte", Arity::Exactly(2), comparison::lte),
    planned("$ltrim"),
    own("$map", binding::map),
    planned("$max"),
    planned("$maxN"),
    planned("$median"),
    planned("$mergeObjects"),
    planned("$meta"),
    planned("$millisecond"),
    planned("$min"),
    planned("$minN"),
    planned("$minute"),
    call("$mod", Arity::Exactly(2), arithmetic::modulo),
    planned("$month"),
    call("$multiply", Arity::Any, arithmetic::multiply),
    call("$ne", Arity::Exactly(2), comparison::ne),
    call("$not", Arity::Exactly(1), boolean::not),
    planned("$objectToArray"),
    own("$or", boolean::or),
    planned("$percentile"),
    call("$pow", Arity::Exactly(2), power::pow),
    call(
        "$radiansToDegrees",
        Arity::Exactly(1),
        trigonometry::radians_to_degrees,
    ),
    planned("$rand"),
    planned("$range"),
    own("$reduce", binding::reduce),
    planned("$regexFind"),
    planned("$regexFindAll"),
    planned("$regexMatch"),
    planned("$replaceAll"),
    planned("$replaceOne"),
    planned("$reverseArray"),
    call("$round", Arity::Between(1, 2), rounding::round),
    planned("$rtrim"),
    planned("$second"),
    planned("$setDifference"),
    planned("$setEquals"),
    planned("$setField"),
    planned("$setIntersection"),
    planned("$setIsSubset"),
    planned("$setUnion"),
    own("$sigmoid", power::sigmoid),
    call("$sin", Arity::Exactly(1), trigonometry::sin),
    call("$sinh", Arity::Exactly(1), trigonometry::sinh),
    planned("$size"),
    planned("$slice"),
    planned("$sortArray"),
    planned("$split"),
    call("$sqrt", Arity::Exactly(1), power::sqrt),
    planned("$stdDevPop"),
    planned("$stdDevSamp"),
    planned("$strLenBytes"),
    planned("$strLenCP"),
    planned("$strcasecmp"),
    planned("$substr"),
    planned("$substrBytes"),
    planned("$substrCP"),
    call("$subtract", Arity::Exactly(2), arithmetic::subtract),
    planned("$sum"),
    own("$switch", conditional::switch),
    call("$tan", Arity::Exactly(1), trigonometry::tan),
    call("$tanh", Arity::Exactly(1), trigonometry::tanh),
    planned("$toBool"),
    planned("$toDate"),
    planned("$toDecimal"),
    planned("$toDouble"),
    planned("$toHashedIndexKey"),
    planned("$toInt"),
    planned("$toLong"),
    planned("$toLower"),
    planned("$toObjectId"),
    planned("$toString"),
    planned("$toUUID"),
    planned("$toUpper"),
    planned("$trim"),
    call("$trunc", Arity::Between(1, 2), rounding::trunc),
    planned("$tsIncrement"),
    planned("$tsSecond"),
    planned("$type"),
    planned("$unsetField"),
    planned("$week"),
    planned("$year"),
    planned("$zip"),
];

pub fn find(name: &str) -> Option<&'static Operator> {
    EXPRESSIONS
        .binary_search_by(|operator| operator.name.cmp(name))
        .ok()
        .and_then(|at| EXPRESSIONS.get(at))
}

fn literal(_: &'static str, value: ValueRef<'_>, _: &Scope) -> Result<Expr> {
    Ok(Expr::Const(value.to_value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        for pair in EXPRESSIONS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{}", pair[1].name);
        }
    }
}
