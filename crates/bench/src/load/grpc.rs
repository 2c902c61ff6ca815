//! A rate limit service over gRPC on our own event loop.
//!
//! A client library spends more processor time on a call than a good service does, so on two cores it would measure
//! itself. What a unary call needs of HTTP/2 is little: requests are rendered frames in which only the stream number
//! changes, header names and values go into the connection's header table with the first request and are one byte
//! each afterwards (as every gRPC client does), and of a reply only the message and the end of its stream matter.
//! Reply headers are never decoded, which is why no state of the server's header table has to be kept.
//!
//! HTTP/2 answers in any order: every stream that may be open at once is a lane of its own, with room for one request.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use prost::Message;
use tollgate_wire::rls::rate_limit_descriptor::Entry;
use tollgate_wire::rls::{
    RateLimitDescriptor, RateLimitRequest, RateLimitResponse, SHOULD_RATE_LIMIT,
};

use super::connection::{Connection, Framing};
use super::speaker::{Heard, Speaker};
use super::tally::Verdict;
use super::workload::Rule;

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

/// `RateLimitResponse.Code.OVER_LIMIT`.
const OVER_LIMIT: i32 = 2;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const SETTINGS_HEADER_TABLE_SIZE: u16 = 1;

/// Requests of all keys, encoded.
#[derive(Clone, Debug)]
pub struct Calls {
    messages: Vec<Vec<u8>>,
    authority: String,
    method: &'static str,
    reading: Reading,
    /// `grpc-timeout`, as it is written.
    timeout: Option<String>,
}

/// How an answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// `RateLimitResponse`: field 1 is a code.
    Code,
    /// throttlecrab's `ThrottleResponse`: field 1 is true for allowed, and absent otherwise.
    Allowed,
}

/// throttlecrab's only call.
const THROTTLE: &str = "/throttlecrab.RateLimiter/Throttle";

/// What throttlecrab is asked (`throttlecrab.proto`).
#[derive(Clone, PartialEq, Message)]
struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

/// The part of throttlecrab's answer that is needed.
#[derive(Clone, PartialEq, Message)]
struct ThrottleResponse {
    #[prost(bool, tag = "1")]
    allowed: bool,
}

impl Calls {
    /// One descriptor `entry = prefix0`, `entry = prefix1`, ... per key, asked of the service at `authority`.
    #[must_use]
    pub fn new(domain: &str, entry: &str, prefix: &str, keys: u32, authority: String) -> Calls {
        Calls::of_several(domain, entry, prefix, (keys, 1), authority)
    }

    /// The same with `descriptors` descriptors in each call: `entry = prefix0`, `entry = prefix0.1`, ...
    #[must_use]
    pub fn of_several(
        domain: &str,
        entry: &str,
        prefix: &str,
        (keys, descriptors): (u32, u32),
        authority: String,
    ) -> Calls {
        let descriptor = |value: String| RateLimitDescriptor {
            entries: vec![Entry {
                key: entry.into(),
                value,
            }],
            limit: None,
            hits_addend: None,
            is_negative_hits: false,
        };
        let message = |index: u32| {
            let first = format!("{prefix}{index}");
            let others = (1..descriptors).map(|other| format!("{prefix}{index}.{other}"));
            let values = std::iter::once(first).chain(others);
            prefixed(&RateLimitRequest {
                domain: domain.into(),
                descriptors: values.map(descriptor).collect(),
                hits_addend: 1,
            })
        };
        Calls {
            messages: (0..keys).map(message).collect(),
            authority,
            method: SHOULD_RATE_LIMIT,
            reading: Reading::Code,
            timeout: None,
        }
    }

    /// The same keys asked of throttlecrab: `limit` requests per `window_s` seconds, with a burst of all of them. What does
    /// not fit into its 32 bits is cut off there.
    #[must_use]
    pub fn throttlecrab(rule: Rule, prefix: &str, keys: u32, authority: String) -> Calls {
        let fit = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
        let message = |index: u32| {
            prefixed(&ThrottleRequest {
                key: format!("{prefix}{index}"),
                max_burst: fit(rule.limit),
                count_per_period: fit(rule.limit),
                period: fit(rule.window_s),
                // Left out it would be 0, which takes nothing.
                quantity: 1,
            })
        };
        Calls {
            messages: (0..keys).map(message).collect(),
            authority,
            method: THROTTLE,
            reading: Reading::Allowed,
            timeout: None,
        }
    }

    /// The same by callers that wait for `wait`, as Envoy does: they say so with every call, and reset a call that has no
    /// answer by then. Who waits for longer than the protocol has words for (a day and some hours) does not give up.
    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Calls {
        self.timeout = spoken(wait);
        self
    }

    /// Whether callers give up.
    #[must_use]
    pub fn gives_up(&self) -> bool {
        self.timeout.is_some()
    }

    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> u32 {
        self.messages.len() as u32
    }
}

