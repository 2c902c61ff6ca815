//! When requests are due: absolute offsets fixed by the seed before the first one is sent.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::rng::Rng;
use super::trace::Trace;

/// Requests of a group on average unless a number is given.
const BURST: u16 = 10;
/// Largest mean of a group.
const BURST_MAX: u16 = 10_000;

/// How gaps between requests are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential gaps: independent users. Shows queueing as it grows.
    Poisson,
    /// Equal gaps: hides queueing until the server is full.
    Constant,
    /// Groups of so many requests on average that are due at once, with exponential gaps between the groups: a page that asks
    /// several times, jobs that start together. Shows what a queue does that is empty most of the time.
    Bursty(u16),
    /// The gaps of a trace, stretched to the rate.
    Trace,
    /// No schedule: a request is due when an answer makes room for it. Hides every stall of the server.
    Closed,
}

impl Arrivals {
    /// The word used on the command line and in records.
    #[must_use]
    pub(crate) fn word(self) -> Cow<'static, str> {
        match self {
            Arrivals::Poisson => "poisson".into(),
            Arrivals::Constant => "constant".into(),
            Arrivals::Bursty(size) => format!("bursty:{size}").into(),
            Arrivals::Trace => "trace".into(),
            Arrivals::Closed => "closed".into(),
        }
    }

    /// The next gap in mean gaps, of those that are drawn.
    fn gap(self, rng: &mut Rng) -> f64 {
        match self {
            // Group sizes are geometric: after each request the group ends with a chance of one in its mean size.
            Arrivals::Bursty(size) => {
                let size = f64::from(size.max(1));
                let ends = rng.unit() * size < 1.0;
                let gap = rng.exponential() * size;
                if ends { gap } else { 0.0 }
            }
            _ => rng.exponential(),
        }
    }
}

impl std::str::FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        match text {
            "poisson" => Ok(Arrivals::Poisson),
            "constant" => Ok(Arrivals::Constant),
            "bursty" => Ok(Arrivals::Bursty(BURST)),
            "trace" => Ok(Arrivals::Trace),
            "closed" => Ok(Arrivals::Closed),
            other => match other.strip_prefix("bursty:").map(str::parse) {
                Some(Ok(size @ 2..=BURST_MAX)) => Ok(Arrivals::Bursty(size)),
                Some(_) => Err(format!(
                    "'{other}': groups have 2 to {BURST_MAX} requests on average"
                )),
                None => Err(format!(
                    "'{other}' is not an arrival process: give poisson, constant, bursty[:SIZE], trace or closed"
                )),
            },
        }
    }
}

