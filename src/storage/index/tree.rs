//! An ordered set of byte strings: a B+ tree whose nodes are packed.
//!
//! In a tree of single entries, every long key is an allocation of its own and the nodes for short keys are half empty.
//! When most entries are removed, the remaining ones keep nearly every page allocated. Here a node is one block of two
//! pages that contains its entries. So an entry costs its length plus four bytes, and an emptied node gives its memory
//! back.
//!
//! Full nodes are split and empty ones are removed. Thin nodes are not merged. To make a thinned-out tree dense again, the
//! caller copies it in order: a tree that was filled in order has full nodes.

use std::ops::Bound;

use super::packed::Packed;

/// An ordered set of byte strings.
#[derive(Default)]
pub struct Tree {
    root: Node,
    len: usize,
    /// The total length of all entries.
    used: usize,
}

enum Node {
    Leaf(Packed),
    Branch(Box<Branch>),
}

/// An inner node. Child n contains the entries that are not less than fence n and less than fence n + 1.
#[derive(Default)]
struct Branch {
    /// One per child. The first fence is empty and not used: the lower limit of the first child is in a branch further up.
    fences: Packed,
    children: Vec<Node>,
}

/// The result of inserting an entry into a node.
enum NodeInsert {
    Already,
    Done,
    /// The node was split. The new node, with the entries not less than the fence, belongs after it.
    Split(Vec<u8>, Node),
}

/// A leaf that a walk through the tree has reached.
#[derive(Clone, Copy)]
struct LeafStop<'t> {
    leaf: &'t Packed,
    /// The limits that the branches above set: no entry in the leaf is less than `low`, and all are less than `high`.
    /// `None` at the edges of the tree.
    low: Option<&'t [u8]>,
    high: Option<&'t [u8]>,
}

// === impl Tree ===

impl Tree {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the total length of all entries.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Adds an entry. A no-op if the tree contains it already.
    pub fn insert(&mut self, entry: &[u8]) {
        let inserted = self.root.insert(entry);
        if matches!(inserted, NodeInsert::Already) {
            return;
        }
        self.len += 1;
        self.used += entry.len();
        if let NodeInsert::Split(fence, right) = inserted {
            let mut root = Branch::of(std::mem::take(&mut self.root));
            root.fences.insert(1, &fence);
            root.children.push(right);
            self.root = Node::Branch(Box::new(root));
        }
    }

    /// Removes an entry. A no-op if the tree does not contain it.
    pub fn remove(&mut self, entry: &[u8]) {
        if !self.root.remove(entry) {
            return;
        }
        self.len -= 1;
        self.used -= entry.len();
        while let Node::Branch(branch) = &mut self.root
            && branch.children.len() <= 1
        {
            self.root = branch.children.pop().unwrap_or_default();
        }
    }

    pub fn last(&self) -> Option<&[u8]> {
        let mut node = &self.root;
        while let Node::Branch(branch) = node {
            node = branch.children.last()?;
        }
        match node {
            Node::Leaf(leaf) if !leaf.is_empty() => Some(leaf.last()),
            _ => None,
        }
    }

    /// Returns all entries from the bound on, in ascending order.
    pub fn up<'t>(&'t self, lower: Bound<&[u8]>) -> impl Iterator<Item = &'t [u8]> + use<'t> {
        let (mut stop, mut at) = match lower {
            Bound::Unbounded => (self.descend(|fences| fences.find(&[])), 0),
            Bound::Included(place) | Bound::Excluded(place) => {
                let stop = self.descend(|fences| fences.find(place));
                let at = match (stop.leaf.find(place), lower) {
                    (Ok(at), Bound::Excluded(_)) => at + 1,
                    (Ok(at) | Err(at), _) => at,
                };
                (stop, at)
            }
        };
        std::iter::from_fn(move || {
            loop {
                if let Some(entry) = stop.leaf.get(at) {
                    at += 1;
                    return Some(entry);
                }
                let high = stop.high?;
                stop = self.descend(|fences| fences.find(high));
                at = 0;
            }
        })
    }

    /// Returns all entries less than `below`, in descending order.
    pub fn down<'t>(&'t self, below: &[u8]) -> impl Iterator<Item = &'t [u8]> + use<'t> {
        /// Returns the position of the child that begins at the limit, as `Err`, so that `descend` takes the child before
        /// it.
        fn before(fences: &Packed, limit: &[u8]) -> Result<usize, usize> {
            Err(fences.find(limit).unwrap_or_else(|at| at))
        }
        let mut stop = self.descend(|fences| before(fences, below));
        let mut at = stop.leaf.find(below).unwrap_or_else(|at| at);
        std::iter::from_fn(move || {
            loop {
                if let Some(previous) = at.checked_sub(1) {
                    at = previous;
                    return stop.leaf.get(at);
                }
                let low = stop.low?;
                stop = self.descend(|fences| before(fences, low));
                at = stop.leaf.len();
            }
        })
    }

    /// Descends to a leaf. `ask` chooses the child at every branch: `Ok` is the child itself, `Err` the position after it.
    #[inline]
    fn descend(&self, ask: impl Fn(&Packed) -> Result<usize, usize>) -> LeafStop<'_> {
        let (mut node, mut low, mut high) = (&self.root, None, None);
        loop {
            match node {
                Node::Leaf(leaf) => return LeafStop { leaf, low, high },
                Node::Branch(branch) => {
                    let at = ask(&branch.fences).unwrap_or_else(|at| at.saturating_sub(1));
                    if at > 0 {
                        low = branch.fences.get(at);
                    }
                    high = branch.fences.get(at + 1).or(high);
                    node = &branch.children[at];
                }
            }
        }
    }

    /// Frees one leaf, whatever it contains, and returns whether there was one. For a tree that is no longer needed and too
    /// large to drop at once.
    pub fn drop_leaf(&mut self) -> bool {
        self.root.drop_leaf()
    }
}

