//! A real redis-server as our replica.

use crate::harness::{Local, info, raw, text};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use tollgate_testkit::{Client, PATIENCE, Server, peers};
use tollgate_wire::resp::Value;

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// Clients that write at the same time.
const WRITERS: u64 = 4;
/// Commands that each of them runs in one go.
const COMMANDS: u32 = 400;
/// Databases that are written to.
const DBS: u64 = 3;

/// Waits until `done`.
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}: did not happen");
        thread::sleep(LOOK);
    }
}

/// A sequence of numbers that looks random (xorshift).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(0x9E37_79B9_7F4A_7C15 ^ (seed + 1).wrapping_mul(0xD134_2543_DE82_EF95))
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }
}

/// What writers run. `s l t h z x i f b p g` with `#`: one of ten keys of a type; `m#`: a member; `#`: a number below a hundred.
const WRITES: &[&str] = &[
    "SET s# #",
    "SET s# v EX 1",
    "SET s# v PX #",
    "SET s# v EX 5000",
    "SET s# x NX GET",
    "SET s# y KEEPTTL",
    "SETEX s# 1 q",
    "PSETEX s# 20 q",
    "INCR i#",
    "INCRBYFLOAT f# 1.25",
    "APPEND s# abc",
    "SETRANGE s# # zz",
    "GETDEL s#",
    "GETEX s# PX 100#",
    "GETEX s# PERSIST",
    "GETEX s# EXAT 1",
    "GETSET s# gs",
    "MSET s# 1 s# 2",
    "MSETNX n# 1 n# 2",
    "SETBIT b# # 1",
    "BITFIELD b# INCRBY u8 # 3",
    "BITOP OR b# b# b#",
    "PFADD p# m# m#",
    "PFMERGE p# p#",
    "EXPIRE s# 1",
    "EXPIRE l# 4000",
    "PEXPIRE z# #",
    "PEXPIRE t# -1",
    "EXPIREAT h# 4102444800",
    "PERSIST s#",
    "LPUSH l# m# m#",
    "RPUSH l# m# m# m#",
    "LPOP l# 2",
    "RPOP l#",
    "LMOVE l# l# LEFT RIGHT",
    "LMOVE l# l# RIGHT LEFT",
    "LINSERT l# BEFORE m# m#",
    "LREM l# -1 m#",
    "LTRIM l# 0 20",
    "LSET l# 0 m#",
    "LMPOP 2 l# l# RIGHT COUNT 2",
    "BLPOP l# l# 0.01",
    "BRPOP l# 0.02",
    "BLMOVE l# l# LEFT RIGHT 0.01",
    "BRPOPLPUSH l# l# 0.01",
    "BLMPOP 0.01 2 l# l# RIGHT COUNT 2",
    "SADD t# m# m# m#",
    "SREM t# m#",
    "SPOP t#",
    "SPOP t# 2",
    "SMOVE t# t# m#",
    "SUNIONSTORE t# t# t#",
    "SINTERSTORE t# t# t#",
    "SDIFFSTORE t# t# t#",
    "SORT t# ALPHA STORE l#",
    "HSET h# m# #",
    "HDEL h# m#",
    "HINCRBYFLOAT h# m# 0.5",
    "HINCRBY h# m# 3",
    "HSETNX h# m# 1",
    "ZADD z# # m# # m#",
    "ZADD z# GT CH # m#",
    "ZINCRBY z# 1.5 m#",
    "ZREM z# m#",
    "ZPOPMIN z#",
    "ZPOPMAX z# 2",
    "ZMPOP 2 z# z# MIN COUNT 2",
    "BZPOPMIN z# z# 0.01",
    "BZMPOP 0.01 1 z# MAX COUNT 3",
    "ZUNIONSTORE z# 2 z# z#",
    "ZRANGESTORE z# z# 0 10",
    "ZREMRANGEBYRANK z# 0 0",
    "GEOADD g# # # m#",
    "GEOSEARCHSTORE z# g# FROMLONLAT 10 10 BYRADIUS 5000 km COUNT 3 ANY",
    "XADD x# * a #",
    "XADD x# MAXLEN ~ 20 * a #",
    "XADD x# NOMKSTREAM MAXLEN 10 * a 1",
    "XTRIM x# MAXLEN ~ 5",
    "XTRIM x# MAXLEN 15",
    "XGROUP CREATE x# g $ MKSTREAM",
    "XREADGROUP GROUP g c# COUNT 3 STREAMS x# >",
    "XREADGROUP GROUP g c# BLOCK 5 STREAMS x# >",
    "XREADGROUP GROUP g c# NOACK COUNT 3 STREAMS x# >",
    "XAUTOCLAIM x# g c# 0 0 COUNT 4",
    "XDEL x# 1-1",
    "XGROUP DELCONSUMER x# g c#",
    "DEL s# t#",
    "DEL l# z# h#",
    "UNLINK t#",
    "RENAME s# s#",
    "RENAMENX l# l#",
    "COPY z# z# REPLACE",
    "COPY h# h# DB 2 REPLACE",
    "MOVE s# 1",
    "PUBLISH channel #",
    "GET s#",
    "RANDOMKEY",
    "SCAN 0",
    "EVAL redis.call('incr',KEYS[1]);redis.call('spop',KEYS[2]);return(redis.call('expire',KEYS[1],5)) 2 i# t#",
    "EVAL return(redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2])) 1 s# lua 30#",
    "EVAL redis.call('select',1);redis.call('lpush','l1',ARGV[1]);redis.call('select',0);return(redis.call('zincrby','z1',1,'lua')) 0 m#",
    // These Redis 7.0 does not have, so it is sent what they do.
    "SET s# e IFEQ v",
    "MSETEX 2 s# 1 s# 2 EX 5000",
    "HPEXPIRE h# 1# FIELDS 1 m#",
    "RL.TAKE limit# fixed 5 10",
];

