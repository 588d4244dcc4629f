//! The table of all accumulators.

use super::rule::Accumulator;
use super::state::AccumulatorState;
use super::{collect, deviation, extreme, first_last, percentile, sum, top};
use crate::error::Result;
use crate::query::expr::ExprArgument;
use crate::vocabulary::{Entry, Vocabulary, planned, ready};

/// How an accumulator parses its argument.
#[derive(Clone, Copy)]
pub enum AccumulatorParser {
    /// The argument is the input expression. Every group starts with the same state.
    Plain(fn() -> Box<dyn AccumulatorState>),
    /// The accumulator has a parser of its own.
    Own(ParseAccumulator),
}

pub type ParseAccumulator = fn(ExprArgument<'_>) -> Result<Accumulator>;

pub static ACCUMULATORS: Vocabulary<AccumulatorParser> = Vocabulary::new("Accumulator", ROWS);

/// Sorted by name.
const ROWS: &[Entry<AccumulatorParser>] = &[
    planned("$accumulator"),
    plain("$addToSet", collect::add_to_set),
    plain("$avg", sum::avg),
    own("$bottom", top::bottom),
    own("$bottomN", top::bottom_n),
    plain("$concatArrays", collect::concat_arrays),
    own("$count", sum::count),
    plain("$first", first_last::first),
    own("$firstN", first_last::first_n),
    plain("$last", first_last::last),
    own("$lastN", first_last::last_n),
    plain("$max", extreme::max),
    own("$maxN", extreme::max_n),
    own("$median", percentile::median),
    plain("$mergeObjects", collect::merge_objects),
    plain("$min", extreme::min),
    own("$minN", extreme::min_n),
    own("$percentile", percentile::percentile),
    plain("$push", collect::push),
    plain("$setUnion", collect::set_union),
    plain("$stdDevPop", deviation::std_dev_pop),
    plain("$stdDevSamp", deviation::std_dev_samp),
    plain("$sum", sum::sum),
    own("$top", top::top),
    own("$topN", top::top_n),
];

const fn plain(
    name: &'static str,
    start: fn() -> Box<dyn AccumulatorState>,
) -> Entry<AccumulatorParser> {
    ready(name, AccumulatorParser::Plain(start))
}

const fn own(name: &'static str, parse: ParseAccumulator) -> Entry<AccumulatorParser> {
    ready(name, AccumulatorParser::Own(parse))
}
