//! One load on one target: a probe that finds a rough capacity, or a part of a step.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{Bed, StepRequest};
use crate::load::address::Endpoint;
use crate::load::closed::{Drawn, InTurn, Pool};
use crate::load::grpc::Calls;
use crate::load::keys::KeySampler;
use crate::load::live::Live;
use crate::load::open::{self, Outcome, Own, Plan};
use crate::load::open_loop::Bounds;
use crate::load::schedule::Arrivals;
use crate::load::workload::{Ask, Rule, Workload};
use crate::run::cell;
use crate::run::plan::{KeyPlan, limit_for};
use crate::run::thread::generate;
use crate::target::{Target, Way};

/// Length of a capacity probe.
const PROBE: Duration = Duration::from_millis(500);
/// Load of a probe that cannot keep pipelines full by itself.
pub(super) const OVERLOAD_RATE: f64 = 500_000.0;
/// Answers of a probe may be errors up to one in so many.
const REFUSED_PARTS: u64 = 10;
/// Streams per connection that keep a service on a store elsewhere busy without a queue that it would shed.
const BUSY_DEPTH: usize = 4;
/// Limit in a probe: everything is allowed, the dearer answer.
const PROBE_LIMIT: u64 = 50_000_000;
/// Requests written at once while keys are filled.
const FILL_DEPTH: usize = 16;

/// A load that may begin: its requests are rendered, and what they read is there.
pub(super) struct Ready {
    plan: Plan,
    asking: Asking,
    length: Duration,
    rule: Rule,
    prefix: String,
}

impl Ready {
    /// Keeps single requests, one in `every`.
    pub(super) fn keep_samples(&mut self, every: u64) {
        self.plan.own.sample_every = Some(every);
    }
}

/// Rendered requests.
enum Asking {
    Requests(Workload),
    Calls(Calls),
}

/// What one load brought, under which rule and with which key prefix.
pub(super) struct Loaded {
    pub(super) outcome: Outcome,
    pub(super) rule: Rule,
    pub(super) prefix: String,
}

