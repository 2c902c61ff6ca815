//! One run over all targets and scenarios.
//!
//! All targets are up at the same time and idle except the one under load. Within a scenario the rungs of all systems
//! are interleaved, forwards and backwards in turn, so that a machine that becomes slower with time does so
//! for all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::cell;
use super::console::Console;
use super::fill::{self, Counters, Frame};
use super::plan::{KeyPlan, Ladder, RunPlan, limit_for, rungs};
use super::thread::generate;
use crate::load::closed::{Drawn, Pool};
use crate::load::keys::KeySampler;
use crate::load::live::Live;
use crate::load::open::{self, Outcome, Plan};
use crate::load::open_loop::Bounds;
use crate::load::schedule::Arrivals;
use crate::load::workload::{Rule, Workload};
use crate::record::status::classify;
use crate::record::{
    Calibration, Event, Grade, RunRecord, SCHEMA_VERSION, Severity, Skipped, Step,
};
use crate::target::service::WINDOW_S;
use crate::target::{Target, Way};

/// Length of a capacity probe.
const PROBE: Duration = Duration::from_millis(500);
/// Load of a probe that cannot keep pipelines full by itself.
const OVERLOAD_RATE: f64 = 500_000.0;
/// Limit in a probe: everything is allowed, the dearer answer.
const PROBE_LIMIT: u64 = 50_000_000;
/// Rows of a run that may be measured again when the machine spoiled them.
const REPEATS_PER_RUN: u32 = 16;
/// Times that one row may be.
const REPEATS_PER_STEP: usize = 2;
/// Longest wait for a broken server's process to show how it ended.
const OBITUARY_WAIT: Duration = Duration::from_millis(300);

struct Slot {
    target: Target,
    given_up: Option<String>,
}

/// One system asked in one way, within one scenario.
struct Series {
    slot: usize,
    way: Way,
    cell: usize,
    rates: Vec<f64>,
}

/// A run in progress.
pub struct Session<'a> {
    plan: &'a RunPlan,
    console: &'a mut Console,
    stop: &'a AtomicBool,
    start: Instant,
    slots: Vec<Slot>,
    record: RunRecord,
    prefix: String,
    steps_run: u64,
    repeats_left: u32,
}

