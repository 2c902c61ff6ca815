//! A rate limit service over gRPC on our own event loop.
//!
//! A client library spends more processor time on a call than a good service does, so on two cores it would measure
//! itself. What a unary call needs of HTTP/2 is little: requests are rendered frames in which only the stream number
//! changes, header names and values go into the connection's header table with the first request and are one byte
//! each afterwards (as every gRPC client does), and of a reply only the message and the end of its stream matter.
//! Reply headers are decoded only where they write something out (`fields`).
//!
//! HTTP/2 answers in any order: every stream that may be open at once is a lane of its own, with room for one request.

mod calls;
mod fields;
mod headers;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

pub(crate) use calls::Calls;
use calls::{Reading, code_of, promise_of};
use fields::Fields;
use headers::{first_headers, later_headers};

use super::connection::{Connection, Framing};
use super::speaker::{Heard, Speaker};
use super::tally::Verdict;

/// Bytes of a frame before its payload.
pub(super) const FRAME_HEAD: usize = 9;
/// Largest payload a server may send, as we never ask for more.
pub(super) const FRAME_PAYLOAD_MAX: usize = 16_384;
/// Bytes that may be sent before the server grants more.
const INITIAL_WINDOW: i64 = 65_535;
/// Window granted to the server beyond the initial one.
const GRANTED_WINDOW: u32 = 1 << 30;
/// Received bytes after which as much is granted again.
const GRANT_AFTER: u32 = 1 << 20;
/// Header table that our one-byte references need.
const HEADER_TABLE_MIN: u32 = 4_096;
/// Stream numbers are 31 bits.
const STREAM_MAX: u32 = (1 << 31) - 1;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const SETTINGS_HEADER_TABLE_SIZE: u16 = 1;

/// Calls of one connection that were given up and whose answer may be on the way, at most.
const GIVEN_UP_MAX: usize = 256;
/// `CANCEL`.
const CANCEL: u32 = 8;
/// Bytes before a gRPC message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// An end of a stream without a message, of which nothing else is known.
const NO_DECISION: &str = "the service answered with a gRPC error instead of a decision";
const UNKNOWN_DECISION: &str =
    "the service answered with a decision that is neither OK nor OVER_LIMIT";

/// Longest message put together of several frames. A decision is far shorter.
const MESSAGE_MAX: usize = 64 * 1024;

struct OpenStream {
    id: u32,
    lane: usize,
    verdict: Option<Verdict>,
    promise_ms: Option<u64>,
    /// The beginning of a message that came in several frames; bounded by `MESSAGE_MAX`.
    begun: Vec<u8>,
}

impl OpenStream {
    /// Takes over bytes of the answer, which need not lie in one frame.
    fn take(&mut self, bytes: &[u8], reading: Reading) {
        if self.verdict.is_some() {
            return;
        }
        if self.begun.is_empty() && message_in(bytes).is_some() {
            self.decide(bytes, reading);
            return;
        }
        if self.begun.len() + bytes.len() > MESSAGE_MAX {
            self.verdict = Some(Verdict::Unexpected);
            return;
        }
        self.begun.extend_from_slice(bytes);
        if message_in(&self.begun).is_some() {
            let whole = std::mem::take(&mut self.begun);
            self.decide(&whole, reading);
        }
    }

    fn decide(&mut self, whole: &[u8], reading: Reading) {
        let Some(message) = message_in(whole) else {
            return;
        };
        let verdict = code_of(message, reading);
        self.verdict = Some(verdict);
        if verdict == Verdict::Denied && reading == Reading::Code {
            self.promise_ms = promise_of(message);
        }
    }
}

/// The first message of a stream behind its prefix; `None` until it is whole.
fn message_in(bytes: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = bytes.split_at_checked(PREFIX)?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    rest.get(..length as usize)
}

/// What a DATA frame holds besides its padding.
fn unpadded(flags: u8, payload: &[u8]) -> Result<&[u8], String> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let inner = payload.split_first().and_then(|(padding, rest)| {
        let end = rest.len().checked_sub(usize::from(*padding))?;
        rest.get(..end)
    });
    inner.ok_or_else(|| "a frame is shorter than its padding".into())
}

