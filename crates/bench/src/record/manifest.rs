//! The circumstances of a run: without them its numbers mean nothing.

use serde::{Deserialize, Serialize};

/// Machine, versions, command line, seed and time of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The program that measured.
    pub tool: Tool,
    /// The machine it ran on.
    pub machine: Machine,
    /// Who ran on which core.
    pub pinning: Pinning,
    /// Arguments as given, starting with the program's name.
    pub command_line: Vec<String>,
    /// Seed of the schedule and of the key choice.
    pub seed: u64,
    /// Start in UTC, RFC 3339 with seconds.
    pub started_at: String,
    /// The same as seconds since the Unix epoch.
    pub started_unix_s: i64,
    /// Start to the last measurement.
    pub duration_s: f64,
}

/// The program that measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Version of tollgate.
    pub version: String,
    /// Commit it was built from, with `-dirty` if the tree had changes; `None` outside a repository.
    pub commit: Option<String>,
    /// Compiler, as `rustc --version` prints it.
    pub rustc: Option<String>,
    /// Build profile, e.g. `release`.
    pub profile: String,
}

/// The machine the bench ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system, e.g. `Debian GNU/Linux 12`.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Instruction set, e.g. `x86_64`.
    pub arch: String,
    /// Model name of the CPU.
    pub cpu_model: String,
    /// Logical cores that the process may use.
    pub cores: u32,
    /// Main memory.
    pub memory_bytes: Option<u64>,
    /// Clock source of the kernel, e.g. `tsc`.
    pub clocksource: Option<String>,
    /// CPU frequency governor, if the kernel has one.
    pub governor: Option<String>,
    /// What puts idle processors to sleep, e.g. `menu` or `haltpoll`: waking them is part of every latency at low load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_governor: Option<String>,
    /// Hypervisor or `none`; `None` if unknown.
    pub hypervisor: Option<String>,
    /// Load average of the last minute when the run began.
    pub load_average_1m: Option<f64>,
}

/// Who ran on which core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinning {
    /// Cores of the generator; empty if not pinned.
    pub generator_cpus: Vec<u32>,
    /// Cores of the targets; empty if not pinned.
    pub target_cpus: Vec<u32>,
    /// True if generator and targets share the machine.
    pub co_located: bool,
}

/// What the generator can do here against a responder that does nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Highest rate the generator reached.
    pub ceiling_rps: f64,
    /// Service time at low load, median: no target can look faster than this.
    pub floor_p50_us: f64,
    /// Service time at low load, 99th percentile.
    pub floor_p99_us: f64,
    /// Cost of reading the clock once.
    pub clock_read_ns: f64,
    /// Generator CPU per request at the ceiling.
    pub generator_cpu_us_per_op: Option<f64>,
    /// Connections used.
    pub connections: u32,
    /// Set where it was measured by an earlier run and is still valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<Reused>,
}

/// Where a calibration comes from that was not measured anew: the same machine, the same program, the same connections,
/// depth and processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reused {
    /// When it was measured, UTC, RFC 3339.
    pub measured_at: String,
    /// How long before this run that was.
    pub age_s: f64,
    /// The program: version, size and time of its file.
    pub binary: String,
}
