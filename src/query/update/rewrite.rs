//! One walk over a document's bytes along the tree of paths. It copies what no path touches and writes the rest.

use smallvec::SmallVec;

use crate::error::{Code, Error, Result};
use crate::interrupt;
use crate::value::{Doc, Elem, Type, ValueRef, put_index};

use super::Apply;
use super::array_filter::ArrayFilters;
use super::check::{self, element};
use super::modify::{LeafContext, Modify, OnMissing, Trail, ValueChange};
use super::path::index;
use super::tree::{Elements, FieldNodes, UpdateNode, merge};

/// The maximum number of nulls that an index past the end of an array may add.
const MAX_PADDING: usize = 1_500_000;
/// The maximum number of merged trees that are cached during a walk over an array. There may be as many combinations as
/// elements.
const MAX_MERGED: usize = 64;

/// The state of one rewrite.
pub struct Rewrite<'v> {
    /// The document before the update.
    pub root: Doc<'v>,
    pub apply: &'v Apply<'v>,
    pub filters: Option<&'v ArrayFilters>,
    /// Receives the new document, after the bytes that it already contains.
    pub out: &'v mut Vec<u8>,
    /// The offset of the new document in `out`.
    pub start: usize,
}

/// A value that blocks a path: a scalar, or an array that is accessed by a name.
struct Obstacle<'t> {
    value: ValueRef<'t>,
    trail: &'t Trail<'t>,
    /// The first part of the path that cannot be reached.
    part: &'t str,
}

/// The set of children whose field was not found yet.
struct UnfoundChildren(SmallVec<[u64; 2]>);

// === impl Rewrite ===

