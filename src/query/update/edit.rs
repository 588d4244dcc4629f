//! Updates that only give existing root fields new values, or remove them. Most updates in practice are of this kind: a
//! counter, a flag, a date, a text.
//!
//! One walk over the document finds the fields and computes their values. As long as each new value is as wide as the old
//! one, only the bytes that differ are noted. From the first value of another width on, the walk writes the new document.
//! [`rewrite`](super::rewrite) handles all other updates, and errors.

use crate::value::{Doc, Elem, Patch, ValueRef};

use super::Apply;
use super::check::check_size;
use super::modify::{LeafContext, Trail, ValueChange};
use super::tree::{FieldNodes, UpdateNode};

/// What an update makes of a document.
#[derive(Debug, PartialEq, Eq)]
pub enum Edit {
    /// The bytes that differ. No other byte moves. Empty if nothing changes.
    InPlace(Patch),
    /// The whole new document.
    Rebuilt(Vec<u8>),
}

/// The state of a walk.
struct Editing<'d> {
    old: &'d [u8],
    patch: Patch,
    /// The new document, from the first value of another width on.
    rebuilt: Vec<u8>,
    /// How many bytes of the old document are behind the walk: `rebuilt` holds what became of them. 0 if nothing is
    /// rebuilt yet.
    passed: usize,
}

/// Returns what the leaves of root fields make of a document, or `None` if that takes more than new values.
pub fn edit(fields: &FieldNodes, doc: Doc<'_>, apply: &Apply<'_>) -> Option<Edit> {
    // One bit for each field that was not found yet.
    let mut open = match fields.children.len() {
        count @ 0..64 => (1_u64 << count) - 1,
        _ => return None,
    };
    let mut editing = Editing {
        old: doc.bytes(),
        patch: Patch::default(),
        rebuilt: Vec::new(),
        passed: 0,
    };
    let mut elems = doc.iter();
    while open != 0 {
        // A missing field may have to be created, in its order among the others.
        let elem = elems.next()?;
        let Some(place) = fields.find(elem.name_bytes()) else {
            continue;
        };
        // If a document has two fields of one name, only the first one counts.
        if open & 1 << place == 0 {
            continue;
        }
        open &= !(1 << place);
        let child = &fields.children[place];
        let UpdateNode::Leaf(leaf) = &child.node else {
            return None;
        };
        let at = LeafContext {
            trail: &Trail::child(None, &child.name, false),
            root: doc,
            apply,
        };
        // After the element come the remaining ones and the terminator of the document.
        let end = doc.bytes().len() - 1 - elems.rest().len();
        match leaf.existing(elem.value, &at).ok()? {
            ValueChange::Same => {}
            ValueChange::Put(new) => editing.put(elem, end, new.as_ref())?,
            ValueChange::Remove => editing.remove(elem, end),
        }
    }
    editing.finish()
}

// === impl Editing ===

impl Editing<'_> {
    /// Gives the element that ends at `end` a new value.
    #[inline]
    fn put(&mut self, elem: Elem<'_>, end: usize, new: ValueRef<'_>) -> Option<()> {
        let old = elem.value;
        let value = end - old.data().len();
        let fits = new.data().len() == old.data().len() && new.data().len() <= Patch::WIDEST;
        if self.passed > 0 || !fits {
            self.rebuild(elem, end, new);
            return Some(());
        }
        if new.ty() != old.ty() {
            self.patch.put(begin(elem, end), &[new.ty().tag()])?;
        }
        self.patch.put(value, new.data())
    }

    /// Writes the new document as far as the element that ends at `end`, with a new value.
    fn rebuild(&mut self, elem: Elem<'_>, end: usize, new: ValueRef<'_>) {
        let old = elem.value;
        let growth = new.data().len().saturating_sub(old.data().len());
        self.copy_to(end - old.data().len(), growth);
        if new.ty() != old.ty() {
            let tag = self.rebuilt.len() - elem.name_bytes().len() - 2;
            self.rebuilt[tag] = new.ty().tag();
        }
        self.rebuilt.extend_from_slice(new.data());
        self.passed = end;
    }

    fn remove(&mut self, elem: Elem<'_>, end: usize) {
        self.copy_to(begin(elem, end), 0);
        self.passed = end;
    }

    /// Copies the old bytes up to `at`. The first call makes room for the whole document.
    fn copy_to(&mut self, at: usize, growth: usize) {
        let is_first = self.passed == 0;
        if is_first {
            self.rebuilt = Vec::with_capacity(self.old.len() + growth);
        }
        self.rebuilt.extend_from_slice(&self.old[self.passed..at]);
        if is_first {
            self.patch.apply(&mut self.rebuilt);
        }
    }

    fn finish(mut self) -> Option<Edit> {
        if self.passed == 0 {
            return Some(Edit::InPlace(self.patch));
        }
        self.rebuilt.extend_from_slice(&self.old[self.passed..]);
        // The rewrite reports the error.
        check_size(self.rebuilt.len()).ok()?;
        let len = self.rebuilt.len() as i32;
        let head = self.rebuilt.first_chunk_mut()?;
        *head = len.to_le_bytes();
        Some(Edit::Rebuilt(self.rebuilt))
    }
}

/// Returns where the element begins that ends at `end`: with a tag, its name and a zero before its value.
fn begin(elem: Elem<'_>, end: usize) -> usize {
    end - elem.value.data().len() - elem.name_bytes().len() - 2
}
