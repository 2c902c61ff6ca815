//! Strategies for hot keys of a store elsewhere, and the error that each of them states (`docs/rules.md`).
//!
//! Each strategy has rules of its own in the services under test, told apart by the descriptor's key, so that all of them
//! are measured on the same processes.

use std::fmt;
use std::str::FromStr;

use super::service::{DOMAIN, limits};

/// Least limit for which there are rules: every strategy can split or sample this many units.
pub(crate) const LIMIT_MIN: u64 = 20;
/// Share of a limit that a thread of the embedded store may hold in advance: one part in so many.
const LEASE_PARTS: u64 = 8;
/// Limit below which it takes none.
const LEASE_LIMIT_MIN: u64 = 4_096;
/// Most shards and heaviest sample, so that [`LIMIT_MIN`] suffices.
const PARTS_MAX: u32 = LIMIT_MIN as u32;
/// Longest time between two sums.
const INTERVAL_MS_MAX: u32 = 10_000;

/// How limits on hot keys are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The store decides each request.
    Exact,
    /// Denials are remembered until they can be over.
    DenialCache,
    /// Each service decides on so many percent of the limit by itself.
    Local {
        /// Share of one service.
        percent: u32,
    },
    /// The limit is split over so many keys.
    Shards {
        /// Keys of one counter.
        shards: u32,
    },
    /// Sums are written at this interval.
    WriteBehind {
        /// Time between two sums.
        interval_ms: u32,
    },
    /// One request in so many is counted, with as many times the weight.
    Probabilistic {
        /// Requests for each that is counted.
        one_in: u32,
    },
    /// One question takes units for so many requests.
    Batch {
        /// Requests for each question.
        size: u32,
    },
    /// No store elsewhere: one service on its own store, whose threads take units of hot keys in advance.
    Embedded,
}

/// Units by which admissions may differ from the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatedError {
    /// Too much.
    pub over: u64,
    /// Too little.
    pub under: u64,
}

impl Strategy {
    /// What is compared by default.
    pub(crate) const DEFAULT: [Strategy; 13] = [
        Strategy::Exact,
        Strategy::DenialCache,
        Strategy::Local { percent: 25 },
        Strategy::Shards { shards: 2 },
        Strategy::Shards { shards: 4 },
        Strategy::Shards { shards: 8 },
        Strategy::WriteBehind { interval_ms: 10 },
        Strategy::WriteBehind { interval_ms: 50 },
        Strategy::WriteBehind { interval_ms: 100 },
        Strategy::Probabilistic { one_in: 2 },
        Strategy::Probabilistic { one_in: 10 },
        Strategy::Batch { size: 10 },
        Strategy::Embedded,
    ];

    /// Key of its descriptors for a limit.
    #[must_use]
    pub(crate) fn entry(self, limit: u64) -> String {
        let name = self.to_string().replace([':', '-'], "_");
        format!("{name}_{limit}")
    }

    /// Its value of `hot_key` in the rules of one of `services` services; empty where there is no store elsewhere.
    #[must_use]
    pub(crate) fn hot_key(self, services: u32) -> String {
        match self {
            Strategy::Exact => "exact".into(),
            Strategy::DenialCache => "denial-cache".into(),
            Strategy::Local { percent } => {
                format!("{{strategy: local, share: {percent}%, services: {services}}}")
            }
            Strategy::Shards { shards } => format!("{{strategy: shards, shards: {shards}}}"),
            Strategy::WriteBehind { interval_ms } => {
                format!("{{strategy: write-behind, interval: {interval_ms}ms}}")
            }
            Strategy::Probabilistic { one_in } => {
                format!("{{strategy: probabilistic, one_in: {one_in}}}")
            }
            Strategy::Batch { size } => format!("{{strategy: batch, size: {size}}}"),
            Strategy::Embedded => String::new(),
        }
    }

    /// Services that it runs on, of `services` that share a store.
    #[must_use]
    pub(crate) fn services(self, services: u32) -> u32 {
        match self {
            Strategy::Embedded => 1,
            _ => services,
        }
    }

    /// Whether its services have work left behind a load, which would fall into the next one: what a sum held too much is
    /// written again until its window ends.
    #[must_use]
    pub(crate) fn leaves_work(self) -> bool {
        matches!(self, Strategy::WriteBehind { .. })
    }

