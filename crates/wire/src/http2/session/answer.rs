//! What is written to the peer.

use super::super::frame::{self, ErrorCode};
use super::super::hpack::{self, Common, Encoder};
use super::super::streams::{End, Stream};
use super::{STREAM_WINDOW, Session, grant, put_reset};

impl Session {
    /// Whether somebody waits for an answer on `id`.
    #[must_use]
    pub fn is_open(&self, id: u32) -> bool {
        self.streams.get(id).is_some()
    }

    /// Answers with one message of `len` bytes, which `write` appends.
    pub fn answer(&mut self, id: u32, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let room = self.send_left.min(self.peer_window + stream.send_extra);
        if len as i64 > room || len > frame::PAYLOAD_MAX {
            write(&mut stream.held);
            self.begin(id);
            return self.finish(id, 0, String::new());
        }
        self.begin(id);
        self.send_left -= len as i64;
        frame::put_head(&mut self.out, len, frame::DATA, 0, id);
        write(&mut self.out);
        self.put_end(id, 0, "");
    }

    /// Ends the call with a status and no message.
    pub fn fail(&mut self, id: u32, status: u16, message: &str) {
        self.put_only_head(id, |encoder, out| {
            encoder.http_status(200, out);
            encoder.common(Common::Grpc, out);
            put_status(out, status, message);
        });
    }

    /// The same with a text that is one of few: the peer's table keeps it.
    pub fn refuse(&mut self, id: u32, status: u16, message: &'static str) {
        self.put_only_head(id, |encoder, out| encoder.refusal(status, message, out));
    }

    /// Ends what is no gRPC call, in HTTP's own words.
    pub fn answer_http(&mut self, id: u32, status: u16) {
        self.put_only_head(id, |encoder, out| encoder.http_status(status, out));
    }

    fn put_only_head(&mut self, id: u32, fields: impl FnOnce(&mut Encoder, &mut Vec<u8>)) {
        let Some(ended) = self.close(id) else {
            return;
        };
        let flags = frame::END_HEADERS | frame::END_STREAM;
        let encoder = &mut self.encoder;
        frame::put_with(&mut self.out, frame::HEADERS, flags, id, |out| {
            fields(encoder, out);
        });
        self.say_over(id, ended);
    }

    /// Begins an answer of any number of messages.
    pub fn begin(&mut self, id: u32) {
        if !self.is_open(id) {
            return;
        }
        let encoder = &mut self.encoder;
        frame::put_with(
            &mut self.out,
            frame::HEADERS,
            frame::END_HEADERS,
            id,
            |out| {
                encoder.http_status(200, out);
                encoder.common(Common::Grpc, out);
            },
        );
    }

    /// Sends a piece of an answer that was begun, or holds it until the peer has room.
    pub fn send(&mut self, id: u32, bytes: &[u8]) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.held.extend_from_slice(bytes);
            self.write_held_of(id);
        }
    }

    /// Bytes of an answer that the peer has no room for; `None` if nobody waits for it.
    #[must_use]
    pub fn held(&self, id: u32) -> Option<usize> {
        self.streams.get(id).map(|stream| stream.held.len())
    }

    /// Ends an answer that was begun, once all of it was sent.
    pub fn finish(&mut self, id: u32, status: u16, message: String) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.end = Some(End { status, message });
            self.write_held_of(id);
        }
    }

    /// Takes what came of a message since, and whether that was its end; `None` if nobody waits for an answer.
    pub fn take(&mut self, id: u32) -> Option<(Vec<u8>, bool)> {
        let stream = self.streams.get_mut(id)?;
        let taken = std::mem::take(&mut stream.body);
        if !stream.ended && stream.receive_left < STREAM_WINDOW / 2 {
            grant(&mut self.out, id, STREAM_WINDOW - stream.receive_left);
            stream.receive_left = STREAM_WINDOW;
        }
        Some((taken, stream.ended))
    }

    /// Ends a stream without an answer.
    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        if self.is_open(id) {
            put_reset(&mut self.out, id, code);
            self.close(id);
        }
    }

    /// The answer is written.
    fn over(&mut self, id: u32) {
        if let Some(ended) = self.close(id) {
            self.say_over(id, ended);
        }
    }

    /// A peer that has not said all need not.
    fn say_over(&mut self, id: u32, ended: bool) {
        if !ended {
            put_reset(&mut self.out, id, ErrorCode::NoError);
        }
    }

    fn put_end(&mut self, id: u32, status: u16, message: &str) {
        let flags = frame::END_HEADERS | frame::END_STREAM;
        let encoder = &mut self.encoder;
        frame::put_with(&mut self.out, frame::HEADERS, flags, id, |out| {
            if status == 0 {
                encoder.common(Common::Ok, out);
            } else {
                put_status(out, status, message);
            }
        });
        self.over(id);
    }

    pub(super) fn write_held(&mut self) {
        self.stirred = true;
        let waits = |stream: &&Stream| !stream.held.is_empty();
        let ids: Vec<u32> = self
            .streams
            .iter()
            .filter(waits)
            .map(|stream| stream.id)
            .collect();
        for id in ids {
            self.write_held_of(id);
        }
    }

    pub(super) fn write_held_of(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let mut sent = 0;
        while sent < stream.held.len() {
            let room = self.send_left.min(self.peer_window + stream.send_extra);
            let len = usize::try_from(room).unwrap_or(0).min(frame::PAYLOAD_MAX);
            let len = len.min(stream.held.len() - sent);
            if len == 0 {
                break;
            }
            let piece = &stream.held[sent..sent + len];
            frame::put(&mut self.out, frame::DATA, 0, id, piece);
            self.send_left -= len as i64;
            stream.send_extra -= len as i64;
            sent += len;
        }
        stream.held.drain(..sent);
        self.stirred |= sent > 0;
        if stream.held.is_empty()
            && let Some(end) = stream.end.take()
        {
            self.put_end(id, end.status, &end.message);
        }
    }
}

fn put_status(out: &mut Vec<u8>, status: u16, message: &str) {
    hpack::literal("grpc-status", status.to_string().as_bytes(), out);
    if status == UNIMPLEMENTED {
        hpack::literal("grpc-accept-encoding", b"identity,gzip", out);
    }
    hpack::literal("grpc-message", message.as_bytes(), out);
}

/// gRPC's status that tells what is understood instead.
const UNIMPLEMENTED: u16 = 12;
