//! Waits that denials promised, against what happened next.

use super::spans::{History, Span, sorted};
use crate::record::RetryAfter;

const MILLI_NS: i64 = 1_000_000;
const SECOND_MS: u64 = 1_000;

/// The promises of many keys, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promises {
    whole_seconds: bool,
    found: RetryAfter,
    errors_ms: f64,
    /// Promises that were too long by less than a second, which are kept if the protocol has only seconds.
    near_long: u64,
}

impl Default for Promises {
    fn default() -> Self {
        Self {
            whole_seconds: true,
            found: RetryAfter::default(),
            errors_ms: 0.0,
            near_long: 0,
        }
    }
}

impl Promises {
    /// Takes in one key. A promise is too long if somebody was admitted before it ran out, and too short if somebody was
    /// denied after it ran out although nobody can have been admitted in between.
    pub(super) fn add(&mut self, history: &History) {
        let admissions = Admissions::new(history);
        let known = history.denied.iter().map(|(span, _)| *span);
        let mut denials: Vec<Span> = known
            .filter(|span| span.to < history.complete_until)
            .collect();
        denials.sort_unstable_by_key(|span| span.to);
        let mut latest = i64::MIN;
        let latest_begin: Vec<i64> = denials
            .iter()
            .map(|span| {
                latest = latest.max(span.from);
                latest
            })
            .collect();
        for (denied, promise) in &history.denied {
            let Some(promise_ms) = *promise else {
                continue;
            };
            self.whole_seconds &= promise_ms % SECOND_MS == 0;
            let wait = i64::try_from(promise_ms)
                .unwrap_or(i64::MAX)
                .saturating_mul(MILLI_NS);
            let admitted_by = admissions.first_after(denied.to);
            let too_long =
                admitted_by.map(|by| denied.from.saturating_add(wait).saturating_sub(by));
            // The last denial that was made before anybody can have been admitted.
            let free_until = admissions.earliest_possible(denied.from);
            let before = denials.partition_point(|span| span.to < free_until);
            let still_denied = before.checked_sub(1).map(|index| latest_begin[index]);
            let too_short = still_denied
                .map(|at| at.saturating_sub(denied.to.saturating_add(wait)))
                .filter(|short| *short > 0);
            if too_long.is_some() || too_short.is_some() {
                self.check(too_long.unwrap_or(0), too_short.unwrap_or(0));
            }
        }
    }

    fn check(&mut self, too_long_ns: i64, too_short_ns: i64) {
        let ms = |ns: i64| ns.max(0) as f64 / MILLI_NS as f64;
        let (long, short) = (ms(too_long_ns), ms(too_short_ns));
        let found = &mut self.found;
        found.checked += 1;
        found.worst_too_long_ms = found.worst_too_long_ms.max(long);
        found.worst_too_short_ms = found.worst_too_short_ms.max(short);
        self.errors_ms += long.max(short);
        let second = SECOND_MS as f64;
        if short > 1.0 {
            found.too_short += 1;
        } else if long > 1.0 {
            found.too_long += 1;
            self.near_long += u64::from(long <= second);
        } else {
            found.kept += 1;
        }
    }

    /// All together; `None` if nothing was promised or nothing could be checked.
    #[must_use]
    pub(super) fn finish(self) -> Option<RetryAfter> {
        let mut found = self.found;
        if found.checked == 0 {
            return None;
        }
        found.resolution_ms = 1.0;
        if self.whole_seconds {
            // A wait rounded up to seconds is right; one rounded down is not.
            found.resolution_ms = SECOND_MS as f64;
            found.kept += self.near_long;
            found.too_long -= self.near_long;
        }
        found.mean_error_ms = self.errors_ms / found.checked as f64;
        Some(found)
    }
}

/// Admissions of a key, for questions about what came after a time.
struct Admissions {
    by_begin: Vec<i64>,
    /// The earliest end among this and all later begins.
    ends_from: Vec<i64>,
    by_end: Vec<i64>,
    /// The earliest begin among this and all later ends.
    begins_from: Vec<i64>,
}

impl Admissions {
    fn new(history: &History) -> Admissions {
        let mut admitted = history.admitted.clone();
        admitted.sort_unstable_by_key(|span| span.from);
        let by_begin = admitted.iter().map(|span| span.from).collect();
        let ends_from = least_from(admitted.iter().map(|span| span.to));
        let mut charged: Vec<Span> = history.charged().collect();
        charged.sort_unstable_by_key(|span| span.to);
        Admissions {
            by_begin,
            ends_from,
            by_end: sorted(charged.iter().copied(), |span| span.to),
            begins_from: least_from(charged.iter().map(|span| span.from)),
        }
    }

    /// By when somebody was certainly admitted after `at`.
    fn first_after(&self, at: i64) -> Option<i64> {
        let index = self.by_begin.partition_point(|begin| *begin < at);
        self.ends_from.get(index).copied()
    }

    /// From when on somebody may have been admitted at or after `at`.
    fn earliest_possible(&self, at: i64) -> i64 {
        let index = self.by_end.partition_point(|end| *end < at);
        self.begins_from.get(index).copied().unwrap_or(i64::MAX)
    }
}

fn least_from(values: impl DoubleEndedIterator<Item = i64>) -> Vec<i64> {
    let mut least = i64::MAX;
    let mut kept: Vec<i64> = values
        .rev()
        .map(|value| {
            least = least.min(value);
            least
        })
        .collect();
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Span {
        Span {
            from: ms * MILLI_NS,
            to: ms * MILLI_NS,
        }
    }

    fn checked(admitted: &[i64], denied: &[(i64, u64)]) -> Option<RetryAfter> {
        let mut promises = Promises::default();
        promises.add(&History {
            admitted: admitted.iter().map(|ms| at(*ms)).collect(),
            denied: denied
                .iter()
                .map(|(ms, wait)| (at(*ms), Some(*wait)))
                .collect(),
            unknown: Vec::new(),
            complete_until: i64::MAX,
        });
        promises.finish()
    }

    #[test]
    fn a_promise_that_fits_is_kept() {
        let found = checked(&[0, 500], &[(10, 490), (480, 20)]).unwrap();
        assert_eq!(
            (found.checked, found.kept, found.mean_error_ms),
            (2, 2, 0.0)
        );
        assert_eq!(checked(&[0], &[(10, 490)]), None, "nothing came after it");
    }

    #[test]
    fn promises_too_long_and_too_short_are_told_apart() {
        let found = checked(&[0, 500], &[(10, 700), (300, 50), (400, 100)]).unwrap();
        assert_eq!((found.too_long, found.too_short, found.kept), (1, 1, 1));
        assert_eq!(found.worst_too_long_ms, 210.0);
        assert_eq!(found.worst_too_short_ms, 50.0);
    }

    #[test]
    fn seconds_may_be_rounded_up_and_not_down() {
        let found = checked(&[0, 1_500], &[(10, 2_000), (20, 1_000), (1_400, 0)]).unwrap();
        assert_eq!(found.resolution_ms, 1_000.0);
        assert_eq!((found.too_long, found.too_short, found.kept), (0, 1, 2));
    }
}
