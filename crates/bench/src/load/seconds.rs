//! What happened second by second: counts as differences of the running totals, and one small histogram that is
//! emptied at every boundary. A boundary costs the generator some microseconds; percentiles are computed afterwards.

use hdrhistogram::Histogram;

/// Width of a bucket at first.
const WIDTH_NS: u64 = 1_000_000_000;
/// Buckets kept; when there are so many, neighbours are joined and buckets become twice as wide.
pub(crate) const BUCKETS_MAX: usize = 240;
/// Smallest latency told apart.
const LOW_NS: u64 = 1_000;
/// Largest latency recorded; longer ones count as this.
const HIGH_NS: u64 = 120_000_000_000;
/// Significant digits: enough for a curve over time, and a tenth of the memory of three.
const DIGITS: u8 = 2;

/// Running totals of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that came due.
    pub planned: u64,
    /// Requests written.
    pub sent: u64,
    /// Right answers in time.
    pub good: u64,
    /// Failures of every kind.
    pub failed: u64,
}

impl Totals {
    fn since(self, before: Totals) -> Totals {
        // An interrupted run takes requests back out of its totals.
        Totals {
            planned: self.planned.saturating_sub(before.planned),
            sent: self.sent.saturating_sub(before.sent),
            good: self.good.saturating_sub(before.good),
            failed: self.failed.saturating_sub(before.failed),
        }
    }

    fn plus(self, other: Totals) -> Totals {
        Totals {
            planned: self.planned + other.planned,
            sent: self.sent + other.sent,
            good: self.good + other.good,
            failed: self.failed + other.failed,
        }
    }
}

/// One bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Start, from the start of the schedule.
    pub at_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// What happened in it.
    pub counts: Totals,
    /// Requests waiting or on the wire at its end.
    pub in_flight: u64,
    /// How much later than due the generator took requests up, `None` if none came due.
    pub own_lag: Option<Lag>,
    /// Response times of the good answers, and how long others were waited for: value in nanoseconds and how often, rising.
    latencies: Vec<(u64, u64)>,
}

/// How late requests were taken up: what can be added up without a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Requests.
    pub count: u64,
    /// Sum over them.
    pub sum_ns: u64,
    /// The latest.
    pub max_ns: u64,
}

impl Lag {
    fn plus(self, other: Lag) -> Lag {
        Lag {
            count: self.count + other.count,
            sum_ns: self.sum_ns.saturating_add(other.sum_ns),
            max_ns: self.max_ns.max(other.max_ns),
        }
    }

    /// Mean; 0 without requests.
    #[must_use]
    pub(crate) fn mean_ns(self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }
}

impl Bucket {
    /// The response times as a histogram of nanoseconds.
    #[must_use]
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = empty();
        for (value, count) in &self.latencies {
            histogram.saturating_record_n(*value, *count);
        }
        histogram
    }

    fn join(&mut self, later: Bucket) {
        self.length_ns += later.length_ns;
        self.counts = self.counts.plus(later.counts);
        self.in_flight = later.in_flight;
        self.own_lag = match (self.own_lag, later.own_lag) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b),
        };
        self.latencies.extend(later.latencies);
        self.latencies.sort_unstable();
        self.latencies.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(LOW_NS, HIGH_NS, DIGITS)
        .expect("the constant bounds are in the range that the histogram accepts")
}

/// The buckets of a step in progress.
#[derive(Clone, Debug)]
pub(crate) struct Seconds {
    start: u64,
    width: u64,
    /// Start of the open bucket, from `start`.
    open_at: u64,
    /// The last time seen, from `start`.
    seen: u64,
    before: Totals,
    own_lag: Lag,
    latencies: Histogram<u64>,
    closed: Vec<Bucket>,
    /// Whether the last of them was not yet told.
    fresh: bool,
}

impl Seconds {
    /// Of a schedule that starts at time `start`.
    #[must_use]
    pub(crate) fn new(start: u64) -> Seconds {
        Seconds {
            start,
            width: WIDTH_NS,
            open_at: 0,
            seen: 0,
            before: Totals::default(),
            own_lag: Lag::default(),
            latencies: empty(),
            closed: Vec::new(),
            fresh: false,
        }
    }

    /// The last bucket that has ended, once each.
    #[inline]
    pub(crate) fn take_fresh(&mut self) -> Option<&Bucket> {
        let fresh = std::mem::take(&mut self.fresh);
        self.closed.last().filter(|_| fresh)
    }

    /// Counts the response time of a good answer, or how long one was waited for in vain.
    #[inline]
    pub(crate) fn record(&mut self, response_ns: u64) {
        self.latencies.saturating_record(response_ns);
    }

    /// Counts how much later than due the generator took a request up.
    #[inline]
    pub(crate) fn record_own_lag(&mut self, lag_ns: u64) {
        self.own_lag = self.own_lag.plus(Lag {
            count: 1,
            sum_ns: lag_ns,
            max_ns: lag_ns,
        });
    }

    /// Closes buckets that have ended by `now`; `totals` and `in_flight` are as of now.
    #[inline]
    pub(crate) fn pass(&mut self, now: u64, in_flight: u64, totals: impl FnOnce() -> Totals) {
        self.seen = now.saturating_sub(self.start);
        if self.seen >= self.open_at + self.width {
            self.close_ended(totals(), in_flight);
        }
    }

    fn close_ended(&mut self, totals: Totals, in_flight: u64) {
        while self.seen >= self.open_at + self.width {
            self.close(self.width, totals, in_flight);
            if self.closed.len() == BUCKETS_MAX {
                self.widen();
            }
        }
    }

