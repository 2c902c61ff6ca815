//! The service's own interface: decide one or many checks, and explain what would be decided.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use tollgate_limiter::Timestamp;
use tollgate_policy::{HeaderForm, Outcome, Retry, Role, Trace, retry_of, standings};
use tollgate_wire::rls::RateLimitRequest;

use super::json::{DescriptorJson as AskedJson, Number, Object, RequestJson};
use super::problem::{self, Problem};
use super::reply::Reply;
use super::{json_reply, problem_reply, shed_reply};
use crate::clock;
use crate::fallback;
use crate::service::{Decided, Service, ServiceError};
use crate::traces::CallSpan;

/// Most checks of one request.
const MAX_CHECKS: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Many {
    checks: Vec<Object<RequestJson>>,
}

/// One check, and how the headers of its answer are written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct One {
    headers: Option<String>,
    domain: Option<String>,
    descriptors: Option<Vec<Object<AskedJson>>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number<u32>>,
}

/// A verdict with all that led to it.
#[derive(Serialize)]
pub(super) struct VerdictJson<'a> {
    allowed: bool,
    /// `ok`, `over_limit`, or `never_possible` where waiting does not help.
    code: &'static str,
    /// Milliseconds until the request would pass; -1 when it never can.
    retry_after_ms: i64,
    /// What decided in the place of a backend that could not: `open`, `closed` or `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'static str>,
    /// The name to give places back by, where the check took any.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<&'a str>,
    limits: Vec<LimitJson<'a>>,
}

/// A problem and the verdict that it is about.
#[derive(Serialize)]
struct DeniedJson<'a> {
    #[serde(flatten)]
    problem: Problem,
    #[serde(flatten)]
    verdict: VerdictJson<'a>,
}

#[derive(Serialize)]
struct LimitJson<'a> {
    descriptor: usize,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    role: &'static str,
    allowed: bool,
    unlimited: bool,
    #[serde(flatten)]
    counting: Option<CountingJson>,
}

#[derive(Serialize)]
struct CountingJson {
    algorithm: &'static str,
    limit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    window_ms: u64,
    cost: u64,
    remaining: u64,
    reset_after_ms: i64,
    retry_after_ms: i64,
}

#[derive(Serialize)]
struct ExplainedJson<'a> {
    /// What the request would be told now.
    allowed: bool,
    descriptors: Vec<DescriptorJson<'a>>,
}

#[derive(Serialize)]
struct DescriptorJson<'a> {
    matched: bool,
    reason: &'a str,
    steps: Vec<StepJson<'a>>,
    limits: Vec<LimitJson<'a>>,
}

#[derive(Serialize)]
struct StepJson<'a> {
    key: &'a str,
    value: &'a str,
    rule: Option<&'a str>,
    reason: &'a str,
}

impl<'a> VerdictJson<'a> {
    pub(super) fn new(decided: &'a Decided<'_>) -> Self {
        let (code, retry_after_ms) = match retry_of(decided.allowed, &decided.outcomes) {
            Retry::Passed => ("ok", 0),
            Retry::After(wait) => ("over_limit", wait.div_ceil(1_000_000) as i64),
            Retry::Never => ("never_possible", -1),
        };
        Self {
            allowed: decided.allowed,
            code,
            retry_after_ms,
            fallback: decided.fallback,
            lease: decided.lease.as_deref(),
            limits: decided.outcomes.iter().map(LimitJson::new).collect(),
        }
    }
}

impl<'a> LimitJson<'a> {
    fn new(outcome: &Outcome<'a>) -> Self {
        Self {
            descriptor: outcome.descriptor,
            name: outcome.name,
            role: role_name(outcome),
            allowed: !outcome.over,
            unlimited: outcome.counting.is_none(),
            counting: outcome.counting.as_ref().map(|counting| CountingJson {
                algorithm: counting.algorithm,
                limit: counting.quota,
                burst: (counting.burst != counting.quota).then_some(counting.burst),
                window_ms: counting.window.div_ceil(1_000_000),
                cost: counting.cost,
                remaining: counting.decision.remaining,
                reset_after_ms: counting.decision.reset_after_ms(),
                retry_after_ms: retry_after_ms(outcome),
            }),
        }
    }
}

fn role_name(outcome: &Outcome<'_>) -> &'static str {
    match outcome.role {
        Role::Refund => "refund",
        _ if outcome.shadow => "shadow",
        _ if outcome.quota => "quota",
        Role::Shadow => "shadow",
        Role::Quota => "quota",
        Role::Enforced => "enforced",
    }
}

fn retry_after_ms(outcome: &Outcome<'_>) -> i64 {
    let decision = outcome.counting.as_ref().map(|counting| counting.decision);
    decision.map_or(0, |decision| match decision.allowed {
        true => 0,
        false => decision.retry_after_ms(),
    })
}

/// `POST /v1/decide`.
pub(super) async fn decide(service: &Service, call: Option<&CallSpan>, body: &[u8]) -> Reply {
    // Told apart first, so that messages are about the form that was meant.
    let has_many = match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(value) => value.get("checks").is_some(),
        Err(error) => return bad_request(error.to_string()),
    };
    if has_many {
        return match serde_json::from_slice::<Object<Many>>(body) {
            Ok(Object(many)) => decide_many(service, call, many).await,
            Err(error) => bad_request(error.to_string()),
        };
    }
    match serde_json::from_slice::<Object<One>>(body) {
        Ok(Object(one)) => decide_one(service, call, one).await,
        Err(error) => bad_request(error.to_string()),
    }
}

