//! Mistakes that other rate limiters made, by the numbers of `docs/traps.md`: those that need commands and threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate_commands::Policy;
use tollgate_engine::Engine;
use tollgate_wire::resp::Value;

use super::{Client, engine};

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

#[test]
fn trap_13_a_flood_of_keys_gives_no_amnesty() {
    let mut client = Client::new(&engine(4));
    let victim = words("RL.TAKE victim FIXED 1 100000000");
    assert_eq!(first(&client.call(&victim)), 1);
    for policy in [
        Policy::AllKeysLru,
        Policy::AllKeysRandom,
        Policy::VolatileTtl,
    ] {
        client.engine.set_limit("maxmemory-policy", policy as i64);
        client.engine.set_limit("maxmemory", 200_000);
        client.engine.follow_memory_limits();
        let refused = (0..10_000).any(|n| {
            let key = format!("flood-of-many-keys-{n}");
            let reply = client.call(&["RL.TAKE", &key, "FIXED", "1", "100000000"]);
            matches!(reply, Value::Error(_))
        });
        assert!(
            refused,
            "{policy:?}: a table at its bound refuses new limiters"
        );
        assert_eq!(first(&client.call(&victim)), 0, "{policy:?}");
    }
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
    client.call(&words("RPUSH l a"));
    for key in ["s", "l"] {
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
    assert_eq!(client.int(&["EXISTS", "s", "l", "free"]), 2);
}
