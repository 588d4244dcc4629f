//! `$unwind`: one row for each element of an array.

use std::sync::Arc;

use super::{Flow, RowBatch, RowContext, Rows, Stage, StageContext, StageOp};
use crate::args::{Arg, fields, object};
use crate::error::{Error, Result};
use crate::query::expr::FieldPath;
use crate::query::{PathOrigin, Survey};
use crate::value::{Doc, Path, Value, ValueRef};

struct Unwind {
    path: Path,
    /// True if rows without an element stay as they are.
    preserve: bool,
    index: Option<Path>,
}

struct UnwindRows {
    input: Box<dyn Rows>,
    stage: Arc<Unwind>,
    batch: RowBatch,
    /// The input's answer when it filled `batch`.
    flow: Flow,
    /// The row of `batch` that is being unwound, the byte offset in its array, and the index of the next element.
    row: usize,
    offset: usize,
    next: i64,
    scratch: Vec<u8>,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    _: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let (mut path, mut preserve, mut index) = (value.as_str(), false, None);
    if path.is_none() {
        let words =
            "expected either a string or an object as specification for $unwind stage, got {}";
        for option in fields("$unwind", object(value, 15981, words)?) {
            match option.name() {
                "path" => {
                    let words = "expected a string as the path for $unwind stage, got {}";
                    path = Some(option.expect(ValueRef::as_str, 28808, words)?);
                }
                "preserveNullAndEmptyArrays" => {
                    let words = "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {}";
                    preserve = option.expect(ValueRef::as_bool, 28809, words)?;
                }
                "includeArrayIndex" => index = Some(index_field(option)?),
                _ => return Err(option.refuse(28811, "unrecognized option to $unwind stage: {}")),
            }
        }
    }
    let path = path
        .filter(|path| !path.is_empty())
        .ok_or_else(|| Error::location(28812, "no path specified to $unwind stage"))?;
    let path = path.strip_prefix('$').ok_or_else(|| {
        let words = "path option to $unwind stage should be prefixed with a '$': {}";
        Error::found(28818, words, path)
    })?;
    if path.contains('\0') {
        return Err(Error::location(
            16419,
            "field path must not contain embedded null characters",
        ));
    }
    push(Stage::StageOp(Arc::new(Unwind {
        path: FieldPath::parse(path)?.into_path(),
        preserve,
        index: index
            .map(FieldPath::parse)
            .transpose()?
            .map(FieldPath::into_path),
    })));
    Ok(())
}

/// Parses the field that receives the index of each element.
fn index_field<'a>(option: Arg<'a>) -> Result<&'a str> {
    let read = |value: ValueRef<'a>| value.as_str().filter(|name| !name.is_empty());
    let words =
        "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got {}";
    let name = option.expect(read, 28810, words)?;
    if name.starts_with('$') {
        let words =
            "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {}";
        return Err(Error::found(28822, words, name));
    }
    Ok(name)
}

// === impl Unwind ===

impl StageOp for Unwind {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(UnwindRows {
            input,
            stage: self,
            batch: RowBatch::new(),
            flow: Flow::More,
            row: 0,
            offset: 0,
            next: 0,
            scratch: Vec::new(),
        })
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        for path in std::iter::once(&self.path).chain(&self.index) {
            survey.path(path);
        }
    }

    fn origin(&self, path: &Path) -> PathOrigin {
        let indexed = self.index.as_ref();
        let changed = indexed.is_some_and(|index| index.first() == path.first())
            || self.path.is_above(path)
            || path.is_above(&self.path);
        match changed {
            true => PathOrigin::Computed,
            false => PathOrigin::Same,
        }
    }

    fn keeps_every_row(&self) -> bool {
        self.preserve
    }
}

impl Unwind {
    fn emit(
        &self,
        doc: Doc<'_>,
        value: ValueRef<'_>,
        index: Option<i64>,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let Some(name) = &self.index else {
            self.path.put(doc, value, out);
            return;
        };
        scratch.clear();
        self.path.put(doc, value, scratch);
        let index = index.map_or(Value::null(), Value::int64);
        name.put(Doc::new(scratch), index.as_ref(), out);
    }
}

// === impl UnwindRows ===

impl Rows for UnwindRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        loop {
            while let Some(row) = self.batch.get(self.row) {
                let found = self.stage.path.get(row.doc);
                let (stage, scratch) = (&*self.stage, &mut self.scratch);
                let mut put = |value, index| {
                    let _ = out.push_with(row.origin, |bytes| {
                        stage.emit(row.doc, value, index, scratch, bytes);
                        Ok::<_, ()>(true)
                    });
                    out.is_full()
                };
                if let Some(array) = found.as_array() {
                    if array.is_empty() && stage.preserve {
                        put(ValueRef::MISSING, None);
                    }
                    let mut elements = array.iter_from(self.offset);
                    while let Some(elem) = elements.next() {
                        let full = put(elem.value, Some(self.next));
                        self.next += 1;
                        if full {
                            self.offset = array.body().len() - elements.rest().len();
                            return Ok(Flow::More);
                        }
                    }
                } else if !found.is_nullish() {
                    // A value that is not an array counts as an array with one element.
                    put(found, None);
                } else if stage.preserve {
                    put(found, None);
                }
                self.row += 1;
                self.offset = 0;
                self.next = 0;
                if self.row == self.batch.len() {
                    // A large document stays in one stage at a time, no matter how many stages there are.
                    self.batch.clear();
                }
                if out.is_full() {
                    return Ok(Flow::More);
                }
            }
            match self.flow {
                Flow::End => return Ok(Flow::End),
                Flow::Pause => {
                    self.flow = Flow::More;
                    return Ok(Flow::Pause);
                }
                Flow::More if self.row > 0 && cx.out_of_time() => {
                    self.batch.clear();
                    self.row = 0;
                    return Ok(Flow::Pause);
                }
                Flow::More => {}
            }
            self.batch.restart(out.room());
            self.row = 0;
            self.flow = self.input.fill(cx, &mut self.batch)?;
        }
    }

    fn suspend(&mut self) -> usize {
        self.scratch = Vec::new();
        self.batch.suspend() + self.input.suspend()
    }
}
