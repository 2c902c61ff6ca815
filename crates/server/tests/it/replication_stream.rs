//! What a replica is sent, command by command: the same as redis-server sends for the same commands.

use crate::aof::Folder;
use crate::harness::{Local, eventually, info, raw};
use crate::replication::{attach, wait_for_link};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use tollgate_testkit::{Client, PATIENCE, Server, peers};
use tollgate_wire::resp::{Value, write_command};

/// A replica that keeps nothing and shows what it is sent.
struct Reader {
    input: BufReader<TcpStream>,
}

impl Reader {
    /// Follows the server by SYNC, past its data.
    fn follow(addr: SocketAddr) -> Reader {
        let mut stream = TcpStream::connect(addr).unwrap();
        let patience = Some(PATIENCE);
        stream.set_read_timeout(patience).unwrap();
        stream.write_all(b"SYNC\r\n").unwrap();
        let mut reader = Reader {
            input: BufReader::new(stream),
        };
        // Signs of life come before the data.
        let head = loop {
            let line = reader.line();
            if !line.is_empty() {
                break line;
            }
        };
        let len: usize = head.strip_prefix('$').unwrap().parse().unwrap();
        let data = reader.bytes(len);
        assert!(data.starts_with(b"REDIS"), "{}", data.escape_ascii());
        reader
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.input.read_until(b'\n', &mut line).unwrap();
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.input.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn length(&mut self, sign: char) -> usize {
        let line = self.line();
        let digits = line.strip_prefix(sign);
        digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("{line:?} is not a length after {sign}"))
    }

    /// The next command.
    fn command(&mut self) -> Vec<Vec<u8>> {
        let words = self.length('*');
        let mut word = |_| {
            let len = self.length('$');
            let word = self.bytes(len);
            assert_eq!(self.bytes(2), b"\r\n");
            word
        };
        (0..words).map(&mut word).collect()
    }

    /// The commands up to the one that ends a case, as lines.
    fn until(&mut self, end: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let command = self.command();
            // Signs of life and questions come when they come.
            if command[0].eq_ignore_ascii_case(b"PING") || command[0] == b"REPLCONF" {
                continue;
            }
            let line = shown(&command);
            if line == end.to_ascii_lowercase() {
                return lines;
            }
            lines.push(line);
        }
    }
}

/// A command with what depends on the time, or on chance, made the same. An id of a group is left out as well: of several
/// XCLAIM in a transaction the last one's holds.
fn shown(command: &[Vec<u8>]) -> String {
    let chosen = command[0].eq_ignore_ascii_case(b"SREM");
    let mut words: Vec<String> = command
        .iter()
        .map(|word| match String::from_utf8_lossy(word) {
            word if chosen && word.starts_with("any") => "ANY".to_owned(),
            word => without_time(&word),
        })
        .collect();
    if command[0].eq_ignore_ascii_case(b"XCLAIM") && words.len() > 2 {
        words.truncate(words.len() - 1);
    }
    // The payload is compared by what it restores elsewhere.
    if command[0].eq_ignore_ascii_case(b"RESTORE") {
        words[3] = "PAYLOAD".to_owned();
    }
    // Names and options of commands mean the same in either case.
    words.join(" ").to_ascii_lowercase()
}

/// `word` with a time of these years in Unix milliseconds, alone or at the beginning of an id, replaced.
fn without_time(word: &str) -> String {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &word[digits..];
    if digits == 13 && word.starts_with('1') && (rest.is_empty() || rest.starts_with('-')) {
        format!("TIME{rest}")
    } else {
        word.to_owned()
    }
}

/// A server, one connection that runs commands and one that waits.
struct Bench {
    client: Client,
    waiter: Client,
    reader: Reader,
}

impl Bench {
    fn new(addr: SocketAddr) -> Bench {
        let mut client = Client::connect(addr).unwrap();
        client.line("DEBUG SET-ACTIVE-EXPIRE 0").unwrap();
        Bench {
            client,
            waiter: Client::connect(addr).unwrap(),
            reader: Reader::follow(addr),
        }
    }

    /// Runs the steps of a case and returns what was sent.
    fn run(&mut self, number: usize, case: &str) -> Vec<String> {
        self.client.line("SELECT 0").unwrap();
        self.client.line("FLUSHALL").unwrap();
        let begin = format!("SET begin {number}");
        self.client.line(&begin).unwrap();
        self.reader.until(&begin);
        for step in case.lines().map(str::trim).filter(|it| !it.is_empty()) {
            self.step(step);
        }
        let end = format!("SET end {number}");
        self.client.line("SELECT 0").unwrap();
        self.client.line(&end).unwrap();
        self.reader.until(&end)
    }

