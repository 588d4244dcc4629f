//! Updates that need no new document, because each new value is as wide as the old one.
//!
//! Most updates in practice are of this kind: a counter, a flag, a date. [`rewrite`](super::rewrite) would write the old
//! document except for a few bytes, so only those bytes are computed here. `rewrite` handles all other updates, and
//! errors.

use smallvec::SmallVec;

use crate::value::{Doc, Patch};

use super::Apply;
use super::modify::{LeafContext, Trail, ValueChange};
use super::tree::{FieldNodes, UpdateNode};

/// Returns the changes that the leaves of root fields make to a document, or `None` if a change does not fit.
pub fn patch(fields: &FieldNodes, doc: Doc<'_>, apply: &Apply<'_>) -> Option<Patch> {
    let mut patch = Patch::default();
    let mut found: SmallVec<[bool; 8]> = SmallVec::from_elem(false, fields.children.len());
    let mut waiting = fields.children.len();
    let mut elems = doc.iter();
    while waiting > 0 {
        // A field that is missing needs a new document too.
        let elem = elems.next()?;
        let Some(position) = fields.find(elem.name_bytes()) else {
            continue;
        };
        // If a document has two fields of one name, only the first one counts.
        if std::mem::replace(&mut found[position], true) {
            continue;
        }
        waiting -= 1;
        let child = &fields.children[position];
        let UpdateNode::Leaf(leaf) = &child.node else {
            return None;
        };
        let at = LeafContext {
            trail: &Trail::child(None, &child.name, false),
            root: doc,
            apply,
        };
        let new = match leaf.existing(elem.value, &at).ok()? {
            ValueChange::Same => continue,
            ValueChange::Put(new) => new,
            ValueChange::Remove => return None,
        };
        let (new, old) = (new.as_ref(), elem.value);
        if new.data().len() != old.data().len() {
            return None;
        }
        // After the value come the remaining elements and the terminator of the document.
        let value = doc.bytes().len() - 1 - elems.rest().len() - old.data().len();
        if new.ty() != old.ty() {
            let tag = value - 1 - elem.name_bytes().len() - 1;
            patch.put(tag, &[new.ty().tag()])?;
        }
        patch.put(value, new.data())?;
    }
    Some(patch)
}
