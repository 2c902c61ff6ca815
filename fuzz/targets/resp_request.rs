//! Requests: no input panics, takes memory beyond what it sent, or parses differently when it arrives in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_wire::resp::{Limits, Progress, ProtocolError, RequestParser, write_command};

/// What a stream holds.
#[derive(Debug, PartialEq)]
struct Outcome {
    commands: Vec<Vec<Vec<u8>>>,
    rest: Vec<u8>,
    error: Option<ProtocolError>,
}

fn feed<'a>(chunks: impl Iterator<Item = &'a [u8]>, limits: &Limits) -> Outcome {
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
                    outcome.commands.push(
                        parser
                            .args(&outcome.rest)
                            .iter()
                            .map(|arg| arg.to_vec())
                            .collect(),
                    );
                    outcome.rest.drain(..consumed);
                }
                Ok(Progress::Incomplete { needed }) => {
                    assert!(needed > 0);
                    // Spans of at most one argument per byte that arrived, and the scratch that is kept.
                    assert!(parser.capacity() <= 16 * outcome.rest.len() + 64 * 1024);
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

fuzz_target!(|data: &[u8]| {
    let Some((&mode, bytes)) = data.split_first() else {
        return;
    };
    let limits = if mode & 1 == 0 {
        Limits::authenticated()
    } else {
        Limits::unauthenticated()
    };
    let limits = Limits {
        max_inline: 64,
        max_request: 4096,
        ..limits
    };
    let whole = feed(std::iter::once(bytes), &limits);
    let size = 1 + usize::from(mode >> 1) % 17;
    assert_eq!(feed(bytes.chunks(size), &limits), whole);
    assert_eq!(feed(bytes.chunks(1), &limits), whole);
    for args in whole.commands.iter().filter(|args| !args.is_empty()) {
        let mut written = Vec::new();
        write_command(
            &mut written,
            &args.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        );
        let again = feed(std::iter::once(&written[..]), &Limits::authenticated());
        assert_eq!(again.commands, std::slice::from_ref(args));
    }
});