/// Commands that are rare: they leave little.
const RARE: &[&str] = &["FLUSHDB", "SWAPDB 1 2", "DEL x#", "XGROUP DESTROY x# g"];

/// A command with its places filled.
fn fill(command: &str, dice: &mut Dice) -> String {
    let mut filled = String::new();
    for word in command.split_inclusive(' ') {
        let most = match word.as_bytes() {
            [b'm', b'#', ..] => 30,
            [b'#', ..] => 80,
            _ => 10,
        };
        // Scripts hold no places.
        let number = dice.below(most).to_string();
        filled.push_str(&word.replacen('#', &number, 1));
    }
    filled
}

/// Runs `COMMANDS` commands, some of them in transactions.
fn write(mut client: Client, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut db = 0;
    let pick = |dice: &mut Dice, db: u64, alone: bool| {
        let list = if dice.below(60) == 0 { RARE } else { WRITES };
        let command = list[dice.below(list.len() as u64) as usize];
        // The first database is not emptied, so that something is left.
        let command = match command {
            "FLUSHDB" if db == 0 => "PING",
            // Redis 7.0 does not know it, and so drops all of a transaction that has it.
            command if command.starts_with("HPEXPIRE") && !alone => "PING",
            command => command,
        };
        fill(command, dice)
    };
    for _ in 0..COMMANDS {
        if dice.below(10) == 0 {
            db = dice.below(DBS);
            client.line(&format!("SELECT {db}")).unwrap();
        }
        if dice.below(12) > 0 {
            client.line(&pick(&mut dice, db, true)).unwrap();
            continue;
        }
        client.line("MULTI").unwrap();
        for _ in 0..=dice.below(4) {
            client.line(&pick(&mut dice, db, false)).unwrap();
        }
        client.line("EXEC").unwrap();
    }
}

/// All writers write; `meanwhile` runs at the same time.
pub(crate) fn write_all(server: SocketAddr, round: u64, meanwhile: impl FnOnce()) {
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let client = Client::connect(server).unwrap();
            scope.spawn(move || write(client, round * WRITERS + writer));
        }
        meanwhile();
    });
}

