//! One connection as its server sees it.

mod answer;
mod known;
mod reading;

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use super::frame::{self, ErrorCode};
use super::hpack::{self, Decoder, Encoder};
use super::streams::{Stage, Stream, Streams};
use crate::trace::TraceParent;
use known::Known;
use reading::Reading;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Most streams of one connection at the same time.
pub const MAX_STREAMS: usize = 256;
/// Longest list of header fields of a call, by the RFC's count; a longer one ends the call and not the connection.
const MAX_HEADER_LIST: usize = 256 << 10;
/// Most bytes of a block of header fields that are kept, as they are on the wire.
const MAX_BLOCK: usize = 256 << 10;
/// Bytes of a longer one that are looked at together.
const FOLLOWED_AT_ONCE: usize = 64 << 10;
/// Longest block that is followed, so that both tables stay alike, although nothing of it is kept.
const MAX_FOLLOWED: usize = 4 << 20;
/// Bytes that a stream may bring before it is told that earlier ones were taken, as the protocol has it.
const STREAM_WINDOW: i64 = 65_535;
/// The same of a whole connection, to begin with and as we have it.
const FIRST_WINDOW: i64 = 65_535;
const CONNECTION_WINDOW: i64 = 1 << 20;
/// Largest window that may be granted.
const WINDOW_MAX: i64 = (1 << 31) - 1;
/// Most bytes of messages that are not whole, of all streams of a connection.
const MAX_KEPT: usize = 8 << 20;
/// Number of streams that there cannot be.
const LAST_STREAM: u32 = (1 << 31) - 1;
/// What the peer is asked to send back before the connection ends.
const GOODBYE: [u8; 8] = *b"tollgate";

const HEADER_TABLE_SIZE: u16 = 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// What the header fields of a call say.
#[derive(Clone, Debug)]
pub struct Head {
    /// The method is POST.
    pub is_post: bool,
    /// The content is gRPC's.
    pub is_grpc: bool,
    /// What is called.
    pub path: Rc<[u8]>,
    /// How long the caller waits, if it says.
    pub timeout: Option<Duration>,
    /// What the call is part of, if it says.
    pub trace: Option<TraceParent>,
    /// What other systems have noted of that.
    pub trace_state: Option<Rc<[u8]>>,
}

/// When a call is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// With its whole message.
    Whole,
    /// At once; its message is taken piece by piece.
    Pieces,
    /// At once; its message is thrown away.
    Nothing,
}

/// A call that came.
#[derive(Debug)]
pub struct Call {
    /// Its stream.
    pub id: u32,
    /// Its header fields.
    pub head: Head,
    /// What came of its message.
    pub body: Body,
    /// Where the frame that made it complete begins in what was given to [`Session::receive`]; 0 if none did.
    pub at: usize,
}

/// What came of a call's message.
#[derive(Debug)]
pub enum Body {
    /// All.
    Whole(Piece),
    /// What has come and what will is taken from the session, or thrown away.
    Open,
    /// More than is taken.
    TooLong,
    /// It has not become whole in time.
    Late,
}

/// Bytes of a message.
#[derive(Debug)]
pub enum Piece {
    /// Where they are in what was given to [`Session::receive`].
    Read(Range<usize>),
    /// They came in several frames.
    Kept(Vec<u8>),
}

/// The peer broke the rules: nothing more is read from it, and what is written ends with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub ErrorCode);

/// Header fields that come in several frames.
#[derive(Debug)]
struct Block {
    stream: u32,
    ends: bool,
    /// What has come; of one that is too long, the beginning of a field.
    bytes: Vec<u8>,
    /// How much has come.
    len: usize,
    /// When so much is kept, the table is followed through it.
    follow_at: usize,
    /// Of one that is too long, whether a field has come.
    too_long: Option<bool>,
}

/// What header fields say.
enum Told {
    /// A call, and when it is handed out.
    Call((Head, Want)),
    /// They are more than is taken.
    TooLong,
    /// They are no request by HTTP/2's rules.
    Malformed,
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The preface is awaited.
    New,
    /// The peer's settings are awaited.
    Greeted,
    Open,
    /// The peer was told that the connection ends.
    Leaving,
    /// And which stream was the last.
    Left,
}

