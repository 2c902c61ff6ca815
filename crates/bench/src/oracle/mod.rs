//! Did the limiter admit what its algorithm promises? Judged from what the generator saw of each key.
//!
//! A decision happened somewhere between the send of its request and the arrival of its answer, on a clock that need not
//! be ours. An oracle therefore does not compute what a right limiter would have done, but what no right limiter can have
//! done: it never accuses one, whatever the delays were, and every request beyond doubt counts.
//!
//! ```text
//! all keys       counts, first send, last answer ─► bounds over the whole step
//! followed keys  every decision ─► windows | log | counter | rate ─► surplus and missing admissions
//!                                  retry ─► promised waits
//! ```
//!
//! For an interval `T` from a key's first send to its last answer (keys are fresh in every step):
//!
//! * windows that begin with the first hit: at most `limit * (floor(T / window) + 1)`, and the same for a sliding log;
//! * windows at fixed times: `limit` for each that `T` touches;
//! * token bucket, leaky bucket, GCRA: at most `burst + limit * T / window`;
//! * at least `min(offered, limit)`, or the burst.
//!
//! Requests whose verdict never arrived may have been charged; they count in favour of the limiter.

mod counter;
mod log;
mod rate;
mod retry;
mod spans;
mod tree;
mod windows;

#[cfg(test)]
mod tests;

use crate::load::decisions::{Decision, DecisionLog};
use crate::load::keys::Spreading;
use crate::load::tally::KeyTally;
use crate::load::workload::Rule;
use crate::record::{Accuracy, AccuracyInput, ExactPart};
use rate::Bucket;
use spans::{CLOCK_GRAIN_NS, History, Wrong, stretched};
pub(crate) use windows::Grid;

const SECOND_NS: i64 = 1_000_000_000;

/// The algorithm, as far as admissions depend on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Windows {
    /// Fixed windows that begin at the first hit of a key.
    FirstHit,
    /// Fixed windows between these times.
    Fixed(Grid),
    /// Two windows between these times, the earlier one weighted by what is left of it.
    Weighted(Grid),
    /// Every stretch of one window's length.
    Log,
    /// No windows: a burst of this many and a steady rate.
    Continuous {
        /// Units that pass at one instant.
        burst: u64,
    },
    /// Fixed or weighted windows at times that are not known.
    Somewhere,
}

impl Windows {
    /// What the algorithm called `name` promises, for a step of `length_ns` whose clock stood at 0 at `unix_at_zero_ns`.
    /// `None` for a name that decides nothing or is not known here.
    #[must_use]
    pub(crate) fn named(
        name: &str,
        rule: Rule,
        unix_at_zero_ns: Option<i64>,
        length_ns: u64,
    ) -> Option<Windows> {
        let grid = || {
            let until = i64::try_from(length_ns).ok()?;
            Grid::epoch(unix_at_zero_ns?, window_ns(rule), until)
        };
        let burst = rule.limit;
        match name {
            "fixed-window" => Some(Windows::FirstHit),
            "fixed-window-epoch" => Some(grid().map_or(Windows::Somewhere, Windows::Fixed)),
            "sliding-window" => Some(grid().map_or(Windows::Somewhere, Windows::Weighted)),
            "sliding-log" | "sliding-window-log" => Some(Windows::Log),
            "gcra" | "token-bucket" | "leaky-bucket" => Some(Windows::Continuous { burst }),
            _ => None,
        }
    }
}

/// What is judged.
#[derive(Clone, Debug)]
pub(crate) struct Promise<'a> {
    /// Name of the algorithm.
    pub algorithm: &'a str,
    /// Limit and window.
    pub rule: Rule,
    /// The algorithm.
    pub windows: Windows,
}

