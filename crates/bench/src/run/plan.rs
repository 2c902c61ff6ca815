//! What a run measures: scenarios, rungs and limits. Pure arithmetic.

use std::time::Duration;

use super::attribution::Watching;
use super::order::Order;
use crate::load::keys::Spreading;
use crate::load::open_loop::{BACKLOG_LIMIT, Bounds};
use crate::load::schedule::Arrivals;
use crate::record::{Load, Profile, Scenario};
use crate::search::rungs::two_digits;
use crate::target::Way;

/// Shares of the own capacity at which every system is measured.
const OWN_SHARES: [f64; 5] = [0.25, 0.5, 0.75, 0.9, 1.1];
/// Shares of the slowest store's capacity at which all stores are measured, to compare cost and latency at one load.
const COMMON_SHARES: [f64; 2] = [0.5, 0.9];
/// Rungs closer than this factor to another one are left out.
const RUNG_DISTANCE: f64 = 1.12;

/// Time that the ladders of a run may take together when no step length is given.
const LADDER_BUDGET: Duration = Duration::from_secs(115);
/// Shortest step chosen automatically: a P99 of 10,000 requests per second then has 100 requests above it.
const STEP_MIN: Duration = Duration::from_millis(1_000);
/// Longest step chosen automatically.
const STEP_MAX: Duration = Duration::from_secs(5);
/// What a step costs beyond its own length: connecting, rendering, draining.
const STEP_OVERHEAD: Duration = Duration::from_millis(60);

/// Keys and their distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPlan {
    /// Short name.
    pub name: String,
    /// Title in tables.
    pub title: String,
    /// Number of keys.
    pub keys: u32,
    /// How requests spread over them.
    pub spreading: Spreading,
    /// Length of its steps, where it differs from the run's.
    pub step: Option<Duration>,
    /// Share of the offered load that its limits admit; `None` takes limits near half of the most wanted key's load.
    pub admit: Option<f64>,
    /// Connections, where several numbers of them are compared; `None` takes the run's.
    pub connections: Option<u32>,
}

impl KeyPlan {
    /// The three scenarios of the default run.
    #[must_use]
    pub(crate) fn presets() -> Vec<KeyPlan> {
        let plan = |name: &str, title: &str, keys, spreading| KeyPlan {
            name: name.into(),
            title: title.into(),
            keys,
            spreading,
            step: None,
            admit: None,
            connections: None,
        };
        vec![
            plan("single-key", "single key", 1, Spreading::Single),
            plan("hundred-keys", "100 keys uniform", 100, Spreading::Uniform),
            plan(
                "hundred-keys-hot",
                "100 keys, hot 90/10",
                100,
                Spreading::Hot { share: 0.9, hot: 1 },
            ),
        ]
    }

    /// Scenarios of what rate limits are there against, measured when they are named. That of [`KeyPlan::CASCADE`] is one
    /// of recovery runs alone, since it is what clients make of an overload that try again.
    #[must_use]
    pub(crate) fn threats() -> Vec<KeyPlan> {
        let plan = |name: &str, title: &str, keys, share, admit| KeyPlan {
            name: name.into(),
            title: title.into(),
            keys,
            spreading: match share {
                Some(share) => Spreading::Hot { share, hot: 1 },
                None => Spreading::Uniform,
            },
            step: None,
            admit,
            connections: None,
        };
        vec![
            plan(
                "attack",
                "attack: one of 1,000 keys asks for 99 %, 1 % admitted",
                1_000,
                Some(0.99),
                Some(0.01),
            ),
            plan(
                "noisy-neighbour",
                "noisy neighbour: one of 100 keys asks for half",
                100,
                Some(0.5),
                None,
            ),
            plan(
                "quota",
                "quota: 1,000 keys alike, 90 % admitted",
                1_000,
                None,
                Some(0.9),
            ),
            plan(
                KeyPlan::CASCADE,
                "cascade: 100 keys alike, clients that try again",
                100,
                None,
                None,
            ),
        ]
    }

    /// Name of the scenario that only a recovery run can measure.
    pub(crate) const CASCADE: &'static str = "cascade";

    /// A scenario of its own.
    #[must_use]
    pub fn custom(keys: u32, spreading: Spreading) -> KeyPlan {
        let word = spreading.word();
        KeyPlan {
            // Names become parts of file names, and a trace is called after its file.
            name: format!("{keys}-keys-{word}").replace([':', '/', '\\'], "-"),
            title: match keys {
                1 => "single key".into(),
                _ => format!("{keys} keys {word}"),
            },
            keys,
            spreading,
            step: None,
            admit: None,
            connections: None,
        }
    }

