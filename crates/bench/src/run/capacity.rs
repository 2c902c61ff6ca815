//! The capacity search on real targets: trials as the search wants them, then the same loads upwards and downwards.

mod health;
mod starts;

use std::time::Duration;

pub(super) use starts::merged;

use self::health::Health;
use super::bed::StepRequest;
use super::cell;
use super::decided::{self, Held};
use super::plan::{KeyPlan, Ladder, rungs};
use super::session::{Series, Session};
use crate::load::open::Outcome;
use crate::record::capacity::{CapacityRecord, CapacitySource, LoadPoint, SearchEnd, Trial};
use crate::record::validity::HEADROOM_MIN;
use crate::record::{Grade, Measure, Profile, SearchGoal, Step};
use crate::search::ladder::cpu_points;
use crate::search::retention::{self, FACTORS, knee_from, telling};
use crate::search::{Attempt, Next, Search, SearchPlan, hysteresis, zones};
use crate::target::Way;

/// Share of the probed capacity at which a search begins.
const FIRST_OF_PROBE: f64 = 0.5;
/// Largest load tried where nothing is known of what the generator can offer. The probe bounds nothing: in a busy moment, or
/// of a target that warms up, it measures much too little.
const MOST_RPS: f64 = 1e9;
/// Smallest load tried, as a share of the probed capacity.
const LEAST_OF_PROBE: f64 = 0.01;
/// Shares of the sustained load below it that the way up and down visits.
const BELOW: [f64; 3] = [0.25, 0.5, 0.75];
/// Trials in a row without one answer after which the target counts as lost.
const SILENT_TRIALS_MAX: u32 = 3;

/// How long and for what to search.
#[derive(Clone, Debug)]
pub struct CapacitySettings {
    /// Goals; at least one, the first decides the zones.
    pub goals: Vec<SearchGoal>,
    /// Length of the first, rough trials.
    pub rough_trial: Duration,
    /// Most trials of one search.
    pub trials_max: usize,
    /// Most time of load in one search.
    pub budget: Duration,
}

impl CapacitySettings {
    /// Most time that the search of one system takes, with the way up and down after it.
    #[must_use]
    pub(crate) fn most(&self) -> Duration {
        let full = self.goals.first().map_or(0.0, |goal| goal.final_trial_s);
        let ways = 2 * (BELOW.len() + 1 + FACTORS.len()) as u32;
        self.search_most() + Duration::from_secs_f64(full) * ways
    }

    /// Most time that the search alone takes.
    #[must_use]
    pub(crate) fn search_most(&self) -> Duration {
        self.budget + health::most(self)
    }
}

/// How a trial went, besides its figures.
enum Went {
    On,
    Ended(SearchEnd, String),
}

/// One cell's search on its way.
struct Running {
    search: Search,
    record: CapacityRecord,
    silent: u32,
    health: Health,
    above: Vec<(f64, Measure)>,
    /// Why the result is refused, if a trial admitted more than its limit.
    over_admitted: Option<String>,
    /// The full-length trials that held their loads; one of them becomes the row of the load that is found.
    held: Vec<Held>,
}

/// Whether a trial of this purpose belongs to the search, not to the way up and down after it.
pub(super) fn is_search(purpose: &str) -> bool {
    !matches!(purpose, "up" | "down")
}

impl Running {
    /// Writes a trial down. Returns why it broke the first goal; empty if it did not.
    fn keep(
        &mut self,
        step: &Step,
        settings: &CapacitySettings,
        length: Duration,
        purpose: &str,
    ) -> String {
        let (load_rps, duration_s) = (step.target_rps, length.as_secs_f64());
        let measure = Measure::of(step);
        let broken = settings.goals.iter().map(|goal| goal.broken_by(&measure));
        let broken: Vec<Option<String>> = broken.collect();
        let believable = step.validity.grade != Grade::Invalid;
        let counted = is_search(purpose)
            && self.search.record(&Attempt {
                load_rps,
                duration_s,
                measure,
                believable,
            });
        if !is_search(purpose) && believable {
            self.above.push((load_rps, measure));
        }
        // A wrong decision counts on a busy machine as well.
        if let Some(found) = step.accuracy.as_ref().filter(|found| !found.never_over()) {
            self.over_admitted.get_or_insert_with(|| {
                format!(
                    "at {load_rps:.0}/s it admitted {:.2} % more than its limit allows, so no load of it counts as held",
                    found.over_admission_percent
                )
            });
        }
        let rule = broken.first().cloned().flatten().unwrap_or_default();
        self.record.trials.push(Trial {
            start: None,
            offset_s: step.offset_s,
            load_rps,
            duration_s,
            purpose: purpose.into(),
            goodput_rps: step.goodput_rps,
            fail_percent: step.fail_percent(),
            p99_ms: measure.p99_ms,
            kept: broken.iter().map(Option::is_none).collect(),
            rule: rule.clone(),
            counted,
            validity: step.validity.clone(),
        });
        let at = self.record.trials.len() - 1;
        let trial = &self.record.trials[at];
        if trial.held() && trial.decides(&settings.goals[0]) {
            let step = step.clone();
            self.held.push(Held { at, step });
        }
        rule
    }

