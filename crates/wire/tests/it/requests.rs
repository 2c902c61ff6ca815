//! The request parser: outcomes as redis-server 7.0.15 shows them on a raw socket, and the same outcome however the bytes arrive.

use proptest::prelude::*;
use tollgate_wire::resp::{Limits, Progress, ProtocolError, RequestParser, write_command};

/// What a byte stream holds: its commands, and how it ends.
#[derive(Debug, PartialEq, Clone)]
struct Outcome {
    commands: Vec<Vec<Vec<u8>>>,
    /// Bytes of a last command that is not complete.
    rest: Vec<u8>,
    error: Option<ProtocolError>,
}

/// Feeds `chunks` one after the other, as a connection does.
fn feed(chunks: &[&[u8]], limits: &Limits) -> Outcome {
    let mut parser = RequestParser::new();
    let mut outcome = Outcome {
        commands: Vec::new(),
        rest: Vec::new(),
        error: None,
    };
    for chunk in chunks {
        outcome.rest.extend_from_slice(chunk);
        loop {
            match parser.parse(&outcome.rest, limits) {
                Ok(Progress::Ready { consumed }) => {
                    let args: Vec<_> = parser
                        .args(&outcome.rest)
                        .iter()
                        .map(|arg| arg.to_vec())
                        .collect();
                    assert_eq!(args.len(), parser.arg_count());
                    if !args.is_empty() {
                        outcome.commands.push(args);
                    }
                    outcome.rest.drain(..consumed);
                }
                Ok(Progress::Incomplete { needed }) => {
                    assert!(needed > 0);
                    break;
                }
                Err(error) => {
                    outcome.error = Some(error);
                    outcome.rest.clear();
                    return outcome;
                }
            }
        }
    }
    outcome
}

fn whole(bytes: &[u8]) -> Outcome {
    feed(&[bytes], &Limits::authenticated())
}

fn commands(bytes: &[u8]) -> Vec<Vec<String>> {
    let outcome = whole(bytes);
    assert_eq!(
        (&outcome.rest[..], &outcome.error),
        (&b""[..], &None),
        "{}",
        bytes.escape_ascii()
    );
    let text = |arg: &Vec<u8>| arg.escape_ascii().to_string();
    outcome
        .commands
        .iter()
        .map(|args| args.iter().map(text).collect())
        .collect()
}

fn error(bytes: &[u8], limits: &Limits) -> String {
    let error = feed(&[bytes], limits).error;
    error
        .unwrap_or_else(|| panic!("{} is accepted", bytes.escape_ascii()))
        .line()
        .escape_ascii()
        .to_string()
}

#[test]
fn empty_commands_are_skipped_silently() {
    for before in ["\r\n", "\n\n", "   \r\n", "*0\r\n", "*-1\r\n", "*-7\r\n"] {
        assert_eq!(
            commands(format!("{before}PING\r\n").as_bytes()),
            [["PING"]],
            "{before:?}"
        );
    }
}

#[test]
fn lenient_where_redis_is_lenient() {
    assert_eq!(
        commands(b"*2\r\n$4\r\nECHO\r\n$3\r\nabcXX*1\r\n$4\r\nPING\r\n"),
        [vec!["ECHO", "abc"], vec!["PING"]]
    );
    assert_eq!(commands(b"*1\rX$4\rXPING\r\n"), [["PING"]]);
    assert_eq!(commands(b"*1\r\n$0\r\n\r\n"), [[""]]);
    assert_eq!(commands(b"PING\nPING\r\r\n"), [["PING"], ["PING"]]);
    assert_eq!(commands(b"\"\"\r\n"), [[""]]);
    assert_eq!(commands(b":1\r\n"), [[":1"]]);
}

