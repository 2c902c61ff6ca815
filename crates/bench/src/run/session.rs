//! One run over all targets and scenarios.
//!
//! All targets are up at the same time and idle except the one under load. Within a scenario the rungs of all systems
//! are interleaved, forwards and backwards in turn, so that a machine that becomes slower with time does so
//! for all of them.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::bed::{Bed, StepRequest};
use super::capacity::CapacitySettings;
use super::cell;
use super::console::Console;
use super::fill::{self, FIRST_COMPLAINT};
use super::mitigations::MitigationSettings;
use super::plan::{KeyPlan, Ladder, RunPlan, rungs};
use super::recovery::RecoverySettings;
use super::starts::{self, Start};
use crate::load::open::Outcome;
use crate::os::cpu;
use crate::record::samples::SampleFile;
use crate::record::validity::GENERATOR_CPU_PERCENT_MAX;
use crate::record::{
    Calibration, Cell, Event, Grade, RunRecord, SCHEMA_VERSION, Severity, Skipped, Step,
};
use crate::search::ladder;
use crate::target::{Target, Way};

/// Rows of a run that may be measured again when the machine spoiled them: one in so many.
const REPEATS_PER_ROWS: u32 = 4;
/// And so many at least.
const REPEATS_MIN: u32 = 8;
/// Time between the loads of a series besides their own: connecting, rendering, the capacity probe.
const BETWEEN_LOADS: Duration = Duration::from_secs(1);
/// Length from which on a run is announced.
const LONG: Duration = Duration::from_secs(120);
/// Cores up to which a generator that stays awake takes from the target what it needs.
const FEW_CORES: usize = 2;
/// What is said of such a generator.
const SPIN_NOTE: &str = "the generator stays awake before every due request (--spin): on a machine of so few cores this takes \
                         time from the target's part of the kernel, so rates and CPU of the target may be worse than without";
/// Times that one row may be.
const REPEATS_PER_STEP: usize = 2;

/// What a run does with its targets.
#[derive(Clone, Debug)]
pub enum Job {
    /// Climbs ladders.
    Ladder,
    /// Searches for the load that each target sustains.
    Capacity(CapacitySettings),
    /// Overloads each target and watches it heal.
    Recovery(RecoverySettings),
    /// Compares strategies for hot keys.
    Mitigations(MitigationSettings),
}

/// One system asked in one way, within one scenario.
pub(super) struct Series {
    pub(super) slot: usize,
    pub(super) way: Way,
    pub(super) cell: usize,
    pub(super) rates: Vec<f64>,
}

/// A run in progress.
pub struct Session<'a> {
    pub(super) bed: Bed<'a>,
    pub(super) record: RunRecord,
    repeats_left: u32,
    /// Whether this is one of several starts.
    pub(super) of_several: bool,
    /// Cells of the starts before this one, whose rates it repeats.
    follows: Vec<Cell>,
}

