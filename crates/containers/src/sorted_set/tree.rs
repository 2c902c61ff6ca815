//! A counted B+ tree: elements in order, with their ranks.
//!
//! It keeps scores and element numbers; what a number means is known to the caller, who gives every search as a predicate
//! "comes before the place looked for" that is true of a prefix of the order.

/// Most slots of a leaf.
const LEAF: usize = 64;
/// Most children of an inner node.
const INNER: usize = 32;

/// A score and the number of the element that has it.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(super) struct Slot {
    pub(super) score: f64,
    pub(super) id: u32,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Slot>),
    Inner(Vec<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    /// The first slot below.
    min: Slot,
    /// Slots below.
    count: u32,
    node: Node,
}

#[derive(Debug)]
pub(super) struct Tree {
    root: Node,
    len: usize,
    heap_bytes: usize,
}

impl Node {
    /// Slots or children of this node alone.
    fn width(&self) -> usize {
        match self {
            Node::Leaf(slots) => slots.len(),
            Node::Inner(children) => children.len(),
        }
    }

    fn limit(&self) -> usize {
        match self {
            Node::Leaf(_) => LEAF,
            Node::Inner(_) => INNER,
        }
    }

    fn count(&self) -> u32 {
        match self {
            Node::Leaf(slots) => slots.len() as u32,
            Node::Inner(children) => children.iter().map(|child| child.count).sum(),
        }
    }

    /// The first slot; nodes below the root are never empty.
    fn min(&self) -> Slot {
        match self {
            Node::Leaf(slots) => slots[0],
            Node::Inner(children) => children[0].min,
        }
    }

    /// Bytes allocated for this node alone.
    fn own_bytes(&self) -> usize {
        match self {
            Node::Leaf(slots) => slots.capacity() * size_of::<Slot>(),
            Node::Inner(children) => children.capacity() * size_of::<Child>(),
        }
    }

    fn all_bytes(&self) -> usize {
        let below = match self {
            Node::Leaf(_) => 0,
            Node::Inner(children) => children.iter().map(|child| child.node.all_bytes()).sum(),
        };
        self.own_bytes() + below
    }

    fn into_child(self) -> Child {
        Child {
            min: self.min(),
            count: self.count(),
            node: self,
        }
    }

    /// Cuts off what lies behind `keep`.
    fn split_off(&mut self, keep: usize) -> Node {
        match self {
            Node::Leaf(slots) => Node::Leaf(slots.split_off(keep)),
            Node::Inner(children) => Node::Inner(children.split_off(keep)),
        }
    }

    /// Takes over what `other`, a node of the same level, holds.
    fn append(&mut self, other: Node) {
        match (self, other) {
            (Node::Leaf(slots), Node::Leaf(mut more)) => slots.append(&mut more),
            (Node::Inner(children), Node::Inner(mut more)) => children.append(&mut more),
            _ => unreachable!("siblings are of one level"),
        }
    }

    /// Inserts a slot; returns the right half if the node had to be split. `last` says that the node lies on the right
    /// edge of the tree: there a full node stays full and a new one begins, so that ascending scores fill nodes wholly.
    fn insert(
        &mut self,
        slot: Slot,
        before: &impl Fn(Slot) -> bool,
        last: bool,
        bytes: &mut usize,
    ) -> Option<Child> {
        let own = self.own_bytes();
        let right = match self {
            Node::Leaf(slots) => {
                let at = slots.partition_point(|&slot| before(slot));
                if slots.len() < LEAF {
                    slots.insert(at, slot);
                    None
                } else {
                    let mut right =
                        slots.split_off(if last && at == LEAF { LEAF } else { LEAF / 2 });
                    match at.checked_sub(slots.len()) {
                        Some(at) => right.insert(at, slot),
                        None => slots.insert(at, slot),
                    }
                    Some(Node::Leaf(right))
                }
            }
            Node::Inner(children) => {
                let at = child_before(children, before);
                let last = last && at + 1 == children.len();
                let child = &mut children[at];
                child.count += 1;
                if at == 0 && !before(child.min) {
                    child.min = slot;
                }
                let new = child.node.insert(slot, before, last, bytes);
                match new {
                    None => None,
                    Some(new) => {
                        child.count -= new.count;
                        insert_child(children, at + 1, new, last)
                    }
                }
            }
        };
        *bytes = *bytes + self.own_bytes() - own;
        let right = right?;
        *bytes += right.own_bytes();
        Some(right.into_child())
    }

