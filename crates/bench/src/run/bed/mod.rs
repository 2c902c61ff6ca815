//! The test bed: targets that are up, the shape of the load, the generator's calibration, console and stop flag.
//!
//! Every job that loads a target does it here, one probe or one step at a time: the ladder, the capacity search,
//! the recovery run. All targets are up at the same time and idle except the one under load.

mod loading;
mod request;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::loading::Loaded;
pub(crate) use self::request::StepRequest;
use super::admit::Offered;
use super::attribution::Observer;
use super::calibrate::gauge;
use super::cell;
use super::console::Console;
use super::fill::{self, Counters, Frame};
use super::plan::RunPlan;
use super::steady::{self, Bucket};
use crate::load::keys::KeySampler;
use crate::load::open::Outcome;
use crate::load::rng::Rng;
use crate::load::samples::Samples;
use crate::record::samples::{About, Kept, SampleFile};
use crate::record::status::classify;
use crate::record::{Admit, Calibration, Gauge, Operation, Step, WarmUp};
use crate::target::service::{WINDOW_S, limits as service_limits};
use crate::target::{Target, Way};

/// What a service without the limits that it is asked for looks like.
const NO_RULES: &str =
    "nothing was denied: does the service have the rules that tollgate bench rules prints?";
/// Longest wait for a broken server's process to show how it ended.
const OBITUARY_WAIT: Duration = Duration::from_millis(300);

/// A target and whether it can still be measured.
struct Slot {
    target: Target,
    given_up: Option<String>,
}

/// Targets that are up, and what is needed to load them.
pub(crate) struct Bed<'a> {
    plan: &'a RunPlan,
    console: &'a mut Console,
    stop: &'a AtomicBool,
    start: Instant,
    slots: Vec<Slot>,
    calibration: Option<Calibration>,
    prefix: String,
    loads_run: u64,
    start_number: u32,
    /// How often each load of each system was run.
    repeated: HashMap<String, u32>,
    /// Where single requests go.
    samples: Option<SampleFile>,
    /// Why they went there no more.
    samples_failed: Option<String>,
}

