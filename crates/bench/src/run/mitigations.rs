//! Strategies for hot keys under one load, on real services: `bench mitigations`.
//!
//! All strategies run on the same processes, each under rules of its own, and take turns forwards and backwards: first at
//! a load that all of them hold, for cost and latency, then at shares of what each of them can do. With several starts
//! every process is new in each of them, and the starts are put together at the end.

mod starts;

use crate::record::attribution::{CommandUse, Role, RoleCost, StoreAttribution};
use crate::record::{Cell, ErrorVerdict, Grade, MitigationRow, MitigationsRecord, Step, Validity};
use crate::statistics::median;
use crate::target::strategy::Strategy;

use super::plan::{KeyPlan, Ladder};
use super::session::{Series, Session};

pub(super) use starts::merged;

/// Share of the slowest strategy's capacity that all are offered.
const COMMON: f64 = 0.5;
/// Shares of its own capacity that each is offered. The capacity is probed with limits that deny nothing; what remembers
/// denials can do more than that.
const OWN: [f64; 4] = [0.7, 1.0, 1.4, 2.0];

/// What the comparison does.
#[derive(Clone, Debug)]
pub struct MitigationSettings {
    /// What is compared.
    pub strategies: Vec<Strategy>,
    /// The store that the services share: a program to start, or a `redis://` URL.
    pub store: String,
    /// Services that share it.
    pub services: u32,
    /// Steps of each strategy at the common load.
    pub rounds: u32,
}

impl MitigationSettings {
    /// Steps of one strategy.
    #[must_use]
    pub(crate) fn steps(&self, ladder: &Ladder) -> u32 {
        match ladder {
            Ladder::Fixed(rates) => self.rounds + rates.len() as u32 - 1,
            Ladder::Scaled => self.rounds + OWN.len() as u32,
        }
    }

    /// Rates of one strategy that can do `own_rps`.
    fn rates(&self, ladder: &Ladder, common_rps: f64, own_rps: f64) -> Vec<f64> {
        let mut rates = vec![common_rps; self.rounds as usize];
        match ladder {
            Ladder::Fixed(given) => rates.extend(given.iter().filter(|rate| **rate > common_rps)),
            Ladder::Scaled => rates.extend(OWN.map(|share| (share * own_rps).round().max(1.0))),
        }
        rates
    }
}

impl Session<'_> {
    /// Keeps what the arms run on.
    pub(crate) fn on_fleet(&mut self, record: MitigationsRecord) {
        self.record.mitigations = Some(record);
    }

    /// Offers every strategy the load of `scenario`.
    pub(super) fn mitigations(&mut self, scenario: &KeyPlan, settings: &MitigationSettings) {
        let mut all = self.probe_all(scenario);
        // Later starts repeat the loads of the first one, which begin with the common load.
        let first_of = |series: &Series| self.followed_rates(series.cell)?.first().copied();
        let followed = all.iter().find_map(first_of);
        let Some(common_rps) = followed.or_else(|| self.common_rps(&all)) else {
            return;
        };
        let ladder = self.bed.plan().ladder.clone();
        for series in &mut all {
            let own = self.record.cells[series.cell].probed_capacity_rps;
            let followed = self.followed_rates(series.cell);
            series.rates =
                followed.unwrap_or_else(|| settings.rates(&ladder, common_rps, own.unwrap_or(0.0)));
        }
        let length = scenario.step.unwrap_or(self.bed.plan().step_length(1));
        self.climb(scenario, &all, length);
        let rows: Vec<MitigationRow> = all
            .iter()
            .map(|series| self.row(series, common_rps))
            .collect();
        if let Some(found) = &mut self.record.mitigations {
            found.rows.extend(beside_exact(rows));
        }
    }

    /// The load that all are offered: the lowest rung that was given, else a share of what the slowest can do.
    fn common_rps(&self, all: &[Series]) -> Option<f64> {
        if let Ladder::Fixed(rates) = &self.bed.plan().ladder {
            return rates.iter().copied().min_by(f64::total_cmp);
        }
        let probed = all
            .iter()
            .filter_map(|series| self.record.cells[series.cell].probed_capacity_rps);
        let slowest = probed.min_by(f64::total_cmp)?;
        Some((COMMON * slowest).round().max(1.0))
    }

    fn row(&self, series: &Series, common_rps: f64) -> MitigationRow {
        let cell = &self.record.cells[series.cell];
        let arm = self.bed.target(series.slot).arm();
        let row = MitigationRow {
            target: cell.target.clone(),
            scenario: cell.scenario.name.clone(),
            hot_key: arm.map_or_else(String::new, |arm| arm.strategy.hot_key(arm.services)),
            services: arm.map_or(1, |arm| arm.services),
            seed: arm
                .and_then(|arm| arm.strategy.claimed())
                .map(|(accuracy, gain)| (accuracy.into(), gain.into())),
            ..MitigationRow::default()
        };
        let alone = arm.is_some_and(|arm| arm.strategy == Strategy::Embedded);
        measured(row, cell, common_rps, alone)
    }
}

