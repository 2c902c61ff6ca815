//! One request from its message to its response, whatever carried it.

use std::cell::RefCell;
use std::fmt;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{oneshot, watch};
use tollgate_engine::Undecided;
use tollgate_limiter::{Act, Cost, Decision};
use tollgate_policy::{
    Fallback, HeaderForm, LimitCheck, Outcome, Provenance, RequestError, Resolved, Retry, Role,
    Ruleset, Trace, retry_of, standings,
};
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{HeaderValue, RateLimitRequest, RateLimitResponse};
use tollgate_wire::trace::SpanKind;

use crate::backend::{
    AnyBackend, BackendError, Checks, Decide, Decisions, Embedded, LocalCache, Told,
};
use crate::clock;
use crate::combine;
use crate::fallback::{self, Fallbacks};
use crate::grpc::ConnectionAge;
use crate::health::Health;
use crate::http::problem::{self, Problem};
use crate::lease::{HoldNames, LeaseName};
use crate::metrics::{Event, ThreadMetrics};
use crate::shed::{Flight, ReadBatch, Refused, Shed};
use crate::traces::{CallSpan, Step, Tracer};

/// The service as one thread holds it.
pub(crate) struct Service {
    /// The newest rules that were valid.
    newest: RefCell<watch::Receiver<Arc<Ruleset>>>,
    /// Those in use; a request keeps what it began with. Counted on this thread alone, because a count that all
    /// threads share would go to and fro between their processors.
    rules: RefCell<Rc<InUse>>,
    metrics: ThreadMetrics,
    backend: AnyBackend,
    /// Denials that the backend is not asked for again.
    local_cache: Option<LocalCache>,
    fallbacks: Fallbacks,
    health: Health,
    http_headers: HeaderForm,
    shed: Option<Rc<Shed>>,
    /// How long connections of gRPC last, if not for ever.
    connection_age: Option<ConnectionAge>,
    /// Makes spans of calls, where they are asked for.
    tracer: Option<Rc<Tracer>>,
}

/// What a service decides by, besides its rules.
pub(crate) struct Backing {
    pub(crate) backend: AnyBackend,
    pub(crate) local_cache: Option<LocalCache>,
    pub(crate) fallbacks: Fallbacks,
}

/// Decisions, and where they come from.
struct Made {
    decisions: Decisions,
    /// What decided in the backend's place.
    by: Option<Fallback>,
    /// Denied requests count too, and what a denial tells as left was left before.
    denials_count: bool,
    /// Descriptors that the backend was not asked about.
    told: Told,
}

impl Made {
    fn by_backend(decisions: Decisions) -> Self {
        Self {
            decisions,
            by: None,
            denials_count: false,
            told: Told::default(),
        }
    }

    /// The decisions as who asked is told them.
    fn into_decisions(mut self) -> Decisions {
        if self.denials_count {
            let denied = self.decisions.iter_mut().filter(|made| !made.allowed);
            denied.for_each(|made| made.remaining = 0);
        }
        self.decisions
    }
}

/// Rules as one thread counts their uses.
struct InUse(Arc<Ruleset>);

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceError {
    /// The request is not one that can be answered.
    Request(RequestError),
    /// The backend could not decide.
    Backend(BackendError),
    /// No rules have been loaded yet.
    NoRules,
    /// It was refused before any work was done for it.
    Shed(Refused),
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Backend(error) => error.fmt(f),
            Self::NoRules => f.write_str("no rate limit configuration loaded"),
            Self::Shed(refused) => f.write_str(refused.reason()),
        }
    }
}

impl Service {
    pub(crate) fn new(
        newest: watch::Receiver<Arc<Ruleset>>,
        metrics: ThreadMetrics,
        backing: Backing,
        health: Health,
        http_headers: HeaderForm,
        shed: Option<Rc<Shed>>,
    ) -> Self {
        let rules = newest.borrow().clone();
        let Backing {
            backend,
            local_cache,
            fallbacks,
        } = backing;
        Self {
            newest: RefCell::new(newest),
            rules: RefCell::new(Rc::new(InUse(rules))),
            metrics,
            backend,
            local_cache,
            fallbacks,
            health,
            http_headers,
            shed,
            connection_age: None,
            tracer: None,
        }
    }

