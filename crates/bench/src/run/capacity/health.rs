//! Between trials: waits until the target is as well as before the first one, or starts it anew.

use std::time::{Duration, Instant};

use super::{CapacitySettings, Running, Session};
use crate::record::capacity::HealthWait;
use crate::record::{Grade, Measure, Severity};
use crate::run::bed::StepRequest;
use crate::run::plan::KeyPlan;
use crate::run::session::Series;
use crate::search::health::{LOOK_SHARE, is_well, tells};

/// Silence after a trial that broke its goal, before the first look.
const SETTLE: Duration = Duration::from_millis(300);
/// Length of a look.
const LOOK: Duration = Duration::from_millis(300);
/// Pause between two looks at a target that is not well.
const PAUSE: Duration = Duration::from_millis(300);
/// Longest wait after one trial.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// And after all trials of a search.
const WAITS_MAX: Duration = Duration::from_secs(60);

/// Most time that one search spends on it.
pub(super) fn most(settings: &CapacitySettings) -> Duration {
    (SETTLE + LOOK) * settings.trials_max as u32 + WAITS_MAX
}

/// What is known about the target's health.
#[derive(Default)]
pub(super) struct Health {
    load_rps: f64,
    /// How it looked before the first trial; `None` if that told nothing.
    before: Option<Measure>,
    waited: Duration,
}

impl Session<'_> {
    /// Looks at the target before the first of the trials, of which the lowest are at `least_rps`.
    pub(super) fn first_look(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        least_rps: f64,
    ) -> Result<Health, String> {
        let probed = self.record.cells[series.cell].probed_capacity_rps;
        let mut health = Health {
            load_rps: probed.map_or(least_rps, |rps| LOOK_SHARE * rps).max(1.0),
            ..Health::default()
        };
        let seen = self.look(scenario, series, health.load_rps)?;
        health.before = seen.filter(|seen| tells(seen, &self.record.profile));
        Ok(health)
    }

    /// What a look shows; `None` if the machine may have caused it.
    fn look(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        load_rps: f64,
    ) -> Result<Option<Measure>, String> {
        let mut request =
            StepRequest::new(&self.bed, series.slot, series.way, scenario, load_rps, LOOK);
        request.warmup = Duration::ZERO;
        let (step, _) = self.bed.step(&request)?;
        Ok((step.validity.grade != Grade::Invalid).then(|| Measure::of(&step)))
    }

    /// Returns when the target is well after a trial at `after_rps` that broke its goal, or was started anew, or no longer can
    /// be waited for. Fails if it cannot be reached.
    pub(super) fn wait_until_well(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        running: &mut Running,
        after_rps: f64,
    ) -> Result<(), String> {
        self.bed.rest(SETTLE);
        let Some(before) = running.health.before else {
            return Ok(());
        };
        let (offset_s, begun) = (self.bed.elapsed_s(), Instant::now());
        let mut wait: Option<HealthWait> = None;
        while !self.bed.stopped() {
            let seen = self.look(scenario, series, running.health.load_rps)?;
            let well = seen.is_none_or(|seen| is_well(&self.record.profile, &before, &seen));
            let waited = begun.elapsed();
            if well && wait.is_none() {
                return Ok(());
            }
            let found = wait.get_or_insert_with(|| HealthWait {
                offset_s,
                after_rps,
                before_p99_ms: before.p99_ms,
                ..HealthWait::default()
            });
            found.well = well;
            found.waited_s = waited.as_secs_f64();
            found.p99_ms = seen.and_then(|seen| seen.p99_ms);
            if well || waited >= WAIT_MAX || running.health.waited + waited >= WAITS_MAX {
                break;
            }
            self.bed.console().phase(format!(
                "waiting until it is well again after {after_rps:.0}/s"
            ));
            self.bed.rest(PAUSE);
        }
        running.health.waited += begun.elapsed();
        let Some(mut wait) = wait else { return Ok(()) };
        if !wait.well && !self.bed.stopped() {
            wait.restarted = self.start_anew(series, &wait)?;
        }
        running.record.waits.push(wait);
        Ok(())
    }

    /// Starts a target anew that does not become well; false if it was not started here.
    fn start_anew(&mut self, series: &Series, wait: &HealthWait) -> Result<bool, String> {
        let name = self.bed.target(series.slot).record().name.clone();
        let restarted = self.bed.restart(series.slot);
        let what = match restarted {
            Some(_) => "it is started anew",
            None => "it was not started here, so that later trials may pay for this one",
        };
        let (seconds, rps) = (wait.waited_s, wait.after_rps);
        let text = format!("not well again {seconds:.0} s after a trial at {rps:.0}/s: {what}");
        self.event(Severity::Warning, Some(&name), text);
        restarted.transpose().map(|done| done.is_some())
    }
}

/// What the waits of a search come to, in a sentence; `None` without any.
pub(super) fn told(waits: &[HealthWait]) -> Option<String> {
    let longest = waits
        .iter()
        .map(|wait| wait.waited_s)
        .max_by(f64::total_cmp)?;
    let restarts = waits.iter().filter(|wait| wait.restarted).count();
    let anew = match restarts {
        0 => String::new(),
        times => format!("; started anew {times} times, because it did not become well by itself"),
    };
    Some(format!(
        "not well at once after {} of the trials that were too much, and given up to {longest:.1} s to recover{anew}",
        waits.len()
    ))
}