impl<'a> Session<'a> {
    /// A run that starts now.
    #[must_use]
    pub fn new(plan: &'a RunPlan, console: &'a mut Console, stop: &'a AtomicBool) -> Session<'a> {
        let manifest = super::machine::manifest(plan.seed, plan.generator_core, plan.target_core);
        // Keys of earlier runs may still live in a store that was running before.
        let prefix = format!("b{:x}.", manifest.started_unix_s & 0xff_ffff);
        let record = RunRecord {
            schema_version: SCHEMA_VERSION,
            manifest,
            profile: plan.profile.clone(),
            ..RunRecord::default()
        };
        Session {
            plan,
            console,
            stop,
            start: Instant::now(),
            slots: Vec::new(),
            record,
            prefix,
            steps_run: 0,
            repeats_left: REPEATS_PER_RUN,
        }
    }

    /// Adds a system to measure.
    pub fn add(&mut self, target: Target) {
        if target.ways().is_empty() {
            let name = target.record().name.clone();
            self.skip(
                &name,
                "it has neither rate limit commands nor scripts".into(),
            );
            return;
        }
        self.record.targets.push(target.record().clone());
        self.slots.push(Slot {
            target,
            given_up: None,
        });
    }

    /// Whether there is anything to measure.
    #[must_use]
    pub fn has_targets(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Says that a system is not measured.
    pub fn skip(&mut self, name: &str, reason: String) {
        self.console
            .note(&format!("not measured: {name}: {reason}"));
        self.record.skipped.push(Skipped {
            name: name.into(),
            reason,
        });
    }

    /// Says that a system that was there could not be measured.
    pub fn lost(&mut self, name: &str, why: String) {
        self.record.skipped.push(Skipped {
            name: name.into(),
            reason: why.clone(),
        });
        self.event(Severity::Error, Some(name), why);
    }

    /// Keeps what the generator can do.
    pub fn calibrated(&mut self, calibration: Calibration) {
        self.record.calibration = Some(calibration);
    }

    /// Keeps something that happened.
    pub fn event(&mut self, severity: Severity, target: Option<&str>, text: String) {
        let shown = target.map_or_else(|| text.clone(), |name| format!("{name}: {text}"));
        let word = match severity {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        self.console.note(&format!("{word}: {shown}"));
        let target = target.map(Into::into);
        self.record.events.push(Event {
            offset_s: self.elapsed_s(),
            severity,
            target,
            text,
        });
    }

    /// The console, for what belongs to no step.
    pub fn console(&mut self) -> &mut Console {
        self.console
    }

    fn elapsed_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Measures everything. `keep` is called with the record so far after every scenario.
    pub fn run(mut self, keep: &mut dyn FnMut(&RunRecord, &mut Console)) -> RunRecord {
        let step_length = self.plan.step_length(self.expected_steps());
        let scenarios = self.plan.scenarios.clone();
        for scenario in &scenarios {
            if self.stopped() {
                break;
            }
            self.scenario(scenario, step_length);
            self.close(false);
            keep(&self.record, self.console);
        }
        self.close(true);
        self.record
    }

    fn expected_steps(&self) -> usize {
        let per_series = match &self.plan.ladder {
            Ladder::Fixed(rates) => rates.len(),
            Ladder::Scaled => 6,
        };
        let series: usize = self.slots.iter().map(|slot| slot.target.ways().len()).sum();
        series * per_series * self.plan.scenarios.len()
    }

    fn scenario(&mut self, scenario: &KeyPlan, step_length: Duration) {
        let mut all = self.probe_all(scenario);
        let stores = all.iter().filter(|series| series.way != Way::Grpc);
        let common = stores
            .filter_map(|s| self.record.cells[s.cell].probed_capacity_rps)
            .min_by(f64::total_cmp);
        for series in &mut all {
            series.rates = match &self.plan.ladder {
                Ladder::Fixed(rates) => rates.clone(),
                Ladder::Scaled => {
                    let own = self.record.cells[series.cell]
                        .probed_capacity_rps
                        .unwrap_or(0.0);
                    rungs(own, common.filter(|_| series.way != Way::Grpc))
                }
            };
        }
        let highest = all
            .iter()
            .map(|series| series.rates.len())
            .max()
            .unwrap_or(0);
        for rung in 0..highest {
            let forwards: Vec<usize> = (0..all.len()).collect();
            let order: Vec<usize> = if rung % 2 == 0 {
                forwards
            } else {
                forwards.into_iter().rev().collect()
            };
            for index in order {
                let series = &all[index];
                let Some(&rate) = series.rates.get(rung) else {
                    continue;
                };
                if self.stopped() {
                    return;
                }
                if self.slots[series.slot].given_up.is_none() {
                    self.rung(scenario, series, rate, step_length);
                    self.pause();
                }
            }
        }
        for series in &all {
            let measured = self.record.cells[series.cell].steps.len();
            let whole = measured == series.rates.len() && measured > 0;
            self.record.cells[series.cell].complete =
                whole && self.slots[series.slot].given_up.is_none();
        }
    }

    fn pause(&self) {
        let end = Instant::now() + self.plan.pause;
        while Instant::now() < end && !self.stopped() {
            std::thread::sleep(Duration::from_millis(20).min(self.plan.pause));
        }
    }

    fn probe_all(&mut self, scenario: &KeyPlan) -> Vec<Series> {
        let mut all = Vec::new();
        for slot in 0..self.slots.len() {
            for way in self.slots[slot].target.ways() {
                if self.stopped() || self.slots[slot].given_up.is_some() {
                    continue;
                }
                let cell = cell::empty(self.plan, scenario, &self.slots[slot].target, way);
                self.record.cells.push(cell);
                let cell = self.record.cells.len() - 1;
                let fixed = matches!(self.plan.ladder, Ladder::Fixed(_));
                if !fixed {
                    match self.probe(scenario, slot, way) {
                        Ok(capacity) => {
                            self.record.cells[cell].probed_capacity_rps = Some(capacity)
                        }
                        Err(why) => {
                            self.give_up(slot, cell, &format!("the capacity probe failed: {why}"));
                            continue;
                        }
                    }
                }
                all.push(Series {
                    slot,
                    way,
                    cell,
                    rates: Vec::new(),
                });
            }
        }
        all
    }

    fn probe(&mut self, scenario: &KeyPlan, slot: usize, way: Way) -> Result<f64, String> {
        let target = &self.slots[slot].target;
        self.console.phase(format!(
            "{} · {} · finding the capacity",
            scenario.title,
            cell::describe(target, way)
        ));
        self.steps_run += 1;
        let prefix = format!("{}{}:", self.prefix, self.steps_run);
        let bounds = self.plan.bounds(way == Way::Grpc);
        let sampler = KeySampler::new(scenario.spreading, scenario.keys, self.plan.seed);
        let (keys, stop, core) = (scenario.keys, self.stop, self.plan.generator_core);
        let rule = Rule {
            limit: PROBE_LIMIT,
            window_s: self.plan.window_s,
        };
        let slice = match target.ask(way, rule) {
            Some(ask) => generate(core, &Live::default(), PROBE, self.console, || {
                let workload = Workload::render(&ask, &prefix, keys);
                let mut pool = Pool::open(target.endpoint(), bounds.connections)
                    .map_err(|error| format!("cannot connect: {error}"))?;
                let slice = pool.run(
                    &mut Drawn {
                        workload: &workload,
                        sampler,
                    },
                    bounds.depth,
                    PROBE.as_nanos() as u64,
                    stop,
                )?;
                match slice.first_error {
                    Some(text) => Err(format!("the server answered: {text}")),
                    None => Ok(slice.rate()),
                }
            }),
            None => {
                let Target::Service(service) = target else {
                    return Err("it cannot be asked in this way".into());
                };
                let calls = service.calls(rule, &prefix, keys);
                let plan = overload(scenario, bounds, self.plan.seed);
                let live = Live::default();
                generate(core, &live, PROBE * 2, self.console, || {
                    open::run_grpc(&plan, &calls, target.endpoint(), stop, &live)
                })
                .and_then(saturated_rate)
            }
        };
        match slice {
            Ok(rate) if rate < 1.0 => Err("no answers".into()),
            other => other,
        }
    }

    /// Measures one rung. A row that the machine spoiled is measured again, as long as the run has repeats left: only
    /// the validity rules decide that, never the target's own figures.
    fn rung(&mut self, scenario: &KeyPlan, series: &Series, rate: f64, length: Duration) {
        let title = format!(
            "{} · {} · {rate:.0}/s",
            scenario.title,
            cell::describe(&self.slots[series.slot].target, series.way)
        );
        let mut spoiled = Vec::new();
        loop {
            self.console.phase(title.clone());
            match self.attempt(scenario, series, rate, length) {
                Ok((step, _)) if self.may_repeat(&step, spoiled.len()) => {
                    self.repeats_left -= 1;
                    spoiled.push(format!(
                        "measured again, because {}",
                        step.validity.reasons.join(", and ")
                    ));
                }
                Ok((mut step, outcome)) => {
                    step.notes.append(&mut spoiled);
                    self.keep_step(series, step, &outcome, &title);
                    return;
                }
                Err(why) => {
                    self.give_up(series.slot, series.cell, &why);
                    return;
                }
            }
        }
    }

    fn may_repeat(&self, step: &Step, repeated: usize) -> bool {
        let exact = step.accuracy.as_ref().is_none_or(|found| {
            // A wrong decision counts on a busy machine as well.
            found.never_over() && found.under_admission_percent == 0.0
        });
        exact
            && step.validity.grade == Grade::Invalid
            && step.failures.refused == 0
            && repeated < REPEATS_PER_STEP
            && self.repeats_left > 0
            && !self.stopped()
    }

    fn attempt(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        rate: f64,
        length: Duration,
    ) -> Result<(Step, Outcome), String> {
        if !self.plan.warmup.is_zero() {
            self.load(scenario, series, rate, self.plan.warmup)?;
        }
        let pid = self.slots[series.slot].target.pid();
        let (offset_s, before) = (self.elapsed_s(), Counters::read(pid));
        let started_unix_s = super::machine::unix_seconds();
        let (outcome, rule, prefix) = self.load(scenario, series, rate, length)?;
        let asked = cell::Asked {
            way: series.way,
            rule,
            started_unix_s,
            prefix: &prefix,
        };
        let operation = &self.record.cells[series.cell].operation;
        let calibration = self.record.calibration.as_ref();
        let frame = Frame {
            rate,
            offset_s,
            length,
            before,
            after: Counters::read(pid),
            pid,
            // The ceiling was measured with RESP.
            ceiling_rps: calibration
                .map(|found| found.ceiling_rps)
                .filter(|_| series.way != Way::Grpc),
            accuracy: cell::accuracy(scenario, operation, &asked, &outcome.tally.keys),
            outcome: &outcome,
        };
        let step = fill::step(frame)?;
        Ok((step, outcome))
    }

    fn keep_step(&mut self, series: &Series, mut step: Step, outcome: &Outcome, title: &str) {
        classify(&self.plan.profile, std::slice::from_mut(&mut step));
        let silent = outcome.tally.completed == 0 && outcome.tally.planned > 0;
        if let Some(why) = &outcome.cut_short {
            step.notes.push(format!(
                "ended {:.1} s into the step: {why}",
                outcome.elapsed_ns as f64 / 1e9
            ));
        }
        let p99 = step
            .response
            .all
            .as_ref()
            .map_or_else(|| "-".into(), |all| format!("{:.2} ms", all.p99_us / 1e3));
        self.console.phase(format!(
            "{title}: goodput {:.0}/s, p99 {p99}, fail {:.2} %, {}, {}",
            step.goodput_rps,
            step.fail_percent(),
            step.status.level.word(),
            step.validity.grade.word()
        ));
        self.record.cells[series.cell].steps.push(step);
        match &outcome.cut_short {
            Some(_) if self.stopped() => {}
            Some(why) => self.give_up(series.slot, series.cell, why),
            None if silent => self.give_up(
                series.slot,
                series.cell,
                "not one answer within the deadline",
            ),
            None => {}
        }
    }

    /// Runs one load; returns what came of it, under which limit and with which key prefix.
    fn load(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        rate: f64,
        length: Duration,
    ) -> Result<(Outcome, Rule, String), String> {
        let grpc = series.way == Way::Grpc;
        self.steps_run += 1;
        let prefix = format!("{}{}:", self.prefix, self.steps_run);
        let limit = limit_for(rate, length, scenario.spreading.top_share(scenario.keys));
        let rule = Rule {
            limit,
            window_s: if grpc { WINDOW_S } else { self.plan.window_s },
        };
        let plan = Plan {
            arrivals: self.plan.arrivals,
            rate,
            length_ns: length.as_nanos() as u64,
            spreading: scenario.spreading,
            // Every step has its own schedule; all systems get the same one at the same rung.
            seed: self.plan.seed ^ rate.to_bits().rotate_left(17),
            bounds: self.plan.bounds(grpc),
        };
        let (target, keys, stop) = (&self.slots[series.slot].target, scenario.keys, self.stop);
        let (core, live) = (self.plan.generator_core, Live::default());
        let outcome = match (target, target.ask(series.way, rule)) {
            (_, Some(ask)) => generate(core, &live, length, self.console, || {
                open::run(
                    &plan,
                    &Workload::render(&ask, &prefix, keys),
                    target.endpoint(),
                    stop,
                    &live,
                )
            }),
            (Target::Service(service), None) => {
                let calls = service.calls(rule, &prefix, keys);
                generate(core, &live, length, self.console, || {
                    open::run_grpc(&plan, &calls, target.endpoint(), stop, &live)
                })
            }
            (Target::Store(_), None) => Err("it cannot be asked in this way".into()),
        };
        outcome.map(|outcome| (outcome, rule, prefix))
    }

    fn give_up(&mut self, slot: usize, cell: usize, why: &str) {
        let asked = Instant::now();
        let mut obituary = None;
        while obituary.is_none() && asked.elapsed() < OBITUARY_WAIT {
            obituary = self.slots[slot].target.obituary();
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = match obituary {
            Some(obituary) => format!("{why}; {obituary}"),
            None => why.to_owned(),
        };
        let name = self.slots[slot].target.record().name.clone();
        self.event(
            Severity::Error,
            Some(&name),
            format!("{text}; the rest of its ladder is left out"),
        );
        self.record.cells[cell].notes.push(text.clone());
        self.slots[slot].given_up = Some(text);
    }

    /// Computes what follows from the steps: statuses, accuracy of cells, validity, completeness.
    fn close(&mut self, last: bool) {
        let record = &mut self.record;
        record.manifest.duration_s = self.start.elapsed().as_secs_f64();
        for cell in &mut record.cells {
            cell.accuracy = fill::whole_cell(&cell.steps);
        }
        record.settle();
        let interrupted = self.stop.load(Ordering::Relaxed);
        let failed: Vec<String> = self
            .slots
            .iter()
            .filter_map(|slot| slot.given_up.clone())
            .collect();
        record.partial_reason = match (interrupted, failed.first(), last) {
            (true, _, _) => Some("interrupted".into()),
            (false, Some(why), _) => Some(why.clone()),
            (false, None, false) => Some("the run has not ended".into()),
            (false, None, true) => None,
        };
        record.complete = record.partial_reason.is_none();
    }
}

/// More than any service answers, for as long as a probe takes: every stream is busy all the time.
fn overload(scenario: &KeyPlan, bounds: Bounds, seed: u64) -> Plan {
    Plan {
        arrivals: Arrivals::Constant,
        rate: OVERLOAD_RATE,
        length_ns: PROBE.as_nanos() as u64,
        spreading: scenario.spreading,
        seed,
        bounds: Bounds {
            deadline_ns: PROBE.as_nanos() as u64,
            ..bounds
        },
    }
}

/// Good answers per second of an overloaded service.
fn saturated_rate(outcome: Outcome) -> Result<f64, String> {
    let tally = &outcome.tally;
    match (&outcome.cut_short, &tally.first_error) {
        (Some(why), _) | (None, Some(why)) => Err(why.clone()),
        (None, None) => {
            Ok((tally.allowed + tally.denied) as f64 * 1e9 / outcome.answered_ns.max(1) as f64)
        }
    }
}
