//! Which requests of a queue are refused: pure, times are given.
//!
//! A request that has waited for as long as its caller waits is refused, because nobody reads the answer. That alone is not
//! enough past saturation: first in, first out, every request waits for nearly that long, and is answered too late by the
//! time it takes. So the queue is watched as CoDel does (RFC 8289): where even the shortest wait of an interval was above a
//! target, the queue is a standing one and not a burst, and requests are refused after three quarters of the time until a
//! shorter wait is seen.

use std::time::Duration;

use super::batch::ReadBatch;

/// Time over which the shortest wait is looked for, as CoDel has it.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Fewest waits of an interval that say something.
const SAMPLES_MIN: u32 = 4;
/// The patience by this is how long a queue may stand.
const TARGET_DIVISOR: u32 = 4;
/// The patience by this is how long a connection may wait in a queue that stands before newer ones are served first.
const STALE_DIVISOR: u32 = 2;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It has waited for as long as its caller does.
    Deadline,
    /// It came into a queue that stands, and has waited for three quarters of that; or with others that are newer ([`ReadBatch`]).
    Overload,
    /// Too many wait for the backend already.
    Queue,
}

/// The queue of one thread.
#[derive(Debug)]
pub(crate) struct Queue {
    patience: Duration,
    /// End of the interval that is looked at.
    ends: Duration,
    shortest: Duration,
    samples: u32,
    stands: bool,
}

