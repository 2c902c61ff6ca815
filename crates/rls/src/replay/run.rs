//! The decisions of a service on its own store, at the times of a recording.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;

use futures_util::FutureExt;
use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_limiter::{Act, AlgorithmKind, Decision, Method, Nanos, Quota, Timestamp};
use tollgate_policy::{LimitCheck, RequestError, Resolved, Role, Ruleset};
use tollgate_wire::rls::RateLimitRequest;
use tollgate_wire::rls::rate_limit_response::Code;

use super::recording::{Event, Recording};
use super::report::{LimitReport, MostDenied, Replay};
use super::suiting::{Ask, suiting};
use crate::backend::{BackendError, Checks, Decide, Decisions, Embedded};
use crate::combine;
use crate::lease::HoldNames;

/// Keys that a report names of each limit.
const NAMED_KEYS: usize = 5;

thread_local! {
    /// The time of the request that is decided.
    static NOW: Cell<Timestamp> = const { Cell::new(Timestamp::from_nanos(0)) };
}

/// Why requests could not be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// One of them is not one that a service answers.
    Request(RequestError),
    /// The store could not decide.
    Backend(BackendError),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Backend(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Decides every request of a [finished](Recording::finish) recording by `rules`, on an empty store.
///
/// # Errors
/// A request is none that can be answered, which happens only with other rules than the recording was made for, or the store
/// cannot decide.
pub fn replay(rules: &Ruleset, recording: &Recording<'_>) -> Result<Replay, ReplayError> {
    let mut limits = Limits::default();
    let different = recording.requests().iter().map(|request| {
        let resolved = rules.resolve(request).map_err(ReplayError::Request)?;
        let counters = limits.of(request, &resolved);
        Ok(Different {
            request,
            resolved,
            counters,
        })
    });
    let different = different.collect::<Result<Vec<_>, _>>()?;
    let engine = Engine::new(EngineConfig::default());
    // What a thread takes of a hot key in advance would be spread over times that are far apart here.
    engine.set_leases(false);
    let mut run = Run {
        backend: Embedded::new(Handle::new(engine), || NOW.get()),
        different,
        ends: BinaryHeap::new(),
    };
    let mut denied = Vec::with_capacity(recording.events().len());
    for (number, event) in (0..).zip(recording.events()) {
        let decided = run.decide(number, event, &mut limits);
        denied.push(decided.map_err(ReplayError::Backend)?);
    }
    Ok(limits.report(recording, denied))
}

/// One of the requests that differ from each other.
struct Different<'r> {
    request: &'r RateLimitRequest,
    resolved: Resolved<'r>,
    /// The limit and the counter of each check.
    counters: Vec<(usize, u32)>,
}

struct Run<'r> {
    backend: Embedded,
    different: Vec<Different<'r>>,
    /// When requests end that hold places, with their number and which they are.
    ends: BinaryHeap<Reverse<(Timestamp, u32, u32)>>,
}

impl Run<'_> {
    /// Whether a request is denied.
    fn decide(
        &mut self,
        number: u32,
        event: &Event,
        limits: &mut Limits,
    ) -> Result<bool, BackendError> {
        self.end_until(event.at)?;
        NOW.set(event.at);
        let different = &self.different[event.request as usize];
        let lease = lease(number);
        let resolved = &different.resolved;
        let names = HoldNames::new(lease.as_bytes());
        let checks = names.checks(resolved);
        let decisions = match checks.is_empty() {
            true => Decisions::new(),
            false => at_once(combine::decide(&self.backend, &checks))?,
        };
        let verdict = resolved.verdict(different.request, &decisions);
        let denied = verdict.overall_code == Code::OverLimit as i32;
        let asked = checks.iter().zip(&decisions).zip(&different.counters);
        for ((check, decision), &(limit, key)) in asked {
            limits.all[limit].count(check, decision, key, number);
        }
        if let (false, Some(duration)) = (denied, event.duration)
            && resolved.takes_leases()
        {
            let end = event.at.plus(duration);
            self.ends.push(Reverse((end, number, event.request)));
        }
        Ok(denied)
    }

    /// Gives back what is held by requests that have ended.
    fn end_until(&mut self, now: Timestamp) -> Result<(), BackendError> {
        while let Some(&Reverse((end, number, request))) = self.ends.peek()
            && end <= now
        {
            self.ends.pop();
            NOW.set(end);
            let lease = lease(number);
            let resolved = &self.different[request as usize].resolved;
            let names = HoldNames::new(lease.as_bytes());
            for check in names.checks(resolved) {
                if let Act::Hold { id, .. } = check.act {
                    at_once(self.backend.release(&check, id))?;
                }
            }
        }
        Ok(())
    }
}