/// What a server has in a database, as text that can be compared.
fn content(client: &mut Client, db: u64) -> Vec<String> {
    client.line(&format!("SELECT {db}")).unwrap();
    let Value::Array(keys) = client.line("KEYS *").unwrap() else {
        panic!("KEYS answers with an array")
    };
    let keys: BTreeSet<Vec<u8>> = keys
        .iter()
        .filter_map(|key| Some(key.as_bytes()?.to_vec()))
        .collect();
    let mut lines = Vec::new();
    for key in keys {
        let key = String::from_utf8(key).unwrap();
        let Value::Simple(kind) = client.line(&format!("TYPE {key}")).unwrap() else {
            panic!("TYPE answers with a word")
        };
        let questions: &[&str] = match &kind[..] {
            b"string" => &["GET", "DUMP"],
            b"list" => &["LRANGE 0 -1"],
            b"set" => &["SORT BY none ALPHA"],
            b"hash" => &["HGETALL"],
            b"zset" => &["ZRANGE 0 -1 WITHSCORES"],
            b"stream" => &["XRANGE - +", "XINFO"],
            // Expired meanwhile, or a limiter, which replicas do not have.
            _ => continue,
        };
        lines.push(format!(
            "{key} {:?}",
            client.line(&format!("PEXPIRETIME {key}"))
        ));
        for question in questions {
            lines.push(format!(
                "{key} {question} {}",
                answer(client, &key, question)
            ));
        }
    }
    lines
}

/// The answer to a question about a key, without an order where there is none.
fn answer(client: &mut Client, key: &str, question: &str) -> String {
    let mut value = match question.split_once(' ') {
        _ if question == "XINFO" => return groups(client, key),
        None => client.line(&format!("{question} {key}")).unwrap(),
        Some(("SORT", _)) => client.line(&format!("SMEMBERS {key}")).unwrap(),
        Some((name, rest)) => client.line(&format!("{name} {key} {rest}")).unwrap(),
    };
    match &mut value {
        Value::Array(members) if question.starts_with("SORT") => {
            members.sort_by_key(|member| format!("{member:?}"));
        }
        Value::Array(pairs) if question == "HGETALL" => {
            let mut sorted: Vec<_> = pairs.chunks(2).map(<[Value]>::to_vec).collect();
            sorted.sort_by_key(|pair| format!("{pair:?}"));
            *pairs = sorted.concat();
        }
        _ => {}
    }
    format!("{value:?}")
}

/// Groups of a stream: what they have delivered, and to whom. Times of delivery are each server's own.
fn groups(client: &mut Client, key: &str) -> String {
    let mut found = String::new();
    let Value::Array(groups) = client.line(&format!("XINFO GROUPS {key}")).unwrap() else {
        return found;
    };
    for group in groups {
        // Name, consumers, pending, last id. The number of entries read is not sent with them, nor does Redis send it.
        if let Value::Array(facts) = group {
            found.push_str(&format!("{:?} ", &facts[..8.min(facts.len())]));
        }
    }
    let pending = client.line(&format!("XPENDING {key} g - + 10000")).unwrap();
    if let Value::Array(entries) = pending {
        for entry in entries {
            if let Value::Array(parts) = entry
                && let [id, consumer, _, deliveries] = &parts[..]
            {
                found.push_str(&format!("{id:?} {consumer:?} {deliveries:?} "));
            }
        }
    }
    found
}

/// Waits until the replica has all that the master has sent, and compares them.
pub(crate) fn compare(server: SocketAddr, replica: SocketAddr) {
    let mut here = Client::connect(server).unwrap();
    let mut there = Client::connect(replica).unwrap();
    wait_for("the replica has caught up", || {
        info(&mut here, "master_repl_offset") == info(&mut there, "slave_repl_offset")
    });
    for db in 0..DBS {
        // A key may expire between two looks.
        let start = Instant::now();
        let contents = loop {
            let contents = (content(&mut here, db), content(&mut there, db));
            if contents.0 == contents.1 || start.elapsed() > PATIENCE {
                break contents;
            }
            thread::sleep(LOOK);
        };
        let (ours, theirs): (BTreeSet<_>, BTreeSet<_>) =
            (contents.0.iter().collect(), contents.1.iter().collect());
        let only = |a: &BTreeSet<&String>, b: &BTreeSet<&String>| {
            a.difference(b)
                .map(|line| format!("{line:.300}"))
                .collect::<Vec<_>>()
        };
        assert!(
            ours == theirs,
            "database {db}: the master has {:#?}, the replica {:#?}",
            only(&ours, &theirs),
            only(&theirs, &ours)
        );
        assert!(db > 0 || ours.len() > 50, "there is something to compare");
    }
}

