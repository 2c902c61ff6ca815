//! HTTP/1.1 on our own event loop: requests rendered from a template, answers cut out of the byte stream.
//!
//! A client library would spend more processor time on a request than a good service does. What a load generator
//! needs of an answer is its end and its status: heads are parsed by `httparse`, bodies are counted and dropped.
//! 2xx is "allowed", 429 "denied", any other status an error of the target.

use httparse::{EMPTY_HEADER, Response, Status, parse_chunk_size};

use super::tally::Verdict;
use super::workload::Rule;

/// Longest head of an answer, in bytes.
const HEAD_MAX: usize = 16 * 1024;
/// Headers of an answer.
const HEADERS_MAX: usize = 64;
/// Longest body of an answer, in bytes.
const BODY_MAX: usize = 1024 * 1024;
/// Interim answers (1xx) before the final one.
const INTERIM_MAX: usize = 8;

/// What is asked over HTTP. `{key}`, `{limit}` and `{window}` (seconds) are filled in per request in target, header
/// values and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAsk {
    /// `GET`, `POST`, ...
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Value of the Host header.
    pub authority: String,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Body; empty for none.
    pub body: String,
    /// Title for tables, e.g. `HTTP POST /json`.
    pub title: String,
}

/// Methods whose answers have a body that can be counted; HEAD has none although its answer tells a length.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// Headers that the generator writes itself.
const OWN_HEADERS: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

/// The body that Tollgate's `/json` and envoyproxy/ratelimit's understand, for the rules of
/// [`crate::target::service::rules_yaml`].
pub const RATE_LIMIT_BODY: &str =
    r#"{"domain":"bench","descriptors":[{"entries":[{"key":"limit_{limit}","value":"{key}"}]}]}"#;

/// The same with several descriptors: `{key}`, `{key}.1`, ...
#[must_use]
pub(crate) fn rate_limit_body(descriptors: u32) -> String {
    let (front, back) = RATE_LIMIT_BODY
        .split_once("[{")
        .and_then(|(front, rest)| Some((front, rest.strip_suffix("]}")?)))
        .unwrap_or((RATE_LIMIT_BODY, ""));
    let others = (1..descriptors).map(|other| back.replace("{key}", &format!("{{key}}.{other}")));
    let all: Vec<String> = std::iter::once(back.to_owned()).chain(others).collect();
    format!("{front}[{{{}]}}", all.join(",{"))
}

impl HttpAsk {
    /// A request to `target` at `authority`. Without a body the method is GET, with one POST, unless `method` says
    /// otherwise. Fails where a part could not stand in a request.
    pub fn new(
        authority: &str,
        target: &str,
        method: Option<&str>,
        headers: &[(String, String)],
        body: Option<&str>,
    ) -> Result<HttpAsk, String> {
        let body = body.unwrap_or_default();
        let method = method.map_or_else(
            || if body.is_empty() { "GET" } else { "POST" }.to_owned(),
            str::to_ascii_uppercase,
        );
        if !METHODS.contains(&method.as_str()) {
            return Err(format!(
                "'{method}' is not a method that can be measured: give {}",
                METHODS.join(", ")
            ));
        }
        if !target.starts_with('/') || target.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(format!(
                "'{target}' is not a path: it begins with / and has no spaces"
            ));
        }
        for (name, value) in headers {
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if name.is_empty() || !name.bytes().all(token) {
                return Err(format!("'{name}' is not the name of a header"));
            }
            if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(format!("the header {name} is written by the generator"));
            }
            if value.bytes().any(|b| b < b' ' && b != b'\t') {
                return Err(format!("the value of the header {name} has a line break"));
            }
        }
        let path = target.split('?').next().unwrap_or(target);
        Ok(HttpAsk {
            title: format!("HTTP {method} {path}"),
            method,
            target: target.into(),
            authority: authority.into(),
            headers: headers.to_vec(),
            body: body.into(),
        })
    }

    /// Whether the limit is part of the request, so that the bench knows what is decided.
    #[must_use]
    pub(crate) fn states_limit(&self) -> bool {
        let values = self.headers.iter().map(|(_, value)| value);
        [&self.target, &self.body]
            .into_iter()
            .chain(values)
            .any(|text| text.contains("{limit}"))
    }

    /// Appends the request for `key`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, key: &str, rule: Rule) {
        let (limit, window) = (rule.limit.to_string(), rule.window_s.to_string());
        let fill = |text: &str| {
            text.replace("{limit}", &limit)
                .replace("{window}", &window)
                .replace("{key}", key)
        };
        let body = fill(&self.body);
        let mut head = format!(
            "{} {} HTTP/1.1\r\nhost: {}\r\n",
            self.method,
            fill(&self.target),
            self.authority
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {}\r\n", fill(value)));
        }
        if !body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH") {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(body.as_bytes());
    }
}

