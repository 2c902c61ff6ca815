//! Overload and what comes after it, on real targets.

mod starts;

use std::time::Duration;

use super::bed::StepRequest;
use super::capacity::CapacitySettings;
use super::cell;
use super::plan::KeyPlan;
use super::session::{Series, Session};
use crate::load::clients::RetryPolicy;
use crate::load::open::Outcome;
use crate::record::attribution::{ProcessAttribution, Role};
use crate::record::recovery::{
    Healing, HealingTry, Phase, RecoveryRecord, RecoveryVariant, RecoveryVerdict,
};
use crate::record::{Profile, Step};
use crate::search::ladder::cpu_points;
use crate::search::recovery::{
    Aftermath, Judgement, Standard, generator_percent, judge, waited_in_clients,
};
use crate::search::{healing, zones};
pub(super) use starts::merged;

/// Load before and after the overload, in knees.
const QUIET: f64 = 0.7;
/// Load of the overload, in knees.
const OVERLOAD: f64 = 1.5;
/// Silence between two variants, so that what one left behind does not count against the next.
const SETTLE: Duration = Duration::from_secs(1);
/// Longest wait for answers after the last phase.
const DRAIN: Duration = Duration::from_secs(1);
/// Deadline of clients that wait as long as the run lasts: longer than any run.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);
/// Seed of the waits of retrying clients, besides the run's own.
const BACKOFF_SEED: u64 = 0x5eed_00c1_1e47;

/// Where a knee comes from that a search enclosed, and one that it did not.
const SEARCHED: &str = "lower bound of a capacity search";
const OPEN: &str = "highest load that a capacity search found held: no load was shown to be too much, so the knee may lie higher";
/// Where the knee of later starts comes from.
const OF_THE_FIRST: &str = "that of the first start";

/// How clients behave in one variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientVariant {
    /// Repetitions of a failed request at most.
    pub retries: u32,
    /// Deadline of one attempt; `None` waits as long as the run lasts.
    pub deadline: Option<Duration>,
}

impl ClientVariant {
    fn deadline_ms(&self) -> Option<f64> {
        let deadline = self.deadline?;
        Some(deadline.as_secs_f64() * 1e3)
    }
}

/// What a recovery run does.
#[derive(Clone, Debug)]
pub struct RecoverySettings {
    /// Lengths of the phases before, during and after the overload.
    pub phases: [Duration; 3],
    /// The knee, if it is known; else a search finds it.
    pub knee_rps: Option<f64>,
    /// The search.
    pub search: CapacitySettings,
    /// Clients.
    pub variants: Vec<ClientVariant>,
    /// Mean wait before the first repetition.
    pub backoff: Duration,
    /// Length of the good stretch that counts as recovered.
    pub good_stretch: Duration,
}

impl RecoverySettings {
    /// By what a run is judged.
    fn standard<'a>(&self, profile: &'a Profile) -> Standard<'a> {
        Standard {
            profile,
            good_stretch_s: self.good_stretch.as_secs_f64(),
        }
    }

    /// Time that one system takes if it heals: a search that needs half of its trials, two rows, the variants and one
    /// further load.
    #[must_use]
    pub(crate) fn expected(&self) -> Duration {
        let search = match self.knee_rps {
            Some(_) => Duration::ZERO,
            None => self.search.search_most() / 2,
        };
        let row = self.search.goals.first().map_or(0.0, |g| g.final_trial_s);
        let phases: Duration = self.phases.iter().sum();
        let overloads = self.variants.len() as u32 + 1;
        search + Duration::from_secs_f64(2.0 * row) + (phases + SETTLE) * overloads
    }
}

