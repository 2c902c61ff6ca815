//! One call: its message, the decision, the answer.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use prost::Message;
use tollgate_wire::rls::{RateLimitRequest, RateLimitResponse, SHOULD_RATE_LIMIT};

use super::health;
use super::status::{Code, GRPC_CONTENT, Status, refuse};
use crate::service::{Service, ServiceError};

/// Longest message of a call, in bytes.
const MAX_MESSAGE: usize = 1 << 20;
/// Longest wait for the rest of a call's message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes in front of a message: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

/// What a path asks for.
#[derive(Clone, Copy)]
pub(super) enum Ask {
    ShouldRateLimit,
    HealthCheck,
    /// A stream of changes of health.
    HealthWatch,
    /// Questions about the services, one after another.
    Reflection,
}

/// One call that has no answer yet.
pub(super) struct Call {
    stage: Stage,
    body: RecvStream,
    respond: SendResponse<Bytes>,
    received: Received,
}

/// How far a call has come.
enum Stage {
    /// Its message is on the way.
    Receiving(Ask),
    /// Its message is a request to the service.
    Asked(RateLimitRequest),
    /// It asked something that needs no decision.
    Answered(Result<Bytes, Status>),
    /// It will not be decided.
    Refused(Refusal),
    /// Nobody waits for an answer.
    Over,
}

/// Why a call is not decided.
pub(super) enum Refusal {
    /// It is no gRPC call; said in HTTP's own words.
    NotGrpc(StatusCode),
    Status(Status),
}

/// The body so far. Most come in one piece, which is used as it is.
enum Received {
    Nothing,
    One(Bytes),
    Many(BytesMut),
}

impl Received {
    fn push(&mut self, bytes: Bytes) {
        match std::mem::replace(self, Self::Nothing) {
            Self::Nothing => *self = Self::One(bytes),
            Self::One(first) => {
                let mut all = BytesMut::from(&first[..]);
                all.put(bytes);
                *self = Self::Many(all);
            }
            Self::Many(mut all) => {
                all.put(bytes);
                *self = Self::Many(all);
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes,
        }
    }
}

/// How far a body is.
enum Body {
    Whole,
    /// The peer gave up, or broke the rules of HTTP/2.
    Gone,
    TooLong,
    /// It did not become whole in time.
    Late,
}

impl Call {
    pub(super) fn new(
        asks: Result<Ask, Refusal>,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
    ) -> Self {
        let stage = asks.map_or_else(Stage::Refused, Stage::Receiving);
        Self {
            stage,
            body: request.into_body(),
            respond,
            received: Received::Nothing,
        }
    }

    /// Answers if nothing has to be waited for; gives the call back otherwise.
    pub(super) fn answer_now(mut self, service: &Service, cx: &mut Context<'_>) -> Option<Self> {
        if !matches!(self.stage, Stage::Refused(_)) {
            let Poll::Ready(body) = self.poll_body(cx) else {
                return Some(self);
            };
            self.take_message(body, service);
        }
        let answer = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Asked(request) => match service.answer_now(&request) {
                Some(answer) => finish(answer),
                None => {
                    return Some(Self {
                        stage: Stage::Asked(request),
                        ..self
                    });
                }
            },
            stage => stage.answer()?,
        };
        hand_over(send(answer, &mut self.respond));
        None
    }

    /// Answers after waiting for the rest of the message, or for the backend.
    pub(super) async fn answer(mut self, service: Rc<Service>) {
        if matches!(self.stage, Stage::Receiving(_)) {
            let body =
                tokio::time::timeout(MESSAGE_TIMEOUT, poll_fn(|cx| self.poll_body(cx))).await;
            self.take_message(body.unwrap_or(Body::Late), &service);
        }
        let answer = match self.stage {
            Stage::Asked(request) => Some(finish(service.answer(&request).await)),
            stage => stage.answer(),
        };
        if let Some(answer) = answer {
            hand_over(send(answer, &mut self.respond));
        }
    }

    /// Takes what came of the body, until it is whole or cannot become so.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Body> {
        loop {
            if self.body.is_end_stream() {
                return Poll::Ready(Body::Whole);
            }
            match self.body.poll_data(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Body::Whole),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Body::Gone),
                Poll::Ready(Some(Ok(bytes))) => {
                    if self.received.bytes().len() + bytes.len() > MAX_MESSAGE + PREFIX {
                        return Poll::Ready(Body::TooLong);
                    }
                    if self
                        .body
                        .flow_control()
                        .release_capacity(bytes.len())
                        .is_err()
                    {
                        return Poll::Ready(Body::Gone);
                    }
                    self.received.push(bytes);
                }
            }
        }
    }

    /// From a body that is whole, or will not be, to what is asked.
    fn take_message(&mut self, body: Body, service: &Service) {
        let Stage::Receiving(ask) = self.stage else {
            return;
        };
        let message = match body {
            Body::Whole => unframed(self.received.bytes()),
            Body::Gone => {
                self.stage = Stage::Over;
                return;
            }
            Body::Late => Err(Status::new(
                Code::DeadlineExceeded,
                "the call's message did not come whole",
            )),
            Body::TooLong => {
                let reason = format!("the call's message is longer than {MAX_MESSAGE} bytes");
                Err(Status::new(Code::ResourceExhausted, reason))
            }
        };
        self.stage = match (message, ask) {
            (Err(status), _) => Stage::Refused(Refusal::Status(status)),
            (Ok(message), Ask::HealthCheck) => Stage::Answered(check_health(message, service)),
            (Ok(message), _) => match RateLimitRequest::decode(message) {
                Ok(request) => Stage::Asked(request),
                Err(error) => Stage::Refused(Refusal::Status(undecodable(&error))),
            },
        };
    }
}