impl<'a> Bed<'a> {
    /// A bed without targets, for a run that started at `started_unix_s`.
    #[must_use]
    pub(crate) fn new(
        plan: &'a RunPlan,
        console: &'a mut Console,
        stop: &'a AtomicBool,
        started_unix_s: i64,
    ) -> Bed<'a> {
        Bed {
            plan,
            console,
            stop,
            start: Instant::now(),
            slots: Vec::new(),
            calibration: None,
            // Keys of earlier runs may still live in a store that was running before.
            prefix: format!("{}b{:x}.", plan.key_prefix, started_unix_s & 0xff_ffff),
            loads_run: 0,
            start_number: 0,
            repeated: HashMap::new(),
            samples: None,
            samples_failed: None,
        }
    }

    /// What the command line decided.
    #[must_use]
    pub(crate) fn plan(&self) -> &'a RunPlan {
        self.plan
    }

    /// The console.
    pub(crate) fn console(&mut self) -> &mut Console {
        self.console
    }

    /// Whether an interrupt asks the run to end.
    #[must_use]
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Seconds since the run started.
    #[must_use]
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Adds a target that is up; returns its number.
    pub(crate) fn add(&mut self, target: Target) -> usize {
        self.slots.push(Slot {
            target,
            given_up: None,
        });
        self.slots.len() - 1
    }

    /// Makes this the bed of start `number` of several: its keys differ from those of the other starts, and its targets
    /// come in the given order of their numbers so far.
    pub(crate) fn begin_start(&mut self, number: u32, order: &[usize]) {
        self.prefix = format!("{}s{number:02}.", self.prefix);
        self.start_number = number;
        let mut slots: Vec<Option<Slot>> = self.slots.drain(..).map(Some).collect();
        let taken = order.iter().filter_map(|at| slots.get_mut(*at)?.take());
        self.slots = taken.collect();
    }

    /// Number of targets.
    #[must_use]
    pub(crate) fn targets(&self) -> usize {
        self.slots.len()
    }

    /// A target by its number, which must come from [`Bed::add`].
    #[must_use]
    pub(crate) fn target(&self, slot: usize) -> &Target {
        &self.slots[slot].target
    }

    /// Why a target is not measured any more; `None` as long as it is.
    #[must_use]
    pub(crate) fn given_up(&self, slot: usize) -> Option<&str> {
        self.slots[slot].given_up.as_deref()
    }

    /// Measures a target no more, because of `why`. Returns the reason with how its process ended, if it did.
    pub(crate) fn give_up(&mut self, slot: usize, why: &str) -> String {
        let asked = Instant::now();
        let mut obituary = None;
        while obituary.is_none() && asked.elapsed() < OBITUARY_WAIT {
            obituary = self.slots[slot].target.obituary();
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = match obituary {
            Some(obituary) => format!("{why}; {obituary}"),
            None => why.to_owned(),
        };
        self.slots[slot].given_up = Some(text.clone());
        text
    }

    /// Starts a target anew that was started here; `None` if it was not.
    pub(crate) fn restart(&mut self, slot: usize) -> Option<Result<(), String>> {
        self.slots[slot].target.restart()
    }

    /// Takes the keys of the run out of stores that were running before. Gives what may have stayed where.
    pub(crate) fn leave(&self) -> Vec<(String, String)> {
        let up = self.slots.iter().filter(|slot| slot.given_up.is_none());
        let left = up.filter_map(|slot| {
            let why = slot.target.leave(&self.prefix, self.plan.window_s).err()?;
            let text = format!(
                "keys that begin with {} may still be there: {why}",
                self.prefix
            );
            Some((slot.target.record().name.clone(), text))
        });
        left.collect()
    }

    /// Reasons of all targets that were given up.
    pub(crate) fn obituaries(&self) -> impl Iterator<Item = &str> {
        self.slots
            .iter()
            .filter_map(|slot| slot.given_up.as_deref())
    }

    /// Keeps what the generator can do, for the headroom of the steps.
    pub(crate) fn calibrated(&mut self, calibration: Calibration) {
        self.calibration = Some(calibration);
    }

    /// Keeps single requests of the steps in `file`, as the plan says.
    pub(crate) fn keep_samples(&mut self, file: SampleFile) {
        self.samples = Some(file);
    }

    /// Why single requests are kept no more, once.
    pub(crate) fn take_samples_error(&mut self) -> Option<String> {
        self.samples_failed.take()
    }

    /// One request in so many of `request` is to be kept; `None` for none.
    fn sample_every(&self, request: &StepRequest<'_>) -> Option<u64> {
        let sampling = self.plan.sampling.filter(|_| self.samples.is_some())?;
        let rate = match self.plan.is_closed() {
            // The rungs are connections; what they will ask is not known.
            true => loading::OVERLOAD_RATE,
            false => request.mean_rps(),
        };
        Some(sampling.every((rate * request.whole_length().as_secs_f64()) as u64))
    }

    /// Writes the samples of a step.
    fn write_samples(
        &mut self,
        request: &StepRequest<'_>,
        operation: &Operation,
        samples: &Samples,
        offset_s: f64,
    ) -> Option<Kept> {
        let file = self.samples.as_ref()?;
        let deadline = request.deadline.unwrap_or(self.plan.deadline);
        let about = About {
            target: self.slots[request.slot].target.record().name.clone(),
            scenario: request.scenario.name.clone(),
            operation: operation.name.clone(),
            target_rps: request.rate_rps,
            start: self.start_number + 1,
            offset_s,
            deadline_ms: deadline.as_secs_f64() * 1e3,
            kept: samples.counts(),
        };
        match file.append(&about, samples.bytes()) {
            Ok(true) => Some(about.kept),
            Ok(false) => None,
            Err(error) => {
                self.samples_failed = Some(format!("no more samples are kept: {error}"));
                None
            }
        }
    }

    /// Asks the null server for a moment, while the targets are idle.
    pub(crate) fn gauge(&mut self) -> Result<Gauge, String> {
        let plan = self.plan;
        gauge(
            (plan.connections, plan.depth),
            (plan.generator_core, plan.target_core),
            self.elapsed_s(),
            self.console,
            self.stop,
        )
    }

    /// Silence of the plan's length between steps; an interrupt ends it.
    pub(crate) fn pause(&self) {
        self.rest(self.plan.pause);
    }

    /// Silence of `length`; an interrupt ends it.
    pub(crate) fn rest(&self, length: Duration) {
        let end = Instant::now() + length;
        while Instant::now() < end && !self.stopped() {
            std::thread::sleep(Duration::from_millis(20).min(length));
        }
    }

    /// Window of the limits in seconds: a service has its own rules.
    fn window_s(&self, way: Way) -> u64 {
        if way.is_service() {
            WINDOW_S
        } else {
            self.plan.window_s
        }
    }

    fn next_prefix(&mut self) -> String {
        self.loads_run += 1;
        format!("{}{}:", self.prefix, self.loads_run)
    }

    /// Runs warm-up and measured part of a step and fills its row; the status is that of the row by itself. Fails if
    /// the target cannot be reached at all.
    pub(crate) fn step(&mut self, request: &StepRequest<'_>) -> Result<(Step, Outcome), String> {
        let seed = self.next_seed(request);
        let request = &StepRequest {
            seed,
            ..request.clone()
        };
        let warm_up = self.warm(request)?;
        let admit = self.admit(request);
        let request = &StepRequest {
            limit: request.limit.or(admit.map(|admit| admit.limit)),
            ..request.clone()
        };
        let (mut step, mut outcome) = self.measure(request)?;
        if request.way.is_service() {
            step.failures.of_a_service();
        }
        if let Err(why) = self.slots[request.slot].target.tidy() {
            outcome.cut_short.get_or_insert(why);
        }
        if let Some(warm_up) = warm_up.as_ref().filter(|warm_up| !warm_up.steady) {
            step.notes.push(format!(
                "not steady after a warm-up of {:.1} s: {}",
                warm_up.duration_s, warm_up.reason
            ));
        }
        step.warm_up = warm_up;
        if let Some(admit) = admit {
            keep_admit(&mut step, admit);
        }
        step.connections = request.connections;
        classify(&self.plan.profile, std::slice::from_mut(&mut step), &[]);
        if let Some(why) = &outcome.cut_short {
            step.notes.push(format!(
                "ended {:.1} s into the step: {why}",
                outcome.elapsed_ns as f64 / 1e9
            ));
        }
        Ok((step, outcome))
    }

    /// Loads the target before the measured part: until it is steady if the plan wants that, else as long as asked.
    fn warm(&mut self, request: &StepRequest<'_>) -> Result<Option<WarmUp>, String> {
        if let Some(longest) = self.plan.steady {
            return self.warm_until_steady(request, longest).map(Some);
        }
        if !request.warmup.is_zero() {
            self.load(request, request.warmup, &[])?;
        }
        Ok(None)
    }

    /// Runs the measured part under observation and fills the row with what it brought.
    fn measure(&mut self, request: &StepRequest<'_>) -> Result<(Step, Outcome), String> {
        let mut ready = self.ready(request, request.length, request.later)?;
        if let Some(every) = self.sample_every(request) {
            ready.keep_samples(every);
        }
        let target = &self.slots[request.slot].target;
        let same_clock = target.record().co_located;
        let (pids, operation) = (
            target.pids(),
            cell::operation(self.plan, target, request.way),
        );
        let watching = &self.plan.watching;
        let observer = Observer::start(target, watching, request.whole_length());
        let (offset_s, before) = (self.elapsed_s(), Counters::read(&pids));
        let Loaded {
            mut outcome,
            rule,
            prefix,
        } = self.fire(request, ready, observer.pids())?;
        let samples = outcome.tally.samples.take();
        let asked = cell::Asked {
            way: request.way,
            rule,
            same_clock,
            prefix: &prefix,
        };
        let mut accuracy = cell::accuracy(request.scenario, &operation, &asked, &outcome.tally);
        let arm = self.slots[request.slot].target.arm();
        if let Some((accuracy, arm)) = accuracy.as_mut().zip(arm) {
            let stated = arm.stated(rule.limit, &outcome.tally.keys);
            accuracy.stated = Some((stated.over, stated.under));
        }
        let frame = Frame {
            rate: self.offered_rps(request, &outcome),
            offset_s,
            length: request.whole_length(),
            before,
            after: Counters::read(&pids),
            pids: &pids,
            ceiling_rps: self.ceiling_rps(request.way),
            accuracy,
            outcome: &outcome,
        };
        let mut step = fill::step(frame)?;
        let target = &self.slots[request.slot].target;
        step.attribution = observer.finish(target, watching, &step, &outcome);
        fill::busiest_thread(&mut step, &pids);
        step.samples =
            samples.and_then(|samples| self.write_samples(request, &operation, &samples, offset_s));
        let target = &self.slots[request.slot].target;
        let over = step
            .accuracy
            .as_ref()
            .is_some_and(|found| found.over_admitted > 0);
        let foreign = request.way.is_service() && !target.record().started_by_bench;
        if foreign && over && step.denied == 0 {
            step.notes.push(NO_RULES.into());
        }
        Ok((step, outcome))
    }

    /// Offered requests per second. In a closed loop that is what the answers made room for.
    fn offered_rps(&self, request: &StepRequest<'_>, outcome: &Outcome) -> f64 {
        if self.plan.is_closed() {
            outcome.tally.planned as f64 / request.whole_length().as_secs_f64().max(1e-9)
        } else {
            request.mean_rps()
        }
    }

    /// Calibrated ceiling of the generator; `None` for services, as it was measured with RESP.
    fn ceiling_rps(&self, way: Way) -> Option<f64> {
        self.calibration
            .as_ref()
            .map(|found| found.ceiling_rps)
            .filter(|_| !way.is_service())
    }

    /// The limit that admits the scenario's share of what the step offers; `None` where it has none, or the request
    /// has a limit of its own.
    fn admit(&self, request: &StepRequest<'_>) -> Option<Admit> {
        let scenario = request.scenario;
        let ratio = scenario.admit.filter(|_| request.limit.is_none())?;
        let draws = (request.mean_rps() * request.whole_length().as_secs_f64()).round() as u64;
        let sampler = KeySampler::new(scenario.spreading, scenario.keys, request.seed);
        let counts = sampler.counts(draws);
        let target = &self.slots[request.slot].target;
        let operation = cell::operation(self.plan, target, request.way);
        let offered = Offered {
            counts: &counts,
            length: request.whole_length(),
            window_s: self.window_s(request.way),
            algorithm: &operation.algorithm,
        };
        let least = target.limit_min();
        let limits: Vec<u64> = service_limits().filter(|limit| *limit >= least).collect();
        let among = request.way.is_service().then_some(limits.as_slice());
        Some(offered.limit(ratio, among))
    }

    /// Seed of a step. Every rate has its own schedule, and so has every repetition of it in a run and every start: what
    /// one schedule does by chance must not look like a property of the system. All systems get the same one at the same
    /// repetition of a rate.
    fn next_seed(&mut self, request: &StepRequest<'_>) -> u64 {
        let rate = request.rate_rps.to_bits();
        let scenario = &request.scenario.name;
        let load = format!("{} {:?} {rate} {scenario}", request.slot, request.way);
        let repeated = self.repeated.entry(load).or_default();
        *repeated += u32::from(!request.again);
        let before = repeated.saturating_sub(1);
        let repetition = (u64::from(self.start_number) << 32) | u64::from(before);
        let own = match repetition {
            0 => 0,
            repetition => Rng::new(repetition).next_u64(),
        };
        self.plan.seed ^ rate.rotate_left(17) ^ own
    }

    /// Loads the target bucket by bucket until throughput and P50 are steady, `longest` is over, or it fails.
    fn warm_until_steady(
        &mut self,
        request: &StepRequest<'_>,
        longest: Duration,
    ) -> Result<WarmUp, String> {
        let length = steady::bucket_length(longest);
        let most = longest.as_nanos() / length.as_nanos();
        let (start, mut buckets) = (Instant::now(), Vec::new());
        let mut verdict = Err("interrupted".to_owned());
        while (buckets.len() as u128) < most && !self.stopped() {
            let outcome = self.load(request, length, &[])?.outcome;
            let tally = &outcome.tally;
            buckets.push(Bucket {
                throughput_rps: (tally.allowed + tally.denied) as f64 / length.as_secs_f64(),
                p50_us: tally.response().value_at_quantile(0.5) as f64 / 1e3,
            });
            verdict = match outcome.cut_short {
                Some(why) => Err(why),
                None => steady::judge(&buckets),
            };
            if verdict.is_ok() || tally.completed == 0 {
                break;
            }
        }
        Ok(WarmUp {
            duration_s: start.elapsed().as_secs_f64(),
            buckets: buckets.len() as u32,
            bucket_s: length.as_secs_f64(),
            steady: verdict.is_ok(),
            reason: verdict.err().unwrap_or_default(),
        })
    }
}

/// Keeps the limit that was chosen for a share of admitted load, with the share that was seen.
fn keep_admit(step: &mut Step, admit: Admit) {
    let seen_ratio = step.admit_ratio();
    let seen = seen_ratio.map_or_else(|| "nothing decided".into(), |r| format!("{r:.3} seen"));
    step.notes.push(format!(
        "limit {}: {:.3} of the offered load expected to be admitted, {seen}",
        admit.limit, admit.expected_ratio
    ));
    step.admit = Some(Admit {
        seen_ratio,
        ..admit
    });
}
