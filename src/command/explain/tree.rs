//! Prints a plan as the stages that MongoDB shows, with or without their figures.

use crate::command::reply::put_count;
use crate::value::{Doc, DocBuf, DocBuilder};

/// The most bytes that a blocking stage may hold.
pub(super) const MEMORY: i32 = 100 * 1024 * 1024;

/// The stages of a plan: the stages around the access, outermost first, and the access as the planner prints it.
pub(super) struct PlanTree {
    pub outer: Vec<OuterStage>,
    pub access: DocBuf,
    /// The number of rows that a blocking sort keeps, if it does not keep all.
    pub sort_limit: Option<u64>,
}

/// A stage around the access.
pub(super) enum OuterStage {
    Limit(u64),
    Skip(u64),
    /// A projection. It is simple if it has plain names only.
    Projection {
        simple: bool,
        spec: DocBuf,
    },
    Count,
    Update,
    Delete {
        multi: bool,
    },
}

/// The figures of an execution.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExecutionStats {
    pub keys: u64,
    pub documents: u64,
    /// The number of documents that passed the filter.
    pub matched: u64,
    /// The number of rows at the end of the reading part.
    pub returned: u64,
    pub would_match: u64,
    pub would_modify: u64,
    pub would_upsert: u64,
    pub would_delete: u64,
    /// The result of a count that reads no document.
    pub fast_count: Option<u64>,
    pub millis: i64,
}

// === impl PlanTree ===

impl PlanTree {
    pub fn put(&self, figures: Option<&ExecutionStats>, out: &mut DocBuilder<'_>) {
        out.put_bool("isCached", false);
        self.level(0, figures, out);
    }

    /// Returns the value of `executionStats.nReturned`.
    pub fn returned(&self, figures: &ExecutionStats) -> u64 {
        match self.outer.first() {
            Some(outer) => outer.returned(figures),
            None if figures.fast_count.is_some() => 0,
            None => figures.returned,
        }
    }

    fn level(&self, at: usize, figures: Option<&ExecutionStats>, out: &mut DocBuilder<'_>) {
        let Some(outer) = self.outer.get(at) else {
            return self.copy(self.access.as_doc(), figures, out);
        };
        out.put_str("stage", outer.name());
        if let Some(figures) = figures {
            put_common(outer.returned(figures), figures, out);
        }
        outer.put(figures, out);
        let mut input = out.doc("inputStage");
        self.level(at + 1, figures, &mut input);
        input.end();
    }

    /// Writes a stage of the access and the stages under it, at most four levels.
    fn copy(&self, stage: Doc<'_>, figures: Option<&ExecutionStats>, out: &mut DocBuilder<'_>) {
        let name = stage.get("stage").as_str().unwrap_or_default();
        out.put_str("stage", name)
            .put("filter", stage.get("filter"));
        if let Some(figures) = figures {
            put_common(self.returned_by(name, figures), figures, out);
        }
        for elem in stage {
            if !matches!(
                elem.name(),
                "stage" | "filter" | "inputStage" | "inputStages"
            ) {
                out.put(elem.name(), elem.value);
            }
        }
        if name == "SORT"
            && let Some(limit) = self.sort_limit
        {
            put_count(out, "limitAmount", limit);
        }
        if let Some(figures) = figures {
            put_own(name, figures, out);
        }
        if let Some(input) = stage.get("inputStage").as_doc() {
            let mut inner = out.doc("inputStage");
            self.copy(input, figures, &mut inner);
            inner.end();
        }
        if let Some(inputs) = stage.get("inputStages").as_array() {
            let mut list = out.array("inputStages");
            for input in inputs.iter().filter_map(|elem| elem.value.as_doc()) {
                // These stages have no figures, because the work is not counted per branch.
                let mut inner = list.doc();
                self.copy(input, None, &mut inner);
                inner.end();
            }
            list.end();
        }
    }

    fn returned_by(&self, stage: &str, figures: &ExecutionStats) -> u64 {
        match stage {
            "EOF" | "RECORD_STORE_FAST_COUNT" => 0,
            "IXSCAN" | "OR" => figures.documents,
            "SORT" => figures.matched.min(self.sort_limit.unwrap_or(u64::MAX)),
            _ => figures.matched,
        }
    }
}

fn put_common(returned: u64, figures: &ExecutionStats, out: &mut DocBuilder<'_>) {
    let works = figures.documents.max(figures.keys) + 1;
    put_count(out, "nReturned", returned);
    out.put_i32("executionTimeMillisEstimate", figures.millis as i32);
    put_count(out, "works", works);
    put_count(out, "advanced", returned);
    put_count(out, "needTime", works.saturating_sub(returned + 1));
    out.put_i32("needYield", 0)
        .put_i32("saveState", 0)
        .put_i32("restoreState", 0)
        .put_i32("isEOF", 1);
}

fn put_own(stage: &str, figures: &ExecutionStats, out: &mut DocBuilder<'_>) {
    match stage {
        "COLLSCAN" => put_count(out, "docsExamined", figures.documents),
        "IDHACK" => {
            put_count(out, "keysExamined", figures.keys);
            put_count(out, "docsExamined", figures.documents);
        }
        "FETCH" => {
            put_count(out, "docsExamined", figures.documents);
            out.put_i32("alreadyHasObj", 0);
        }
        "IXSCAN" => {
            put_count(out, "keysExamined", figures.keys);
            out.put_i32("seeks", 1);
            put_count(out, "dupsTested", figures.keys);
            put_count(
                out,
                "dupsDropped",
                figures.keys.saturating_sub(figures.documents),
            );
        }
        "SORT" => {
            out.put_bool("usedDisk", false).put_i32("spills", 0);
        }
        "RECORD_STORE_FAST_COUNT" => {
            put_count(out, "nCounted", figures.fast_count.unwrap_or(0));
            out.put_i32("nSkipped", 0);
        }
        _ => {}
    }
}

// === impl OuterStage ===

impl OuterStage {
    fn name(&self) -> &'static str {
        match self {
            Self::Limit(_) => "LIMIT",
            Self::Skip(_) => "SKIP",
            Self::Projection { simple: true, .. } => "PROJECTION_SIMPLE",
            Self::Projection { simple: false, .. } => "PROJECTION_DEFAULT",
            Self::Count => "COUNT",
            Self::Update => "UPDATE",
            Self::Delete { multi: false } => "DELETE",
            Self::Delete { multi: true } => "BATCHED_DELETE",
        }
    }

    fn returned(&self, figures: &ExecutionStats) -> u64 {
        match self {
            Self::Count => 0,
            _ => figures.returned,
        }
    }

    fn put(&self, figures: Option<&ExecutionStats>, out: &mut DocBuilder<'_>) {
        match self {
            Self::Limit(limit) => put_count(out, "limitAmount", *limit),
            Self::Skip(skip) => put_count(out, "skipAmount", *skip),
            Self::Projection { spec, .. } => {
                out.put_doc("transformBy", spec.as_doc());
            }
            Self::Count | Self::Update | Self::Delete { .. } => {}
        }
        let Some(figures) = figures else { return };
        match self {
            Self::Count => {
                put_count(out, "nCounted", figures.returned);
                put_count(out, "nSkipped", figures.matched - figures.returned);
            }
            Self::Update => {
                put_count(out, "nMatched", figures.would_match);
                put_count(out, "nWouldModify", figures.would_modify);
                put_count(out, "nWouldUpsert", figures.would_upsert);
            }
            Self::Delete { .. } => put_count(out, "nWouldDelete", figures.would_delete),
            _ => {}
        }
    }
}
