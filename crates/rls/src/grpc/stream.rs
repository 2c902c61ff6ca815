//! Calls whose messages come and go one after another: reflection, and following the health.

use std::future::poll_fn;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use prost::Message;

use super::call::{PREFIX, undecodable};
use super::reflection::{self, ServerReflectionRequest};
use super::status::{Code, GRPC_CONTENT, Status};
use crate::health::Health;

/// Longest message of a stream, in bytes.
const MAX_MESSAGE: usize = 64 << 10;

/// Why a stream ends before its peer ended it.
enum End {
    /// Nobody reads it any more.
    Gone,
    Status(Status),
}

impl From<h2::Error> for End {
    fn from(_: h2::Error) -> Self {
        Self::Gone
    }
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// Messages as they come.
struct Incoming {
    body: RecvStream,
    bytes: BytesMut,
}

impl Incoming {
    /// The next message; `None` after the last.
    async fn next(&mut self) -> Result<Option<Bytes>, End> {
        loop {
            if let Some(&[compressed, a, b, c, d]) = self.bytes.first_chunk::<PREFIX>() {
                let len = u32::from_be_bytes([a, b, c, d]) as usize;
                if compressed != 0 {
                    let reason = "compressed messages are not supported";
                    return Err(Status::new(Code::Unimplemented, reason).into());
                }
                if len > MAX_MESSAGE {
                    let reason = format!("a message is longer than {MAX_MESSAGE} bytes");
                    return Err(Status::new(Code::ResourceExhausted, reason).into());
                }
                if self.bytes.len() >= PREFIX + len {
                    self.bytes.advance(PREFIX);
                    return Ok(Some(self.bytes.split_to(len).freeze()));
                }
            }
            match self.body.data().await {
                None if self.bytes.is_empty() => return Ok(None),
                None => {
                    let reason = "the stream ends within a message";
                    return Err(Status::new(Code::InvalidArgument, reason).into());
                }
                Some(bytes) => {
                    let bytes = bytes?;
                    self.body.flow_control().release_capacity(bytes.len())?;
                    self.bytes.put(bytes);
                }
            }
        }
    }
}

/// Messages as the peer has room for them.
struct Outgoing(SendStream<Bytes>);

impl Outgoing {
    fn begin(respond: &mut SendResponse<Bytes>) -> Result<Self, h2::Error> {
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT);
        respond.send_response(response, false).map(Self)
    }

    /// Sends a message; waits while the peer takes none, so that no more than one is kept.
    async fn send(&mut self, message: &impl Message) -> Result<(), End> {
        let len = message.encoded_len();
        let mut bytes = BytesMut::with_capacity(PREFIX + len);
        bytes.put_u8(0);
        // Descriptions and states are far below 4 GiB.
        bytes.put_u32(len as u32);
        message.encode_raw(&mut bytes);
        let mut bytes = bytes.freeze();
        while !bytes.is_empty() {
            self.0.reserve_capacity(bytes.len());
            let room = poll_fn(|cx| self.0.poll_capacity(cx)).await;
            let room = room.ok_or(End::Gone)??;
            self.0
                .send_data(bytes.split_to(room.min(bytes.len())), false)?;
        }
        Ok(())
    }

    fn end(mut self, status: Option<Status>) -> Result<(), h2::Error> {
        let mut trailers = HeaderMap::with_capacity(2);
        match status {
            None => Code::ok(&mut trailers),
            Some(status) => status.write(&mut trailers),
        }
        self.0.send_trailers(trailers)
    }
}

/// Answers questions about the services until the peer has no more.
pub(super) async fn reflect(body: RecvStream, respond: SendResponse<Bytes>) {
    run(body, respond, async |incoming, outgoing| {
        while let Some(message) = incoming.next().await? {
            let request =
                ServerReflectionRequest::decode(message).map_err(|error| undecodable(&error))?;
            outgoing.send(&reflection::answer(request)).await?;
        }
        Ok(())
    })
    .await;
}

/// Tells the health of a service, and every change of it, until the peer goes or the service stops.
pub(super) async fn watch(body: RecvStream, respond: SendResponse<Bytes>, health: Health) {
    run(body, respond, async |incoming, outgoing| {
        let message = incoming
            .next()
            .await?
            .ok_or_else(|| Status::new(Code::InvalidArgument, "the call has no message"))?;
        let request = super::health::HealthCheckRequest::decode(message)
            .map_err(|error| undecodable(&error))?;
        if !super::health::is_known(&request.service) {
            // The protocol wants the call kept, because the service might come.
            let unknown = super::health::response(super::health::SERVICE_UNKNOWN);
            outgoing.send(&unknown).await?;
        }
        let mut follower = health.follow();
        loop {
            let next = tokio::select! {
                next = follower.next() => next,
                // Whoever gave up the call is not kept in mind.
                _ = poll_fn(|cx| outgoing.0.poll_reset(cx)) => return Err(End::Gone),
            };
            match next {
                Some(_) if !super::health::is_known(&request.service) => {}
                Some(serving) => {
                    let status = super::health::status(serving);
                    outgoing.send(&super::health::response(status)).await?;
                }
                None => return Err(Status::new(Code::Unavailable, "the service stops").into()),
            }
        }
    })
    .await;
}

async fn run(
    body: RecvStream,
    mut respond: SendResponse<Bytes>,
    talk: impl AsyncFnOnce(&mut Incoming, &mut Outgoing) -> Result<(), End>,
) {
    let mut incoming = Incoming {
        body,
        bytes: BytesMut::new(),
    };
    let Ok(mut outgoing) = Outgoing::begin(&mut respond) else {
        return;
    };
    let ended = match talk(&mut incoming, &mut outgoing).await {
        Ok(()) => outgoing.end(None),
        Err(End::Status(status)) => outgoing.end(Some(status)),
        Err(End::Gone) => return,
    };
    // A peer that has gone away needs no trailers.
    drop(ended);
}
