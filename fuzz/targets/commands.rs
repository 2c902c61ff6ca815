//! Commands: whatever is called with whatever arguments, in whatever order, each gets exactly one whole reply and the store stays sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_commands::{CmdError, NodeCommand, Reply, Row, rows};
use tollgate_engine::{Engine, EngineConfig, Node, NodeCx, Outcome, Session};
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf, Value, frame_len, read_value};

/// Arguments that reach into commands: few keys, so that they meet; numbers at every edge; words of the syntax.
const WORDS: &[&str] = &[
    "a",
    "b",
    "{t}a",
    "{t}b",
    "",
    "0",
    "1",
    "-1",
    "2",
    "10",
    "100",
    "0.1",
    "-3.5",
    "1e3",
    "inf",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
    "4611686018427387904",
    "18446744073709551615",
    "65536",
    "NX",
    "XX",
    "GT",
    "LT",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "GET",
    "PERSIST",
    "REPLACE",
    "DB",
    "MATCH",
    "COUNT",
    "TYPE",
    "string",
    "ratelimit",
    "*",
    "a*",
    "[ab]",
    "\\",
    "FIXED",
    "GCRA",
    "COST",
    "PEEK",
    "60000",
    "1000",
    "ASYNC",
    "SYNC",
    "WITHSCORES",
    "some longer text that is not kept inline",
    "return 1",
    "return redis.call('incr', KEYS[1])",
    "return redis.pcall('set', KEYS[1], ARGV[1])",
    "return {1, {2, 'x'}, false, redis.error_reply('no')}",
    "redis.call('set', 'a', 1) error('half way')",
    "return redis.call('cl.throttle', KEYS[1], 5, 10, 60)",
    "return cjson and 1",
    // The SHA1 of `return 1`.
    "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
];

/// What the server would answer.
struct Server;

impl Node for Server {
    fn run(&mut self, _: NodeCommand, _: NodeCx<'_>) -> Result<Reply, CmdError> {
        Ok(Reply::Ok)
    }
}

/// Bytes of the input as choices.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn word(&mut self) -> Option<Vec<u8>> {
        match self.byte()? {
            // A word of the input's own.
            255 => {
                let len = usize::from(self.byte()? % 40).min(self.0.len());
                let (word, rest) = self.0.split_at(len);
                self.0 = rest;
                Some(word.to_vec())
            }
            byte => Some(WORDS[usize::from(byte) % WORDS.len()].as_bytes().to_vec()),
        }
    }
}

fn callable() -> Vec<&'static Row> {
    rows()
        .flat_map(|row| {
            if row.subs.is_empty() {
                std::slice::from_ref(row)
            } else {
                row.subs
            }
        })
        .collect()
}

/// The next command: its row's name, and mostly as many words as it takes.
fn command(choices: &mut Choices<'_>, rows: &[&'static Row]) -> Option<Vec<Vec<u8>>> {
    let row = rows[usize::from(choices.byte()?) % rows.len()];
    let mut args: Vec<Vec<u8>> = row
        .name
        .split('|')
        .map(|word| word.as_bytes().to_vec())
        .collect();
    let shape = choices.byte()?;
    let least = row.arity.least().saturating_sub(args.len());
    let count = match shape >> 6 {
        0 => usize::from(shape & 7),
        _ => least + usize::from(shape & 3),
    };
    for _ in 0..count {
        args.push(choices.word()?);
    }
    Some(args)
}

/// What one keyspace command answers as a number or a list's length.
fn number(engine: &Engine, session: &mut Session, words: &[&[u8]], now: Timestamp) -> i64 {
    let mut out = ReplyBuf::new(Protocol::Resp2);
    engine.execute(session, words, now, &mut out, &mut Server);
    match read_value(out.bytes()) {
        Ok(Some((Value::Int(n), _))) => n,
        Ok(Some((Value::Array(items), _))) => items.len() as i64,
        other => panic!("{} answers {other:?}", words[0].escape_ascii()),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let rows = callable();
    let engine = Engine::new(EngineConfig {
        shards: 4,
        seed: 11,
        max_bulk_len: 1 << 16,
    });
    let mut session = Session::new(1, true);
    let mut now = 1_700_000_000_000i64;
    while let Some(args) = command(&mut choices, &rows) {
        now += choices
            .byte()
            .map_or(0, |byte| i64::from(byte) * i64::from(byte));
        session.protocol = if args.len() % 2 == 0 {
            Protocol::Resp2
        } else {
            Protocol::Resp3
        };
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let mut out = ReplyBuf::new(session.protocol);
        let outcome = engine.execute(
            &mut session,
            &words,
            Timestamp::from_millis(now),
            &mut out,
            &mut Server,
        );
        let shown = || {
            words
                .iter()
                .map(|word| word.escape_ascii().to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            frame_len(out.bytes()),
            Ok(Some(out.len())),
            "{}: {}",
            shown(),
            out.bytes().escape_ascii()
        );
        assert!(
            matches!(read_value(out.bytes()), Ok(Some(_))),
            "{}: {}",
            shown(),
            out.bytes().escape_ascii()
        );
        assert_eq!(outcome, Outcome::Continue, "{}", shown());
    }
    // Once what has expired is gone, every way of counting the keys agrees.
    let at = Timestamp::from_millis(now);
    for _ in 0..16 {
        engine.expire_step(at, 4096);
    }
    let listed = number(&engine, &mut session, &[b"KEYS", b"*"], at);
    assert_eq!(number(&engine, &mut session, &[b"DBSIZE"], at), listed);
    session.protocol = Protocol::Resp2;
    number(
        &engine,
        &mut session,
        &[b"SCAN", b"0", b"COUNT", b"100000"],
        at,
    );
});
