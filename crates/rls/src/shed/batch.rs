//! Which requests of one read are refused: pure, times are given.
//!
//! Past saturation a thread comes back to a connection late, and what it finds there is of all ages. Served first in, first
//! out, it would spend its time on the oldest and answer all of them too late. Here the newest are answered and the others
//! refused, which costs little, whatever the age of the oldest.

use std::time::Duration;

use super::queue::Refused;

/// Eighths of the patience that a request of a batch may be old to be answered while the queue stands. Whatever a turn takes,
/// the newest are that young, so the thread never runs out of requests that can be answered in time; and as it decides no
/// more than came within that time, a turn takes only as much longer as more is asked than it can decide. The rest of the
/// patience is for the ways there and back, which past saturation are long at the caller's end too.
const FRESH_EIGHTHS: u32 = 2;
/// The same while it does not stand.
const BURST_EIGHTHS: u32 = 3;
/// The same on a connection that is put aside when it has waited for too long: what is served is not late.
const ALONE_EIGHTHS: u32 = 4;

/// Requests that one read brought, the oldest first. How old each is nobody knows; they are taken to have come evenly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadBatch {
    pub(super) span: Duration,
    /// How long callers wait that do not say.
    pub(super) patience: Duration,
    /// Requests have waited for too long for a while.
    pub(super) stands: bool,
    /// The connection brings one request after another.
    pub(super) is_alone: bool,
}