impl Bed<'_> {
    /// Finds a rough capacity in answers per second: full pipelines for half a second.
    pub(crate) fn probe(
        &mut self,
        slot: usize,
        way: Way,
        scenario: &KeyPlan,
    ) -> Result<f64, String> {
        let prefix = self.next_prefix();
        let target = &self.slots[slot].target;
        self.console.phase(format!(
            "{} · {} · finding the capacity",
            scenario.title,
            cell::describe(target, way)
        ));
        let bounds = self.plan.bounds(way, scenario);
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
                // A service may refuse some of what keeps it busy; one that mostly answers errors has no capacity.
                match slice.first_error {
                    Some(text) if slice.failures * REFUSED_PARTS > slice.answers => {
                        Err(format!("the server answered: {text}"))
                    }
                    _ => Ok(slice.rate()),
                }
            }),
            None => {
                let Target::Service(service) = target else {
                    return Err("it cannot be asked in this way".into());
                };
                let calls = service.calls(rule, &prefix, keys);
                let arm = target.arm().is_some();
                let plan = match arm {
                    true => busy(scenario, bounds, self.plan.seed),
                    false => overload(scenario, bounds, self.plan.seed),
                };
                let refused_parts = if arm { 0 } else { REFUSED_PARTS };
                let live = Live::default();
                generate(core, &live, PROBE * 2, self.console, || {
                    open::run_grpc(&plan, &calls, target.endpoint(), stop, &live)
                })
                .and_then(|outcome| saturated_rate(outcome, refused_parts))
            }
        };
        match slice {
            Ok(rate) if rate < 1.0 => Err("no answers".into()),
            other => other,
        }
    }

    /// Runs one load: a part of `length` at the request's rate, and those that follow.
    pub(super) fn load(
        &mut self,
        request: &StepRequest<'_>,
        first: Duration,
        later: &[(f64, Duration)],
    ) -> Result<Loaded, String> {
        let ready = self.ready(request, first, later)?;
        self.fire(request, ready, Vec::new())
    }

    /// Renders what will be asked and writes what it reads. Apart from the load itself, because neither is part of what is
    /// measured: not the processor time that a target spends on being filled, and not the time that passes meanwhile.
    pub(super) fn ready(
        &mut self,
        request: &StepRequest<'_>,
        first: Duration,
        later: &[(f64, Duration)],
    ) -> Result<Ready, String> {
        let prefix = self.next_prefix();
        let length = whole_length(first, later);
        let rule = Rule {
            limit: request
                .limit
                .unwrap_or_else(|| self.denying_limit(request, length, later)),
            window_s: self.window_s(request.way),
        };
        let plan = self.load_plan(request, first, later);
        let (target, stop) = (&self.slots[request.slot].target, self.stop);
        let keys = request.scenario.keys;
        cell::check_keys(target.ask(request.way, rule).as_ref(), keys)?;
        let (core, live) = (self.plan.generator_core, Live::default());
        let asking = match (target, target.ask(request.way, rule)) {
            (_, Some(ask)) => generate(core, &live, length, self.console, || {
                let workload = Workload::render(&ask, &prefix, keys);
                prepare(&ask, &prefix, keys, target.endpoint(), stop)?;
                Ok(Asking::Requests(workload))
            }),
            (Target::Service(service), None) => {
                let wait = Duration::from_nanos(plan.bounds.deadline_ns);
                Ok(Asking::Calls(
                    service.calls(rule, &prefix, keys).waiting(wait),
                ))
            }
            (Target::Store(_) | Target::Memcached(_), None) => {
                Err("it cannot be asked in this way".to_owned())
            }
        };
        Ok(Ready {
            asking: asking?,
            plan,
            length,
            rule,
            prefix,
        })
    }

    /// Runs a load that is ready, and reads the processor time of `watched` around it.
    pub(super) fn fire(
        &mut self,
        request: &StepRequest<'_>,
        ready: Ready,
        watched: Vec<u32>,
    ) -> Result<Loaded, String> {
        let (endpoint, stop) = (self.slots[request.slot].target.endpoint(), self.stop);
        let (core, live) = (self.plan.generator_core, Live::watching(watched));
        let plan = &ready.plan;
        let outcome = generate(core, &live, ready.length, self.console, || {
            match &ready.asking {
                Asking::Requests(workload) => open::run(plan, workload, endpoint, stop, &live),
                Asking::Calls(calls) => open::run_grpc(plan, calls, endpoint, stop, &live),
            }
        })?;
        Ok(Loaded {
            outcome,
            rule: ready.rule,
            prefix: ready.prefix,
        })
    }

    /// A limit near half of what the most wanted key is offered, so that both answers occur.
    fn denying_limit(
        &self,
        request: &StepRequest<'_>,
        length: Duration,
        later: &[(f64, Duration)],
    ) -> u64 {
        let (scenario, rate) = (request.scenario, request.rate_rps);
        let mean = if later.is_empty() {
            rate
        } else {
            request.mean_rps()
        };
        let draws = (mean * length.as_secs_f64()) as u64;
        let top = scenario
            .spreading
            .top_share_of(scenario.keys, draws, request.seed);
        // Both answers must occur in every window, not only over a step of several.
        let window = Duration::from_secs(self.window_s(request.way));
        let least = self.slots[request.slot].target.limit_min();
        limit_for(mean, length.min(window), top).max(least)
    }

    /// The generator's plan of a load: the run's bounds with what the request has of its own.
    fn load_plan(
        &self,
        request: &StepRequest<'_>,
        first: Duration,
        later: &[(f64, Duration)],
    ) -> Plan {
        let mut bounds = self.plan.bounds(request.way, request.scenario);
        if let Some(deadline) = request.deadline {
            bounds.deadline_ns = deadline.as_nanos() as u64;
        }
        if let Some(connections) = request.connections {
            bounds.connections = connections as usize;
        }
        Plan {
            arrivals: self.plan.arrivals,
            rate: request.rate_rps,
            length_ns: first.as_nanos() as u64,
            spreading: request.scenario.spreading,
            seed: request.seed,
            bounds,
            later: later
                .iter()
                .map(|(rate, length)| (*rate, length.as_nanos() as u64))
                .collect(),
            clients: request.clients,
            own: Own {
                spin_ns: self.plan.spin.map_or(0, |spin| spin.as_nanos() as u64),
                sample_every: None,
            },
        }
    }
}

/// Length of a load's parts together.
fn whole_length(first: Duration, later: &[(f64, Duration)]) -> Duration {
    first + later.iter().map(|(_, length)| *length).sum::<Duration>()
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
        own: Own::default(),
    }
}

/// As much as is answered: a service on a store elsewhere refuses most of an overload, as it should.
fn busy(scenario: &KeyPlan, bounds: Bounds, seed: u64) -> Plan {
    Plan {
        arrivals: Arrivals::Closed,
        rate: 0.0,
        bounds: Bounds {
            depth: bounds.depth.min(BUSY_DEPTH),
            ..bounds
        },
        ..overload(scenario, bounds, seed)
    }
}

/// Good answers per second of an overloaded service, of which errors may be one part in so many; any number for 0.
fn saturated_rate(outcome: Outcome, refused_parts: u64) -> Result<f64, String> {
    let tally = &outcome.tally;
    let good = tally.allowed + tally.denied;
    let errors = (tally.store_error + tally.protocol) * refused_parts;
    match (&outcome.cut_short, &tally.first_error) {
        (Some(why), _) => Err(why.clone()),
        (None, Some(why)) if errors > good => Err(why.clone()),
        (None, _) => Ok(good as f64 * 1e9 / outcome.answered_ns.max(1) as f64),
    }
}