/// Fills in what the steps of `cell` say. A strategy `alone` asks no store elsewhere.
fn measured(mut row: MitigationRow, cell: &Cell, common_rps: f64, alone: bool) -> MitigationRow {
    let at_common: Vec<&Step> = cell
        .steps
        .iter()
        .filter(|step| step.target_rps == common_rps)
        .collect();
    row.common_rps = common_rps;
    row.rounds = at_common.len() as u32;
    let latency = |pick: fn(&Step) -> Option<f64>| {
        median(
            &at_common
                .iter()
                .filter_map(|step| pick(step))
                .collect::<Vec<f64>>(),
        )
    };
    row.common_p50_us = latency(|step| Some(step.response.all.as_ref()?.p50_us));
    row.common_p99_us = latency(|step| Some(step.response.all.as_ref()?.p99_us));
    let costs: Vec<(f64, f64)> = at_common
        .iter()
        .filter_map(|step| Some((cost(step, Role::Service)?, store_cost(step, alone)?)))
        .collect();
    row.service_cpu_us_per_decision = median(&costs.iter().map(|cost| cost.0).collect::<Vec<_>>());
    row.store_cpu_us_per_decision = median(&costs.iter().map(|cost| cost.1).collect::<Vec<_>>());
    let sums = || costs.iter().map(|(service, store)| service + store);
    row.cpu_us_per_decision_spread = sums()
        .min_by(f64::total_cmp)
        .zip(sums().max_by(f64::total_cmp));
    row.store_questions_per_decision = questions(&at_common, alone);
    let peak = peak(cell);
    row.peak_goodput_rps = peak.map(|step| step.goodput_rps);
    row.validity = validity(&at_common, peak);
    judge(&mut row, cell);
    row
}

fn cost(step: &Step, role: Role) -> Option<f64> {
    let costs: &[RoleCost] = &step.attribution.as_ref()?.cost;
    costs
        .iter()
        .find(|cost| cost.role == role)?
        .cpu_us_per_decision
}

/// The store of a strategy alone is in the service.
fn store_cost(step: &Step, alone: bool) -> Option<f64> {
    match alone {
        true => Some(0.0),
        false => cost(step, Role::Store),
    }
}

/// Calls that the store was sent for each answer.
fn questions(steps: &[&Step], alone: bool) -> Option<f64> {
    let (mut asked, mut answered) = (0, 0);
    for step in steps {
        let store = step
            .attribution
            .as_ref()
            .and_then(|found| found.store.as_ref());
        asked += match alone {
            true => 0,
            false => asked_of(store?),
        };
        answered += step.completed;
    }
    (answered > 0).then(|| asked as f64 / answered as f64)
}

