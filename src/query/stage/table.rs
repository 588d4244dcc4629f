//! The table of all stages.

use super::facts::{
    Changes, ConditionPosition, DocumentsAfter, EarlyCheck, Entry, InChangeStream, Mover, Need,
    RowsFrom, Stable, StageFacts, StageParser,
};
use super::levels::{fused, only_pipeline};
use super::{
    add_fields, bucket, bucket_auto, change_stream, coll_stats, count, current_op, documents,
    facet, group, index_stats, limit, list_sessions, lookup, match_, merge, out, project, redact,
    replace_root, sample, skip, sort, sort_by_count, union_with, unset, unwind,
};
use crate::value::ValueRef;
use crate::vocabulary::Vocabulary;

pub static STAGES: Vocabulary<StageParser, StageFacts> = Vocabulary::new("", ROWS);

/// Sorted by name.
const ROWS: &[Entry] = &[
    Entry::each("$addFields", add_fields::parse_add_fields)
        .changes(Changes::Fields(add_fields::written)),
    planned_server("$backupCursor", Need::Everything),
    planned_server("$backupCursorExtend", Need::Everything),
    Entry::ready("$bucket", bucket::parse)
        .in_plan_shape()
        .overtaken_by(&[Mover::Match]),
    Entry::ready("$bucketAuto", bucket_auto::parse),
    Entry::ready("$changeStream", change_stream::parse)
        .first(RowsFrom::Stage, Need::ChangeStream)
        .on_both()
        .not_in_sub()
        .not_in_view()
        .stable(Stable::If(
            change_stream::is_stable,
            "The 'showExpandedEvents' parameter to $changeStream is not supported in API Version 1",
        )),
    Entry::ready("$changeStreamSplitLargeEvent", change_stream::parse_split)
        .in_change_stream(InChangeStream::OnlyLast)
        .not_in_facet()
        .not_in_sub()
        .not_in_view()
        .stable(Stable::Never),
    Entry::ready("$collStats", coll_stats::parse)
        .early(EarlyCheck::Argument)
        .first(RowsFrom::Stage, Need::CollStats)
        .stable(Stable::If(
            coll_stats::only_counts,
            "only the 'count' option to $collStats is supported in API Version 1",
        )),
    Entry::ready("$count", count::parse).in_plan_shape(),
    Entry::ready("$currentOp", current_op::parse)
        .first(RowsFrom::Server, Need::CurrentOp)
        .on_database()
        .stable(Stable::Never),
    Entry::planned("$densify")
        .in_plan_shape()
        .documents(DocumentsAfter::Joined),
    Entry::ready("$documents", documents::parse)
        .first(RowsFrom::Command, Need::LoggedIn)
        .on_database(),
    Entry::ready("$facet", facet::parse)
        .not_in_facet()
        .inner(facet::inner)
        .early(EarlyCheck::Part(facet::check_early))
        .documents(DocumentsAfter::Taken),
    Entry::planned("$fill")
        .in_change_stream(InChangeStream::Allowed)
        .changes(Changes::Fields(output))
        .stable(Stable::Never),
    Entry::planned("$geoNear")
        .first_or(40603, RowsFrom::Stage, Need::Find)
        .condition(ConditionPosition::InQuery)
        .documents(DocumentsAfter::Pass),
    Entry::planned("$graphLookup")
        .changes(Changes::Fields(lookup::written))
        .overtaken_by(&[Mover::Match, Mover::Sort, Mover::Limit]),
    Entry::ready("$group", group::parse)
        .in_plan_shape()
        .overtaken_by(&[Mover::Match]),
    Entry::ready("$indexStats", index_stats::parse)
        .first(RowsFrom::Stage, Need::IndexStats)
        .stable(Stable::Never),
    Entry::ready("$limit", limit::parse).changes(Changes::Nothing),
    Entry::planned("$listCatalog")
        .first(RowsFrom::Stage, Need::ListCatalog)
        .on_both()
        .not_in_sub()
        .stable(Stable::Never),
    planned_server("$listClusterCatalog", Need::ListCatalog),
    Entry::ready("$listLocalSessions", list_sessions::parse_local)
        .first(RowsFrom::Server, Need::ListSessions)
        .on_database()
        .stable(Stable::Never),
    planned_server("$listSampledQueries", Need::Everything),
    Entry::planned("$listSearchIndexes")
        .first(RowsFrom::Stage, Need::ListSearchIndexes)
        .stable(Stable::Never),
    Entry::ready("$listSessions", list_sessions::parse_all)
        .first(RowsFrom::Stage, Need::ListSessions)
        .on_only("config", "system.sessions")
        .not_in_sub()
        .stable(Stable::Never),
    Entry::ready("$lookup", lookup::parse)
        .changes(Changes::Fields(lookup::written))
        .early(EarlyCheck::Part(lookup::check_early))
        .in_plan_shape()
        .inner(only_pipeline)
        .overtaken_by(&[Mover::Match, Mover::Sort, Mover::Limit]),
    Entry::ready("$match", match_::parse)
        .changes(Changes::Nothing)
        .in_change_stream(InChangeStream::Allowed),
    Entry::ready("$merge", merge::parse)
        .early(EarlyCheck::Part(merge::check_early))
        .last(),
    planned_server("$operationMetrics", Need::Everything),
    Entry::ready("$out", out::parse)
        .early(EarlyCheck::Argument)
        .last(),
    Entry::planned("$planCacheStats")
        .first(RowsFrom::Stage, Need::PlanCacheRead)
        .stable(Stable::Never),
    Entry::each("$project", project::parse_project)
        .changes(Changes::Selection(project::written, project::passes))
        .in_plan_shape(),
    planned_server("$querySettings", Need::Everything),
    planned_server("$queryStats", Need::QueryStats),
    planned_search("$rankFusion")
        .inner(fused)
        .condition(ConditionPosition::Impossible),
    Entry::ready("$redact", redact::parse)
        .documents(DocumentsAfter::Pass)
        .in_change_stream(InChangeStream::Allowed),
    Entry::each("$replaceRoot", replace_root::parse_replace_root).in_plan_shape(),
    Entry::each("$replaceWith", replace_root::parse_replace_with),
    Entry::ready("$sample", sample::parse).changes(Changes::Nothing),
    Entry::planned("$score")
        .stable(Stable::Never)
        .documents(DocumentsAfter::Pass),
    planned_search("$scoreFusion")
        .inner(fused)
        .condition(ConditionPosition::Impossible),
    planned_search("$search"),
    planned_search("$searchBeta"),
    planned_search("$searchMeta").condition(ConditionPosition::Impossible),
    Entry::each("$set", add_fields::parse_set).changes(Changes::Fields(add_fields::written)),
    Entry::planned("$setWindowFields")
        .changes(Changes::Fields(output))
        .in_plan_shape(),
    planned_server("$shardedDataDistribution", Need::Everything).stable(Stable::Always),
    Entry::ready("$skip", skip::parse).changes(Changes::Nothing),
    Entry::ready("$sort", sort::parse)
        .changes(Changes::Nothing)
        .in_plan_shape()
        .overtaken_by(&[Mover::Match]),
    Entry::ready("$sortByCount", sort_by_count::parse)
        .in_plan_shape()
        .overtaken_by(&[Mover::Match]),
    Entry::ready("$unionWith", union_with::parse)
        .early(EarlyCheck::Part(union_with::check_early))
        .inner(only_pipeline)
        .documents(DocumentsAfter::Joined)
        .overtaken_by(&[Mover::Match]),
    Entry::each("$unset", unset::parse_unset).changes(Changes::Fields(unset::written)),
    Entry::ready("$unwind", unwind::parse)
        .documents(DocumentsAfter::Pass)
        .overtaken_by(&[Mover::Match, Mover::Sort]),
    planned_search("$vectorSearch"),
];

/// Declares a stage that reports on the server as a whole.
const fn planned_server(name: &'static str, needs: Need) -> Entry {
    Entry::planned(name)
        .first(RowsFrom::Server, needs)
        .on_database()
        .stable(Stable::Never)
}

/// Declares a stage that queries a search index.
const fn planned_search(name: &'static str) -> Entry {
    Entry::planned(name)
        .first(RowsFrom::Stage, Need::Find)
        .stable(Stable::Never)
        .condition(ConditionPosition::Behind)
        .documents(DocumentsAfter::Pass)
}

/// Visits the fields of `output`, which `$fill` and `$setWindowFields` write.
fn output<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
    let output = spec.as_doc().and_then(|spec| spec.get("output").as_doc());
    for field in output.into_iter().flatten() {
        visit(field.name());
    }
}