/// A connection. Its answers are written with [`answer`](Self::answer) and its kin, and taken from [`out`](Self::out).
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    wants: fn(&Head) -> Want,
    message_max: usize,
    decoder: Decoder,
    known: Known,
    encoder: Encoder,
    out: Vec<u8>,
    streams: Streams,
    /// Streams whose message is on the way.
    receiving: usize,
    last: u32,
    block: Option<Block>,
    receive_left: i64,
    send_left: i64,
    peer_window: i64,
    /// Bytes of messages that are not whole.
    kept: usize,
    stirred: bool,
    /// Where the frame begins that is read.
    at: usize,
    /// Frames and blocks of header fields that have come whole.
    whole: u64,
}

impl Session {
    /// A new connection. `wants` says when a call is handed out; messages longer than `message_max` bytes are not taken.
    #[must_use]
    pub fn new(wants: fn(&Head) -> Want, message_max: usize) -> Self {
        let mut session = Self {
            phase: Phase::New,
            wants,
            message_max,
            decoder: Decoder::default(),
            known: Known::default(),
            encoder: Encoder::default(),
            out: Vec::new(),
            streams: Streams::default(),
            receiving: 0,
            last: 0,
            block: None,
            receive_left: CONNECTION_WINDOW,
            send_left: FIRST_WINDOW,
            peer_window: STREAM_WINDOW,
            kept: 0,
            stirred: false,
            at: 0,
            whole: 0,
        };
        let mut settings = Vec::with_capacity(12);
        for (name, value) in [
            (MAX_CONCURRENT_STREAMS, MAX_STREAMS as u32),
            (MAX_HEADER_LIST_SIZE, MAX_HEADER_LIST as u32),
        ] {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        frame::put(&mut session.out, frame::SETTINGS, 0, 0, &settings);
        grant(&mut session.out, 0, CONNECTION_WINDOW - FIRST_WINDOW);
        session
    }

    /// What is to be written; whoever writes it takes it out.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether the peer has shown that it speaks HTTP/2.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        !matches!(self.phase, Phase::New | Phase::Greeted)
    }

    /// Calls that have not been answered.
    #[must_use]
    pub fn open(&self) -> usize {
        self.streams.open()
    }

    /// Calls whose message is on the way.
    #[must_use]
    pub fn receiving(&self) -> usize {
        self.receiving
    }

    /// What has begun and not come whole, a frame (of which there is a `rest`) or a block of header fields: how many of them came
    /// before it. As long as that stays the same, the peer is waited for.
    #[must_use]
    pub fn begun(&self, rest: bool) -> Option<u64> {
        (rest || self.block.is_some()).then_some(self.whole)
    }

    /// The stream that came last.
    #[must_use]
    pub fn last_stream(&self) -> u32 {
        self.last
    }