pub(crate) fn attach(replica: &mut Client, server: SocketAddr) {
    let port = server.port();
    replica
        .line(&format!("REPLICAOF 127.0.0.1 {port}"))
        .unwrap();
}

pub(crate) fn wait_for_link(replica: &mut Client) {
    wait_for("the link is up", || {
        info(replica, "master_link_status") == "up"
    });
}

/// A replica comes while clients write, and loses its link while they write again.
fn follows_writers(settings: &[(&str, &str)], seed: u64) {
    let Some(replica) = Server::redis(&[]).unwrap() else {
        return peers::skip("replication", "redis-server");
    };
    let server = Local::start(settings);
    let mut here = server.connect();
    let mut there = replica.connect().unwrap();
    write_all(server.addr, seed, || attach(&mut there, server.addr));
    wait_for_link(&mut there);
    compare(server.addr, replica.addr());
    assert_eq!(info(&mut here, "sync_full"), "1");
    write_all(server.addr, seed + 1, || {
        let killed = here.line("CLIENT KILL TYPE replica").unwrap();
        assert_eq!(killed, Value::Int(1));
    });
    wait_for("the replica has come back", || {
        info(&mut here, "sync_partial_ok") == "1"
    });
    assert_eq!(here.line("WAIT 1 60000").ok(), Some(Value::Int(1)));
    compare(server.addr, replica.addr());
    assert_eq!(info(&mut here, "sync_full"), "1");
}

#[test]
fn a_replica_of_one_shard_follows() {
    follows_writers(&[("threads", "1"), ("shards", "1")], 10);
}

#[test]
fn a_replica_of_many_shards_follows() {
    follows_writers(&[("threads", "2"), ("shards", "64")], 20);
}

#[test]
fn a_replica_that_has_missed_too_much_is_sent_all_data() {
    let Some(replica) = Server::redis(&[]).unwrap() else {
        return peers::skip("replication", "redis-server");
    };
    let server = Local::start(&[("repl-backlog-size", "1000")]);
    let mut here = server.connect();
    let mut there = replica.connect().unwrap();
    attach(&mut there, server.addr);
    wait_for_link(&mut there);
    here.line("SET k v").unwrap();
    assert_eq!(here.line("WAIT 1 60000").ok(), Some(Value::Int(1)));
    assert_ne!(info(&mut here, "mem_replication_backlog"), "0");
    // Nobody answers the replica until much has been written.
    there.line("REPLICAOF 127.0.0.1 1").unwrap();
    wait_for("the replica has left", || {
        info(&mut here, "connected_slaves") == "0"
    });
    for number in 0..10 {
        let value = "x".repeat(1_000);
        here.line(&format!("SET k{number} {value}")).unwrap();
    }
    attach(&mut there, server.addr);
    wait_for_link(&mut there);
    assert_eq!(info(&mut here, "sync_full"), "2");
    assert_eq!(there.line("DBSIZE").ok(), Some(Value::Int(11)));
    wait_for("the replica is online", || {
        text(&mut here, "INFO replication").contains("state=online")
    });
}