/// Returns the shortest fence between two entries, where `left` is less than `right`.
fn fence_between(left: &[u8], right: &[u8]) -> Vec<u8> {
    let alike = left.iter().zip(right).take_while(|(l, r)| l == r).count();
    right.get(..=alike).unwrap_or(right).to_vec()
}

// === impl Node ===

impl Default for Node {
    fn default() -> Self {
        Self::Leaf(Packed::default())
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.is_empty(),
            Self::Branch(branch) => branch.children.is_empty(),
        }
    }

    fn insert(&mut self, entry: &[u8]) -> NodeInsert {
        let leaf = match self {
            Self::Leaf(leaf) => leaf,
            Self::Branch(branch) => {
                let at = branch.child(entry);
                return match branch.children[at].insert(entry) {
                    NodeInsert::Split(fence, right) => branch.put(at + 1, fence, right),
                    inserted => inserted,
                };
            }
        };
        let Err(at) = leaf.find(entry) else {
            return NodeInsert::Already;
        };
        if leaf.has_room_for(entry, 1) {
            leaf.insert(at, entry);
            return NodeInsert::Done;
        }
        let cut = leaf.cut(at);
        let mut right = leaf.split_off(cut);
        if at > cut || right.is_empty() {
            right.insert(at - cut, entry);
        } else {
            leaf.insert(at, entry);
        }
        NodeInsert::Split(fence_between(leaf.last(), right.first()), Self::Leaf(right))
    }

    /// Drops one leaf below this node and returns whether there was one.
    fn drop_leaf(&mut self) -> bool {
        let Self::Branch(branch) = self else {
            return false;
        };
        while let Some(child) = branch.children.last_mut() {
            if child.drop_leaf() || matches!(branch.children.pop(), Some(Self::Leaf(_))) {
                return true;
            }
        }
        false
    }

    /// Removes an entry and returns whether the node contained it.
    fn remove(&mut self, entry: &[u8]) -> bool {
        match self {
            Self::Leaf(leaf) => {
                let found = leaf.find(entry);
                if let Ok(at) = found {
                    leaf.remove(at);
                }
                found.is_ok()
            }
            Self::Branch(branch) => {
                let at = branch.child(entry);
                let removed = branch.children[at].remove(entry);
                if branch.children[at].is_empty() {
                    branch.children.remove(at);
                    // The first fence is not used, so it can stay for the child that is first now.
                    branch.fences.remove(at.max(1).min(branch.children.len()));
                }
                removed
            }
        }
    }
}

// === impl Branch ===

impl Branch {
    /// A branch always has room for this many children, however long their fences are, so that the tree stays low.
    const AT_LEAST: usize = 8;

    fn of(child: Node) -> Self {
        let mut fences = Packed::default();
        fences.insert(0, &[]);
        Self {
            fences,
            children: vec![child],
        }
    }

    fn child(&self, entry: &[u8]) -> usize {
        self.fences
            .find(entry)
            .unwrap_or_else(|at| at.saturating_sub(1))
    }

