//! What one bench run measured, as data: the JSON in `results.json`, and the only input of every report.
//!
//! Units stand in the field names (`_rps`, `_us`, `_ms`, `_s`, `_bytes`, `_percent`). A number that was not
//! measured is `None`, never zero and never NaN. A *denied* decision is an answer, not a failure.
//! *Response* time runs from the intended send time, *service* time from the actual send.

mod accuracy;
mod alike;
pub(crate) mod attribution;
pub mod capacity;
mod compare;
mod gauge;
mod latency;
mod layout;
mod manifest;
mod mitigation;
mod overload;
pub(crate) mod paper;
pub mod recovery;
pub(crate) mod samples;
mod seconds;
mod settle;
mod shape;
mod statistics;
pub(crate) mod status;
mod time;
pub(crate) mod validity;

use serde::{Deserialize, Serialize};

pub use accuracy::Accuracy;
pub(crate) use accuracy::{AccuracyInput, ExactPart, RetryAfter};
pub(crate) use alike::unequal;
pub(crate) use attribution::Attribution;
pub use capacity::CapacityRecord;
pub use capacity::SearchGoal;
pub use compare::CompareRecord;
pub(crate) use compare::{Budget, CompareRow, MemoryRow, Ratios, SlicePair, SliceSample, Spread};
pub(crate) use gauge::{Drift, Gauge};
pub(crate) use latency::LatencyError;
pub use latency::{LatencySummary, SplitLatency};
pub(crate) use layout::check_layout;
pub use manifest::{Calibration, Manifest};
pub(crate) use manifest::{Machine, Pinning, Reused, Tool};
pub(crate) use mitigation::{AgainstExact, MitigationStart, MitigationsRecord};
pub use mitigation::{ErrorVerdict, MitigationRow};
pub(crate) use overload::{OverloadRow, OverloadSide, OverloadStep};
pub(crate) use paper::PaperRecord;
pub(crate) use recovery::RecoveryRecord;
pub(crate) use seconds::{Second, goodput_by_second};
pub(crate) use shape::{Admit, WarmUp};
pub(crate) use statistics::{
    Arm, CellStatistics, ComparisonRecord, ComparisonRow, Difference, Estimate, MetricNoise,
    PointBasis, RankTest, RateStatistics, STARTS_FOR_A_CLAIM, Starts, TrendChange, TrendRow,
    TrendsRecord,
};
pub use statistics::{
    ClaimFloor, GateOutcome, GateRecord, Metric, Noise, NoiseRecord, StartSample, TrendColour,
    Verdict,
};
pub use status::{Bounds, Level, Measure};
pub use status::{Label, Profile, Status};
pub(crate) use time::{directory_stamp, rfc3339_utc};
pub use validity::Grade;
pub use validity::Validity;

/// Version of the JSON layout; raised when a field changes its meaning or goes away. Older ones are read: see
/// [`RunRecord::upgraded`].
pub const SCHEMA_VERSION: u32 = 2;

/// One `tollgate bench` run: everything measured, and the circumstances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`SCHEMA_VERSION`] of the program that wrote the record.
    pub schema_version: u32,
    /// Machine, versions, command line, seed and time of the run.
    pub manifest: Manifest,
    /// What the generator itself can do here, if it was measured before the run.
    pub calibration: Option<Calibration>,
    /// The same in short before, between and after the measurements: whether the machine stayed what it was. Empty without a
    /// calibration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gauges: Vec<Gauge>,
    /// Thresholds the statuses were computed with.
    pub profile: Profile,
    /// Systems measured, in the order they were run.
    pub targets: Vec<TargetRecord>,
    /// Systems that were looked for and not measured, with the reason.
    pub skipped: Vec<Skipped>,
    /// One ladder per target, scenario and operation.
    pub cells: Vec<Cell>,
    /// What happened on the way (server died, connection refused, disk full), in order of time.
    pub events: Vec<Event>,
    /// Grade of the rows that the findings rest on, with the reasons; set by [`RunRecord::settle`].
    pub validity: Validity,
    /// True if everything planned was measured.
    pub complete: bool,
    /// Why `complete` is false.
    pub partial_reason: Option<String>,
    /// A published study beside our rows, if the run repeated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<PaperRecord>,
    /// Fresh starts behind the cells' statistics; `None` if every row was measured once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<Starts>,
    /// Whether targets that were not set up alike are ranked all the same, as the command line asked; see [`unequal`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unequal_allowed: bool,
    /// Strategies for hot keys side by side, if the run compared them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mitigations: Option<MitigationsRecord>,
}