/// A message as it goes into DATA frames: not compressed, then the length.
fn prefixed(request: &impl Message) -> Vec<u8> {
    let body = request.encode_to_vec();
    let mut message = vec![0];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes());
    message.extend_from_slice(&body);
    message
}

/// A time as `grpc-timeout` has it: eight digits at most and a unit. Whole milliseconds where it is some.
fn spoken(wait: Duration) -> Option<String> {
    const MOST: u128 = 99_999_999;
    let (whole, micros) = (wait.as_millis(), wait.as_micros());
    let whole_ms = micros == whole * 1_000;
    match (whole_ms, micros <= MOST, whole <= MOST) {
        (false, true, _) => Some(format!("{}u", micros.max(1))),
        (_, _, true) => Some(format!("{}m", whole.max(1))),
        _ => None,
    }
}

/// Calls of one connection that were given up and whose answer may be on the way, at most.
const GIVEN_UP_MAX: usize = 256;
/// `CANCEL`.
const CANCEL: u32 = 8;

struct OpenStream {
    id: u32,
    lane: usize,
    verdict: Option<Verdict>,
    promise_ms: Option<u64>,
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
}

/// gRPC: `streams` lanes per connection.
pub struct GrpcSpeaker<'a> {
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
    pub fn new(calls: &'a Calls, connections: usize, streams: usize) -> GrpcSpeaker<'a> {
        let line = || Line {
            next_stream: 1,
            open: VecDeque::with_capacity(streams),
            given_up: VecDeque::new(),
            window: INITIAL_WINDOW,
            held: VecDeque::new(),
            received: 0,
            owed: Vec::new(),
            greeted: false,
        };
        GrpcSpeaker {
            calls,
            streams,
            lines: (0..connections).map(|_| line()).collect(),
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
        let padding = if flags & PADDED != 0 { 1 } else { 0 };
        let Some(message) = payload.get(padding + 5..) else {
            return Ok(Heard::Nothing);
        };
        if let Some(at) = line.position(stream) {
            let open = &mut line.open[at];
            let verdict = code_of(&payload[padding..], message, reading);
            open.verdict = Some(verdict);
            if verdict == Verdict::Denied && reading == Reading::Code {
                open.promise_ms = promise_of(message);
            }
        } else if let Some(at) = line.given_up.iter().position(|(id, _)| *id == stream)
            && let Some((_, due)) = line.given_up.remove(at)
        {
            return Ok(Heard::Late(due));
        }
        Ok(Heard::Nothing)
    }
}

/// The verdict of a message behind its five bytes of prefix.
fn code_of(prefixed: &[u8], message: &[u8], reading: Reading) -> Verdict {
    let length = u32::from_be_bytes([prefixed[1], prefixed[2], prefixed[3], prefixed[4]]) as usize;
    let Some(message) = message.get(..length) else {
        return Verdict::Unexpected;
    };
    if reading == Reading::Allowed {
        return match ThrottleResponse::decode(message) {
            Ok(ThrottleResponse { allowed: true }) => Verdict::Allowed,
            Ok(_) => Verdict::Denied,
            Err(_) => Verdict::Unexpected,
        };
    }
    let code = match message {
        // Field 1 as a varint, where every encoder writes it: first.
        [0x08, code @ 0..=0x7f, ..] => i32::from(*code),
        _ => RateLimitResponse::decode(message).map_or(-1, |response| response.overall_code),
    };
    match code {
        1 => Verdict::Allowed,
        2 => Verdict::Denied,
        _ => Verdict::Unexpected,
    }
}

/// The longest time until a limit that said no counts anew.
fn promise_of(message: &[u8]) -> Option<u64> {
    let response = RateLimitResponse::decode(message).ok()?;
    let over = response
        .statuses
        .iter()
        .filter(|status| status.code == OVER_LIMIT);
    over.filter_map(|status| {
        let wait = status.duration_until_reset?;
        let seconds_ms = u64::try_from(wait.seconds).ok()?.checked_mul(1_000)?;
        let rest_ms = u64::try_from(wait.nanos).ok()?.div_ceil(1_000_000);
        seconds_ms.checked_add(rest_ms)
    })
    .max()
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// `:method POST` and `:scheme http` from the static table.
const METHOD_AND_SCHEME: [u8; 2] = [0x83, 0x86];
/// Fields that [`first_headers`] put into the table: the newest entry is 62.
fn later_headers(calls: &Calls) -> Vec<u8> {
    let kept = if calls.gives_up() { 5 } else { 4 };
    let references = (0..kept).rev().map(|age| 0x80 | (62 + age));
    METHOD_AND_SCHEME.into_iter().chain(references).collect()
}

fn first_headers(calls: &Calls) -> Vec<u8> {
    let mut block = METHOD_AND_SCHEME.to_vec();
    let mut literal = |name: &[u8], value: &str| {
        block.extend_from_slice(name);
        // Without Huffman coding, and shorter than 127 bytes: one byte of length.
        block.push(value.len().min(126) as u8);
        block.extend_from_slice(&value.as_bytes()[..value.len().min(126)]);
    };
    // With incremental indexing: 0x40 | index of the name in the static table, or 0x40 and the name.
    literal(&[0x40 | 4], calls.method);
    literal(&[0x40 | 1], &calls.authority);
    literal(&[0x40 | 31], "application/grpc");
    literal(&[0x40, 2, b't', b'e'], "trailers");
    if let Some(timeout) = &calls.timeout {
        literal(b"\x40\x0cgrpc-timeout", timeout);
    }
    block
}

impl Speaker for GrpcSpeaker<'_> {
    fn framing(&self) -> Framing {
        Framing::Http2
    }

    fn open(&mut self, _connection: usize) -> Vec<u8> {
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
        let mut ended = false;
        match kind {
            DATA => {
                let heard = GrpcSpeaker::data(line, self.calls.reading, flags, stream, payload)?;
                if heard != Heard::Nothing {
                    return Ok(heard);
                }
                ended = flags & END_STREAM != 0;
            }
            HEADERS => ended = flags & END_STREAM != 0,
            RST_STREAM => ended = true,
            SETTINGS if flags & ACK == 0 => {
                line.greeted = true;
                check_settings(payload)?;
                frame(&mut line.owed, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(&mut line.owed, PING, ACK, 0, payload),
            GOAWAY => {
                let why = String::from_utf8_lossy(payload.get(8..).unwrap_or_default());
                return Err(format!("the service ends the connection (GOAWAY {why})"));
            }
            WINDOW_UPDATE if stream == 0 => line.widen(payload),
            _ => {}
        }
        let answered = if ended { line.position(stream) } else { None };
        let Some(open) = answered.and_then(|at| line.open.remove(at)) else {
            return Ok(Heard::Nothing);
        };
        self.promise_ms = open.promise_ms;
        let complaint = match open.verdict {
            None => Some("the service answered with a gRPC error instead of a decision"),
            Some(Verdict::Unexpected) => {
                Some("the service answered with a decision that is neither OK nor OVER_LIMIT")
            }
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
    fn times_are_said_in_the_words_of_the_protocol() {
        let said = |wait| spoken(wait);
        assert_eq!(said(Duration::from_secs(1)).as_deref(), Some("1000m"));
        assert_eq!(said(Duration::from_micros(1_500)).as_deref(), Some("1500u"));
        assert_eq!(said(Duration::from_nanos(1)).as_deref(), Some("1m"));
        assert_eq!(
            said(Duration::from_secs(90_000)).as_deref(),
            Some("90000000m")
        );
        assert_eq!(said(Duration::from_secs(365 * 86_400)), None);
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
        let goaway = reply(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0too_many_pings");
        assert!(
            speaker
                .hear(0, &goaway)
                .unwrap_err()
                .contains("too_many_pings")
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
    fn throttlecrab_leaves_a_false_out() {
        let rule = Rule {
            limit: 10,
            window_s: 60,
        };
        let calls = Calls::throttlecrab(rule, "k", 2, "127.0.0.1:8070".into());
        let body = ThrottleRequest::decode(&calls.messages[1][5..]).unwrap();
        assert_eq!((body.key.as_str(), body.max_burst), ("k1", 10));
        assert_eq!((body.period, body.quantity), (60, 1));
        for (message, verdict) in [
            (&[0_u8, 0, 0, 0, 4, 8, 1, 16, 10][..], Verdict::Allowed),
            (&[0, 0, 0, 0, 2, 16, 10], Verdict::Denied),
            (&[0, 0, 0, 0, 0], Verdict::Denied),
            (&[0, 0, 0, 0, 1, 8], Verdict::Unexpected),
        ] {
            let read = code_of(message, &message[5..], Reading::Allowed);
            assert_eq!(read, verdict, "{message:?}");
        }
        let head = first_headers(&calls);
        assert!(String::from_utf8_lossy(&head).contains(THROTTLE));
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

    #[test]
    fn the_header_block_has_the_entries_that_later_requests_name() {
        let block = first_headers(&calls());
        let text = String::from_utf8_lossy(&block);
        assert!(
            text.contains(SHOULD_RATE_LIMIT)
                && text.contains("application/grpc")
                && text.contains("trailers")
        );
        let later = later_headers(&calls());
        assert_eq!(later[2..], [65, 64, 63, 62].map(|index| 0x80 | index));
        let waiting = calls().waiting(Duration::from_millis(20));
        let block = first_headers(&waiting);
        assert!(String::from_utf8_lossy(&block).ends_with("\x0cgrpc-timeout\x0320m"));
        assert_eq!(later_headers(&waiting)[2..3], [0x80 | 66]);
    }
}