    fn close(&mut self, length_ns: u64, totals: Totals, in_flight: u64) {
        let recorded = self.latencies.iter_recorded();
        let latencies = recorded
            .map(|at| (at.value_iterated_to(), at.count_at_value()))
            .collect();
        self.latencies.reset();
        self.closed.push(Bucket {
            at_ns: self.open_at,
            length_ns,
            counts: totals.since(self.before),
            in_flight,
            own_lag: Some(std::mem::take(&mut self.own_lag)).filter(|lag| lag.count > 0),
            latencies,
        });
        self.fresh = true;
        self.before = totals;
        self.open_at += length_ns;
    }

    fn widen(&mut self) {
        let mut joined: Vec<Bucket> = Vec::with_capacity(BUCKETS_MAX);
        for (at, bucket) in std::mem::take(&mut self.closed).into_iter().enumerate() {
            match joined.last_mut() {
                Some(last) if at % 2 == 1 => last.join(bucket),
                _ => joined.push(bucket),
            }
        }
        self.closed = joined;
        self.width *= 2;
    }

    /// All buckets; what `totals` hold beyond the closed ones goes into the last.
    #[must_use]
    pub(crate) fn finish(mut self, totals: Totals) -> Vec<Bucket> {
        let rest = self.seen.saturating_sub(self.open_at);
        let happened = totals.since(self.before) != Totals::default();
        if rest > 0 || happened || !self.latencies.is_empty() {
            self.close(rest, totals, 0);
        }
        // A sliver after the last boundary would show as a rate of nothing.
        let sliver = rest < self.width / 10 && self.closed.len() > 1;
        if let Some(last) = self.closed.pop_if(|last| sliver && last.length_ns == rest) {
            match self.closed.last_mut() {
                Some(before) => before.join(last),
                None => self.closed.push(last),
            }
        }
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn totals(planned: u64) -> Totals {
        Totals {
            planned,
            sent: planned,
            good: planned,
            failed: 0,
        }
    }

    #[test]
    fn buckets_sum_to_the_totals() {
        let mut seconds = Seconds::new(500);
        let mut total = 0;
        for tenth in 0..35_u64 {
            let now = 500 + tenth * SECOND / 10;
            seconds.pass(now, 3, || totals(total));
            total += 7;
            seconds.record(1_000_000 * (tenth / 10 + 1));
            seconds.record_own_lag(tenth * 1_000);
        }
        let buckets = seconds.finish(Totals {
            failed: 2,
            ..totals(total)
        });
        let planned: Vec<u64> = buckets.iter().map(|b| b.counts.planned).collect();
        assert_eq!(planned, [70, 70, 70, 35]);
        assert_eq!(buckets[3].counts.failed, 2);
        assert_eq!((buckets[1].at_ns, buckets[1].length_ns), (SECOND, SECOND));
        assert_eq!(buckets[3].length_ns, 4 * SECOND / 10);
        assert_eq!((buckets[0].in_flight, buckets[3].in_flight), (3, 0));
        let lags: Vec<(u64, u64)> = buckets
            .iter()
            .map(|bucket| bucket.own_lag.map_or((0, 0), |lag| (lag.count, lag.max_ns)))
            .collect();
        assert_eq!(lags, [(10, 9_000), (10, 19_000), (10, 29_000), (5, 34_000)]);
        assert!((buckets[0].own_lag.unwrap().mean_ns() - 4_500.0).abs() < 1e-9);
        for (at, bucket) in buckets.iter().enumerate() {
            let histogram = bucket.histogram();
            assert_eq!(histogram.len(), if at == 3 { 5 } else { 10 });
            let median_ms = histogram.value_at_quantile(0.5) as f64 / 1e6;
            assert!(
                (median_ms / (at + 1) as f64 - 1.0).abs() < 0.01,
                "{median_ms}"
            );
        }
    }

    #[test]
    fn a_long_step_keeps_a_bounded_number_of_buckets() {
        let mut seconds = Seconds::new(0);
        let count = 10 * BUCKETS_MAX as u64;
        for second in 0..=count {
            seconds.pass(second * SECOND, 0, || totals(second));
            seconds.record(50_000);
            seconds.record_own_lag(5);
        }
        let buckets = seconds.finish(totals(count));
        assert!(buckets.len() <= BUCKETS_MAX, "{}", buckets.len());
        let planned: u64 = buckets.iter().map(|b| b.counts.planned).sum();
        let answers: u64 = buckets.iter().map(|b| b.histogram().len()).sum();
        assert_eq!((planned, answers), (count, count + 1));
        let lags: u64 = buckets.iter().filter_map(|b| Some(b.own_lag?.count)).sum();
        assert_eq!(lags, count + 1, "joined buckets keep their lags");
        assert_eq!(buckets[0].length_ns, 16 * SECOND);
        for pair in buckets.windows(2) {
            assert_eq!(pair[0].at_ns + pair[0].length_ns, pair[1].at_ns);
        }
    }

    #[test]
    fn a_stall_leaves_empty_buckets_and_a_sliver_is_joined() {
        let mut seconds = Seconds::new(0);
        seconds.pass(1, 0, || totals(0));
        seconds.pass(3 * SECOND + SECOND / 50, 9, || totals(4));
        let buckets = seconds.finish(totals(5));
        let planned: Vec<u64> = buckets.iter().map(|b| b.counts.planned).collect();
        assert_eq!(planned, [4, 0, 1]);
        assert_eq!(buckets[2].length_ns, SECOND + SECOND / 50);
        assert!(Seconds::new(0).finish(Totals::default()).is_empty());
    }

    #[test]
    fn a_jump_of_time_ends() {
        let mut seconds = Seconds::new(0);
        seconds.pass(u64::MAX / 4, 0, || totals(1));
        assert!(seconds.finish(totals(1)).len() <= BUCKETS_MAX);
    }
}
