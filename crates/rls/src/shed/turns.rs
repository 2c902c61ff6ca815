//! Since when bytes can have waited in the sockets of a thread: pure, times are given.
//!
//! The thread asks the system which sockets have something, serves the connections that do, and asks again: a turn. What a
//! turn finds came after the turn before. A turn that serves all whom it found leaves nobody waiting, and yet more may have
//! come meanwhile: then the answer to the question is there at once. If it took a while, the thread was asleep in the
//! question, and what woke it came just then.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The question takes no longer than this, in nanoseconds, if something has come before it is asked.
const AT_ONCE: u64 = 100_000;

/// The turns of one thread. Connections may be woken by other threads, which then tell of their own wake-ups only.
#[derive(Debug)]
pub(super) struct Turns {
    /// When the last one began, in nanoseconds.
    at: AtomicU64,
    /// How long before it bytes may have come.
    reach: AtomicU64,
    /// A connection was served since.
    served: AtomicBool,
    /// How long the connection took that was served last, and when that was done. Known if nobody waits.
    took: AtomicU64,
    ended: AtomicU64,
    /// Connections that were woken and not taken up.
    waiting: AtomicU64,
    /// Connections that were woken in this turn.
    found: AtomicU64,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            at: AtomicU64::new(0),
            reach: AtomicU64::new(0),
            // The first wake-up begins a turn.
            served: AtomicBool::new(true),
            took: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            found: AtomicU64::new(0),
        }
    }
}

impl Turns {
    /// A connection was woken at `now`; returns the time before which nothing came for it.
    pub(super) fn wake(&self, now: u64) -> u64 {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        if self.served.swap(false, Ordering::Relaxed) {
            let before = self.at.swap(now, Ordering::Relaxed);
            let asked = now.saturating_sub(self.ended.load(Ordering::Relaxed));
            let slept = waiting == 0 && asked > AT_ONCE;
            let reach = match slept {
                true => self.took.load(Ordering::Relaxed),
                false => now.saturating_sub(before),
            };
            self.reach.store(reach, Ordering::Relaxed);
            self.found.store(0, Ordering::Relaxed);
        }
        self.found.fetch_add(1, Ordering::Relaxed);
        self.at
            .load(Ordering::Relaxed)
            .saturating_sub(self.reach.load(Ordering::Relaxed))
    }

    /// A connection that was woken is taken up.
    pub(super) fn take_up(&self) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        // Wake-ups by other threads may get lost here, which makes the next reach a little shorter.
        self.waiting
            .store(waiting.saturating_sub(1), Ordering::Relaxed);
    }

    /// Whether the connection that was taken up is one of at most `most` that have brought something, with those that still wait.
    pub(super) fn are_few(&self, most: u64) -> bool {
        let waiting = self.waiting.load(Ordering::Relaxed);
        waiting < most && self.found.load(Ordering::Relaxed) <= most
    }

    /// A connection was served from `began` on.
    pub(super) fn served(&self, began: Duration, now: impl FnOnce() -> Duration) {
        self.served.store(true, Ordering::Relaxed);
        // Only what the last one before a sleep took is of interest.
        if self.waiting.load(Ordering::Relaxed) == 0 {
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let ended = now();
            let took = ended.saturating_sub(began);
            self.took.store(nanos(took), Ordering::Relaxed);
            self.ended.store(nanos(ended), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn served(turns: &Turns, from: u64, to: u64) {
        turns.take_up();
        turns.served(Duration::from_nanos(from), || Duration::from_nanos(to));
    }

    #[test]
    fn a_busy_thread_finds_what_came_since_it_asked_before() {
        let turns = Turns::default();
        // Three are woken at once; one is served, and then the system is asked again.
        for _ in 0..3 {
            turns.wake(100 * US);
        }
        served(&turns, 100 * US, 300 * US);
        assert_eq!(turns.wake(300 * US), 100 * US);
        // Found by the same turn.
        assert_eq!(turns.wake(301 * US), 100 * US);
        served(&turns, 301 * US, 500 * US);
        assert_eq!(turns.wake(500 * US), 300 * US);
    }

    #[test]
    fn what_came_while_all_were_served_is_as_old_as_that() {
        let turns = Turns::default();
        for connection in 0..3 {
            turns.wake((1_000 + connection) * US);
        }
        // All three, one after another: nobody is left waiting.
        for connection in 0..3 {
            let from = (1_010 + connection * 4_000) * US;
            served(&turns, from, from + 4_000 * US);
        }
        // The system names them again at once.
        for connection in 0..3 {
            assert_eq!(turns.wake((13_015 + connection) * US), 1_000 * US);
        }
    }

    #[test]
    fn an_idle_thread_is_woken_at_once() {
        let turns = Turns::default();
        turns.wake(100 * US);
        served(&turns, 100 * US, 130 * US);
        // Asleep for a second; the bytes may have come while it served the last one, for all it knows.
        assert_eq!(turns.wake(1_000_000 * US), 999_970 * US);
        served(&turns, 1_000_000 * US, 1_000_010 * US);
        assert_eq!(turns.wake(1_000_010 * US), 1_000_000 * US);
    }

    #[test]
    fn few_are_those_of_this_turn_and_those_that_wait() {
        let turns = Turns::default();
        for _ in 0..3 {
            turns.wake(100 * US);
        }
        turns.take_up();
        assert!(turns.are_few(3) && !turns.are_few(2));
        served(&turns, 100 * US, 110 * US);
        // The last of them still waits when the system names one more.
        turns.wake(120 * US);
        turns.take_up();
        assert!(turns.are_few(2) && !turns.are_few(1));
        served(&turns, 120 * US, 130 * US);
        turns.wake(140 * US);
        turns.take_up();
        assert!(turns.are_few(1));
    }

    #[test]
    fn lost_counts_do_not_wrap() {
        let turns = Turns::default();
        served(&turns, 0, 10);
        served(&turns, 10, 20);
        assert_eq!(turns.wake(500 * US), 500 * US - 10);
    }
}