struct Line {
    next_stream: u32,
    /// By their numbers.
    open: VecDeque<OpenStream>,
    /// Number and due time of those that were given up last.
    given_up: VecDeque<(u32, u64)>,
    window: i64,
    held: VecDeque<Vec<u8>>,
    received: u32,
    owed: Vec<u8>,
    greeted: bool,
    fields: Fields,
}

/// gRPC: `streams` lanes per connection.
pub(crate) struct GrpcSpeaker<'a> {
    calls: &'a Calls,
    streams: usize,
    lines: Vec<Line>,
    first_headers: Vec<u8>,
    later_headers: Vec<u8>,
    promise_ms: Option<u64>,
}

impl<'a> GrpcSpeaker<'a> {
    /// Asks what `calls` say, on `connections` connections with `streams` streams each.
    #[must_use]
    pub(crate) fn new(calls: &'a Calls, connections: usize, streams: usize) -> GrpcSpeaker<'a> {
        GrpcSpeaker {
            calls,
            streams,
            lines: (0..connections).map(|_| Line::new(streams)).collect(),
            first_headers: first_headers(calls),
            later_headers: later_headers(calls),
            promise_ms: None,
        }
    }

    fn data(
        line: &mut Line,
        reading: Reading,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> Result<Heard, String> {
        line.received += payload.len() as u32;
        if line.received > GRANT_AFTER {
            let grant = line.received.to_be_bytes();
            frame(&mut line.owed, WINDOW_UPDATE, 0, 0, &grant);
            line.received = 0;
        }
        let bytes = unpadded(flags, payload)?;
        if bytes.is_empty() {
            return Ok(Heard::Nothing);
        }
        if let Some(at) = line.position(stream) {
            line.open[at].take(bytes, reading);
        } else if let Some(at) = line.given_up.iter().position(|(id, _)| *id == stream)
            && let Some((_, due)) = line.given_up.remove(at)
        {
            return Ok(Heard::Late(due));
        }
        Ok(Heard::Nothing)
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

impl Speaker for GrpcSpeaker<'_> {
    fn framing(&self) -> Framing {
        Framing::Http2
    }

    fn open(&mut self, connection: usize) -> Vec<u8> {
        self.lines[connection] = Line::new(self.streams);
        let mut bytes = PREFACE.to_vec();
        frame(&mut bytes, SETTINGS, 0, 0, &[]);
        frame(
            &mut bytes,
            WINDOW_UPDATE,
            0,
            0,
            &GRANTED_WINDOW.to_be_bytes(),
        );
        bytes
    }

    fn lanes(&self, connection: usize) -> Range<usize> {
        connection * self.streams..(connection + 1) * self.streams
    }

    fn connection_of(&self, lane: usize) -> usize {
        lane / self.streams
    }

    fn ask(&mut self, lane: usize, key: u32, connection: &mut Connection) {
        let line = &mut self.lines[lane / self.streams];
        let message = &self.calls.messages[key as usize];
        let id = line.next_stream;
        let headers: &[u8] = if id == 1 {
            &self.first_headers
        } else {
            &self.later_headers
        };
        // Past the last number the server ends the connection, which is noticed as any other end.
        line.next_stream = (id + 2).min(STREAM_MAX);
        line.open.push_back(OpenStream {
            id,
            lane,
            verdict: None,
            promise_ms: None,
            begun: Vec::new(),
        });
        let mut bytes = Vec::with_capacity(2 * FRAME_HEAD + headers.len() + message.len());
        frame(&mut bytes, HEADERS, END_HEADERS, id, headers);
        frame(&mut bytes, DATA, END_STREAM, id, message);
        line.window -= message.len() as i64;
        if line.window >= 0 {
            connection.push(&bytes);
        } else {
            line.held.push_back(bytes);
        }
    }

    fn give_up(&mut self, lane: usize, due: u64, connection: &mut Connection) {
        let line = &mut self.lines[lane / self.streams];
        let at = line.open.iter().position(|open| open.lane == lane);
        let Some(open) = at.and_then(|at| line.open.remove(at)) else {
            return;
        };
        if line.given_up.len() == GIVEN_UP_MAX {
            line.given_up.pop_front();
        }
        line.given_up.push_back((open.id, due));
        let mut bytes = Vec::with_capacity(FRAME_HEAD + 4);
        frame(&mut bytes, RST_STREAM, 0, open.id, &CANCEL.to_be_bytes());
        // A call that waits for the window is reset behind it.
        if line.window >= 0 {
            connection.push(&bytes);
        } else {
            line.held.push_back(bytes);
        }
    }

    fn hear(&mut self, connection: usize, bytes: &[u8]) -> Result<Heard, String> {
        let line = &mut self.lines[connection];
        let (head, payload) = bytes.split_at(FRAME_HEAD);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & STREAM_MAX;
        if !line.greeted && kind != SETTINGS {
            return Err("it does not speak HTTP/2".into());
        }
        let (mut ended, mut refused) = (false, None);
        match kind {
            DATA => {
                let heard = GrpcSpeaker::data(line, self.calls.reading, flags, stream, payload)?;
                if heard != Heard::Nothing {
                    return Ok(heard);
                }
                ended = flags & END_STREAM != 0;
            }
            HEADERS => {
                refused = line.fields.read(flags, payload);
                ended = flags & END_STREAM != 0;
            }
            RST_STREAM => ended = true,
            SETTINGS if flags & ACK == 0 => {
                line.greeted = true;
                check_settings(payload)?;
                frame(&mut line.owed, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(&mut line.owed, PING, ACK, 0, payload),
            GOAWAY => return line.leave(payload),
            WINDOW_UPDATE if stream == 0 => line.widen(payload),
            _ => {}
        }
        let answered = if ended { line.position(stream) } else { None };
        let Some(open) = answered.and_then(|at| line.open.remove(at)) else {
            return Ok(Heard::Nothing);
        };
        self.promise_ms = open.promise_ms;
        let complaint = match open.verdict {
            None => Some(refused.map_or(NO_DECISION.into(), Cow::Owned)),
            Some(Verdict::Unexpected) => Some(UNKNOWN_DECISION.into()),
            Some(_) => None,
        };
        Ok(Heard::Answer {
            lane: open.lane,
            verdict: open.verdict.unwrap_or(Verdict::Error),
            complaint,
        })
    }

    fn owed(&mut self, connection: usize) -> Vec<u8> {
        std::mem::take(&mut self.lines[connection].owed)
    }

    fn promise_ms(&mut self, _frame: &[u8]) -> Option<u64> {
        self.promise_ms.take()
    }
}

impl Line {
    fn new(streams: usize) -> Line {
        Line {
            next_stream: 1,
            open: VecDeque::with_capacity(streams),
            given_up: VecDeque::new(),
            window: INITIAL_WINDOW,
            held: VecDeque::new(),
            received: 0,
            owed: Vec::new(),
            greeted: false,
            fields: Fields::new(),
        }
    }

    /// The server takes no stream behind the last one that it names; those up to it are still answered. It may do so twice,
    /// first without a bound.
    fn leave(&mut self, payload: &[u8]) -> Result<Heard, String> {
        let Some((last, rest)) = payload.split_first_chunk::<4>() else {
            return Err("a GOAWAY frame that is too short".into());
        };
        let last = u32::from_be_bytes(*last) & STREAM_MAX;
        let from = self.open.partition_point(|open| open.id <= last);
        let untaken = self.open.drain(from..).map(|open| open.lane).collect();
        self.given_up.retain(|(id, _)| *id <= last);
        let why = String::from_utf8_lossy(rest.get(4..).unwrap_or_default());
        Ok(Heard::Leaves {
            untaken,
            why: format!("the service ends the connection (GOAWAY {why})"),
        })
    }

    fn position(&self, stream: u32) -> Option<usize> {
        self.open.binary_search_by_key(&stream, |open| open.id).ok()
    }

    fn widen(&mut self, payload: &[u8]) {
        let Ok(grant) = <[u8; 4]>::try_from(payload) else {
            return;
        };
        self.window += i64::from(u32::from_be_bytes(grant) & STREAM_MAX);
        // `window` already counts what is held: once it is not negative all of it may go.
        if self.window >= 0 {
            for bytes in self.held.drain(..) {
                self.owed.extend_from_slice(&bytes);
            }
        }
    }
}

fn check_settings(payload: &[u8]) -> Result<(), String> {
    for setting in payload.chunks_exact(6) {
        let name = u16::from_be_bytes([setting[0], setting[1]]);
        let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
        if name == SETTINGS_HEADER_TABLE_SIZE && value < HEADER_TABLE_MIN {
            return Err(format!(
                "the service wants a header table of {value} bytes; {HEADER_TABLE_MIN} are needed"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn reply(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame(&mut bytes, kind, flags, stream, payload);
        bytes
    }

    fn calls() -> Calls {
        Calls::new("bench", "limit_10", "k", 3, "127.0.0.1:8081".into())
    }

    /// A speaker with streams 1 and 3 open in lanes 0 and 1 of its only connection.
    fn asked(calls: &Calls) -> GrpcSpeaker<'_> {
        let mut speaker = GrpcSpeaker::new(calls, 1, 4);
        let line = &mut speaker.lines[0];
        for (id, lane) in [(1, 0), (3, 1)] {
            line.open.push_back(OpenStream {
                id,
                lane,
                verdict: None,
                promise_ms: None,
                begun: Vec::new(),
            });
        }
        assert_eq!(
            speaker.hear(0, &reply(SETTINGS, 0, 0, &[])),
            Ok(Heard::Nothing)
        );
        assert_eq!(speaker.owed(0), reply(SETTINGS, ACK, 0, &[]));
        speaker
    }

    #[test]
    fn answers_come_in_any_order() {
        let calls = calls();
        let mut speaker = asked(&calls);
        let denied = [0, 0, 0, 0, 2, 0x08, 2];
        let allowed = [0, 0, 0, 0, 2, 0x08, 1];
        for bytes in [
            reply(HEADERS, END_HEADERS, 3, b"x"),
            reply(DATA, 0, 3, &denied),
            reply(DATA, 0, 1, &allowed),
        ] {
            assert_eq!(speaker.hear(0, &bytes), Ok(Heard::Nothing));
        }
        let ended = |lane, verdict| {
            Ok(Heard::Answer {
                lane,
                verdict,
                complaint: None,
            })
        };
        let trailers = |stream| reply(HEADERS, END_HEADERS | END_STREAM, stream, b"y");
        assert_eq!(speaker.hear(0, &trailers(3)), ended(1, Verdict::Denied));
        assert_eq!(speaker.promise_ms(&[]), None, "this denial told no time");
        assert_eq!(speaker.hear(0, &trailers(1)), ended(0, Verdict::Allowed));
        assert_eq!(speaker.hear(0, &trailers(1)), Ok(Heard::Nothing));
    }

    /// Frames and messages do not end together: a proxy cuts where its buffers end.
    #[test]
    fn a_message_may_come_in_any_number_of_frames_with_and_without_padding() {
        let calls = calls();
        let denied = [0, 0, 0, 0, 2, 0x08, 2];
        let padded = |bytes: &[u8]| [&[2][..], bytes, &[0, 0]].concat();
        for cut in 0..=denied.len() {
            let mut speaker = asked(&calls);
            let (first, rest) = denied.split_at(cut);
            for bytes in [
                reply(HEADERS, END_HEADERS, 1, b"x"),
                reply(DATA, 0, 1, first),
                reply(DATA, PADDED, 1, &padded(rest)),
                reply(DATA, 0, 1, &[]),
            ] {
                assert_eq!(speaker.hear(0, &bytes), Ok(Heard::Nothing));
            }
            let trailers = reply(HEADERS, END_HEADERS | END_STREAM, 1, b"y");
            let heard = Heard::Answer {
                lane: 0,
                verdict: Verdict::Denied,
                complaint: None,
            };
            assert_eq!(speaker.hear(0, &trailers), Ok(heard), "cut at {cut}");
        }
        let mut speaker = asked(&calls);
        assert!(speaker.hear(0, &reply(DATA, PADDED, 1, &[9, 1])).is_err());
        let half = reply(DATA, END_STREAM, 1, &denied[..6]);
        let heard = speaker.hear(0, &half);
        assert!(
            matches!(
                heard,
                Ok(Heard::Answer {
                    verdict: Verdict::Error,
                    ..
                })
            ),
            "{heard:?}"
        );
    }

    #[test]
    fn an_end_without_a_message_is_an_error() {
        let calls = calls();
        let mut speaker = asked(&calls);
        let heard = speaker.hear(0, &reply(HEADERS, END_HEADERS | END_STREAM, 1, b"z"));
        assert!(matches!(
            heard,
            Ok(Heard::Answer {
                lane: 0,
                verdict: Verdict::Error,
                complaint: Some(_)
            })
        ));
        let heard = speaker.hear(0, &reply(RST_STREAM, 0, 3, &[0, 0, 0, 2]));
        assert!(matches!(
            heard,
            Ok(Heard::Answer {
                lane: 1,
                verdict: Verdict::Error,
                ..
            })
        ));
    }

    #[test]
    fn an_answer_to_what_was_given_up_is_late() {
        let calls = calls().waiting(Duration::from_millis(20));
        let mut speaker = asked(&calls);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = std::net::TcpStream::connect(listener.local_addr().expect("bound"));
        let socket = super::super::address::Socket::Tcp(socket.expect("it listens"));
        let mut connection = Connection::from_socket(socket, Framing::Http2).expect("a socket");
        speaker.give_up(0, 77, &mut connection);
        assert!(connection.has_pending(), "the server is told");
        let allowed = [0, 0, 0, 0, 2, 0x08, 1];
        let answer = reply(DATA, 0, 1, &allowed);
        assert_eq!(speaker.hear(0, &answer), Ok(Heard::Late(77)));
        assert_eq!(speaker.hear(0, &answer), Ok(Heard::Nothing));
        let trailers = reply(HEADERS, END_HEADERS | END_STREAM, 1, b"y");
        assert_eq!(speaker.hear(0, &trailers), Ok(Heard::Nothing));
        // The other call is as it was.
        let trailers = reply(HEADERS, END_HEADERS | END_STREAM, 3, b"y");
        assert!(matches!(
            speaker.hear(0, &trailers),
            Ok(Heard::Answer { lane: 1, .. })
        ));
    }

    #[test]
    fn the_protocol_is_served() {
        let calls = calls();
        let mut speaker = asked(&calls);
        assert_eq!(
            speaker.hear(0, &reply(PING, 0, 0, b"12345678")),
            Ok(Heard::Nothing)
        );
        assert_eq!(speaker.owed(0), reply(PING, ACK, 0, b"12345678"));
        let small_table = [0, 1, 0, 0, 0, 0];
        assert!(
            speaker
                .hear(0, &reply(SETTINGS, 0, 0, &small_table))
                .unwrap_err()
                .contains("header table")
        );
        let mut fresh = GrpcSpeaker::new(&calls, 1, 4);
        assert!(
            fresh
                .hear(0, &reply(DATA, 0, 1, b""))
                .unwrap_err()
                .contains("HTTP/2")
        );
    }

    #[test]
    fn calls_behind_the_last_stream_of_a_server_that_leaves_are_not_taken() {
        let calls = calls();
        let mut speaker = asked(&calls);
        let leave = |speaker: &mut GrpcSpeaker<'_>, last: u32| {
            let payload = [&last.to_be_bytes()[..], b"\0\0\0\x0bcalm"].concat();
            match speaker.hear(0, &reply(GOAWAY, 0, 0, &payload)) {
                Ok(Heard::Leaves { untaken, why }) => {
                    assert!(why.ends_with("(GOAWAY calm)"), "{why}");
                    untaken
                }
                other => panic!("{other:?}"),
            }
        };
        assert!(leave(&mut speaker, STREAM_MAX).is_empty());
        assert_eq!(leave(&mut speaker, 1), [1], "lane 1 has stream 3");
        let trailers = reply(HEADERS, END_HEADERS | END_STREAM, 1, b"y");
        let heard = speaker.hear(0, &trailers);
        assert!(
            matches!(heard, Ok(Heard::Answer { lane: 0, .. })),
            "{heard:?}"
        );
        assert!(speaker.hear(0, &reply(GOAWAY, 0, 0, &[0; 3])).is_err());
        speaker.open(0);
        assert_eq!(speaker.lines[0].next_stream, 1, "a connection of its own");
    }

    #[test]
    fn requests_wait_for_the_window() {
        let calls = calls();
        let mut speaker = asked(&calls);
        let line = &mut speaker.lines[0];
        line.window = -10;
        line.held.push_back(b"held".to_vec());
        assert_eq!(
            speaker.hear(0, &reply(WINDOW_UPDATE, 0, 0, &9_u32.to_be_bytes())),
            Ok(Heard::Nothing)
        );
        assert!(speaker.owed(0).is_empty());
        assert_eq!(
            speaker.hear(0, &reply(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())),
            Ok(Heard::Nothing)
        );
        assert_eq!(speaker.owed(0), b"held");
    }
}
