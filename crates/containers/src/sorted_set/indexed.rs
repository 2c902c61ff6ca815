//! The form of large sorted sets: scores by member, and a counted tree of the same elements in order.

use super::members::Scores;
use super::tree::{Slot, Tree};

#[derive(Clone, Debug)]
pub(super) struct Indexed {
    scores: Scores,
    tree: Tree,
}

/// Says of slots whether they come before an element.
macro_rules! before {
    ($scores:expr, $score:expr, $member:expr) => {
        |slot: Slot| {
            let other = slot.score;
            other < $score || (other == $score && $scores.member(slot.id) < $member)
        }
    };
}

impl Indexed {
    pub(super) fn new(secret: u64) -> Indexed {
        Indexed {
            scores: Scores::new(secret),
            tree: Tree::new(),
        }
    }

    /// Puts what was collected in order.
    pub(super) fn from_scores(scores: Scores) -> Indexed {
        let mut tree = Tree::new();
        for id in scores.in_order() {
            let score = scores.score_of(id);
            tree.insert(Slot { score, id }, &|_| true);
        }
        Indexed { scores, tree }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tree.len()
    }

    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Indexed>() + self.scores.heap_bytes() + self.tree.heap_bytes()
    }

    #[inline]
    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.score(member)
    }

    /// The slots from `index` on that lie together, and where among them it is.
    #[inline]
    pub(super) fn leaf_at(&self, index: usize) -> (&[Slot], usize) {
        self.tree.leaf_at(index)
    }

    /// The element of a slot.
    #[inline]
    pub(super) fn element(&self, slot: Slot) -> (&[u8], f64) {
        // The element's own score, since the slot may hold an equal zero of the other sign.
        (self.scores.member(slot.id), self.scores.score_of(slot.id))
    }

    /// Some element, by a number below `len`.
    pub(super) fn any(&self, number: usize) -> (&[u8], f64) {
        let id = number as u32;
        (self.scores.member(id), self.scores.score_of(id))
    }

    pub(super) fn scan<'a>(&'a self, cursor: u64, see: &mut dyn FnMut(&'a [u8], f64)) -> u64 {
        self.scores.scan(cursor, see)
    }

    #[inline]
    pub(super) fn rank_of(&self, score: f64, member: &[u8]) -> usize {
        self.tree.rank(&before!(self.scores, score, member))
    }

    #[inline]
    pub(super) fn rank_by_score(&self, before: impl Fn(f64) -> bool) -> usize {
        self.tree.rank(&|slot| before(slot.score))
    }

    pub(super) fn rank_by_member(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        self.tree.rank(&|slot| before(self.scores.member(slot.id)))
    }

    /// Adds a member or changes its score; returns the score it had.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let Some(id) = self.scores.find(member) else {
            let id = self.scores.push(member, score);
            let slot = Slot { score, id };
            self.tree.insert(slot, &before!(self.scores, score, member));
            return None;
        };
        let old = self.scores.score_of(id);
        if old != score {
            let index = self.rank_of(old, member);
            let before = before!(self.scores, score, member);
            if !self.tree.rescore(index, score, &before) {
                self.tree.remove_at(index);
                self.tree.insert(Slot { score, id }, &before);
            }
            self.scores.set_score(id, score);
        }
        Some(old)
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.score(member)?;
        self.remove_at(self.rank_of(score, member));
        Some(score)
    }

    /// Removes the element at `index`, which must exist.
    pub(super) fn remove_at(&mut self, index: usize) {
        let id = self.tree.remove_at(index).id;
        // The last element is about to take the number of the removed one.
        let last = self.scores.len() as u32 - 1;
        if id != last {
            let (member, score) = self.any(last as usize);
            let index = self.rank_of(score, member);
            self.tree.renumber(index, id);
        }
        self.scores.swap_remove(id);
    }
}