/// The name under which a request holds places.
fn lease(number: u32) -> String {
    number.to_string()
}

/// What a store answers that nobody else uses.
fn at_once<T>(asked: impl Future<Output = T>) -> T {
    asked.now_or_never().expect("nobody else uses the store")
}

/// What tells limits apart.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LimitId {
    rule: String,
    name: String,
    method: Method,
    limit: u64,
    period: Nanos,
}

/// The limits that requests met, and what became of those.
#[derive(Default)]
struct Limits {
    all: Vec<Counted>,
    by_id: HashMap<LimitId, usize>,
}

struct Counted {
    id: LimitId,
    quota: Quota,
    shadow: bool,
    keys: Vec<KeyCount>,
    by_key: HashMap<Vec<u8>, u32>,
    asks: Vec<Ask>,
}

/// What became of the requests for one counter.
struct KeyCount {
    /// The entries of a descriptor that it counts.
    name: String,
    requests: u64,
    over: u64,
}

impl Limits {
    /// The limit and the counter of each check of a request.
    fn of(&mut self, request: &RateLimitRequest, resolved: &Resolved<'_>) -> Vec<(usize, u32)> {
        let checks: Checks<'_> = resolved.checks(b"").collect();
        // What applies does not depend on what is decided.
        let nothing = vec![Decision::DENIED; checks.len()];
        let outcomes = resolved.outcomes(&nothing);
        let counting = outcomes.iter().filter(|outcome| outcome.counting.is_some());
        let counters = checks.iter().zip(counting).map(|(check, outcome)| {
            let id = LimitId {
                rule: outcome.rule.to_owned(),
                name: outcome.name.to_owned(),
                method: check.method,
                limit: check.quota.limit,
                period: check.quota.period,
            };
            let limit = *self.by_id.entry(id.clone()).or_insert_with(|| {
                self.all.push(Counted::new(id, check));
                self.all.len() - 1
            });
            (limit, self.all[limit].key(check, request))
        });
        counters.collect()
    }

    fn report(self, recording: &Recording<'_>, denied: Vec<bool>) -> Replay {
        let mut limits: Vec<LimitReport> = self
            .all
            .into_iter()
            .map(|counted| counted.report(recording.events()))
            .collect();
        limits.sort_by(|a, b| (&a.rule, &a.name).cmp(&(&b.rule, &b.name)));
        Replay::new(recording, denied, limits)
    }
}

impl Counted {
    fn new(id: LimitId, check: &LimitCheck<'_>) -> Self {
        Self {
            id,
            quota: check.quota,
            shadow: check.role == Role::Shadow,
            keys: Vec::new(),
            by_key: HashMap::new(),
            asks: Vec::new(),
        }
    }

    fn key(&mut self, check: &LimitCheck<'_>, request: &RateLimitRequest) -> u32 {
        if let Some(&known) = self.by_key.get(check.key) {
            return known;
        }
        let entries = request.descriptors[check.descriptor].entries.iter();
        let named = entries.map(|entry| format!("{}={}", entry.key, entry.value));
        // There are no more keys than requests, whose indices have as many bits.
        let index = self.keys.len() as u32;
        self.keys.push(KeyCount {
            name: named.collect::<Vec<_>>().join(", "),
            requests: 0,
            over: 0,
        });
        self.by_key.insert(check.key.to_vec(), index);
        index
    }