impl Session<'_> {
    /// Overloads every system in `scenario` and watches it heal.
    pub(super) fn recovery(&mut self, scenario: &KeyPlan, settings: &RecoverySettings) {
        for (number, series) in self.probe_all(scenario).into_iter().enumerate() {
            if self.bed.stopped() {
                return;
            }
            if self.bed.given_up(series.slot).is_some() {
                continue;
            }
            if number > 0 {
                self.gauge();
            }
            match self.knee(scenario, &series, settings) {
                Some(knee) if self.stands(&series) => {
                    self.around(scenario, &series, settings, knee);
                }
                Some(_) => {}
                None => self.record.cells[series.cell]
                    .notes
                    .push("no recovery run: no load was sustained that could be exceeded".into()),
            }
        }
    }

    /// The knee that the loads are shares of, and where it comes from. Every start searches its own, which is kept; the loads
    /// of all starts are those of the first, because others could not be put together.
    fn knee(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        settings: &RecoverySettings,
    ) -> Option<(f64, &'static str)> {
        if let Some(knee) = settings.knee_rps {
            return Some((knee, "given on the command line"));
        }
        let before = self.followed_knee(series.cell);
        let own = self.sustained(scenario, series, &settings.search);
        if let Some(knee) = before {
            return Some((knee, OF_THE_FIRST));
        }
        let (knee, row) = own?;
        let cell = &mut self.record.cells[series.cell];
        cell.steps.extend(row);
        let goals = cell.capacity.iter().flat_map(|found| &found.goals);
        let is_open = goals.take(1).any(|goal| goal.upper_rps.is_none());
        Some((knee, if is_open { OPEN } else { SEARCHED }))
    }

    fn around(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        settings: &RecoverySettings,
        (knee_rps, source): (f64, &str),
    ) {
        let phases = phases(knee_rps, QUIET, settings.phases);
        let record = RecoveryRecord {
            knee_rps,
            knee_source: source.into(),
            phases: phases.to_vec(),
            good_stretch_s: settings.good_stretch.as_secs_f64(),
            variants: Vec::new(),
            healing: None,
        };
        self.record.cells[series.cell].recovery = Some(record);
        // Plain rows, so that the reader sees what the loads are without overload. Of a knee that a search found, the
        // trial that decided is there.
        let known = |rate: &f64| {
            let mut rows = self.record.cells[series.cell].steps.iter();
            rows.any(|step| step.target_rps == *rate)
        };
        let before = self.followed_rates(series.cell);
        let rates = before.unwrap_or_else(|| vec![phases[0].rate_rps, knee_rps]);
        let rates: Vec<f64> = rates.into_iter().filter(|rate| !known(rate)).collect();
        for rate in rates {
            if !self.stands(series) {
                return;
            }
            let length = Duration::from_secs_f64(settings.search.goals[0].final_trial_s);
            self.rung(scenario, series, rate, length);
        }
        for variant in &settings.variants {
            if !self.stands(series) {
                return;
            }
            let found = self.variant(scenario, series, settings, (&phases, *variant));
            let recovery = self.record.cells[series.cell].recovery.as_mut();
            if let Some((recovery, found)) = recovery.zip(found) {
                recovery.variants.push(found);
            }
        }
        self.heal(scenario, series, settings, knee_rps);
        self.record.cells[series.cell].complete = self.stands(series);
    }

    /// Looks for the highest load from which the system heals, with the clients that were hardest on it, and takes it
    /// into the zones.
    fn heal(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        settings: &RecoverySettings,
        knee_rps: f64,
    ) {
        let recovery = self.record.cells[series.cell].recovery.as_ref();
        let hardest = |found: &RecoveryRecord| {
            let at = found.hardest()?;
            Some((at, found.variants[at].verdict))
        };
        let Some((at, verdict)) = recovery.and_then(hardest) else {
            return;
        };
        let variant = settings.variants[at];
        let mut found = Healing {
            retries: variant.retries,
            deadline_ms: variant.deadline_ms(),
            ..Healing::default()
        };
        while let Some(share) = healing::next(QUIET, verdict, &found.tries) {
            if !self.stands(series) {
                return;
            }
            let phases = phases(knee_rps, share, settings.phases);
            let Some(seen) = self.variant(scenario, series, settings, (&phases, variant)) else {
                return;
            };
            found.tries.push(HealingTry {
                of_knee: share,
                rate_rps: phases[0].rate_rps,
                verdict: seen.verdict,
                validity: seen.validity,
            });
        }
        let usual = ((QUIET * knee_rps).round(), verdict);
        found.hidden_rps = healing::hidden_rps(usual, &found.tries);
        let overload_rps = (OVERLOAD * knee_rps).round();
        found.sentence = healing::sentence(found.hidden_rps, verdict, overload_rps, &found.tries);
        self.keep_healing(series, found, verdict);
    }

    fn stands(&self, series: &Series) -> bool {
        !self.bed.stopped() && self.bed.given_up(series.slot).is_none()
    }

    fn variant(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        settings: &RecoverySettings,
        (phases, variant): (&[Phase; 3], ClientVariant),
    ) -> Option<RecoveryVariant> {
        let title = format!(
            "{} · {} · {}",
            scenario.title,
            cell::describe(self.bed.target(series.slot), series.way),
            describe(phases, variant)
        );
        self.bed.console().phase(title.clone());
        let [_, hot, after] = phases;
        let later = [
            (hot.rate_rps, settings.phases[1]),
            (after.rate_rps, settings.phases[2]),
        ];
        let mut request = StepRequest::new(
            &self.bed,
            series.slot,
            series.way,
            scenario,
            phases[0].rate_rps,
            settings.phases[0],
        );
        request.later = &later;
        request.deadline = Some(variant.deadline.unwrap_or(FOREVER));
        request.clients = Some(RetryPolicy {
            retries: variant.retries,
            backoff_ns: settings.backoff.as_nanos() as u64,
            drain_ns: DRAIN.as_nanos() as u64,
            seed: self.bed.plan().seed ^ BACKOFF_SEED,
        });
        let (step, outcome) = match self.bed.step(&request) {
            Ok(done) => done,
            Err(why) => {
                self.give_up(series.slot, series.cell, &why);
                return None;
            }
        };
        let cell = &self.record.cells[series.cell];
        self.bed.console().row(cell, &step);
        let whole = outcome.cut_short.is_none();
        let standard = settings.standard(&self.record.profile);
        let load = &self.record.cells[series.cell].load;
        let on_wire = u64::from(load.connections) * u64::from(load.pipeline_depth);
        let profile = &self.record.profile;
        let queued = waited_in_clients(profile, &phases[2], &step.seconds, on_wire);
        let aftermath = aftermath(phases, (&step, &outcome), on_wire, queued);
        let judged = judge(standard, phases, &step.seconds, whole).explained(phases, &aftermath);
        if let Some(why) = outcome.cut_short.as_ref().filter(|_| !self.bed.stopped()) {
            self.give_up(series.slot, series.cell, why);
        }
        self.bed
            .console()
            .phase(format!("{title}: {}", judged.sentence));
        let found = RecoveryVariant {
            waited_in_clients_percent: queued.map(|share| share * 100.0),
            ..row(phases, variant, settings.backoff, (step, outcome), judged)
        };
        self.bed.rest(SETTLE);
        Some(found)
    }

    /// Keeps what was found about healing. A system that heals from no load has no safe load that can be trusted.
    fn keep_healing(&mut self, series: &Series, found: Healing, usual: RecoveryVerdict) {
        let threads = self.bed.target(series.slot).record().threads;
        let cell = &mut self.record.cells[series.cell];
        let used = cpu_points(&cell.by_load(), threads);
        // A search that was refused has no zones to bound.
        if let Some(capacity) = cell.capacity.as_mut().filter(|c| c.refused.is_none()) {
            zones::put_with_healing(capacity, &found, usual, &used);
        }
        if let Some(recovery) = &mut cell.recovery {
            recovery.healing = Some(found);
        }
    }
}