#[test]
fn errors_have_the_words_of_redis() {
    for (bytes, text) in [
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$ 4\r\n", "invalid bulk length"),
        ("*1\r\n$04\r\n", "invalid bulk length"),
        ("*1\r\n$+4\r\n", "invalid bulk length"),
        ("*1\r\n$4 \r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$-0\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("*1\r\n$4294967296\r\n", "invalid bulk length"),
        ("*1\r\nfoo", "expected \\'$\\', got \\'f\\'"),
        ("*1\r\n\r\n", "expected \\'$\\', got \\'\\r\\'"),
        ("*01\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("* 1\r\n", "invalid multibulk length"),
        ("*1a\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*-0\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*9223372036854775808\r\n", "invalid multibulk length"),
        ("*-9223372036854775809\r\n", "invalid multibulk length"),
        ("ECHO \"abc\r\n", "unbalanced quotes in request"),
    ] {
        assert_eq!(
            error(bytes.as_bytes(), &Limits::authenticated()),
            format!("ERR Protocol error: {text}"),
            "{bytes:?}"
        );
    }
    assert_eq!(
        whole(b"*1\r\n\xff\r\n").error.map(|error| error.line()),
        Some(b"ERR Protocol error: expected '$', got '\xff'".to_vec())
    );
}

#[test]
fn lines_without_an_end_are_cut_off() {
    for (prefix, text) in [
        ("", "too big inline request"),
        ("*", "too big mbulk count string"),
        ("*1\r\n$", "too big bulk count string"),
    ] {
        let fits = format!("{prefix}{}", "1".repeat(65_535));
        assert_eq!(whole(fits.as_bytes()).error, None, "{text}");
        let line = format!("{prefix}{}", "1".repeat(65_537));
        assert_eq!(
            error(line.as_bytes(), &Limits::authenticated()),
            format!("ERR Protocol error: {text}")
        );
    }
}

#[test]
fn a_large_header_waits_without_taking_memory() {
    for bytes in [
        "*2147483647\r\n",
        "*1000000\r\n$3\r\nGET\r\n",
        "*1\r\n$536870912\r\n",
    ] {
        let mut parser = RequestParser::new();
        let progress = parser.parse(bytes.as_bytes(), &Limits::authenticated());
        assert!(
            matches!(progress, Ok(Progress::Incomplete { .. })),
            "{bytes:?}"
        );
        assert!(parser.capacity() < 1024, "{bytes:?}");
    }
}

#[test]
fn a_client_without_a_password_is_kept_short() {
    let limits = Limits::unauthenticated();
    assert_eq!(
        error(b"*11\r\n", &limits),
        "ERR Protocol error: unauthenticated multibulk length"
    );
    assert_eq!(
        error(b"*1\r\n$16385\r\n", &limits),
        "ERR Protocol error: unauthenticated bulk length"
    );
    assert_eq!(feed(&[b"*10\r\n$16384\r\n"], &limits).error, None);
}

#[test]
fn http_is_hung_up_on_without_a_word() {
    for bytes in [
        "POST / HTTP/1.1\r\n",
        "post a b\r\n",
        "Host: foo\r\n",
        "host:\r\n",
        "*1\r\n$4\r\nPOST\r\n",
        "PING\r\nHost: a\r\n",
    ] {
        let error = whole(bytes.as_bytes())
            .error
            .expect("an HTTP request is refused");
        assert!(error.is_silent(), "{bytes:?}");
    }
    assert_eq!(commands(b"GET / HTTP/1.1\r\n").len(), 1);
}

#[test]
fn a_command_beyond_the_limit_is_refused_before_it_arrives() {
    let limits = Limits {
        max_request: 100,
        ..Limits::authenticated()
    };
    assert_eq!(feed(&[b"*2\r\n$80\r\n"], &limits).error, None);
    assert_eq!(
        feed(&[b"*2\r\n$90\r\n"], &limits).error,
        Some(ProtocolError::TooBigRequest)
    );
}

#[test]
fn a_giant_command_does_not_keep_its_memory() {
    let args = vec![&b"k"[..]; 20_000];
    let mut bytes = Vec::new();
    write_command(&mut bytes, &args);
    let mut parser = RequestParser::new();
    let limits = Limits::authenticated();
    assert_eq!(
        parser.parse(&bytes, &limits),
        Ok(Progress::Ready {
            consumed: bytes.len()
        })
    );
    assert_eq!(parser.args(&bytes).len(), 20_000);
    assert_eq!(
        parser.parse(b"PING\r\n", &limits),
        Ok(Progress::Ready { consumed: 6 })
    );
    assert!(parser.capacity() < 10_000);
}

fn multibulk() -> impl Strategy<Value = Vec<u8>> {
    let arg = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..24),
        "[a-z]{1,5}".prop_map(String::into_bytes),
        proptest::collection::vec(Just(b'x'), 90..130),
    ];
    proptest::collection::vec(arg, 0..6).prop_map(|args| {
        let mut out = Vec::new();
        write_command(
            &mut out,
            &args.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        );
        out
    })
}

/// Streams that are mostly right, with every kind of damage now and then.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => multibulk(),
        2 => "[ a-z\"'\\\\x0-9\t]{0,12}\r?\n".prop_map(String::into_bytes),
        1 => "[*$][-+ 0-9]{0,4}\r\n".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_stream_parses_the_same_however_it_is_cut(bytes in stream(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let expected = whole(&bytes);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        at.sort_unstable();
        let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(feed(&chunks, &Limits::authenticated()), expected.clone());
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(feed(&single, &Limits::authenticated()), expected);
    }

    #[test]
    fn a_written_command_reads_back(args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..40)) {
        let mut bytes = Vec::new();
        write_command(&mut bytes, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let outcome = whole(&bytes);
        if !outcome.error.is_some_and(|error| error.is_silent()) {
            prop_assert_eq!(outcome.commands, vec![args]);
        }
    }

    #[test]
    fn the_bytes_said_to_be_needed_are_needed(bytes in multibulk(), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(bytes.len());
        let mut parser = RequestParser::new();
        if let Ok(Progress::Incomplete { needed }) = parser.parse(&bytes[..cut], &Limits::authenticated()) {
            prop_assert!(needed <= bytes.len() - cut);
        }
    }
}
