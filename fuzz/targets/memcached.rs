//! Requests of Memcached's clients: no input panics, and none is read differently when it arrives in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_wire::memcached::binary::{self, Ask};
use tollgate_wire::memcached::{Limits, Options, Read, Reader, Request};

const LIMITS: Limits = Limits {
    item_max: 1024,
    keys_max: 4096,
};

/// All requests as texts, and whether the connection is to be closed.
fn feed<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let (mut reader, mut held, mut requests) = (Reader::default(), Vec::new(), Vec::new());
    for chunk in chunks {
        held.extend_from_slice(chunk);
        loop {
            let (request, consumed) = match reader.read(&held, &LIMITS) {
                Read::Request(request, consumed) => {
                    if let Request::Item(target) = &request {
                        let options = &target.options;
                        assert_eq!(Options::from_bytes(&options.to_bytes()), Some(*options));
                        assert!(target.key.len() <= 250);
                    }
                    (Some(format!("{request:?}")), consumed)
                }
                Read::Incomplete { consumed, .. } => (None, consumed),
                Read::Broken => return (requests, true),
                Read::Credentials(..) => unreachable!("nobody asked for them"),
            };
            held.drain(..consumed);
            match request {
                Some(request) => requests.push(request),
                None => break,
            }
        }
    }
    (requests, false)
}

/// As [`feed`], of the binary protocol.
fn feed_frames<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let (mut reader, mut held, mut calls) = (binary::Reader::default(), Vec::new(), Vec::new());
    for chunk in chunks {
        held.extend_from_slice(chunk);
        loop {
            let (call, consumed) = match reader.read(&held, &LIMITS) {
                binary::Read::Call(call, consumed) => {
                    if let Ask::Item { target, .. } = &call.ask {
                        let options = &target.options;
                        assert_eq!(Options::from_bytes(&options.to_bytes()), Some(*options));
                        assert!((1..=250).contains(&target.key.len()));
                    }
                    (Some(format!("{call:?}")), consumed)
                }
                binary::Read::Incomplete { consumed, .. } => (None, consumed),
                binary::Read::Broken => return (calls, true),
            };
            held.drain(..consumed);
            match call {
                Some(call) => calls.push(call),
                None => break,
            }
        }
    }
    (calls, false)
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, bytes)) = data.split_first() else {
        return;
    };
    let whole = feed(std::iter::once(bytes));
    // A line that is too long may end before anybody looks whether it has ended.
    if !whole.1 && bytes.len() < 2048 {
        assert_eq!(feed(bytes.chunks(1 + usize::from(mode) % 17)), whole);
        assert_eq!(feed(bytes.chunks(1)), whole);
    }
    Reader::default().read_credentials(bytes);
    let frames = feed_frames(std::iter::once(bytes));
    assert_eq!(
        feed_frames(bytes.chunks(1 + usize::from(mode) % 17)),
        frames
    );
    assert_eq!(feed_frames(bytes.chunks(1)), frames);
});