    /// Its connections of gRPC last for so long.
    pub(crate) fn with_connection_age(mut self, age: Option<ConnectionAge>) -> Self {
        self.connection_age = age;
        self
    }

    /// Its calls have spans.
    pub(crate) fn with_tracer(mut self, tracer: Option<Rc<Tracer>>) -> Self {
        self.tracer = tracer;
        self
    }

    pub(crate) fn tracer(&self) -> Option<&Rc<Tracer>> {
        self.tracer.as_ref()
    }

    pub(crate) fn connection_age(&self) -> Option<ConnectionAge> {
        self.connection_age
    }

    /// Looks after what the thread holds of hot keys, as long as it is polled.
    pub(crate) async fn tend(&self) {
        match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.tend().await,
            AnyBackend::Remote(remote) => remote.tend().await,
        }
    }

    /// As [`tend`](Self::tend), on a thread that waits for something else: what is to be given back now, and whether there
    /// is more later.
    pub(crate) fn give_back(&self) -> bool {
        match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.give_back(),
            AnyBackend::Remote(_) => false,
        }
    }

    /// Whether there is something to give back.
    pub(crate) fn holds_units(&self) -> bool {
        match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.holds_units(),
            AnyBackend::Remote(_) => false,
        }
    }

    /// Whether decisions may have to wait now, be it for a backend elsewhere or for a long command of the store in this
    /// process.
    pub(crate) fn may_wait(&self) -> bool {
        match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.may_wait(),
            AnyBackend::Remote(_) => true,
        }
    }

    /// What comes of `ask`, which is polled once; `None` if a long command of the store may have to be waited for.
    pub(crate) fn at_once<T>(&self, ask: impl FnOnce() -> T) -> Option<T> {
        match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.at_once(ask),
            AnyBackend::Remote(_) => Some(ask()),
        }
    }

    /// Whether decisions wait whose time may come, see [`end_late_waits`](Self::end_late_waits).
    pub(crate) fn has_waits(&self) -> bool {
        match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.has_waits(),
            AnyBackend::Remote(_) => false,
        }
    }

    /// Ends the waits for long commands of the store whose time has come, on a thread that does not [`tend`](Self::tend); whether
    /// there are others.
    pub(crate) fn end_late_waits(&self) -> bool {
        match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.end_late_waits(),
            AnyBackend::Remote(_) => false,
        }
    }

    /// Writes what was admitted and is not written yet when the thread ends; how many units could not be written.
    pub(crate) async fn settle(&self) -> u64 {
        match &self.backend {
            AnyBackend::Embedded(_) => 0,
            AnyBackend::Remote(remote) => remote.settle().await,
        }
    }

    /// Whether the service should be asked.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// What there is to measure, as Prometheus reads it.
    pub(crate) fn metrics(&self) -> String {
        let store = match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.metrics(),
            AnyBackend::Remote(remote) => remote.metrics(),
        };
        format!("{}{}{store}", self.metrics.prometheus(), self.fallbacks)
    }

    /// The same as lines of name and value.
    pub(crate) fn stats(&self) -> String {
        self.metrics.stats()
    }

    /// Where the append-only file of the store in this process must be before what was decided may be told; `None`: it may
    /// be at once. [`when_kept`](Self::when_kept) waits for it.
    pub(crate) fn kept_at(&self) -> Option<u64> {
        match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.handle().kept_at(),
            AnyBackend::Remote(_) => None,
        }
    }

    /// Has `wake` called when the append-only file has got so far; false when it has already.
    pub(crate) fn when_kept(&self, until: u64, wake: impl FnOnce() + Send + 'static) -> bool {
        match &self.backend {
            AnyBackend::Embedded(embedded) => embedded.handle().when_kept(until, wake),
            AnyBackend::Remote(_) => false,
        }
    }

    /// Waits until what was decided may be told; `None` if there is nothing to wait for.
    pub(crate) fn wait_until_kept(&self) -> Option<impl Future<Output = ()> + use<>> {
        let until = self.kept_at()?;
        let (told, kept) = oneshot::channel();
        let waits = self.when_kept(until, move || {
            // Who waited may be gone.
            told.send(()).ok();
        });
        waits.then_some(async move { drop(kept.await) })
    }

    /// Where this thread counts.
    pub(crate) fn counters(&self) -> &ThreadMetrics {
        &self.metrics
    }

    /// The limits in force, a line each.
    pub(crate) fn rules_text(&self) -> String {
        let limits = self.rules().0.describe();
        limits
            .iter()
            .map(|limit| format!("{}\n", limit.text))
            .collect()
    }

    /// Counts a request that was resolved, and how it went.
    fn count(
        &self,
        rules: &Ruleset,
        resolved: &Resolved<'_>,
        request: &RateLimitRequest,
        made: &Made,
    ) {
        if !rules.has_domain(&request.domain) {
            // Each is looked for by itself, and missed by itself.
            let descriptors = request.descriptors.len() as u64;
            self.metrics.domain_not_found(&request.domain, descriptors);
        }
        let provenance = Provenance {
            near_ratio: self.metrics.near_ratio(),
            denials_count: made.denials_count,
            told_locally: &made.told.borrow(),
        };
        resolved.hits(request, &made.decisions, &provenance, |hits| {
            self.metrics.hits(&request.domain, hits);
        });
    }

    /// Counts a request that has no response.
    fn count_error(&self, error: &ServiceError) {
        self.metrics.event(match error {
            ServiceError::Request(_) | ServiceError::NoRules => Event::ServiceError,
            ServiceError::Backend(_) => Event::BackendError,
            ServiceError::Shed(Refused::Deadline) => Event::ShedDeadline,
            ServiceError::Shed(Refused::Overload) => Event::ShedOverload,
            ServiceError::Shed(Refused::Queue) => Event::ShedQueue,
        });
    }

    /// Whether a request that came is refused at once, which is counted; `caller` is how long who asked waits for the answer.
    pub(crate) fn refuse(&self, caller: Option<Duration>) -> Option<Refused> {
        let refused = self.shed.as_ref()?.refuse(caller)?;
        self.count_refused(refused);
        Some(refused)
    }

    /// The `count` requests that the connection which is served now brings at once; `None` if none is ever refused.
    pub(crate) fn batch(&self, count: usize) -> Option<ReadBatch> {
        // A connection that waits for the backend is never put aside: its answers would be, too.
        let is_wide = self.waits_for_backend();
        let shed = self.shed.as_ref()?;
        Some(shed.batch(count, is_wide))
    }

    /// Counts a request of a batch that is refused.
    pub(crate) fn count_refused(&self, refused: Refused) {
        self.metrics.event(Event::Request);
        self.count_error(&ServiceError::Shed(refused));
    }

    /// Counts a request while it waits for a backend elsewhere; the store in this process counts by itself who waits.
    pub(crate) fn fly(&self) -> Result<Option<Flight<'_>>, Refused> {
        match (&self.backend, &self.shed) {
            (AnyBackend::Remote(_), Some(shed)) => shed.fly().map(Some),
            _ => Ok(None),
        }
    }

    /// The rules in force.
    pub(crate) fn rules_now(&self) -> Arc<Ruleset> {
        self.rules().0.clone()
    }

    pub(crate) fn backend(&self) -> &AnyBackend {
        &self.backend
    }

    /// Whether decisions come from elsewhere, after a while.
    pub(crate) fn waits_for_backend(&self) -> bool {
        matches!(self.backend, AnyBackend::Remote(_))
    }

    fn rules(&self) -> Rc<InUse> {
        let mut newest = self.newest.borrow_mut();
        // Without its sender, which ends with the service, there is nothing newer.
        if newest.has_changed().unwrap_or(false) {
            *self.rules.borrow_mut() = Rc::new(InUse(newest.borrow_and_update().clone()));
        }
        self.rules.borrow().clone()
    }

    /// The response, if it can be given without waiting.
    pub(crate) fn answer_now(
        &self,
        request: &RateLimitRequest,
        call: Option<&CallSpan>,
    ) -> Option<Result<RateLimitResponse, ServiceError>> {
        let AnyBackend::Embedded(embedded) = &self.backend else {
            return None;
        };
        let rules = self.rules();
        let answer = self.answer_on(embedded, &rules.0, request, call)?;
        self.metrics.event(Event::Request);
        if let Some(call) = call {
            tell_answer(call, request, &answer);
        }
        Some(answer.inspect_err(|error| self.count_error(error)))
    }

    /// The response by the store in this process; `None` if a long command of it may have to be waited for.
    fn answer_on(
        &self,
        embedded: &Embedded,
        rules: &Ruleset,
        request: &RateLimitRequest,
        call: Option<&CallSpan>,
    ) -> Option<Result<RateLimitResponse, ServiceError>> {
        let resolved = match resolve(rules, request) {
            Ok(resolved) => resolved,
            Err(error) => return Some(Err(error)),
        };
        let lease = lease_of(&resolved);
        let names = HoldNames::new(lease.as_bytes());
        let checks = names.checks(&resolved);
        let is_plain = combine::is_plain(&checks);
        if !is_plain && embedded.may_wait() {
            return None;
        }
        let mut step = call.map(|call| self.step(call, checks.len()));
        let decided = if checks.is_empty() {
            Ok(Decisions::new())
        } else if is_plain {
            match embedded.decide_now(&checks) {
                Err(kept @ Undecided::Kept) => {
                    if let Some(step) = &mut step {
                        step.fail(&kept.to_string());
                    }
                    return None;
                }
                decided => decided.map_err(|error| BackendError::new(error.to_string())),
            }
        } else {
            let deciding = pin!(combine::decide(embedded, &checks));
            // What was taken for some roles before others had to wait could not be taken again.
            let Some(decided) = embedded.at_once(|| deciding.now_or_never()) else {
                if let Some(step) = &mut step {
                    step.fail(&Undecided::Kept.to_string());
                }
                return None;
            };
            decided.expect("who asks at once is not kept waiting")
        };
        if let (Some(step), Err(error)) = (&mut step, &decided) {
            step.fail(&error.to_string());
        }
        drop(step);
        let made = match decided {
            Ok(decisions) => {
                // What has no limit says nothing of the store.
                if !decisions.is_empty() {
                    self.fallbacks.answered();
                }
                Ok(Made::by_backend(decisions))
            }
            Err(error) => self.decide_in_place(&checks, error),
        };
        Some(made.map(|made| self.respond(rules, &resolved, request, made)))
    }

    /// The response.
    pub(crate) async fn answer(
        &self,
        request: &RateLimitRequest,
        call: Option<&CallSpan>,
    ) -> Result<RateLimitResponse, ServiceError> {
        self.metrics.event(Event::Request);
        let answer = self.answer_uncounted(request, call).await;
        if let Some(call) = call {
            tell_answer(call, request, &answer);
        }
        answer.inspect_err(|error| self.count_error(error))
    }

    async fn answer_uncounted(
        &self,
        request: &RateLimitRequest,
        call: Option<&CallSpan>,
    ) -> Result<RateLimitResponse, ServiceError> {
        let rules = self.rules();
        let resolved = resolve(&rules.0, request)?;
        let lease = lease_of(&resolved);
        let names = HoldNames::new(lease.as_bytes());
        let checks = names.checks(&resolved);
        let made = self.decide_checks(&checks, call).await?;
        Ok(self.respond(&rules.0, &resolved, request, made))
    }

    /// Decides by what the rules say where the backend cannot.
    fn decide_in_place(
        &self,
        checks: &Checks<'_>,
        error: BackendError,
    ) -> Result<Made, ServiceError> {
        let made = self.fallbacks.decide(checks, error);
        let made = made.map_err(ServiceError::Backend)?;
        self.metrics.event(Event::BackendError);
        Ok(Made {
            by: Some(made.by),
            ..Made::by_backend(made.decisions)
        })
    }

    /// Decides by the backend, or in its place by what the rules say. Without a limit there is nothing to decide, and the
    /// backend is left alone.
    async fn decide_checks(
        &self,
        checks: &Checks<'_>,
        call: Option<&CallSpan>,
    ) -> Result<Made, ServiceError> {
        let told = Told::default();
        if checks.is_empty() {
            return Ok(Made::by_backend(Decisions::new()));
        }
        let _flight = match self.fly() {
            Ok(flight) => flight,
            Err(refused) => return self.decide_unasked(checks, refused),
        };
        let mut step = call.map(|call| self.step(call, checks.len()));
        let decided = match &self.local_cache {
            None => combine::decide(&self.backend, checks).await,
            // Boxed, so that the future of a decision without it does not grow.
            Some(cache) => {
                let cached = cache.before(&self.backend, &told);
                Box::pin(combine::decide(&cached, checks)).await
            }
        };
        if let (Some(step), Err(error)) = (&mut step, &decided) {
            step.fail(&error.to_string());
        }
        drop(step);
        match decided {
            Ok(decisions) => {
                self.fallbacks.answered();
                Ok(Made {
                    denials_count: self.backend.counts_each(),
                    told,
                    ..Made::by_backend(decisions)
                })
            }
            Err(error) => self.decide_in_place(checks, error),
        }
    }

    /// Decides by what the rules say where the backend has no room for one more; where they say nothing the request is refused.
    fn decide_unasked(&self, checks: &Checks<'_>, refused: Refused) -> Result<Made, ServiceError> {
        let made = self.fallbacks.decide_unasked(checks);
        let made = made.map_err(ServiceError::Backend)?;
        let made = made.ok_or(ServiceError::Shed(refused))?;
        self.metrics.event(Event::ShedQueue);
        Ok(Made {
            by: Some(made.by),
            ..Made::by_backend(made.decisions)
        })
    }

    /// What the backend does for a call, from now on.
    fn step<'c>(&self, call: &'c CallSpan, checks: usize) -> Step<'c> {
        let (backend, kind) = match self.backend {
            AnyBackend::Embedded(_) => ("embedded", SpanKind::Internal),
            AnyBackend::Remote(_) => ("remote", SpanKind::Client),
        };
        let mut step = call.step("Backend Decision", kind);
        step.set("ratelimit.backend", backend);
        step.set("ratelimit.checks", checks as i64);
        step
    }

    /// Units of a check's counter have come back by another way than a request.
    pub(crate) fn units_came_back(&self, check: &LimitCheck<'_>) {
        if let Some(cache) = &self.local_cache {
            cache.forget(check.key);
        }
    }

    /// Counts, and writes the response, which tells what decided in the backend's place.
    fn respond(
        &self,
        rules: &Ruleset,
        resolved: &Resolved<'_>,
        request: &RateLimitRequest,
        made: Made,
    ) -> RateLimitResponse {
        self.count(rules, resolved, request, &made);
        let by = made.by;
        let decisions = &made.into_decisions();
        let mut response = resolved.verdict(request, decisions);
        if resolved.header_form() == Some(&HeaderForm::Draft11)
            && response.overall_code() == Code::OverLimit
        {
            add_problem(&mut response, &resolved.outcomes(decisions), request);
        }
        if let Some(by) = by {
            response.response_headers_to_add.push(HeaderValue {
                key: fallback::HEADER.to_owned(),
                value: by.name().to_owned(),
                raw_value: Vec::new(),
            });
        }
        if resolved.is_shadowed(&response) {
            self.metrics.event(Event::GlobalShadow);
        }
        response
    }

    /// Decides, and makes of it what the caller wants.
    pub(crate) async fn decide<T>(
        &self,
        request: &RateLimitRequest,
        call: Option<&CallSpan>,
        make: impl FnOnce(Decided<'_>) -> T,
    ) -> Result<T, ServiceError> {
        self.metrics.event(Event::Request);
        if let Some(call) = call {
            call.asked(request);
        }
        let counted = |error: ServiceError| {
            self.count_error(&error);
            if let Some(call) = call {
                call.fail(&error.to_string());
            }
            error
        };
        let rules = self.rules();
        let resolved = resolve(&rules.0, request).map_err(counted)?;
        let lease = lease_of(&resolved);
        let names = HoldNames::new(lease.as_bytes());
        let checks = names.checks(&resolved);
        let made = self.decide_checks(&checks, call).await;
        let made = made.map_err(counted)?;
        self.count(&rules.0, &resolved, request, &made);
        let by = made.by;
        let decisions = made.into_decisions();
        let mut decided = Decided::new(&resolved, request, &decisions);
        decided.fallback = by.map(Fallback::name);
        if decided.allowed && decided.fallback.is_none() && resolved.takes_leases() {
            decided.lease = Some(lease.as_text().to_owned());
        }
        if let Some(call) = call {
            tell_code(
                call,
                if decided.allowed {
                    Code::Ok
                } else {
                    Code::OverLimit
                },
            );
        }
        Ok(make(decided))
    }

    /// What would be decided now and by which rules; nothing is taken.
    pub(crate) async fn explain<T>(
        &self,
        request: &RateLimitRequest,
        make: impl FnOnce(&[Trace], Decided<'_>) -> T,
    ) -> Result<T, ServiceError> {
        let rules = self.rules();
        let resolved = resolve(&rules.0, request)?;
        let weight = |check: &LimitCheck<'_>| match check.role {
            Role::Refund => Cost(0),
            _ => check.cost,
        };
        let looks = resolved.checks(b"").map(|check| LimitCheck {
            act: Act::Peek,
            cost: weight(&check),
            ..check
        });
        let looks: Checks<'_> = looks.collect();
        let mut decisions = match looks.is_empty() {
            true => Decisions::new(),
            // At one moment, as far as the backend decides at one moment.
            false => {
                let decided = self.backend.decide(&looks).await;
                decided.map_err(ServiceError::Backend)?
            }
        };
        for (decision, look) in decisions.iter_mut().zip(&looks) {
            if decision.allowed {
                // What a look leaves is what is there.
                decision.remaining = decision.remaining.saturating_add(look.cost.0);
            }
        }
        let traces = rules.0.trace(request);
        Ok(make(&traces, Decided::new(&resolved, request, &decisions)))
    }

    /// How headers of HTTP responses are written where the request does not say.
    pub(crate) fn http_headers(&self) -> &HeaderForm {
        &self.http_headers
    }
}

