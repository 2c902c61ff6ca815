//! Were two measurements made alike? A comparison of unequal arms measures the circumstances.

use super::rows::{Place, Row};
use crate::record::{Difference, Load, Machine, RunRecord, SearchGoal, TargetRecord};

/// Share by which two step lengths may differ: the clock's, not the plan's.
const LENGTH_TOLERANCE: f64 = 0.01;

/// Collects what differs, each thing once.
#[derive(Debug, Default)]
struct Found(Vec<Difference>);

impl Found {
    fn check<T: PartialEq>(&mut self, what: &str, a: &T, b: &T, show: impl Fn(&T) -> String) {
        if a == b {
            return;
        }
        let difference = Difference {
            what: what.to_owned(),
            a: show(a),
            b: show(b),
        };
        if !self.0.contains(&difference) {
            self.0.push(difference);
        }
    }

    fn text(&mut self, what: &str, a: &str, b: &str) {
        self.check(what, &a, &b, |value| match *value {
            "" => "none".to_owned(),
            value => value.to_owned(),
        });
    }

    fn number<T: PartialEq + std::fmt::Display>(&mut self, what: &str, a: T, b: T) {
        self.check(what, &a, &b, ToString::to_string);
    }

    fn maybe<T: PartialEq + std::fmt::Display>(&mut self, what: &str, a: Option<T>, b: Option<T>) {
        self.check(what, &a, &b, |value| {
            value
                .as_ref()
                .map_or_else(|| "unknown".to_owned(), ToString::to_string)
        });
    }

    fn list(&mut self, what: &str, a: &[u32], b: &[u32]) {
        self.check(what, &a, &b, |cpus| match cpus {
            [] => "not pinned".to_owned(),
            cpus => cpus
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(" "),
        });
    }
}

/// Whether two records come from the same machine, as far as they tell.
#[must_use]
pub(crate) fn same_machine(a: &Machine, b: &Machine) -> bool {
    let mut found = Found::default();
    machine(&mut found, a, b);
    found.0.is_empty()
}

/// In what the circumstances of two rows differ: machine, pinning, build, target settings, mix, load and length.
/// What is under test (the target's program and version) is no difference.
#[must_use]
pub(super) fn of_rows(a: &Row<'_>, b: &Row<'_>) -> Vec<Difference> {
    let mut found = Found::default();
    circumstances(&mut found, a.run, b.run);
    let target = |row: &Row<'_>| {
        let of = row.run.targets.iter();
        of.clone()
            .find(|target| target.name == row.cell.target)
            .cloned()
    };
    if let (Some(a), Some(b)) = (target(a), target(b)) {
        targets(&mut found, &a, &b);
    }
    let (cell_a, cell_b) = (a.cell, b.cell);
    found.number("keys", cell_a.scenario.keys, cell_b.scenario.keys);
    found.text(
        "key distribution",
        &cell_a.scenario.distribution,
        &cell_b.scenario.distribution,
    );
    let (op_a, op_b) = (&cell_a.operation, &cell_b.operation);
    found.text("operation", &op_a.name, &op_b.name);
    found.text("algorithm", &op_a.algorithm, &op_b.algorithm);
    found.maybe("limit", op_a.limit, op_b.limit);
    found.maybe("window in ms", op_a.window_ms, op_b.window_ms);
    let (load_a, load_b) = (&cell_a.load, &cell_b.load);
    found.text("arrivals", &load_a.arrivals, &load_b.arrivals);
    found.number("connections", load_a.connections, load_b.connections);
    found.number(
        "pipeline depth",
        load_a.pipeline_depth,
        load_b.pipeline_depth,
    );
    found.number("deadline in ms", load_a.deadline_ms, load_b.deadline_ms);
    found.number("backlog", load_a.backlog_limit, load_b.backlog_limit);
    found.number("warm-up in s", load_a.warmup_s, load_b.warmup_s);
    found.number("pause in s", load_a.pause_s, load_b.pause_s);
    let spin = |load: &Load| load.spin_us.unwrap_or(0.0);
    found.number(
        "generator awake before due requests, in us",
        spin(load_a),
        spin(load_b),
    );
    if let (Some(a), Some(b)) = (a.goal(), b.goal()) {
        goals(&mut found, a, b);
    } else if let (Some(a), Some(b)) = (step_length_s(a), step_length_s(b))
        && (a - b).abs() > LENGTH_TOLERANCE * a.max(b)
    {
        found.check("step length", &a, &b, |s| format!("{s:.2} s"));
    }
    found.0
}

