//! Commands: whatever is called with whatever arguments, in whatever order, each gets exactly one whole reply, the store stays sound, and a store of one
//! shard answers the same.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tollgate_commands::{CmdError, NodeCommand, Reply, Row, Run, rows};
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
    "c",
    "{t}c",
    "h",
    "CH",
    "INCR",
    "REV",
    "BYSCORE",
    "BYLEX",
    "LIMIT",
    "WEIGHTS",
    "AGGREGATE",
    "SUM",
    "MIN",
    "MAX",
    "(1",
    "[a",
    "+",
    "-",
    "+inf",
    "-inf",
    "LEFT",
    "RIGHT",
    "BEFORE",
    "AFTER",
    "RANK",
    "MAXLEN",
    "MINID",
    "~",
    "=",
    "NOMKSTREAM",
    "STREAMS",
    "GROUP",
    "CREATE",
    "MKSTREAM",
    "BLOCK",
    "NOACK",
    "JUSTID",
    "IDLE",
    "FORCE",
    "FULL",
    "$",
    ">",
    "1-1",
    "2-0",
    "FIELDS",
    "WITHVALUES",
    "FNX",
    "FXX",
    "BY",
    "STORE",
    "STOREDIST",
    "ALPHA",
    "DESC",
    "w_*",
    "w_*->f",
    "#",
    "AND",
    "NOT",
    "BIT",
    "u8",
    "i16",
    "#1",
    "OVERFLOW",
    "SAT",
    "FAIL",
    "SET",
    "INCRBY",
    "IDX",
    "LEN",
    "WITHMATCHLEN",
    "FROMMEMBER",
    "FROMLONLAT",
    "BYRADIUS",
    "BYBOX",
    "km",
    "WITHCOORD",
    "WITHHASH",
    "IFEQ",
    "IFNE",
    "ABSTTL",
    "IDLETIME",
    "FREQ",
    "\0\x01a\x0b\0",
    "#!lua name=l\nredis.register_function('f', function(k, a) return redis.call('get', k[1]) end)",
    "l",
    "f",
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

/// Every command. What a random choice has changed would differ from store to store.
fn callable() -> Vec<&'static Row> {
    rows()
        .flat_map(|row| {
            if row.subs.is_empty() {
                std::slice::from_ref(row)
            } else {
                row.subs
            }
        })
        .filter(|row| row.name != "SPOP")
        .collect()
}

/// Commands whose answers depend on the order of the shards, on chance or on the store itself.
fn may_differ(row: &Row) -> bool {
    row.tips.iter().any(|tip| tip.starts_with("nondeterministic"))
        || matches!(row.name, "SORT" | "SORT_RO" | "SCAN" | "MEMORY|USAGE" | "LOLWUT")
        || row.name.ends_with("RANDMEMBER")
        || matches!(row.run, Run::Script(_) | Run::Transaction(_))
}

/// The next command: its row's name, and mostly as many words as it takes.
fn command(
    choices: &mut Choices<'_>,
    rows: &[&'static Row],
) -> Option<(&'static Row, Vec<Vec<u8>>)> {
    let number = u16::from_le_bytes([choices.byte()?, choices.byte()?]);
    let row = rows[usize::from(number) % rows.len()];
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
    Some((row, args))
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

/// A store and a connection to it.
struct Store {
    engine: Arc<Engine>,
    session: Session,
    out: ReplyBuf,
}

impl Store {
    fn new(shards: usize) -> Store {
        Store {
            engine: Engine::new(EngineConfig {
                shards,
                seed: 11,
                max_bulk_len: 1 << 16,
            }),
            session: Session::new(1, true),
            out: ReplyBuf::new(Protocol::Resp2),
        }
    }

    /// Runs a command, whose reply is one and whole.
    fn run(&mut self, words: &[&[u8]], protocol: Protocol, now: Timestamp) {
        self.session.protocol = protocol;
        self.out = ReplyBuf::new(protocol);
        let (session, out) = (&mut self.session, &mut self.out);
        let outcome = self.engine.execute(session, words, now, out, &mut Server);
        let reply = out.bytes();
        assert_eq!(
            frame_len(reply),
            Ok(Some(reply.len())),
            "{}: {}",
            shown(words),
            reply.escape_ascii()
        );
        assert!(
            matches!(read_value(reply), Ok(Some(_))),
            "{}: {}",
            shown(words),
            reply.escape_ascii()
        );
        assert_eq!(outcome, Outcome::Continue, "{}", shown(words));
    }

    /// Once what has expired is gone, every way of counting the keys agrees.
    fn count(&mut self, at: Timestamp) -> i64 {
        self.session = Session::new(2, true);
        for _ in 0..16 {
            self.engine.expire_step(at, 4096);
        }
        let (engine, session) = (&self.engine, &mut self.session);
        let listed = number(engine, session, &[b"KEYS", b"*"], at);
        assert_eq!(number(engine, session, &[b"DBSIZE"], at), listed);
        let all: &[&[u8]] = &[b"SCAN", b"0", b"COUNT", b"100000"];
        number(engine, session, all, at);
        listed
    }
}

fn shown(words: &[&[u8]]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.escape_ascii().to_string())
        .collect();
    words.join(" ")
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let rows = callable();
    let (mut many, mut one) = (Store::new(4), Store::new(1));
    let mut now = 1_700_000_000_000i64;
    while let Some((row, args)) = command(&mut choices, &rows) {
        now += choices
            .byte()
            .map_or(0, |byte| i64::from(byte) * i64::from(byte));
        let protocol = if args.len() % 2 == 0 {
            Protocol::Resp2
        } else {
            Protocol::Resp3
        };
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let at = Timestamp::from_millis(now);
        many.run(&words, protocol, at);
        one.run(&words, protocol, at);
        if !may_differ(row) {
            assert_eq!(
                many.out.bytes().escape_ascii().to_string(),
                one.out.bytes().escape_ascii().to_string(),
                "{}",
                shown(&words)
            );
        }
    }
    let at = Timestamp::from_millis(now);
    assert_eq!(many.count(at), one.count(at));
});
