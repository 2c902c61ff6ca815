//! Which counters a thread knows to have gone on from those before a change of the rules.

use std::cell::RefCell;
use std::collections::HashSet;

use tollgate_policy::{LimitCheck, Predecessor};

/// Most counters that one thread remembers; then it begins anew and asks the store once more for each.
const MAX_KEYS: usize = 16_384;

/// The counters of the newest rules for which nothing is left to carry over.
#[derive(Default)]
pub(super) struct Carried(RefCell<Known>);

#[derive(Default)]
struct Known {
    generation: u64,
    keys: HashSet<Box<[u8]>>,
}

impl Carried {
    /// What the check may have to be carried over from.
    pub(super) fn wanting<'a>(&self, check: &LimitCheck<'a>) -> Option<Predecessor<'a>> {
        let from = check.predecessor?;
        let known = self.0.borrow();
        let done = known.generation == from.generation && known.keys.contains(check.key);
        (!done).then_some(from)
    }

    /// Nothing is left to carry over.
    pub(super) fn done(&self, check: &LimitCheck<'_>, from: &Predecessor<'_>) {
        let mut known = self.0.borrow_mut();
        if known.generation > from.generation {
            // A request that began with the rules before.
            return;
        }
        if known.generation < from.generation || known.keys.len() >= MAX_KEYS {
            known.keys.clear();
        }
        known.generation = from.generation;
        known.keys.insert(check.key.into());
    }
}