/// What two searches asked. How narrow an interval they wanted and how long they tried decides about what they find.
fn goals(found: &mut Found, a: &SearchGoal, b: &SearchGoal) {
    let percent = |value: &f64| format!("{value} %");
    found.check(
        "allowed failures",
        &a.fail_percent_max,
        &b.fail_percent_max,
        percent,
    );
    let least = |goal: &SearchGoal| goal.goodput_percent_min;
    found.check("least goodput", &least(a), &least(b), percent);
    found.maybe("largest mean in ms", a.mean_ms_max, b.mean_ms_max);
    found.maybe("largest P95 in ms", a.p95_ms_max, b.p95_ms_max);
    found.maybe("largest P99 in ms", a.p99_ms_max, b.p99_ms_max);
    found.number("exceed ratio", a.exceed_ratio, b.exceed_ratio);
    let seconds = |value: &f64| format!("{value:.2} s");
    found.check(
        "length of a full trial",
        &a.final_trial_s,
        &b.final_trial_s,
        seconds,
    );
    let sum = |goal: &SearchGoal| goal.duration_sum_s;
    found.check("length of the trials at a load", &sum(a), &sum(b), seconds);
    found.check("width of the search", &a.width, &b.width, |width| {
        percent(&(width * 100.0))
    });
}

/// In what the circumstances of two runs differ, without looking at their rows.
#[must_use]
pub(crate) fn differences(a: &RunRecord, b: &RunRecord) -> Vec<Difference> {
    let mut found = Found::default();
    circumstances(&mut found, a, b);
    for target in &a.targets {
        if let Some(other) = b.targets.iter().find(|other| other.name == target.name) {
            targets(&mut found, target, other);
        }
    }
    found.0
}

fn circumstances(found: &mut Found, a: &RunRecord, b: &RunRecord) {
    let (a, b) = (&a.manifest, &b.manifest);
    machine(found, &a.machine, &b.machine);
    found.list(
        "generator's cores",
        &a.pinning.generator_cpus,
        &b.pinning.generator_cpus,
    );
    found.list(
        "targets' cores",
        &a.pinning.target_cpus,
        &b.pinning.target_cpus,
    );
    found.text("build profile", &a.tool.profile, &b.tool.profile);
    found.number("seed", a.seed, b.seed);
}

fn machine(found: &mut Found, a: &Machine, b: &Machine) {
    found.text("processor", &a.cpu_model, &b.cpu_model);
    found.number("cores", a.cores, b.cores);
    found.text("instruction set", &a.arch, &b.arch);
    found.text("kernel", &a.kernel, &b.kernel);
    // What the kernel keeps for itself differs a little from boot to boot.
    let alike = |a: u64, b: u64| a.abs_diff(b) <= a.max(b) / 100;
    if !a
        .memory_bytes
        .zip(b.memory_bytes)
        .is_some_and(|(a, b)| alike(a, b))
    {
        found.maybe("memory in bytes", a.memory_bytes, b.memory_bytes);
    }
    found.maybe(
        "clock source",
        a.clocksource.as_ref(),
        b.clocksource.as_ref(),
    );
    found.maybe("governor", a.governor.as_ref(), b.governor.as_ref());
    found.maybe("hypervisor", a.hypervisor.as_ref(), b.hypervisor.as_ref());
}

fn targets(found: &mut Found, a: &TargetRecord, b: &TargetRecord) {
    found.maybe("target's threads", a.threads, b.threads);
    found.list("target's cores", &a.pinned_cpus, &b.pinned_cpus);
    found.number(
        "target on the generator's machine",
        a.co_located,
        b.co_located,
    );
    let names = a
        .settings
        .iter()
        .chain(&b.settings)
        .map(|setting| &setting.name);
    for name in names {
        // What one side does not tell is no difference, unless the other side's value shows that it is one.
        if let (Some(a), Some(b)) = (a.setting_or_rest(name), b.setting_or_rest(name)) {
            found.text(&format!("setting {name}"), a, b);
        }
    }
}

/// Measured length of a row in one start; `None` if it was not measured.
fn step_length_s(row: &Row<'_>) -> Option<f64> {
    let Place::Rung {
        target_rps,
        occurrence,
    } = row.place
    else {
        return None;
    };
    let rows = row.cell.steps.iter().zip(row.cell.lengths_s());
    let mut same = rows.filter(|(step, _)| step.target_rps == target_rps);
    same.nth(occurrence).map(|(_, length_s)| length_s)
}
