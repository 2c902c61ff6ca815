//! Paper mode: a published study repeated with its own parameters, printed beside ours, and told apart.
//!
//! | study | what | here |
//! |---|---|---|
//! | 000 | rate limiting on Redis and Dragonfly, three ladders | the ladders, against every store found and the service |
//! | 001 | the 100-key ladder of 000, keys in turn | that ladder |
//! | 002 | ratelimit_bench, clients of Node | its rows judged again; its clients are not driven |
//! | 003 | Dragonfly's README, memtier_benchmark | SET, GET and SETEX in a closed loop, plain and pipelined |
//! | 004 | redis-rust, redis-benchmark | its three command lines, by our generator and by the real program |

pub(crate) mod beside;
pub(crate) mod commands;
pub(crate) mod judge;
pub(crate) mod memtier;
pub(crate) mod populate;
pub(crate) mod seeds;
pub(crate) mod text;

use std::time::Duration;

use crate::load::keys::Spreading;
use crate::run::plan::KeyPlan;

/// A study that can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Study {
    /// 000: Redis against Dragonfly for rate limiting.
    Ladders,
    /// 001: the 100-key ladder alone.
    Hundred,
    /// 002: ratelimit_bench's clients.
    Clients,
    /// 003: Dragonfly's README.
    Memtier,
    /// 004: redis-rust under redis-benchmark.
    RedisBenchmark,
}

/// Lowest rung of the studies' ladders.
const LADDER_FROM: f64 = 10_000.0;
/// Distance of the rungs.
const LADDER_STEP: f64 = 2_500.0;
/// Number of rungs.
const LADDER_RUNGS: u32 = 9;
/// Length of a step on one key.
const SINGLE_STEP: Duration = Duration::from_secs(30);
/// Length of a step on a hundred keys.
const HUNDRED_STEP: Duration = Duration::from_secs(60);

impl Study {
    /// The study of that number.
    #[must_use]
    pub(crate) fn from_number(number: &str) -> Option<Study> {
        [
            Study::Ladders,
            Study::Hundred,
            Study::Clients,
            Study::Memtier,
            Study::RedisBenchmark,
        ]
        .into_iter()
        .find(|study| study.number() == number)
    }

    /// Its number.
    #[must_use]
    pub(crate) fn number(self) -> &'static str {
        match self {
            Study::Ladders => "000",
            Study::Hundred => "001",
            Study::Clients => "002",
            Study::Memtier => "003",
            Study::RedisBenchmark => "004",
        }
    }

    /// What it is called.
    #[must_use]
    pub(crate) fn title(self) -> &'static str {
        match self {
            Study::Ladders => "Redis and Dragonfly behind a rate limiter",
            Study::Hundred => "Redis behind a rate limiter, 100 keys",
            Study::Clients => "Node clients of a rate limiter on Redis and Valkey",
            Study::Memtier => "Dragonfly, Redis and Memcached under memtier_benchmark",
            Study::RedisBenchmark => "redis-rust under redis-benchmark",
        }
    }

    /// Who published it, and when.
    #[must_use]
    pub(crate) fn source(self) -> &'static str {
        match self {
            Study::Ladders => "PhongHV, Redis vs Dragonfly benchmark report, January-February 2026",
            Study::Hundred => {
                "Redis Rate Limit Benchmark Report - Hundred Key Test, 28 January 2026"
            }
            Study::Clients => "ratelimit_bench's README, 16 April 2025",
            Study::Memtier => "Dragonfly's README, April 2024",
            Study::RedisBenchmark => "Redis-Rust Performance Benchmark Report, 5 October 2025",
        }
    }

    /// Tables of the study whose rows are ladders.
    #[must_use]
    pub(crate) fn ladder_tables(self) -> &'static [&'static str] {
        match self {
            Study::Ladders => &["P1", "P2", "P3", "P4", "P5"],
            Study::Hundred => &["P2"],
            Study::Clients | Study::Memtier | Study::RedisBenchmark => &[],
        }
    }

    /// Its ladder scenarios with the length of their steps, or `step` where one is given. Study 001 says that keys came in
    /// turn, 000 of the same run that they were drawn uniformly.
    #[must_use]
    pub(crate) fn scenarios(self, step: Option<Duration>) -> Vec<KeyPlan> {
        let mut plans = match self {
            Study::Ladders => KeyPlan::presets(),
            Study::Hundred => {
                let hundred = KeyPlan::presets()
                    .into_iter()
                    .find(|plan| plan.spreading == Spreading::Uniform);
                hundred
                    .map(|plan| KeyPlan {
                        title: "100 keys in turn".into(),
                        spreading: Spreading::RoundRobin,
                        ..plan
                    })
                    .into_iter()
                    .collect()
            }
            Study::Clients | Study::Memtier | Study::RedisBenchmark => Vec::new(),
        };
        for plan in &mut plans {
            let own = if plan.keys == 1 {
                SINGLE_STEP
            } else {
                HUNDRED_STEP
            };
            plan.step = Some(step.unwrap_or(own));
        }
        plans
    }
}

/// 10,000 to 30,000 requests per second by 2,500.
#[must_use]
pub(crate) fn ladder() -> Vec<f64> {
    (0..LADDER_RUNGS)
        .map(|rung| LADDER_FROM + LADDER_STEP * f64::from(rung))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_studies_parameters_are_theirs() {
        let rates: Vec<f64> = seeds::table("P2").map(|row| row.target_rps).collect();
        assert_eq!(ladder(), rates);
        for scenario in Study::Ladders.scenarios(None) {
            let row = seeds::ladders()
                .iter()
                .find(|row| row.scenario == scenario.name)
                .unwrap();
            assert_eq!(scenario.step, Some(Duration::from_secs_f64(row.step_s)));
        }
        let hundred = Study::Hundred.scenarios(Some(Duration::from_secs(2)));
        assert_eq!(hundred.len(), 1);
        assert_eq!(hundred[0].spreading, Spreading::RoundRobin);
        assert_eq!(hundred[0].step, Some(Duration::from_secs(2)));
        assert_eq!(Study::from_number("003"), Some(Study::Memtier));
        assert_eq!(Study::from_number("002"), Some(Study::Clients));
        assert_eq!(Study::from_number("005"), None);
    }
}