impl Rewrite<'_> {
    /// Writes the whole document, and returns whether anything changed.
    pub fn run(&mut self, fields: &FieldNodes) -> Result<bool> {
        self.document(fields, self.root, None)
    }

    fn document(
        &mut self,
        fields: &FieldNodes,
        doc: Doc<'_>,
        trail: Option<&Trail<'_>>,
    ) -> Result<bool> {
        let fields = fields.resolved(self.apply.position, trail)?;
        let start = self.begin();
        let body = doc.body();
        let mut open = UnfoundChildren::all(fields.children.len());
        let mut waiting = fields.children.len();
        let mut changed = false;
        // The old bytes are written up to `copied` and examined up to `at`.
        let (mut copied, mut at) = (0, 0);
        let mut elems = doc.iter();
        while waiting > 0 {
            let Some(elem) = elems.next() else { break };
            let end = body.len() - elems.rest().len();
            // If a document has two fields of one name, only the first one counts.
            if let Some(position) = fields.find(elem.name_bytes())
                && open.take(position)
                && let Some(child) = fields.children.get(position)
            {
                waiting -= 1;
                self.copy(body, copied, at);
                let trail = Trail::child(trail, &child.name, false);
                changed |= self.element(&child.node, elem, &trail)?;
                copied = end;
            }
            at = end;
        }
        self.copy(body, copied, body.len());
        if waiting > 0 {
            for (position, child) in fields.children.iter().enumerate() {
                if open.has(position) && self.create(&child.node, &child.name, trail, false)? {
                    created_below_id(trail, doc)?;
                    changed = true;
                }
            }
        }
        self.end(start)?;
        Ok(changed)
    }

    /// Rewrites an array that paths enter by index.
    fn array(&mut self, fields: &FieldNodes, doc: Doc<'_>, trail: &Trail<'_>) -> Result<bool> {
        let fields = fields.resolved(self.apply.position, Some(trail))?;
        let start = self.begin();
        let mut open = UnfoundChildren::all(fields.children.len());
        let mut changed = false;
        let mut count = 0;
        // Children that are indexes come first, in ascending order.
        let mut next = 0;
        for elem in doc {
            let child = fields
                .children
                .get(next)
                .filter(|child| index(&child.name) == Some(count));
            match child {
                Some(child) => {
                    open.take(next);
                    next += 1;
                    let trail = Trail::child(Some(trail), &child.name, true);
                    changed |= self.element(&child.node, elem, &trail)?;
                }
                None => self.put(elem.name_bytes(), elem.value),
            }
            count += 1;
        }
        let obstacle = ValueRef::array(doc);
        for (position, child) in fields.children.iter().enumerate() {
            if !open.has(position) {
                continue;
            }
            let Some(wanted) = index(&child.name) else {
                let below = Trail::child(Some(trail), &child.name, true);
                let obstacle = Obstacle {
                    value: obstacle,
                    trail,
                    part: &child.name,
                };
                self.blocked(&child.node, &below, &obstacle)?;
                continue;
            };
            // The path has two spellings of one index ("1" and "01").
            if wanted < count {
                return Err(Error::new(
                    Code::ConflictingUpdateOperators,
                    format!("Update created a conflict at '{}.{wanted}'", trail.dotted()),
                ));
            }
            let mark = self.out.len();
            let padding = wanted - count;
            let name = wanted.to_string();
            if padding <= MAX_PADDING {
                for nth in count..wanted {
                    self.put_index(nth, ValueRef::NULL);
                }
            }
            if self.create(&child.node, &name, Some(trail), true)? {
                if padding > MAX_PADDING {
                    return Err(Error::new(
                        Code::CannotBackfillArray,
                        format!("can't backfill more than {MAX_PADDING} elements"),
                    ));
                }
                created_below_id(Some(trail), self.root)?;
                count = wanted + 1;
                changed = true;
            } else {
                self.out.truncate(mark);
            }
        }
        self.end(start)?;
        Ok(changed)
    }

    /// Rewrites an array whose elements are selected by `$[]` and `$[identifier]`.
    fn elements(&mut self, node: &Elements, doc: Doc<'_>, trail: &Trail<'_>) -> Result<bool> {
        let start = self.begin();
        let mut changed = false;
        let mut scratch = Vec::new();
        // Merged trees, keyed by the children that they combine.
        let mut merged: Vec<(SmallVec<[usize; 4]>, UpdateNode)> = Vec::new();
        for elem in doc {
            // The work is the product of elements, identifiers and their combinations.
            let looked_at = 1 + node.children.len() + merged.len();
            interrupt::tick(u32::try_from(looked_at).unwrap_or(u32::MAX))?;
            let mut chosen: SmallVec<[usize; 4]> = SmallVec::new();
            for (position, each) in node.children.iter().enumerate() {
                let matches = match each.filter.and_then(|filter| self.filters?.at(filter)) {
                    None => true,
                    Some((_, filter)) => {
                        filter.matches(elem.value, self.apply.vars, &mut scratch)?
                    }
                };
                if matches {
                    chosen.push(position);
                }
            }
            let below = Trail::child(Some(trail), elem.name(), true);
            match *chosen {
                [] => self.put(elem.name_bytes(), elem.value),
                [one] => changed |= self.element(&node.children[one].node, elem, &below)?,
                _ => {
                    if !merged.iter().any(|(key, _)| *key == chosen) {
                        if merged.len() == MAX_MERGED {
                            merged.clear();
                        }
                        let mut all = node.children[chosen[0]].node.clone();
                        for &position in &chosen[1..] {
                            all = merge(&all, &node.children[position].node, &below)?;
                        }
                        merged.push((chosen.clone(), all));
                    }
                    if let Some((_, all)) = merged.iter().find(|(key, _)| *key == chosen) {
                        changed |= self.element(all, elem, &below)?;
                    }
                }
            }
            self.check_size()?;
        }
        self.end(start)?;
        Ok(changed)
    }

    /// Rewrites an existing field or array element on the path.
    fn element(&mut self, node: &UpdateNode, elem: Elem<'_>, trail: &Trail<'_>) -> Result<bool> {
        match node {
            UpdateNode::Leaf(leaf) => self.leaf(&**leaf, elem, trail),
            UpdateNode::Fields(fields) => match elem.value.ty() {
                Type::Document => {
                    self.head(Type::Document, elem.name_bytes());
                    self.document(fields, Doc::new(elem.value.data()), Some(trail))
                }
                Type::Array => {
                    self.head(Type::Array, elem.name_bytes());
                    self.array(fields, Doc::new(elem.value.data()), trail)
                }
                _ => {
                    self.put(elem.name_bytes(), elem.value);
                    let fields = fields.resolved(self.apply.position, Some(trail))?;
                    for child in &fields.children {
                        let below = Trail::child(Some(trail), &child.name, false);
                        let obstacle = Obstacle {
                            value: elem.value,
                            trail,
                            part: &child.name,
                        };
                        self.blocked(&child.node, &below, &obstacle)?;
                    }
                    Ok(false)
                }
            },
            UpdateNode::Elements(elements) => match elem.value.as_array() {
                Some(array) => {
                    self.head(Type::Array, elem.name_bytes());
                    self.elements(elements, array, trail)
                }
                None => Err(Error::bad_value(format!(
                    "Cannot apply array updates to non-array element {}",
                    element(trail.name, elem.value)
                ))),
            },
        }
    }

    fn leaf(&mut self, leaf: &dyn Modify, elem: Elem<'_>, trail: &Trail<'_>) -> Result<bool> {
        let at = LeafContext {
            trail,
            root: self.root,
            apply: self.apply,
        };
        match leaf.existing(elem.value, &at)? {
            ValueChange::Same => {
                self.put(elem.name_bytes(), elem.value);
                return Ok(false);
            }
            ValueChange::Put(value) => self.put(elem.name_bytes(), value.as_ref()),
            ValueChange::Remove if trail.in_array => self.put(elem.name_bytes(), ValueRef::NULL),
            ValueChange::Remove => {}
        }
        if trail.root_name() == "_id" {
            return Err(Error::new(
                Code::ImmutableField,
                format!(
                    "Performing an update on the path '{}' would modify the immutable field '_id'",
                    trail.dotted()
                ),
            ));
        }
        self.check_size()?;
        Ok(true)
    }

    /// Creates a field that does not exist yet. Returns whether it was created.
    fn create(
        &mut self,
        node: &UpdateNode,
        name: &str,
        parent: Option<&Trail<'_>>,
        in_array: bool,
    ) -> Result<bool> {
        let trail = Trail::child(parent, name, in_array);
        match node {
            UpdateNode::Leaf(leaf) => {
                let at = LeafContext {
                    trail: &trail,
                    root: self.root,
                    apply: self.apply,
                };
                match leaf.missing(&at)? {
                    OnMissing::Create(value) => {
                        self.put(name.as_bytes(), value.as_ref());
                        self.check_size()?;
                        Ok(true)
                    }
                    OnMissing::Nothing | OnMissing::Viable => Ok(false),
                }
            }
            UpdateNode::Fields(fields) => {
                let fields = fields.resolved(self.apply.position, Some(&trail))?;
                let mark = self.out.len();
                self.head(Type::Document, name.as_bytes());
                let start = self.begin();
                let mut created = false;
                for child in &fields.children {
                    created |= self.create(&child.node, &child.name, Some(&trail), false)?;
                }
                if created {
                    self.end(start)?;
                } else {
                    self.out.truncate(mark);
                }
                Ok(created)
            }
            UpdateNode::Elements(_) => Err(must_exist(&trail)),
        }
    }

    /// Reports the error for a path behind an obstacle, unless the operator has nothing to do there.
    fn blocked(&self, node: &UpdateNode, trail: &Trail<'_>, obstacle: &Obstacle<'_>) -> Result<()> {
        match node {
            UpdateNode::Leaf(leaf) => {
                let at = LeafContext {
                    trail,
                    root: self.root,
                    apply: self.apply,
                };
                let message = match leaf.missing(&at)? {
                    OnMissing::Nothing => return Ok(()),
                    OnMissing::Create(_) => format!(
                        "Cannot create field '{}' in element {{{}}}",
                        obstacle.part,
                        element(obstacle.trail.name, obstacle.value)
                    ),
                    OnMissing::Viable => format!(
                        "Cannot use the part ({}) of ({}) to traverse the element ({{{}}})",
                        obstacle.part,
                        trail.dotted(),
                        element(obstacle.trail.name, obstacle.value)
                    ),
                };
                Err(Error::new(Code::PathNotViable, message))
            }
            UpdateNode::Fields(fields) => {
                let fields = fields.resolved(self.apply.position, Some(trail))?;
                for child in &fields.children {
                    let below = Trail::child(Some(trail), &child.name, false);
                    self.blocked(&child.node, &below, obstacle)?;
                }
                Ok(())
            }
            UpdateNode::Elements(_) => Err(must_exist(trail)),
        }
    }

    // === writing ===

    #[inline]
    fn copy(&mut self, body: &[u8], from: usize, to: usize) {
        self.out
            .extend_from_slice(body.get(from..to).unwrap_or_default());
    }

    #[inline]
    fn head(&mut self, ty: Type, name: &[u8]) {
        self.out.push(ty.tag());
        self.out.extend_from_slice(name);
        self.out.push(0);
    }

    #[inline]
    fn put(&mut self, name: &[u8], value: ValueRef<'_>) {
        self.head(value.ty(), name);
        self.out.extend_from_slice(value.data());
    }

    fn put_index(&mut self, nth: usize, value: ValueRef<'_>) {
        self.out.push(value.ty().tag());
        put_index(self.out, nth as u32);
        self.out.extend_from_slice(value.data());
    }

    #[inline]
    fn begin(&mut self) -> usize {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        start
    }

    #[inline]
    fn end(&mut self, start: usize) -> Result<()> {
        self.out.push(0);
        self.check_size()?;
        let length = (self.out.len() - start) as i32;
        if let Some(head) = self.out.get_mut(start..start + 4) {
            head.copy_from_slice(&length.to_le_bytes());
        }
        Ok(())
    }

    /// Rejects too large a document as soon as it is too large. The output only grows, so the remaining elements do not
    /// matter.
    #[inline]
    fn check_size(&self) -> Result<()> {
        check::check_size(self.out.len() - self.start)
    }
}

