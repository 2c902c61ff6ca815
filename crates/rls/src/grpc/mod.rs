//! gRPC on HTTP/2: the rate limit service, the health check, and reflection.
//!
//! All calls of a connection live in its one task. What came in is accepted first and answered together, so
//! that one write carries the answers; a call is answered in place if nothing has to be waited for, and
//! becomes a boxed future only otherwise.

mod call;
mod descriptors;
mod files;
mod health;
mod reflection;
mod status;
mod stream;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h2::server::{Connection, SendResponse};
use h2::{RecvStream, server};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::service::Service;
use crate::shed::grpc_timeout;
use call::{Ask, Call, Refusal, asks_for};
use status::{Code, Status};

/// Most calls of one connection at the same time.
const MAX_STREAMS: u32 = 256;
/// Longest list of header fields of a call, in bytes.
const MAX_HEADER_LIST: u32 = 16 << 10;
/// Most bytes a connection may send before it is told that earlier ones were taken.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Longest wait for a new connection's first words.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer without calls may take to agree that the connection ends.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(250);

type Accepted = (Request<RecvStream>, SendResponse<Bytes>);
type Pending = Pin<Box<dyn Future<Output = ()>>>;

/// Serves one connection to its end. When `stop` turns true no new calls are taken and it ends with the
/// last of those under way.
pub(crate) async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    service: Rc<Service>,
    mut stop: watch::Receiver<bool>,
) {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, builder.handshake(io));
    // A peer that speaks no HTTP/2, or nothing, has nobody to be told.
    let Ok(Ok(connection)) = handshake.await else {
        return;
    };
    let mut driver = Driver {
        connection,
        service,
        accepted: Vec::new(),
        pending: FuturesUnordered::new(),
    };
    let mut stopped = pin!(async move { stop.wait_for(|stop| *stop).await.is_ok() });
    let mut goodbye = pin!(None::<Sleep>);
    poll_fn(|cx| {
        if goodbye.is_none() && stopped.as_mut().poll(cx).is_ready() {
            driver.connection.graceful_shutdown();
            goodbye.set(Some(tokio::time::sleep(GOODBYE_TIMEOUT)));
        }
        if driver.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match goodbye.as_mut().as_pin_mut() {
            Some(timer) if driver.pending.is_empty() => timer.poll(cx),
            _ => Poll::Pending,
        }
    })
    .await;
}

struct Driver<IO: AsyncRead + AsyncWrite + Unpin> {
    connection: Connection<IO, Bytes>,
    service: Rc<Service>,
    /// Calls that came in with the last read; emptied before the next.
    accepted: Vec<Accepted>,
    pending: FuturesUnordered<Pending>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Driver<IO> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let ended = self.accept(cx);
            let mut progress = !self.accepted.is_empty();
            let (began, mut answered) = (progress.then(Instant::now), 0);
            for (request, respond) in self.accepted.drain(..) {
                let asks = asks_for(&request);
                if let Ok(ask @ (Ask::HealthWatch | Ask::Reflection)) = asks {
                    self.pending
                        .push(stream_of(ask, request, respond, &self.service));
                    progress = true;
                    continue;
                }
                let asks = asks.and_then(|ask| {
                    let asked = matches!(ask, Ask::ShouldRateLimit);
                    let refused = asked
                        .then(|| refuse_late(&self.service, &request))
                        .flatten();
                    refused.map_or(Ok(ask), Err)
                });
                let call = Call::new(asks, request, respond);
                if let Some(call) = call.answer_now(&self.service, cx) {
                    self.pending
                        .push(Box::pin(answer_later(call, self.service.clone())));
                    progress = true;
                } else {
                    answered += 1;
                }
            }
            if let Some(began) = began {
                // All of them leave with the same write.
                let took = began.elapsed();
                self.service.counters().response_time(took, answered);
            }
            while let Poll::Ready(Some(())) = self.pending.poll_next_unpin(cx) {
                progress = true;
            }
            if ended {
                // Nobody is left to read the answers of calls still under way.
                return Poll::Ready(());
            }
            if !progress {
                return Poll::Pending;
            }
        }
    }

    /// Takes all calls that are there. True when the connection has ended.
    fn accept(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok(accepted))) => self.accepted.push(accepted),
                Poll::Ready(Some(Err(_)) | None) => return true,
                Poll::Pending => return false,
            }
            if self.accepted.len() >= MAX_STREAMS as usize {
                return false;
            }
        }
    }
}

/// What is told a call that has waited for too long, before its message is looked at.
fn refuse_late(service: &Service, request: &Request<RecvStream>) -> Option<Refusal> {
    let refused = service.refuse(grpc_timeout(request.headers()))?;
    let status = Status::new(Code::Unavailable, refused.reason());
    Some(Refusal::Status(status))
}

/// Answers a call that has to wait, and counts its time.
async fn answer_later(call: Call, service: Rc<Service>) {
    let began = Instant::now();
    call.answer(service.clone()).await;
    service.counters().response_time(began.elapsed(), 1);
}

/// A call that takes and gives messages as long as its peer wants.
fn stream_of(
    ask: Ask,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    service: &Service,
) -> Pending {
    let body = request.into_body();
    match ask {
        Ask::HealthWatch => Box::pin(stream::watch(body, respond, service.health().clone())),
        _ => Box::pin(stream::reflect(body, respond)),
    }
}
