//! `/v1/reserve`, `/v1/commit`, `/v1/cancel` and `/v1/release`: units held under a name.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use tollgate_wire::rls::RateLimitRequest;

use super::json::{DescriptorJson, Number, Object, RequestJson};
use super::problem::Problem;
use super::reply::Reply;
use super::v1::{VerdictJson, bad_request, denied, error_reply, tell};
use super::{json_reply, problem_reply};
use crate::clock;
use crate::lease::{LeaseName, OWN_MAX};
use crate::metrics::{HoldRequest, Outcome};
use crate::service::{Service, ServiceError};

/// How long a reservation lasts that does not say.
const DEFAULT_TTL_MS: u64 = 60_000;
/// Longest time of a reservation: a day.
const MAX_TTL_MS: u64 = 86_400_000;

/// A request about units held under a name.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Held {
    id: Option<String>,
    domain: Option<String>,
    descriptors: Option<Vec<Object<DescriptorJson>>>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number<u32>>,
    ttl_ms: Option<Number<u64>>,
    actual: Option<Number<u64>>,
}

#[derive(Serialize)]
struct ReservedJson<'a> {
    id: &'a str,
    #[serde(flatten)]
    verdict: VerdictJson<'a>,
}

#[derive(Serialize)]
struct EndedJson {
    descriptor: usize,
    actual: u64,
    released: u64,
    before: bool,
}

/// Answers one of the paths.
pub(super) async fn answer(service: &Service, kind: HoldRequest, body: &[u8]) -> Reply {
    let (reply, done) = match answer_uncounted(service, kind, body).await {
        Ok(reply) => {
            let done = match reply.status {
                StatusCode::OK => Outcome::Done,
                StatusCode::NOT_FOUND => Outcome::NotFound,
                StatusCode::BAD_REQUEST => Outcome::Invalid,
                _ => Outcome::Denied,
            };
            (reply, done)
        }
        Err(error) => {
            let done = match &error {
                ServiceError::Request(_) => Outcome::Invalid,
                ServiceError::Shed(_) => Outcome::Shed,
                ServiceError::Backend(_) | ServiceError::NoRules => Outcome::Error,
            };
            (error_reply(&error), done)
        }
    };
    service.counters().hold_request(kind, done);
    reply
}

async fn answer_uncounted(
    service: &Service,
    kind: HoldRequest,
    body: &[u8],
) -> Result<Reply, ServiceError> {
    let asked = match serde_json::from_slice::<Object<Held>>(body) {
        Ok(Object(asked)) => asked,
        Err(error) => return Ok(bad_request(error.to_string())),
    };
    let id = match (asked.id, kind) {
        (Some(id), _) if id.is_empty() || id.len() > OWN_MAX => {
            return Ok(bad_request(format!("id: must have 1 to {OWN_MAX} bytes")));
        }
        (Some(id), _) => id,
        (None, HoldRequest::Reserve) => LeaseName::new().as_text().to_owned(),
        (None, _) => {
            return Ok(bad_request(
                "id: required, the name of the reservation or lease".to_owned(),
            ));
        }
    };
    let foreign = match kind {
        HoldRequest::Reserve => asked.actual.is_some(),
        HoldRequest::Commit => asked.ttl_ms.is_some(),
        HoldRequest::Cancel | HoldRequest::Release => {
            asked.actual.is_some() || asked.ttl_ms.is_some()
        }
    };
    if foreign {
        let reason = "ttl_ms belongs to /v1/reserve, actual to /v1/commit";
        return Ok(bad_request(reason.to_owned()));
    }
    let request = RequestJson {
        domain: asked.domain,
        descriptors: asked.descriptors,
        hits_addend: asked.hits_addend,
    }
    .into_message();
    match kind {
        HoldRequest::Reserve => {
            let ttl_ms = asked.ttl_ms.map_or(DEFAULT_TTL_MS, Number::get);
            if !(1..=MAX_TTL_MS).contains(&ttl_ms) {
                return Ok(bad_request(format!("ttl_ms: must be 1 to {MAX_TTL_MS}")));
            }
            reserve(service, &request, &id, Duration::from_millis(ttl_ms)).await
        }
        HoldRequest::Commit => match asked.actual {
            Some(actual) => end(service, &request, &id, actual.get()).await,
            None => Ok(bad_request("actual: required, the actual cost".to_owned())),
        },
        HoldRequest::Cancel => end(service, &request, &id, 0).await,
        HoldRequest::Release => release(service, &request, &id).await,
    }
}

async fn reserve(
    service: &Service,
    request: &RateLimitRequest,
    id: &str,
    ttl: Duration,
) -> Result<Reply, ServiceError> {
    let asked = clock::now();
    let reserved = service.reserve(request, id.as_bytes(), ttl, |decided| {
        let mut reply = match decided.allowed {
            true => {
                let verdict = VerdictJson::new(&decided);
                json_reply(StatusCode::OK, &ReservedJson { id, verdict })
            }
            false => denied(&decided, request),
        };
        tell(&mut reply, &decided, request, service.http_headers(), asked);
        reply
    });
    reserved.await
}

async fn end(
    service: &Service,
    request: &RateLimitRequest,
    id: &str,
    actual: u64,
) -> Result<Reply, ServiceError> {
    let ended = service.end(request, id.as_bytes(), actual).await?;
    if ended.is_empty() {
        return Ok(nothing_held(id));
    }
    let ended: Vec<EndedJson> = ended
        .into_iter()
        .map(|limit| EndedJson {
            descriptor: limit.descriptor,
            actual: limit.actual,
            released: limit.released,
            before: limit.before,
        })
        .collect();
    Ok(json_reply(
        StatusCode::OK,
        &serde_json::json!({ "id": id, "limits": ended }),
    ))
}

async fn release(
    service: &Service,
    request: &RateLimitRequest,
    id: &str,
) -> Result<Reply, ServiceError> {
    Ok(match service.release(request, id.as_bytes()).await? {
        0 => nothing_held(id),
        units => json_reply(
            StatusCode::OK,
            &serde_json::json!({ "id": id, "released": units }),
        ),
    })
}

fn nothing_held(id: &str) -> Reply {
    let detail = format!(
        "nothing is held under '{}'; it may have expired",
        id.escape_debug()
    );
    problem_reply(&Problem::new(StatusCode::NOT_FOUND, detail))
}
