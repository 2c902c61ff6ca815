//! When connections have waited for long enough: pure, times are given.

use std::collections::BTreeMap;

/// The ends of waits, the earliest first. A wait that ends earlier or later than it was told leaves an entry that is
/// recognised when its time comes, so that most requests touch nothing here.
#[derive(Debug)]
pub(super) struct Dues<C> {
    entries: BTreeMap<(i64, u64), C>,
    number: u64,
}

impl<C> Default for Dues<C> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            number: 0,
        }
    }
}

/// The end of one connection's wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// When it ends.
    at: i64,
    /// When the connection is looked at next.
    armed: i64,
}

impl Due {
    pub(super) fn new() -> Due {
        Due {
            at: i64::MAX,
            armed: i64::MAX,
        }
    }
}

impl<C: Copy> Dues<C> {
    /// The wait of `connection` ends at `at`.
    pub(super) fn set(&mut self, due: &mut Due, at: i64, connection: C) {
        due.at = at;
        // Looked at earlier than that, it is entered again.
        if at < due.armed {
            due.armed = at;
            self.number += 1;
            self.entries.insert((at, self.number), connection);
        }
    }

    /// When the next connection is to be looked at.
    pub(super) fn next(&self) -> Option<i64> {
        self.entries.keys().next().map(|(at, _)| *at)
    }

    /// A connection whose time was entered for `now` or before, and what it was entered for.
    pub(super) fn take(&mut self, now: i64) -> Option<(i64, C)> {
        let entry = self.entries.first_entry()?;
        let (at, _) = *entry.key();
        (at <= now).then(|| (at, entry.remove()))
    }

    /// Whether the wait of the connection that was entered for `entered` has ended.
    pub(super) fn is_over(&mut self, due: &mut Due, entered: i64, now: i64, connection: C) -> bool {
        if entered != due.armed {
            // It was entered for an earlier time since.
            return false;
        }
        due.armed = i64::MAX;
        if due.at <= now {
            return true;
        }
        self.set(due, due.at, connection);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at all whose time has come; which of them have waited for long enough.
    fn over(dues: &mut Dues<usize>, all: &mut [Due], now: i64) -> Vec<usize> {
        let mut over = Vec::new();
        while let Some((entered, connection)) = dues.take(now) {
            if dues.is_over(&mut all[connection], entered, now, connection) {
                over.push(connection);
            }
        }
        over
    }

    #[test]
    fn waits_end_when_they_were_set_to_last() {
        let mut dues = Dues::default();
        let mut all = [Due::new(), Due::new()];
        dues.set(&mut all[0], 60, 0);
        dues.set(&mut all[1], 60, 1);
        // A body is waited for less long than a head.
        dues.set(&mut all[1], 20, 1);
        assert_eq!(dues.next(), Some(20));
        assert!(over(&mut dues, &mut all, 19).is_empty());
        // It came, and another head is waited for.
        dues.set(&mut all[1], 79, 1);
        assert!(over(&mut dues, &mut all, 20).is_empty());
        assert_eq!(over(&mut dues, &mut all, 60), [0]);
        assert!(over(&mut dues, &mut all, 78).is_empty());
        assert_eq!(over(&mut dues, &mut all, 79), [1]);
        assert_eq!(dues.next(), None);
    }

    #[test]
    fn requests_in_turn_enter_nothing_anew() {
        let mut dues = Dues::default();
        let mut due = Due::new();
        for now in 0..1_000 {
            dues.set(&mut due, now + 10, 0);
            dues.set(&mut due, now + 60, 0);
            over(&mut dues, std::slice::from_mut(&mut due), now);
            assert!(dues.entries.len() < 10, "{}", dues.entries.len());
        }
    }
}
