//! Mistakes that other rate limiters made, by the numbers of `docs/traps.md`: those that need commands and threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use tollgate_commands::Policy;
use tollgate_engine::{Check, Engine, Handle, LocalHandle};
use tollgate_limiter::{AlgorithmKind, Cost, Quota, Timestamp};
use tollgate_testkit::PATIENCE;
use tollgate_wire::resp::Value;

use super::{Client, NOW, engine};

const THREADS: usize = 20;

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The first number of a reply, which is whether it passed; an error is no pass.
fn first(reply: &Value) -> i64 {
    match reply {
        Value::Array(items) => items.first().and_then(Value::as_int).unwrap_or(-1),
        _ => -1,
    }
}

/// How many of the calls of many threads pass, each thread calling so often what `line` gives for its number.
fn passed(engine: &Arc<Engine>, calls: usize, line: impl Fn(usize, usize) -> String + Sync) -> u64 {
    let passed = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (line, passed) = (&line, &passed);
            scope.spawn(move || {
                let mut client = Client::new(engine);
                for call in 0..calls {
                    let reply = client.call(&words(&line(thread, call)));
                    passed.fetch_add(u64::from(first(&reply) == 1), Ordering::Relaxed);
                }
            });
        }
    });
    passed.into_inner()
}

#[test]
fn trap_03_a_quantity_that_is_left_out_is_one_and_zero_only_looks() {
    let mut client = Client::new(&engine(4));
    for (line, word) in [("THROTTLE t 3 1 1000", 1), ("CL.THROTTLE c 2 1 1000", 0)] {
        let left = |client: &mut Client, line: &str| match client.call(&words(line)) {
            Value::Array(items) => (items[0].as_int(), items[2].as_int()),
            other => panic!("{other:?}"),
        };
        assert_eq!(left(&mut client, line), (Some(word), Some(2)));
        for _ in 0..5 {
            assert_eq!(
                left(&mut client, &format!("{line} 0")),
                (Some(word), Some(2))
            );
        }
        assert_eq!(
            left(&mut client, &format!("{line} 2")),
            (Some(word), Some(0))
        );
        assert_eq!(left(&mut client, line), (Some(1 - word), Some(0)));
    }
}

#[test]
fn trap_09_checking_and_taking_are_one_step() {
    for algorithm in [
        "FIXED", "ALIGNED", "SLIDING", "LOG", "GCRA", "TOKENS", "LEAKY",
    ] {
        let line = format!("RL.TAKE k {algorithm} 41 100000000");
        let passed = passed(&engine(8), 10, |_, _| line.clone());
        assert_eq!(passed, 41, "{algorithm}");
    }
}

/// Limiters that are used up, one of every kind of state.
const USED_UP: &[(&str, &str)] = &[
    ("RL.TAKE f FIXED 1 100000000", "fixed window"),
    ("RL.TAKE s SLIDING 1 100000000", "sliding window"),
    ("RL.TAKE g GCRA 1 100000000", "GCRA"),
    ("RL.TAKE t TOKENS 1 100000000", "token bucket"),
    ("RL.TAKE l LOG 1 100000000", "log"),
    ("RL.ACQUIRE a {n} 1 100000000", "leases"),
    (
        "RL.RESERVE r {n} 100000000 FIXED 1 100000000",
        "reservations",
    ),
    (
        "RL.MTAKE 2 m1 m2 FIXED 1 100000000 LOG 5 100000000",
        "several",
    ),
];

/// Threads that ask for one hot key must not queue for it: who holds a lease, or knows of the denial, decides while another
/// holds the lock.
#[test]
fn trap_12_one_hot_key_is_decided_without_its_lock() {
    // So many that the key is hot, and that the thread's lease is not just used up.
    for (limit, asked, allowed) in [(1_000_000, 10_000, true), (100, 500, false)] {
        let engine = engine(1);
        let (go, may_go) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let handle = Handle::new(engine.clone());
        thread::spawn(move || {
            let mut local = LocalHandle::new(handle);
            let check = Check {
                key: b"hot",
                algorithm: AlgorithmKind::FixedWindow,
                quota: Quota::new(limit, 3_600_000_000_000),
                cost: Cost(1),
                peek: false,
                exact: false,
            };
            let mut ask = || local.decide(&check, NOW).expect("limiter state").allowed;
            for _ in 0..asked {
                ask();
            }
            // Whoever waits has given up by then if these fail.
            tell.send(ask()).ok();
            may_go.recv().ok();
            tell.send(ask()).ok();
        });
        assert_eq!(told.recv_timeout(PATIENCE), Ok(allowed));
        engine.for_each_shard(|_held| {
            go.send(()).expect("it waits");
            assert_eq!(
                told.recv_timeout(PATIENCE),
                Ok(allowed),
                "it waits for the lock"
            );
        });
    }
}

