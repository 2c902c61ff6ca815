//! Connections of gRPC: whatever a peer sends is read within bounds, and what is answered are whole frames.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_wire::http2::{Head, MAX_STREAMS, Session, Want};

const MESSAGE_MAX: usize = 1_000;
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn wants(head: &Head) -> Want {
    match head.path.len() % 3 {
        0 => Want::Whole,
        1 => Want::Pieces,
        _ => Want::Nothing,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut session = Session::new(wants, MESSAGE_MAX);
    let mut calls = Vec::new();
    let hello = session.receive(HELLO, &mut calls);
    assert_eq!(hello, Ok(HELLO.len()));
    let read = session.receive(bytes, &mut calls);
    assert!(session.open() <= MAX_STREAMS);
    for call in calls {
        drop(session.take(call.id));
        match call.id % 3 {
            0 => session.answer(call.id, 5, |out| out.extend_from_slice(b"hello")),
            1 => session.refuse(call.id, 14, "overloaded"),
            _ => session.fail(call.id, 13, "a text"),
        }
        assert!(read.is_err() || !session.is_open(call.id) || session.held(call.id).is_some());
    }
    let out = session.out();
    let mut at = 0;
    while let Some(&[a, b, c]) = out[at..].first_chunk::<3>() {
        at += 9 + u32::from_be_bytes([0, a, b, c]) as usize;
    }
    assert_eq!(at, out.len());
});