/// Offsets in nanoseconds from the start of a step, in rising order, below its length.
///
/// The number of requests is always `rate * length`, rounded: a Poisson process given its count, so that a short
/// step offers what it says. Its gaps are exponential ones scaled to the length, which needs their sum first: the
/// seed is run through twice.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    rng: Rng,
    arrivals: Arrivals,
    gap_ns: f64,
    end_ns: u64,
    next_ns: f64,
    count: u64,
    given: u64,
    hash: u64,
    trace: Option<&'static Trace>,
    /// Parts of their own rate that follow, and the time from the start of the first part to this one.
    later: VecDeque<Schedule>,
    base_ns: u64,
    given_before: u64,
    whole_ns: u64,
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl Schedule {
    /// Requests at `rate` per second for `length_ns` nanoseconds. A rate that is not above 0 schedules nothing.
    #[must_use]
    pub(crate) fn new(arrivals: Arrivals, rate: f64, length_ns: u64, seed: u64) -> Schedule {
        Schedule::replaying(arrivals, None, rate, length_ns, seed)
    }

    /// The same with the trace whose gaps [`Arrivals::Trace`] takes; without a timed trace its gaps are equal.
    #[must_use]
    pub(crate) fn replaying(
        arrivals: Arrivals,
        trace: Option<&'static Trace>,
        rate: f64,
        length_ns: u64,
        seed: u64,
    ) -> Schedule {
        // A float that is negative or not a number becomes 0.
        let count = match arrivals {
            Arrivals::Closed => 0,
            _ => (rate * length_ns as f64 / 1e9).round() as u64,
        };
        let trace = trace.filter(|trace| arrivals == Arrivals::Trace && trace.is_timed());
        let mut rng = Rng::new(seed);
        let gap_ns = match arrivals {
            Arrivals::Constant | Arrivals::Closed => length_ns as f64 / count.max(1) as f64,
            // What a nanosecond of the trace becomes, so that `count` requests fill the length.
            Arrivals::Trace => match trace.map(|trace| trace.offset_ns(count)) {
                Some(whole) if whole > 0.0 => length_ns as f64 / whole,
                Some(_) => 0.0,
                None => length_ns as f64 / count.max(1) as f64,
            },
            Arrivals::Poisson | Arrivals::Bursty(_) => {
                let mut ahead = rng.clone();
                let gaps = (0..=count).map(|_| arrivals.gap(&mut ahead)).sum::<f64>();
                // A few requests may all belong to one group.
                if gaps > 0.0 {
                    length_ns as f64 / gaps
                } else {
                    0.0
                }
            }
        };
        let next_ns = match arrivals {
            Arrivals::Constant | Arrivals::Trace | Arrivals::Closed => 0.0,
            Arrivals::Poisson | Arrivals::Bursty(_) => arrivals.gap(&mut rng) * gap_ns,
        };
        Schedule {
            rng,
            arrivals,
            gap_ns,
            end_ns: length_ns,
            next_ns,
            count,
            given: 0,
            hash: FNV_OFFSET,
            trace,
            later: VecDeque::new(),
            base_ns: 0,
            given_before: 0,
            whole_ns: length_ns,
        }
    }

    /// [`replaying`](Schedule::replaying) in parts one after another, each a rate per second and a length in
    /// nanoseconds.
    #[must_use]
    pub(crate) fn in_parts(
        arrivals: Arrivals,
        trace: Option<&'static Trace>,
        parts: &[(f64, u64)],
        seed: u64,
    ) -> Schedule {
        let mut base_ns = 0;
        let mut all = VecDeque::with_capacity(parts.len());
        for (number, (rate, length_ns)) in parts.iter().enumerate() {
            let mut part =
                Schedule::replaying(arrivals, trace, *rate, *length_ns, seed ^ number as u64);
            part.base_ns = base_ns;
            base_ns += length_ns;
            all.push_back(part);
        }
        let nothing = || Schedule::new(arrivals, 0.0, 0, seed);
        let mut whole = all.pop_front().unwrap_or_else(nothing);
        whole.later = all;
        whole.whole_ns = base_ns;
        whole.follow();
        whole
    }

    /// Goes on with the next part once this one is used up.
    fn follow(&mut self) {
        while self.given == self.count
            && let Some(mut next) = self.later.pop_front()
        {
            next.later = std::mem::take(&mut self.later);
            next.hash = self.hash;
            next.whole_ns = self.whole_ns;
            next.given_before = self.given_before + self.given;
            *self = next;
        }
    }

    /// The next offset, without taking it.
    #[inline]
    #[must_use]
    pub(crate) fn peek(&self) -> Option<u64> {
        (self.given < self.count).then(|| self.base_ns + (self.next_ns as u64).min(self.end_ns))
    }

    /// Takes the next offset.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u64> {
        let offset = self.peek()?;
        self.given += 1;
        self.hash = (self.hash ^ offset).wrapping_mul(FNV_PRIME);
        self.next_ns = match self.arrivals {
            Arrivals::Poisson | Arrivals::Bursty(_) => {
                self.next_ns + self.arrivals.gap(&mut self.rng) * self.gap_ns
            }
            // A product, not a sum, so that rounding does not add up.
            Arrivals::Constant | Arrivals::Closed => self.given as f64 * self.gap_ns,
            Arrivals::Trace => match self.trace {
                Some(trace) => trace.offset_ns(self.given) * self.gap_ns,
                None => self.given as f64 * self.gap_ns,
            },
        };
        self.follow();
        Some(offset)
    }

    /// Offsets taken so far.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn given(&self) -> u64 {
        self.given_before + self.given
    }

    /// Length of the schedule in nanoseconds.
    #[must_use]
    pub(crate) fn length_ns(&self) -> u64 {
        self.whole_ns
    }

    /// Fingerprint of the offsets taken so far: equal schedules have equal fingerprints.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn fingerprint(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(mut schedule: Schedule) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take()).collect()
    }

    #[test]
    fn poisson_gaps_have_the_rate_and_a_coefficient_of_variation_of_one() {
        let all = offsets(Schedule::new(
            Arrivals::Poisson,
            100_000.0,
            2_000_000_000,
            42,
        ));
        assert_eq!(all.len(), 200_000);
        // Counts per 10 ms vary like a Poisson count: mean 1,000, variance about 1,000.
        let mut counts = [0_f64; 200];
        for offset in &all {
            counts[(offset / 10_000_000).min(199) as usize] += 1.0;
        }
        let spread = counts.iter().map(|n| (n - 1_000.0).powi(2)).sum::<f64>() / 200.0;
        assert!(
            (700.0..1_400.0).contains(&spread),
            "variance of counts {spread}"
        );
        let gaps: Vec<f64> = all.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let cv = variance.sqrt() / mean;
        assert!((cv - 1.0).abs() < 0.02, "coefficient of variation {cv}");
    }

    #[test]
    fn constant_gaps_do_not_drift() {
        let all = offsets(Schedule::new(
            Arrivals::Constant,
            30_000.0,
            1_000_000_000,
            1,
        ));
        assert_eq!(all.len(), 30_000);
        assert_eq!(all[0], 0);
        assert_eq!(all[29_999], 999_966_666);
    }

    #[test]
    fn gaps_of_a_trace_are_stretched_to_the_rate() {
        let trace = Trace::read("t", "0 a\n1 b\n1 a\n6 b\n".as_bytes()).unwrap();
        let trace: &'static Trace = Box::leak(Box::new(trace));
        // One round of the trace is 8 s with 4 requests; 8 requests in 4 s are two rounds at a quarter of that.
        let all = offsets(Schedule::replaying(
            Arrivals::Trace,
            Some(trace),
            2.0,
            4_000_000_000,
            1,
        ));
        let ms: Vec<u64> = all.iter().map(|ns| ns / 1_000_000).collect();
        assert_eq!(ms, [0, 250, 250, 1_500, 2_000, 2_250, 2_250, 3_500]);
    }

    #[test]
    fn the_seed_decides_everything() {
        let take = |seed| {
            let mut schedule = Schedule::new(Arrivals::Poisson, 5_000.0, 1_000_000_000, seed);
            while schedule.take().is_some() {}
            (schedule.given(), schedule.fingerprint())
        };
        assert_eq!(take(9), take(9));
        assert_ne!(take(9), take(10));
    }

    #[test]
    fn parts_follow_each_other_with_their_own_rates() {
        const SECOND: u64 = 1_000_000_000;
        let parts = [
            (0.0, SECOND),
            (1_000.0, SECOND),
            (3_000.0, 2 * SECOND),
            (0.0, SECOND),
        ];
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let schedule = Schedule::in_parts(arrivals, None, &parts, 3);
            assert_eq!(schedule.length_ns(), 5 * SECOND);
            let all = offsets(schedule);
            let within = |from: u64, to: u64| {
                all.iter()
                    .filter(|at| (from * SECOND..to * SECOND).contains(at))
                    .count()
            };
            assert_eq!(
                (within(1, 2), within(2, 4), all.len()),
                (1_000, 6_000, 7_000)
            );
            assert!(all.is_sorted());
        }
        assert_eq!(
            Schedule::in_parts(Arrivals::Poisson, None, &[], 1).peek(),
            None
        );
    }

    #[test]
    fn bursts_have_the_rate_the_mean_size_and_exponential_gaps() {
        for size in [2, 20] {
            let arrivals = Arrivals::Bursty(size);
            let all = offsets(Schedule::new(arrivals, 50_000.0, 2_000_000_000, 42));
            assert_eq!(all.len(), 100_000);
            assert!(all.is_sorted());
            let groups: Vec<&[u64]> = all.chunk_by(|a, b| a == b).collect();
            let mean = all.len() as f64 / groups.len() as f64;
            assert!((mean / f64::from(size) - 1.0).abs() < 0.05, "{mean}");
            let gaps: Vec<f64> = groups
                .windows(2)
                .map(|pair| (pair[1][0] - pair[0][0]) as f64)
                .collect();
            let centre = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let squares = gaps.iter().map(|gap| (gap - centre).powi(2)).sum::<f64>();
            let cv = (squares / gaps.len() as f64).sqrt() / centre;
            assert!((cv - 1.0).abs() < 0.05, "{cv}");
        }
    }

    #[test]
    fn arrivals_are_read_as_they_are_written() {
        for arrivals in [
            Arrivals::Poisson,
            Arrivals::Constant,
            Arrivals::Bursty(7),
            Arrivals::Trace,
            Arrivals::Closed,
        ] {
            assert_eq!(arrivals.word().parse(), Ok(arrivals));
        }
        assert_eq!("bursty".parse(), Ok(Arrivals::Bursty(BURST)));
        for bad in [
            "",
            "bursty:",
            "bursty:1",
            "bursty:10001",
            "bursty:x",
            "burst",
        ] {
            assert!(bad.parse::<Arrivals>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_of_zero_schedules_nothing() {
        for arrivals in [Arrivals::Poisson, Arrivals::Constant, Arrivals::Bursty(10)] {
            assert_eq!(Schedule::new(arrivals, 0.0, 1_000_000_000, 1).peek(), None);
        }
    }
}