#[test]
fn trap_13_a_flood_of_keys_gives_no_amnesty() {
    const LIMIT: i64 = 200_000;
    const FLOOD: usize = 8_000;
    for (policy, name) in Policy::ALL {
        let mut client = Client::new(&engine(4));
        let ask = |client: &mut Client, line: &str, id: usize| {
            first(&client.call(&words(&line.replace("{n}", &id.to_string()))))
        };
        for (line, kind) in USED_UP {
            assert_eq!(ask(&mut client, line, 0), 1, "{kind}");
        }
        client.call(&words("RL.BAN b 100000000"));
        client.engine.set_limit("maxmemory-policy", *policy as i64);
        client.engine.set_limit("maxmemory", LIMIT);
        client.engine.follow_memory_limits();
        let mut refused = 0;
        for number in 0..FLOOD {
            // Other data are there to be evicted, as far as the policy has any go.
            client.call(&["SET", &format!("data-{number}"), "x", "EX", "1000"]);
            let key = format!("flood-of-many-keys-{number}");
            let reply = client.call(&["RL.TAKE", &key, "FIXED", "1", "100000000"]);
            refused += u64::from(matches!(reply, Value::Error(_)));
            if number % 500 == 499 {
                for (line, kind) in USED_UP {
                    let passed = ask(&mut client, line, number);
                    assert_eq!(passed, 0, "{name}: {kind} after {number} keys");
                }
                assert_eq!(ask(&mut client, "RL.TAKE b FIXED 1 1000", 0), 0, "{name}");
            }
        }
        assert!(refused > FLOOD as u64 / 4, "{name}: {refused} refused");
        assert_eq!(client.engine.refused_limiters(), refused, "{name}");
        let memory = client.engine.memory() as i64;
        assert!(memory < LIMIT + 20_000, "{name}: {memory} bytes");
        // What has expired goes first, whatever the policy.
        client.now = Timestamp::from_millis(client.now.millis() + 100_000_001);
        let taken = |client: &mut Client| {
            let reply = client.call(&words("RL.TAKE fresh FIXED 1 100000000"));
            matches!(reply, Value::Array(_))
        };
        let soon = (0..1_000).any(|_| {
            client.now = Timestamp::from_millis(client.now.millis() + 10);
            taken(&mut client)
        });
        assert!(soon, "{name}: there is room again");
    }
}

#[test]
fn trap_13_the_service_s_limits_stay_through_a_flood_too() {
    const FLOOD: usize = 50_000;
    let engine = engine(4);
    let handle = Handle::new(engine.clone());
    let mut local = LocalHandle::new(handle.clone());
    fn check(key: &[u8]) -> Check<'_> {
        Check {
            key,
            algorithm: AlgorithmKind::FixedWindow,
            quota: Quota::new(1, 1_000_000_000_000),
            cost: Cost(1),
            peek: false,
            exact: false,
        }
    }
    assert!(
        local
            .decide(&check(b"hot"), NOW)
            .expect("a limiter")
            .allowed
    );
    engine.set_limit("maxmemory-policy", Policy::AllKeysLru as i64);
    engine.set_limit("maxmemory", 200_000);
    engine.follow_memory_limits();
    let mut refused = 0;
    for number in 0..FLOOD {
        let key = format!("flood-of-many-keys-{number}");
        let flood = check(key.as_bytes());
        let decided = match number % 2 {
            0 => handle.decide(&[flood], NOW).map(|decisions| decisions[0]),
            _ => local.decide(
                &Check {
                    exact: true,
                    ..flood
                },
                NOW,
            ),
        };
        refused += u64::from(!decided.expect("a limiter").allowed);
        if number % 10 == 0 {
            assert!(
                !local
                    .decide(&check(b"hot"), NOW)
                    .expect("a limiter")
                    .allowed
            );
        }
    }
    assert!(refused > FLOOD as u64 / 2);
    assert_eq!(engine.refused_limiters(), refused);
}

#[test]
fn trap_16_a_reservation_is_admitted_and_recorded_in_one_step() {
    let engine = engine(8);
    let reserved = passed(&engine, 5, |thread, call| {
        format!("RL.RESERVE k r{thread}-{call} 60000 FIXED 13 100000000 COST 1")
    });
    assert_eq!(reserved, 13);
    // Ending one twice counts once, and one that never was changes nothing.
    let mut client = Client::new(&engine);
    let left = |client: &mut Client| match client
        .call(&words("RL.TAKE k FIXED 13 100000000 PEEK COST 0"))
    {
        Value::Array(items) => items[2].as_int(),
        other => panic!("{other:?}"),
    };
    assert_eq!(left(&mut client), Some(0));
    let cancelled = (0..THREADS)
        .flat_map(|thread| (0..5).map(move |call| (thread, call)))
        .filter(|(thread, call)| {
            let id = format!("r{thread}-{call}");
            let before = left(&mut client);
            client.call(&["RL.CANCEL", "k", &id]);
            client.call(&["RL.CANCEL", "k", &id]);
            left(&mut client) > before
        })
        .count();
    assert_eq!((cancelled, left(&mut client)), (13, Some(13)));
}

#[test]
fn trap_20_a_key_that_holds_something_else_is_an_error_and_is_kept() {
    let mut client = Client::new(&engine(4));
    client.call(&words("SET s not-a-number"));
    client.call(&words("SET n 17 EX 60"));
    client.call(&words("RPUSH l a"));
    for key in ["s", "n", "l"] {
        for line in [
            "CL.THROTTLE {key} 4 1 1",
            "THROTTLE {key} 4 1 1",
            "RL.THROTTLE {key} 4 1 1",
            "GCRA {key} 4 1 1",
            "RL.TAKE {key} FIXED 1 1000",
            "RL.TAKE {key} LOG 1 1000",
            "RL.MTAKE 2 {key} free FIXED 1 1000 FIXED 1 1000",
            "RL.REFUND {key} FIXED 1 1000",
            "RL.LEASE {key} FIXED 1 1000 COUNT 1",
            "RL.RESERVE {key} id 1000 FIXED 1 1000",
            "RL.COMMIT {key} id 1",
            "RL.CANCEL {key} id",
            "RL.BAN {key} 1000",
            "RL.UNBAN {key}",
            "RL.RESET {key}",
            "RL.INSPECT {key}",
        ] {
            let line = line.replace("{key}", key);
            let reply = client.call(&words(&line));
            let Value::Error(text) = &reply else {
                panic!("{line}: {reply:?}");
            };
            assert!(text.starts_with(b"WRONGTYPE"), "{line}: {reply:?}");
        }
    }
    assert_eq!(client.int(&["EXISTS", "s", "n", "l", "free"]), 3);
}
