//! Many threads on the same keys: nothing is lost, nothing is seen half done, nobody waits for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use tollgate_engine::Engine;
use tollgate_testkit::PATIENCE;
use tollgate_wire::resp::Value;

use super::{Client, engine};

/// Runs `work` on threads, one for each number, and fails when they do not all end.
fn on_threads(
    count: usize,
    engine: &Arc<Engine>,
    work: impl Fn(usize, &mut Client) + Send + Sync + 'static,
) {
    let work = Arc::new(work);
    let (done, ended) = mpsc::channel();
    for number in 0..count {
        let (work, engine, done) = (Arc::clone(&work), Arc::clone(engine), done.clone());
        thread::spawn(move || {
            work(number, &mut Client::new(&engine));
            done.send(()).expect("the test waits");
        });
    }
    drop(done);
    for _ in 0..count {
        ended
            .recv_timeout(PATIENCE)
            .expect("every thread ends: a deadlock, or a thread failed (see above)");
    }
}

fn texts(value: Value) -> Vec<Option<Vec<u8>>> {
    let Value::Array(items) = value else {
        panic!("not a list: {value:?}")
    };
    items
        .into_iter()
        .map(|item| match item {
            Value::Bulk(bytes) => Some(bytes),
            Value::Null => None,
            other => panic!("not a string: {other:?}"),
        })
        .collect()
}

/// A small sequence of its own for each thread.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

const TRANSFER: &str = "local from = tonumber(redis.call('get', KEYS[1])) \
    local amount = tonumber(ARGV[1]) \
    if from < amount then return 0 end \
    redis.call('decrby', KEYS[1], amount) \
    redis.call('incrby', KEYS[2], amount) return 1";

/// As [`TRANSFER`], with keys that only the arguments name.
const HIDDEN_TRANSFER: &str = "local from = tonumber(redis.call('get', ARGV[2])) \
    local amount = tonumber(ARGV[1]) \
    if from < amount then return 0 end \
    redis.call('decrby', ARGV[2], amount) \
    redis.call('incrby', ARGV[3], amount) return 1";

const ACCOUNTS: u64 = 24;

#[test]
fn transfers_keep_the_sum_and_every_reader_sees_it() {
    let engine = engine(16);
    let accounts: Vec<String> = (0..ACCOUNTS)
        .map(|number| format!("account:{number}"))
        .collect();
    let mut bank = Client::new(&engine);
    for account in &accounts {
        bank.call(&["SET", account, "100"]);
    }
    let read: Vec<String> = std::iter::once("MGET".to_owned())
        .chain(accounts.clone())
        .collect();
    let writers_left = Arc::new(AtomicU64::new(4));
    on_threads(6, &engine, {
        let (accounts, read) = (accounts.clone(), read.clone());
        move |thread, client| {
            let sum = |client: &mut Client| -> i64 {
                let balances = texts(client.call(&read));
                balances
                    .iter()
                    .flatten()
                    .map(|text| {
                        String::from_utf8_lossy(text)
                            .parse::<i64>()
                            .expect("digits")
                    })
                    .sum()
            };
            if thread >= 4 {
                while writers_left.load(Ordering::Relaxed) > 0 {
                    assert_eq!(sum(client), 100 * ACCOUNTS as i64);
                }
                return;
            }
            let mut state = thread as u64 + 1;
            for _ in 0..2_000 {
                let from = &accounts[draw(&mut state, ACCOUNTS) as usize];
                let to = &accounts[draw(&mut state, ACCOUNTS) as usize];
                let amount = draw(&mut state, 30).to_string();
                if thread % 2 == 0 {
                    client.int(&["EVAL", TRANSFER, "2", from, to, &amount]);
                } else {
                    client.int(&["EVAL", HIDDEN_TRANSFER, "0", &amount, from, to]);
                }
            }
            writers_left.fetch_sub(1, Ordering::Relaxed);
        }
    });
    let total: i64 = accounts
        .iter()
        .map(|account| bank.int(&["GET", account]))
        .sum();
    assert_eq!(total, 100 * ACCOUNTS as i64);
}

