//! What random commands leave is what there is after every way of reading it again, and what replicas have.
//!
//! `TOLLGATE_RANDOM_SEED` sets the first seed, `TOLLGATE_RANDOM_ROUNDS` how many follow; a failure names the seed.

use crate::aof::Folder;
use crate::harness::eventually;
use std::collections::{BTreeMap, BTreeSet};
use tollgate_commands::Rng;
use tollgate_testkit::random::Commands;
use tollgate_testkit::{Client, Server, peers};
use tollgate_wire::resp::{Value, write_command};

const ROUNDS: u64 = 6;
const COMMANDS: usize = 150;

/// Databases that the commands use.
const DATABASES: [&str; 3] = ["0", "1", "2"];

/// Parts of what XINFO tells of a stream that are no data, or that one who follows a master is not told.
const NO_DATA: [&str; 3] = ["radix-tree-keys", "radix-tree-nodes", "seen-time"];
const NOT_FOLLOWED: [&str; 2] = ["entries-read", "lag"];

fn number_in(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn seeds() -> std::ops::Range<u64> {
    let first = number_in("TOLLGATE_RANDOM_SEED", 1);
    first..first + number_in("TOLLGATE_RANDOM_ROUNDS", ROUNDS)
}

/// Empties the server and runs the commands of that seed on it.
fn run(client: &mut Client, table: &Commands, seed: u64) {
    let mut rng = Rng::new(seed);
    let families: Vec<&str> = table.families().collect();
    let odd = [0, 12, 4][rng.below(3)];
    let commands = table.sequence(&families, odd, COMMANDS, &mut |bound| rng.below(bound));
    let mut bytes = b"FLUSHALL\r\n".to_vec();
    for words in &commands {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        write_command(&mut bytes, &words);
    }
    client.send(&bytes).unwrap();
    for _ in 0..=commands.len() {
        client.frame().unwrap();
    }
}

/// What a server holds: of each key in each database a digest of its value, when it expires, and what the digest leaves out
/// of streams.
type Held = BTreeMap<(&'static str, Vec<u8>), [Value; 3]>;

/// `followed`: as far as a master tells of it.
fn held(client: &mut Client, followed: bool) -> Held {
    let mut all = Held::new();
    for db in DATABASES {
        client.call(&["SELECT", db]).unwrap();
        let Value::Array(keys) = client.call(&["KEYS", "*"]).unwrap() else {
            panic!("KEYS lists keys")
        };
        for key in keys {
            let key = key.as_bytes().expect("a key").to_vec();
            let mut ask = |words: &[&[u8]]| client.call(words).unwrap();
            // The count that a HyperLogLog remembers in its head is no data.
            let start = ask(&[b"GETRANGE", &key, b"0", b"3"]);
            let digest = match start.as_bytes() {
                Some(b"HYLL") => ask(&[b"GETRANGE", &key, b"16", b"-1"]),
                _ => ask(&[b"DEBUG", b"DIGEST-VALUE", &key]),
            };
            let expiry = ask(&[b"PEXPIRETIME", &key]);
            let stream = match ask(&[b"XINFO", b"STREAM", &key, b"FULL", b"COUNT", b"0"]) {
                Value::Error(_) => Value::Null,
                told => data_of(told, followed),
            };
            all.insert((db, key), [digest, expiry, stream]);
        }
    }
    client.call(&["SELECT", "0"]).unwrap();
    all
}

/// What is there now, and was not, or was otherwise.
fn differences(was: &Held, now: &Held) -> Vec<String> {
    let keys: BTreeSet<_> = was.keys().chain(now.keys()).collect();
    let differ = keys.iter().filter(|key| was.get(key) != now.get(key));
    differ
        .map(|key| {
            let told = |held: &Held| match held.get(key) {
                Some(all) => all.iter().map(shown).collect::<Vec<_>>().join(" "),
                None => "nothing".to_owned(),
            };
            let (db, name) = (key.0, key.1.escape_ascii());
            format!("{db} {name}: {}\nis {}", told(was), told(now))
        })
        .collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Int(number) => number.to_string(),
        other => match other.as_bytes() {
            Some(bytes) => bytes.escape_ascii().to_string(),
            None => format!("{other:?}"),
        },
    }
}

/// Compares what was with what is, after something that is to change nothing.
fn check(seed: u64, after: &str, was: &Held, now: &Held) {
    let differ = differences(was, now);
    assert!(
        differ.is_empty(),
        "TOLLGATE_RANDOM_SEED={seed}, {after}: {}",
        differ.join("\n")
    );
}

/// Leaves out of names and values what is no data.
fn data_of(value: Value, followed: bool) -> Value {
    let Value::Array(items) = value else {
        return value;
    };
    let is_left_out = |item: &Value| {
        item.as_bytes().is_some_and(|name| {
            let is = |other: &&str| other.as_bytes() == name;
            NO_DATA.iter().any(is) || followed && NOT_FOLLOWED.iter().any(is)
        })
    };
    let mut left = Vec::new();
    let mut items = items.into_iter();
    while let Some(item) = items.next() {
        if is_left_out(&item) {
            items.next();
        } else {
            left.push(data_of(item, followed));
        }
    }
    Value::Array(left)
}

fn keeping(folder: &Folder) -> Server {
    let flags = ["--dir", folder.path(), "--threads", "2"];
    let kept = ["--appendonly", "yes", "--appendfsync", "always"];
    let debug = ["--enable-debug-command", "yes"];
    Server::tollgate(&[&flags[..], &kept, &debug].concat()).unwrap()
}

#[test]
fn what_is_read_again_is_what_there_was() {
    let folder = Folder::new();
    let table = Commands::table();
    let mut server = keeping(&folder);
    for seed in seeds() {
        let mut client = server.connect().unwrap();
        run(&mut client, &table, seed);
        let (all, followed) = (held(&mut client, false), held(&mut client, true));
        assert_eq!(client.call(&["DEBUG", "RELOAD"]).unwrap(), ok());
        check(seed, "RELOAD", &all, &held(&mut client, false));
        assert_eq!(client.call(&["DEBUG", "LOADAOF"]).unwrap(), ok());
        check(seed, "LOADAOF", &followed, &held(&mut client, true));
        // Killed, as a server ends here.
        drop(server);
        server = keeping(&folder);
        let mut client = server.connect().unwrap();
        check(seed, "restart", &followed, &held(&mut client, true));
    }
}

/// Runs the rounds on a master and compares it with its replicas.
fn compare(master: &Server, replicas: &[(&str, &Server)]) {
    let table = Commands::table();
    let mut client = master.connect().unwrap();
    let (host, port) = ("127.0.0.1", master.addr().port().to_string());
    let mut followers: Vec<(&str, Client)> = Vec::new();
    for (name, replica) in replicas {
        let mut follower = replica.connect().unwrap();
        let followed = follower.call(&["REPLICAOF", host, &port]).unwrap();
        assert_eq!(followed, ok());
        followers.push((name, follower));
    }
    let count = replicas.len();
    for seed in seeds() {
        run(&mut client, &table, seed);
        let wanted = count.to_string();
        eventually("the replicas have it all", || {
            client.call(&["WAIT", &wanted, "1000"]).unwrap() == Value::Int(count as i64)
        });
        let was = held(&mut client, true);
        for (name, follower) in &mut followers {
            check(seed, name, &was, &held(follower, true));
        }
    }
}

#[test]
fn replicas_have_what_random_commands_leave() {
    let name = "replicas_have_what_random_commands_leave";
    let start = || Server::tollgate(&["--enable-debug-command", "yes", "--threads", "2"]).unwrap();
    let (master, replica) = (start(), start());
    match Server::redis(&[]).expect("redis-server starts") {
        Some(redis) => compare(&master, &[("Tollgate", &replica), ("Redis", &redis)]),
        None => peers::skip(name, "redis-server"),
    }
}

#[test]
fn a_replica_has_what_random_commands_leave_in_redis() {
    let name = "a_replica_has_what_random_commands_leave_in_redis";
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip(name, "redis-server");
    };
    let replica = Server::tollgate(&["--enable-debug-command", "yes", "--threads", "2"]).unwrap();
    compare(&redis, &[("Tollgate", &replica)]);
}
