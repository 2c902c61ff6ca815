//! Ladders: the rungs of all systems of a scenario, interleaved.

use std::time::Duration;

use super::super::bed::StepRequest;
use super::super::cell;
use super::super::fill::FIRST_COMPLAINT;
use super::super::plan::{KeyPlan, Ladder, rungs};
use super::{Series, Session};
use crate::load::open::Outcome;
use crate::record::validity::{GENERATOR_CPU_PERCENT_MAX, HEADROOM_MIN};
use crate::record::{Grade, Measure, SearchGoal, Step};
use crate::search::rungs::{Rung, is_open, next};

/// Times that one row may be measured again.
const REPEATS_PER_STEP: usize = 2;

impl Session<'_> {
    pub(super) fn scenario(&mut self, scenario: &KeyPlan, step_length: Duration) {
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
        let plan = self.bed.plan();
        if matches!(plan.ladder, Ladder::Scaled) && !plan.is_closed() {
            for series in &mut all {
                // Later starts take the rungs of the first.
                if self.followed_rates(series.cell).is_none() {
                    self.go_on(scenario, series, step_length);
                }
            }
        }
    }

    /// Adds rungs to a ladder whose highest one held, because its probe measured too low.
    fn go_on(&mut self, scenario: &KeyPlan, series: &mut Series, step_length: Duration) {
        let Some(goal) = SearchGoal::named("slo", &self.record.profile) else {
            return;
        };
        let ceiling = self.ceiling(series.way).unwrap_or(f64::INFINITY);
        let (planned, most_rps) = (series.rates.len(), ceiling / HEADROOM_MIN);
        while self.record.cells[series.cell].complete {
            let steps = self.record.cells[series.cell].steps.iter();
            let measured: Vec<Rung> = steps
                .map(|step| Rung {
                    rate_rps: step.target_rps,
                    held: goal.broken_by(&Measure::of(step)).is_none(),
                })
                .collect();
            let added = series.rates.len() - planned;
            let Some(rate) = next(&measured, added, most_rps) else {
                let in_order = self.bed.plan().order.is_none();
                let cell = &mut self.record.cells[series.cell];
                let notes = &mut cell.notes;
                if added > 0 {
                    if in_order {
                        // The last of them lie between others.
                        cell.steps
                            .sort_by(|a, b| a.target_rps.total_cmp(&b.target_rps));
                    }
                    notes.push(format!(
                        "rungs added above the ladder, because the probe measured too low: {added}"
                    ));
                }
                if added > 0 && is_open(&measured) {
                    let highest = series.rates.iter().copied().fold(0.0, f64::max);
                    notes.push(format!(
                        "the highest rung that may be added still held, {highest:.0}/s: a lower bound"
                    ));
                }
                return;
            };
            series.rates.push(rate);
            self.climb_one(scenario, series, step_length);
        }
    }

    /// Measures the last rung of a ladder that goes on.
    fn climb_one(&mut self, scenario: &KeyPlan, series: &Series, step_length: Duration) {
        if let Some(rate) = series.rates.last() {
            self.rung(scenario, series, *rate, step_length);
            self.bed.pause();
        }
        self.end(series);
    }

    /// Says whether all rungs of a series were measured.
    fn end(&mut self, series: &Series) {
        let measured = self.record.cells[series.cell].steps.len();
        let whole = measured == series.rates.len() && measured > 0;
        self.record.cells[series.cell].complete =
            whole && self.bed.given_up(series.slot).is_none() && !self.bed.stopped();
    }

    /// Climbs the rungs of all series: each rung by all of them, forwards and backwards in turn.
    pub(in crate::run) fn climb(
        &mut self,
        scenario: &KeyPlan,
        all: &[Series],
        step_length: Duration,
    ) {
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
            self.end(series);
        }
    }

    pub(in crate::run) fn probe_all(&mut self, scenario: &KeyPlan) -> Vec<Series> {
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
    pub(in crate::run) fn rung(
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
        worth_repeating(step)
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
        let none_decided = step.allowed + step.denied == 0;
        let only_errors = none_decided && step.failures.answered_errors() > 0;
        let not_understood = none_decided && step.failures.protocol > 0;
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
            None if silent && !not_understood => self.give_up(
                series.slot,
                series.cell,
                "not one answer within the deadline",
            ),
            None if only_errors => {
                let why = format!("every answer was an error{complained}");
                self.give_up(series.slot, series.cell, &why);
            }
            None if not_understood => {
                let why = format!("no answer was one to what was asked{complained}");
                self.give_up(series.slot, series.cell, &why);
            }
            None => {}
        }
    }
}

/// Whether the machine spoiled a row that may come out better the next time.
fn worth_repeating(step: &Step) -> bool {
    let exact = step.accuracy.as_ref().is_none_or(|found| {
        // A wrong decision counts on a busy machine as well.
        found.never_over() && found.never_under()
    });
    // Who decides nothing will do so again, after a wait as long.
    let decided = step.allowed + step.denied + step.failures.timeout > 0 && step.completed > 0;
    // A load that the generator cannot carry will be no other the next time.
    let carried = step
        .generator
        .is_none_or(|used| used.cpu_percent <= GENERATOR_CPU_PERCENT_MAX);
    exact
        && decided
        && carried
        && step.validity.grade == Grade::Invalid
        && step.failures.refused == 0
}

/// The first complaint about an answer of the step, after a semicolon; empty without one.
fn complaint(step: &Step) -> String {
    let mut notes = step.notes.iter();
    let found = notes.find_map(|note| note.strip_prefix(FIRST_COMPLAINT));
    found.map_or_else(String::new, |text| format!("; first {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Accuracy, ProcessUse};

    #[test]
    fn a_row_is_repeated_only_where_the_machine_may_have_spoiled_it() {
        let mut spoiled = Step {
            completed: 1,
            allowed: 1,
            ..Step::default()
        };
        assert!(!worth_repeating(&spoiled), "valid");
        spoiled
            .validity
            .lower(Grade::Invalid, "the generator was late");
        assert!(worth_repeating(&spoiled));
        let but = |change: &dyn Fn(&mut Step)| {
            let mut step = spoiled.clone();
            change(&mut step);
            worth_repeating(&step)
        };
        assert!(!but(&|step| step.completed = 0), "nobody was answered");
        assert!(
            !but(&|step| (step.allowed, step.failures.protocol) = (0, 1)),
            "no answer was a decision"
        );
        assert!(!but(&|step| step.failures.refused = 1), "lost connections");
        assert!(!but(&|step| step.accuracy = Some(Accuracy {
            over_admission_percent: 0.1,
            over_admitted: 1,
            ..Accuracy::default()
        })));
        assert!(!but(&|step| step.generator = Some(ProcessUse {
            cpu_percent: 99.0,
            ..ProcessUse::default()
        })));
    }
}
