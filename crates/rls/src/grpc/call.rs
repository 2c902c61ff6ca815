//! One call: its message, the decision, the answer.

use std::borrow::Cow;
use std::rc::Rc;

use prost::Message;
use tollgate_wire::http2::{Body, Call, Head, Piece, Session, Want};
use tollgate_wire::rls::{RateLimitRequest, RateLimitResponse, SHOULD_RATE_LIMIT};

use super::exchange::Exchange;
use super::health;
use super::message::{PREFIX, too_long, unpacked};
use super::status::{Code, Status};
use crate::service::{Service, ServiceError};
use crate::traces::{CallSpan, Tracer};

/// Longest message of a call, in bytes.
const MAX_MESSAGE: usize = 1 << 20;
/// Longest body of a call.
pub(super) const MAX_BODY: usize = PREFIX + MAX_MESSAGE;

/// What a path asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    ShouldRateLimit,
    HealthCheck,
    /// A stream of changes of health.
    HealthWatch,
    /// Questions about the services, one after another.
    Reflection,
}

/// Why a call is not decided.
pub(super) enum Refusal {
    /// It is no gRPC call; said in HTTP's own words.
    NotGrpc(u16),
    Status(Status),
}

/// What is left to do for a call.
pub(super) enum Next {
    /// It is answered.
    Done,
    /// Its messages come and go one after another.
    Stream(Ask),
    /// The backend is to be asked.
    Wait(Box<Asked>),
}

/// A request for which the backend is asked, and its span if it has one.
pub(super) struct Asked {
    request: RateLimitRequest,
    span: Option<CallSpan>,
}

/// The names of spans: those of the service and of its method.
const SPAN: &str = SHOULD_RATE_LIMIT.split_at(1).1;
const HEALTH_SPAN: &str = "grpc.health.v1.Health/Check";

/// Of a path that is not known, the bytes that are told.
const PATH_TOLD: usize = 256;

/// `METHOD_NOT_ALLOWED` and `UNSUPPORTED_MEDIA_TYPE`.
const NOT_ALLOWED: u16 = 405;
const UNSUPPORTED: u16 = 415;

/// What the head of a call asks for.
pub(super) fn asks_for(head: &Head) -> Result<Ask, Refusal> {
    if !head.is_post {
        return Err(Refusal::NotGrpc(NOT_ALLOWED));
    }
    if !head.is_grpc {
        return Err(Refusal::NotGrpc(UNSUPPORTED));
    }
    if *head.path == *SHOULD_RATE_LIMIT.as_bytes() {
        return Ok(Ask::ShouldRateLimit);
    }
    match &*head.path {
        b"/grpc.health.v1.Health/Check" => Ok(Ask::HealthCheck),
        b"/grpc.health.v1.Health/Watch" => Ok(Ask::HealthWatch),
        b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Ok(Ask::Reflection),
        other => {
            let known = &other[..other.len().min(PATH_TOLD)];
            let reason = format!("unknown method {}", String::from_utf8_lossy(known));
            Err(Refusal::Status(Status::new(Code::Unimplemented, reason)))
        }
    }
}

/// When a call is taken up.
pub(super) fn wants(head: &Head) -> Want {
    match asks_for(head) {
        Ok(Ask::ShouldRateLimit | Ask::HealthCheck) => Want::Whole,
        Ok(Ask::HealthWatch | Ask::Reflection) => Want::Pieces,
        Err(_) => Want::Nothing,
    }
}

/// Answers a call if nothing has to be waited for. `bytes` are those it came in.
pub(super) fn answer_now(
    call: &Call,
    bytes: &[u8],
    service: &Service,
    session: &mut Session,
) -> Next {
    match decide_now(call, bytes, service) {
        Ok(Answer::Decision(response)) => put(&response, call.id, session),
        Ok(Answer::Health(response)) => put(&response, call.id, session),
        Ok(Answer::Later(next)) => return next,
        Err(Refusal::NotGrpc(status)) => session.answer_http(call.id, status),
        Err(Refusal::Status(status)) => status.send(call.id, session),
    }
    Next::Done
}

enum Answer {
    Decision(RateLimitResponse),
    Health(health::HealthCheckResponse),
    Later(Next),
}