impl Queue {
    /// `patience` is how long callers wait that do not say.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            patience,
            ends: Duration::ZERO,
            shortest: Duration::MAX,
            samples: 0,
            stands: false,
        }
    }

    /// Takes note of a wait that ended at `now`, counted from any moment that stays.
    pub(crate) fn note(&mut self, now: Duration, waited: Duration) {
        if now >= self.ends {
            // What is older than an interval says nothing about this one.
            let recent = now < self.ends.saturating_add(INTERVAL);
            self.stands = recent
                && self.samples >= SAMPLES_MIN
                && self.shortest > self.patience / TARGET_DIVISOR;
            self.ends = now.saturating_add(INTERVAL);
            self.shortest = Duration::MAX;
            self.samples = 0;
        }
        self.shortest = self.shortest.min(waited);
        self.samples = self.samples.saturating_add(1);
        if waited <= self.patience / TARGET_DIVISOR {
            self.stands = false;
        }
    }

    /// Whether what has waited for so long comes after what is newer.
    pub(crate) fn is_stale(&self, waited: Duration) -> bool {
        self.stands && waited >= self.patience / STALE_DIVISOR
    }

    /// Whether requests have waited for too long for a while.
    pub(crate) fn stands(&self) -> bool {
        self.stands
    }

    /// Requests that came at once, within the last `span`; `is_alone` if the connection mostly brings one.
    pub(crate) fn batch(&self, span: Duration, is_alone: bool) -> ReadBatch {
        ReadBatch {
            span,
            patience: self.patience,
            stands: self.stands,
            is_alone,
        }
    }

    /// Whether a request that has waited for so long is refused; `caller` is how long who asked waits for the answer.
    pub(crate) fn refuse(&self, waited: Duration, caller: Option<Duration>) -> Option<Refused> {
        let patience = caller.map_or(self.patience, |caller| caller.min(self.patience));
        if waited >= patience {
            Some(Refused::Deadline)
        } else if self.stands && waited >= patience * 3 / 4 {
            Some(Refused::Overload)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(20);
    /// A decision takes so long; refusing one fiftieth of it.
    const DECISION: Duration = Duration::from_micros(100);
    const REFUSAL: Duration = Duration::from_micros(2);
    const LENGTH: Duration = Duration::from_secs(5);

    /// Answers in time per second, and how many requests were refused.
    struct Run {
        goodput: f64,
        refused: u64,
    }

    /// One server, first in, first out, asked at `load` times what it can do; gaps vary by a fixed sequence around the mean.
    fn simulate(load: f64, sheds: bool, surge: Option<(Duration, Duration)>) -> Run {
        let mut queue = Queue::new(PATIENCE);
        let mut waiting = VecDeque::new();
        let (mut now, mut next, mut seed) = (Duration::ZERO, Duration::ZERO, 7_u64);
        let (mut good, mut refused) = (0_u64, 0_u64);
        while now < LENGTH {
            while next <= now {
                waiting.push_back(next);
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let uniform = ((seed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
                let surging = surge.is_some_and(|(from, to)| next >= from && next < to);
                let rate = if surging { 2.0 } else { load };
                next += DECISION.mul_f64(-uniform.ln() / rate);
            }
            let Some(came) = waiting.pop_front() else {
                now = next;
                continue;
            };
            let waited = now - came;
            queue.note(now, waited);
            if sheds && queue.refuse(waited, None).is_some() {
                refused += 1;
                now += REFUSAL;
                continue;
            }
            now += DECISION;
            good += u64::from(now - came <= PATIENCE);
        }
        Run {
            goodput: good as f64 / LENGTH.as_secs_f64(),
            refused,
        }
    }

    #[test]
    fn goodput_stays_past_saturation() {
        let loads = [0.5, 0.7, 0.8, 0.9, 0.95, 1.0];
        let peak = loads.map(|load| simulate(load, true, None).goodput);
        let peak = peak.into_iter().fold(0.0, f64::max);
        for load in [1.2, 1.5, 2.0] {
            let run = simulate(load, true, None);
            assert!(
                run.goodput >= 0.95 * peak,
                "{load}x: {} of {peak}",
                run.goodput
            );
            let collapsed = simulate(load, false, None).goodput;
            assert!(collapsed < 0.2 * peak, "{load}x without: {collapsed}");
        }
    }

    #[test]
    fn who_is_not_loaded_never_refuses() {
        for load in [0.1, 0.5, 0.8] {
            assert_eq!(simulate(load, true, None).refused, 0, "{load}x");
        }
    }

    #[test]
    fn it_recovers_by_itself() {
        let surge = (Duration::from_secs(1), Duration::from_secs(2));
        let surged = simulate(0.5, true, Some(surge));
        let calm = simulate(0.5, true, None);
        assert!(surged.refused > 0);
        // The second at twice what it can do adds half of what it can do, and nothing is lost before or after.
        assert!(
            surged.goodput > calm.goodput,
            "{} {}",
            surged.goodput,
            calm.goodput
        );
    }

    #[test]
    fn a_burst_is_not_a_standing_queue() {
        let mut queue = Queue::new(PATIENCE);
        let at = Duration::from_millis;
        // All wait for long, but one of them in each interval does not.
        for interval in 0..10 {
            for sample in 0..50 {
                let waited = if sample == 25 { at(1) } else { at(12) };
                queue.note(at(interval * 100 + sample * 2), waited);
            }
            assert_eq!(queue.refuse(at(12), None), None, "{interval}");
        }
        // Few waits say nothing, however long.
        let mut queue = Queue::new(PATIENCE);
        for interval in 0..10 {
            for sample in 0..u64::from(SAMPLES_MIN) - 1 {
                queue.note(at(interval * 100 + sample), at(15));
            }
            assert_eq!(queue.refuse(at(15), None), None, "{interval}");
        }
    }

    #[test]
    fn a_standing_queue_shortens_the_patience_until_a_short_wait() {
        let mut queue = Queue::new(PATIENCE);
        let at = Duration::from_millis;
        for sample in 0..=30 {
            queue.note(at(sample * 5), at(12));
        }
        assert_eq!(queue.refuse(at(15), None), Some(Refused::Overload));
        assert_eq!(queue.refuse(at(14), None), None);
        assert_eq!(queue.refuse(at(6), Some(at(8))), Some(Refused::Overload));
        assert!(queue.is_stale(at(10)) && !queue.is_stale(at(9)));
        queue.note(at(151), at(2));
        assert_eq!(queue.refuse(at(15), None), None);
        // After a pause nothing is known.
        let mut queue = Queue::new(PATIENCE);
        for sample in 0..=30 {
            queue.note(at(sample * 5), at(12));
        }
        queue.note(at(10_000), at(12));
        assert_eq!(queue.refuse(at(15), None), None);
    }

    #[test]
    fn callers_that_say_how_long_they_wait_are_believed() {
        let queue = Queue::new(PATIENCE);
        let at = Duration::from_millis;
        assert_eq!(queue.refuse(at(5), Some(at(5))), Some(Refused::Deadline));
        assert_eq!(queue.refuse(at(4), Some(at(5))), None);
        // One who waits for long does not keep others waiting.
        assert_eq!(queue.refuse(at(20), Some(at(500))), Some(Refused::Deadline));
        assert_eq!(
            queue.refuse(Duration::ZERO, Some(Duration::ZERO)),
            Some(Refused::Deadline)
        );
    }
}