impl RunRecord {
    /// Whether anything was measured.
    #[must_use]
    pub(crate) fn has_results(&self) -> bool {
        self.cells.iter().any(|cell| {
            !cell.steps.is_empty() || cell.capacity.is_some() || cell.recovery.is_some()
        })
    }
}

/// A system that was to be measured and was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Name of the target, e.g. `valkey-server`.
    pub name: String,
    /// Why, e.g. `not on PATH`.
    pub reason: String,
}

/// What kind of system a target is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// A RESP store asked directly.
    #[default]
    Store,
    /// A rate limit service asked over gRPC or HTTP.
    Service,
    /// The null responder used for calibration.
    Null,
}

/// One measured system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// Name used by cells to refer to it; unique within the record.
    pub name: String,
    /// Store, service or null responder.
    pub kind: TargetKind,
    /// Where it listens, e.g. `redis://127.0.0.1:40123`.
    pub url: String,
    /// What it calls itself, e.g. `redis`.
    pub server_name: String,
    /// Version it reports, e.g. `7.0.15`.
    pub server_version: String,
    /// Command line it was started with; empty if it was running already.
    pub command_line: Vec<String>,
    /// Worker threads it runs, where known.
    pub threads: Option<u32>,
    /// Cores it is pinned to; empty if not pinned.
    pub pinned_cpus: Vec<u32>,
    /// True if the bench started it as a child process.
    pub started_by_bench: bool,
    /// True if it runs on the machine of the generator.
    pub co_located: bool,
    /// Start of the process to its first reply.
    pub start_to_first_reply_ms: Option<f64>,
    /// Resident memory before any load.
    pub idle_rss_bytes: Option<u64>,
    /// Persistence, memory limit and similar settings that must be alike for a fair comparison.
    pub settings: Vec<Setting>,
    /// What a store says of itself in `INFO server`; empty for other systems, and in records of before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub info_server: Vec<Setting>,
}

/// One named setting of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// e.g. `appendonly`.
    pub name: String,
    /// e.g. `no`.
    pub value: String,
}

/// Which keys a cell asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// Short name without spaces: `single-key`, `hundred-keys`, `hundred-keys-hot`.
    pub name: String,
    /// How it is called in tables, e.g. `100 keys, hot 90/10`.
    pub title: String,
    /// Number of keys.
    pub keys: u64,
    /// Distribution as written on the command line: `single`, `uniform`, `hot:0.9:1`.
    pub distribution: String,
}

/// What a cell asks its target for each time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Short name without spaces: `rl.take`, `evalsha`, `cl.throttle`, `grpc-rls`, `get`.
    pub name: String,
    /// How it is called in tables, e.g. `RL.TAKE (native)`.
    pub title: String,
    /// True if the other targets of the scenario are asked exactly the same (like for like).
    pub like_for_like: bool,
    /// Algorithm name, e.g. `fixed-window`; empty if the operation decides nothing.
    pub algorithm: String,
    /// Limit per key and window.
    pub limit: Option<u64>,
    /// Length of the window.
    pub window_ms: Option<u64>,
}