    /// Whether the connection was left and nothing is to be answered.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Left && self.open() == 0
    }

    /// Whether something came, since this was asked last, for calls that were handed out before.
    pub fn take_stirred(&mut self) -> bool {
        std::mem::take(&mut self.stirred)
    }

    /// Reads what came; returns how many bytes of it were taken. The rest is the beginning of a frame, and is to be given
    /// again with what comes next. Calls are appended to `calls`.
    ///
    /// # Errors
    /// [`Fault`] if the connection has to end.
    pub fn receive(&mut self, bytes: &[u8], calls: &mut Vec<Call>) -> Result<usize, Fault> {
        self.receive_frames(bytes, calls).map_err(|code| {
            self.put_goaway(self.last, code);
            Fault(code)
        })
    }

    /// Says that the connection ends because what the peer has begun does not come whole.
    pub fn end_late(&mut self) {
        self.put_goaway(self.last, ErrorCode::EnhanceYourCalm);
    }

    fn receive_frames(&mut self, bytes: &[u8], calls: &mut Vec<Call>) -> Result<usize, ErrorCode> {
        let mut at = 0;
        if self.phase == Phase::New {
            let known = bytes.len().min(PREFACE.len());
            if bytes[..known] != PREFACE[..known] {
                return Err(ErrorCode::Protocol);
            }
            if known < PREFACE.len() {
                return Ok(0);
            }
            self.phase = Phase::Greeted;
            at = PREFACE.len();
        }
        while let Some(head) = frame::Head::read(&bytes[at..]) {
            if head.len > frame::PAYLOAD_MAX {
                return Err(ErrorCode::FrameSize);
            }
            let from = at + frame::HEAD;
            let Some(payload) = bytes.get(from..from + head.len) else {
                break;
            };
            self.at = at;
            self.frame(head, payload, from, calls)?;
            at = from + head.len;
            self.whole += u64::from(self.block.is_none());
        }
        Ok(at)
    }

    /// One frame, whose payload begins at `from` in what was given.
    fn frame(
        &mut self,
        head: frame::Head,
        payload: &[u8],
        from: usize,
        calls: &mut Vec<Call>,
    ) -> Result<(), ErrorCode> {
        let continues = head.kind == frame::CONTINUATION;
        let greeting = head.kind == frame::SETTINGS && head.flags & frame::ACK == 0;
        if self.block.is_some() != continues || (self.phase == Phase::Greeted && !greeting) {
            return Err(ErrorCode::Protocol);
        }
        match head.kind {
            frame::DATA => self.data(head, payload, from, calls),
            frame::HEADERS => self.headers(head, payload, calls),
            frame::CONTINUATION => self.continuation(head, payload, calls),
            frame::RST_STREAM => self.reset_by_peer(head.stream, payload),
            frame::SETTINGS => self.settings(head, payload),
            frame::PING => self.ping(head, payload),
            frame::WINDOW_UPDATE => self.window_update(head.stream, payload),
            frame::PRIORITY if payload.len() != 5 => Err(ErrorCode::FrameSize),
            frame::PRIORITY | frame::GOAWAY
                if (head.stream == 0) == (head.kind == frame::PRIORITY) =>
            {
                Err(ErrorCode::Protocol)
            }
            frame::PUSH_PROMISE => Err(ErrorCode::Protocol),
            _ => Ok(()),
        }
    }

    fn headers(
        &mut self,
        head: frame::Head,
        payload: &[u8],
        calls: &mut Vec<Call>,
    ) -> Result<(), ErrorCode> {
        if head.stream.is_multiple_of(2) {
            return Err(ErrorCode::Protocol);
        }
        let mut block = unpadded(head.flags, payload)?.0;
        if head.flags & frame::WITH_PRIORITY != 0 {
            block = block.get(5..).ok_or(ErrorCode::FrameSize)?;
        }
        let ends = head.flags & frame::END_STREAM != 0;
        if head.flags & frame::END_HEADERS != 0 {
            let told = self.told(block)?;
            return self.fields(head.stream, ends, told, calls);
        }
        self.block = Some(Block {
            stream: head.stream,
            ends,
            bytes: block.to_vec(),
            len: block.len(),
            follow_at: MAX_BLOCK,
            too_long: None,
        });
        Ok(())
    }

    fn continuation(
        &mut self,
        head: frame::Head,
        payload: &[u8],
        calls: &mut Vec<Call>,
    ) -> Result<(), ErrorCode> {
        let Some(mut block) = self
            .block
            .take()
            .filter(|block| block.stream == head.stream)
        else {
            return Err(ErrorCode::Protocol);
        };
        block.bytes.extend_from_slice(payload);
        block.len += payload.len();
        let last = head.flags & frame::END_HEADERS != 0;
        // A frame that adds nothing could be sent for ever.
        if block.len > MAX_FOLLOWED || (payload.is_empty() && !last) {
            return Err(ErrorCode::EnhanceYourCalm);
        }
        if block.bytes.len() > block.follow_at || (last && block.too_long.is_some()) {
            self.follow(&mut block)?;
        }
        if !last {
            self.block = Some(block);
            return Ok(());
        }
        let told = match block.too_long {
            None => self.told(&block.bytes)?,
            Some(_) if block.bytes.is_empty() => Told::TooLong,
            Some(_) => return Err(ErrorCode::Compression),
        };
        self.fields(block.stream, block.ends, told, calls)
    }

    /// Follows the table through what has come of a block that is too long, and keeps no more than the beginning of a field.
    fn follow(&mut self, block: &mut Block) -> Result<(), ErrorCode> {
        let fields = block.too_long.get_or_insert(false);
        let rest = self.decoder.follow(&block.bytes, fields);
        let rest = rest.map_err(|hpack::Broken| ErrorCode::Compression)?;
        if rest.len() > MAX_BLOCK {
            return Err(ErrorCode::EnhanceYourCalm);
        }
        // Not with every frame: each may add one byte to what is looked at anew.
        block.follow_at = rest.len() + FOLLOWED_AT_ONCE;
        block.bytes = rest.to_vec();
        Ok(())
    }

    /// All header fields of a stream: those of a call, or those after its message.
    fn fields(
        &mut self,
        id: u32,
        ends: bool,
        told: Told,
        calls: &mut Vec<Call>,
    ) -> Result<(), ErrorCode> {
        if id <= self.last {
            return self.trailers(id, ends, calls);
        }
        self.last = id;
        if self.phase == Phase::Left || self.streams.open() >= MAX_STREAMS {
            put_reset(&mut self.out, id, ErrorCode::RefusedStream);
            return Ok(());
        }
        let (head, want) = match told {
            Told::Call(call) => call,
            Told::TooLong => {
                self.streams
                    .add(Stream::new(id, Stage::Asked, STREAM_WINDOW));
                self.answer_http(id, 431);
                return Ok(());
            }
            Told::Malformed => {
                put_reset(&mut self.out, id, ErrorCode::Protocol);
                return Ok(());
            }
        };
        let at = self.at;
        let mut call = |body| {
            calls.push(Call {
                id,
                head: head.clone(),
                body,
                at,
            })
        };
        let stage = match want {
            Want::Nothing => {
                call(Body::Open);
                Stage::Asked
            }
            Want::Pieces => {
                call(Body::Open);
                Stage::Pieces
            }
            Want::Whole if ends => {
                call(Body::Whole(Piece::Read(0..0)));
                Stage::Asked
            }
            Want::Whole => {
                self.receiving += 1;
                Stage::Receiving(head)
            }
        };
        let mut stream = Stream::new(id, stage, STREAM_WINDOW);
        stream.ended = ends;
        self.streams.add(stream);
        Ok(())
    }

    /// What a block of header fields says, which may be that of the call before.
    fn told(&mut self, block: &[u8]) -> Result<Told, ErrorCode> {
        match self.known.get(block, self.decoder.changes()) {
            Some(call) => Ok(Told::Call(call.clone())),
            None => self.read(block),
        }
    }

    /// What a block of header fields says.
    fn read(&mut self, block: &[u8]) -> Result<Told, ErrorCode> {
        let (mut reading, before) = (Reading::default(), self.decoder.changes());
        self.decoder
            .read(block, |meaning, value, size| {
                reading.take(meaning, &value, size);
            })
            .map_err(|hpack::Broken| ErrorCode::Compression)?;
        if reading.size > MAX_HEADER_LIST {
            return Ok(Told::TooLong);
        }
        let Some(head) = reading.head() else {
            return Ok(Told::Malformed);
        };
        let want = (self.wants)(&head);
        let call = (head, want);
        if self.decoder.changes() == before {
            self.known.keep(block, before, &call);
        }
        Ok(Told::Call(call))
    }

    /// Fields after a message say nothing but that it is whole.
    fn trailers(&mut self, id: u32, ends: bool, calls: &mut Vec<Call>) -> Result<(), ErrorCode> {
        match self.streams.get(id) {
            // They crossed with its end.
            None => Ok(()),
            Some(stream) if stream.ended || !ends => {
                self.reset(id, ErrorCode::Protocol);
                Ok(())
            }
            Some(_) => {
                self.piece(id, &[], 0, true, calls);
                Ok(())
            }
        }
    }

    fn data(
        &mut self,
        head: frame::Head,
        payload: &[u8],
        from: usize,
        calls: &mut Vec<Call>,
    ) -> Result<(), ErrorCode> {
        if head.stream == 0 || head.stream > self.last {
            return Err(ErrorCode::Protocol);
        }
        let (piece, before) = unpadded(head.flags, payload)?;
        let len = payload.len() as i64;
        self.receive_left -= len;
        if self.receive_left < 0 {
            return Err(ErrorCode::FlowControl);
        }
        if self.receive_left < CONNECTION_WINDOW / 2 {
            grant(&mut self.out, 0, CONNECTION_WINDOW - self.receive_left);
            self.receive_left = CONNECTION_WINDOW;
        }
        let Some(stream) = self.streams.get_mut(head.stream) else {
            return Ok(());
        };
        stream.receive_left -= len;
        if stream.ended {
            self.reset(head.stream, ErrorCode::StreamClosed);
        } else if stream.receive_left < 0 {
            self.reset(head.stream, ErrorCode::FlowControl);
        } else {
            let ends = head.flags & frame::END_STREAM != 0;
            self.piece(head.stream, piece, from + before, ends, calls);
        }
        Ok(())
    }

    /// A piece of a message, which begins at `from` in what was given.
    fn piece(&mut self, id: u32, piece: &[u8], from: usize, ends: bool, calls: &mut Vec<Call>) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        stream.ended |= ends;
        if let Stage::Pieces = stream.stage {
            // No more than the window, which is granted anew when they are taken.
            stream.body.extend_from_slice(piece);
            self.stirred = true;
            return;
        }
        let Stage::Receiving(_) = &stream.stage else {
            return;
        };
        let too_long = stream.body.len() + piece.len() > self.message_max;
        if !ends && !too_long {
            self.kept += piece.len();
            if self.kept > MAX_KEPT {
                self.kept -= piece.len();
                return self.reset(id, ErrorCode::EnhanceYourCalm);
            }
            stream.body.extend_from_slice(piece);
            if stream.receive_left < STREAM_WINDOW / 2 {
                grant(&mut self.out, id, STREAM_WINDOW - stream.receive_left);
                stream.receive_left = STREAM_WINDOW;
            }
            return;
        }
        let Stage::Receiving(head) = std::mem::replace(&mut stream.stage, Stage::Asked) else {
            return;
        };
        self.receiving -= 1;
        let mut kept = std::mem::take(&mut stream.body);
        self.kept -= kept.len();
        let body = if too_long {
            Body::TooLong
        } else if kept.is_empty() {
            Body::Whole(Piece::Read(from..from + piece.len()))
        } else {
            kept.extend_from_slice(piece);
            Body::Whole(Piece::Kept(kept))
        };
        let at = self.at;
        calls.push(Call { id, head, body, at });
    }

    /// Hands out the calls up to stream `last` whose message has not become whole.
    pub fn give_up(&mut self, last: u32, calls: &mut Vec<Call>) {
        let waiting =
            |stream: &&Stream| stream.id <= last && matches!(stream.stage, Stage::Receiving(_));
        let ids: Vec<u32> = self
            .streams
            .iter()
            .filter(waiting)
            .map(|stream| stream.id)
            .collect();
        for id in ids {
            let Some(stream) = self.streams.get_mut(id) else {
                continue;
            };
            if let Stage::Receiving(head) = std::mem::replace(&mut stream.stage, Stage::Asked) {
                self.receiving -= 1;
                self.kept -= stream.body.len();
                stream.body = Vec::new();
                let body = Body::Late;
                let at = 0;
                calls.push(Call { id, head, body, at });
            }
        }
    }

    fn reset_by_peer(&mut self, id: u32, payload: &[u8]) -> Result<(), ErrorCode> {
        if payload.len() != 4 {
            return Err(ErrorCode::FrameSize);
        }
        if id == 0 || id > self.last {
            return Err(ErrorCode::Protocol);
        }
        self.close(id);
        self.stirred = true;
        Ok(())
    }

    /// Ends a stream; `None` if there is none, else whether the peer has said all.
    pub(super) fn close(&mut self, id: u32) -> Option<bool> {
        let closed = self.streams.close(id)?;
        if let Some(kept) = closed.receiving {
            self.receiving -= 1;
            self.kept -= kept;
        }
        Some(closed.ended)
    }

    fn settings(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), ErrorCode> {
        if head.stream != 0 {
            return Err(ErrorCode::Protocol);
        }
        let is_ack = head.flags & frame::ACK != 0;
        if !payload.len().is_multiple_of(6) || (is_ack && !payload.is_empty()) {
            return Err(ErrorCode::FrameSize);
        }
        if is_ack {
            return Ok(());
        }
        for setting in payload.chunks_exact(6) {
            let name = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match name {
                HEADER_TABLE_SIZE => self.encoder.resize(value as usize),
                INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => {
                    return Err(ErrorCode::FlowControl);
                }
                INITIAL_WINDOW_SIZE => self.peer_window = i64::from(value),
                MAX_FRAME_SIZE if !(16_384..1 << 24).contains(&value) => {
                    return Err(ErrorCode::Protocol);
                }
                // Answers fit into the frames that every peer takes.
                _ => {}
            }
        }
        frame::put(&mut self.out, frame::SETTINGS, frame::ACK, 0, &[]);
        if self.phase == Phase::Greeted {
            self.phase = Phase::Open;
        }
        self.write_held();
        Ok(())
    }

    fn ping(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), ErrorCode> {
        if head.stream != 0 {
            return Err(ErrorCode::Protocol);
        }
        if payload.len() != GOODBYE.len() {
            return Err(ErrorCode::FrameSize);
        }
        if head.flags & frame::ACK == 0 {
            frame::put(&mut self.out, frame::PING, frame::ACK, 0, payload);
        } else if self.phase == Phase::Leaving && payload == GOODBYE {
            self.phase = Phase::Left;
            self.put_goaway(self.last, ErrorCode::NoError);
        }
        Ok(())
    }

    fn window_update(&mut self, id: u32, payload: &[u8]) -> Result<(), ErrorCode> {
        let Ok(grant) = <[u8; 4]>::try_from(payload) else {
            return Err(ErrorCode::FrameSize);
        };
        let grant = i64::from(u32::from_be_bytes(grant) & 0x7fff_ffff);
        if id == 0 {
            self.send_left += grant;
            if grant == 0 {
                return Err(ErrorCode::Protocol);
            }
            if self.send_left > WINDOW_MAX {
                return Err(ErrorCode::FlowControl);
            }
            self.write_held();
            return Ok(());
        }
        if id > self.last {
            return Err(ErrorCode::Protocol);
        }
        if let Some(stream) = self.streams.get_mut(id) {
            stream.send_extra += grant;
            if grant == 0 || self.peer_window + stream.send_extra > WINDOW_MAX {
                self.reset(id, ErrorCode::FlowControl);
            } else {
                self.write_held_of(id);
            }
        }
        Ok(())
    }

    /// Says that the connection ends: calls that are on the way are still taken.
    pub fn leave(&mut self) {
        if !matches!(self.phase, Phase::Leaving | Phase::Left) {
            self.phase = Phase::Leaving;
            self.put_goaway(LAST_STREAM, ErrorCode::NoError);
            frame::put(&mut self.out, frame::PING, 0, 0, &GOODBYE);
        }
    }

    fn put_goaway(&mut self, last: u32, code: ErrorCode) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last.to_be_bytes());
        payload[4..].copy_from_slice(&(code as u32).to_be_bytes());
        frame::put(&mut self.out, frame::GOAWAY, 0, 0, &payload);
    }
}

/// The payload without its padding, and how many bytes come before it.
fn unpadded(flags: u8, payload: &[u8]) -> Result<(&[u8], usize), ErrorCode> {
    if flags & frame::PADDED == 0 {
        return Ok((payload, 0));
    }
    let (&padding, rest) = payload.split_first().ok_or(ErrorCode::FrameSize)?;
    let len = rest.len().checked_sub(usize::from(padding));
    Ok((&rest[..len.ok_or(ErrorCode::Protocol)?], 1))
}

fn grant(out: &mut Vec<u8>, stream: u32, bytes: i64) {
    let bytes = (bytes as u32).to_be_bytes();
    frame::put(out, frame::WINDOW_UPDATE, 0, stream, &bytes);
}

fn put_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    frame::put(
        out,
        frame::RST_STREAM,
        0,
        stream,
        &(code as u32).to_be_bytes(),
    );
}

#[cfg(test)]
mod tests;
