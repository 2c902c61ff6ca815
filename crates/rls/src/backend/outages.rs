//! Slots of a cluster whose node is away, so that requests for them are told at once and do not each find out anew.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::cluster::slot;

/// Most slots that are tried at once.
const MAX_TRIED: usize = 4;

/// What is known of slots that could not be asked; as many as a cluster has at most.
#[derive(Default)]
pub(super) struct Outages {
    slots: RefCell<BTreeMap<u16, Outage>>,
    /// The slot that was tried last.
    turn: Cell<u16>,
}

struct Outage {
    /// A key of the slot, to try it with.
    key: Box<[u8]>,
    reason: String,
}

impl Outages {
    /// Why the slot of a key cannot be asked, if that is known.
    pub(super) fn reason(&self, key: &[u8]) -> Option<String> {
        let slots = self.slots.borrow();
        if slots.is_empty() {
            return None;
        }
        slots.get(&slot(key)).map(|outage| outage.reason.clone())
    }

    /// The slot of a key could not be asked. True for the first one: then somebody must try until one answers.
    pub(super) fn add(&self, key: &[u8], reason: String) -> bool {
        let mut slots = self.slots.borrow_mut();
        let first = slots.is_empty();
        let outage = Outage {
            key: key.into(),
            reason,
        };
        slots.insert(slot(key), outage);
        first
    }

    /// Keys of some slots, others each time.
    pub(super) fn to_try(&self) -> Vec<Box<[u8]>> {
        let slots = self.slots.borrow();
        let (turn, mut last) = (self.turn.get(), self.turn.get());
        let later = slots.range(turn.saturating_add(1)..);
        let all = later.chain(slots.range(..=turn)).take(MAX_TRIED);
        let keys = all.map(|(&slot, outage)| {
            last = slot;
            outage.key.clone()
        });
        let keys = keys.collect();
        self.turn.set(last);
        keys
    }

    /// Some slot answers: others are asked again, and found out about again where their node is still away.
    pub(super) fn clear(&self) {
        self.slots.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_away_until_one_answers() {
        let outages = Outages::default();
        assert_eq!(outages.reason(b"{a}1"), None);
        assert!(outages.add(b"{a}1", "refused".to_owned()));
        assert!(!outages.add(b"{b}1", "refused".to_owned()));
        assert_eq!(outages.reason(b"{a}2").as_deref(), Some("refused"));
        assert_eq!(outages.reason(b"{c}"), None);
        outages.clear();
        assert_eq!(outages.reason(b"{a}2"), None);
        assert!(outages.add(b"{a}1", "again".to_owned()));
    }

    #[test]
    fn all_are_tried_in_turn_and_few_at_once() {
        let outages = Outages::default();
        assert!(outages.to_try().is_empty());
        let count = 3 * MAX_TRIED;
        for number in 0..count {
            outages.add(format!("{{{number}}}").as_bytes(), String::new());
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            let keys = outages.to_try();
            assert_eq!(keys.len(), MAX_TRIED);
            seen.extend(keys);
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