/// A whole answer at the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// With interim answers before it.
    pub length: usize,
    /// It is the last on its connection.
    pub ends_connection: bool,
}

/// The first whole answer in `bytes`; `None` while it is incomplete.
pub(crate) fn cut(bytes: &[u8]) -> Result<Option<Cut>, String> {
    let mut from = 0;
    for _ in 0..=INTERIM_MAX {
        let rest = &bytes[from..];
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut head = Response::new(&mut headers);
        let body_at = match head.parse(rest) {
            Ok(Status::Complete(length)) if length > HEAD_MAX => return Err(head_too_long()),
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) if rest.len() > HEAD_MAX => return Err(head_too_long()),
            Ok(Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(format!(
                    "an HTTP answer with more than {HEADERS_MAX} headers"
                ));
            }
            Err(error) => return Err(format!("not an HTTP answer ({error})")),
        };
        match head.code.unwrap_or_default() {
            101 => return Err("an answer that switches to another protocol".into()),
            100..=199 => from += body_at,
            code => {
                let body = match code {
                    204 | 304 => Some(0),
                    _ => body_len(head.headers, &rest[body_at..])?,
                };
                return Ok(body.map(|body| Cut {
                    length: from + body_at + body,
                    ends_connection: ends_connection(&head),
                }));
            }
        }
    }
    Err(format!("more than {INTERIM_MAX} interim answers"))
}

/// Whether an answer is the last on its connection: the server says so, or speaks HTTP/1.0 and does not say that it keeps it
/// (RFC 9112 section 9.3).
fn ends_connection(head: &Response<'_, '_>) -> bool {
    let says = |word: &[u8]| {
        let told = head.headers.iter();
        told.filter(|header| header.name.eq_ignore_ascii_case("connection"))
            .flat_map(|header| header.value.split(|byte| *byte == b','))
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(word))
    };
    says(b"close") || (head.version == Some(0) && !says(b"keep-alive"))
}

fn head_too_long() -> String {
    format!("an HTTP head of more than {HEAD_MAX} bytes")
}

/// Length of the body that follows, by RFC 9112 section 6.3.
fn body_len(headers: &[httparse::Header<'_>], bytes: &[u8]) -> Result<Option<usize>, String> {
    let named = |wanted: &'static str| {
        headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(wanted))
            .map(|header| header.value.trim_ascii())
    };
    let mut codings = named("transfer-encoding");
    if let Some(coding) = codings.next() {
        return if codings.next().is_none() && coding.eq_ignore_ascii_case(b"chunked") {
            chunked_len(bytes)
        } else {
            Err("a transfer coding other than chunked".into())
        };
    }
    let mut lengths = named("content-length");
    let Some(first) = lengths.next() else {
        return Err("an answer without a length: its connection cannot be used again".into());
    };
    if lengths.any(|other| other != first) {
        return Err("an answer with two different lengths".into());
    }
    let length = std::str::from_utf8(first)
        .ok()
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse::<usize>().ok())
        .ok_or("a Content-Length that is not a number")?;
    if length > BODY_MAX {
        return Err(format!("an HTTP body of {length} bytes"));
    }
    Ok((bytes.len() >= length).then_some(length))
}

