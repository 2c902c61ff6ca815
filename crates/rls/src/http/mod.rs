//! HTTP/1.1: `/json` takes and gives the gRPC messages as JSON, `/healthcheck` says `OK`, `/metrics`
//! is for Prometheus, and `/v1` is the service's own interface, which `/openapi.json` describes.

mod connection;
mod debug;
mod direct;
mod holds;
mod json;
pub(crate) mod problem;
mod reply;
mod v1;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use tollgate_wire::http1::Head;
use tollgate_wire::http2;
use tollgate_wire::rls::RateLimitResponse;
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::trace::TraceParent;

use crate::metrics::HoldRequest;
use crate::service::{Service, ServiceError};
use crate::shed::{RETRY_SECS, Refused};
use crate::traces::{CallSpan, Parent};
pub(crate) use connection::{Date, Shared, serve};
pub(crate) use direct::{Talk, requests_in};
pub(crate) use json::json_request;
use problem::Problem;
use reply::Reply;

/// Longest body of a request, in bytes.
const MAX_BODY: usize = 1 << 20;
/// What `/v1` takes and gives.
const OPENAPI: &str = include_str!("openapi.json");
const JSON: &str = "application/json";

/// What a port of HTTP is for.
#[derive(Clone, Debug)]
pub(crate) enum Port {
    /// Decisions.
    Service,
    /// Whoever looks into the service.
    Debug,
    /// Metrics alone, under this path.
    Prometheus(Arc<str>),
}

/// What a request with a body asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Json,
    Decide,
    Explain,
    Held(HoldRequest),
}

/// What the head of a request leads to.
enum Looked {
    /// Its body is not needed.
    Reply(Reply),
    /// And what it is part of, where calls have spans.
    Asks(Ask, Option<Parent>),
}

/// What there is, with the methods it takes beside OPTIONS; none where any will do.
const PATHS: &[(&str, &[&str])] = &[
    ("/json", &[]),
    ("/healthcheck", &[]),
    ("/metrics", READ),
    ("/openapi.json", READ),
    ("/v1/decide", POST),
    ("/v1/explain", POST),
    ("/v1/reserve", POST),
    ("/v1/commit", POST),
    ("/v1/cancel", POST),
    ("/v1/release", POST),
];
const READ: &[&str] = &["GET", "HEAD"];
const POST: &[&str] = &["POST"];
const OPTIONS: &str = "OPTIONS";

/// Looks at the head of a request before its body has come. `refuse` judges a request for a decision by how long who asks
/// waits for it.
fn look(
    service: &Service,
    port: &Port,
    head: &Head<'_>,
    refuse: impl FnOnce(Option<Duration>) -> Option<Refused>,
) -> Looked {
    match port {
        Port::Service => look_at_service(service, head, refuse),
        Port::Debug => Looked::Reply(debug::answer(service, head)),
        Port::Prometheus(path) => Looked::Reply(debug::answer_prometheus(service, head, path)),
    }
}

fn look_at_service(
    service: &Service,
    head: &Head<'_>,
    refuse: impl FnOnce(Option<Duration>) -> Option<Refused>,
) -> Looked {
    if head.method == OPTIONS && head.path == "*" {
        return Looked::Reply(options("GET, HEAD, POST"));
    }
    let Some((path, methods)) = PATHS.iter().find(|(known, _)| *known == head.path) else {
        let known: Vec<&str> = PATHS.iter().map(|(path, _)| *path).collect();
        let detail = format!("this service has {}", known.join(", "));
        let problem = Problem::new(StatusCode::NOT_FOUND, detail);
        return Looked::Reply(problem_reply(&problem));
    };
    if !methods.is_empty() && !methods.contains(&head.method) {
        return Looked::Reply(not_taken(path, methods, head.method));
    }
    let ask = match *path {
        "/json" => Ask::Json,
        "/v1/decide" => Ask::Decide,
        "/v1/explain" => Ask::Explain,
        "/v1/reserve" => Ask::Held(HoldRequest::Reserve),
        "/v1/commit" => Ask::Held(HoldRequest::Commit),
        "/v1/cancel" => Ask::Held(HoldRequest::Cancel),
        "/v1/release" => Ask::Held(HoldRequest::Release),
        "/healthcheck" => return Looked::Reply(healthcheck(service)),
        "/metrics" => return Looked::Reply(debug::metrics(service)),
        _ => return Looked::Reply(Reply::new(StatusCode::OK, JSON, OPENAPI.as_bytes())),
    };
    // What gives units back is never refused: it makes room.
    let makes_room = matches!(ask, Ask::Held(kind) if kind != HoldRequest::Reserve);
    if !makes_room && let Some(refused) = refuse(head.timeout.and_then(http2::grpc_timeout)) {
        return Looked::Reply(shed_reply(refused));
    }
    if ask != Ask::Json && !head.content_type.is_none_or(is_json) {
        return Looked::Reply(unsupported(
            ask,
            "the body has to be JSON: say so with the header content-type: application/json",
        ));
    }
    if head.is_encoded {
        let mut reply = unsupported(ask, "the body has to come as it is, without compression");
        reply.set("accept-encoding".into(), "identity".to_owned());
        return Looked::Reply(reply);
    }
    let parent = service.tracer().and(head.trace);
    let parent = parent.and_then(TraceParent::parse).map(|at| Parent {
        at,
        state: head.trace_state.map(Box::from),
    });
    Looked::Asks(ask, parent)
}

/// Whether a body of this type is JSON.
fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next();
    let essence = essence
        .unwrap_or_default()
        .trim_ascii()
        .to_ascii_lowercase();
    essence == b"application/json"
        || (essence.starts_with(b"application/") && essence.ends_with(b"+json"))
}