/// `redis-cli --replica` wants no data, only what changes from then on.
#[test]
fn who_wants_no_keys_is_sent_the_changes() {
    let local = Local::start(&[]);
    let mut client = local.connect();
    raw(&mut client, "SET some-key 1");
    for filter in ["\"\"", "functions"] {
        let mut replica = TcpStream::connect(local.addr).unwrap();
        replica.set_read_timeout(Some(PATIENCE)).unwrap();
        let asks = format!("REPLCONF rdb-filter-only {filter}\r\nSYNC\r\n");
        replica.write_all(asks.as_bytes()).unwrap();
        wait_for("the replica is online", || {
            text(&mut client, "INFO replication").contains("state=online")
        });
        raw(&mut client, &format!("SET later {filter}"));
        let mut sent = Vec::new();
        let has = |sent: &[u8], text: &[u8]| sent.windows(text.len()).any(|part| part == text);
        while !has(&sent, b"later") {
            let mut part = [0; 4096];
            let len = replica.read(&mut part).unwrap();
            assert!(len > 0, "closed after {}", sent.escape_ascii());
            sent.extend_from_slice(&part[..len]);
        }
        assert!(has(&sent, b"REDIS00"), "{}", sent.escape_ascii());
        assert!(!has(&sent, b"some-key"), "{}", sent.escape_ascii());
        drop(replica);
        wait_for("the replica has left", || {
            info(&mut client, "connected_slaves") == "0"
        });
    }
}

/// redis-cli asks so for a snapshot (`--rdb`), or for the functions alone (`--functions-rdb`).
#[test]
fn who_wants_the_data_only_is_sent_no_changes() {
    let local = Local::start(&[]);
    let mut client = local.connect();
    raw(&mut client, "SET some-key 1");
    let code = "#!lua name=some_library\nredis.register_function('f', function() return 1 end)";
    client.call(&["FUNCTION", "LOAD", code]).unwrap();
    let sent = |options: &[&str], with: [bool; 2]| {
        let mut replica = local.connect();
        for option in options {
            assert_eq!(raw(&mut replica, option), "+OK\r\n", "{option}");
        }
        replica.send(b"SYNC\r\n").unwrap();
        let sent = replica.until_closed().unwrap();
        let start = sent.iter().position(|&b| b == b'\n').unwrap() + 1;
        let len = format!("${}\r\n", sent.len() - start);
        assert_eq!(
            sent[..start].escape_ascii().to_string(),
            len.escape_default().to_string()
        );
        assert!(sent[start..].starts_with(b"REDIS00"));
        let has = |text: &[u8]| sent.windows(text.len()).any(|window| window == text);
        assert_eq!(
            [has(b"some-key"), has(b"some_library")],
            with,
            "{options:?}"
        );
    };
    sent(&["REPLCONF rdb-only 1"], [true, true]);
    let both = ["REPLCONF rdb-only 1", "REPLCONF rdb-filter-only FUNCTIONS"];
    sent(&both, [false, true]);
    let wrong = [
        (
            "rdb-only x",
            "-ERR value is not an integer or out of range\r\n",
        ),
        (
            "rdb-only 2",
            "-ERR value is out of range, value must between 0 and 1\r\n",
        ),
        (
            "rdb-filter-only keys",
            "-ERR Unsupported rdb-filter-only option: keys\r\n",
        ),
        (
            "rdb-filter-only \"a",
            "-ERR Missing rdb-filter-only values\r\n",
        ),
    ];
    for (option, error) in wrong {
        assert_eq!(raw(&mut client, &format!("REPLCONF {option}")), error);
    }
}

/// As of redis-server: it could change data that are not its own, and would wait for replies that never come.
#[test]
fn a_replica_that_sends_commands_is_disconnected() {
    let local = Local::start(&[]);
    let mut client = local.connect();
    for command in [
        "SET key 1",
        "GET key",
        "PING",
        "MULTI",
        "no-such-command",
        "BLPOP key 0.01",
    ] {
        let mut replica = local.connect();
        replica.send(b"SYNC\r\n").unwrap();
        replica.send(format!("{command}\r\n").as_bytes()).unwrap();
        replica.until_closed().unwrap();
    }
    let mut replica = local.connect();
    replica
        .send(b"SYNC\r\nMULTI\r\nSET key 1\r\nEXEC\r\n")
        .unwrap();
    replica.until_closed().unwrap();
    assert_eq!(raw(&mut client, "EXISTS key"), ":0\r\n");
    wait_for("they are forgotten", || {
        info(&mut client, "connected_slaves") == "0"
    });
}
