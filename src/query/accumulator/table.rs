//! The table of all accumulators.

use super::rule::Accumulator;
use super::state::State;
use super::{collect, deviation, edge, extreme, percentile, sum, top};
use crate::error::Result;
use crate::query::expr::Argument;
use crate::vocabulary::{Entry, Vocabulary, planned, ready};

/// How an accumulator parses its argument.
#[derive(Clone, Copy)]
pub enum Parse {
    /// The argument is the input expression. Every group starts with the same state.
    Plain(fn() -> Box<dyn State>),
    /// The accumulator has a parser of its own.
    Own(ParseOwn),
}

pub type ParseOwn = fn(Argument<'_>) -> Result<Accumulator>;

pub static ACCUMULATORS: Vocabulary<Parse> = Vocabulary::new("Accumulator", ROWS);

/// Sorted by name.
const ROWS: &[Entry<Parse>] = &[
    planned("$accumulator"),
    plain("$addToSet", collect::add_to_set),
    plain("$avg", sum::avg),
    own("$bottom", top::bottom),
    own("$bottomN", top::bottom_n),
    plain("$concatArrays", collect::concat_arrays),
    own("$count", sum::count),
    plain("$first", edge::first),
    own("$firstN", edge::first_n),
    plain("$last", edge::last),
    own("$lastN", edge::last_n),
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

const fn plain(name: &'static str, start: fn() -> Box<dyn State>) -> Entry<Parse> {
    ready(name, Parse::Plain(start))
}

const fn own(name: &'static str, parse: ParseOwn) -> Entry<Parse> {
    ready(name, Parse::Own(parse))
}
