//! HTTP/1.1: `/json` takes and gives the gRPC messages as JSON, `/healthcheck` says `OK`, `/metrics`
//! is for Prometheus, and `/v1` is the service's own interface, which `/openapi.json` describes.

mod body;
mod debug;
mod holds;
mod json;
pub(crate) mod problem;
mod v1;

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tollgate_wire::rls::RateLimitResponse;
use tollgate_wire::rls::rate_limit_response::Code;

use crate::service::{Service, ServiceError};
use crate::shed::{self, RETRY_SECS, Refused};
use holds::Deed;
use problem::Problem;

/// Longest head of a request, in bytes; hyper takes no less than 8 KiB.
const MAX_HEAD: usize = 16 << 10;
/// Longest wait for a request's head, from the end of the one before.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// What `/v1` takes and gives.
const OPENAPI: &str = include_str!("openapi.json");

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

type Reply = Response<Full<Bytes>>;

/// Serves one connection to its end; when `stop` turns true it ends with the request under way.
pub(crate) async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    service: Rc<Service>,
    port: Port,
    mut stop: watch::Receiver<bool>,
) {
    let handler = service_fn(|request| {
        let (service, port) = (service.clone(), port.clone());
        async move {
            let reply = match &port {
                Port::Service => reply(&service, request).await,
                Port::Debug => debug::answer(&service, &request),
                Port::Prometheus(path) => debug::answer_prometheus(&service, &request, path),
            };
            Ok::<_, Infallible>(reply)
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD)
            // Answers are short: one piece costs less than a list of two.
            .writev(false)
            .serve_connection(TokioIo::new(io), handler)
    );
    tokio::select! {
        // The peer went away or broke the protocol: there is nobody to tell.
        ended = connection.as_mut() => drop(ended),
        _ = stop.wait_for(|stop| *stop) => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}

/// What there is, with the methods it takes; none where any will do.
const PATHS: &[(&str, &[Method])] = &[
    ("/json", &[]),
    ("/healthcheck", &[]),
    ("/metrics", &[Method::GET, Method::HEAD]),
    ("/openapi.json", &[Method::GET, Method::HEAD]),
    ("/v1/decide", &[Method::POST]),
    ("/v1/explain", &[Method::POST]),
    ("/v1/reserve", &[Method::POST]),
    ("/v1/commit", &[Method::POST]),
    ("/v1/cancel", &[Method::POST]),
    ("/v1/release", &[Method::POST]),
];

async fn reply(service: &Service, request: Request<Incoming>) -> Reply {
    let path = request.uri().path();
    let Some((path, methods)) = PATHS.iter().find(|(known, _)| *known == path) else {
        let known: Vec<&str> = PATHS.iter().map(|(path, _)| *path).collect();
        let detail = format!("this service has {}", known.join(", "));
        return problem_reply(&Problem::new(StatusCode::NOT_FOUND, detail));
    };
    if !methods.is_empty() && !methods.contains(request.method()) {
        return not_allowed(path, methods);
    }
    // What gives units back is never refused: it makes room.
    if matches!(
        *path,
        "/json" | "/v1/decide" | "/v1/explain" | "/v1/reserve"
    ) && let Some(refused) = service.refuse(shed::grpc_timeout(request.headers()))
    {
        return shed_reply(refused);
    }
    match *path {
        "/json" => answer_json(service, request).await,
        "/healthcheck" => match service.health().is_serving() {
            true => text(StatusCode::OK, "OK"),
            false => text(StatusCode::INTERNAL_SERVER_ERROR, "not serving\n"),
        },
        "/metrics" => debug::metrics(service),
        "/openapi.json" => with_type(
            StatusCode::OK,
            HeaderValue::from_static("application/json"),
            OPENAPI,
        ),
        _ => answer_v1(service, path, request).await,
    }
}

/// Whatever is under `/v1` takes a body of JSON.
async fn answer_v1(service: &Service, path: &str, request: Request<Incoming>) -> Reply {
    if !body::is_json(request.headers()) {
        let problem = Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a body is application/json",
        );
        return problem_reply(&problem);
    }
    let body = match body::read(request.into_body()).await {
        Ok(body) => body,
        Err((status, reason)) => return problem_reply(&Problem::new(status, reason)),
    };
    match path {
        "/v1/decide" => v1::decide(service, &body).await,
        "/v1/reserve" => holds::answer(service, Deed::Reserve, &body).await,
        "/v1/commit" => holds::answer(service, Deed::Commit, &body).await,
        "/v1/cancel" => holds::answer(service, Deed::Cancel, &body).await,
        "/v1/release" => holds::answer(service, Deed::Release, &body).await,
        _ => v1::explain(service, &body).await,
    }
}

fn not_allowed(path: &str, methods: &[Method]) -> Reply {
    let methods: Vec<&str> = methods.iter().map(Method::as_str).collect();
    let methods = methods.join(", ");
    let detail = format!("{path} takes {methods}");
    let mut reply = problem_reply(&Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail));
    if let Ok(allow) = HeaderValue::from_str(&methods) {
        reply.headers_mut().insert(ALLOW, allow);
    }
    reply
}

async fn answer_json(service: &Service, request: Request<Incoming>) -> Reply {
    let body = match body::read(request.into_body()).await {
        Ok(body) => body,
        Err((status, reason)) => {
            let name = status.canonical_reason().unwrap_or("Error");
            return text(status, format!("{name}: {reason}\n"));
        }
    };
    let request = match json::read_request(&body) {
        Ok(request) => request,
        Err(error) => return bad_request(&error.to_string()),
    };
    let answer = match service.answer_now(&request) {
        Some(answer) => answer,
        None => service.answer(&request).await,
    };
    match answer {
        Ok(response) => verdict(&response),
        Err(ServiceError::Request(error)) => bad_request(&error.to_string()),
        Err(ServiceError::Shed(refused)) => shed_reply(refused),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("Internal Server Error: {error}\n"),
        ),
    }
}

fn verdict(response: &RateLimitResponse) -> Reply {
    let status = match response.overall_code() {
        Code::Ok => StatusCode::OK,
        Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    };
    with_type(
        status,
        HeaderValue::from_static("application/json"),
        json::write_response(response),
    )
}

fn bad_request(reason: &str) -> Reply {
    text(StatusCode::BAD_REQUEST, format!("Bad Request: {reason}\n"))
}

/// A request that was refused because the service is overloaded, and when to come again.
fn shed_reply(refused: Refused) -> Reply {
    let mut reply = problem_reply(&Problem::reduced_capacity(refused.reason()));
    reply
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(RETRY_SECS));
    reply
}

fn problem_reply(problem: &Problem) -> Reply {
    with_type(
        problem.status(),
        HeaderValue::from_static(problem::CONTENT_TYPE),
        problem.to_json(),
    )
}

fn json_reply(status: StatusCode, body: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(body).expect("the structure has text keys and plain values only");
    with_type(status, HeaderValue::from_static("application/json"), body)
}

/// The body is a problem with more members than others.
fn set_problem_type(reply: &mut Reply) {
    let problem = HeaderValue::from_static(problem::CONTENT_TYPE);
    reply.headers_mut().insert(CONTENT_TYPE, problem);
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    with_type(
        status,
        HeaderValue::from_static("text/plain; charset=utf-8"),
        body,
    )
}

fn with_type(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}