    /// Why it cannot run on `services` services.
    #[must_use]
    pub(crate) fn refusal(self, services: u32) -> Option<String> {
        match self {
            Strategy::Local { percent } if percent * services > 100 => Some(format!(
                "{self}: the shares of {services} services are more than the limit"
            )),
            _ => None,
        }
    }

    /// The error that it states for one key under `limit` that was asked for `sent` times with weight 1, on `services`
    /// services of `threads` threads each. It cannot show beyond what was asked for.
    #[must_use]
    pub(crate) fn stated(self, services: u32, threads: u32, limit: u64, sent: u64) -> StatedError {
        let each = u64::from(self.services(services));
        let (over, under) = match self {
            Strategy::Exact | Strategy::DenialCache | Strategy::Shards { .. } => (0, 0),
            Strategy::Local { percent } => (0, each * (limit * u64::from(percent) / 100)),
            // What the other services admit between two answers of the store, which is the limit at most.
            Strategy::WriteBehind { .. } => ((each - 1) * limit, 0),
            Strategy::Probabilistic { one_in } => {
                let missed = u64::from(one_in) - 1;
                (each * missed, (each + 1) * missed)
            }
            Strategy::Batch { size } => (0, (each + 1) * (u64::from(size) - 1)),
            Strategy::Embedded if limit < LEASE_LIMIT_MIN => (0, 0),
            Strategy::Embedded => (0, u64::from(threads - 1) * (limit / LEASE_PARTS)),
        };
        let right = sent.min(limit);
        StatedError {
            over: sent.min(limit + over) - right,
            under: right - sent.min(limit.saturating_sub(under)),
        }
    }

    /// What study 000 says of its kind in section 8.3, as accuracy and gain; `None` where it says nothing.
    #[must_use]
    pub(crate) fn claimed(self) -> Option<(&'static str, &'static str)> {
        match self {
            Strategy::Local { .. } => Some(("95-99 %", "50-100 %")),
            Strategy::Shards { .. } => Some(("100 %", "linear")),
            Strategy::WriteBehind { .. } => Some(("90-95 %", "200-500 %")),
            Strategy::Probabilistic { .. } => Some(("about P x 100 %", "1/P")),
            Strategy::Exact
            | Strategy::DenialCache
            | Strategy::Batch { .. }
            | Strategy::Embedded => None,
        }
    }
}