impl Promise<'_> {
    /// Most admissions of one key whose decisions were made from `first_ns` to `last_ns`.
    #[must_use]
    pub(crate) fn most(&self, first_ns: u64, last_ns: u64) -> u64 {
        let limit = self.rule.limit;
        let (window, _) = stretched(window_ns(self.rule));
        let first = i64::try_from(first_ns).unwrap_or(i64::MAX);
        let last = i64::try_from(last_ns)
            .unwrap_or(i64::MAX)
            .max(first)
            .saturating_add(CLOCK_GRAIN_NS);
        let begin = first.saturating_sub(CLOCK_GRAIN_NS);
        let length = last.saturating_sub(begin);
        let windows_begun = (length / window.max(1)) as u64;
        match &self.windows {
            Windows::FirstHit | Windows::Log => limit.saturating_mul(windows_begun + 1),
            Windows::Somewhere => limit.saturating_mul(windows_begun + 2),
            Windows::Fixed(grid) | Windows::Weighted(grid) => {
                let touched = grid
                    .edges
                    .windows(2)
                    .filter(|pair| pair[0] <= last && begin < pair[1]);
                limit.saturating_mul(touched.count() as u64)
            }
            // A limit of 0 admits nothing, whatever the burst.
            Windows::Continuous { .. } if limit == 0 => 0,
            Windows::Continuous { burst } => self.bucket(*burst).most(length).ceil() as u64,
        }
    }

    /// Fewest admissions of one key that was asked `offered` times.
    #[must_use]
    pub(crate) fn fewest(&self, offered: u64) -> u64 {
        let at_once = match &self.windows {
            Windows::Continuous { burst } if self.rule.limit > 0 => *burst,
            _ => self.rule.limit,
        };
        offered.min(at_once)
    }

    fn bucket(&self, burst: u64) -> Bucket {
        Bucket {
            burst,
            limit: self.rule.limit,
            period_ns: window_ns(self.rule),
        }
    }

    /// Judges every decision of one key; `None` where the algorithm cannot be.
    fn exactly(&self, history: &History) -> Option<Wrong> {
        let (limit, window) = (self.rule.limit, window_ns(self.rule));
        match &self.windows {
            Windows::Somewhere => None,
            Windows::FirstHit => {
                let windows = windows::from_first_hit(history, window)?;
                Some(windows::judge(history, &windows, limit))
            }
            Windows::Fixed(grid) => Some(windows::judge(history, &grid.windows(), limit)),
            Windows::Weighted(grid) => {
                Some(counter::judge(history, &grid.windows(), window, limit))
            }
            Windows::Log => Some(log::judge(history, window, limit)),
            Windows::Continuous { burst } => Some(rate::judge(history, &self.bucket(*burst))),
        }
    }
}

fn window_ns(rule: Rule) -> i64 {
    i64::try_from(rule.window_s.max(1))
        .unwrap_or(i64::MAX)
        .saturating_mul(SECOND_NS)
}

/// What is known of the keys of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// Counts of every key.
    pub keys: &'a [KeyTally],
    /// Decisions of some keys.
    pub decisions: &'a DecisionLog,
    /// How the requests were spread over the keys.
    pub spreading: Spreading,
    /// What stands before the number in the name of a key.
    pub prefix: &'a str,
}

/// Judges all keys of a step. `None` if nothing was sent.
#[must_use]
pub(crate) fn judge(promise: &Promise<'_>, seen: &Seen<'_>) -> Option<Accuracy> {
    let mut input = AccuracyInput {
        algorithm: promise.algorithm.into(),
        limit: promise.rule.limit,
        window_ms: promise.rule.window_s.saturating_mul(1000),
        ..AccuracyInput::default()
    };
    let followed = Followed::judge(promise, seen.decisions);
    let window = window_ns(promise.rule).unsigned_abs();
    let (mut worst, mut all_short) = ((0, 0), true);
    let sent = seen.keys.iter().enumerate().filter(|(_, key)| key.sent > 0);
    for (index, key) in sent {
        let wrong = followed.wrong(index);
        count(promise, key, wrong, &mut input);
        let interval = key.last_received_ns.saturating_sub(key.first_sent_ns);
        all_short &= interval < window;
        worst = worst.max((u64::from(key.admitted), index));
    }
    if input.keys == 0 {
        return None;
    }
    // A key that was asked for less than a window has its fullest stretch in its total.
    let worst = if all_short {
        Some(worst)
    } else {
        followed.fullest
    };
    input.worst_window_admitted = worst.map(|(admitted, _)| admitted);
    input.worst_window_key = worst.map(|(_, index)| format!("{}{index}", seen.prefix));
    input.exact = followed.part;
    input.retry_after = followed.promises.finish();
    if matches!(seen.spreading, Spreading::Uniform | Spreading::RoundRobin) {
        fairness(seen.keys, &mut input);
    }
    Some(Accuracy::new(input))
}

