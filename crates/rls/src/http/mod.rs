//! HTTP/1.1: `/json` takes and gives the gRPC messages as JSON, `/healthcheck` says `OK`, `/metrics`
//! is for Prometheus.

mod json;

use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tollgate_wire::rls::RateLimitResponse;
use tollgate_wire::rls::rate_limit_response::Code;

use crate::service::{Service, ServiceError};

/// Longest body of a request, in bytes.
const MAX_BODY: usize = 1 << 20;
/// Longest head of a request, in bytes; hyper takes no less than 8 KiB.
const MAX_HEAD: usize = 16 << 10;
/// Longest wait for a request's head, from the end of the one before.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for a request's body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

type Reply = Response<Full<Bytes>>;

/// Serves one connection to its end; when `stop` turns true it ends with the request under way.
pub(crate) async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    service: Rc<Service>,
    mut stop: watch::Receiver<bool>,
) {
    let handler = service_fn(|request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(reply(&service, request).await) }
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

async fn reply(service: &Service, request: Request<Incoming>) -> Reply {
    match request.uri().path() {
        "/json" => json_reply(service, request).await,
        "/healthcheck" => match service.health().is_serving() {
            true => text(StatusCode::OK, "OK"),
            false => text(StatusCode::INTERNAL_SERVER_ERROR, "not serving\n"),
        },
        "/metrics" => with_type(
            StatusCode::OK,
            HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
            service.metrics(),
        ),
        _ => text(
            StatusCode::NOT_FOUND,
            "Not Found: this service has /json, /healthcheck and /metrics\n",
        ),
    }
}

async fn json_reply(service: &Service, request: Request<Incoming>) -> Reply {
    let body = Limited::new(request.into_body(), MAX_BODY).collect();
    let body = match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let reason = format!("Payload Too Large: the body is longer than {MAX_BODY} bytes\n");
            return text(StatusCode::PAYLOAD_TOO_LARGE, reason);
        }
        Ok(Err(error)) => return bad_request(&error.to_string()),
        Err(_) => {
            return text(
                StatusCode::REQUEST_TIMEOUT,
                "Request Timeout: the body did not come whole\n",
            );
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
        Err(ServiceError::Backend(error)) => text(
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
