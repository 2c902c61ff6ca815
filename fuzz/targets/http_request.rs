//! HTTP requests: no input panics, takes memory beyond what it sent, or reads differently when it arrives in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_wire::http1::{Answer, Event, MAX_HEAD, Malformed, Reader};

const MAX_BODY: usize = 256;

#[derive(Debug, PartialEq)]
enum Seen {
    Head(String, String),
    Body(Vec<u8>),
    Malformed(Malformed),
}

fn feed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Seen>, Vec<u8>) {
    let mut reader = Reader::new(MAX_BODY);
    let (mut rest, mut seen, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        rest.extend_from_slice(piece);
        loop {
            let (used, event) = reader.next(&rest);
            let seen_now = match event {
                Event::More => None,
                Event::Head(head) => Some(Seen::Head(head.method.into(), head.path.into())),
                Event::Body(body) => {
                    assert!(body.len() <= MAX_BODY);
                    Some(Seen::Body(body.to_vec()))
                }
                Event::Malformed(malformed) => Some(Seen::Malformed(malformed)),
            };
            rest.drain(..used);
            let Some(seen_now) = seen_now else { break };
            let is_due = !matches!(seen_now, Seen::Head(..));
            seen.push(seen_now);
            if is_due {
                let answer = Answer {
                    status: 200,
                    reason: "OK",
                    content_type: "text/plain",
                    fields: &[],
                    date: b"",
                    body: b"x",
                };
                reader.answer(&answer, &mut out);
                if !reader.keeps_alive() {
                    return (seen, out);
                }
            }
        }
        assert!(rest.len() <= MAX_HEAD);
    }
    (seen, out)
}

fuzz_target!(|bytes: &[u8]| {
    let whole = feed(std::iter::once(bytes));
    assert_eq!(feed(bytes.chunks(1)), whole);
    assert_eq!(feed(bytes.chunks(7)), whole);
});