/// The loads of the phases and how the clients behave.
fn describe(phases: &[Phase; 3], variant: ClientVariant) -> String {
    let deadline = variant.deadline.map_or_else(
        || "no".into(),
        |deadline| format!("{} ms", deadline.as_millis()),
    );
    let [before, overload, after] = phases;
    format!(
        "{:.0} → {:.0} → {:.0}/s, {} retries, {deadline} deadline",
        before.rate_rps, overload.rate_rps, after.rate_rps, variant.retries
    )
}

/// Attempts per request from the overload on.
fn amplification(phases: &[Phase; 3], step: &Step, outcome: &Outcome) -> f64 {
    let from_s = phases[1].start_s;
    let pressed: u64 = step
        .seconds
        .iter()
        .filter(|second| second.at_s >= from_s)
        .map(|second| second.planned)
        .sum();
    1.0 + outcome.tally.repeated as f64 / pressed.max(1) as f64
}

/// What is known of a step after its overload.
fn aftermath(
    phases: &[Phase; 3],
    (step, outcome): (&Step, &Outcome),
    on_wire: u64,
    waited_in_clients: Option<f64>,
) -> Aftermath {
    let [_, hot, after] = phases;
    Aftermath {
        knee_rps: hot.rate_rps / hot.of_knee,
        wanted_rps: after.rate_rps * amplification(phases, step, outcome),
        on_wire,
        waited_in_clients,
        generator_percent: generator(step).and_then(|found| generator_percent(found, after)),
    }
}

/// The generator among the processes that were watched.
fn generator(step: &Step) -> Option<&ProcessAttribution> {
    let processes = step.attribution.as_ref()?.processes.iter();
    processes
        .into_iter()
        .find(|process| process.role == Role::Generator)
}

/// The record of a variant, from its step and the judgement of it.
fn row(
    phases: &[Phase; 3],
    variant: ClientVariant,
    backoff: Duration,
    (step, outcome): (Step, Outcome),
    judged: Judgement,
) -> RecoveryVariant {
    let backoff_ms = match variant.retries {
        0 => 0.0,
        _ => backoff.as_secs_f64() * 1e3,
    };
    RecoveryVariant {
        retries: variant.retries,
        backoff_ms,
        deadline_ms: variant.deadline_ms(),
        offset_s: step.offset_s,
        planned: step.planned,
        sent: step.sent,
        good: step.allowed + step.denied,
        failed: step.failures.total(),
        repeated: outcome.tally.repeated,
        amplification: amplification(phases, &step, &outcome),
        time_to_recover_s: judged.time_to_recover_s,
        backlog_drain_s: judged.backlog_drain_s,
        waited_in_clients_percent: None,
        verdict: judged.verdict,
        sentence: judged.sentence,
        validity: step.validity,
        seconds: step.seconds,
        starts: Vec::new(),
        over_starts: None,
    }
}

/// `quiet` knees, overload, and `quiet` knees again.
fn phases(knee_rps: f64, quiet: f64, lengths: [Duration; 3]) -> [Phase; 3] {
    let mut start_s = 0.0;
    let shares = [("before", quiet), ("overload", OVERLOAD), ("after", quiet)];
    let mut at = 0;
    shares.map(|(name, of_knee)| {
        let phase = Phase {
            name: name.into(),
            of_knee,
            rate_rps: (of_knee * knee_rps).round().max(1.0),
            start_s,
            length_s: lengths[at].as_secs_f64(),
        };
        start_s += phase.length_s;
        at += 1;
        phase
    })
}
