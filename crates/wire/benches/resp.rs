//! Time per command of the RESP codec: `cargo bench -p tollgate-wire`.
//!
//! Each figure is the fastest of many short rounds, which other work on the machine disturbs least.
#![allow(clippy::print_stdout, reason = "a bench reports to its reader")]

use std::hint::black_box;
use std::time::Instant;

use tollgate_wire::resp::{
    ArgList, Limits, Progress, Protocol, ReplyBuf, RequestParser, frame_len, write_command,
};

/// Commands or replies in one buffer, as a pipeline brings them.
const DEPTH: usize = 64;

/// Rounds of which the fastest counts.
const ROUNDS: usize = 5000;

fn main() {
    let commands: [(&str, &[&[u8]]); 3] = [
        ("GET", &[b"GET", b"key:000000012345"]),
        ("SET", &[b"SET", b"key:000000012345", b"abc"]),
        (
            "RL.TAKE",
            &[b"RL.TAKE", b"user:00000012345", b"FIXED", b"100", b"60000"],
        ),
    ];
    for (name, args) in commands {
        parse(name, args);
    }
    write(ReplyBuf::ok, "write +OK");
    write(|out| out.int(black_box(123_456)), "write integer");
    write(|out| out.bulk(black_box(b"0123456789")), "write bulk");
    write(decision, "write decision");
    let mut reply = ReplyBuf::new(Protocol::Resp2);
    (0..DEPTH).for_each(|_| decision(&mut reply));
    fastest("skip decision", || {
        let mut at = 0;
        while at < reply.len() {
            at += frame_len(&reply.bytes()[at..])
                .expect("valid")
                .expect("whole");
        }
    });
}

fn parse(name: &str, args: &[&[u8]]) {
    let mut input = Vec::new();
    (0..DEPTH).for_each(|_| write_command(&mut input, args));
    let limits = Limits::authenticated();
    let mut parser = RequestParser::new();
    let mut walk = |each: fn(&RequestParser, &[u8])| {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            let Ok(Progress::Ready { consumed }) = parser.parse(rest, &limits) else {
                unreachable!("the commands are whole");
            };
            each(&parser, rest);
            at += consumed;
        }
    };
    fastest(&format!("parse {name}"), || walk(|_, _| ()));
    fastest(&format!("parse {name}, list in place"), || {
        walk(|parser, rest| {
            let mut args = ArgList::new();
            parser.args_into(rest, &mut args);
            black_box(&args);
        });
    });
    fastest(&format!("parse {name}, list moved"), || {
        walk(|parser, rest| {
            black_box(parser.args(rest));
        });
    });
}

fn decision(out: &mut ReplyBuf) {
    out.array(5);
    for field in [1, 100, 57, 0, 59_000] {
        out.int(black_box(field));
    }
}

fn write(reply: fn(&mut ReplyBuf), name: &str) {
    let mut out = ReplyBuf::new(Protocol::Resp2);
    fastest(name, || {
        (0..DEPTH).for_each(|_| reply(&mut out));
        black_box(out.bytes());
        out.clear();
    });
}

fn fastest(name: &str, mut round: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_nanos() as f64 / DEPTH as f64);
    }
    println!("{name:28} {best:6.1} ns");
}
