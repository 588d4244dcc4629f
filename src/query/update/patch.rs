//! Updates that need no new document: each new value is as wide as the one whose place it takes.
//!
//! A counter that goes up, a flag, a date: most updates of most programs. What [`rewrite`](super::rewrite) would write is the
//! old document but for a few bytes, so only those are computed. Whatever is not that simple, errors included, is left to it.

use smallvec::SmallVec;

use crate::value::{Doc, Patch};

use super::Apply;
use super::modify::{At, Change, Trail};
use super::tree::{Fields, Node};

/// The changes that leaves of root fields make of a document; `None` if one of them is more than that.
pub fn patch(fields: &Fields, doc: Doc<'_>, apply: &Apply<'_>) -> Option<Patch> {
    let mut patch = Patch::default();
    let mut found: SmallVec<[bool; 8]> = SmallVec::from_elem(false, fields.children.len());
    let mut waiting = fields.children.len();
    let mut elems = doc.iter();
    while waiting > 0 {
        // A field that would have to be added ends this, too.
        let elem = elems.next()?;
        let Some(place) = fields.find(elem.name_bytes()) else {
            continue;
        };
        // Only the first field of a name counts, should a document have two.
        if std::mem::replace(&mut found[place], true) {
            continue;
        }
        waiting -= 1;
        let child = &fields.children[place];
        let Node::Leaf(leaf) = &child.node else {
            return None;
        };
        let at = At {
            trail: &Trail::child(None, &child.name, false),
            root: doc,
            apply,
        };
        let new = match leaf.existing(elem.value, &at).ok()? {
            Change::Same => continue,
            Change::Put(new) => new,
            Change::Remove => return None,
        };
        let (new, old) = (new.as_ref(), elem.value);
        if new.data().len() != old.data().len() {
            return None;
        }
        // Behind the value is what is left to walk, and the end of the document.
        let value = doc.bytes().len() - 1 - elems.rest().len() - old.data().len();
        if new.ty() != old.ty() {
            let tag = value - 1 - elem.name_bytes().len() - 1;
            patch.put(tag, &[new.ty().tag()])?;
        }
        patch.put(value, new.data())?;
    }
    Some(patch)
}