    /// The same keys with limits that admit `ratio` of the offered load.
    #[must_use]
    pub fn admitting(mut self, ratio: f64) -> KeyPlan {
        self.name.push_str(&format!("-admit-{ratio}"));
        self.title
            .push_str(&format!(", {}% admitted", ratio * 100.0));
        self.admit = Some(ratio);
        self
    }

    /// The same keys over so many connections.
    #[must_use]
    pub(crate) fn over(mut self, connections: u32) -> KeyPlan {
        self.name.push_str(&format!("-c{connections}"));
        self.title.push_str(&format!(", {connections} connections"));
        self.connections = Some(connections);
        self
    }

    /// As it appears in the record.
    #[must_use]
    pub(crate) fn record(&self) -> Scenario {
        Scenario {
            name: self.name.clone(),
            title: self.title.clone(),
            keys: u64::from(self.keys),
            distribution: self.spreading.word(),
        }
    }
}

/// Rates of a ladder.
#[derive(Clone, Debug, PartialEq)]
pub enum Ladder {
    /// Shares of the measured capacity.
    Scaled,
    /// These rates.
    Fixed(Vec<f64>),
}

/// Everything that the command line decides about a run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Scenarios in order.
    pub scenarios: Vec<KeyPlan>,
    /// Rates.
    pub ladder: Ladder,
    /// Length of a step; `None` chooses one that keeps the whole run short.
    pub step: Option<Duration>,
    /// Load before each step that is not counted.
    pub warmup: Duration,
    /// Longest load before each step that goes on until the target is steady, instead of `warmup`.
    pub steady: Option<Duration>,
    /// Order of the rungs; `None` keeps the one in which they were given.
    pub order: Option<Order>,
    /// Silence after each step.
    pub pause: Duration,
    /// How gaps are drawn.
    pub arrivals: Arrivals,
    /// Connections to a store.
    pub connections: u32,
    /// Requests per connection.
    pub depth: u32,
    /// Connections to a service.
    pub grpc_connections: u32,
    /// Streams per connection to a service.
    pub grpc_streams: u32,
    /// Requests per connection to an HTTP server. Most servers answer pipelined requests one after the other.
    pub http_pipeline: u32,
    /// Answers later than this are timeouts.
    pub deadline: Duration,
    /// Window of the limits in seconds.
    pub window_s: u64,
    /// Seed of schedule and keys.
    pub seed: u64,
    /// Thresholds.
    pub profile: Profile,
    /// Processor of the generator.
    pub generator_core: Option<usize>,
    /// Processor of the targets.
    pub target_core: Option<usize>,
    /// Whether the generator is measured first.
    pub calibrate: bool,
    /// What all keys begin with, before the run's and the step's own part; empty for nothing.
    pub key_prefix: String,
    /// What is watched besides generator and target, and what the machine costs.
    pub watching: Watching,
    /// Time before each due request for which the generator stays awake; `None` lets it sleep until then.
    pub spin: Option<Duration>,
    /// Which requests are kept one by one; `None` keeps none.
    pub sampling: Option<Sampling>,
}

/// Which requests of a step are kept one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// As many as a block of the file surely holds.
    Fitting,
    /// One in so many.
    Every(u64),
}

/// Requests of which a block holds the samples, at 16 bytes each; they take about 10.
const SAMPLES_FITTING: u64 = 1 << 20;

impl Sampling {
    /// One request in so many, of `planned`.
    #[must_use]
    pub(crate) fn every(self, planned: u64) -> u64 {
        match self {
            Sampling::Fitting => planned.div_ceil(SAMPLES_FITTING).max(1),
            Sampling::Every(every) => every,
        }
    }
}

impl RunPlan {
    /// Bounds of the load of `scenario` on a target asked in `way`.
    #[must_use]
    pub(crate) fn bounds(&self, way: Way, scenario: &KeyPlan) -> Bounds {
        let own = scenario.connections.unwrap_or(self.connections);
        let (connections, depth) = match way {
            Way::Grpc => (
                scenario.connections.unwrap_or(self.grpc_connections),
                self.grpc_streams,
            ),
            Way::Http => (own, self.http_pipeline),
            Way::Native | Way::Script | Way::Op(_) => (own, self.depth),
        };
        Bounds {
            connections: connections as usize,
            depth: depth as usize,
            deadline_ns: self.deadline.as_nanos() as u64,
            backlog_limit: BACKLOG_LIMIT,
        }
    }