fn must_exist(trail: &Trail<'_>) -> Error {
    Error::bad_value(format!(
        "The path '{}' must exist in the document in order to apply array updates.",
        trail.dotted()
    ))
}

/// Rejects a new field inside `_id`, which would change the `_id`.
fn created_below_id(trail: Option<&Trail<'_>>, doc: Doc<'_>) -> Result<()> {
    match trail {
        Some(trail) if trail.root_name() == "_id" => Err(Error::new(
            Code::ImmutableField,
            format!(
                "Updating the path '{}' to {} would modify the immutable field '_id'",
                trail.dotted(),
                element(trail.name, ValueRef::document(doc))
            ),
        )),
        _ => Ok(()),
    }
}

// === impl UnfoundChildren ===

impl UnfoundChildren {
    #[inline]
    fn all(count: usize) -> Self {
        let mut words = SmallVec::new();
        words.resize(count.div_ceil(64), u64::MAX);
        Self(words)
    }

    #[inline]
    fn has(&self, position: usize) -> bool {
        self.0
            .get(position / 64)
            .is_some_and(|word| word & (1 << (position % 64)) != 0)
    }

    /// Removes a child from the set, and returns whether it was there.
    #[inline]
    fn take(&mut self, position: usize) -> bool {
        let was = self.has(position);
        if let Some(word) = self.0.get_mut(position / 64) {
            *word &= !(1 << (position % 64));
        }
        was
    }
}
