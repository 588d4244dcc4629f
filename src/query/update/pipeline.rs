//! Pipeline updates: `[{$set: ...}, {$unset: ...}, ...]`, each stage over the document that the one before made.

use crate::error::{Code, Error, Result};
use crate::query::Scope;
use crate::value::{Doc, ValueRef};

use super::Apply;
use super::check::MAX_SIZE;
use super::replace::{Names, replace, without_ts};

pub struct Pipeline {
    stages: Vec<Stage>,
}

enum Stage {}

// === impl Pipeline ===

impl Pipeline {
    pub fn parse(stages: Doc<'_>, scope: &Scope) -> Result<Self> {
        let mut parsed = Vec::new();
        for elem in stages {
            let Some(stage) = elem.value.as_doc() else {
                return Err(Error::type_mismatch(
                    "Each element of the 'pipeline' array must be an object",
                ));
            };
            let (Some(spec), 1) = (stage.first(), stage.count()) else {
                return Err(Error::location(
                    40323,
                    "A pipeline stage specification object must contain exactly one field.",
                ));
            };
            parsed.push(Stage::parse(spec.name(), spec.value, scope)?);
        }
        Ok(Self { stages: parsed })
    }

    pub fn apply(&self, old: Doc<'_>, apply: &Apply<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let mut current = old.bytes().to_vec();
        for stage in &self.stages {
            current = stage.run(Doc::new(&current), apply)?;
            if current.len() > MAX_SIZE {
                return Err(Error::location(
                    17419,
                    format!("Resulting document after update is larger than {MAX_SIZE}"),
                ));
            }
        }
        // Wherever it may come from ($replaceWith of a stored copy, say), `_ts` is not the client's to set.
        let current = without_ts(Doc::new(&current));
        if current == old.bytes() {
            return Ok(false);
        }
        replace(old, Doc::new(&current), apply, out, Names::Free, false)?;
        Ok(true)
    }
}

// === impl Stage ===

impl Stage {
    fn parse(name: &str, _spec: ValueRef<'_>, _scope: &Scope) -> Result<Self> {
        match name {
            "$set" | "$addFields" | "$unset" | "$project" | "$replaceRoot" | "$replaceWith" => {
                Err(Error::not_implemented(format!("{name} in an update")))
            }
            _ => Err(Error::new(
                Code::InvalidOptions,
                format!("{name} is not allowed to be used within an update"),
            )),
        }
    }

    fn run(&self, _doc: Doc<'_>, _apply: &Apply<'_>) -> Result<Vec<u8>> {
        match *self {}
    }
}
