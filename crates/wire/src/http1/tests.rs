use super::{Answer, Event, MAX_FIELDS, MAX_HEAD, Malformed, Reader};

/// What a stream was, with everything owned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Head(String, String),
    Body(Vec<u8>),
    Malformed(Malformed),
}

const MAX_BODY: usize = 1 << 10;
const DATE: &[u8] = b"Thu, 01 Jan 1970 00:00:00 GMT";

const OK: Answer<'_> = Answer {
    status: 200,
    reason: "OK",
    content_type: "text/plain",
    fields: &[],
    date: DATE,
    body: b"hello",
};

/// Feeds pieces to a reader and answers each request; what there was, and what was written.
fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Seen>, String) {
    let mut reader = Reader::new(MAX_BODY);
    let (mut rest, mut seen, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        rest.extend_from_slice(piece);
        loop {
            let (used, event) = reader.next(&rest);
            let (event, is_over) = match event {
                Event::More => (None, false),
                Event::Head(head) => {
                    let head = Seen::Head(head.method.to_owned(), head.path.to_owned());
                    (Some(head), false)
                }
                Event::Body(body) => (Some(Seen::Body(body.to_vec())), true),
                Event::Malformed(malformed) => (Some(Seen::Malformed(malformed)), true),
            };
            rest.drain(..used);
            let waits = event.is_none();
            seen.extend(event);
            if is_over {
                reader.answer(&OK, &mut out);
                if !reader.keeps_alive() {
                    return (seen, String::from_utf8(out).expect("text"));
                }
            }
            if waits {
                break;
            }
        }
        assert!(rest.len() <= MAX_HEAD + piece.len(), "{}", rest.len());
    }
    (seen, String::from_utf8(out).expect("text"))
}

fn whole(bytes: &[u8]) -> (Vec<Seen>, String) {
    let seen = feed([bytes]);
    for size in [1, 2, 3, 7] {
        assert_eq!(feed(bytes.chunks(size)), seen, "in pieces of {size}");
    }
    seen
}

fn head(method: &str, path: &str) -> Seen {
    Seen::Head(method.to_owned(), path.to_owned())
}

fn malformed(bytes: &[u8]) -> Option<Malformed> {
    let (seen, _) = whole(bytes);
    seen.into_iter().find_map(|seen| match seen {
        Seen::Malformed(malformed) => Some(malformed),
        _ => None,
    })
}

#[test]
fn requests_follow_one_another_in_any_pieces() {
    let bytes = b"POST /json?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc\
        \r\nGET http://host/a#b HTTP/1.1\r\nhost: x\r\n\r\n\
        PUT /c HTTP/1.1\r\nhost: x\r\ntransfer-encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nt: 1\r\n\r\n\
        HEAD * HTTP/1.1\r\nhost: x\r\nconnection: foo, Close\r\n\r\nGET /never HTTP/1.1\r\nhost: x\r\n\r\n";
    let (seen, out) = whole(bytes);
    let want = [
        head("POST", "/json"),
        Seen::Body(b"abc".to_vec()),
        head("GET", "/a"),
        Seen::Body(Vec::new()),
        head("PUT", "/c"),
        Seen::Body(b"abc0123456789".to_vec()),
        head("HEAD", "*"),
        Seen::Body(Vec::new()),
    ];
    assert_eq!(seen, want);
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\
        date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nhello";
    assert!(out.starts_with(&answer.repeat(3)), "{out}");
    assert!(
        out.ends_with("\r\n\r\n") && out.contains("connection: close"),
        "{out}"
    );
}

#[test]
fn connections_of_http_1_0_end_unless_asked_to_stay() {
    let (seen, out) = whole(b"GET /a HTTP/1.0\r\n\r\nGET /b HTTP/1.0\r\n\r\n");
    assert_eq!(seen.len(), 2);
    assert!(
        out.starts_with("HTTP/1.0 200 OK\r\n") && !out.contains("connection"),
        "{out}"
    );
    let stays = b"GET /a HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n";
    let (seen, out) = whole(&stays.repeat(2));
    assert_eq!(seen.len(), 4);
    assert_eq!(out.matches("\r\nconnection: keep-alive\r\n").count(), 2);
}

#[test]
fn what_is_no_request_is_refused_and_ends_the_connection() {
    let bad = Some(400);
    for (bytes, status) in [
        (&b"\0\xff garbage\r\n"[..], bad),
        (b"GET\r\n\r\n", bad),
        (b"GET / HTTP/2.0\r\n\r\n", Some(505)),
        (b"GET / HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n", bad),
        (b"GET / HTTP/1.1\r\nhost: x\r\na : b\r\n\r\n", bad),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: b\r\n folded\r\n\r\n", bad),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
            bad,
        ),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +1\r\n\r\n",
            bad,
        ),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length:\r\n\r\n",
            bad,
        ),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n\r\n",
            bad,
        ),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            bad,
        ),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1025\r\n\r\n",
            Some(413),
        ),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            Some(501),
        ),
        (
            b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
            bad,
        ),
        (b"GET / HTTP/1.1\r\na: b\r\n\r\n", bad),
        (b"GET http://x/ HTTP/1.1\r\n\r\n", bad),
        (b"GET / HTTP/1.1\r\nhost: x\r\nHost: y\r\n\r\n", bad),
        (b"GET / HTTP/1.0\r\nhost: x\r\nHost: x\r\n\r\n", bad),
        (b"GET / HTTP/1.1\r\nhost:\r\n\r\n", None),
        (b"GET / HTTP/1.0\r\n\r\n", None),
    ] {
        let got = malformed(bytes).map(Malformed::status);
        assert_eq!(got, status, "{}", bytes.escape_ascii());
    }
    let same = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx";
    assert_eq!(whole(same).0[1], Seen::Body(b"x".to_vec()));
}

