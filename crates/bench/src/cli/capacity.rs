//! `bench capacity`: options of the search.

use std::time::Duration;

use clap::Args;

use super::args::RunArgs;
use super::values;
use crate::record::SearchGoal;
use crate::run::capacity::CapacitySettings;
use crate::run::plan::RunPlan;

/// Length of a full trial unless `--step` gives one.
const TRIAL: Duration = Duration::from_secs(1);
/// Rough trials in parts of a full one.
const ROUGH_PARTS: u32 = 2;
/// Scenario that is searched unless one is given.
const SCENARIO: &str = "hundred-keys";

/// Options of the capacity search.
#[derive(Args, Debug)]
#[command(
    after_help = super::examples::CAPACITY,
    mut_arg("step", |arg| arg.help("Length of a full trial, such as 60s [default: 1s]")),
    mut_arg("ladder", |arg| arg.help("The range to search: FROM:TO:STEP, or its ends [default: around the capacity found by a probe]")),
    mut_arg("scenario", |arg| arg.help("Scenarios, as for the main run: single-key, hundred-keys, hundred-keys-hot, attack, noisy-neighbour, quota; comma separated [default: hundred-keys]")),
    mut_arg("order", |arg| arg.hide(true)),
    mut_arg("pause", |arg| arg.hide(true)),
    mut_arg("starts", |arg| arg.help("Fresh starts of every target, in the order A B B A, each with a search of its own: the load held is their median; 5 or more for a claim")),
)]
pub struct CapacityArgs {
    /// What a load must keep to count as held: slo (nothing Critical), good (everything Good), pdr (at most 0.1 % failed), ndr (none failed); comma separated, the first decides the zones
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "slo",
        value_name = "NAMES"
    )]
    pub goals: Vec<String>,
    /// Width of the interval at which the search ends, in percent of its upper bound
    #[arg(long, default_value_t = 5.0, value_parser = values::width_percent)]
    pub width: f64,
    /// Trials that decide about a load
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub trials: u32,
    /// Share of these trials that may miss the goal, from 0 to below 1
    #[arg(long, default_value_t = 0.5, value_parser = values::exceed_ratio)]
    pub exceed_ratio: f64,
    /// Most trials of one search
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_trials: u32,
    /// Most time of load in one search [default: as long as all its trials at full length]
    #[arg(long, value_parser = values::positive_duration)]
    pub budget: Option<Duration>,
    /// Targets, scenario and load. --step is the length of a full trial [default here: 1s], --ladder FROM:TO:STEP the range to search, --scenario [default here: hundred-keys]
    #[command(flatten)]
    pub run: RunArgs,
}

impl CapacityArgs {
    /// Fills in what is different from the main run.
    #[must_use]
    pub(crate) fn with_defaults(mut self) -> CapacityArgs {
        one_scenario(&mut self.run);
        self
    }

    /// What to search for.
    pub(crate) fn settings(&self, plan: &RunPlan) -> Result<CapacitySettings, String> {
        let trial = self.run.step.unwrap_or(TRIAL);
        let goal = |name: &String| {
            let goal = SearchGoal::named(name, &plan.profile).ok_or_else(|| {
                let names = SearchGoal::NAMES.join(", ");
                format!("'{name}' is not a goal: give {names}")
            })?;
            Ok::<_, String>(SearchGoal {
                exceed_ratio: self.exceed_ratio,
                final_trial_s: trial.as_secs_f64(),
                duration_sum_s: trial.as_secs_f64() * f64::from(self.trials),
                width: self.width / 100.0,
                ..goal
            })
        };
        Ok(CapacitySettings {
            goals: self.goals.iter().map(goal).collect::<Result<_, _>>()?,
            rough_trial: trial / ROUGH_PARTS,
            trials_max: self.max_trials as usize,
            budget: self.budget.unwrap_or(trial * self.max_trials),
        })
    }
}

/// A job with many loads takes one scenario unless told otherwise.
pub(super) fn one_scenario(run: &mut RunArgs) {
    if run.scenario.is_empty() && run.keys.is_none() && run.dist.is_none() {
        run.scenario = vec![SCENARIO.into()];
    }
}