/// Calls that came from outside: scripts, and the commands of rate limits. What a script calls by itself is not one.
fn asked_of(store: &StoreAttribution) -> u64 {
    let from_outside = |used: &&CommandUse| {
        ["eval", "evalsha", "fcall"].contains(&used.name.as_str()) || used.name.starts_with("rl.")
    };
    let calls = store.commands.iter().filter(from_outside);
    calls.map(|used| used.calls).sum()
}

/// The step with the highest goodput. One that was answered while the machine was busy was answered all the same: its
/// grade says what to think of it, and a lower load in its place would say less.
fn peak(cell: &Cell) -> Option<&Step> {
    let steps = cell.steps.iter();
    steps.max_by(|a, b| a.goodput_rps.total_cmp(&b.goodput_rps))
}

fn validity(at_common: &[&Step], peak: Option<&Step>) -> Validity {
    let mut validity = Validity::default();
    let common = Grade::of_several(at_common.iter().map(|step| step.validity.grade));
    if common != Grade::Valid {
        let worst = at_common.iter().max_by_key(|step| step.validity.grade);
        let reasons = worst.map_or_else(String::new, |step| step.validity.reasons.join(", and "));
        validity.lower(common, format!("at the common load: {reasons}"));
    }
    if let Some(peak) = peak.filter(|step| step.validity.grade != Grade::Valid) {
        let reasons = peak.validity.reasons.join(", and ");
        validity.lower(peak.validity.grade, format!("at its peak: {reasons}"));
    }
    validity
}

/// Were its admissions within what it states?
fn judge(row: &mut MitigationRow, cell: &Cell) {
    let (mut over, mut under) = (false, false);
    for found in cell.steps.iter().filter_map(|step| step.accuracy.as_ref()) {
        let (stated_over, stated_under) = found.stated.unwrap_or_default();
        row.admitted += found.admitted;
        row.allowed_max += found.allowed_max;
        row.allowed_min += found.allowed_min;
        row.over_admitted += found.over_admitted;
        row.stated_over += stated_over;
        row.under_admitted += found.under_admitted;
        row.stated_under += stated_under;
        let too_much = found.over_admitted.saturating_sub(stated_over);
        let too_little = found.under_admitted.saturating_sub(stated_under);
        over |= too_much > 0;
        under |= too_little > 0;
        let beyond = (too_much as f64 / found.allowed_max.max(1) as f64)
            .max(too_little as f64 / found.allowed_min.max(1) as f64);
        row.worst_beyond_percent = row.worst_beyond_percent.max(beyond * 100.0);
        row.verdict = ErrorVerdict::Within;
    }
    if over {
        row.verdict = ErrorVerdict::OverBeyond;
    } else if under {
        row.verdict = ErrorVerdict::UnderBeyond;
    }
}

