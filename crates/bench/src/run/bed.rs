//! The test bed: targets that are up, the shape of the load, the generator's calibration, console and stop flag.
//!
//! Every job that loads a target does it here, one probe or one step at a time: the ladder, the capacity search,
//! the recovery run. All targets are up at the same time and idle except the one under load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::admit::Offered;
use super::attribution::Observer;
use super::cell;
use super::console::Console;
use super::fill::{self, Counters, Frame};
use super::plan::{KeyPlan, RunPlan, limit_for};
use super::steady::{self, Bucket};
use super::thread::generate;
use crate::load::address::Endpoint;
use crate::load::clients::RetryPolicy;
use crate::load::closed::{Drawn, InTurn, Pool};
use crate::load::keys::KeySampler;
use crate::load::live::Live;
use crate::load::open::{self, Outcome, Plan};
use crate::load::open_loop::Bounds;
use crate::load::schedule::Arrivals;
use crate::load::workload::{Ask, Rule, Workload};
use crate::record::status::classify;
use crate::record::{Admit, Calibration, Step, WarmUp};
use crate::target::service::{WINDOW_S, limits as service_limits};
use crate::target::{Target, Way};

/// Length of a capacity probe.
const PROBE: Duration = Duration::from_millis(500);
/// Load of a probe that cannot keep pipelines full by itself.
const OVERLOAD_RATE: f64 = 500_000.0;
/// Limit in a probe: everything is allowed, the dearer answer.
const PROBE_LIMIT: u64 = 50_000_000;
/// Requests written at once while keys are filled.
const FILL_DEPTH: usize = 16;
/// Longest wait for a broken server's process to show how it ended.
const OBITUARY_WAIT: Duration = Duration::from_millis(300);

/// A target and whether it can still be measured.
struct Slot {
    target: Target,
    given_up: Option<String>,
}

/// One step that is wanted.
#[derive(Clone, Debug)]
pub struct StepRequest<'a> {
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
}

impl StepRequest<'_> {
    /// Length of all parts.
    fn whole_length(&self) -> Duration {
        self.length
            + self
                .later
                .iter()
                .map(|(_, length)| *length)
                .sum::<Duration>()
    }

    /// Requests per second over all parts.
    fn mean_rps(&self) -> f64 {
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
    pub fn new(
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
        }
    }
}

/// What one load brought, under which rule and with which key prefix.
struct Loaded {
    outcome: Outcome,
    rule: Rule,
    prefix: String,
}

/// Targets that are up, and what is needed to load them.
pub struct Bed<'a> {
    plan: &'a RunPlan,
    console: &'a mut Console,
    stop: &'a AtomicBool,
    start: Instant,
    slots: Vec<Slot>,
    calibration: Option<Calibration>,
    prefix: String,
    loads_run: u64,
}