    /// Shape of the load of `scenario` as it appears in the record.
    #[must_use]
    pub(crate) fn load(&self, way: Way, scenario: &KeyPlan) -> Load {
        let bounds = self.bounds(way, scenario);
        Load {
            arrivals: self.arrivals.word().into(),
            connections: bounds.connections as u32,
            pipeline_depth: bounds.depth as u32,
            deadline_ms: self.deadline.as_secs_f64() * 1e3,
            backlog_limit: bounds.backlog_limit as u64,
            warmup_s: self.warmup.as_secs_f64(),
            pause_s: self.pause.as_secs_f64(),
            order: self.order.map(|order| order.word().into()),
            warmup_rule: self
                .steady
                .map(|longest| format!("steady, at most {} s", longest.as_secs_f64())),
            closed_loop: self.is_closed(),
            spin_us: self.spin.map(|spin| spin.as_secs_f64() * 1e6),
        }
    }

    /// Whether connections wait for their answers.
    #[must_use]
    pub(crate) fn is_closed(&self) -> bool {
        self.arrivals == Arrivals::Closed
    }

    /// Length of every step when `steps` of them must fit.
    #[must_use]
    pub(crate) fn step_length(&self, steps: usize) -> Duration {
        self.step.unwrap_or_else(|| {
            let each = LADDER_BUDGET / (steps.max(1) as u32);
            each.saturating_sub(self.warmup + self.pause + STEP_OVERHEAD)
                .clamp(STEP_MIN, STEP_MAX)
        })
    }
}

/// The rungs of a system with capacity `own`, where the slowest store of the scenario has capacity `common`.
#[must_use]
pub(crate) fn rungs(own: f64, common: Option<f64>) -> Vec<f64> {
    let shared = common
        .into_iter()
        .flat_map(|capacity| COMMON_SHARES.map(|share| share * capacity));
    let mut rungs: Vec<f64> = shared.map(two_digits).collect();
    for rate in OWN_SHARES.map(|share| two_digits(share * own)) {
        let near = |other: &f64| (rate / other).max(other / rate) < RUNG_DISTANCE;
        if rate > 0.0 && !rungs.iter().any(near) {
            rungs.push(rate);
        }
    }
    rungs.retain(|rate| *rate > 0.0);
    rungs.sort_by(f64::total_cmp);
    rungs
}

/// The limit of a step, 1, 2 or 5 times a power of ten: near half of what the most wanted key is offered, so that
/// both allowed and denied answers occur.
#[must_use]
pub(crate) fn limit_for(rate: f64, length: Duration, top_share: f64) -> u64 {
    let wanted = (rate * length.as_secs_f64() * top_share / 2.0).max(1.0);
    let candidates = super::super::target::service::limits();
    let distance = |limit: u64| (limit as f64 / wanted).ln().abs();
    candidates
        .min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_names_of_their_own() {
        let all = [KeyPlan::presets(), KeyPlan::threats()].concat();
        let mut names: Vec<&str> = all.iter().map(|plan| plan.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for plan in &all {
            let top = plan.spreading.top_share_of(plan.keys, 100_000, 7);
            let wanted = match plan.name.as_str() {
                "single-key" => 1.0,
                "attack" => 0.99,
                "hundred-keys-hot" => 0.9,
                "noisy-neighbour" => 0.5,
                _ => 1.0 / f64::from(plan.keys),
            };
            assert!((0.9..2.0).contains(&(top / wanted)), "{}: {top}", plan.name);
        }
    }

    #[test]
    fn rungs_contain_the_common_ones_and_stay_apart() {
        assert_eq!(rungs(100_000.0, None), [25e3, 50e3, 75e3, 90e3, 110e3]);
        assert_eq!(
            rungs(100_000.0, Some(100_000.0)),
            [25e3, 50e3, 75e3, 90e3, 110e3]
        );
        let fast = rungs(400_000.0, Some(101_000.0));
        assert_eq!(fast, [51e3, 91e3, 200e3, 300e3, 360e3, 440e3]);
        assert!(rungs(0.0, None).is_empty());
    }

    #[test]
    fn limits_leave_room_for_both_answers() {
        for (rate, share) in [
            (50_000.0, 1.0),
            (7_300.0, 0.01),
            (900.0, 0.9),
            (240_000.0, 0.01),
        ] {
            let length = Duration::from_millis(1500);
            let offered = rate * 1.5 * share;
            let ratio = limit_for(rate, length, share) as f64 / offered;
            assert!((0.25..0.85).contains(&ratio), "{rate} {share}: {ratio}");
        }
        assert_eq!(limit_for(1.0, Duration::from_secs(1), 0.01), 1);
    }
}