/// A decision with all that led to it.
pub(crate) struct Decided<'a> {
    pub(crate) allowed: bool,
    pub(crate) outcomes: Vec<Outcome<'a>>,
    /// What decided in the place of a backend that could not.
    pub(crate) fallback: Option<&'static str>,
    /// The name under which the request uses places, if it took any.
    pub(crate) lease: Option<String>,
}

impl<'a> Decided<'a> {
    pub(crate) fn new(
        resolved: &'a Resolved<'_>,
        request: &RateLimitRequest,
        decisions: &[Decision],
    ) -> Self {
        let response = resolved.verdict(request, decisions);
        Self {
            allowed: response.overall_code() == Code::Ok,
            outcomes: resolved.outcomes(decisions),
            fallback: None,
            lease: None,
        }
    }
}

pub(crate) fn resolve<'r>(
    rules: &'r Ruleset,
    request: &RateLimitRequest,
) -> Result<Resolved<'r>, ServiceError> {
    if !rules.is_loaded() {
        return Err(ServiceError::NoRules);
    }
    let resolved = rules.resolve(request).map_err(ServiceError::Request)?;
    let tells_dates = resolved.header_form().is_some_and(HeaderForm::tells_dates);
    Ok(match tells_dates {
        true => resolved.asked_at(clock::now()),
        false => resolved,
    })
}

