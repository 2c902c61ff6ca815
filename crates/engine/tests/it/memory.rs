//! The memory limit: what goes, what is refused, and what never goes.

use tollgate_commands::Policy;
use tollgate_engine::{Check, Handle, LocalHandle, Paused, PausedBy};
use tollgate_limiter::{AlgorithmKind, Cost, Quota, Timestamp};
use tollgate_wire::resp::Value;

use super::{Client, NOW, engine};

const LIMIT: i64 = 1 << 20;

fn limit(client: &Client, policy: Policy, bytes: i64) {
    client.engine.set_limit("maxmemory-policy", policy as i64);
    client.engine.set_limit("maxmemory", bytes);
    client.engine.follow_memory_limits();
}

#[test]
fn memory_stays_at_the_limit_under_every_policy() {
    for (policy, name) in Policy::ALL {
        if *policy == Policy::NoEviction {
            continue;
        }
        let mut client = Client::new(&engine(16));
        limit(&client, *policy, LIMIT);
        let value = "x".repeat(500);
        for number in 0..5000 {
            let key = format!("key{number}");
            let reply = client.call(&["SET", &key, &value, "EX", "1000"]);
            assert_eq!(reply, Value::Simple(b"OK".to_vec()), "{name}");
        }
        assert!(client.engine.memory() as i64 <= LIMIT + 4096, "{name}");
        assert!(client.engine.evicted() > 1000, "{name}");
        assert!(client.int(&["DBSIZE"]) > 500, "{name}");
    }
}

#[test]
fn large_values_do_not_come_faster_than_small_ones_go() {
    let mut client = Client::new(&engine(16));
    for number in 0..20_000 {
        client.call(&["SET", &format!("key{number}"), "1"]);
    }
    let bytes = client.engine.memory() as i64;
    limit(&client, Policy::AllKeysLru, bytes);
    // As long as it takes, so that the outcome is not one of time.
    client.engine.set_limit("maxmemory-eviction-tenacity", 100);
    let value = "x".repeat(100_000);
    for number in 0..5 {
        client.call(&["SET", &format!("large{number}"), &value]);
    }
    client.call(&["SET", "last", "1"]);
    assert!(client.engine.memory() as i64 <= bytes + 4096);
    assert!(client.engine.evicted() > 6 * 64);
}

#[test]
fn keys_without_expiry_stay_under_a_volatile_policy() {
    let mut client = Client::new(&engine(4));
    for number in 0..100 {
        client.call(&["SET", &format!("stays{number}"), "1"]);
    }
    client.call(&["SET", "goes", "1", "EX", "1000"]);
    limit(&client, Policy::VolatileLru, 1);
    assert!(matches!(client.call(&["SET", "new", "1"]), Value::Error(_)));
    assert_eq!(client.int(&["DBSIZE"]), 100);
    assert_eq!(client.engine.evicted(), 1);
}

/// Whoever pauses clients hands the data over, or looks at them, and a replica that has all of them is not to be told of more.
#[test]
fn nothing_goes_while_clients_are_paused() {
    let mut client = Client::new(&engine(4));
    for number in 0..100 {
        client.call(&["SET", &format!("key{number}"), "1"]);
    }
    let pause = client.engine.pause();
    pause.begin(PausedBy::Client, Paused::Writes, i64::MAX);
    limit(&client, Policy::AllKeysLru, 1);
    assert_eq!(client.call(&["GET", "key1"]), Value::Bulk(b"1".to_vec()));
    assert!(!client.engine.make_room(NOW));
    assert_eq!(client.int(&["DBSIZE"]), 100);
    assert_eq!(client.engine.evicted(), 0);
    client.engine.pause().end(PausedBy::Client);
    client.call(&["GET", "key1"]);
    assert!(client.engine.evicted() > 0);
}