async fn decide_one(service: &Service, call: Option<&CallSpan>, one: One) -> Reply {
    let form = match one.headers.as_deref() {
        None => service.http_headers().clone(),
        Some(name) => match HeaderForm::parse(name) {
            Some(form) => form,
            None => {
                return bad_request(format!(
                    "headers: '{}' is none of {}",
                    name.escape_debug(),
                    HeaderForm::NAMES.join(", ")
                ));
            }
        },
    };
    let request = RequestJson {
        domain: one.domain,
        descriptors: one.descriptors,
        hits_addend: one.hits_addend,
    }
    .into_message();
    let asked = clock::now();
    let answer = service
        .decide(&request, call, |decided| {
            let mut reply = match decided.allowed {
                true => json_reply(StatusCode::OK, &VerdictJson::new(&decided)),
                false => denied(&decided, &request),
            };
            tell(&mut reply, &decided, &request, &form, asked);
            if let Some(by) = decided.fallback {
                reply.set(fallback::HEADER.into(), by.to_owned());
            }
            reply
        })
        .await;
    answer.unwrap_or_else(|error| error_reply(&error))
}

/// Headers that say what is left, and when to ask again.
pub(super) fn tell(
    reply: &mut Reply,
    decided: &Decided<'_>,
    request: &RateLimitRequest,
    form: &HeaderForm,
    asked: Timestamp,
) {
    let standings = standings(&decided.outcomes, request);
    let retry = retry_of(decided.allowed, &decided.outcomes);
    for (name, value) in form.headers(&standings, retry, asked) {
        reply.set(name, value);
    }
}

/// A denial as a problem that names the limits.
pub(super) fn denied(decided: &Decided<'_>, request: &RateLimitRequest) -> Reply {
    let violated = problem::violated(&standings(&decided.outcomes, request));
    let verdict = VerdictJson::new(decided);
    let possible = verdict.retry_after_ms >= 0;
    let problem = Problem::quota_exceeded(violated, possible);
    let mut reply = json_reply(problem.status(), &DeniedJson { problem, verdict });
    reply.content_type = problem::CONTENT_TYPE;
    reply
}

async fn decide_many(service: &Service, call: Option<&CallSpan>, many: Many) -> Reply {
    if many.checks.is_empty() || many.checks.len() > MAX_CHECKS {
        return bad_request(format!("checks: must have 1 to {MAX_CHECKS} entries"));
    }
    let mut results: Vec<serde_json::Value> = Vec::with_capacity(many.checks.len());
    for Object(check) in many.checks {
        let request = check.into_message();
        let decided = service
            .decide(&request, call, |decided| {
                to_value(&VerdictJson::new(&decided))
            })
            .await;
        results.push(decided.unwrap_or_else(|error| to_value(&problem_of(&error))));
    }
    json_reply(StatusCode::OK, &serde_json::json!({ "results": results }))
}

fn to_value(result: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(result).expect("the structure has text keys and plain values only")
}

/// `POST /v1/explain`.
pub(super) async fn explain(service: &Service, body: &[u8]) -> Reply {
    let request: RateLimitRequest = match serde_json::from_slice::<Object<RequestJson>>(body) {
        Ok(Object(request)) => request.into_message(),
        Err(error) => return bad_request(error.to_string()),
    };
    let answer = service
        .explain(&request, |traces, decided| {
            json_reply(StatusCode::OK, &explained(traces, &decided))
        })
        .await;
    answer.unwrap_or_else(|error| error_reply(&error))
}

fn explained<'a>(traces: &'a [Trace], decided: &'a Decided<'_>) -> ExplainedJson<'a> {
    let descriptors = traces
        .iter()
        .enumerate()
        .map(|(index, trace)| DescriptorJson {
            matched: trace.matched,
            reason: &trace.reason,
            steps: trace
                .steps
                .iter()
                .map(|step| StepJson {
                    key: &step.key,
                    value: &step.value,
                    rule: step.rule.as_deref(),
                    reason: &step.reason,
                })
                .collect(),
            limits: decided
                .outcomes
                .iter()
                .filter(|outcome| outcome.descriptor == index)
                .map(LimitJson::new)
                .collect(),
        });
    ExplainedJson {
        allowed: decided.allowed,
        descriptors: descriptors.collect(),
    }
}

pub(super) fn bad_request(reason: String) -> Reply {
    problem_reply(&Problem::new(StatusCode::BAD_REQUEST, reason))
}

pub(super) fn error_reply(error: &ServiceError) -> Reply {
    match error {
        ServiceError::Shed(refused) => shed_reply(*refused),
        error => problem_reply(&problem_of(error)),
    }
}

fn problem_of(error: &ServiceError) -> Problem {
    match error {
        ServiceError::Request(error) => Problem::new(StatusCode::BAD_REQUEST, error.to_string()),
        error => Problem::reduced_capacity(error.to_string()),
    }
}