impl Stage {
    /// What is left to say without asking the service; `None` when nobody waits for it.
    fn answer(self) -> Option<Result<Bytes, Refusal>> {
        match self {
            Self::Refused(refusal) => Some(Err(refusal)),
            Self::Answered(answer) => Some(answer.map_err(Refusal::Status)),
            Self::Receiving(_) | Self::Asked(_) | Self::Over => None,
        }
    }
}

/// The service's answer as it goes onto the wire.
fn finish(answer: Result<RateLimitResponse, ServiceError>) -> Result<Bytes, Refusal> {
    answer
        .map(|response| framed(&response))
        .map_err(|error| Refusal::Status(status_of(error)))
}

impl Refusal {
    fn send(self, respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
        match self {
            Self::NotGrpc(code) => refuse(code, respond),
            Self::Status(status) => status.send(respond),
        }
    }
}

/// What the head of a call asks for.
pub(super) fn asks_for(request: &Request<RecvStream>) -> Result<Ask, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::NotGrpc(StatusCode::METHOD_NOT_ALLOWED));
    }
    let content = request
        .headers()
        .get(CONTENT_TYPE)
        .map_or(&[][..], HeaderValue::as_bytes);
    if !content.starts_with(b"application/grpc") {
        return Err(Refusal::NotGrpc(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    match request.uri().path() {
        SHOULD_RATE_LIMIT => Ok(Ask::ShouldRateLimit),
        "/grpc.health.v1.Health/Check" => Ok(Ask::HealthCheck),
        "/grpc.health.v1.Health/Watch" => Ok(Ask::HealthWatch),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Ok(Ask::Reflection),
        other => {
            let reason = format!("unknown method {other}");
            Err(Refusal::Status(Status::new(Code::Unimplemented, reason)))
        }
    }
}

/// The one message of a unary call.
fn unframed(body: &[u8]) -> Result<&[u8], Status> {
    let bad = |reason| Err(Status::new(Code::InvalidArgument, reason));
    let Some((&[compressed, a, b, c, d], message)) = body.split_first_chunk::<PREFIX>() else {
        return bad("the call has no message");
    };
    match compressed {
        0 => {}
        1 => {
            return Err(Status::new(
                Code::Unimplemented,
                "compressed messages are not supported",
            ));
        }
        _ => return bad("the message's prefix is not valid"),
    }
    if u32::from_be_bytes([a, b, c, d]) as usize != message.len() {
        return bad("the call's length is not that of one message");
    }
    Ok(message)
}

/// A message with its prefix.
fn framed(response: &impl Message) -> Bytes {
    let len = response.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + len);
    bytes.put_u8(0);
    // A response is as long as its request allows, far below 4 GiB.
    bytes.put_u32(len as u32);
    response.encode_raw(&mut bytes);
    bytes.freeze()
}

/// The health of one of the services there are.
fn check_health(message: &[u8], service: &Service) -> Result<Bytes, Status> {
    let request =
        health::HealthCheckRequest::decode(message).map_err(|error| undecodable(&error))?;
    if !health::is_known(&request.service) {
        let reason = format!("unknown service {}", request.service);
        return Err(Status::new(Code::NotFound, reason));
    }
    let status = health::status(service.health().is_serving());
    Ok(framed(&health::response(status)))
}

pub(super) fn undecodable(error: &prost::DecodeError) -> Status {
    Status::new(
        Code::InvalidArgument,
        format!("the message cannot be decoded: {error}"),
    )
}

fn status_of(error: ServiceError) -> Status {
    let code = match &error {
        ServiceError::Request(_) => Code::InvalidArgument,
        ServiceError::Backend(_) | ServiceError::NoRules | ServiceError::Shed(_) => {
            Code::Unavailable
        }
    };
    Status::new(code, error.to_string())
}

fn send(
    answer: Result<Bytes, Refusal>,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let message = match answer {
        Ok(message) => message,
        Err(refusal) => return refusal.send(respond),
    };
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT);
    let mut stream = respond.send_response(response, false)?;
    stream.send_data(message, false)?;
    let mut trailers = HeaderMap::with_capacity(1);
    Code::ok(&mut trailers);
    stream.send_trailers(trailers)
}

/// An answer that cannot be sent has lost its reader: the peer reset the call or went away.
fn hand_over(sent: Result<(), h2::Error>) {
    drop(sent);
}