    /// `~ COMMAND`: the other connection waits in it; `~`: it has its reply; `^ COMMAND`: repeated until there is nothing.
    fn step(&mut self, step: &str) {
        if step == "~" {
            self.waiter.value().unwrap();
        } else if let Some(command) = step.strip_prefix("~ ") {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let mut bytes = Vec::new();
            write_command(&mut bytes, &words);
            self.waiter.send(&bytes).unwrap();
            eventually("the command waits", || {
                info(&mut self.client, "blocked_clients") == "1"
            });
        } else if let Some(command) = step.strip_prefix("^ ") {
            let nothing = |value: &Value| matches!(value, Value::Null | Value::Int(0));
            eventually("it is gone", || {
                nothing(&self.client.line(command).unwrap())
            });
        } else {
            self.client.line(step).unwrap();
        }
    }
}

/// One case in each paragraph. Not among them is what is sent in another form that does the same: LTRIM that trims nothing,
/// GEOADD (ZADD), SORT with STORE (RESTORE), XCLAIM of a client with LASTID (XGROUP SETID after it), and XAUTOCLAIM of entries that are
/// gone (XACK). Whether these come out the same is seen on a real replica.
const CASES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/it/replication_cases.txt"
);

/// Keys of one command that had expired are found in the order of their shards, so removals side by side are sorted.
fn in_any_order(mut sent: Vec<String>) -> Vec<String> {
    for removals in sent.chunk_by_mut(|a, b| a.starts_with("del ") && b.starts_with("del ")) {
        removals.sort_unstable();
    }
    sent
}

