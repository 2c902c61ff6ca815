//! Who used the machine during a step, what held the load back, and what a decision cost.
//!
//! CPU figures are percent of **one** core: two busy cores are 200. A figure that the system does not offer
//! (another operating system, no permission, a process that ended) is `None`.

use serde::{Deserialize, Serialize};

/// Seconds per hour, for [`cost_per_million`].
const SECONDS_PER_HOUR: f64 = 3_600.0;

/// What a watched process does in the measured path.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The load generator, which is this program.
    Generator,
    /// A rate limit service.
    Service,
    /// A proxy between generator and service.
    Proxy,
    /// The data store.
    Store,
    /// Another process named with `--watch`.
    #[default]
    Other,
}

impl Role {
    /// The word printed in tables.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Service => "service",
            Self::Proxy => "proxy",
            Self::Store => "store",
            Self::Other => "other",
        }
    }
}

/// One watched process during a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessAttribution {
    /// Its part in the measured path.
    pub role: Role,
    /// Name of the target, or the name given with `--watch`; children carry the kernel's name of the program.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// All its threads, user and system, from the process clock (nanoseconds).
    pub cpu_percent: Option<f64>,
    /// The part in user mode, from the kernel's ticks (usually 10 ms).
    pub cpu_user_percent: Option<f64>,
    /// The part in system mode, from the kernel's ticks.
    pub cpu_system_percent: Option<f64>,
    /// The thread with the most CPU time; with several samples threads that ended on the way are seen too.
    pub busiest_thread: Option<ThreadUse>,
    /// Threads seen.
    pub threads: Option<u32>,
    /// Processors it may run on.
    pub cores_allowed: Option<u32>,
    /// Resident memory at the end of the step.
    pub rss_bytes: Option<u64>,
    /// Highest resident memory of all samples.
    pub rss_max_bytes: Option<u64>,
    /// Times per second that a thread gave up its processor to wait.
    pub voluntary_switches_per_s: Option<f64>,
    /// Times per second that a thread was taken off its processor.
    pub involuntary_switches_per_s: Option<f64>,
    /// Time its threads stood ready without a processor, summed over the threads, percent of the step.
    pub run_queue_wait_percent: Option<f64>,
    /// CPU time per answered request.
    pub cpu_us_per_decision: Option<f64>,
    /// CPU use per second of the step, percent of one core; the last second may be a part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_percent_by_second: Vec<f64>,
}

/// One thread's use of its processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// The kernel's name of the thread.
    pub name: String,
    /// Thread id.
    pub tid: u32,
    /// CPU time, percent of one core.
    pub cpu_percent: f64,
    /// Time it stood ready without a processor, percent of the step.
    pub run_queue_wait_percent: Option<f64>,
}

/// The whole machine during a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineAttribution {
    /// Processors.
    pub cores: u32,
    /// Time that processors were not idle, percent of all cores.
    pub busy_percent: Option<f64>,
    /// Time taken by the hypervisor, percent of all cores.
    pub steal_percent: Option<f64>,
    /// Time in software interrupts (network, timers), percent of all cores.
    pub softirq_percent: Option<f64>,
    /// Time in which at least one task waited for a processor, percent of the step (pressure stall information).
    pub pressure_cpu_percent: Option<f64>,
    /// The same for disks.
    pub pressure_io_percent: Option<f64>,
    /// The same for memory.
    pub pressure_memory_percent: Option<f64>,
    /// Energy of the processor packages (RAPL), where it may be read.
    pub energy_joules: Option<f64>,
}

/// Pressure stall information of one second of a step: time in which at least one task waited, percent of that second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Middle of the second, from the start of the step.
    pub at_s: f64,
    /// For a processor.
    pub cpu_percent: Option<f64>,
    /// For a disk.
    pub io_percent: Option<f64>,
    /// For memory.
    pub memory_percent: Option<f64>,
}

/// What the store says of itself: `INFO` after the step, and its growth since before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreAttribution {
    /// `used_memory` before the step.
    pub used_memory_before_bytes: Option<u64>,
    /// `used_memory` after it.
    pub used_memory_after_bytes: Option<u64>,
    /// Keys evicted for want of memory during the step: each may forget a counter, and so admit too much.
    pub evicted_keys: Option<u64>,
    /// Keys that expired during the step.
    pub expired_keys: Option<u64>,
    /// `connected_clients` after the step.
    pub connected_clients: Option<u64>,
    /// Commands that ran during the step, most calls first.
    pub commands: Vec<CommandUse>,
}

/// One row of `INFO commandstats`, as growth over the step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandUse {
    /// Name in lower case, e.g. `evalsha`.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Time inside the command per call, as the store counted it.
    pub us_per_call: Option<f64>,
}

/// What held the load back.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The generator itself: the figures are not the target's.
    Generator,
    /// A rate limit service.
    Service,
    /// A proxy.
    Proxy,
    /// The store.
    Store,
    /// Another watched process.
    Other,
    /// Processors were wanted and not given: too few cores, or a hypervisor that takes them.
    Machine,
    /// Nothing that was watched is at its limit.
    #[default]
    NoneFound,
}

/// The line that names the bottleneck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// What held the load back.
    pub limit: Limit,
    /// One sentence, e.g. `limited by the store (redis-server): thread redis-server used 99 % of a core`.
    pub sentence: String,
}

/// CPU time per answered request of all processes of a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleCost {
    /// The role.
    pub role: Role,
    /// CPU time per answered request.
    pub cpu_us_per_decision: Option<f64>,
}

/// Attribution and cost of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attribution {
    /// The generator first, then the target, then the processes named with `--watch`, each with its children.
    pub processes: Vec<ProcessAttribution>,
    /// The machine.
    pub machine: MachineAttribution,
    /// What the machine's tasks waited for, second by second; empty where the system does not tell, and in records of
    /// before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pressure_by_second: Vec<Pressure>,
    /// The store's own account; `None` for a target that is not asked over RESP.
    pub store: Option<StoreAttribution>,
    /// What held the load back.
    pub bottleneck: Bottleneck,
    /// CPU time per decision by role.
    pub cost: Vec<RoleCost>,
    /// Energy per million decisions of the whole machine, where it may be read.
    pub joules_per_million: Option<f64>,
    /// Price of the machine given with `--price-per-hour`, in the user's currency.
    pub price_per_hour: Option<f64>,
    /// Price of a million decisions if the machine served this step's goodput all the time.
    pub cost_per_million: Option<f64>,
}

/// Price of a million decisions on a machine that costs `price_per_hour` and serves `rps` all the time:
/// `price_per_hour / (rps * 3600) * 1e6`. `None` without a rate above 0.
#[must_use]
pub(crate) fn cost_per_million(price_per_hour: f64, rps: f64) -> Option<f64> {
    let per_hour = rps * SECONDS_PER_HOUR;
    (per_hour > 0.0).then(|| price_per_hour / per_hour * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_decisions_cost_their_share_of_the_hour() {
        // 0.36 an hour buys 3.6 million decisions at 1,000/s.
        let cost = cost_per_million(0.36, 1_000.0).unwrap();
        assert!((cost - 0.1).abs() < 1e-12);
        assert_eq!(cost_per_million(0.36, 0.0), None);
        assert_eq!(cost_per_million(0.36, f64::NAN), None);
    }
}
