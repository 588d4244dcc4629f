//! The walk of `distinct` along the path of its `key`.

use super::Path;
use super::dotted::PathRest;
use crate::error::Result;
use crate::value::{Doc, Type, ValueRef};

impl Path {
    /// Calls `found` with every value that `distinct` finds. A number after an array names only an element. The last array
    /// is always opened, however it was reached. At each level, a field whose name is the whole rest of the path takes
    /// precedence.
    pub fn distinct_values<F>(&self, doc: Doc<'_>, found: &mut F) -> Result<()>
    where
        F: FnMut(ValueRef<'_>) -> Result<()>,
    {
        walk(self.rest(), doc, found)
    }
}

/// Walks one level. Each recursive call goes one level down, so the depth of documents bounds the recursion.
fn walk<F>(rest: PathRest<'_>, doc: Doc<'_>, found: &mut F) -> Result<()>
where
    F: FnMut(ValueRef<'_>) -> Result<()>,
{
    let value = doc.get(rest.as_str());
    match value.as_array() {
        Some(array) => return array.iter().try_for_each(|elem| found(elem.value)),
        None if !value.is_missing() => return found(value),
        None => {}
    }
    let Some((name, _, next)) = rest.split().filter(|(_, _, next)| !next.is_end()) else {
        return Ok(());
    };
    let value = doc.get(name);
    match value.ty() {
        Type::Document => walk(next, Doc::new(value.data()), found),
        Type::Array if next.is_number() => walk(next, Doc::new(value.data()), found),
        Type::Array => Doc::new(value.data())
            .iter()
            .filter_map(|elem| elem.value.as_doc())
            .try_for_each(|inner| walk(next, inner, found)),
        _ => Ok(()),
    }
}
