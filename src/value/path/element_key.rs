//! The walk of `$push` with `$sort` and of `$sortArray` along the paths of their order.

use super::Path;
use crate::value::ValueRef;

impl Path {
    /// Returns the value by which an element is sorted, or null if there is none. Documents and arrays alike are entered by
    /// name. At each level, a field whose name is the whole rest of the path takes precedence.
    pub fn element_key<'a>(&self, element: ValueRef<'a>) -> ValueRef<'a> {
        let mut rest = self.rest();
        let mut inside = element.as_doc();
        while let (Some(fields), Some((name, _, next))) = (inside, rest.split()) {
            let whole = fields.get(rest.as_str());
            if !whole.is_missing() {
                return whole;
            }
            let value = fields.get(name);
            inside = value.as_doc().or_else(|| value.as_array());
            rest = next;
        }
        ValueRef::NULL
    }
}