    fn remove_at(&mut self, mut index: usize, bytes: &mut usize) -> Slot {
        match self {
            Node::Leaf(slots) => slots.remove(index),
            Node::Inner(children) => {
                let at = descend(children, &mut index);
                let child = &mut children[at];
                let slot = child.node.remove_at(index, bytes);
                child.count -= 1;
                if child.count == 0 {
                    *bytes -= child.node.all_bytes();
                    children.remove(at);
                } else {
                    child.min = child.node.min();
                    rebalance(children, at, bytes);
                }
                slot
            }
        }
    }
}

/// The child in which the place before which `before` ends lies.
fn child_before(children: &[Child], before: &impl Fn(Slot) -> bool) -> usize {
    children
        .partition_point(|child| before(child.min))
        .saturating_sub(1)
}

/// The child that holds slot `index`, which becomes the index within it.
fn descend(children: &[Child], index: &mut usize) -> usize {
    let mut at = 0;
    while at + 1 < children.len() && *index >= children[at].count as usize {
        *index -= children[at].count as usize;
        at += 1;
    }
    at
}

/// Inserts a child; the right half comes back as a node if that makes too many.
fn insert_child(children: &mut Vec<Child>, at: usize, new: Child, last: bool) -> Option<Node> {
    if children.len() < INNER {
        children.insert(at, new);
        return None;
    }
    let mut right = children.split_off(if last && at == INNER {
        INNER
    } else {
        INNER / 2
    });
    match at.checked_sub(children.len()) {
        Some(at) => right.insert(at, new),
        None => children.insert(at, new),
    }
    Some(Node::Inner(right))
}

/// Joins a child that is less than a quarter full with a neighbour, or lets it have half of what both hold.
fn rebalance(children: &mut Vec<Child>, at: usize, bytes: &mut usize) {
    let limit = children[at].node.limit();
    if children[at].node.width() >= limit / 4 || children.len() == 1 {
        return;
    }
    let left = at.saturating_sub(1);
    let right = children.remove(left + 1);
    let child = &mut children[left];
    let old = child.node.own_bytes() + right.node.own_bytes();
    child.node.append(right.node);
    child.count += right.count;
    let mut own = child.node.own_bytes();
    if child.node.width() > limit {
        let half = child.node.width() / 2;
        let new = child.node.split_off(half).into_child();
        child.count -= new.count;
        own += new.node.own_bytes();
        children.insert(left + 1, new);
    }
    *bytes = *bytes + own - old;
}

impl Tree {
    pub(super) const fn new() -> Tree {
        Tree {
            root: Node::Leaf(Vec::new()),
            len: 0,
            heap_bytes: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// Inserts a slot behind those of which `before` is true.
    pub(super) fn insert(&mut self, slot: Slot, before: &impl Fn(Slot) -> bool) {
        let right = self.root.insert(slot, before, true, &mut self.heap_bytes);
        self.len += 1;
        if let Some(right) = right {
            let left = std::mem::replace(&mut self.root, Node::Inner(Vec::with_capacity(INNER)));
            if let Node::Inner(children) = &mut self.root {
                children.push(left.into_child());
                children.push(right);
            }
            self.heap_bytes += self.root.own_bytes();
        }
    }

    /// Removes the slot at `index`, which must exist.
    pub(super) fn remove_at(&mut self, index: usize) -> Slot {
        let slot = self.root.remove_at(index, &mut self.heap_bytes);
        self.len -= 1;
        while let Node::Inner(children) = &mut self.root {
            if children.len() > 1 {
                break;
            }
            let only = children.pop().map(|child| child.node);
            self.heap_bytes -= self.root.own_bytes();
            self.root = only.unwrap_or(Node::Leaf(Vec::new()));
        }
        slot
    }

    /// How many slots `before` is true of.
    #[inline]
    pub(super) fn rank(&self, before: &impl Fn(Slot) -> bool) -> usize {
        let (mut node, mut rank) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(slots) => return rank + slots.partition_point(|&slot| before(slot)),
                Node::Inner(children) => {
                    let at = child_before(children, before);
                    let skipped = children[..at].iter().map(|child| child.count as usize);
                    rank += skipped.sum::<usize>();
                    node = &children[at].node;
                }
            }
        }
    }