fn chunked_len(bytes: &[u8]) -> Result<Option<usize>, String> {
    let mut from = 0;
    loop {
        let Ok(parsed) = parse_chunk_size(&bytes[from..]) else {
            return Err("a chunk whose size is not a number".into());
        };
        let Status::Complete((head, size)) = parsed else {
            return if bytes.len() - from > HEAD_MAX {
                Err("the line of a chunk's size is too long".into())
            } else {
                Ok(None)
            };
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > BODY_MAX || from > BODY_MAX {
            return Err(format!("an HTTP body of more than {BODY_MAX} bytes"));
        }
        from += head;
        if size == 0 {
            return trailers_len(&bytes[from..]).map(|length| length.map(|length| from + length));
        }
        match bytes.get(from + size..from + size + 2) {
            Some(b"\r\n") => from += size + 2,
            Some(_) => return Err("a chunk that is longer than its size".into()),
            None => return Ok(None),
        }
    }
}

/// Length of the trailers behind the last chunk, the empty line included.
fn trailers_len(bytes: &[u8]) -> Result<Option<usize>, String> {
    let mut from = 0;
    while let Some(end) = bytes[from..].windows(2).position(|pair| pair == b"\r\n") {
        from += end + 2;
        if end == 0 {
            return Ok(Some(from));
        }
    }
    if bytes.len() > HEAD_MAX {
        return Err(head_too_long());
    }
    Ok(None)
}

/// What a whole answer said.
#[must_use]
pub(crate) fn verdict(frame: &[u8]) -> Verdict {
    match final_status(frame) {
        Some(200..=299) => Verdict::Allowed,
        Some(429) => Verdict::Denied,
        Some(400..=599) => Verdict::Error,
        _ => Verdict::Unexpected,
    }
}

/// The wait in whole seconds that a denial's Retry-After header tells, in milliseconds; `None` without one, or where
/// it is a date.
#[must_use]
pub(crate) fn retry_after_ms(frame: &[u8]) -> Option<u64> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut head = Response::new(&mut headers);
    head.parse(frame).ok()?;
    let header = head
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("retry-after"))?;
    let seconds: u64 = std::str::from_utf8(header.value.trim_ascii())
        .ok()?
        .parse()
        .ok()?;
    seconds.checked_mul(1_000)
}

