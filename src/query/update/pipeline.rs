//! Pipeline updates: `[{$set: ...}, {$unset: ...}, ...]`, each stage over the document that the one before made.

use crate::error::{Error, Result};
use crate::query::Scope;
use crate::query::stage::Transform;
use crate::value::Doc;

use super::Apply;
use super::check::MAX_SIZE;
use super::replace::{Names, replace, without_ts};

pub struct Pipeline(Transform);

// === impl Pipeline ===

impl Pipeline {
    pub fn parse(stages: Doc<'_>, scope: &Scope) -> Result<Self> {
        Ok(Self(Transform::parse(stages, scope)?))
    }

    pub fn apply(&self, old: Doc<'_>, apply: &Apply<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let current = self.0.apply(old, apply.vars)?;
        if current.len() > MAX_SIZE {
            return Err(Error::location(
                17419,
                format!("Resulting document after update is larger than {MAX_SIZE}"),
            ));
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