    fn count(&mut self, check: &LimitCheck<'_>, decision: &Decision, key: u32, event: u32) {
        let gives_back = check.role == Role::Refund;
        if !gives_back {
            let counted = &mut self.keys[key as usize];
            counted.requests += 1;
            counted.over += u64::from(!decision.allowed);
        }
        self.asks.push(Ask {
            key,
            event,
            cost: check.cost.0,
            gives_back,
        });
    }

    fn report(mut self, events: &[Event]) -> LimitReport {
        let met: Vec<&KeyCount> = self.keys.iter().filter(|key| key.requests > 0).collect();
        let mut denied: Vec<&KeyCount> = met.iter().copied().filter(|key| key.over > 0).collect();
        denied.sort_by(|a, b| (Reverse(a.over), &a.name).cmp(&(Reverse(b.over), &b.name)));
        let named = denied.iter().take(NAMED_KEYS).map(|key| MostDenied {
            key: key.name.clone(),
            over: key.over,
            requests: key.requests,
        });
        let sum = |of: fn(&KeyCount) -> u64| met.iter().map(|key| of(key)).sum();
        let (window, window_ms) = window(self.id.method, self.quota);
        LimitReport {
            requests: sum(|key| key.requests),
            over: sum(|key| key.over),
            keys: met.len() as u64,
            keys_over: denied.len() as u64,
            most_denied: named.collect(),
            rule: self.id.rule,
            name: self.id.name,
            algorithm: self.id.method.name(),
            limit: self.quota.limit,
            burst: (self.id.method.has_burst()).then_some(self.quota.burst),
            places: self.id.method == Method::Concurrency,
            window,
            window_ms,
            shadow: self.shadow,
            suiting: suiting(self.id.method, self.quota, &mut self.asks, events),
        }
    }
}

/// In words, and in milliseconds where it is always as long.
fn window(method: Method, quota: Quota) -> (String, Option<u64>) {
    const UNITS: [(u64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ];
    if let Method::Small(AlgorithmKind::Calendar(calendar)) = method {
        let (unit, zone) = (calendar.unit.name(), calendar.zone.name());
        return (format!("calendar {unit} in {zone}"), None);
    }
    let ms = quota.period.div_ceil(1_000_000);
    let whole = UNITS.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or((1, "ms"));
    (format!("{} {name}", ms / unit), Some(ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Shape;

    #[test]
    fn limits_of_all_kinds_say_what_they_are() {
        let rules = "
domain: d
descriptors:
  - key: a
    rate_limit: {requests_per_unit: 5, unit: month, zone: Europe/Berlin}
  - key: b
    rate_limit: {concurrency: 2, lease: 30s}
  - key: c
    shadow_mode: true
    rate_limit: {name: burst, algorithm: token-bucket, requests_per_unit: 6, period: 90s, burst: 2}
";
        let rules = Ruleset::load(&[("a", rules)]).expect("valid rules");
        let text = ["a", "b", "c", "c", "c"].map(|key| {
            format!("{{\"time\": 0, \"domain\": \"d\", \"descriptors\": [{{\"entries\": [{{\"key\": \"{key}\"}}]}}]}}\n")
        });
        let mut recording = Recording::new(Shape::default(), &[&rules], 10);
        recording.read("", text.concat().as_bytes()).expect("few");
        recording.finish().expect("some");
        let replayed = replay(&rules, &recording).expect("decided");
        assert_eq!(replayed.denied, 0);
        assert_eq!(replayed.limits[2].over, 1);
        let told = replayed.to_string();
        for line in [
            "d.a: 5 per calendar month in Europe/Berlin, calendar\n",
            "d.b: 2 at a time, each for 30 s, concurrency\n",
            "d.c (burst): 6 per 90 s, burst 2, token-bucket, shadow mode\n",
        ] {
            assert!(told.contains(line), "{line}: {told}");
        }
    }
}