/// The rules of `strategies` for each limit from [`LIMIT_MIN`] on.
#[must_use]
pub(crate) fn rules_yaml(strategies: &[Strategy], services: u32) -> String {
    let mut text = format!("domain: {DOMAIN}\ndescriptors:\n");
    for strategy in strategies {
        let hot_key = strategy.hot_key(services);
        for limit in limits().filter(|limit| *limit >= LIMIT_MIN) {
            text.push_str(&format!(
                "  - key: {}\n    rate_limit:\n      unit: day\n      requests_per_unit: {limit}\n",
                strategy.entry(limit)
            ));
            if !hot_key.is_empty() {
                text.push_str(&format!("      hot_key: {hot_key}\n"));
            }
        }
    }
    text
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::Exact => write!(f, "exact"),
            Strategy::DenialCache => write!(f, "denial-cache"),
            Strategy::Local { percent } => write!(f, "local:{percent}"),
            Strategy::Shards { shards } => write!(f, "shards:{shards}"),
            Strategy::WriteBehind { interval_ms } => write!(f, "write-behind:{interval_ms}"),
            Strategy::Probabilistic { one_in } => write!(f, "probabilistic:{one_in}"),
            Strategy::Batch { size } => write!(f, "batch:{size}"),
            Strategy::Embedded => write!(f, "embedded"),
        }
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Strategy, String> {
        let wrong = || {
            format!(
                "'{text}' is not a strategy: give exact, denial-cache, local:PERCENT (5 to 100), shards:NUMBER (2 to \
                 {PARTS_MAX}), write-behind:MILLISECONDS (1 to {INTERVAL_MS_MAX}), probabilistic:ONE_IN (2 to {PARTS_MAX}), \
                 batch:SIZE (2 to {PARTS_MAX}) or embedded"
            )
        };
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => {
                let number = number.strip_suffix("ms").unwrap_or(number);
                let number = number.strip_suffix('%').unwrap_or(number);
                (name, Some(number.parse::<u32>().map_err(|_| wrong())?))
            }
            None => (text, None),
        };
        match (name, number) {
            ("exact", None) => Ok(Strategy::Exact),
            ("denial-cache", None) => Ok(Strategy::DenialCache),
            ("embedded", None) => Ok(Strategy::Embedded),
            ("local", Some(percent @ 5..=100)) => Ok(Strategy::Local { percent }),
            ("shards", Some(shards @ 2..=PARTS_MAX)) => Ok(Strategy::Shards { shards }),
            ("write-behind", Some(interval_ms @ 1..=INTERVAL_MS_MAX)) => {
                Ok(Strategy::WriteBehind { interval_ms })
            }
            ("probabilistic", Some(one_in @ 2..=PARTS_MAX)) => {
                Ok(Strategy::Probabilistic { one_in })
            }
            ("batch", Some(size @ 2..=PARTS_MAX)) => Ok(Strategy::Batch { size }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_are_read_as_they_are_printed() {
        for strategy in Strategy::DEFAULT {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        assert_eq!("local:25%".parse(), Ok(Strategy::Local { percent: 25 }));
        assert_eq!(
            "write-behind:50ms".parse(),
            Ok(Strategy::WriteBehind { interval_ms: 50 })
        );
        for bad in [
            "",
            "local",
            "local:0",
            "local:101",
            "shards:1",
            "shards:x",
            "exact:1",
            "probabilistic:21",
            "batch:1",
            "batch:21",
            "write-behind:0",
            "write-behind:-1",
            "hope",
        ] {
            assert!(bad.parse::<Strategy>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_strategy_and_limit_has_a_rule_of_its_own() {
        let text = rules_yaml(&Strategy::DEFAULT, 2);
        let mut keys: Vec<&str> = text
            .lines()
            .filter_map(|l| l.strip_prefix("  - key: "))
            .collect();
        let count = keys.len();
        assert_eq!(
            count,
            Strategy::DEFAULT.len() * limits().filter(|limit| *limit >= LIMIT_MIN).count()
        );
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
        assert!(
            text.contains("hot_key: {strategy: local, share: 25%, services: 2}"),
            "{text}"
        );
        assert!(
            !text.contains("hot_key: \n"),
            "the embedded store has no such key"
        );
    }

    #[test]
    fn errors_are_those_of_the_rules_page() {
        let stated = |strategy: Strategy, sent| {
            let found = strategy.stated(2, 3, 10_000, sent);
            (found.over, found.under)
        };
        assert_eq!(stated(Strategy::Exact, 90_000), (0, 0));
        assert_eq!(stated(Strategy::Shards { shards: 8 }, 90_000), (0, 0));
        assert_eq!(stated(Strategy::Local { percent: 25 }, 90_000), (0, 5_000));
        assert_eq!(
            stated(Strategy::Probabilistic { one_in: 10 }, 90_000),
            (18, 27)
        );
        assert_eq!(
            stated(Strategy::WriteBehind { interval_ms: 10 }, 90_000),
            (10_000, 0)
        );
        assert_eq!(stated(Strategy::Embedded, 90_000), (0, 2_500));
        assert_eq!(stated(Strategy::Batch { size: 10 }, 90_000), (0, 27));
        // A key that was asked for less cannot show as much.
        assert_eq!(stated(Strategy::Local { percent: 25 }, 4_000), (0, 0));
        assert_eq!(
            stated(Strategy::WriteBehind { interval_ms: 10 }, 10_500),
            (500, 0)
        );
        let one = Strategy::WriteBehind { interval_ms: 10 }.stated(1, 1, 10_000, 90_000);
        assert_eq!(
            one,
            StatedError::default(),
            "one service alone has nobody to differ from"
        );
    }

    #[test]
    fn shares_beyond_the_limit_are_refused() {
        assert!(Strategy::Local { percent: 40 }.refusal(3).is_some());
        assert!(Strategy::Local { percent: 50 }.refusal(2).is_none());
    }
}