/// Shape of the load, the same in all cells that are compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// `poisson`, `constant` or `trace` arrivals; `closed` for a closed loop.
    pub arrivals: String,
    /// Connections used.
    pub connections: u32,
    /// Requests that one connection may have unanswered.
    pub pipeline_depth: u32,
    /// A reply later than this counts as a timeout.
    pub deadline_ms: f64,
    /// Requests that may wait in the generator before they count as unsent.
    pub backlog_limit: u64,
    /// Seconds of load before the measured part of each step.
    pub warmup_s: f64,
    /// Pause between steps.
    pub pause_s: f64,
    /// Order of the rungs if it is not rising: `down`, `shuffled`, `updown`. [`Step::offset_s`] tells when each ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// `steady` where the warm-up goes on until the target is steady, with the longest time allowed; see [`WarmUp`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_rule: Option<String>,
    /// True where each connection waits for its answers before it asks again. Response time then equals service time,
    /// and a stall of the target is counted once per connection instead of once per request that would have come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_loop: bool,
    /// Time before each due request for which the generator stayed awake, where it was asked to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_us: Option<f64>,
}

/// One ladder: a target, a scenario and an operation at rising load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Name of a [`TargetRecord`].
    pub target: String,
    /// Which keys.
    pub scenario: Scenario,
    /// Which request.
    pub operation: Operation,
    /// Shape of the load.
    pub load: Load,
    /// Highest rate found before the ladder, from which its rungs were scaled.
    pub probed_capacity_rps: Option<f64>,
    /// Rungs in the order they ran.
    pub steps: Vec<Step>,
    /// Accuracy of the limiter over the whole cell; `None` if no oracle ran.
    pub accuracy: Option<Accuracy>,
    /// Capacity interval, zones and retention; `None` if nothing was found out about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityRecord>,
    /// Recovery after overload; `None` if it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryRecord>,
    /// Remarks for the reader of this cell.
    pub notes: Vec<String>,
    /// False if the ladder ended early.
    pub complete: bool,
    /// Share of the offered load that the limits of this cell admit, where the command line asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admit_ratio: Option<f64>,
    /// Spread over fresh starts; `None` if every row was measured once. `steps` then hold the starts together:
    /// counts added, rates as medians, histograms merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<CellStatistics>,
}

/// One rung of a ladder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Offered load.
    pub target_rps: f64,
    /// Start of the measured part, seconds after the start of the run.
    pub offset_s: f64,
    /// Length of the measured part (the schedule's, without the drain after it).
    pub duration_s: f64,
    /// Requests the schedule held.
    pub planned: u64,
    /// Requests written to a socket.
    pub sent: u64,
    /// Requests answered, in time or late.
    pub completed: u64,
    /// Answers "allowed" within the deadline. Operations that decide nothing count as allowed.
    pub allowed: u64,
    /// Answers "denied" within the deadline.
    pub denied: u64,
    /// Requests without a good answer within the deadline.
    pub failures: Failures,
    /// `sent` per second.
    pub sent_rps: f64,
    /// `completed` per second.
    pub completed_rps: f64,
    /// `allowed + denied` per second: answers that were right and in time.
    pub goodput_rps: f64,
    /// From the intended send time to the reply.
    pub response: SplitLatency,
    /// From the actual send to the reply.
    pub service: SplitLatency,
    /// Replies that came after the deadline, from the intended time.
    pub late: Option<LatencySummary>,
    /// How much later than intended requests were written.
    pub send_lag: Option<LatencySummary>,
    /// The generator's use of the machine.
    pub generator: Option<ProcessUse>,
    /// The target's use of the machine.
    pub server: Option<ProcessUse>,
    /// Time stolen by the hypervisor, percent of all cores.
    pub steal_percent: Option<f64>,
    /// Accuracy of the limiter in this step; `None` if no oracle ran.
    pub accuracy: Option<Accuracy>,
    /// Level by the profile's thresholds, with the rule that decided.
    pub status: Status,
    /// The study's word for the row, see [`status`].
    pub label: Label,
    /// Whether the step may be believed, with reasons.
    pub validity: Validity,
    /// Remarks, e.g. `the server died 3.2 s into the step`.
    pub notes: Vec<String>,
    /// Who used the machine, what held the load back, and what a decision cost; `None` if nothing watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// Warm-up before the step, where it went on until the target was steady.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// Share admitted, where the command line asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admit: Option<Admit>,
    /// Connections of this step, where they and not a rate are the rungs (closed loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// The step over time; empty in records of before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<Second>,
    /// What `samples.raw` holds of the step, where single requests were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<samples::Kept>,
}