impl<'a> Bed<'a> {
    /// A bed without targets, for a run that started at `started_unix_s`.
    #[must_use]
    pub fn new(
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
        }
    }

    /// What the command line decided.
    #[must_use]
    pub fn plan(&self) -> &'a RunPlan {
        self.plan
    }

    /// The console.
    pub fn console(&mut self) -> &mut Console {
        self.console
    }

    /// Whether an interrupt asks the run to end.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Seconds since the run started.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Adds a target that is up; returns its number.
    pub fn add(&mut self, target: Target) -> usize {
        self.slots.push(Slot {
            target,
            given_up: None,
        });
        self.slots.len() - 1
    }

    /// Makes this the bed of start `number` of several: its keys differ from those of the other starts, and its targets
    /// come in the given order of their numbers so far.
    pub fn begin_start(&mut self, number: u32, order: &[usize]) {
        self.prefix = format!("{}s{number:02}.", self.prefix);
        let mut slots: Vec<Option<Slot>> = self.slots.drain(..).map(Some).collect();
        let taken = order.iter().filter_map(|at| slots.get_mut(*at)?.take());
        self.slots = taken.collect();
    }

    /// Number of targets.
    #[must_use]
    pub fn targets(&self) -> usize {
        self.slots.len()
    }

    /// A target by its number, which must come from [`Bed::add`].
    #[must_use]
    pub fn target(&self, slot: usize) -> &Target {
        &self.slots[slot].target
    }

    /// Why a target is not measured any more; `None` as long as it is.
    #[must_use]
    pub fn given_up(&self, slot: usize) -> Option<&str> {
        self.slots[slot].given_up.as_deref()
    }

    /// Measures a target no more, because of `why`. Returns the reason with how its process ended, if it did.
    pub fn give_up(&mut self, slot: usize, why: &str) -> String {
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

    /// Reasons of all targets that were given up.
    pub fn obituaries(&self) -> impl Iterator<Item = &str> {
        self.slots
            .iter()
            .filter_map(|slot| slot.given_up.as_deref())
    }

    /// Keeps what the generator can do, for the headroom of the steps.
    pub fn calibrated(&mut self, calibration: Calibration) {
        self.calibration = Some(calibration);
    }

    /// Silence of the plan's length between steps; an interrupt ends it.
    pub fn pause(&self) {
        self.rest(self.plan.pause);
    }

    /// Silence of `length`; an interrupt ends it.
    pub fn rest(&self, length: Duration) {
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

    /// Finds a rough capacity in answers per second: full pipelines for half a second.
    pub fn probe(&mut self, slot: usize, way: Way, scenario: &KeyPlan) -> Result<f64, String> {
        let prefix = self.next_prefix();
        let target = &self.slots[slot].target;
        self.console.phase(format!(
            "{} · {} · finding the capacity",
            scenario.title,
            cell::describe(target, way)
        ));
        let bounds = self.plan.bounds(way);
        let sampler = KeySampler::new(scenario.spreading, scenario.keys, self.plan.seed);
        let (keys, stop, core) = (scenario.keys, self.stop, self.plan.generator_core);
        let rule = Rule {
            limit: PROBE_LIMIT,
            window_s: self.window_s(way),
        };
        cell::check_keys(target.ask(way, rule).as_ref(), keys)?;
        let slice = match target.ask(way, rule) {
            Some(ask) => generate(core, &Live::default(), PROBE, self.console, || {
                let workload = Workload::render(&ask, &prefix, keys);
                let framing = workload.framing();
                let mut pool = Pool::speaking(framing, target.endpoint(), bounds.connections)
                    .map_err(|error| format!("cannot connect: {error}"))?;
                fill_in(&ask, &prefix, keys, &mut pool, stop)?;
                let slice = pool.run(
                    &mut Drawn {
                        workload: &workload,
                        sampler,
                    },
                    bounds.depth,
                    PROBE.as_nanos() as u64,
                    stop,
                )?;
                match slice.first_error {
                    Some(text) => Err(format!("the server answered: {text}")),
                    None => Ok(slice.rate()),
                }
            }),
            None => {
                let Target::Service(service) = target else {
                    return Err("it cannot be asked in this way".into());
                };
                let calls = service.calls(rule, &prefix, keys);
                let plan = overload(scenario, bounds, self.plan.seed);
                let live = Live::default();
                generate(core, &live, PROBE * 2, self.console, || {
                    open::run_grpc(&plan, &calls, target.endpoint(), stop, &live)
                })
                .and_then(saturated_rate)
            }
        };
        match slice {
            Ok(rate) if rate < 1.0 => Err("no answers".into()),
            other => other,
        }
    }

    /// Runs warm-up and measured part of a step and fills its row; the status is that of the row by itself. Fails if
    /// the target cannot be reached at all.
    pub fn step(&mut self, request: &StepRequest<'_>) -> Result<(Step, Outcome), String> {
        let mut warm_up = None;
        if let Some(longest) = self.plan.steady {
            warm_up = Some(self.warm_until_steady(request, longest)?);
        } else if !request.warmup.is_zero() {
            self.load(request, request.warmup, &[])?;
        }
        let admit = self.admit(request);
        let request = &StepRequest {
            limit: request.limit.or(admit.map(|admit| admit.limit)),
            ..request.clone()
        };
        let target = &self.slots[request.slot].target;
        let same_clock = target.record().co_located;
        let (pid, operation) = (
            target.pid(),
            cell::operation(self.plan, target, request.way),
        );
        let watching = &self.plan.watching;
        let observer = Observer::start(target, watching, request.whole_length());
        let (offset_s, before) = (self.elapsed_s(), Counters::read(pid));
        let Loaded {
            outcome,
            rule,
            prefix,
        } = self.load(request, request.length, request.later)?;
        let asked = cell::Asked {
            way: request.way,
            rule,
            same_clock,
            prefix: &prefix,
        };
        let frame = Frame {
            rate: match self.plan.is_closed() {
                // What was offered is what the answers made room for.
                true => {
                    outcome.tally.planned as f64 / request.whole_length().as_secs_f64().max(1e-9)
                }
                false => request.mean_rps(),
            },
            offset_s,
            length: request.whole_length(),
            before,
            after: Counters::read(pid),
            pid,
            // The ceiling was measured with RESP.
            ceiling_rps: self
                .calibration
                .as_ref()
                .map(|found| found.ceiling_rps)
                .filter(|_| !request.way.is_service()),
            accuracy: cell::accuracy(request.scenario, &operation, &asked, &outcome.tally),
            outcome: &outcome,
        };
        let mut step = fill::step(frame)?;
        let target = &self.slots[request.slot].target;
        step.attribution = observer.finish(target, watching, &step);
        fill::busiest_thread(&mut step, pid);
        if let Some(warm_up) = warm_up.as_ref().filter(|warm_up| !warm_up.steady) {
            step.notes.push(format!(
                "not steady after a warm-up of {:.1} s: {}",
                warm_up.duration_s, warm_up.reason
            ));
        }
        step.warm_up = warm_up;
        if let Some(admit) = admit {
            let seen_ratio = step.admit_ratio();
            let seen =
                seen_ratio.map_or_else(|| "nothing decided".into(), |r| format!("{r:.3} seen"));
            step.notes.push(format!(
                "limit {}: {:.3} of the offered load expected to be admitted, {seen}",
                admit.limit, admit.expected_ratio
            ));
            step.admit = Some(Admit {
                seen_ratio,
                ..admit
            });
        }
        step.connections = request.connections;
        classify(&self.plan.profile, std::slice::from_mut(&mut step));
        if let Some(why) = &outcome.cut_short {
            step.notes.push(format!(
                "ended {:.1} s into the step: {why}",
                outcome.elapsed_ns as f64 / 1e9
            ));
        }
        Ok((step, outcome))
    }

    /// The limit that admits the scenario's share of what the step offers; `None` where it has none, or the request
    /// has a limit of its own.
    fn admit(&self, request: &StepRequest<'_>) -> Option<Admit> {
        let (scenario, rate) = (request.scenario, request.rate_rps);
        let ratio = scenario.admit.filter(|_| request.limit.is_none())?;
        let draws = (request.mean_rps() * request.whole_length().as_secs_f64()).round() as u64;
        let sampler = KeySampler::new(scenario.spreading, scenario.keys, self.seed(rate));
        let counts = sampler.counts(draws);
        let target = &self.slots[request.slot].target;
        let operation = cell::operation(self.plan, target, request.way);
        let offered = Offered {
            counts: &counts,
            length: request.whole_length(),
            window_s: self.window_s(request.way),
            algorithm: &operation.algorithm,
        };
        let limits: Vec<u64> = service_limits().collect();
        let among = request.way.is_service().then_some(limits.as_slice());
        Some(offered.limit(ratio, among))
    }

    /// Seed of a step: every rate has its own schedule, and all systems get the same one at the same rung.
    fn seed(&self, rate: f64) -> u64 {
        self.plan.seed ^ rate.to_bits().rotate_left(17)
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

    /// Runs one load: a part of `length` at the request's rate, and those that follow.
    fn load(
        &mut self,
        request: &StepRequest<'_>,
        first: Duration,
        later: &[(f64, Duration)],
    ) -> Result<Loaded, String> {
        let prefix = self.next_prefix();
        let (scenario, rate) = (request.scenario, request.rate_rps);
        let length = first + later.iter().map(|(_, length)| *length).sum::<Duration>();
        let limit = request.limit.unwrap_or_else(|| {
            let mean = if later.is_empty() {
                rate
            } else {
                request.mean_rps()
            };
            let draws = (mean * length.as_secs_f64()) as u64;
            let top = scenario
                .spreading
                .top_share_of(scenario.keys, draws, self.seed(rate));
            // Both answers must occur in every window, not only over a step of several.
            let window = Duration::from_secs(self.window_s(request.way));
            limit_for(mean, length.min(window), top)
        });
        let rule = Rule {
            limit,
            window_s: self.window_s(request.way),
        };
        let mut bounds = self.plan.bounds(request.way);
        if let Some(deadline) = request.deadline {
            bounds.deadline_ns = deadline.as_nanos() as u64;
        }
        if let Some(connections) = request.connections {
            bounds.connections = connections as usize;
        }
        let plan = Plan {
            arrivals: self.plan.arrivals,
            rate,
            length_ns: first.as_nanos() as u64,
            spreading: scenario.spreading,
            seed: self.seed(rate),
            bounds,
            later: later
                .iter()
                .map(|(rate, length)| (*rate, length.as_nanos() as u64))
                .collect(),
            clients: request.clients,
        };
        let (target, keys, stop) = (&self.slots[request.slot].target, scenario.keys, self.stop);
        cell::check_keys(target.ask(request.way, rule).as_ref(), keys)?;
        let (core, live) = (self.plan.generator_core, Live::default());
        let outcome = match (target, target.ask(request.way, rule)) {
            (_, Some(ask)) => generate(core, &live, length, self.console, || {
                let workload = Workload::render(&ask, &prefix, keys);
                prepare(&ask, &prefix, keys, target.endpoint(), stop)?;
                open::run(&plan, &workload, target.endpoint(), stop, &live)
            }),
            (Target::Service(service), None) => {
                let calls = service.calls(rule, &prefix, keys);
                generate(core, &live, length, self.console, || {
                    open::run_grpc(&plan, &calls, target.endpoint(), stop, &live)
                })
            }
            (Target::Store(_) | Target::Memcached(_), None) => {
                Err("it cannot be asked in this way".into())
            }
        };
        outcome.map(|outcome| Loaded {
            outcome,
            rule,
            prefix,
        })
    }
}

/// Writes what `ask` reads, over connections of its own.
fn prepare(
    ask: &Ask,
    prefix: &str,
    keys: u32,
    endpoint: &Endpoint,
    stop: &AtomicBool,
) -> Result<(), String> {
    if Workload::filling_for(ask, prefix, keys.min(1)).is_none() {
        return Ok(());
    }
    let framing = Workload::render(ask, prefix, 0).framing();
    let mut pool =
        Pool::speaking(framing, endpoint, 1).map_err(|error| format!("cannot connect: {error}"))?;
    fill_in(ask, prefix, keys, &mut pool, stop)
}

/// Writes what `ask` reads.
fn fill_in(
    ask: &Ask,
    prefix: &str,
    keys: u32,
    pool: &mut Pool,
    stop: &AtomicBool,
) -> Result<(), String> {
    let Some(filling) = Workload::filling_for(ask, prefix, keys) else {
        return Ok(());
    };
    let filled = pool.run(&mut InTurn::new(&filling), FILL_DEPTH, u64::MAX / 2, stop)?;
    match filled.first_error {
        Some(text) => Err(format!(
            "the keys cannot be filled: the server answered: {text}"
        )),
        None => Ok(()),
    }
}

/// More than any service answers, for as long as a probe takes: every stream is busy all the time.
fn overload(scenario: &KeyPlan, bounds: Bounds, seed: u64) -> Plan {
    Plan {
        arrivals: Arrivals::Constant,
        rate: OVERLOAD_RATE,
        length_ns: PROBE.as_nanos() as u64,
        spreading: scenario.spreading,
        seed,
        bounds: Bounds {
            deadline_ns: PROBE.as_nanos() as u64,
            ..bounds
        },
        later: Vec::new(),
        clients: None,
    }
}

/// Good answers per second of an overloaded service.
fn saturated_rate(outcome: Outcome) -> Result<f64, String> {
    let tally = &outcome.tally;
    match (&outcome.cut_short, &tally.first_error) {
        (Some(why), _) | (None, Some(why)) => Err(why.clone()),
        (None, None) => {
            Ok((tally.allowed + tally.denied) as f64 * 1e9 / outcome.answered_ns.max(1) as f64)
        }
    }
}