fn check(threads: &str, shards: &str) {
    let Some(redis) = Server::redis(&[]).unwrap() else {
        return peers::skip("replication_stream", "redis-server");
    };
    let here = Local::start(&[
        ("enable-debug-command", "yes"),
        ("threads", threads),
        ("shards", shards),
    ]);
    let mut ours = Bench::new(here.addr);
    let mut theirs = Bench::new(redis.addr());
    let mut wrong = Vec::new();
    let cases = std::fs::read_to_string(CASES).unwrap();
    for (number, case) in cases.split("\n\n").enumerate() {
        let sent = in_any_order(ours.run(number, case));
        let expected = in_any_order(theirs.run(number, case));
        if sent != expected {
            wrong.push(format!("{case}\n  sent {sent:#?}\n  not {expected:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Facts 100 (transactions as one unit) and 114 (the stream byte by byte).
#[test]
fn replicas_of_one_shard_are_sent_what_redis_sends() {
    check("1", "1");
}

#[test]
fn replicas_of_many_shards_are_sent_what_redis_sends() {
    check("2", "64");
}

/// What is sent about fields that expire, which the reference does not know.
const FIELD_CASES: [(&str, &[&str]); 6] = [
    // The clock of a replica does not say what is past its time, so these have to go first.
    (
        "HSET h a 5 b 6 keep 1
        HPEXPIRE h 1 FIELDS 2 a b
        ^ HGET h a
        HINCRBY h a 5
        HSETNX h b 1",
        &[
            "hset h a 5 b 6 keep 1",
            "hpexpireat h time fields 2 a b",
            "multi",
            "hdel h a",
            "hincrby h a 5",
            "exec",
            "multi",
            "hdel h b",
            "hsetnx h b 1",
            "exec",
        ],
    ),
    // HSET would take the expiry away.
    (
        "HSET h f 1
        HEXPIRE h 1000 FIELDS 1 f
        HINCRBYFLOAT h f 1.5
        HINCRBYFLOAT h g 1",
        &[
            "hset h f 1",
            "hpexpireat h time fields 1 f",
            "hsetex h pxat time fields 1 f 2.5",
            "hset h g 1",
        ],
    ),
    // Conditions, and fields of which they did not hold, are left out; what was past its time is removed.
    (
        "HSET h a 1 b 2 c 3
        HEXPIRE h 1000 XX FIELDS 1 a
        HPEXPIREAT h 3000000000000 NX FIELDS 2 a x
        HEXPIRE h 0 FIELDS 2 b x
        HPERSIST h FIELDS 3 a c x
        HGETEX h EX 1000 FIELDS 2 c x
        HGETEX h PERSIST FIELDS 1 c
        HGETEX h FIELDS 1 c
        HGETEX h EXAT 1 FIELDS 1 c",
        &[
            "hset h a 1 b 2 c 3",
            "hpexpireat h 3000000000000 fields 1 a",
            "hdel h b",
            "hpersist h fields 1 a",
            "hpexpireat h time fields 1 c",
            "hpersist h fields 1 c",
            "hdel h c",
        ],
    ),
    (
        "HSETEX h FIELDS 1 a 1
        HSETEX h FXX KEEPTTL FIELDS 1 a 2
        HSETEX h EX 1000 FNX FIELDS 2 b 3 c 4
        HSETEX h KEEPTTL FIELDS 2 a 5 b 6
        HSETEX h FNX EX 1000 FIELDS 1 a 7
        HSETEX h PXAT 1 FIELDS 2 a 8 x 9",
        &[
            "hset h a 1",
            "hset h a 2",
            "hsetex h pxat time fields 2 b 3 c 4",
            "hsetex h keepttl fields 2 a 5 b 6",
            "hdel h a x",
        ],
    ),
    (
        "HSET h a 1 b 2
        HGETDEL h FIELDS 2 a x
        HGETDEL h FIELDS 1 x
        HGETDEL h FIELDS 1 b",
        &["hset h a 1 b 2", "hdel h a x", "hdel h b"],
    ),
    (
        "HSET h a 1 b 2
        HPEXPIRE h 1 FIELDS 1 a
        HSET later a 1
        HPEXPIRE later 2 FIELDS 1 a
        DEBUG SET-ACTIVE-EXPIRE 1
        ^ EXISTS later
        DEBUG SET-ACTIVE-EXPIRE 0",
        &[
            "hset h a 1 b 2",
            "hpexpireat h time fields 1 a",
            "hset later a 1",
            "hpexpireat later time fields 1 a",
            "hdel h a",
            "del later",
        ],
    ),
];

#[test]
fn replicas_are_sent_what_becomes_of_fields_that_expire() {
    let here = Local::start(&[("enable-debug-command", "yes"), ("shards", "1")]);
    let mut bench = Bench::new(here.addr);
    for (number, (case, expected)) in FIELD_CASES.iter().enumerate() {
        assert_eq!(bench.run(number, case), *expected, "{case}");
    }
}

/// How much a group has read is what its deliveries come to, though none of them says it.
#[test]
fn who_follows_counts_what_groups_have_read() {
    let folder = Folder::new();
    let master = Local::start(&[
        ("enable-debug-command", "yes"),
        ("appendonly", "yes"),
        ("dir", folder.path()),
    ]);
    let replica = Local::start(&[]);
    let (mut there, mut here) = (master.connect(), replica.connect());
    attach(&mut here, master.addr);
    wait_for_link(&mut here);
    for line in [
        "XADD s 1-1 a 1",
        "XADD s 2-1 a 1",
        "XADD s 3-1 a 1",
        "XADD s 4-1 a 1",
        "XADD s 5-1 a 1",
        "XADD s 6-1 a 1",
        "XGROUP CREATE s first 0",
        "XGROUP CREATE s second 0",
        "XGROUP CREATE s third 2-1",
        "XGROUP CREATE s fourth 0",
        "XREADGROUP GROUP first me COUNT 3 STREAMS s >",
        "XREADGROUP GROUP second me NOACK COUNT 2 STREAMS s >",
        "XREADGROUP GROUP third me COUNT 1 STREAMS s >",
        "XDEL s 4-1",
        "XREADGROUP GROUP first me COUNT 1 STREAMS s >",
        "XREADGROUP GROUP second me COUNT 3 STREAMS s >",
        "XREADGROUP GROUP third me STREAMS s >",
        "XCLAIM s fourth me 0 1-1 FORCE LASTID 3-1",
    ] {
        raw(&mut there, line);
    }
    assert_eq!(raw(&mut there, "WAIT 1 60000"), ":1\r\n");
    let told = raw(&mut there, "XINFO GROUPS s");
    assert!(told.contains("entries-read\r\n:6\r\n"), "{told}");
    assert_eq!(raw(&mut here, "XINFO GROUPS s"), told);
    assert_eq!(raw(&mut there, "DEBUG LOADAOF"), "+OK\r\n");
    assert_eq!(raw(&mut there, "XINFO GROUPS s"), told);
}