/// Tells a span what was asked, and what was answered.
fn tell_answer(
    call: &CallSpan,
    request: &RateLimitRequest,
    answer: &Result<RateLimitResponse, ServiceError>,
) {
    call.asked(request);
    match answer {
        Ok(response) => tell_code(call, response.overall_code()),
        Err(error) => call.fail(&error.to_string()),
    }
}

fn tell_code(call: &CallSpan, code: Code) {
    let name = match code {
        Code::Unknown => "UNKNOWN",
        Code::Ok => "OK",
        Code::OverLimit => "OVER_LIMIT",
    };
    call.set("ratelimit.overall_code", name);
}

/// A name for the places that a request takes, if it takes any.
pub(crate) fn lease_of(resolved: &Resolved<'_>) -> LeaseName {
    match resolved.takes_leases() {
        true => LeaseName::new(),
        false => LeaseName::NONE,
    }
}

/// Clients that are told in structured fields what is left are told of a denial by a problem in the body.
fn add_problem(
    response: &mut RateLimitResponse,
    outcomes: &[Outcome<'_>],
    request: &RateLimitRequest,
) {
    let possible = retry_of(false, outcomes) != Retry::Never;
    let names = problem::violated(&standings(outcomes, request));
    response.raw_body = Problem::quota_exceeded(names, possible).to_json();
    response.response_headers_to_add.push(HeaderValue {
        key: "content-type".to_owned(),
        value: problem::CONTENT_TYPE.to_owned(),
        raw_value: Vec::new(),
    });
}