#[test]
fn scripts_that_cross_each_other_on_undeclared_keys_lose_nothing() {
    const BOTH: &str =
        "redis.call('incr', ARGV[1]) for i = 1, 50 do end redis.call('incr', ARGV[2])";
    const ROUNDS: i64 = 3_000;
    let engine = engine(16);
    on_threads(6, &engine, |thread, client| {
        for _ in 0..ROUNDS {
            match thread {
                0 => drop(client.call(&["EVAL", BOTH, "0", "a", "b"])),
                1 => drop(client.call(&["EVAL", BOTH, "0", "b", "a"])),
                // Declares one of the two, so that it starts with a lock.
                2 => drop(client.call(&["EVAL", BOTH, "1", "a", "b", "a"])),
                3 => drop(client.call(&[
                    "EVAL",
                    "redis.call('incr', KEYS[1]) redis.call('incr', KEYS[2])",
                    "2",
                    "b",
                    "a",
                ])),
                4 => drop(client.call(&["INCR", "a"])),
                _ => drop(client.call(&[
                    "EVAL",
                    "redis.call('incr', 'b') return redis.call('dbsize')",
                    "0",
                ])),
            }
        }
    });
    let mut client = Client::new(&engine);
    assert_eq!(client.int(&["GET", "a"]), 5 * ROUNDS);
    assert_eq!(client.int(&["GET", "b"]), 5 * ROUNDS);
}

#[test]
fn several_keys_change_together() {
    const KEYS: usize = 12;
    let engine = engine(8);
    let stop = Arc::new(AtomicBool::new(false));
    let names: Vec<String> = (0..KEYS).map(|number| format!("key:{number}")).collect();
    on_threads(5, &engine, move |thread, client| match thread {
        0..3 => {
            for round in 0..2_000 {
                let value = format!("{thread}-{round}");
                let mut command = vec!["MSET"];
                // Each thread names the keys in an order of its own.
                for at in 0..KEYS {
                    command.extend([names[(at * 5 + thread * 7) % KEYS].as_str(), &value]);
                }
                client.call(&command);
            }
            stop.store(true, Ordering::Relaxed);
        }
        3 => {
            while !stop.load(Ordering::Relaxed) {
                client.call(&["FLUSHALL"]);
            }
        }
        _ => {
            let read: Vec<&str> = std::iter::once("MGET")
                .chain(names.iter().map(String::as_str))
                .collect();
            while !stop.load(Ordering::Relaxed) {
                let values = texts(client.call(&read));
                assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            }
        }
    });
}

#[test]
fn a_command_may_name_twenty_thousand_keys() {
    let engine = engine(1024);
    let mut client = Client::new(&engine);
    let names: Vec<String> = (0..20_000).map(|number| format!("key:{number}")).collect();
    let set: Vec<&str> = std::iter::once("MSET")
        .chain(names.iter().flat_map(|name| [name.as_str(), "value"]))
        .collect();
    assert_eq!(client.call(&set), Value::Simple(b"OK".to_vec()));
    let exist: Vec<&str> = std::iter::once("EXISTS")
        .chain(names.iter().map(String::as_str))
        .collect();
    assert_eq!(client.int(&exist), 20_000);
    let del = [&[
        "EVAL",
        "return redis.call('del', KEYS[1], KEYS[19999], 'other')",
        "20000",
    ][..]]
    .concat();
    let del: Vec<&str> = del
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    assert_eq!(client.int(&del), 2);
    assert_eq!(client.int(&["DBSIZE"]), 19_998);
}

#[test]
fn one_key_admits_exactly_the_limit() {
    const LIMIT: u64 = 37;
    let script = "local n = redis.call('INCR', KEYS[1]) \
        if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end \
        if n > tonumber(ARGV[1]) then return 0 end return 1";
    for command in [
        vec!["RL.TAKE", "limited", "FIXED", "37", "60000"],
        vec!["EVAL", script, "1", "limited", "37", "60000"],
    ] {
        let engine = engine(64);
        let admitted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&admitted);
        on_threads(100, &engine, move |_, client| {
            for _ in 0..5 {
                let yes = match client.call(&command) {
                    Value::Int(yes) => yes,
                    Value::Array(fields) => match fields.first() {
                        Some(Value::Int(yes)) => *yes,
                        other => panic!("not a decision: {other:?}"),
                    },
                    other => panic!("not a decision: {other:?}"),
                };
                count.fetch_add(yes as u64, Ordering::Relaxed);
            }
        });
        assert_eq!(admitted.load(Ordering::Relaxed), LIMIT);
    }
}
