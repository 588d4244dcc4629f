//! Every expression operator.

use super::args::ExprArgument;
use super::date::DatePart;
use super::node::{Eval, Expr};
use super::{
    addition, arithmetic, array, array_make, array_order, binding, bitwise, boolean, comparison,
    conditional, convert, date, field_access, gather, misc, object, power, regex, replace,
    rounding, set, substring, text, trigonometry, trim,
};
use crate::error::Result;
use crate::value::Type;
use crate::vocabulary::{Entry, Vocabulary, planned, ready};

/// The way in which an operator takes its arguments.
#[derive(Clone, Copy)]
pub enum ExprParser {
    /// By position.
    Call(Arity, Eval),
    /// With its own parser.
    Own(ParseExpr),
}

pub type ParseExpr = fn(ExprArgument<'_>) -> Result<Expr>;

#[derive(Clone, Copy)]
pub enum Arity {
    Any,
    Exactly(usize),
    Between(usize, usize),
}

pub static EXPRESSIONS: Vocabulary<ExprParser> = Vocabulary::new("Expression", ROWS);

/// Sorted by name.
const ROWS: &[Entry<ExprParser>] = &[
    call("$abs", Arity::Exactly(1), arithmetic::abs),
    call("$acos", Arity::Exactly(1), trigonometry::acos),
    call("$acosh", Arity::Exactly(1), trigonometry::acosh),
    call("$add", Arity::Any, addition::add),
    call(
        "$allElementsTrue",
        Arity::Exactly(1),
        set::all_elements_true,
    ),
    own("$and", boolean::and),
    call("$anyElementTrue", Arity::Exactly(1), set::any_element_true),
    call("$arrayElemAt", Arity::Exactly(2), array::array_elem_at),
    call("$arrayToObject", Arity::Exactly(1), object::array_to_object),
    call("$asin", Arity::Exactly(1), trigonometry::asin),
    call("$asinh", Arity::Exactly(1), trigonometry::asinh),
    call("$atan", Arity::Exactly(1), trigonometry::atan),
    call("$atan2", Arity::Exactly(2), trigonometry::atan2),
    call("$atanh", Arity::Exactly(1), trigonometry::atanh),
    call("$avg", Arity::Any, gather::avg),
    call("$binarySize", Arity::Exactly(1), misc::binary_size),
    call("$bitAnd", Arity::Any, bitwise::and),
    call("$bitNot", Arity::Exactly(1), bitwise::not),
    call("$bitOr", Arity::Any, bitwise::or),
    call("$bitXor", Arity::Any, bitwise::xor),
    call("$bsonSize", Arity::Exactly(1), misc::bson_size),
    call("$ceil", Arity::Exactly(1), rounding::ceil),
    call("$cmp", Arity::Exactly(2), comparison::cmp),
    call("$concat", Arity::Any, text::concat),
    call("$concatArrays", Arity::Any, array::concat_arrays),
    own("$cond", conditional::cond),
    own("$const", misc::literal),
    own("$convert", convert::parse),
    call("$cos", Arity::Exactly(1), trigonometry::cos),
    call("$cosh", Arity::Exactly(1), trigonometry::cosh),
    own("$dateAdd", date::date_add),
    own("$dateDiff", date::date_diff),
    own("$dateFromParts", date::date_from_parts),
    own("$dateFromString", date::date_from_string),
    own("$dateSubtract", date::date_subtract),
    own("$dateToParts", date::date_to_parts),
    own("$dateToString", date::date_to_string),
    own("$dateTrunc", date::date_trunc),
    own("$dayOfMonth", |arg| {
        date::extract(arg, DatePart::DayOfMonth)
    }),
    own("$dayOfWeek", |arg| date::extract(arg, DatePart::DayOfWeek)),
    own("$dayOfYear", |arg| date::extract(arg, DatePart::DayOfYear)),
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
    call("$first", Arity::Exactly(1), array::first),
    own("$firstN", array_order::first_n),
    call("$floor", Arity::Exactly(1), rounding::floor),
    planned("$function"),
    own("$getField", field_access::get_field),
    call("$gt", Arity::Exactly(2), comparison::gt),
    call("$gte", Arity::Exactly(2), comparison::gte),
    own("$hour", |arg| date::extract(arg, DatePart::Hour)),
    own("$ifNull", conditional::if_null),
    call("$in", Arity::Exactly(2), array::in_),
    call("$indexOfArray", Arity::Between(2, 4), array::index_of_array),
    call(
        "$indexOfBytes",
        Arity::Between(2, 4),
        substring::index_of_bytes,
    ),
    call("$indexOfCP", Arity::Between(2, 4), substring::index_of_cp),
    call("$isArray", Arity::Exactly(1), array::is_array),
    call("$isNumber", Arity::Exactly(1), misc::is_number),
    own("$isoDayOfWeek", |arg| {
        date::extract(arg, DatePart::IsoDayOfWeek)
    }),
    own("$isoWeek", |arg| date::extract(arg, DatePart::IsoWeek)),
    own("$isoWeekYear", |arg| {
        date::extract(arg, DatePart::IsoWeekYear)
    }),
    call("$last", Arity::Exactly(1), array::last),
    own("$lastN", array_order::last_n),
    own("$let", binding::let_),
    own("$literal", misc::literal),
    call("$ln", Arity::Exactly(1), power::ln),
    call("$log", Arity::Exactly(2), power::log),
    call("$log10", Arity::Exactly(1), power::log10),
    call("$lt", Arity::Exactly(2), comparison::lt),
    call("$lte", Arity::Exactly(2), comparison::lte),
    own("$ltrim", trim::ltrim),
    own("$map", binding::map),
    call("$max", Arity::Any, gather::max),
    own("$maxN", array_order::max_n),
    own("$median", gather::median),
    call("$mergeObjects", Arity::Any, object::merge_objects),
    own("$meta", misc::meta),
    own("$millisecond", |arg| {
        date::extract(arg, DatePart::Millisecond)
    }),
    call("$min", Arity::Any, gather::min),
    own("$minN", array_order::min_n),
    own("$minute", |arg| date::extract(arg, DatePart::Minute)),
    call("$mod", Arity::Exactly(2), arithmetic::modulo),
    own("$month", |arg| date::extract(arg, DatePart::Month)),
    call("$multiply", Arity::Any, arithmetic::multiply),
    call("$ne", Arity::Exactly(2), comparison::ne),
    call("$not", Arity::Exactly(1), boolean::not),
    call("$objectToArray", Arity::Exactly(1), object::object_to_array),
    own("$or", boolean::or),
    own("$percentile", gather::percentile),
    call("$pow", Arity::Exactly(2), power::pow),
    call(
        "$radiansToDegrees",
        Arity::Exactly(1),
        trigonometry::radians_to_degrees,
    ),
    own("$rand", misc::rand),
    call("$range", Arity::Between(2, 3), array_make::range),
    own("$reduce", binding::reduce),
    own("$regexFind", regex::regex_find),
    own("$regexFindAll", regex::regex_find_all),
    own("$regexMatch", regex::regex_match),
    own("$replaceAll", replace::replace_all),
    own("$replaceOne", replace::replace_one),
    call("$reverseArray", Arity::Exactly(1), array::reverse_array),
    call("$round", Arity::Between(1, 2), rounding::round),
    own("$rtrim", trim::rtrim),
    own("$second", |arg| date::extract(arg, DatePart::Second)),
    call("$setDifference", Arity::Exactly(2), set::set_difference),
    own("$setEquals", set::set_equals),
    own("$setField", field_access::set_field),
    call("$setIntersection", Arity::Any, set::set_intersection),
    call("$setIsSubset", Arity::Exactly(2), set::set_is_subset),
    call("$setUnion", Arity::Any, set::set_union),
    own("$sigmoid", power::sigmoid),
    call("$sin", Arity::Exactly(1), trigonometry::sin),
    call("$sinh", Arity::Exactly(1), trigonometry::sinh),
    call("$size", Arity::Exactly(1), array::size),
    call("$slice", Arity::Between(2, 3), array::slice),
    own("$sortArray", array_order::sort_array),
    call("$split", Arity::Exactly(2), substring::split),
    call("$sqrt", Arity::Exactly(1), power::sqrt),
    call("$stdDevPop", Arity::Any, gather::std_dev_pop),
    call("$stdDevSamp", Arity::Any, gather::std_dev_samp),
    call("$strLenBytes", Arity::Exactly(1), text::str_len_bytes),
    call("$strLenCP", Arity::Exactly(1), text::str_len_cp),
    call("$strcasecmp", Arity::Exactly(2), text::strcasecmp),
    own("$substr", substring::substr),
    call("$substrBytes", Arity::Exactly(3), substring::substr_bytes),
    call("$substrCP", Arity::Exactly(3), substring::substr_cp),
    call("$subtract", Arity::Exactly(2), arithmetic::subtract),
    call("$sum", Arity::Any, gather::sum),
    own("$switch", conditional::switch),
    call("$tan", Arity::Exactly(1), trigonometry::tan),
    call("$tanh", Arity::Exactly(1), trigonometry::tanh),
    own("$toBool", |arg| convert::to(arg, Type::Bool)),
    own("$toDate", |arg| convert::to(arg, Type::Date)),
    own("$toDecimal", |arg| convert::to(arg, Type::Decimal)),
    own("$toDouble", |arg| convert::to(arg, Type::Double)),
    planned("$toHashedIndexKey"),
    own("$toInt", |arg| convert::to(arg, Type::Int32)),
    own("$toLong", |arg| convert::to(arg, Type::Int64)),
    call("$toLower", Arity::Exactly(1), text::to_lower),
    own("$toObjectId", |arg| convert::to(arg, Type::ObjectId)),
    own("$toString", |arg| convert::to(arg, Type::String)),
    own("$toUUID", |arg| convert::to(arg, Type::Binary)),
    call("$toUpper", Arity::Exactly(1), text::to_upper),
    own("$trim", trim::trim),
    call("$trunc", Arity::Between(1, 2), rounding::trunc),
    call("$tsIncrement", Arity::Exactly(1), misc::ts_increment),
    call("$tsSecond", Arity::Exactly(1), misc::ts_second),
    call("$type", Arity::Exactly(1), misc::type_),
    own("$unsetField", field_access::unset_field),
    own("$week", |arg| date::extract(arg, DatePart::Week)),
    own("$year", |arg| date::extract(arg, DatePart::Year)),
    own("$zip", array_make::zip),
];

const fn call(name: &'static str, arity: Arity, eval: Eval) -> Entry<ExprParser> {
    ready(name, ExprParser::Call(arity, eval))
}

const fn own(name: &'static str, parse: ParseExpr) -> Entry<ExprParser> {
    ready(name, ExprParser::Own(parse))
}