    /// The leaf that holds the slot at `index`, and the place in it; the last leaf for the index behind all.
    #[inline]
    pub(super) fn leaf_at(&self, mut index: usize) -> (&[Slot], usize) {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(slots) => return (slots, index),
                Node::Inner(children) => node = &children[descend(children, &mut index)].node,
            }
        }
    }

    /// Gives the slot at `index` another score if it stays where it is: `before` orders by the new one. Returns whether
    /// it did; it may decline where its leaf alone does not show that.
    pub(super) fn rescore(
        &mut self,
        mut index: usize,
        score: f64,
        before: &impl Fn(Slot) -> bool,
    ) -> bool {
        let is_last = index + 1 == self.len;
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Leaf(slots) => {
                    // The first slot of a leaf is repeated above.
                    let fits = index > 0
                        && before(slots[index - 1])
                        && match slots.get(index + 1) {
                            Some(&next) => !before(next),
                            None => is_last,
                        };
                    if fits {
                        slots[index].score = score;
                    }
                    return fits;
                }
                Node::Inner(children) => {
                    let at = descend(children, &mut index);
                    node = &mut children[at].node;
                }
            }
        }
    }

    /// Gives the slot at `index` the number `id`.
    pub(super) fn renumber(&mut self, mut index: usize, id: u32) {
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Leaf(slots) => {
                    slots[index].id = id;
                    return;
                }
                Node::Inner(children) => {
                    let at = descend(children, &mut index);
                    let child = &mut children[at];
                    if index == 0 {
                        child.min.id = id;
                    }
                    node = &mut child.node;
                }
            }
        }
    }
}

impl Clone for Tree {
    fn clone(&self) -> Tree {
        let root = self.root.clone();
        Tree {
            heap_bytes: root.all_bytes(),
            root,
            len: self.len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Node {
        /// Checks what must hold at every node; returns the depth.
        fn check(&self, is_root: bool) -> usize {
            assert!(self.width() <= self.limit());
            assert!(is_root || self.width() > 0);
            match self {
                Node::Leaf(_) => 1,
                Node::Inner(children) => {
                    let depths: Vec<usize> = children
                        .iter()
                        .map(|child| {
                            let (id, min) = (child.min.id, child.node.min().id);
                            assert_eq!(id, min);
                            assert_eq!(child.min.score.to_bits(), child.node.min().score.to_bits());
                            assert_eq!(child.count, child.node.count());
                            child.node.check(false)
                        })
                        .collect();
                    assert!(depths.windows(2).all(|pair| pair[0] == pair[1]));
                    depths[0] + 1
                }
            }
        }
    }

    fn check(tree: &Tree) -> usize {
        assert_eq!(tree.heap_bytes, tree.root.all_bytes());
        assert_eq!(tree.len, tree.root.count() as usize);
        tree.root.check(true)
    }

    /// Numbers 0 to `n - 1` in an order of `step`.
    fn scattered(n: u32, step: u32) -> impl Iterator<Item = u32> {
        (0..n).map(move |i| (u64::from(i) * u64::from(step) % u64::from(n)) as u32)
    }

    fn insert(tree: &mut Tree, id: u32) {
        let score = f64::from(id);
        tree.insert(Slot { score, id }, &|slot| slot.score < score);
    }

    #[test]
    fn keeps_order_and_counts_whatever_the_order_of_insertion() {
        for step in [1, 4999, 2477] {
            let mut tree = Tree::new();
            for (n, id) in scattered(5000, step).enumerate() {
                insert(&mut tree, id);
                if n % 501 == 0 {
                    check(&tree);
                }
            }
            assert!(check(&tree) <= 4);
            for index in (0..5000).step_by(7) {
                let (leaf, at) = tree.leaf_at(index);
                assert_eq!(leaf[at].id as usize, index);
                assert_eq!(tree.rank(&|slot| slot.score < index as f64), index);
            }
            for (n, id) in scattered(5000, 2477).enumerate() {
                let index = tree.rank(&|slot| slot.score < f64::from(id));
                let removed = tree.remove_at(index);
                assert_eq!({ removed.id }, id);
                if n % 501 == 0 {
                    check(&tree.clone());
                    check(&tree);
                }
            }
            assert_eq!((check(&tree), tree.len()), (1, 0));
        }
    }

    #[test]
    fn ascending_scores_fill_their_leaves() {
        let mut tree = Tree::new();
        (0..64 * 100).for_each(|id| insert(&mut tree, id));
        assert!(tree.heap_bytes() < 64 * 100 * size_of::<Slot>() * 5 / 4);
    }

    #[test]
    fn a_score_changes_in_place_only_between_its_neighbours() {
        let mut tree = Tree::new();
        (0..200).for_each(|id| insert(&mut tree, id * 10));
        let mut rescore =
            |index, score: f64| tree.rescore(index, score, &|slot| slot.score < score);
        assert!(rescore(5, 51.0) && rescore(5, 49.0) && rescore(199, 9000.0));
        assert!(!rescore(5, 61.0) && !rescore(5, 39.0) && !rescore(0, -1.0));
        check(&tree);
    }
}
