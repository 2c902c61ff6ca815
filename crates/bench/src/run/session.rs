//! One run over all targets and scenarios.
//!
//! All targets are up at the same time and idle except the one under load. Within a scenario the rungs of all systems
//! are interleaved, forwards and backwards in turn, so that a machine that becomes slower with time does so
//! for all of them.

mod climb;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::bed::Bed;
use super::capacity::CapacitySettings;
use super::cell;
use super::console::Console;
use super::fill;
use super::mitigations::MitigationSettings;
use super::plan::{Ladder, RunPlan};
use super::recovery::RecoverySettings;
use super::starts::{self, Start};
use crate::os::cpu;
use crate::record::samples::SampleFile;
use crate::record::{Calibration, Cell, Event, RunRecord, SCHEMA_VERSION, Severity, Skipped};
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
    pub(crate) fn begin_start(&mut self, before: &[Start]) {
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
    pub(crate) fn has_targets(&self) -> bool {
        self.bed.targets() > 0
    }

    /// Whether a server runs that the bench started.
    #[must_use]
    pub(crate) fn starts_servers(&self) -> bool {
        self.record
            .targets
            .iter()
            .any(|target| target.started_by_bench)
    }

    /// Says that a system is not measured.
    pub(crate) fn skip(&mut self, name: &str, reason: String) {
        self.bed
            .console()
            .note(&format!("not measured: {name}: {reason}"));
        self.record.skipped.push(Skipped {
            name: name.into(),
            reason,
        });
    }

    /// Says that a system that was there could not be measured.
    pub(crate) fn lost(&mut self, name: &str, why: String) {
        self.record.skipped.push(Skipped {
            name: name.into(),
            reason: why.clone(),
        });
        self.event(Severity::Error, Some(name), why);
    }

    /// Keeps what the generator can do.
    pub(crate) fn calibrated(&mut self, calibration: Calibration) {
        self.bed.calibrated(calibration.clone());
        self.record.calibration = Some(calibration);
    }

    /// Keeps something that happened.
    pub(crate) fn event(&mut self, severity: Severity, target: Option<&str>, text: String) {
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
    pub(crate) fn console(&mut self) -> &mut Console {
        self.bed.console()
    }

    /// Keeps single requests of the steps in `file`, as the plan says.
    pub(crate) fn keep_samples(&mut self, file: SampleFile) {
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
            let cells = self.record.cells.len();
            match job {
                Job::Ladder => self.scenario(scenario, scenario.step.unwrap_or(step_length)),
                Job::Capacity(settings) => self.capacity(scenario, settings),
                Job::Recovery(settings) => self.recovery(scenario, settings),
                Job::Mitigations(settings) => self.mitigations(scenario, settings),
            }
            if self.record.cells.len() == cells {
                // All targets were given up before.
                continue;
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
    pub(crate) fn announce(&mut self, job: &Job) {
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
