//! Rows that were not held although a higher load was: the most likely explanation that the record has.
//!
//! A cause counts if its figure passes a stated bound, and is at least [`TIMES`] what it is in the rows on both sides that
//! held: what those rows had as well explains nothing. Of several the first of this list is told:
//!
//! 1. counters were evicted, or the connections were refused or reset;
//! 2. the hypervisor took processor time;
//! 3. the generator was late or waited for a core;
//! 4. tasks waited for a disk or for memory;
//! 5. the target stood ready without a core, or was taken off it;
//! 6. the target spent more of its own processor time on a request;
//! 7. the target paused: hardly an answer in one second of an otherwise answered step.
//!
//! Otherwise it is unexplained.

use crate::record::attribution::{ProcessAttribution, Role};
use crate::record::validity::{
    LAG_OF_P99, LAG_P99_FLOOR_US, RUN_QUEUE_WAIT_PERCENT_MAX, STEAL_PERCENT_MAX,
};
use crate::record::{Cell, Step, goodput_by_second};

use super::format::{count, latency, percent, rate, significant};
use super::lang::{Lang, Text, sentences as t};

/// What a cause's figure must be of that in the rows that held.
const TIMES: f64 = 2.0;
/// Time taken by the hypervisor, percent: half of what makes a row invalid.
const STEAL_PERCENT: f64 = STEAL_PERCENT_MAX / 2.0;
/// Time that the generator stood ready without a core, percent: half of what makes a row invalid.
const GENERATOR_WAIT_PERCENT: f64 = RUN_QUEUE_WAIT_PERCENT_MAX / 2.0;
/// Time in which tasks waited for a disk, percent of the step.
const DISK_PERCENT: f64 = 5.0;
/// The same for memory.
const MEMORY_PERCENT: f64 = 1.0;
/// Time that the target's threads stood ready without a core, percent of the step.
const TARGET_WAIT_PERCENT: f64 = 5.0;
/// Times per second that the target was taken off its core.
const PREEMPTED_PER_S: f64 = 500.0;
/// Processor time per request, of that in the rows that held.
const DEARER: f64 = 1.5;
/// A second with less than this share of the step's median goodput is a pause.
const PAUSE_SHARE: f64 = 0.2;
/// Failed requests that say what happened, as a share of all failures.
const MOST_FAILURES: f64 = 0.5;

/// One sentence per row that was not held although a higher load was; those without an explanation share one.
pub(super) fn sentences(cell: &Cell, loads: &[f64], lang: Lang) -> Vec<String> {
    let steps = cell.by_load();
    let mut out = Vec::new();
    let mut unexplained: Vec<String> = Vec::new();
    for load in loads {
        let rows = || {
            steps
                .iter()
                .copied()
                .filter(|step| step.target_rps == *load)
        };
        let odd = rows().find(|step| !step.holds() && step.tells());
        let around = Around::of(&steps, *load);
        let load = format!("{}/s", rate(*load));
        match odd.and_then(|step| explanation(step, &around, lang)) {
            Some(why) => {
                out.push(t::ANOMALY_BECAUSE.with(lang, &[("load", &load), ("why", &why)]));
            }
            None => unexplained.push(load),
        }
    }
    if !unexplained.is_empty() {
        out.push(t::ANOMALY.with(lang, &[("loads", &unexplained.join(", "))]));
    }
    out
}

/// A figure of a row, the bound from which it may be a cause, and what is said then.
type Rule = (fn(&Step) -> Option<f64>, f64, Text);

/// The rows nearest to a load that held, below and above it.
struct Around<'a>(Vec<&'a Step>);

