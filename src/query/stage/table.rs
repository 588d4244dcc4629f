//! Every stage that MongoDB 8.2 knows.

use super::place::{Place, Position};
use super::{
    Stage, add_fields, bucket, bucket_auto, coll_stats, count, current_op, documents, facet, group,
    index_stats, limit, lookup, match_, merge, out, project, redact, replace_root, sample, skip,
    sort, sort_by_count, union_with, unset, unwind,
};
use crate::error::Result;
use crate::value::ValueRef;

/// One row of the table.
pub struct Entry {
    pub name: &'static str,
    pub status: Status,
    pub position: Position,
    /// May stand in a pipeline of `$facet`.
    pub in_facet: bool,
    /// May stand in the pipeline of `$lookup` or `$unionWith`.
    pub in_sub: bool,
    pub runs_on: RunsOn,
}

/// What an aggregate that begins with the stage has to name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    Collection,
    Database,
    Both,
}

#[derive(Clone, Copy)]
pub enum Status {
    Ready(Parse),
    /// Known, and refused by name.
    Planned,
}

/// Parses the argument of a stage and pushes what it comes to: mostly one stage, for some a row of simpler ones.
pub type Parse = fn(ValueRef<'_>, &Place<'_>, &mut dyn FnMut(Stage)) -> Result<()>;

const fn any(name: &'static str, parse: Parse) -> Entry {
    Entry {
        name,
        status: Status::Ready(parse),
        position: Position::Any,
        in_facet: true,
        in_sub: true,
        runs_on: RunsOn::Collection,
    }
}

/// Stands first; brings its own rows.
const fn first(name: &'static str, parse: Parse) -> Entry {
    Entry {
        position: Position::First,
        in_facet: false,
        ..any(name, parse)
    }
}

/// Stands last; writes.
const fn last(name: &'static str, parse: Parse) -> Entry {
    Entry {
        position: Position::Last,
        in_facet: false,
        in_sub: false,
        ..any(name, parse)
    }
}

const fn planned(name: &'static str) -> Entry {
    Entry {
        name,
        status: Status::Planned,
        position: Position::Any,
        in_facet: true,
        in_sub: true,
        runs_on: RunsOn::Collection,
    }
}

/// Not built yet; would stand first.
const fn planned_first(name: &'static str) -> Entry {
    Entry {
        position: Position::First,
        in_facet: false,
        ..planned(name)
    }
}

/// Not built yet; would stand first, and never in a pipeline of another stage.
const fn planned_top(name: &'static str) -> Entry {
    Entry {
        in_sub: false,
        ..planned_first(name)
    }
}

/// Not built yet; would run on a collection or on a database.
const fn planned_both(name: &'static str) -> Entry {
    Entry {
        runs_on: RunsOn::Both,
        ..planned_top(name)
    }
}

/// Not built yet; would run on a database.
const fn planned_database(name: &'static str) -> Entry {
    Entry {
        runs_on: RunsOn::Database,
        ..planned_first(name)
    }
}

/// Sorted by name.
pub static STAGES: &[Entry] = &[
    any("$addFields", add_fields::parse_add_fields),
    planned_database("$backupCursor"),
    planned_database("$backupCursorExtend"),
    any("$bucket", bucket::parse),
    any("$bucketAuto", bucket_auto::parse),
    planned_both("$changeStream"),
    planned_top("$changeStreamSplitLargeEvent"),
    first("$collStats", coll_stats::parse),
    any("$count", count::parse),
    Entry {
        runs_on: RunsOn::Database,
        ..first("$currentOp", current_op::parse)
    },
    planned("$densify"),
    Entry {
        runs_on: RunsOn::Database,
        ..first("$documents", documents::parse)
    },
    Entry {
        in_facet: false,
        ..any("$facet", facet::parse)
    },
    planned("$fill"),
    planned_first("$geoNear"),
    planned("$graphLookup"),
    any("$group", group::parse),
    first("$indexStats", index_stats::parse),
    any("$limit", limit::parse),
    planned_both("$listCatalog"),
    planned_database("$listClusterCatalog"),
    planned_database("$listLocalSessions"),
    planned_database("$listSampledQueries"),
    planned_first("$listSearchIndexes"),
    planned_top("$listSessions"),
    any("$lookup", lookup::parse),
    any("$match", match_::parse),
    last("$merge", merge::parse),
    planned_database("$operationMetrics"),
    last("$out", out::parse),
    planned_first("$planCacheStats"),
    any("$project", project::parse),
    planned_database("$querySettings"),
    planned_database("$queryStats"),
    planned_first("$rankFusion"),
    any("$redact", redact::parse),
    any("$replaceRoot", replace_root::parse_replace_root),
    any("$replaceWith", replace_root::parse_replace_with),
    any("$sample", sample::parse),
    planned("$score"),
    planned_first("$scoreFusion"),
    planned_first("$search"),
    planned_first("$searchBeta"),
    planned_first("$searchMeta"),
    any("$set", add_fields::parse_set),
    planned("$setWindowFields"),
    planned_database("$shardedDataDistribution"),
    any("$skip", skip::parse),
    any("$sort", sort::parse),
    any("$sortByCount", sort_by_count::parse),
    any("$unionWith", union_with::parse),
    any("$unset", unset::parse),
    any("$unwind", unwind::parse),
    planned_first("$vectorSearch"),
];

pub fn find(name: &str) -> Option<&'static Entry> {
    STAGES
        .binary_search_by(|entry| entry.name.cmp(name))
        .ok()
        .and_then(|at| STAGES.get(at))
}