    /// The load that was found, and its row.
    fn found(&self, settings: &CapacitySettings) -> Option<(f64, Option<Step>)> {
        let load_rps = self.search.results().first()?.lower_rps?;
        let trials = &self.record.trials;
        let row = decided::row(&self.held, trials, &settings.goals[0], load_rps);
        Some((load_rps, row))
    }
}

impl Session<'_> {
    /// Searches the capacity of every system in `scenario`.
    pub(super) fn capacity(&mut self, scenario: &KeyPlan, settings: &CapacitySettings) {
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
            let mut running = self.search(scenario, &series, settings);
            if running.record.ended != SearchEnd::TargetLost && !self.bed.stopped() {
                self.up_and_down(scenario, &series, settings, &mut running);
                if !self.of_several {
                    self.note_contrary(&series, &running);
                }
            }
            let threads = self.bed.target(series.slot).record().threads;
            let cell = &mut self.record.cells[series.cell];
            cell.complete = running.record.came_to_an_end();
            cell.capacity = Some(concluded(
                running,
                &self.record.profile,
                &cell.by_load(),
                threads,
            ));
        }
    }

    /// The load that `series` sustains by a search, for jobs that only need this, with the trial that decided about it as a
    /// row; `None` if it sustains none.
    pub(super) fn sustained(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        settings: &CapacitySettings,
    ) -> Option<(f64, Option<Step>)> {
        let running = self.search(scenario, series, settings);
        let threads = self.bed.target(series.slot).record().threads;
        let found = running.found(settings);
        let record = concluded(running, &self.record.profile, &[], threads);
        let cell = &mut self.record.cells[series.cell];
        cell.capacity = Some(record);
        found
    }

    /// Says in the row of the load that was found which later trials at it went otherwise.
    fn note_contrary(&mut self, series: &Series, running: &Running) {
        let results = running.search.results();
        let Some(found) = results.first().and_then(|result| result.lower_rps) else {
            return;
        };
        let steps = &mut self.record.cells[series.cell].steps;
        if let Some(row) = steps.iter_mut().find(|step| step.target_rps == found) {
            row.notes
                .extend(decided::contrary(&running.record.trials, found));
        }
    }

    fn search(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        settings: &CapacitySettings,
    ) -> Running {
        let plan = self.bounds(series, settings);
        let mut running = Running {
            record: CapacityRecord {
                source: CapacitySource::Search,
                ..CapacityRecord::default()
            },
            search: Search::new(plan),
            silent: 0,
            health: Health::default(),
            above: Vec::new(),
            over_admitted: None,
            held: Vec::new(),
        };
        let least_rps = running.search.plan().min_rps;
        let (ended, because) = match self.first_look(scenario, series, least_rps) {
            Ok(health) => {
                running.health = health;
                self.trials(scenario, series, settings, &mut running)
            }
            Err(why) => {
                self.give_up(series.slot, series.cell, &why);
                (SearchEnd::TargetLost, why)
            }
        };
        running.record.ended = ended;
        running.record.ended_because = because;
        let waits = health::told(&running.record.waits);
        self.record.cells[series.cell].notes.extend(waits);
        running
    }

    /// Runs the trials that the search wants; returns how it ended.
    fn trials(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        settings: &CapacitySettings,
        running: &mut Running,
    ) -> (SearchEnd, String) {
        loop {
            let trial = match running.search.next_trial() {
                Next::Trial(trial) => trial,
                Next::Done => return (SearchEnd::Done, "every goal has its answer".into()),
                Next::BudgetSpent(what) => return (SearchEnd::BudgetSpent, what),
            };
            let length = Duration::from_secs_f64(trial.duration_s);
            let asked = (trial.load_rps, length, trial.purpose);
            if let (Went::Ended(end, why), _) =
                self.trial(scenario, series, settings, asked, running)
            {
                return (end, why);
            }
        }
    }

    /// Where to search: from the probed capacity on, or from the first to the last rate of a given ladder; never so
    /// high that the generator, not the target, would be found.
    fn bounds(&self, series: &Series, settings: &CapacitySettings) -> SearchPlan {
        let probed = self.record.cells[series.cell]
            .probed_capacity_rps
            .unwrap_or(1.0);
        let (mut first, mut least, mut most) =
            (probed * FIRST_OF_PROBE, probed * LEAST_OF_PROBE, MOST_RPS);
        if let Ladder::Fixed(rates) = &self.bed.plan().ladder {
            least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            most = rates.iter().copied().fold(0.0, f64::max);
            first = (least * most).sqrt();
        } else if let Some(ceiling) = self.ceiling(series.way) {
            most = ceiling / HEADROOM_MIN;
        }
        SearchPlan {
            goals: settings.goals.clone(),
            first_rps: first,
            min_rps: least,
            max_rps: most,
            rough_trial_s: settings.rough_trial.as_secs_f64(),
            trials_max: settings.trials_max,
            budget_s: settings.budget.as_secs_f64(),
        }
    }

    /// What the generator can offer in `way`; it was measured with RESP.
    pub(super) fn ceiling(&self, way: Way) -> Option<f64> {
        let calibration = self.record.calibration.as_ref()?;
        (!way.is_service()).then_some(calibration.ceiling_rps)
    }

    /// Runs one trial and writes it down; the row belongs to the caller.
    fn trial(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        settings: &CapacitySettings,
        (load_rps, length, purpose): (f64, Duration, &str),
        running: &mut Running,
    ) -> (Went, Option<Step>) {
        let number = running.record.trials.len() + 1;
        let title = format!(
            "{} · {} · trial {number} · {load_rps:.0}/s ({purpose})",
            scenario.title,
            cell::describe(self.bed.target(series.slot), series.way)
        );
        self.bed.console().phase(title.clone());
        let request = StepRequest::new(
            &self.bed,
            series.slot,
            series.way,
            scenario,
            load_rps,
            length,
        );
        let (step, outcome) = match self.bed.step(&request) {
            Ok(done) => done,
            Err(why) => {
                self.give_up(series.slot, series.cell, &why);
                return (Went::Ended(SearchEnd::TargetLost, why), None);
            }
        };
        if self.bed.stopped() {
            let why = "a signal asked for it".into();
            return (Went::Ended(SearchEnd::Interrupted, why), Some(step));
        }
        let cell = &self.record.cells[series.cell];
        self.bed.console().row(cell, &step);
        let rule = running.keep(&step, settings, length, purpose);
        self.say(&title, &step, &rule);
        let went = self.ending(series, &outcome, running);
        if !rule.is_empty()
            && matches!(went, Went::On)
            && is_search(purpose)
            && let Err(why) = self.wait_until_well(scenario, series, running, load_rps)
        {
            self.give_up(series.slot, series.cell, &why);
            return (Went::Ended(SearchEnd::TargetLost, why), Some(step));
        }
        (went, Some(step))
    }

    fn say(&mut self, title: &str, step: &Step, rule: &str) {
        let kept = if rule.is_empty() { "held" } else { rule };
        self.bed.console().phase(format!(
            "{title}: goodput {:.0}/s, {kept}, {}",
            step.goodput_rps,
            step.validity.grade.word()
        ));
    }

    /// Whether the target is still there.
    fn ending(&mut self, series: &Series, outcome: &Outcome, running: &mut Running) -> Went {
        let silent = outcome.tally.completed == 0 && outcome.tally.planned > 0;
        running.silent = if silent { running.silent + 1 } else { 0 };
        let why = match &outcome.cut_short {
            Some(why) => why.clone(),
            None if running.silent >= SILENT_TRIALS_MAX => {
                format!("not one answer in {SILENT_TRIALS_MAX} trials in a row")
            }
            None => return Went::On,
        };
        self.give_up(series.slot, series.cell, &why);
        Went::Ended(SearchEnd::TargetLost, why)
    }

    /// The sustained load's shares upwards, past the knee and downwards again. The way up becomes the cell's rows, with
    /// the trial that decided about the sustained load in its place. Of several starts all take the way of the first, so
    /// that their rows can be put together; a row then is the trial of the way up everywhere, because one chosen for having
    /// held would not be like the others.
    fn up_and_down(
        &mut self,
        scenario: &KeyPlan,
        series: &Series,
        settings: &CapacitySettings,
        running: &mut Running,
    ) {
        let (sustained, mut decided) = running.found(settings).unzip();
        if self.of_several {
            decided = None;
        }
        let followed = self.followed_rates(series.cell);
        let leads = followed.is_none();
        let mut loads: Vec<f64> = match (followed, sustained) {
            (Some(rates), _) => rates,
            (None, Some(sustained)) => {
                let shares = BELOW.iter().chain(&[1.0]).chain(&FACTORS);
                shares.map(|share| (share * sustained).round()).collect()
            }
            // The rows of a plain ladder show why no load was held.
            (None, None) => self.plain_rungs(series),
        };
        let length = Duration::from_secs_f64(settings.goals[0].final_trial_s);
        let mut at = 0;
        while at < loads.len() {
            let asked = (loads[at], length, "up");
            let (went, step) = self.trial(scenario, series, settings, asked, running);
            let found = decided.take_if(|_| Some(loads[at]) == sustained);
            let row = found.flatten().or(step);
            self.record.cells[series.cell].steps.extend(row);
            if let Went::Ended(end, why) = went {
                (running.record.ended, running.record.ended_because) = (end, why);
                return;
            }
            at += 1;
            if leads && sustained.is_some() && at == BELOW.len() + 1 + FACTORS.len() {
                // A goal of latency can be lost long before goodput is: then the knee lies further up.
                loads.extend(self.judging_load(series, sustained, loads[at - 1]));
            }
        }
        let up = points(&running.record.trials, "up");
        for load in loads.iter().rev().skip(1) {
            let asked = (*load, length, "down");
            if let (Went::Ended(end, why), _) =
                self.trial(scenario, series, settings, asked, running)
            {
                (running.record.ended, running.record.ended_because) = (end, why);
                break;
            }
        }
        let mut down = points(&running.record.trials, "down");
        // Both ways share the turning point.
        down.extend(up.last().copied());
        running.record.hysteresis = hysteresis::between(&up, &down);
    }

    fn plain_rungs(&self, series: &Series) -> Vec<f64> {
        match &self.bed.plan().ladder {
            Ladder::Fixed(rates) => thinned(rates),
            Ladder::Scaled => {
                let probed = self.record.cells[series.cell].probed_capacity_rps;
                rungs(probed.unwrap_or(0.0), None)
            }
        }
    }

    /// 1.25 times the knee, if the way up did not get there.
    fn judging_load(&self, series: &Series, held_rps: Option<f64>, highest: f64) -> Option<f64> {
        let rows = telling(&self.record.cells[series.cell].by_load());
        let knee = knee_from(&self.record.profile, &rows, held_rps)?;
        let wanted = knee.target_rps * FACTORS[1];
        let bound = self.ceiling(series.way).unwrap_or(f64::INFINITY);
        (wanted > highest && wanted <= bound).then(|| wanted.round())
    }
}

