//! Heads of requests.

use std::mem::MaybeUninit;

use httparse::{Error, Request, Status};

use super::{Framing, MAX_FIELDS, MAX_HEAD, Malformed};

/// Empty lines before a request, in bytes.
const MAX_EMPTY: usize = 4 << 10;

/// What the head of a request says, as far as this service asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// `GET`, `POST`, ...
    pub method: &'a str,
    /// The target without its query: `/json`. Other forms than a path are found by nobody.
    pub path: &'a str,
    /// `content-type`.
    pub content_type: Option<&'a [u8]>,
    /// `grpc-timeout`.
    pub timeout: Option<&'a [u8]>,
    /// `traceparent`.
    pub trace: Option<&'a [u8]>,
    /// `tracestate`.
    pub trace_state: Option<&'a [u8]>,
    /// The body is in a form that `content-encoding` names, such as gzip.
    pub is_encoded: bool,
}

/// A whole head.
pub(crate) struct Parsed<'a> {
    pub(crate) head: Head<'a>,
    /// Its length in bytes.
    pub(crate) length: usize,
    pub(crate) framing: Framing,
    pub(crate) keeps_alive: bool,
    pub(crate) is_http10: bool,
    pub(crate) expects: bool,
}

/// The head at the front of `input`; `None` while it is incomplete. What is incomplete is looked at again only when another
/// line has come: `looked` says how far it was looked at, 0 for not at all.
pub(crate) fn parse<'a>(
    input: &'a [u8],
    looked: &mut usize,
) -> Result<Option<Parsed<'a>>, Malformed> {
    if input.is_empty() {
        return Ok(None);
    }
    // What lies behind the longest head must not matter, since it may come later.
    let input = &input[..input.len().min(MAX_HEAD)];
    // Most heads come whole, with their body behind them.
    if *looked == 0
        && let Ok(Some(parsed)) = parse_lines(input)
    {
        return Ok(Some(parsed));
    }
    let is_empty = |byte: &u8| matches!(byte, b'\r' | b'\n');
    if input.len() > MAX_EMPTY && input[..MAX_EMPTY].iter().all(is_empty) {
        // Each of them would be looked at anew with the next.
        return Err(Malformed::TargetTooLong);
    }
    let line = input[*looked..].iter().rposition(|byte| *byte == b'\n');
    if let Some(at) = line
        && let Some(parsed) = parse_lines(&input[..=*looked + at])?
    {
        return Ok(Some(parsed));
    }
    *looked = input.len();
    match input.len() == MAX_HEAD {
        true => Err(too_long(input)),
        false => Ok(None),
    }
}

fn parse_lines(input: &[u8]) -> Result<Option<Parsed<'_>>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = Request::new(&mut []);
    match request.parse_with_uninit_headers(input, &mut fields) {
        Ok(Status::Complete(length)) => read(&request, length).map(Some),
        Ok(Status::Partial) => Ok(None),
        Err(Error::TooManyHeaders) => Err(Malformed::HeadTooLong),
        Err(Error::Version) => Err(Malformed::Version),
        Err(Error::HeaderName | Error::HeaderValue) => {
            Err(Malformed::Request("a header field is not valid"))
        }
        Err(Error::NewLine | Error::Status | Error::Token) => {
            Err(Malformed::Request("the request line is not valid"))
        }
    }
}

fn too_long(input: &[u8]) -> Malformed {
    // Empty lines may come before a request.
    match input.trim_ascii_start().contains(&b'\n') {
        true => Malformed::HeadTooLong,
        false => Malformed::TargetTooLong,
    }
}

/// Makes of the fields what they mean.
fn read<'a>(request: &Request<'_, 'a>, length: usize) -> Result<Parsed<'a>, Malformed> {
    let is_http10 = request.version == Some(0);
    let mut parsed = Parsed {
        head: Head {
            method: request.method.unwrap_or_default(),
            path: path_of(request.path.unwrap_or_default()),
            ..Head::default()
        },
        length,
        framing: Framing::Length(0),
        keeps_alive: !is_http10,
        is_http10,
        expects: false,
    };
    let mut announced = None;
    let (mut chunked, mut closes, mut hosts) = (false, false, 0);
    for field in &*request.headers {
        let (name, value) = (field.name, field.value);
        // Names differ by length mostly, which costs less to compare than letters.
        match name.len() {
            10 if name.eq_ignore_ascii_case("connection") => {
                for token in tokens(value) {
                    closes |= token.eq_ignore_ascii_case(b"close");
                    parsed.keeps_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                let length = content_length(value)?;
                if announced.is_some_and(|earlier| earlier != length) {
                    return Err(Malformed::Request("two lengths of the body"));
                }
                announced = Some(length);
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if is_http10 {
                    return Err(Malformed::Request("HTTP/1.0 has no transfer codings"));
                }
                if chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Malformed::Coding);
                }
                chunked = true;
            }
            12 if name.eq_ignore_ascii_case("content-type") => {
                parsed.head.content_type.get_or_insert(value);
            }
            12 if name.eq_ignore_ascii_case("grpc-timeout") => {
                parsed.head.timeout.get_or_insert(value);
            }
            11 if name.eq_ignore_ascii_case("traceparent") => parsed.head.trace = Some(value),
            10 if name.eq_ignore_ascii_case("tracestate") => {
                parsed.head.trace_state.get_or_insert(value);
            }
            16 if name.eq_ignore_ascii_case("content-encoding") => {
                let is_plain = value.trim_ascii().eq_ignore_ascii_case(b"identity");
                parsed.head.is_encoded |= !is_plain;
            }
            4 if name.eq_ignore_ascii_case("host") => hosts += 1,
            6 if name.eq_ignore_ascii_case("expect") => {
                parsed.expects =
                    !is_http10 && value.trim_ascii().eq_ignore_ascii_case(b"100-continue");
            }
            _ => {}
        }
    }
    check_hosts(hosts, is_http10)?;
    parsed.keeps_alive &= !closes;
    parsed.framing = framing(chunked, announced)?;
    Ok(parsed)
}

/// The parts of a list.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = value.split(|byte| *byte == b',');
    parts.map(<[u8]>::trim_ascii)
}

/// RFC 9112, 3.2.
fn check_hosts(hosts: u32, is_http10: bool) -> Result<(), Malformed> {
    match hosts {
        0 if !is_http10 => Err(Malformed::Request("the host is missing")),
        0 | 1 => Ok(()),
        _ => Err(Malformed::Request("there is more than one host")),
    }
}

fn framing(chunked: bool, announced: Option<u64>) -> Result<Framing, Malformed> {
    match (chunked, announced) {
        // Somebody in between may have gone by the other one, and taken part of the body for a request (RFC 9112, 6.1).
        (true, Some(_)) => Err(Malformed::Request(
            "the body has both a length and a transfer coding",
        )),
        (true, None) => Ok(Framing::Chunked),
        (false, announced) => Ok(Framing::Length(announced.unwrap_or(0))),
    }
}

fn content_length(value: &[u8]) -> Result<u64, Malformed> {
    let digits = value.trim_ascii();
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    });
    let number = number.filter(|_| !digits.is_empty());
    number.ok_or(Malformed::Request("the length of the body is not a number"))
}

/// The path in a target: alone, or behind the authority of a URL.
fn path_of(target: &str) -> &str {
    let path = match target.starts_with('/') {
        true => target,
        false => match target.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
            None => target,
        },
    };
    let end = path.bytes().position(|byte| matches!(byte, b'?' | b'#'));
    &path[..end.unwrap_or(path.len())]
}
