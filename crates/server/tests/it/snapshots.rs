//! Snapshots exchanged with a real redis-server, and taken in the background.

use crate::harness::Local;
use std::fs;
use std::time::{Duration, Instant};
use tollgate_testkit::peers::skip;
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::{Client, PATIENCE, Server};
use tollgate_wire::resp::Value;

/// Commands that make a key of every type and form.
fn commands() -> Vec<String> {
    let words = |count: usize, word: &dyn Fn(usize) -> String| {
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    };
    let mut commands = vec![
        "SET text hello".to_owned(),
        "SET number 12 PXAT 4102444800000".to_owned(),
        format!("SET long {}", "abcd".repeat(5000)),
        "RPUSH list a 1 b".to_owned(),
        format!("RPUSH nodes {}", words(2000, &|at| format!("element{at}"))),
        "SADD ints 3 1 2".to_owned(),
        "SADD set a b 5".to_owned(),
        "HSET hash f v g 1".to_owned(),
        format!("HSET many {}", words(600, &|at| format!("f{at} {at}"))),
        "ZADD zset 1 a 1.5 b -inf c".to_owned(),
        format!("ZADD ranks {}", words(300, &|at| format!("{at} m{at}"))),
        "XADD stream 1-1 f v".to_owned(),
        "XADD stream 2-0 f w g x".to_owned(),
        "XADD stream 3-0 f y".to_owned(),
        "XDEL stream 2-0".to_owned(),
        "XGROUP CREATE stream g 0".to_owned(),
        "XREADGROUP GROUP g bob COUNT 1 STREAMS stream >".to_owned(),
        "XGROUP CREATE empty g $ MKSTREAM".to_owned(),
        "SELECT 3".to_owned(),
        "SET other 1".to_owned(),
        "SELECT 0".to_owned(),
    ];
    commands.extend((1..300).map(|at| format!("XADD log {at} field {at}")));
    commands
}

/// What tells one content from another, without the order of hash tables.
const QUESTIONS: &[&str] = &[
    "GET text",
    "GET number",
    "PEXPIRETIME number",
    "GET long",
    "LRANGE list 0 -1",
    "LRANGE nodes 0 -1",
    "OBJECT ENCODING nodes",
    "SMEMBERS ints",
    "OBJECT ENCODING ints",
    "SMISMEMBER set a b 5 6",
    "OBJECT ENCODING set",
    "HGETALL hash",
    "OBJECT ENCODING hash",
    "HLEN many",
    "HGET many f599",
    "OBJECT ENCODING many",
    "ZRANGE zset 0 -1 WITHSCORES",
    "OBJECT ENCODING zset",
    "ZRANGE ranks 0 -1 WITHSCORES",
    "OBJECT ENCODING ranks",
    "XINFO STREAM stream FULL",
    "XINFO STREAM log",
    "XINFO STREAM empty FULL",
    "XRANGE log - +",
    "DBSIZE",
];

fn content(client: &mut Client) -> Vec<Value> {
    let mut answer = |question: &&str| client.line(question).unwrap();
    QUESTIONS.iter().map(&mut answer).collect()
}

#[track_caller]
fn compare(found: &[Value], expected: &[Value]) {
    for (question, (found, expected)) in QUESTIONS.iter().zip(found.iter().zip(expected)) {
        assert!(
            found == expected,
            "{question}: {:.300}",
            format!("{found:?}, not {expected:?}")
        );
    }
}

fn fill(client: &mut Client) {
    for command in commands() {
        let reply = client.line(&command).unwrap();
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
    }
}

#[test]
fn snapshots_go_both_ways() {
    let folder = temp_dir().unwrap();
    let path = folder.to_str().unwrap();
    let flags = ["--dir", path, "--dbfilename", "dump.rdb"];
    let Some(redis) = Server::redis(&flags).unwrap() else {
        return skip("snapshots_go_both_ways", "redis-server");
    };
    let mut client = redis.connect().unwrap();
    fill(&mut client);
    let expected = content(&mut client);
    client.line("SAVE").unwrap();
    drop(redis);
    let settings = [("dir", path), ("dbfilename", "dump.rdb")];
    let here = Local::start(&settings);
    let mut client = here.connect();
    compare(&content(&mut client), &expected);
    fs::remove_file(folder.join("dump.rdb")).unwrap();
    let started = client.line("BGSAVE").unwrap();
    assert_eq!(
        started,
        Value::Simple(b"Background saving started".to_vec())
    );
    wait_for_background_save(&mut client);
    assert!(folder.join("dump.rdb").is_file());
    drop(here);
    let redis = Server::redis(&flags).unwrap().unwrap();
    let mut client = redis.connect().unwrap();
    compare(&content(&mut client), &expected);
    client.line("SELECT 3").unwrap();
    assert_eq!(
        client.line("GET other").unwrap().as_bytes(),
        Some(&b"1"[..])
    );
    fs::remove_dir_all(folder).unwrap();
}

/// Waits for BGSAVE to end, for a generous time.
fn wait_for_background_save(client: &mut Client) {
    let start = Instant::now();
    loop {
        let info = client.line("INFO persistence").unwrap();
        let text = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
        if text.contains("rdb_bgsave_in_progress:0") {
            assert!(text.contains("rdb_last_bgsave_status:ok"), "{text}");
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn fields_keep_their_expiries_in_a_snapshot() {
    let folder = temp_dir().unwrap();
    let path = folder.to_str().unwrap();
    let settings = [("dir", path), ("dbfilename", "dump.rdb")];
    let here = Local::start(&settings);
    let mut client = here.connect();
    client.line("HSET hash a 1 b 2").unwrap();
    client
        .line("HPEXPIREAT hash 4102444800000 FIELDS 1 b")
        .unwrap();
    client.line("SAVE").unwrap();
    drop(here);
    let here = Local::start(&settings);
    let mut client = here.connect();
    let times = client.line("HPEXPIRETIME hash FIELDS 2 a b").unwrap();
    assert_eq!(
        times,
        Value::Array(vec![Value::Int(-1), Value::Int(4_102_444_800_000)])
    );
    drop(here);
    fs::remove_dir_all(folder).unwrap();
}