/// As many of `rates` as the ways visit otherwise, from the first to the last: for a search they are a range, which may be
/// given in thousands of steps.
fn thinned(rates: &[f64]) -> Vec<f64> {
    const MOST: usize = BELOW.len() + 1 + FACTORS.len();
    if rates.len() <= MOST {
        return rates.to_vec();
    }
    let at = |place: usize| rates[place * (rates.len() - 1) / (MOST - 1)];
    (0..MOST).map(at).collect()
}

fn points(trials: &[Trial], purpose: &str) -> Vec<LoadPoint> {
    let of = |trial: &Trial| LoadPoint {
        target_rps: trial.load_rps,
        goodput_rps: trial.goodput_rps,
        p99_ms: trial.p99_ms,
    };
    trials
        .iter()
        .filter(|trial| trial.purpose == purpose)
        .map(of)
        .collect()
}

/// Everything that follows from the trials and from the rows of the way up.
fn concluded(
    running: Running,
    profile: &Profile,
    steps: &[&Step],
    threads: Option<u32>,
) -> CapacityRecord {
    let Running {
        search,
        mut record,
        above,
        over_admitted,
        ..
    } = running;
    record.goals = search.results();
    record.inverted_rps = search.inverted(&above);
    record.non_monotone = !record.inverted_rps.is_empty();
    zones::put(&mut record, None, &cpu_points(steps, threads));
    record.refuse(over_admitted);
    let held = record.goals.first().and_then(|goal| goal.lower_rps);
    record.retention = retention::of_steps(profile, steps, held);
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_many_steps_is_visited_in_few() {
        let range: Vec<f64> = (1..=1_000).map(f64::from).collect();
        let visited = thinned(&range);
        assert_eq!(visited.len(), 8);
        assert_eq!((visited[0], visited[7]), (1.0, 1_000.0));
        assert!(visited.is_sorted());
        assert_eq!(thinned(&range[..8]), range[..8]);
        assert_eq!(thinned(&range[..9]).len(), 8);
    }
}