/// Adds one key to the sums.
fn count(promise: &Promise<'_>, key: &KeyTally, exact: Wrong, input: &mut AccuracyInput) {
    let (sent, admitted) = (u64::from(key.sent), u64::from(key.admitted));
    let unknown = u64::from(key.unknown());
    let most = promise
        .most(key.first_sent_ns, key.last_received_ns)
        .min(sent)
        .min(exact.most.unwrap_or(u64::MAX));
    let fewest = promise
        .fewest(sent)
        .max(exact.fewest.unwrap_or(0))
        .min(most);
    let over = admitted.saturating_sub(most).max(exact.over);
    let under = fewest.saturating_sub(admitted + unknown).max(exact.under);
    input.keys += 1;
    input.offered += sent;
    input.admitted += admitted;
    input.unknown += unknown;
    input.over_admitted += over;
    input.under_admitted += under;
    // Where the decisions themselves say more than the counts, the bounds say so too.
    input.allowed_max += if over > 0 { admitted - over } else { most };
    input.allowed_min += if under > 0 {
        fewest.max(admitted + under)
    } else {
        fewest
    };
}

/// Keys judged decision by decision.
#[derive(Default)]
struct Followed {
    wrong: Vec<(u32, Wrong)>,
    part: Option<ExactPart>,
    promises: retry::Promises,
    /// Admissions in the fullest window and the key it belongs to.
    fullest: Option<(u64, usize)>,
}

impl Followed {
    fn judge(promise: &Promise<'_>, log: &DecisionLog) -> Followed {
        let mut decisions: Vec<&Decision> = log.kept().iter().collect();
        decisions.sort_by_key(|decision| decision.key);
        let mut followed = Followed::default();
        let mut part = ExactPart {
            left_out: log.left_out(),
            ..ExactPart::default()
        };
        for of_key in decisions.chunk_by(|a, b| a.key == b.key) {
            let key = of_key[0].key;
            let complete_until = log.complete_until_ns();
            let history = |grain| History::new(of_key.iter().copied(), complete_until, grain);
            let blurred = history(CLOCK_GRAIN_NS);
            followed.promises.add(&blurred);
            // What was certainly within one window on our own clock.
            let fullest = log::fullest(&history(0).admitted, window_ns(promise.rule));
            followed.fullest = followed.fullest.max(Some((fullest, key as usize)));
            let Some(mut wrong) = promise.exactly(&blurred) else {
                continue;
            };
            // What was left out may have been admitted.
            wrong.most = wrong.most.filter(|_| log.left_out() == 0);
            part.keys += 1;
            part.decisions += of_key.len() as u64;
            part.over_admitted += wrong.over;
            part.under_admitted += wrong.under;
            followed.wrong.push((key, wrong));
        }
        followed.part = (part.keys > 0).then_some(part);
        followed
    }

    fn wrong(&self, key: usize) -> Wrong {
        let found = self
            .wrong
            .binary_search_by_key(&key, |(key, _)| *key as usize);
        found.map_or_else(|_| Wrong::default(), |index| self.wrong[index].1)
    }
}

/// How evenly the admissions were spread over all keys.
fn fairness(keys: &[KeyTally], input: &mut AccuracyInput) {
    let admitted = || keys.iter().map(|key| f64::from(key.admitted));
    let sum: f64 = admitted().sum();
    let squares: f64 = admitted().map(|count| count * count).sum();
    if squares > 0.0 {
        let mean = sum / keys.len() as f64;
        input.fairness_jain = Some(sum * sum / (keys.len() as f64 * squares));
        input.fairness_min_of_mean = admitted().min_by(f64::total_cmp).map(|least| least / mean);
        input.fairness_max_of_mean = admitted().max_by(f64::total_cmp).map(|most| most / mean);
    }
}
