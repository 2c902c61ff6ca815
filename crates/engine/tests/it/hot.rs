//! Hot keys: decisions without a lock, through the embedded handle.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate_engine::{Check, Handle, LocalHandle};
use tollgate_limiter::{AlgorithmKind, Cost, Quota, Timestamp};
use tollgate_wire::resp::Value;

use super::{Client, NOW, engine};

const MINUTE: u64 = 60_000_000_000;

fn check(key: &[u8], limit: u64) -> Check<'_> {
    Check {
        key,
        algorithm: AlgorithmKind::FixedWindow,
        quota: Quota::new(limit, MINUTE),
        cost: Cost(1),
        peek: false,
        exact: false,
    }
}

fn later(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW.millis() + millis)
}

#[test]
fn threads_share_a_hot_limit_to_the_last_unit() {
    const LIMIT: u64 = 100_000;
    for algorithm in [
        AlgorithmKind::FixedWindow,
        AlgorithmKind::Gcra,
        AlgorithmKind::SlidingWindow,
    ] {
        let handle = Handle::new(engine(64));
        let admitted = AtomicU64::new(0);
        let ready = Barrier::new(4);
        let hot = Check {
            algorithm,
            ..check(b"hot", LIMIT)
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut local = LocalHandle::new(handle.clone());
                    let ask = |local: &mut LocalHandle| {
                        local.decide(&hot, NOW).expect("limiter state").allowed
                    };
                    while ask(&mut local) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                    ready.wait();
                    // Idle at the second look: nothing was asked since the first.
                    local.give_back(later(20));
                    assert!(!local.give_back(later(20)));
                    ready.wait();
                    while ask(&mut local) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let admitted = admitted.load(Ordering::Relaxed);
        assert!(admitted <= LIMIT, "{algorithm:?} admitted {admitted}");
        if algorithm == AlgorithmKind::FixedWindow {
            assert_eq!(admitted, LIMIT);
        }
    }
}

#[test]
fn a_reset_or_a_ban_ends_leases_and_denials_at_once() {
    let engine = engine(64);
    let mut handle = LocalHandle::new(Handle::new(engine.clone()));
    let mut client = Client::new(&engine);
    let hot = check(b"hot", 10_000);
    for _ in 0..500 {
        assert!(handle.decide(&hot, NOW).expect("limiter state").allowed);
    }
    let inspected = client.bytes(&["RL.INSPECT", "hot"]);
    assert!(
        String::from_utf8_lossy(&inspected).contains("leased"),
        "{inspected:?}"
    );
    client.call(&["DEL", "hot"]);
    let fresh = handle.decide(&hot, NOW).expect("limiter state");
    assert_eq!(
        fresh.remaining, 9_999,
        "the units of the old lease are gone"
    );

    client.call(&["RL.BAN", "hot", "60000"]);
    assert!(!handle.decide(&hot, NOW).expect("limiter state").allowed);
    client.call(&["RL.UNBAN", "hot"]);
    client.call(&["RL.RESET", "hot"]);
    assert!(handle.decide(&hot, NOW).expect("limiter state").allowed);

    client.call(&["FLUSHALL"]);
    let all = check(b"all", 1_000);
    while handle.decide(&all, NOW).expect("limiter state").allowed {}
    assert!(!handle.decide(&all, NOW).expect("limiter state").allowed);
    client.call(&["FLUSHALL"]);
    assert!(handle.decide(&all, NOW).expect("limiter state").allowed);
}

#[test]
fn a_refund_is_there_for_those_who_were_denied() {
    let mut handle = LocalHandle::new(Handle::new(engine(64)));
    let hot = check(b"hot", 500);
    while handle.decide(&hot, NOW).expect("limiter state").allowed {}
    handle.shared().refund(&hot, NOW).expect("limiter state");
    assert!(handle.decide(&hot, NOW).expect("limiter state").allowed);
    assert!(!handle.decide(&hot, NOW).expect("limiter state").allowed);
}

#[test]
fn exact_checks_and_switched_off_leases_answer_from_the_counter() {
    for global in [false, true] {
        let engine = engine(64);
        engine.set_leases(!global);
        let mut handle = LocalHandle::new(Handle::new(engine.clone()));
        let mut client = Client::new(&engine);
        let hot = Check {
            exact: !global,
            ..check(b"hot", 10_000)
        };
        for taken in 1..=1_000 {
            let decision = handle.decide(&hot, NOW).expect("limiter state");
            assert_eq!(decision.remaining, 10_000 - taken);
        }
        let inspected = client.bytes(&["RL.INSPECT", "hot"]);
        assert!(!String::from_utf8_lossy(&inspected).contains("leased"));
    }
}

#[test]
fn the_next_window_is_whole_again() {
    let mut handle = LocalHandle::new(Handle::new(engine(64)));
    let hot = check(b"hot", 5_000);
    for window in 0..3 {
        let now = later(window * 60_000);
        let mut admitted = 0;
        while handle.decide(&hot, now).expect("limiter state").allowed {
            admitted += 1;
        }
        assert_eq!(admitted, 5_000, "window {window}");
    }
}

/// Allowed and denied decisions of the key that asks most.
fn first_of_top(client: &mut Client) -> (Vec<u8>, i64, i64) {
    let Value::Array(rows) = client.call(&["RL.TOP"]) else {
        panic!("rows");
    };
    let Some(Value::Array(row)) = rows.first() else {
        return (Vec::new(), 0, 0);
    };
    let int = |at: usize| row[at].as_int().expect("a number");
    let Value::Bulk(key) = &row[0] else {
        panic!("a key");
    };
    (key.to_vec(), int(1), int(2))
}

#[test]
fn what_a_thread_decides_alone_is_counted_when_it_gives_back_and_when_it_asks_again() {
    let engine = engine(4);
    let mut client = Client::new(&engine);
    let mut local = LocalHandle::new(Handle::new(engine.clone()));
    let ask = |local: &mut LocalHandle, now: Timestamp| {
        let decided = local.decide(&check(b"hot", 20_000), now);
        decided.expect("limiter state").allowed
    };
    let mut allowed = 0;
    while ask(&mut local, NOW) {
        allowed += 1;
    }
    assert_eq!(allowed, 20_000);
    for _ in 0..99_999 {
        assert!(!ask(&mut local, NOW));
    }
    // The thread remembers the denial, and goes on with it.
    assert!(local.give_back(NOW));
    let (key, allowed, denied) = first_of_top(&mut client);
    assert_eq!(key, b"hot");
    // What went the way of the lock may be counted by samples.
    let near = |said: i64, exact: i64| said.abs_diff(exact) < exact.unsigned_abs() / 8;
    assert!(
        near(allowed, 20_000) && near(denied, 100_000),
        "{allowed} {denied}"
    );
    for _ in 0..100_000 {
        assert!(!ask(&mut local, NOW));
    }
    drop(local);
    let (_, same, denied) = first_of_top(&mut client);
    assert!(same == allowed && near(denied, 200_000), "{same} {denied}");
}

#[test]
fn looks_and_requests_that_others_deny_are_not_counted_and_neither_is_any_when_it_is_off() {
    let engine = engine(4);
    let mut client = Client::new(&engine);
    let handle = Handle::new(engine.clone());
    let mut local = LocalHandle::new(handle.clone());
    let look = Check {
        peek: true,
        ..check(b"a", 5)
    };
    local.decide(&look, NOW).expect("limiter state");
    let free = Check {
        cost: Cost(0),
        ..check(b"a", 5)
    };
    handle.decide(&[free], NOW).expect("limiter state");
    assert_eq!(first_of_top(&mut client), (Vec::new(), 0, 0));
    let both = [check(b"b", 1), check(b"a", 100)];
    for _ in 0..3 {
        handle.decide(&both, NOW).expect("limiter state");
    }
    assert_eq!(first_of_top(&mut client), (b"b".to_vec(), 1, 2));
    engine.set_limit("limiter-top", 0);
    for _ in 0..10 {
        handle
            .decide(&[check(b"a", 100)], NOW)
            .expect("limiter state");
    }
    assert_eq!(first_of_top(&mut client), (b"b".to_vec(), 1, 2));
}