impl Step {
    /// Failed share of the planned requests in percent; 0 if nothing was planned.
    pub(crate) fn fail_percent(&self) -> f64 {
        percent(self.failures.total(), self.planned)
    }

    /// True if the load was held: every metric Good or at Warning.
    pub(crate) fn holds(&self) -> bool {
        self.status.level <= Level::NearLimit
    }

    /// True if the row says something about the target. One that was not held and is invalid does not: the
    /// generator or the machine may have been what failed.
    pub(crate) fn tells(&self) -> bool {
        self.holds() || self.validity.grade != Grade::Invalid
    }

    /// Allowed share of the decisions made in time; `None` without decisions.
    pub(crate) fn admit_ratio(&self) -> Option<f64> {
        let decided = self.allowed.saturating_add(self.denied);
        (decided > 0).then(|| self.allowed as f64 / decided as f64)
    }
}

/// Failed requests by kind. A request is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// No reply within the deadline (a later reply is in [`Step::late`]).
    pub timeout: u64,
    /// The connection was refused, reset or closed.
    pub refused: u64,
    /// The reply was not valid in the protocol.
    pub protocol: u64,
    /// A store answered with an error.
    pub store_error: u64,
    /// A service answered with an error: it decided nothing, whatever its store did.
    #[serde(default, skip_serializing_if = "is_none")]
    pub limiter_error: u64,
    /// Never written: the generator's backlog was full or the deadline passed in it.
    pub unsent: u64,
}

impl Failures {
    /// Sum of all kinds.
    pub fn total(&self) -> u64 {
        self.by_kind()
            .iter()
            .fold(0, |sum, (_, count)| u64::saturating_add(sum, *count))
    }

    /// The kinds that occurred, the most frequent first, as `33 timeout, 1 refused`; empty without failures.
    pub(crate) fn told(&self) -> String {
        let mut kinds = self.by_kind();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let there = kinds.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<String> = there
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        parts.join(", ")
    }

    /// Every kind with its name, in a fixed order.
    pub(crate) fn by_kind(&self) -> [(&'static str, u64); 6] {
        [
            ("timeout", self.timeout),
            ("refused", self.refused),
            ("protocol", self.protocol),
            ("store error", self.store_error),
            ("limiter error", self.limiter_error),
            ("unsent", self.unsent),
        ]
    }

    /// Adds those of another row.
    pub(crate) fn add(&mut self, other: &Failures) {
        for (sum, more) in [
            (&mut self.timeout, other.timeout),
            (&mut self.refused, other.refused),
            (&mut self.protocol, other.protocol),
            (&mut self.store_error, other.store_error),
            (&mut self.limiter_error, other.limiter_error),
            (&mut self.unsent, other.unsent),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Counts the errors that were answered as those of a service.
    pub(crate) fn of_a_service(&mut self) {
        self.limiter_error += std::mem::take(&mut self.store_error);
    }

    /// Errors that were answered, by whatever target.
    pub fn answered_errors(&self) -> u64 {
        self.store_error.saturating_add(self.limiter_error)
    }
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// What a process used during a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// CPU time per second, percent of one core (two busy cores are 200).
    pub cpu_percent: f64,
    /// CPU time of the busiest thread, percent of one core.
    pub busiest_thread_percent: Option<f64>,
    /// CPU time (user + system) per completed request.
    pub cpu_us_per_op: Option<f64>,
    /// Time its threads were ready to run but waited for a core, percent of the step.
    pub run_queue_wait_percent: Option<f64>,
    /// Resident memory at the end of the step.
    pub rss_bytes: Option<u64>,
}

/// Something that happened during the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds after the start of the run.
    pub offset_s: f64,
    /// How grave it is.
    pub severity: Severity,
    /// Target concerned, if one is.
    pub target: Option<String>,
    /// What happened, in a sentence.
    pub text: String,
}

/// How grave an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Info,
    /// The numbers nearby should be read with care.
    Warning,
    /// Something planned could not be measured.
    Error,
}

/// `part` of `whole` in percent; 0 if `whole` is 0.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64 * 100.0
    }
}