impl<'a> Session<'a> {
    /// A run that starts now.
    #[must_use]
    pub fn new(plan: &'a RunPlan, console: &'a mut Console, stop: &'a AtomicBool) -> Session<'a> {
        let manifest = super::machine::manifest(plan.seed, plan.generator_core, plan.target_core);
        let bed = Bed::new(plan, console, stop, manifest.started_unix_s);
        let record = RunRecord {
            schema_version: SCHEMA_VERSION,
            manifest,
            profile: plan.profile.clone(),
            ..RunRecord::default()
        };
        Session {
            bed,
            record,
            repeats_left: REPEATS_MIN,
            of_several: false,
            follows: Vec::new(),
        }
    }

    /// Makes this the start after `before` of several, once its targets were added: they take turns, and the rates are
    /// those of the starts before.
    pub fn begin_start(&mut self, before: &[Start]) {
        self.of_several = true;
        let number = before.len() as u32;
        let order = starts::order(number, self.bed.targets());
        self.bed.begin_start(number, &order);
        self.record.targets = (0..self.bed.targets())
            .map(|slot| self.bed.target(slot).record().clone())
            .collect();
        self.follows = starts::furthest(before);
        if let Some(calibration) = before.first().and_then(|b| b.record.calibration.as_ref()) {
            self.calibrated(calibration.clone());
        }
    }

    /// The cell in the start before this one that got furthest with it; `None` if none has measured it.
    fn followed(&self, cell: usize) -> Option<&Cell> {
        let now = &self.record.cells[cell];
        let mut measured = self
            .follows
            .iter()
            .filter(|before| !before.steps.is_empty());
        measured.find(|before| starts::same(now, before))
    }

    /// Rates that the cell had in the starts before this one; `None` if none has measured it.
    pub(super) fn followed_rates(&self, cell: usize) -> Option<Vec<f64>> {
        let steps = &self.followed(cell)?.steps;
        Some(steps.iter().map(|step| step.target_rps).collect())
    }

    /// The knee that the cell had in the starts before this one; `None` if none had one.
    pub(super) fn followed_knee(&self, cell: usize) -> Option<f64> {
        Some(self.followed(cell)?.recovery.as_ref()?.knee_rps)
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
        self.bed.add(target);
    }

    /// Whether there is anything to measure.
    #[must_use]
    pub fn has_targets(&self) -> bool {
        self.bed.targets() > 0
    }

    /// Whether a server runs that the bench started.
    #[must_use]
    pub fn starts_servers(&self) -> bool {
        self.record
            .targets
            .iter()
            .any(|target| target.started_by_bench)
    }

    /// Says that a system is not measured.
    pub fn skip(&mut self, name: &str, reason: String) {
        self.bed
            .console()
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
        self.bed.calibrated(calibration.clone());
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
        self.bed.console().note(&format!("{word}: {shown}"));
        let target = target.map(Into::into);
        self.record.events.push(Event {
            offset_s: self.bed.elapsed_s(),
            severity,
            target,
            text,
        });
    }

    /// The console, for what belongs to no step.
    pub fn console(&mut self) -> &mut Console {
        self.bed.console()
    }

    /// Keeps single requests of the steps in `file`, as the plan says.
    pub fn keep_samples(&mut self, file: SampleFile) {
        self.bed.keep_samples(file);
    }

    /// Climbs the ladders. `keep` is called with the record so far after every scenario.
    pub fn run(self, keep: &mut dyn FnMut(&RunRecord, &mut Console)) -> RunRecord {
        self.run_job(&Job::Ladder, keep)
    }

    /// Does `job` in every scenario. `keep` is called with the record so far after each.
    pub fn run_job(
        mut self,
        job: &Job,
        keep: &mut dyn FnMut(&RunRecord, &mut Console),
    ) -> RunRecord {
        if self.bed.plan().is_closed() {
            self.event(Severity::Warning, None, cell::CLOSED_NOTE.into());
        }
        if self.bed.plan().spin.is_some() && cpu::count() <= FEW_CORES {
            self.event(Severity::Warning, None, SPIN_NOTE.into());
        }
        let rows = self.expected_steps();
        self.repeats_left = REPEATS_MIN.max(rows as u32 / REPEATS_PER_ROWS);
        let step_length = self.bed.plan().step_length(rows);
        let scenarios = self.bed.plan().scenarios.clone();
        self.gauge();
        for scenario in &scenarios {
            if self.bed.stopped() {
                break;
            }
            match job {
                Job::Ladder => self.scenario(scenario, scenario.step.unwrap_or(step_length)),
                Job::Capacity(settings) => self.capacity(scenario, settings),
                Job::Recovery(settings) => self.recovery(scenario, settings),
                Job::Mitigations(settings) => self.mitigations(scenario, settings),
            }
            self.gauge();
            if let Some(why) = self.bed.take_samples_error() {
                self.event(Severity::Error, None, why);
            }
            self.close(false);
            keep(&self.record, self.bed.console());
        }
        for (name, why) in self.bed.leave() {
            self.event(Severity::Warning, Some(&name), why);
        }
        self.close(true);
        self.record
    }

    /// Looks at the machine, if the generator was calibrated.
    pub(super) fn gauge(&mut self) {
        if self.record.calibration.is_none() || self.bed.stopped() {
            return;
        }
        match self.bed.gauge() {
            Ok(gauge) => self.record.gauges.push(gauge),
            Err(_) if self.bed.stopped() => {}
            Err(why) => self.event(
                Severity::Warning,
                None,
                format!("the machine could not be looked at: {why}"),
            ),
        }
    }

    /// Says how long the run will take, if that is long and known.
    pub fn announce(&mut self, job: &Job) {
        let plan = self.bed.plan();
        let scenarios = plan.scenarios.len() as u32;
        let text = match job {
            Job::Ladder => self.ladders_length(),
            Job::Capacity(settings) => {
                let each = settings.most() + BETWEEN_LOADS * 2;
                Some((each * self.series() * scenarios, "searches, at most"))
            }
            Job::Recovery(settings) => {
                let each = settings.expected() + BETWEEN_LOADS * 2;
                Some((each * self.series() * scenarios, "recovery runs, about"))
            }
            Job::Mitigations(settings) => {
                let step = plan.step_length(1) + plan.warmup + plan.pause;
                let each = step * settings.steps(&plan.ladder) + BETWEEN_LOADS;
                Some((each * self.series() * scenarios, "strategies, about"))
            }
        };
        if let Some((total, what)) = text.filter(|(total, _)| *total >= LONG) {
            let count = match job {
                Job::Ladder => self.expected_steps() as u32,
                _ => self.series() * scenarios,
            };
            let minutes = total.as_secs_f64() / 60.0;
            self.bed
                .console()
                .line(&format!("{count} {what} {minutes:.0} minutes"));
        }
    }

    /// Length of a run of fixed ladders; the others are as long as they must be to end within three minutes.
    fn ladders_length(&self) -> Option<(Duration, &'static str)> {
        let plan = self.bed.plan();
        if !matches!(plan.ladder, Ladder::Fixed(_)) || plan.scenarios.is_empty() {
            return None;
        }
        let steps = self.expected_steps();
        let each = plan.step_length(steps);
        let lengths = plan.scenarios.iter().map(|s| s.step.unwrap_or(each));
        let loads: Duration = lengths
            .map(|length| length + plan.warmup + plan.pause)
            .sum();
        let total = loads.mul_f64(steps as f64 / plan.scenarios.len() as f64);
        Some((total, "steps (--step shortens them), about"))
    }

    /// Systems times ways to ask them.
    fn series(&self) -> u32 {
        let ways = |slot| self.bed.target(slot).ways().len() as u32;
        (0..self.bed.targets()).map(ways).sum()
    }

    fn expected_steps(&self) -> usize {
        let per_series = match &self.bed.plan().ladder {
            Ladder::Fixed(rates) => rates.len(),
            Ladder::Scaled => 6,
        };
        self.series() as usize * per_series * self.bed.plan().scenarios.len()
    }

    fn scenario(&mut self, scenario: &KeyPlan, step_length: Duration) {
        let mut all = self.probe_all(scenario);
        let stores = all.iter().filter(|series| !series.way.is_service());
        let common = stores
            .filter_map(|s| self.record.cells[s.cell].probed_capacity_rps)
            .min_by(f64::total_cmp);
        for series in &mut all {
            if let Some(rates) = self.followed_rates(series.cell) {
                series.rates = rates;
                continue;
            }
            let plan = self.bed.plan();
            series.rates = match &plan.ladder {
                Ladder::Fixed(rates) => rates.clone(),
                // Connections are the rungs of a closed loop.
                Ladder::Scaled if plan.is_closed() => {
                    vec![plan.bounds(series.way, scenario).connections as f64]
                }
                Ladder::Scaled => {
                    let own = self.record.cells[series.cell]
                        .probed_capacity_rps
                        .unwrap_or(0.0);
                    rungs(own, common.filter(|_| !series.way.is_service()))
                }
            };
        }
        if let Some(order) = self.bed.plan().order {
            let seed = self.bed.plan().seed;
            for series in &mut all {
                series.rates = order.arrange(std::mem::take(&mut series.rates), seed);
            }
        }
        self.climb(scenario, &all, step_length);
    }

    /// Climbs the rungs of all series: each rung by all of them, forwards and backwards in turn.
    pub(super) fn climb(&mut self, scenario: &KeyPlan, all: &[Series], step_length: Duration) {
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
                if self.bed.stopped() {
                    return;
                }
                if self.bed.given_up(series.slot).is_none() {
                    self.rung(scenario, series, rate, step_length);
                    self.bed.pause();
                }
            }
        }
        for series in all {
            let measured = self.record.cells[series.cell].steps.len();
            let whole = measured == series.rates.len() && measured > 0;
            self.record.cells[series.cell].complete =
                whole && self.bed.given_up(series.slot).is_none() && !self.bed.stopped();
        }
    }

    pub(super) fn probe_all(&mut self, scenario: &KeyPlan) -> Vec<Series> {
        let mut all = Vec::new();
        for slot in 0..self.bed.targets() {
            for way in self.bed.target(slot).ways() {
                if self.bed.stopped() || self.bed.given_up(slot).is_some() {
                    continue;
                }
                let cell = cell::empty(self.bed.plan(), scenario, self.bed.target(slot), way);
                self.record.cells.push(cell);
                let cell = self.record.cells.len() - 1;
                let plan = self.bed.plan();
                // The limits of a closed loop follow from its capacity.
                let fixed = matches!(plan.ladder, Ladder::Fixed(_)) && !plan.is_closed();
                if let Some(before) = self.followed(cell) {
                    let probed = before.probed_capacity_rps;
                    self.record.cells[cell].probed_capacity_rps = probed;
                } else if !fixed {
                    match self.bed.probe(slot, way, scenario) {
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

    /// Measures one rung. A row that the machine spoiled is measured again, as long as the run has repeats left: only
    /// the validity rules decide that, never the target's own figures.
    pub(super) fn rung(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        rate: f64,
        length: Duration,
    ) {
        let closed = self.bed.plan().is_closed();
        let title = format!(
            "{} · {} · {rate:.0}{}",
            scenario.title,
            cell::describe(self.bed.target(series.slot), series.way),
            if closed { " connections" } else { "/s" }
        );
        let capacity = self.record.cells[series.cell].probed_capacity_rps;
        let mut spoiled = Vec::new();
        let mut before = None;
        loop {
            let attempt = match spoiled.len() {
                0 => title.clone(),
                again => format!(
                    "{title} (again, {again} of at most {REPEATS_PER_STEP}: the machine spoiled the row)"
                ),
            };
            let place = self.place(series);
            self.bed.console().phase(place + &attempt);
            let mut request =
                StepRequest::new(&self.bed, series.slot, series.way, scenario, rate, length);
            request.again = !spoiled.is_empty();
            if closed {
                request.connections = Some(rate as u32);
                request.rate_rps = capacity.unwrap_or(rate);
            }
            match self.bed.step(&request) {
                Ok((step, outcome)) if self.may_repeat(&step, spoiled.len()) => {
                    self.repeats_left -= 1;
                    spoiled.push(format!(
                        "measured again, because {}",
                        step.validity.reasons.join(", and ")
                    ));
                    before = Some((step, outcome));
                }
                Ok((_, outcome)) if outcome.tally.planned == 0 && self.bed.stopped() => {
                    // Interrupted before the first request was due: there is no row.
                    return self.keep_before(series, before, spoiled, &title);
                }
                Ok((mut step, outcome)) => {
                    let ended = outcome.cut_short.clone();
                    match before.filter(|_| ended.is_some()) {
                        whole @ Some(_) => self.keep_before(series, whole, spoiled, &title),
                        None => {
                            step.notes.append(&mut spoiled);
                            self.keep_step(series, step, &outcome, &title);
                            return;
                        }
                    }
                    if let Some(why) = ended.filter(|_| !self.bed.stopped()) {
                        self.give_up(series.slot, series.cell, &why);
                    }
                    return;
                }
                Err(why) => {
                    self.keep_before(series, before, spoiled, &title);
                    self.give_up(series.slot, series.cell, &why);
                    return;
                }
            }
        }
    }

    /// Keeps the last whole measurement, if there is one, of a row whose repetition was cut short: it is spoiled, and more than nothing.
    fn keep_before(
        &mut self,
        series: &Series,
        whole: Option<(Step, Outcome)>,
        mut why_again: Vec<String>,
        title: &str,
    ) {
        let Some((mut step, outcome)) = whole else {
            return;
        };
        // The last reason led to the repetition that is not there.
        why_again.pop();
        step.notes.append(&mut why_again);
        self.keep_step(series, step, &outcome, title);
    }

    fn may_repeat(&self, step: &Step, repeated: usize) -> bool {
        let exact = step.accuracy.as_ref().is_none_or(|found| {
            // A wrong decision counts on a busy machine as well.
            found.never_over() && found.never_under()
        });
        // A load that the generator cannot carry will be no other the next time.
        let carried = step
            .generator
            .is_none_or(|used| used.cpu_percent <= GENERATOR_CPU_PERCENT_MAX);
        exact
            && carried
            && step.validity.grade == Grade::Invalid
            && step.failures.refused == 0
            && repeated < REPEATS_PER_STEP
            && self.repeats_left > 0
            && !self.bed.stopped()
    }

    /// `step 5/9 · `: how far the ladder of a series is; nothing for a single rung.
    fn place(&self, series: &Series) -> String {
        let step = self.record.cells[series.cell].steps.len() + 1;
        match series.rates.len() {
            0 | 1 => String::new(),
            all => format!("step {step}/{all} · "),
        }
    }

    fn keep_step(&mut self, series: &Series, step: Step, outcome: &Outcome, title: &str) {
        let silent = outcome.tally.completed == 0 && outcome.tally.planned > 0;
        let only_errors = step.allowed + step.denied == 0 && step.failures.answered_errors() > 0;
        let complained = complaint(&step);
        let p99 = step
            .response
            .all
            .as_ref()
            .map_or_else(|| "-".into(), |all| format!("{:.2} ms", all.p99_us / 1e3));
        let kinds = match step.failures.told() {
            kinds if kinds.is_empty() => kinds,
            kinds => format!(" ({kinds}{complained})"),
        };
        self.bed.console().phase(format!(
            "{title}: goodput {:.0}/s, p99 {p99}, fail {:.2} %{kinds}, {}, {}",
            step.goodput_rps,
            step.fail_percent(),
            step.status.level.word(),
            step.validity.grade.word()
        ));
        let cell = &mut self.record.cells[series.cell];
        self.bed.console().row(cell, &step);
        cell.steps.push(step);
        match &outcome.cut_short {
            Some(_) if self.bed.stopped() => {}
            Some(why) => self.give_up(series.slot, series.cell, why),
            None if silent => self.give_up(
                series.slot,
                series.cell,
                "not one answer within the deadline",
            ),
            None if only_errors => {
                let why = format!("every answer was an error{complained}");
                self.give_up(series.slot, series.cell, &why);
            }
            None => {}
        }
    }

    pub(super) fn give_up(&mut self, slot: usize, cell: usize, why: &str) {
        let text = self.bed.give_up(slot, why);
        let name = self.bed.target(slot).record().name.clone();
        self.event(
            Severity::Error,
            Some(&name),
            format!("{text}; the rest of its ladder is left out"),
        );
        self.record.cells[cell].notes.push(text);
    }

    /// Computes what follows from the steps: statuses, accuracy of cells, validity, completeness.
    fn close(&mut self, last: bool) {
        let record = &mut self.record;
        record.manifest.duration_s = self.bed.elapsed_s();
        for cell in &mut record.cells {
            cell.accuracy = fill::whole_cell(&cell.steps);
        }
        record.settle();
        ladder::of_record(record, self.bed.stopped());
        let interrupted = self.bed.stopped();
        let failed = self.bed.obituaries().next().map(str::to_owned);
        let measured = record.has_results();
        record.partial_reason = match (interrupted, failed, last) {
            (true, _, _) => Some("interrupted".into()),
            (false, Some(why), _) => Some(why),
            (false, None, false) => Some("the run has not ended".into()),
            (false, None, true) => (!measured).then(|| "nothing was measured".into()),
        };
        record.complete = record.partial_reason.is_none();
    }
}

/// The first complaint about an answer of the step, after a semicolon; empty without one.
fn complaint(step: &Step) -> String {
    let mut notes = step.notes.iter();
    let found = notes.find_map(|note| note.strip_prefix(FIRST_COMPLAINT));
    found.map_or_else(String::new, |text| format!("; first {text}"))
}