fn decide_now(call: &Call, bytes: &[u8], service: &Service) -> Result<Answer, Refusal> {
    let ask = asks_for(&call.head)?;
    if matches!(ask, Ask::HealthWatch | Ask::Reflection) {
        return Ok(Answer::Later(Next::Stream(ask)));
    }
    let message = message_of(&call.body, bytes).map_err(Refusal::Status)?;
    if ask == Ask::HealthCheck {
        let span = service
            .tracer()
            .and_then(|tracer| span_of(tracer, &call.head, HEALTH_SPAN));
        let checked = check_health(&message, service);
        let code = checked
            .as_ref()
            .map_or_else(|status| status.code as i64, |_| 0);
        tell_rpc(span.as_ref(), HEALTH_SPAN, code);
        return checked.map(Answer::Health).map_err(Refusal::Status);
    }
    let request = RateLimitRequest::decode(&*message)
        .map_err(|error| Refusal::Status(undecodable(&error)))?;
    let span = service
        .tracer()
        .and_then(|tracer| span_of(tracer, &call.head, SPAN));
    match service.answer_now(&request, span.as_ref()) {
        None => Ok(Answer::Later(Next::Wait(Box::new(Asked { request, span })))),
        Some(answer) => {
            tell_status(span.as_ref(), &answer);
            answer
                .map(Answer::Decision)
                .map_err(|error| Refusal::Status(status_of(&error)))
        }
    }
}

/// The span of a call, if it has one.
fn span_of(tracer: &Rc<Tracer>, head: &Head, name: &'static str) -> Option<CallSpan> {
    tracer.call(head.trace, head.trace_state.as_deref(), name.into())
}

/// Tells a span what every call of gRPC is told of, by the names of OpenTelemetry.
fn tell_status(span: Option<&CallSpan>, answer: &Result<RateLimitResponse, ServiceError>) {
    if span.is_none() {
        return;
    }
    let code = match answer {
        Ok(_) => 0,
        Err(error) => status_of(error).code as i64,
    };
    tell_rpc(span, SPAN, code);
}

fn tell_rpc(span: Option<&CallSpan>, name: &str, code: i64) {
    let Some(span) = span else { return };
    let (service, method) = name.split_once('/').unwrap_or((name, ""));
    span.set("rpc.system", "grpc");
    span.set("rpc.service", service);
    span.set("rpc.method", method);
    span.set("rpc.grpc.status_code", code);
}

/// Answers a call for which the backend is asked.
pub(super) async fn answer_later(exchange: Exchange, asked: Box<Asked>, service: Rc<Service>) {
    let Asked { request, span } = *asked;
    let answer = service.answer(&request, span.as_ref()).await;
    tell_status(span.as_ref(), &answer);
    drop(span);
    let mut session = exchange.shared.session.borrow_mut();
    match answer {
        Ok(response) => put(&response, exchange.id, &mut session),
        Err(error) => status_of(&error).send(exchange.id, &mut session),
    }
}

/// The message of a unary call.
fn message_of<'a>(body: &'a Body, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Status> {
    match body {
        Body::Whole(Piece::Read(range)) => unframed(&bytes[range.clone()]),
        Body::Whole(Piece::Kept(kept)) => unframed(kept),
        Body::TooLong => Err(too_long(MAX_MESSAGE)),
        Body::Late | Body::Open => {
            let reason = "the call's message did not come whole";
            Err(Status::new(Code::DeadlineExceeded, reason))
        }
    }
}

/// The one message of a unary call.
fn unframed(body: &[u8]) -> Result<Cow<'_, [u8]>, Status> {
    let bad = |reason| Err(Status::new(Code::InvalidArgument, reason));
    let Some((&[compressed, a, b, c, d], message)) = body.split_first_chunk::<PREFIX>() else {
        return bad("the call has no message");
    };
    if u32::from_be_bytes([a, b, c, d]) as usize != message.len() {
        return bad("the call's length is not that of one message");
    }
    unpacked(compressed, message, MAX_MESSAGE)
}

/// Answers with one message.
fn put(response: &impl Message, id: u32, session: &mut Session) {
    let len = response.encoded_len();
    session.answer(id, PREFIX + len, |out| {
        out.push(0);
        // A response is as long as its request allows, far below 4 GiB.
        out.extend_from_slice(&(len as u32).to_be_bytes());
        response.encode_raw(out);
    });
}

/// The health of one of the services there are.
fn check_health(message: &[u8], service: &Service) -> Result<health::HealthCheckResponse, Status> {
    let request =
        health::HealthCheckRequest::decode(message).map_err(|error| undecodable(&error))?;
    if !health::is_known(&request.service) {
        return Err(Status::new(Code::NotFound, "unknown service"));
    }
    let status = health::status(service.health().is_serving());
    Ok(health::response(status))
}

pub(super) fn undecodable(error: &prost::DecodeError) -> Status {
    Status::new(
        Code::InvalidArgument,
        format!("the message cannot be decoded: {error}"),
    )
}

fn status_of(error: &ServiceError) -> Status {
    let code = match error {
        ServiceError::Request(_) => Code::InvalidArgument,
        ServiceError::Backend(_) | ServiceError::NoRules | ServiceError::Shed(_) => {
            Code::Unavailable
        }
    };
    Status::new(code, error.to_string())
}
