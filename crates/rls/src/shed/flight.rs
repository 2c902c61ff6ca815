//! How many requests may wait for a backend elsewhere: pure, times are given.
//!
//! A backend past saturation answers all requests late. As many as it answers in time are let through: the number falls by
//! a share while answers are late, and rises by one with every round of answers in time (additive increase,
//! multiplicative decrease; Chiu and Jain 1989). Where the backend or this thread stood still for a moment, what waited
//! meanwhile is answered late all at once: that says nothing about how many there is room for.

use std::time::Duration;

use super::queue::INTERVAL;

/// Fewest requests that may wait.
const LIMIT_MIN: f64 = 8.0;
/// Most requests that may wait; how many may at first.
const LIMIT_MAX: f64 = 4_096.0;
/// Answers must have been late for so many times the time that makes one late.
const LASTING: u32 = 2;
/// What a late answer leaves of the limit.
const DECREASE: f64 = 0.7;

/// The limit of one thread.
#[derive(Debug)]
pub(crate) struct Flights {
    /// An answer that takes longer is late.
    late_after: Duration,
    limit: f64,
    count: usize,
    /// The first of the late answers that no other has come between, and the last.
    late: Option<(Duration, Duration)>,
    /// Until then no late answer lowers the limit again: it was asked for under the old one.
    settles: Duration,
}

impl Flights {
    /// Answers are late after `late_after`.
    pub(crate) fn new(late_after: Duration) -> Self {
        Self {
            late_after,
            limit: LIMIT_MAX,
            count: 0,
            late: None,
            settles: Duration::ZERO,
        }
    }

    /// Lets one more wait, if there is room.
    #[must_use]
    pub(crate) fn enter(&mut self) -> bool {
        let room = (self.count as f64) < self.limit.floor();
        self.count += usize::from(room);
        room
    }

    /// One was answered at `now` after having waited for `took`, or gave up.
    pub(crate) fn leave(&mut self, now: Duration, took: Duration) {
        let count = self.count as f64;
        self.count = self.count.saturating_sub(1);
        if took > self.late_after {
            let recent = |last| now.saturating_sub(last) < INTERVAL;
            let since = match self.late {
                Some((since, last)) if recent(last) => since,
                _ => now,
            };
            self.late = Some((since, now));
            let is_lasting = now.saturating_sub(since) >= self.late_after * LASTING;
            if is_lasting && now >= self.settles {
                self.limit = (self.limit.min(count) * DECREASE).max(LIMIT_MIN);
                self.settles = now.saturating_add(took.min(INTERVAL));
            }
            return;
        }
        self.late = None;
        // A limit that is not made use of says nothing about a higher one.
        if count * 2.0 >= self.limit {
            self.limit = (self.limit + 1.0 / self.limit).min(LIMIT_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(20);
    const LATE: Duration = Duration::from_millis(10);

    /// A backend that takes `each` for a request, one after another, asked every `gap`: answers in time, refused ones.
    fn simulate(each: Duration, gap: Duration, limited: bool) -> (u64, u64) {
        let mut flights = Flights::new(LATE);
        // When each was asked, and when it is answered.
        let mut flying: VecDeque<(Duration, Duration)> = VecDeque::new();
        let (mut now, mut free) = (Duration::ZERO, Duration::ZERO);
        let (mut good, mut refused) = (0, 0);
        while now < Duration::from_secs(10) {
            while let Some(&(asked, answered)) = flying.front().filter(|(_, at)| *at <= now) {
                flying.pop_front();
                flights.leave(answered, answered - asked);
                good += u64::from(answered - asked <= PATIENCE);
            }
            if !limited || flights.enter() {
                free = free.max(now) + each;
                flying.push_back((now, free));
            } else {
                refused += 1;
            }
            now += gap;
        }
        (good, refused)
    }

    #[test]
    fn goodput_stays_past_saturation() {
        let each = Duration::from_micros(100);
        let peak = simulate(each, each, true).0 as f64;
        for load in [1.5, 2.0] {
            let (good, refused) = simulate(each, each.div_f64(load), true);
            assert!(good as f64 >= 0.95 * peak, "{load}x: {good} of {peak}");
            assert!(refused > 0);
            let (collapsed, _) = simulate(each, each.div_f64(load), false);
            assert!((collapsed as f64) < 0.2 * peak, "{load}x: {collapsed}");
        }
    }

    #[test]
    fn who_is_not_loaded_never_refuses() {
        let each = Duration::from_micros(100);
        assert_eq!(simulate(each, each * 2, true).1, 0);
        // All at once, and answered in time.
        let mut flights = Flights::new(LATE);
        assert!((0..4_000).all(|_| flights.enter()));
    }

    #[test]
    fn a_moment_without_answers_is_no_saturation() {
        let at = Duration::from_millis;
        let mut flights = Flights::new(LATE);
        // Now and then the backend stands still: one request waits for it, or many, and all are answered when it goes on.
        for (stall, waiting) in [(1_000, 1), (1_300, 200), (1_350, 50), (3_000, 1)] {
            assert!((0..waiting).all(|_| flights.enter()), "{stall}");
            for _ in 0..waiting {
                flights.leave(at(stall), at(60));
            }
            assert!(flights.enter());
            flights.leave(at(stall + 1), at(1));
        }
        assert!((0..4_000).all(|_| flights.enter()));
    }

    #[test]
    fn the_number_is_bounded_and_comes_back() {
        let mut flights = Flights::new(LATE);
        let entered = (0..10_000).filter(|_| flights.enter()).count();
        assert_eq!(entered as f64, LIMIT_MAX);
        // Everything is late for ten seconds.
        for step in 0..entered as u64 {
            flights.leave(Duration::from_millis(step * 10), PATIENCE);
        }
        assert_eq!(flights.count, 0);
        let few = (0..100).filter(|_| flights.enter()).count();
        assert_eq!(few as f64, LIMIT_MIN);
        // In time again: each round of answers makes room for one more.
        let mut waiting = few;
        for round in 0..400 {
            for _ in 0..waiting {
                flights.leave(Duration::from_secs(100 + round), Duration::from_millis(1));
            }
            waiting = (0..10_000).filter(|_| flights.enter()).count();
        }
        assert!(waiting > 100, "{waiting}");
    }
}