/// Answers a request that came whole; `ask` is what its head asked for, and `parent` what it is part of.
async fn answer(service: &Service, ask: Option<Ask>, parent: Option<Parent>, body: &[u8]) -> Reply {
    let Some(ask) = ask else {
        return refusal(None, StatusCode::BAD_REQUEST, "a body without a head");
    };
    let span = service.tracer().and_then(|tracer| {
        let state = parent.as_ref().and_then(|parent| parent.state.as_deref());
        let at = parent.as_ref().map(|parent| parent.at);
        tracer.call(at, state, ask.span().into())
    });
    let call = span.as_ref();
    let reply = match ask {
        Ask::Json => answer_json(service, call, body).await,
        Ask::Decide => v1::decide(service, call, body).await,
        Ask::Explain => v1::explain(service, body).await,
        Ask::Held(kind) => holds::answer(service, kind, body).await,
    };
    if let Some(call) = call {
        let status = reply.status.as_u16();
        call.set("http.response.status_code", i64::from(status));
        if reply.status.is_server_error() {
            call.fail(reply.status.canonical_reason().unwrap_or_default());
        }
    }
    reply
}

impl Ask {
    /// The name of its span.
    fn span(self) -> &'static str {
        match self {
            Self::Json => "POST /json",
            Self::Decide => "POST /v1/decide",
            Self::Explain => "POST /v1/explain",
            Self::Held(HoldRequest::Reserve) => "POST /v1/reserve",
            Self::Held(HoldRequest::Commit) => "POST /v1/commit",
            Self::Held(HoldRequest::Cancel) => "POST /v1/cancel",
            Self::Held(HoldRequest::Release) => "POST /v1/release",
        }
    }
}

/// Answers a request whose body is not taken: `/json` in the words of envoyproxy/ratelimit, all others in problems.
fn refusal(ask: Option<Ask>, status: StatusCode, reason: &str) -> Reply {
    match ask {
        Some(Ask::Json) => {
            let name = status.canonical_reason().unwrap_or("Error");
            text(status, format!("{name}: {reason}\n"))
        }
        _ => problem_reply(&Problem::new(status, reason)),
    }
}

fn healthcheck(service: &Service) -> Reply {
    match service.health().is_serving() {
        true => text(StatusCode::OK, "OK"),
        false => text(StatusCode::INTERNAL_SERVER_ERROR, "not serving\n"),
    }
}

fn unsupported(ask: Ask, reason: &str) -> Reply {
    refusal(Some(ask), StatusCode::UNSUPPORTED_MEDIA_TYPE, reason)
}

/// Says which methods there are.
fn options(methods: &str) -> Reply {
    let mut reply = text(StatusCode::OK, "");
    reply.set("allow".into(), format!("{methods}, {OPTIONS}"));
    reply
}

/// Answers a method that a path does not take but to tell of those that it does.
fn not_taken(path: &str, methods: &[&str], method: &str) -> Reply {
    let methods = methods.join(", ");
    if method == OPTIONS {
        return options(&methods);
    }
    let detail = format!("{path} takes {methods}");
    let mut reply = problem_reply(&Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail));
    reply.set("allow".into(), format!("{methods}, {OPTIONS}"));
    reply
}

async fn answer_json(service: &Service, call: Option<&CallSpan>, body: &[u8]) -> Reply {
    let request = match json::read_request(body) {
        Ok(request) => request,
        Err(error) => return bad_request(&error.to_string()),
    };
    let answer = match service.answer_now(&request, call) {
        Some(answer) => answer,
        None => service.answer(&request, call).await,
    };
    match answer {
        Ok(response) => verdict(&response),
        Err(ServiceError::Request(error)) => bad_request(&error.to_string()),
        Err(ServiceError::Shed(refused)) => shed_reply(refused),
        Err(error) => refusal(
            Some(Ask::Json),
            StatusCode::INTERNAL_SERVER_ERROR,
            &error.to_string(),
        ),
    }
}

fn verdict(response: &RateLimitResponse) -> Reply {
    let status = match response.overall_code() {
        Code::Ok => StatusCode::OK,
        Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Reply::new(status, JSON, json::write_response(response))
}

fn bad_request(reason: &str) -> Reply {
    refusal(Some(Ask::Json), StatusCode::BAD_REQUEST, reason)
}

/// A request that was refused because the service is overloaded, and when to come again.
fn shed_reply(refused: Refused) -> Reply {
    // Past saturation this is what most time would go into.
    static PROBLEMS: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
        let all = [Refused::Deadline, Refused::Overload, Refused::Queue];
        all.map(|refused| Problem::reduced_capacity(refused.reason()).to_json())
    });
    let problem = PROBLEMS[refused as usize].as_slice();
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let mut reply = Reply::new(status, problem::CONTENT_TYPE, problem);
    reply.set("retry-after".into(), RETRY_SECS.to_string());
    reply
}

fn problem_reply(problem: &Problem) -> Reply {
    Reply::new(problem.status(), problem::CONTENT_TYPE, problem.to_json())
}

fn json_reply(status: StatusCode, body: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(body).expect("the structure has text keys and plain values only");
    Reply::new(status, JSON, body)
}

fn text(status: StatusCode, body: impl Into<Cow<'static, str>>) -> Reply {
    let body = match body.into() {
        Cow::Borrowed(body) => Cow::Borrowed(body.as_bytes()),
        Cow::Owned(body) => Cow::Owned(body.into_bytes()),
    };
    Reply::new(status, "text/plain; charset=utf-8", body)
}
