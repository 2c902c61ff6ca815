//! What a step is to do.

use std::time::Duration;

use super::Bed;
use crate::load::clients::RetryPolicy;
use crate::run::plan::KeyPlan;
use crate::target::Way;

/// One step that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct StepRequest<'a> {
    /// Number of the target, as [`Bed::add`] gave it.
    pub slot: usize,
    /// How it is asked.
    pub way: Way,
    /// Keys and their distribution.
    pub scenario: &'a KeyPlan,
    /// Offered load, requests per second.
    pub rate_rps: f64,
    /// Length of the measured part.
    pub length: Duration,
    /// Load before the measured part that is not counted; zero for none.
    pub warmup: Duration,
    /// Limit per key and window. `None` takes one near half of what the most wanted key is offered, so that both
    /// answers occur. A service has rules only for [`crate::target::service::limits`].
    pub limit: Option<u64>,
    /// Answers later than this are failures; `None` takes the plan's deadline.
    pub deadline: Option<Duration>,
    /// Connections; `None` takes the plan's number.
    pub connections: Option<u32>,
    /// Parts that follow the first within the same step, each requests per second and a length.
    pub later: &'a [(f64, Duration)],
    /// What clients do about failures; `None` takes them as they come.
    pub clients: Option<RetryPolicy>,
    /// Whether it takes the place of the step before, which the machine spoiled: then it has the same schedule.
    pub again: bool,
    /// Seed of the schedule and of the key choice.
    pub(super) seed: u64,
}

impl StepRequest<'_> {
    /// Length of all parts.
    pub(super) fn whole_length(&self) -> Duration {
        self.length
            + self
                .later
                .iter()
                .map(|(_, length)| *length)
                .sum::<Duration>()
    }

    /// Requests per second over all parts.
    pub(super) fn mean_rps(&self) -> f64 {
        let first = self.rate_rps * self.length.as_secs_f64();
        let parts = self.later.iter();
        let all = first
            + parts
                .map(|(rate, length)| rate * length.as_secs_f64())
                .sum::<f64>();
        match self.later {
            [] => self.rate_rps,
            _ => all / self.whole_length().as_secs_f64().max(f64::MIN_POSITIVE),
        }
    }
}

impl<'a> StepRequest<'a> {
    /// A step of `length` at `rate_rps` with the warm-up, limits and deadline of `bed`'s plan.
    #[must_use]
    pub(crate) fn new(
        bed: &Bed<'_>,
        slot: usize,
        way: Way,
        scenario: &'a KeyPlan,
        rate_rps: f64,
        length: Duration,
    ) -> StepRequest<'a> {
        StepRequest {
            slot,
            way,
            scenario,
            rate_rps,
            length,
            warmup: bed.plan.warmup,
            limit: None,
            deadline: None,
            connections: None,
            later: &[],
            clients: None,
            again: false,
            seed: bed.plan.seed,
        }
    }
}