impl<'a> Around<'a> {
    fn of(steps: &[&'a Step], load: f64) -> Around<'a> {
        let mut held = steps.iter().copied().filter(|step| step.holds());
        let above = held.clone().find(|step| step.target_rps > load);
        let below = held.rfind(|step| step.target_rps < load);
        Around(below.into_iter().chain(above).collect())
    }

    /// The largest of a figure in them; `None` where none of them tells it.
    fn most(&self, figure: impl Fn(&Step) -> Option<f64>) -> Option<f64> {
        let told = self.0.iter().filter_map(|step| figure(step));
        told.max_by(f64::total_cmp)
    }

    /// A figure of the row that passes its bound and what the rows around it have, with what these have.
    fn stands_out(
        &self,
        step: &Step,
        bound: f64,
        times: f64,
        figure: impl Fn(&Step) -> Option<f64>,
    ) -> Option<(f64, f64)> {
        let (here, there) = (figure(step)?, self.most(&figure)?);
        (here >= bound && here >= times * there).then_some((here, there))
    }
}

/// The first rule that fits.
fn explanation(step: &Step, around: &Around<'_>, lang: Lang) -> Option<String> {
    lost(step, around, lang)
        .or_else(|| machine(step, around, lang))
        .or_else(|| target(step, around, lang))
        .or_else(|| pause(step, lang))
}

/// Counters that were forgotten, and connections that broke.
fn lost(step: &Step, around: &Around<'_>, lang: Lang) -> Option<String> {
    let evicted =
        |step: &Step| Some(step.attribution.as_ref()?.store.as_ref()?.evicted_keys? as f64);
    if let Some((here, _)) = around.stands_out(step, 1.0, TIMES, evicted) {
        return Some(t::BECAUSE_EVICTED.with(lang, &[("n", &count(here as u64))]));
    }
    let failures = step.failures;
    let most = |n: u64| n > 0 && n as f64 >= MOST_FAILURES * failures.total() as f64;
    most(failures.refused)
        .then(|| t::BECAUSE_REFUSED.with(lang, &[("n", &count(failures.refused))]))
}

/// What the machine kept from generator or target.
fn machine(step: &Step, around: &Around<'_>, lang: Lang) -> Option<String> {
    let rules: [Rule; 4] = [
        (|step| step.steal_percent, STEAL_PERCENT, t::BECAUSE_STEAL),
        (
            |step| step.generator?.run_queue_wait_percent,
            GENERATOR_WAIT_PERCENT,
            t::BECAUSE_GENERATOR,
        ),
        (
            |step| step.attribution.as_ref()?.machine.pressure_io_percent,
            DISK_PERCENT,
            t::BECAUSE_DISK,
        ),
        (
            |step| step.attribution.as_ref()?.machine.pressure_memory_percent,
            MEMORY_PERCENT,
            t::BECAUSE_MEMORY,
        ),
    ];
    if let Some(why) = told(step, around, &rules[..1], lang) {
        return Some(why);
    }
    // A target that pushes back makes the generator late as well: its own part alone counts.
    let lag = |step: &Step| {
        let seconds = step.seconds.iter();
        let longest = seconds.filter_map(|second| second.generator_lag_max_us);
        longest.max_by(f64::total_cmp)
    };
    let p99 = step.response.all.as_ref().map_or(0.0, |all| all.p99_us);
    let late = LAG_P99_FLOOR_US.max(LAG_OF_P99 * p99);
    // The longest of all may be a single request: it explains failures only where it is as long as the row's own P99.
    if let Some((here, there)) = around.stands_out(step, late.max(p99), TIMES, lag) {
        let values = [("here", &*latency(here)), ("there", &*latency(there))];
        return Some(t::BECAUSE_LATE.with(lang, &values));
    }
    told(step, around, &rules[1..], lang)
}

/// The first of `rules` whose figure stands out.
fn told(step: &Step, around: &Around<'_>, rules: &[Rule], lang: Lang) -> Option<String> {
    rules.iter().find_map(|(figure, bound, text)| {
        let (here, there) = around.stands_out(step, *bound, TIMES, figure)?;
        Some(text.with(
            lang,
            &[("here", &percent(here)), ("there", &percent(there))],
        ))
    })
}

/// What the target did, or was kept from.
fn target(step: &Step, around: &Around<'_>, lang: Lang) -> Option<String> {
    let wait = |step: &Step| step.server?.run_queue_wait_percent;
    if let Some((here, there)) = around.stands_out(step, TARGET_WAIT_PERCENT, TIMES, wait) {
        let values = [("here", &*percent(here)), ("there", &*percent(there))];
        return Some(t::BECAUSE_TARGET_WAITED.with(lang, &values));
    }
    let preempted = |step: &Step| under_load(step)?.involuntary_switches_per_s;
    if let Some((here, there)) = around.stands_out(step, PREEMPTED_PER_S, TIMES, preempted) {
        let values = [("here", &*rate(here)), ("there", &*rate(there))];
        return Some(t::BECAUSE_PREEMPTED.with(lang, &values));
    }
    let cost = |step: &Step| step.server?.cpu_us_per_op;
    let (here, there) = around.stands_out(step, 0.0, DEARER, cost)?;
    (there > 0.0).then(|| {
        let values = [
            ("here", &*significant(here)),
            ("there", &*significant(there)),
        ];
        t::BECAUSE_DEARER.with(lang, &values)
    })
}

/// The process that was asked.
fn under_load(step: &Step) -> Option<&ProcessAttribution> {
    let watched = &step.attribution.as_ref()?.processes;
    watched
        .iter()
        .find(|process| process.role != Role::Generator)
}

/// A second in which the target answered next to nothing, while it did in the others.
fn pause(step: &Step, lang: Lang) -> Option<String> {
    let [least, median, _] = goodput_by_second(&step.seconds)?;
    if median <= 0.0 || least >= PAUSE_SHARE * median {
        return None;
    }
    let second = step
        .seconds
        .iter()
        .find(|second| second.goodput_rps() == Some(least))?;
    let values = [
        ("at", &*significant(second.at_s)),
        ("least", &*rate(least)),
        ("median", &*rate(median)),
    ];
    Some(t::BECAUSE_PAUSE.with(lang, &values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::attribution::{Attribution, MachineAttribution, StoreAttribution};
    use crate::record::{Failures, Level, ProcessUse, Second, Status};

    fn row(target_rps: f64, held: bool) -> Step {
        Step {
            target_rps,
            status: Status {
                level: if held { Level::Ok } else { Level::Failed },
                ..Status::default()
            },
            steal_percent: Some(0.1),
            generator: Some(ProcessUse {
                run_queue_wait_percent: Some(0.5),
                ..ProcessUse::default()
            }),
            server: Some(ProcessUse {
                run_queue_wait_percent: Some(1.0),
                cpu_us_per_op: Some(10.0),
                ..ProcessUse::default()
            }),
            attribution: Some(Attribution {
                processes: vec![ProcessAttribution {
                    role: Role::Store,
                    involuntary_switches_per_s: Some(100.0),
                    ..ProcessAttribution::default()
                }],
                machine: MachineAttribution {
                    pressure_io_percent: Some(0.1),
                    pressure_memory_percent: Some(0.0),
                    ..MachineAttribution::default()
                },
                store: Some(StoreAttribution {
                    evicted_keys: Some(0),
                    ..StoreAttribution::default()
                }),
                ..Attribution::default()
            }),
            ..Step::default()
        }
    }

    /// What is said of the middle row of three, of which `change` makes what it was.
    fn said(change: impl Fn(&mut Step)) -> String {
        let mut middle = row(15_000.0, false);
        change(&mut middle);
        let cell = Cell {
            steps: vec![row(12_500.0, true), middle, row(17_500.0, true)],
            ..Cell::default()
        };
        let found = sentences(&cell, &[15_000.0], Lang::En);
        assert_eq!(found.len(), 1);
        found[0].clone()
    }

    fn part(step: &mut Step) -> &mut Attribution {
        step.attribution.as_mut().unwrap()
    }

    #[test]
    fn a_planted_cause_is_named() {
        assert!(said(|_| {}).ends_with("unexplained."), "{}", said(|_| {}));
        type Change = fn(&mut Step);
        let causes: [(Change, &str); 11] = [
            (|step| step.steal_percent = Some(1.4), "hypervisor took 1.4"),
            (
                |step| step.generator.as_mut().unwrap().run_queue_wait_percent = Some(4.0),
                "generator waited for a core 4",
            ),
            (
                |step| part(step).machine.pressure_io_percent = Some(9.0),
                "disk 9",
            ),
            (
                |step| part(step).machine.pressure_memory_percent = Some(2.0),
                "memory 2",
            ),
            (
                |step| part(step).store.as_mut().unwrap().evicted_keys = Some(7),
                "evicted 7 keys",
            ),
            (
                |step| {
                    step.failures = Failures {
                        refused: 80,
                        timeout: 20,
                        ..Failures::default()
                    }
                },
                "80 requests were lost with their connections",
            ),
            (
                |step| step.server.as_mut().unwrap().run_queue_wait_percent = Some(12.0),
                "target stood ready without a core 12",
            ),
            (
                |step| part(step).processes[0].involuntary_switches_per_s = Some(2_000.0),
                "2,000 times a second",
            ),
            (
                |step| step.server.as_mut().unwrap().cpu_us_per_op = Some(16.0),
                "16.0 µs",
            ),
            (
                |step| {
                    step.seconds = [900, 20, 910, 905]
                        .into_iter()
                        .enumerate()
                        .map(|(at, good)| Second {
                            at_s: at as f64,
                            length_s: 1.0,
                            good,
                            ..Second::default()
                        })
                        .collect();
                },
                "paused",
            ),
            (
                |step| {
                    // What stands first in the list counts.
                    step.steal_percent = Some(1.9);
                    step.server.as_mut().unwrap().cpu_us_per_op = Some(90.0);
                },
                "hypervisor took 1.9",
            ),
        ];
        for (change, expected) in causes {
            let text = said(change);
            assert!(text.contains(expected), "{expected:?} is not in {text:?}");
            assert!(text.contains("15,000/s"), "{text}");
        }
    }

    #[test]
    fn what_the_rows_around_have_as_well_explains_nothing() {
        let mut rows = [
            row(12_500.0, true),
            row(15_000.0, false),
            row(17_500.0, true),
        ];
        for row in &mut rows {
            row.steal_percent = Some(1.4);
        }
        let cell = Cell {
            steps: rows.into(),
            ..Cell::default()
        };
        let found = sentences(&cell, &[15_000.0], Lang::En);
        assert!(found[0].ends_with("unexplained."), "{found:?}");
    }

    #[test]
    fn a_late_generator_explains_a_tail_as_long_as_its_lag() {
        let lag = |us: f64| {
            vec![Second {
                generator_lag_max_us: Some(us),
                length_s: 1.0,
                ..Second::default()
            }]
        };
        let mut rows = [
            row(12_500.0, true),
            row(15_000.0, false),
            row(17_500.0, true),
        ];
        for row in &mut rows {
            row.seconds = lag(400.0);
        }
        rows[1].seconds = lag(90_000.0);
        let cell = Cell {
            steps: rows.into(),
            ..Cell::default()
        };
        let found = sentences(&cell, &[15_000.0], Lang::En);
        assert!(found[0].contains("90"), "{found:?}");
    }
}
