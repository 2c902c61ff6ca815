//! `bench recovery`: options of the overload run.

use std::time::Duration;

use clap::Args;

use super::args::RunArgs;
use super::capacity::one_scenario;
use super::values;
use crate::record::SearchGoal;
use crate::run::capacity::CapacitySettings;
use crate::run::plan::{KeyPlan, RunPlan};
use crate::run::recovery::{ClientVariant, RecoverySettings};

/// Length of a trial of the search for the knee unless `--step` gives one.
const TRIAL: Duration = Duration::from_millis(500);
/// Trials that decide about a load in it.
const TRIALS: u32 = 3;
/// Most trials of it.
const TRIALS_MAX: u32 = 32;
/// Width of its interval.
const WIDTH: f64 = 0.1;

/// Shortest good stretch that can count: one second may be good by chance.
const GOOD_FOR_MIN: Duration = Duration::from_secs(2);

/// Options of the recovery run.
#[derive(Args, Debug)]
#[command(
    after_help = super::examples::RECOVERY,
    mut_arg("step", |arg| arg.help("Length of a trial of the search for the knee [default: 500ms]")),
    mut_arg("ladder", |arg| arg.help("The range of that search: FROM:TO:STEP, or its ends [default: around the capacity found by a probe]")),
    mut_arg("scenario", |arg| arg.help("Scenarios, as for the main run: single-key, hundred-keys, hundred-keys-hot, attack, noisy-neighbour, quota, cascade (clients try again 0, 1 and 3 times); comma separated [default: hundred-keys]")),
    mut_arg("order", |arg| arg.hide(true)),
    mut_arg("pause", |arg| arg.hide(true)),
)]
pub struct RecoveryArgs {
    /// Lengths before, during and after the overload; the last one at least a second more than --good-for. Meant for a report: 60s,30s,120s
    #[arg(long, value_delimiter = ',', default_value = "4s,4s,16s", value_name = "TIMES", value_parser = values::positive_duration)]
    pub phase: Vec<Duration>,
    /// How long a target must be healthy again to count as recovered
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::positive_duration)]
    pub good_for: Duration,
    /// The load that 0.7 and 1.5 are shares of [default: found by a short search]
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub knee: Option<f64>,
    /// How often clients retry a failed request; each value is a variant. A denial is never retried [default: 0,3; of the scenario cascade 0,1,3]
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", value_parser = clap::value_parser!(u32).range(0..=20))]
    pub retries: Vec<u32>,
    /// Deadlines of one attempt, inf for none; each value is a variant with each number of retries, such as 100ms,1s,inf [default: that of --deadline]
    #[arg(long, value_delimiter = ',', value_name = "TIMES", value_parser = values::deadline)]
    pub deadlines: Vec<values::Deadline>,
    /// Mean wait before the first retry; it doubles with each retry, and is drawn between zero and twice the mean
    #[arg(long, default_value = "50ms", value_parser = values::duration)]
    pub backoff: Duration,
    /// Targets, scenario and load, as for the main run
    #[command(flatten)]
    pub run: RunArgs,
}

impl RecoveryArgs {
    /// Fills in what is different from the main run.
    #[must_use]
    pub(crate) fn with_defaults(mut self) -> RecoveryArgs {
        one_scenario(&mut self.run);
        if self.retries.is_empty() {
            let cascade = self
                .run
                .scenario
                .iter()
                .any(|name| name == KeyPlan::CASCADE);
            self.retries = if cascade { vec![0, 1, 3] } else { vec![0, 3] };
        }
        self
    }

    /// What to do.
    pub(crate) fn settings(&self, plan: &RunPlan) -> Result<RecoverySettings, String> {
        let phases: [Duration; 3] =
            self.phase.clone().try_into().map_err(
                |_| "give three lengths to --phase: before, during and after the overload",
            )?;
        if self.good_for < GOOD_FOR_MIN {
            return Err(format!(
                "--good-for must be at least {}s: a run is judged second by second",
                GOOD_FOR_MIN.as_secs()
            ));
        }
        // The last second may be cut short by answers that end it early.
        let needed = self.good_for + Duration::from_secs(1);
        if phases[2] < needed {
            return Err(format!(
                "the last length of --phase must be at least {}s: a second more than must be good in a row to count as recovered (--good-for)",
                needed.as_secs_f64()
            ));
        }
        let trial = self.run.step.unwrap_or(TRIAL);
        let goal = SearchGoal::named("slo", &plan.profile).ok_or("there is no goal 'slo'")?;
        let search = CapacitySettings {
            goals: vec![SearchGoal {
                exceed_ratio: 0.5,
                final_trial_s: trial.as_secs_f64(),
                duration_sum_s: trial.as_secs_f64() * f64::from(TRIALS),
                width: WIDTH,
                ..goal
            }],
            rough_trial: trial,
            trials_max: TRIALS_MAX as usize,
            budget: trial * TRIALS_MAX,
        };
        let own = [values::Deadline(Some(self.run.deadline))];
        let deadlines = match &self.deadlines[..] {
            [] => &own[..],
            given => given,
        };
        let variant = |deadline: &values::Deadline, retries: &u32| ClientVariant {
            retries: *retries,
            deadline: deadline.0,
        };
        Ok(RecoverySettings {
            phases,
            knee_rps: self.knee,
            search,
            variants: deadlines
                .iter()
                .flat_map(|deadline| {
                    self.retries
                        .iter()
                        .map(move |retries| variant(deadline, retries))
                })
                .collect(),
            backoff: self.backoff,
            good_stretch: self.good_for,
        })
    }
}