    /// Adds a child at position `at`, after another one. Splits the branch if it is full.
    fn put(&mut self, at: usize, fence: Vec<u8>, child: Node) -> NodeInsert {
        if self.fences.has_room_for(&fence, Self::AT_LEAST) {
            self.fences.insert(at, &fence);
            self.children.insert(at, child);
            return NodeInsert::Done;
        }
        let cut = self.fences.cut(at);
        if cut == self.children.len() {
            return NodeInsert::Split(fence, Node::Branch(Box::new(Self::of(child))));
        }
        let mut right = Self {
            fences: self.fences.split_off(cut),
            children: self.children.split_off(cut),
        };
        let between = right.fences.first().to_vec();
        right.fences.remove(0);
        right.fences.insert(0, &[]);
        let (home, at) = if at > cut {
            (&mut right, at - cut)
        } else {
            (self, at)
        };
        home.fences.insert(at, &fence);
        home.children.insert(at, child);
        NodeInsert::Split(between, Node::Branch(Box::new(right)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::packed::NODE;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Checks the invariants of a tree and returns how many leaves it has.
    fn check(tree: &Tree, model: &BTreeSet<Vec<u8>>) -> usize {
        fn leaves<'t>(node: &'t Node, depth: usize, out: &mut Vec<(&'t Packed, usize)>) {
            match node {
                Node::Leaf(leaf) => out.push((leaf, depth)),
                Node::Branch(branch) => {
                    assert_eq!(branch.fences.len(), branch.children.len());
                    assert_eq!(branch.fences.first(), b"");
                    for child in &branch.children {
                        assert!(!child.is_empty());
                        leaves(child, depth + 1, out);
                    }
                }
            }
        }
        let held: Vec<&[u8]> = tree.up(Bound::Unbounded).collect();
        assert_eq!(held, model.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(tree.len(), model.len());
        assert_eq!(tree.used(), model.iter().map(Vec::len).sum::<usize>());
        assert_eq!(tree.last(), model.last().map(Vec::as_slice));
        let mut found = Vec::new();
        leaves(&tree.root, 0, &mut found);
        let deepest = found.iter().map(|&(_, depth)| depth).max();
        assert!(deepest <= Some(6), "{deepest:?}");
        found.len()
    }

    fn numbered(n: u32, long: usize) -> Vec<u8> {
        let mut entry = n.to_be_bytes().to_vec();
        entry.resize(long, 0);
        entry
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn it_is_an_ordered_set(
            common in prop_oneof![Just(0usize), Just(300), Just(9_000)],
            steps in prop::collection::vec(
                (0u8..8, 0u32..3_000, prop_oneof![9 => 4usize..40, 2 => 100usize..1_500, 1 => 3_000usize..70_000]),
                0..1_200,
            ),
        ) {
            let (mut tree, mut model) = (Tree::default(), BTreeSet::new());
            for (kind, n, long) in steps {
                let entry = [vec![7; common], numbered(n, long)].concat();
                match kind {
                    0..4 => {
                        tree.insert(&entry);
                        model.insert(entry);
                    }
                    4 => {
                        tree.remove(&entry);
                        model.remove(&entry);
                    }
                    5 | 6 => {
                        // An entry that the tree contains.
                        let there = model.range(entry..).next().cloned().unwrap_or_default();
                        tree.remove(&there);
                        model.remove(&there);
                    }
                    _ => {
                        let up: Vec<&[u8]> = tree.up(Bound::Excluded(&entry)).take(50).collect();
                        let range = (Bound::Excluded(entry.clone()), Bound::Unbounded);
                        let expected: Vec<&[u8]> =
                            model.range(range).map(Vec::as_slice).take(50).collect();
                        prop_assert_eq!(up, expected);
                        let from = tree.up(Bound::Included(&entry)).next();
                        prop_assert_eq!(from, model.range(entry.clone()..).next().map(Vec::as_slice));
                        let down: Vec<&[u8]> = tree.down(&entry).take(50).collect();
                        let expected: Vec<&[u8]> =
                            model.range(..entry).rev().map(Vec::as_slice).take(50).collect();
                        prop_assert_eq!(down, expected);
                    }
                }
            }
            check(&tree, &model);
            for entry in std::mem::take(&mut model) {
                tree.remove(&entry);
            }
            check(&tree, &model);
        }
    }

    #[test]
    fn rows_that_go_up_or_down_leave_full_nodes() {
        for descending in [false, true] {
            let (mut tree, mut model) = (Tree::default(), BTreeSet::new());
            for n in 0..50_000u32 {
                let entry = numbered(if descending { 50_000 - n } else { n }, 20);
                tree.insert(&entry);
                model.insert(entry);
            }
            let leaves = check(&tree, &model);
            assert!(
                tree.used() * 100 >= leaves * NODE * 98,
                "{descending}: {leaves}"
            );
            let mut dropped = 0;
            while tree.drop_leaf() {
                dropped += 1;
            }
            assert_eq!(dropped, leaves);
        }
    }

    #[test]
    fn what_comes_in_any_order_leaves_nodes_at_least_half_full() {
        let (mut tree, mut model) = (Tree::default(), BTreeSet::new());
        for n in 0..50_000u32 {
            let entry = numbered(n.wrapping_mul(0x9e37_79b9), 20);
            tree.insert(&entry);
            model.insert(entry);
        }
        let leaves = check(&tree, &model);
        assert!(tree.used() * 2 >= leaves * NODE, "{leaves}");
    }
}
