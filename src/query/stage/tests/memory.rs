//! Collections in memory. Pipelines run over them twice: in one go, and with a time slice that is always over.

use std::collections::HashMap;
use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::super::*;
use crate::error::{Error, Result};
use crate::query::{Scope, Vars};
use crate::value::{Doc, DocBuf, Millis, ValueRef, equal};

/// Collections as plain lists. Only `_id` is "indexed".
#[derive(Default)]
pub struct Memory(HashMap<String, Vec<Document>>);

struct MemoryRows {
    docs: Vec<DocBuf>,
    next: usize,
}

struct Over;

impl StepBudget for Over {
    fn is_over(&self) -> bool {
        true
    }
}

impl Rows for MemoryRows {
    fn fill(&mut self, _: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        // Batches are small, so that even a short list needs several.
        for _ in 0..3 {
            let Some(doc) = self.docs.get(self.next) else {
                return Ok(Flow::End);
            };
            let origin = Origin {
                source: 0,
                record: self.next as u64,
            };
            out.push(doc.as_doc(), Some(origin));
            self.next += 1;
            if out.is_full() {
                break;
            }
        }
        Ok(Flow::More)
    }

    fn suspend(&mut self) -> usize {
        0
    }
}

impl Memory {
    fn list(&self, name: &str) -> Vec<DocBuf> {
        self.0
            .get(name)
            .map(|docs| docs.iter().map(DocBuf::from).collect())
            .unwrap_or_default()
    }
}

impl Sources for Memory {
    fn open(
        &self,
        _: &RowContext<'_>,
        from: &CollectionName,
        spec: &SourceSpec,
    ) -> Result<Box<dyn Rows>> {
        let mut rows: Box<dyn Rows> = Box::new(MemoryRows {
            docs: self.list(&from.coll),
            next: 0,
        });
        if let Some(filter) = &spec.filter {
            rows = super::filter(rows, filter.clone());
        }
        if let Some(sort) = &spec.sort {
            rows = super::sort(
                rows,
                sort.clone(),
                spec.limit.map(|limit| limit + spec.skip),
            );
        }
        rows = super::skip(rows, spec.skip);
        if let Some(limit) = spec.limit {
            rows = super::limit(rows, limit);
        }
        Ok(rows)
    }

    fn find_equal(
        &self,
        _: &RowContext<'_>,
        from: &CollectionName,
        field: &str,
        keys: &[ValueRef<'_>],
        each: &mut dyn FnMut(Doc<'_>, Option<Origin>) -> Result<()>,
    ) -> Result<bool> {
        if field != "_id" {
            return Ok(false);
        }
        for doc in self.list(&from.coll) {
            if keys.iter().any(|key| equal(*key, doc.as_doc().get("_id"))) {
                each(doc.as_doc(), None)?;
            }
        }
        Ok(true)
    }

    fn sink(&self, _: &RowContext<'_>, _: &Arc<Output>) -> Result<Box<dyn Sink>> {
        Err(Error::not_implemented("writing"))
    }

    fn report(
        &self,
        _: &RowContext<'_>,
        _: &CollectionName,
        _: &Report,
        _: &mut RowBatch,
    ) -> Result<()> {
        Err(Error::not_implemented("reporting"))
    }
}

pub fn run_with(
    memory: &Memory,
    stages: &[Document],
    slice: &dyn StepBudget,
    optimise: bool,
) -> Result<(Vec<Document>, usize)> {
    let spec = DocBuf::from(doc! {"p": stages.to_vec()});
    let scope = Scope::new();
    let first = stages.first().and_then(|stage| stage.keys().next());
    let coll = (first.map(String::as_str) != Some("$documents")).then_some("a");
    let context = StageContext::new(&scope, "db", coll);
    let mut pipeline = Pipeline::parse(spec.as_doc().get("p").as_array().unwrap(), &context)?;
    if optimise {
        pipeline = pipeline.optimise()?;
    }
    let vars = Vars::at(Millis(1_000));
    let mut cx = RowContext {
        vars: &vars,
        slice,
        limits: PipelineLimits {
            memory: 1 << 20,
            allow_disk_use: false,
        },
        sources: memory,
    };
    let mut rows = if pipeline.is_own_source() {
        pipeline.open(Box::new(Empty))
    } else {
        let (spec, rest) = pipeline.split_source();
        rest.open(memory.open(&cx, &CollectionName::new("db", "a"), &spec)?)
    };
    let (mut found, mut origins) = (Vec::new(), 0);
    let mut batch = RowBatch::new();
    for _ in 0..100_000 {
        batch.clear();
        let flow = rows.fill(&mut cx, &mut batch)?;
        for row in batch.iter() {
            found.push(Document::from_reader(row.doc.bytes()).unwrap());
            origins += usize::from(row.origin.is_some());
        }
        if flow == Flow::End {
            return Ok((found, origins));
        }
        if slice.is_over() {
            // As between two commands, the stages free their buffers. The result must not change.
            rows.suspend();
        }
    }
    panic!("does not end: {stages:?}");
}

pub fn run(memory: &Memory, stages: &[Document]) -> Result<Vec<Document>> {
    let at_once = run_with(memory, stages, &Endless, true);
    let in_slices = run_with(memory, stages, &Over, true);
    assert_eq!(at_once, in_slices, "{stages:?}");
    at_once.map(|(found, _)| found)
}

pub fn memory(docs: Vec<Document>) -> Memory {
    Memory(HashMap::from([
        ("a".to_owned(), docs),
        (
            "b".to_owned(),
            vec![
                doc! {"_id": 1, "x": "one", "k": [7, 8]},
                doc! {"_id": 2, "x": "two", "k": 8},
                doc! {"_id": 3, "x": "three"},
            ],
        ),
    ]))
}

pub fn numbers() -> Memory {
    memory(
        (0..20)
            .map(|n| doc! {"_id": n, "m": n % 3, "v": 19 - n})
            .collect(),
    )
}

pub fn stages(list: Bson) -> Vec<Document> {
    let Bson::Array(list) = list else { panic!() };
    list.into_iter()
        .map(|stage| stage.as_document().unwrap().clone())
        .collect()
}
