//! Calls whose messages come and go one after another: reflection, and following the health.

use std::future::poll_fn;

use prost::Message;

use super::call::undecodable;
use super::exchange::{Exchange, Gone};
use super::message::{PREFIX, unpacked};
use super::reflection::{self, ServerReflectionRequest};
use super::status::{Code, Status};
use crate::health::Health;

/// Longest message of a stream, in bytes.
const MAX_MESSAGE: usize = 64 << 10;

/// Why a stream ends before its peer ended it.
enum End {
    /// Nobody reads it any more.
    Gone,
    Status(Status),
}

impl From<Gone> for End {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// Messages as they come and go.
struct Talk {
    exchange: Exchange,
    /// What came and was not taken.
    bytes: Vec<u8>,
}

impl Talk {
    /// The next message; `None` after the last.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, End> {
        loop {
            if let Some(&[compressed, a, b, c, d]) = self.bytes.first_chunk::<PREFIX>() {
                let len = u32::from_be_bytes([a, b, c, d]) as usize;
                if len > MAX_MESSAGE {
                    let reason = format!("a message is longer than {MAX_MESSAGE} bytes");
                    return Err(Status::new(Code::ResourceExhausted, reason).into());
                }
                if self.bytes.len() >= PREFIX + len {
                    let rest = self.bytes.split_off(PREFIX + len);
                    let framed = std::mem::replace(&mut self.bytes, rest);
                    let message = unpacked(compressed, &framed[PREFIX..], MAX_MESSAGE)?;
                    return Ok(Some(message.into_owned()));
                }
            }
            match poll_fn(|cx| self.exchange.poll_piece(cx)).await? {
                None if self.bytes.is_empty() => return Ok(None),
                None => {
                    let reason = "the stream ends within a message";
                    return Err(Status::new(Code::InvalidArgument, reason).into());
                }
                Some(piece) => self.bytes.extend_from_slice(&piece),
            }
        }
    }

    /// Sends a message; waits while the peer takes none, so that no more than one is kept.
    async fn send(&self, message: &impl Message) -> Result<(), End> {
        let len = message.encoded_len();
        let mut bytes = Vec::with_capacity(PREFIX + len);
        bytes.push(0);
        // Descriptions and states are far below 4 GiB.
        bytes.extend_from_slice(&(len as u32).to_be_bytes());
        message.encode_raw(&mut bytes);
        self.exchange.send(&bytes);
        Ok(poll_fn(|cx| self.exchange.poll_sent(cx)).await?)
    }
}

/// Answers questions about the services until the peer has no more.
pub(super) async fn reflect(exchange: Exchange) {
    run(exchange, async |talk| {
        while let Some(message) = talk.next().await? {
            let request = ServerReflectionRequest::decode(&message[..])
                .map_err(|error| undecodable(&error))?;
            talk.send(&reflection::answer(request)).await?;
        }
        Ok(())
    })
    .await;
}

/// Tells the health of a service, and every change of it, until the peer goes or the service stops.
pub(super) async fn watch(exchange: Exchange, health: Health) {
    run(exchange, async |talk| {
        let message = talk
            .next()
            .await?
            .ok_or_else(|| Status::new(Code::InvalidArgument, "the call has no message"))?;
        let request = super::health::HealthCheckRequest::decode(&message[..])
            .map_err(|error| undecodable(&error))?;
        if !super::health::is_known(&request.service) {
            // The protocol wants the call kept, because the service might come.
            let unknown = super::health::response(super::health::SERVICE_UNKNOWN);
            talk.send(&unknown).await?;
        }
        let mut follower = health.follow();
        loop {
            let next = tokio::select! {
                next = follower.next() => next,
                // Whoever gave up the call is not kept in mind.
                () = poll_fn(|cx| talk.exchange.poll_gone(cx)) => return Err(End::Gone),
            };
            match next {
                Some(_) if !super::health::is_known(&request.service) => {}
                Some(serving) => {
                    let status = super::health::status(serving);
                    talk.send(&super::health::response(status)).await?;
                }
                None => return Err(Status::new(Code::Unavailable, "the service stops").into()),
            }
        }
    })
    .await;
}

async fn run(exchange: Exchange, serve: impl AsyncFnOnce(&mut Talk) -> Result<(), End>) {
    exchange.begin();
    let mut talk = Talk {
        exchange,
        bytes: Vec::new(),
    };
    match serve(&mut talk).await {
        Ok(()) => talk.exchange.finish(0, String::new()),
        Err(End::Status(status)) => {
            talk.exchange.finish(status.code as u16, status.encoded());
        }
        // A peer that has gone away needs no trailers.
        Err(End::Gone) => {}
    }
}