/// Puts every row beside the one that asks the store each time.
fn beside_exact(mut rows: Vec<MitigationRow>) -> Vec<MitigationRow> {
    let exact = Strategy::Exact.to_string();
    let Some(exact) = rows.iter().find(|row| row.target == exact).cloned() else {
        return rows;
    };
    let over = |own: Option<f64>, exact: Option<f64>| Some(own? / exact.filter(|e| *e > 0.0)?);
    for row in &mut rows {
        row.goodput_of_exact = over(row.peak_goodput_rps, exact.peak_goodput_rps);
        row.cpu_of_exact = over(row.cpu_us_per_decision(), exact.cpu_us_per_decision());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::attribution::Attribution;
    use crate::record::{Accuracy, AccuracyInput};

    fn step(rate: f64, goodput: f64, over: u64, under: u64, stated: (u64, u64)) -> Step {
        let mut accuracy = Accuracy::new(AccuracyInput {
            limit: 1_000,
            keys: 1,
            allowed_max: 1_000,
            allowed_min: 1_000,
            admitted: 1_000 + over - under,
            over_admitted: over,
            under_admitted: under,
            ..AccuracyInput::default()
        });
        accuracy.stated = Some(stated);
        let cost = |role, us| RoleCost {
            role,
            cpu_us_per_decision: Some(us),
        };
        let calls = |name: &str, calls| CommandUse {
            name: name.into(),
            calls,
            us_per_call: None,
        };
        Step {
            target_rps: rate,
            completed: 100,
            goodput_rps: goodput,
            accuracy: Some(accuracy),
            attribution: Some(Attribution {
                cost: vec![cost(Role::Service, 8.0), cost(Role::Store, 4.0)],
                store: Some(StoreAttribution {
                    commands: vec![calls("evalsha", 50), calls("incrby", 50), calls("ping", 7)],
                    ..StoreAttribution::default()
                }),
                ..Attribution::default()
            }),
            ..Step::default()
        }
    }

    fn cell(steps: Vec<Step>) -> Cell {
        Cell {
            steps,
            ..Cell::default()
        }
    }

    fn of(steps: Vec<Step>) -> MitigationRow {
        measured(MitigationRow::default(), &cell(steps), 500.0, false)
    }

    #[test]
    fn a_strategy_beyond_its_stated_error_is_found_even_in_one_step() {
        let within = of(vec![
            step(500.0, 500.0, 18, 0, (18, 27)),
            step(900.0, 800.0, 0, 27, (18, 27)),
        ]);
        assert_eq!(within.verdict, ErrorVerdict::Within);
        assert!(within.may_win());
        assert_eq!((within.over_admitted, within.stated_over), (18, 36));
        // The sums would hide it: 19 in one step, none in the other.
        let over = of(vec![
            step(500.0, 500.0, 19, 0, (18, 0)),
            step(900.0, 800.0, 0, 0, (18, 0)),
        ]);
        assert_eq!(over.verdict, ErrorVerdict::OverBeyond);
        assert!(!over.may_win() && over.over_admitted < over.stated_over);
        assert!((over.worst_beyond_percent - 0.1).abs() < 1e-9);
        let under = of(vec![step(500.0, 500.0, 0, 3, (0, 2))]);
        assert_eq!(under.verdict, ErrorVerdict::UnderBeyond);
        assert_eq!(of(Vec::new()).verdict, ErrorVerdict::NotJudged);
    }

    #[test]
    fn costs_are_those_at_the_common_load_and_the_peak_is_that_of_all() {
        let mut spoiled = step(4_000.0, 3_900.0, 0, 0, (0, 0));
        spoiled.validity.lower(Grade::Indicative, "late");
        let row = of(vec![
            step(500.0, 499.0, 0, 0, (0, 0)),
            step(900.0, 850.0, 0, 0, (0, 0)),
            spoiled,
        ]);
        assert_eq!((row.rounds, row.common_rps), (1, 500.0));
        assert_eq!(row.cpu_us_per_decision(), Some(12.0));
        assert_eq!(row.store_questions_per_decision, Some(0.5));
        assert_eq!(row.peak_goodput_rps, Some(3_900.0));
        assert_eq!(row.validity.grade, Grade::Indicative);
        assert_eq!(row.validity.reasons, ["at its peak: late"]);
        let alone = measured(
            MitigationRow::default(),
            &cell(vec![step(500.0, 1.0, 0, 0, (0, 0))]),
            500.0,
            true,
        );
        assert_eq!(alone.cpu_us_per_decision(), Some(8.0));
        assert_eq!(alone.store_questions_per_decision, Some(0.0));
    }

    #[test]
    fn without_the_exact_one_there_is_nothing_to_stand_beside() {
        let row = |name: &str, goodput| MitigationRow {
            target: name.into(),
            peak_goodput_rps: Some(goodput),
            ..MitigationRow::default()
        };
        let both = beside_exact(vec![row("local:25", 300.0), row("exact", 100.0)]);
        assert_eq!(both[0].goodput_of_exact, Some(3.0));
        assert_eq!(both[1].goodput_of_exact, Some(1.0));
        assert_eq!(
            beside_exact(vec![row("local:25", 300.0)])[0].goodput_of_exact,
            None
        );
    }
}