#[test]
fn chunks_are_checked_before_anything_is_kept() {
    for (body, status) in [
        (&b"\r\n"[..], Some(400)),
        (b"x\r\n", Some(400)),
        (b"2\r\nabc", Some(400)),
        (b"2\r\nab\rx", Some(400)),
        (b"fffffffffffffffff\r\n", Some(400)),
        (b"ffffffffffffffff\r\n", Some(413)),
        (b"401\r\n", Some(413)),
        (b"400\r\n", None),
        (b"2;a\nb\r\nab\r\n", Some(400)),
        (b"0\r\na: b\n\r\n", Some(400)),
        (b"0\r\n\r\n", None),
    ] {
        let head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let got = malformed(&[head, body].concat()).map(Malformed::status);
        assert_eq!(got, status, "{}", body.escape_ascii());
    }
}

#[test]
fn whatever_may_grow_has_a_bound() {
    let bounded = |bytes: &[u8]| {
        let seen = feed([bytes]);
        assert_eq!(feed(bytes.chunks(1_000)), seen);
        seen.0.into_iter().find_map(|seen| match seen {
            Seen::Malformed(malformed) => Some(malformed.status()),
            _ => None,
        })
    };
    let head = |field: &str, times: usize| {
        format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", field.repeat(times))
    };
    let long = "x".repeat(MAX_HEAD);
    for (bytes, status) in [
        (
            format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
            Some(414),
        ),
        (head(&format!("a: {long}\r\n"), 1), Some(431)),
        // The host is one of them.
        (head("a: b\r\n", MAX_FIELDS - 1), None),
        (head("a: b\r\n", MAX_FIELDS), Some(431)),
        ("\r\n".repeat(MAX_HEAD), Some(414)),
    ] {
        assert_eq!(bounded(bytes.as_bytes()), status);
    }
    let chunked = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    for (body, status) in [
        (format!("1;{long}"), 400),
        (format!("1;{}\r\na\r\n", "x".repeat(500)).repeat(40), 400),
        (format!("0\r\n{}", "a: b\r\n".repeat(MAX_HEAD / 6 + 1)), 431),
        (format!("0\r\n{long}x"), 431),
        ("1\r\na\r\n".repeat(MAX_BODY + 1), 413),
    ] {
        let got = bounded(format!("{chunked}{body}").as_bytes());
        assert_eq!(got, Some(status));
    }
}

#[test]
fn two_ways_to_end_a_body_are_no_request() {
    for both in [
        &b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n"[..],
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n",
    ] {
        let (seen, out) = whole(both);
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(malformed(both).map(Malformed::status), Some(400));
        assert!(out.contains("connection: close"), "{out}");
    }
}

#[test]
fn who_asks_to_close_is_not_kept_by_another_field() {
    for fields in [
        "connection: close\r\nconnection: keep-alive\r\n",
        "connection: keep-alive, close\r\n",
    ] {
        let request = format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n");
        let (seen, _) = whole(request.repeat(2).as_bytes());
        assert_eq!(seen.len(), 2, "{fields}");
    }
}

/// What is told of a request that cannot be read is told whole, whatever the request before was.
#[test]
fn the_request_before_says_nothing_about_a_malformed_one() {
    let (_, out) = whole(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\nGET\r\n\r\n");
    assert!(out.ends_with("\r\n\r\nhello"), "{out}");
}

#[test]
fn a_body_that_nobody_wants_is_left_out_when_it_comes() {
    let mut reader = Reader::new(MAX_BODY);
    let mut out = Vec::new();
    let asked = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n";
    assert!(matches!(reader.next(asked).1, Event::Head(_)));
    assert_eq!(reader.skip_body(b"ab"), 2);
    reader.answer(&OK, &mut out);
    assert!(reader.keeps_alive() && reader.is_skipping() && !reader.is_within_request());
    assert_eq!(reader.next(b"c"), (1, Event::More));
    let (used, event) = reader.next(b"deGET /next HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(used, 33);
    assert!(matches!(event, Event::Head(head) if head.path == "/next"));
    assert!(!reader.is_skipping());
    assert_eq!(reader.next(b""), (0, Event::Body(b"")));
    reader.answer(&OK, &mut out);
    // One that the reader would not take ends the connection.
    let long = format!(
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        MAX_BODY + 1
    );
    assert!(matches!(reader.next(long.as_bytes()).1, Event::Head(_)));
    assert_eq!(reader.skip_body(b"ab"), 0);
    reader.answer(&OK, &mut out);
    assert!(!reader.keeps_alive() && reader.is_cut_off());
}

#[test]
fn a_body_may_be_expected_or_left() {
    let mut reader = Reader::new(MAX_BODY);
    let asked = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n";
    let (used, event) = reader.next(asked);
    assert!(matches!(event, Event::Head(_)));
    assert_eq!(used, asked.len());
    assert!(reader.is_within_request());
    assert!(reader.takes_up_expectation() && !reader.takes_up_expectation());
    assert_eq!(reader.next(b"x").1, Event::Body(b"x"));
    let mut out = Vec::new();
    reader.answer(&OK, &mut out);
    assert!(reader.keeps_alive() && !reader.is_within_request());
    // What is there as a whole is passed over; what is not ends the connection.
    for (body, used, stays) in [(&b"x"[..], 1, true), (b"", 0, false)] {
        assert!(matches!(reader.next(asked).1, Event::Head(_)));
        assert_eq!(reader.skip_body(body), used);
        reader.answer(&OK, &mut out);
        assert_eq!(reader.keeps_alive(), stays);
    }
}