impl ReadBatch {
    /// Whether the request at place `at` of `count`, from 0, is refused; `caller` is how long who asked waits.
    pub(crate) fn refuse(
        &self,
        caller: Option<Duration>,
        at: usize,
        count: usize,
    ) -> Option<Refused> {
        let patience = caller.map_or(self.patience, |caller| caller.min(self.patience));
        let eighths = match (self.is_alone, self.stands) {
            (true, _) => ALONE_EIGHTHS,
            (false, true) => FRESH_EIGHTHS,
            (false, false) => BURST_EIGHTHS,
        };
        let fresh = patience * eighths / 8;
        // Most have come just now.
        if self.span < fresh {
            return None;
        }
        // One alone came in the middle of the span, as far as one can tell.
        let newer = (count as f64 - at as f64 - 0.5).max(0.0);
        let waited = self.span.mul_f64(newer / count.max(1) as f64);
        if waited >= patience {
            Some(Refused::Deadline)
        } else if waited >= fresh {
            Some(Refused::Overload)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::queue::Queue;
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(20);
    /// What it costs to come to a connection, to read a request, and to decide it.
    const VISIT: Duration = Duration::from_micros(5);
    const READ: Duration = Duration::from_nanos(150);
    const DECISION: Duration = Duration::from_nanos(2_500);
    const LENGTH: Duration = Duration::from_secs(2);

    struct Run {
        goodput: f64,
        refused: usize,
        /// Share of the answers that came too late.
        late: f64,
    }

    /// One thread that goes from connection to connection, asked `rate` times a second.
    fn simulate(connections: usize, rate: f64, sheds: bool) -> Run {
        let mut queue = Queue::new(PATIENCE);
        let mut waiting = vec![Vec::new(); connections];
        let mut visited = vec![Duration::ZERO; connections];
        let (mut now, mut next, mut seed) = (Duration::ZERO, Duration::ZERO, 7_u64);
        let (mut good, mut late, mut refused) = (0, 0, 0);
        // Connections that the system named when it was asked last, and when it was asked before.
        let mut ready = VecDeque::new();
        let (mut turn, mut before) = (Duration::ZERO, Duration::ZERO);
        while now < LENGTH {
            while next <= now {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                waiting[(seed >> 33) as usize % connections].push(next);
                let uniform = ((seed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
                next += Duration::from_secs_f64(-uniform.ln() / rate);
            }
            let Some(found) = ready.pop_front() else {
                ready.extend((0..connections).filter(|at| !waiting[*at].is_empty()));
                before = turn;
                if ready.is_empty() {
                    // The thread sleeps: what wakes it has not waited.
                    (now, before) = (next, next);
                }
                turn = now;
                continue;
            };
            let span = now - before.max(visited[found]);
            visited[found] = now;
            queue.note(now, span);
            let batch = queue.batch(span, false);
            now += VISIT;
            let calls = std::mem::take(&mut waiting[found]);
            let mut answered = Vec::new();
            for (place, came) in calls.iter().enumerate() {
                now += READ;
                if sheds && batch.refuse(None, place, calls.len()).is_some() {
                    refused += 1;
                } else {
                    now += DECISION;
                    answered.push(*came);
                }
            }
            // All leave with one write.
            for came in answered {
                match now - came <= PATIENCE {
                    true => good += 1,
                    false => late += 1,
                }
            }
        }
        Run {
            goodput: f64::from(good) / LENGTH.as_secs_f64(),
            refused,
            late: f64::from(late) / f64::from(good + late).max(1.0),
        }
    }

    /// What a closed loop of 16 calls for each connection reaches.
    fn capacity() -> f64 {
        (READ + DECISION + VISIT / 16).as_secs_f64().recip()
    }

    #[test]
    fn goodput_stays_past_saturation() {
        for connections in [50, 800] {
            let peak = [0.7, 0.9, 1.0]
                .map(|load| simulate(connections, load * capacity(), true).goodput)
                .into_iter()
                .fold(0.0, f64::max);
            for load in [1.5, 2.0] {
                let run = simulate(connections, load * capacity(), true);
                let kept = run.goodput / peak;
                assert!(kept >= 0.95, "{connections}, {load}x: {kept}");
                assert!(
                    run.late <= 0.01,
                    "{connections}, {load}x: {} late",
                    run.late
                );
                let without = simulate(connections, load * capacity(), false).goodput;
                assert!(
                    without < 0.3 * peak,
                    "{connections}, {load}x: {without} without"
                );
            }
        }
    }

    #[test]
    fn who_is_not_loaded_never_refuses() {
        for connections in [1, 50, 800] {
            let run = simulate(connections, 0.5 * capacity(), true);
            assert_eq!((run.refused, run.late), (0, 0.0), "{connections}");
        }
    }

    #[test]
    fn the_newest_are_answered() {
        let at = Duration::from_millis;
        let batch = |span, stands| ReadBatch {
            span,
            patience: PATIENCE,
            stands,
            is_alone: false,
        };
        let refused = |batch: ReadBatch, caller| {
            (0..10)
                .filter(|place| batch.refuse(caller, *place, 10).is_some())
                .count()
        };
        assert_eq!(refused(batch(at(4), true), None), 0);
        assert_eq!(refused(batch(at(20), true), None), 8);
        assert_eq!(refused(batch(at(40), true), None), 9);
        assert_eq!(refused(batch(at(40), false), None), 8);
        let oldest = batch(at(40), true).refuse(None, 0, 10);
        assert_eq!(oldest, Some(Refused::Deadline));
        assert_eq!(
            batch(at(15), true).refuse(None, 0, 10),
            Some(Refused::Overload)
        );
        // Callers that wait for less are believed, those that wait for more keep nobody waiting.
        assert_eq!(refused(batch(at(9), true), Some(at(9))), 8);
        assert_eq!(refused(batch(at(40), true), Some(at(500))), 9);
        let alone = |span| {
            let is_alone = true;
            let batch = ReadBatch {
                is_alone,
                ..batch(span, true)
            };
            batch.refuse(None, 0, 1)
        };
        assert_eq!(alone(at(19)), None);
        assert_eq!(alone(at(20)), Some(Refused::Overload));
        assert_eq!(alone(at(40)), Some(Refused::Deadline));
        let none_left = batch(Duration::ZERO, false).refuse(Some(Duration::ZERO), 0, 1);
        assert_eq!(none_left, Some(Refused::Deadline));
    }
}
