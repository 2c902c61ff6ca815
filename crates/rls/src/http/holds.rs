//! `/v1/reserve`, `/v1/commit`, `/v1/cancel` and `/v1/release`: units held under a name.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use tollgate_limiter::codec::ID_MAX;
use tollgate_wire::rls::RateLimitRequest;

use super::json::{DescriptorJson, Number, Object, RequestJson};
use super::problem::Problem;
use super::reply::Reply;
use super::v1::{VerdictJson, bad_request, denied, error_reply};
use super::{json_reply, problem_reply};
use crate::lease::LeaseName;
use crate::service::Service;

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
    ttl_ms: Option<u64>,
    actual: Option<u64>,
}

/// What is done with the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Reserve,
    Commit,
    Cancel,
    Release,
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
pub(super) async fn answer(service: &Service, deed: Deed, body: &[u8]) -> Reply {
    let asked = match serde_json::from_slice::<Object<Held>>(body) {
        Ok(Object(asked)) => asked,
        Err(error) => return bad_request(error.to_string()),
    };
    let id = match (asked.id, deed) {
        (Some(id), _) if id.is_empty() || id.len() > ID_MAX => {
            return bad_request(format!("id: from 1 to {ID_MAX} bytes"));
        }
        (Some(id), _) => id,
        (None, Deed::Reserve) => LeaseName::new().as_text().to_owned(),
        (None, _) => return bad_request("id: whose units are meant".to_owned()),
    };
    let foreign = match deed {
        Deed::Reserve => asked.actual.is_some(),
        Deed::Commit => asked.ttl_ms.is_some(),
        Deed::Cancel | Deed::Release => asked.actual.is_some() || asked.ttl_ms.is_some(),
    };
    if foreign {
        return bad_request("ttl_ms belongs to /v1/reserve, actual to /v1/commit".to_owned());
    }
    let request = RequestJson {
        domain: asked.domain,
        descriptors: asked.descriptors,
        hits_addend: asked.hits_addend,
    }
    .into_message();
    match deed {
        Deed::Reserve => {
            let ttl_ms = asked.ttl_ms.unwrap_or(DEFAULT_TTL_MS);
            if !(1..=MAX_TTL_MS).contains(&ttl_ms) {
                return bad_request(format!("ttl_ms: from 1 to {MAX_TTL_MS}"));
            }
            reserve(service, &request, &id, Duration::from_millis(ttl_ms)).await
        }
        Deed::Commit => match asked.actual {
            Some(actual) => end(service, &request, &id, actual).await,
            None => bad_request("actual: the cost that counts".to_owned()),
        },
        Deed::Cancel => end(service, &request, &id, 0).await,
        Deed::Release => release(service, &request, &id).await,
    }
}

async fn reserve(service: &Service, request: &RateLimitRequest, id: &str, ttl: Duration) -> Reply {
    let reserved = service.reserve(request, id.as_bytes(), ttl, |decided| {
        match decided.allowed {
            true => {
                let verdict = VerdictJson::new(&decided);
                json_reply(StatusCode::OK, &ReservedJson { id, verdict })
            }
            false => denied(&decided, request),
        }
    });
    reserved.await.unwrap_or_else(|error| error_reply(&error))
}

async fn end(service: &Service, request: &RateLimitRequest, id: &str, actual: u64) -> Reply {
    match service.end(request, id.as_bytes(), actual).await {
        Ok(ended) if ended.is_empty() => nothing_held(id),
        Ok(ended) => {
            let ended: Vec<EndedJson> = ended
                .into_iter()
                .map(|limit| EndedJson {
                    descriptor: limit.descriptor,
                    actual: limit.actual,
                    released: limit.released,
                    before: limit.before,
                })
                .collect();
            json_reply(
                StatusCode::OK,
                &serde_json::json!({ "id": id, "limits": ended }),
            )
        }
        Err(error) => error_reply(&error),
    }
}

async fn release(service: &Service, request: &RateLimitRequest, id: &str) -> Reply {
    match service.release(request, id.as_bytes()).await {
        Ok(0) => nothing_held(id),
        Ok(units) => json_reply(
            StatusCode::OK,
            &serde_json::json!({ "id": id, "released": units }),
        ),
        Err(error) => error_reply(&error),
    }
}

fn nothing_held(id: &str) -> Reply {
    let detail = format!(
        "nothing is held under '{}'; its time may be up",
        id.escape_debug()
    );
    problem_reply(&Problem::new(StatusCode::NOT_FOUND, detail))
}