/// How many are left of 400 old keys and of 400 newer ones, when a tenth of the memory has to go under `policy`; `read`: the old
/// ones have been read since.
fn left_of_old_and_new(policy: Policy, read: bool) -> (i64, i64) {
    let mut client = Client::new(&engine(4));
    limit(&client, policy, LIMIT);
    let mut at = |seconds: i64, words: &[&str], kind: &str| {
        client.now = Timestamp::from_secs(NOW.secs() + seconds);
        for number in 0..400 {
            let key = format!("{kind}{number}");
            client.call(&[&[words[0], key.as_str()], &words[1..]].concat());
        }
    };
    let set = ["SET", "a value of some length, not inline"];
    at(0, &set, "old");
    at(100, &set, "new");
    if read {
        at(200, &["GET"], "old");
    }
    let memory = client.engine.memory() as i64;
    limit(&client, policy, memory * 9 / 10);
    for _ in 0..50 {
        client.call(&["PING"]);
    }
    let mut left = |kind: &str| -> i64 {
        (0..400)
            .map(|number| client.int(&["EXISTS", &format!("{kind}{number}")]))
            .sum()
    };
    (left("old"), left("new"))
}

#[test]
fn the_least_recently_used_go_first() {
    let (old, new) = left_of_old_and_new(Policy::AllKeysLru, false);
    assert!(old < 400 && new > old + 20, "{old} old, {new} new");
    let (old, new) = left_of_old_and_new(Policy::AllKeysLru, true);
    assert!(new < 400 && old > new + 20, "{old} old, {new} new");
}

#[test]
fn the_least_recently_modified_go_first_though_they_are_read() {
    let (old, new) = left_of_old_and_new(Policy::AllKeysLrm, true);
    assert!(old < 400 && new > old + 20, "{old} old, {new} new");
}

#[test]
fn limiters_are_never_forgotten_and_new_ones_are_refused() {
    let mut client = Client::new(&engine(4));
    let handle = Handle::new(client.engine.clone());
    let check = |key: &'static [u8]| Check {
        key,
        algorithm: AlgorithmKind::FixedWindow,
        quota: Quota::new(1, 1_000_000_000_000),
        cost: Cost(1),
        peek: false,
        exact: false,
    };
    let allowed =
        |key: &'static [u8]| handle.decide(&[check(key)], NOW).expect("limiters only")[0].allowed;
    assert!(allowed(b"known") && !allowed(b"known"));
    client.call(&["SET", "other", "1"]);
    limit(&client, Policy::AllKeysRandom, 1);
    // What may go has gone; the limiter is there, and still denies.
    assert!(!allowed(b"known"));
    assert!(!allowed(b"new"));
    assert_eq!(client.int(&["DBSIZE"]), 1);
    assert_eq!(client.int(&["EXISTS", "known"]), 1);
    let take =
        |client: &mut Client, key: &str| client.call(&["RL.TAKE", key, "FIXED", "1", "1000000"]);
    assert!(matches!(take(&mut client, "known"), Value::Array(_)));
    assert!(matches!(take(&mut client, "fresh"), Value::Error(_)));
    limit(&client, Policy::AllKeysRandom, 0);
    assert!(!allowed(b"known"));
    assert!(allowed(b"new"));
}

#[test]
fn an_exact_decision_makes_room_in_the_shard_that_it_needs() {
    let mut client = Client::new(&engine(1));
    client.call(&["SET", "other", "1"]);
    limit(&client, Policy::AllKeysRandom, 1);
    let mut local = LocalHandle::new(Handle::new(client.engine.clone()));
    let check = Check {
        key: b"k",
        algorithm: AlgorithmKind::FixedWindow,
        quota: Quota::new(1, 1_000_000_000),
        cost: Cost(1),
        peek: false,
        exact: true,
    };
    let decided = local.decide(&check, NOW).expect("limiters only");
    assert!(!decided.allowed && decided.retry_after.is_some());
    assert_eq!(client.engine.evicted(), 1);
}