/// The status behind interim answers.
fn final_status(mut frame: &[u8]) -> Option<u16> {
    loop {
        // "HTTP/1.1 200 OK": the digits stand at 9 in every version that `cut` takes.
        let digits = std::str::from_utf8(frame.get(9..12)?).ok()?;
        let status: u16 = digits.parse().ok()?;
        if status >= 200 {
            return Some(status);
        }
        let end = frame.windows(4).position(|four| four == b"\r\n\r\n")?;
        frame = &frame[end + 4..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        limit: 20,
        window_s: 60,
    };

    /// Whole at its end, incomplete at every earlier byte.
    fn whole(answer: &str) -> Verdict {
        let bytes = answer.as_bytes();
        for end in 0..bytes.len() {
            assert_eq!(cut(&bytes[..end]), Ok(None), "{end} of {answer:?}");
        }
        let mut more = bytes.to_vec();
        more.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        let whole = cut(&more).unwrap().map(|cut| cut.length);
        assert_eq!(whole, Some(bytes.len()), "{answer:?}");
        verdict(bytes)
    }

    #[test]
    fn bodies_may_have_several_descriptors() {
        assert_eq!(rate_limit_body(1), RATE_LIMIT_BODY);
        let three: serde_json::Value = serde_json::from_str(&rate_limit_body(3)).unwrap();
        let values = |at: usize| &three["descriptors"][at]["entries"][0]["value"];
        assert_eq!(
            [values(0), values(1), values(2)],
            ["{key}", "{key}.1", "{key}.2"]
        );
        assert_eq!(three["descriptors"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn the_last_answer_of_a_connection_is_known() {
        let ends = |head: &str| {
            let answer = format!("{head}\r\ncontent-length: 0\r\n\r\n");
            cut(answer.as_bytes()).unwrap().unwrap().ends_connection
        };
        assert!(ends("HTTP/1.1 200 OK\r\nConnection: close"));
        assert!(ends("HTTP/1.1 429 No\r\nconnection: x, Close"));
        assert!(ends("HTTP/1.0 200 OK"));
        assert!(ends(
            "HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 200 OK\r\nconnection: close"
        ));
        assert!(!ends("HTTP/1.0 200 OK\r\nconnection: Keep-Alive"));
        assert!(!ends("HTTP/1.1 200 OK") && !ends("HTTP/1.1 200 OK\r\nconnection: keep-alive"));
    }

    #[test]
    fn answers_are_cut_at_their_ends() {
        let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK";
        assert_eq!(whole(ok), Verdict::Allowed);
        assert_eq!(
            whole("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"),
            Verdict::Denied
        );
        let denied = b"HTTP/1.1 429 No\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(retry_after_ms(denied), Some(7_000));
        assert_eq!(retry_after_ms(ok.as_bytes()), None);
        assert_eq!(whole("HTTP/1.1 204 No Content\r\n\r\n"), Verdict::Allowed);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n5;a=b\r\npedia\r\n0\r\nx: y\r\n\r\n";
        assert_eq!(whole(chunked), Verdict::Allowed);
        let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{ok}");
        assert_eq!(whole(&interim), Verdict::Allowed);
        assert_eq!(
            whole("HTTP/1.0 503 Busy\r\ncontent-length:1\r\n\r\nx"),
            Verdict::Error
        );
        assert_eq!(
            whole("HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n"),
            Verdict::Unexpected
        );
    }

    #[test]
    fn what_is_no_answer_says_why() {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(65));
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(HEAD_MAX));
        for (bytes, says) in [
            ("+OK\r\n", "not an HTTP answer"),
            ("HTTP/1.1 200 OK\r\n\r\n", "without a length"),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
                "two different",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
                "not a number",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
                "99999999999 bytes",
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
                "other than chunked",
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
                "not a number",
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n",
                "more than",
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc",
                "longer than",
            ),
            (
                "HTTP/1.1 101 Switching Protocols\r\n\r\n",
                "another protocol",
            ),
            (many.as_str(), "more than 64 headers"),
            (long.as_str(), "head of more than"),
        ] {
            let error = cut(bytes.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{bytes:.60}: {error}");
        }
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(20);
        assert!(cut(interim.as_bytes()).unwrap_err().contains("interim"));
    }

    #[test]
    fn requests_are_filled_in() {
        let headers = [("x-user".to_owned(), "{key}".to_owned())];
        let ask = HttpAsk::new(
            "h:1",
            "/json?w={window}",
            None,
            &headers,
            Some(RATE_LIMIT_BODY),
        )
        .unwrap();
        assert!(ask.states_limit());
        assert_eq!(ask.title, "HTTP POST /json");
        let mut out = Vec::new();
        ask.write(&mut out, "k7", RULE);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("POST /json?w=60 HTTP/1.1\r\nhost: h:1\r\nx-user: k7\r\n"),
            "{head}"
        );
        assert!(
            head.ends_with(&format!("content-length: {}", body.len())),
            "{head}"
        );
        assert!(body.contains(r#""key":"limit_20","value":"k7""#), "{body}");
        let get = HttpAsk::new("h", "/light?userId={key}", None, &[], None).unwrap();
        let mut out = Vec::new();
        get.write(&mut out, "k", RULE);
        assert_eq!(out, b"GET /light?userId=k HTTP/1.1\r\nhost: h\r\n\r\n");
        assert!(!get.states_limit());
    }

    #[test]
    fn what_cannot_be_asked_says_why() {
        let header = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        let new = |target: &str, method, headers: &[(String, String)]| {
            HttpAsk::new("h", target, method, headers, None).unwrap_err()
        };
        assert!(new("x", None, &[]).contains("not a path"));
        assert!(new("/a b", None, &[]).contains("not a path"));
        assert!(new("/", Some("HEAD"), &[]).contains("HEAD"));
        assert!(new("/", None, &header("a b", "")).contains("name of a header"));
        assert!(new("/", None, &header("Content-Length", "1")).contains("written by"));
        assert!(new("/", None, &header("a", "b\r\nc")).contains("line break"));
    }
}
