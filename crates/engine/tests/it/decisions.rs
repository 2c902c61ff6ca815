//! The embedded handle: several limits decided as one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use tollgate_commands::gate::Restrictions;
use tollgate_engine::{
    AnyCheck, Check, Handle, LocalHandle, Paused, PausedBy, Undecided, Wake, WrongState,
};
use tollgate_limiter::{Act, AlgorithmKind, Cost, Method, Quota};
use tollgate_testkit::PATIENCE;

use super::{Client, NOW, engine};

const MINUTE: u64 = 60_000_000_000;

fn check(key: &[u8], limit: u64) -> Check<'_> {
    Check {
        key,
        algorithm: AlgorithmKind::FixedWindowEpoch,
        quota: Quota::new(limit, MINUTE),
        cost: Cost(1),
        peek: false,
        exact: false,
    }
}

#[test]
fn a_hundred_threads_get_exactly_the_limit() {
    for algorithm in [
        AlgorithmKind::FixedWindow,
        AlgorithmKind::FixedWindowEpoch,
        AlgorithmKind::Gcra,
    ] {
        let handle = Handle::new(engine(64));
        let admitted = Arc::new(AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let check = Check {
                            algorithm,
                            ..check(b"limited", 41)
                        };
                        let decisions = handle.decide(&[check], NOW).expect("limiter state");
                        admitted.fetch_add(u64::from(decisions[0].allowed), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.load(Ordering::Relaxed), 41, "{algorithm:?}");
    }
}

#[test]
fn a_denied_request_takes_nothing_anywhere() {
    let handle = Handle::new(engine(64));
    // Each of four tenants may have 30, all together 50: the sum is what decides, and what a tenant was denied by the
    // sum is still its own.
    thread::scope(|scope| {
        for tenant in 0..4u8 {
            let handle = handle.clone();
            scope.spawn(move || {
                for _ in 0..40 {
                    let own = [b't', tenant];
                    handle
                        .decide(&[check(&own, 30), check(b"all", 50)], NOW)
                        .expect("limiter state");
                }
            });
        }
    });
    let left = |key: &[u8], limit| {
        let peek = Check {
            peek: true,
            cost: Cost(0),
            ..check(key, limit)
        };
        handle.decide(&[peek], NOW).expect("limiter state")[0].remaining
    };
    assert_eq!(left(b"all", 50), 0);
    let taken: u64 = (0..4u8).map(|tenant| 30 - left(&[b't', tenant], 30)).sum();
    assert_eq!(taken, 50);
}

#[test]
fn checks_on_one_key_see_each_other() {
    let handle = Handle::new(engine(64));
    let twice = [check(b"k", 3), check(b"other", 10), check(b"k", 3)];
    let decisions = handle.decide(&twice, NOW).expect("limiter state");
    assert_eq!(
        decisions
            .iter()
            .map(|decision| decision.remaining)
            .collect::<Vec<_>>(),
        [2, 9, 1]
    );
    let decisions = handle.decide(&twice, NOW).expect("limiter state");
    assert!(!decisions[2].allowed && decisions[0].remaining == 1 && decisions[1].remaining == 9);
}

/// Far more than are compared pair by pair, by each of the ways that decide several.
#[test]
fn of_many_checks_those_on_one_key_see_each_other() {
    let names: Vec<String> = (0..400).map(|at| format!("k{}", at % 100)).collect();
    for method in [Method::Small(AlgorithmKind::FixedWindowEpoch), Method::Log] {
        let handle = Handle::new(engine(64));
        let any = |limit| -> Vec<AnyCheck<'_>> {
            let all = names.iter().map(|name| AnyCheck {
                key: name.as_bytes(),
                method,
                quota: Quota::new(limit, MINUTE),
                cost: Cost(1),
                act: Act::Take,
                exact: false,
            });
            all.collect()
        };
        // Four on each key: three are too few, and then nothing is taken.
        let denied = handle.decide_any(&any(3), NOW).expect("limiter state");
        let count = |allowed| denied.iter().filter(|made| made.allowed == allowed).count();
        assert_eq!([count(true), count(false)], [300, 100], "{method:?}");
        for left in [4, 0] {
            let made = handle.decide_any(&any(8), NOW).expect("limiter state");
            assert!(made.iter().all(|made| made.allowed), "{method:?}");
            assert_eq!(made[399].remaining, left, "{method:?}");
        }
    }
}

#[test]
fn nothing_to_check_is_no_decision() {
    assert!(
        Handle::new(engine(1))
            .decide(&[], NOW)
            .expect("no state")
            .is_empty()
    );
}

#[test]
fn other_values_are_refused_and_kept() {
    let engine = engine(64);
    let handle = Handle::new(Arc::clone(&engine));
    let mut client = Client::new(&engine);
    client.call(&["SET", "text", "x"]);
    let wrong = Err(Undecided::WrongState(WrongState {
        key: b"text".as_slice().into(),
    }));
    assert_eq!(handle.decide(&[check(b"text", 1)], NOW), wrong);
    assert_eq!(
        handle.decide(&[check(b"fresh", 1), check(b"text", 1)], NOW),
        wrong
    );
    assert_eq!(client.int(&["EXISTS", "fresh"]), 0);

    handle
        .decide(&[check(b"window", 5)], NOW)
        .expect("limiter state");
    let other = Check {
        algorithm: AlgorithmKind::Gcra,
        ..check(b"window", 5)
    };
    let wrong = Err(Undecided::WrongState(WrongState {
        key: b"window".as_slice().into(),
    }));
    assert_eq!(handle.decide(&[other], NOW), wrong);
    assert_eq!(handle.decide(&[check(b"fresh", 1), other], NOW), wrong);
}

#[test]
fn the_store_sees_the_counters_and_forgets_them() {
    let engine = engine(64);
    let handle = Handle::new(Arc::clone(&engine));
    handle
        .decide(&[check(b"a", 5), check(b"b", 5)], NOW)
        .expect("limiter state");
    let mut client = Client::new(&engine);
    assert_eq!(client.int(&["DBSIZE"]), 2);
    let later = NOW.plus(2 * MINUTE);
    let mut removed = 0;
    while removed < 2 {
        removed += engine.expire_step(later, 1_000).removed;
    }
    assert_eq!(client.int(&["DBSIZE"]), 0);
    assert_eq!(engine.stats().expired, 2);
}

#[test]
fn a_refund_gives_back_what_was_taken_and_no_more() {
    let handle = Handle::new(engine(4));
    let take = |cost| Check {
        cost: Cost(cost),
        ..check(b"k", 10)
    };
    let left = |handle: &Handle| handle.decide(&[take(0)], NOW).expect("own state")[0].remaining;
    assert_eq!(handle.refund(&take(5), NOW).expect("fresh").remaining, 10);
    handle.decide(&[take(6)], NOW).expect("own state");
    let there = handle.refund(&take(4), NOW).expect("own state");
    assert_eq!(
        (there.allowed, there.remaining, left(&handle)),
        (true, 8, 8)
    );
    assert_eq!(
        handle
            .refund(&take(u64::MAX), NOW)
            .expect("own state")
            .remaining,
        10
    );
    let other = Check {
        algorithm: AlgorithmKind::Gcra,
        ..take(1)
    };
    assert!(handle.refund(&other, NOW).is_err());
}

fn any(key: &[u8], limit: u64) -> AnyCheck<'_> {
    AnyCheck {
        key,
        method: Method::Small(AlgorithmKind::FixedWindowEpoch),
        quota: Quota::new(limit, MINUTE),
        cost: Cost(1),
        act: Act::Take,
        exact: false,
    }
}

#[test]
fn algorithms_of_all_kinds_take_together_or_not_at_all() {
    let handle = Handle::new(engine(64));
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for caller in 0..20u64 {
            let (handle, admitted) = (&handle, &admitted);
            scope.spawn(move || {
                for turn in 0..10 {
                    let id = format!("{caller}:{turn}");
                    let lease = Act::Hold {
                        id: id.as_bytes(),
                        ttl: MINUTE,
                    };
                    let checks = [
                        AnyCheck {
                            method: Method::Concurrency,
                            act: lease,
                            ..any(b"places", 7)
                        },
                        AnyCheck {
                            method: Method::Log,
                            ..any(b"log", 50)
                        },
                        AnyCheck {
                            act: lease,
                            ..any(b"reserved", 40)
                        },
                        any(b"window", 30),
                    ];
                    let decisions = handle.decide_any(&checks, NOW).expect("limiter state");
                    if decisions.iter().all(|decision| decision.allowed) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                        handle.release(b"places", id.as_bytes(), NOW).expect("own");
                    }
                }
            });
        }
    });
    let admitted = admitted.into_inner();
    assert!((1..=30).contains(&admitted), "{admitted}");
    let left = |method, key: &'static [u8], limit| {
        let look = AnyCheck {
            method,
            act: Act::Peek,
            cost: Cost(0),
            ..any(key, limit)
        };
        handle.decide_any(&[look], NOW).expect("own")[0].remaining
    };
    let window = Method::Small(AlgorithmKind::FixedWindowEpoch);
    assert_eq!(left(window, b"window", 30), 30 - admitted);
    assert_eq!(left(window, b"reserved", 40), 40 - admitted);
    assert_eq!(left(Method::Log, b"log", 50), 50 - admitted);
    assert_eq!(left(Method::Concurrency, b"places", 7), 7);
}

#[test]
fn reservations_and_leases_by_the_handle() {
    let handle = Handle::new(engine(4));
    let reserve = |id: &'static [u8], cost| AnyCheck {
        cost: Cost(cost),
        act: Act::Hold { id, ttl: MINUTE },
        ..any(b"budget", 10)
    };
    let decide = |check: AnyCheck<'_>| handle.decide_any(&[check], NOW).expect("own")[0];
    assert!(decide(reserve(b"a", 8)).allowed);
    assert!(!decide(reserve(b"b", 3)).allowed);
    assert!(
        !decide(AnyCheck {
            cost: Cost(3),
            ..any(b"budget", 10)
        })
        .allowed
    );
    let ended = handle.end(b"budget", b"a", 1, NOW).expect("own");
    assert_eq!(ended.map(|ended| ended.released), Some(7));
    let again = handle.end(b"budget", b"a", 5, NOW).expect("own");
    assert_eq!(
        again.map(|ended| (ended.actual, ended.before)),
        Some((1, true))
    );
    assert_eq!(handle.end(b"budget", b"b", 5, NOW), Ok(None));
    assert_eq!(handle.end(b"nothing", b"b", 5, NOW), Ok(None));
    assert!(
        decide(AnyCheck {
            cost: Cost(9),
            ..any(b"budget", 10)
        })
        .allowed
    );
    assert_eq!(
        handle
            .refund_any(
                &AnyCheck {
                    cost: Cost(2),
                    ..any(b"budget", 10)
                },
                NOW
            )
            .expect("own")
            .remaining,
        2
    );

    let lease = |id: &'static [u8]| AnyCheck {
        method: Method::Concurrency,
        act: Act::Hold { id, ttl: MINUTE },
        ..any(b"places", 1)
    };
    assert!(decide(lease(b"a")).allowed);
    assert!(!decide(lease(b"b")).allowed);
    assert_eq!(handle.release(b"places", b"b", NOW), Ok(0));
    assert_eq!(handle.release(b"places", b"a", NOW), Ok(1));
    assert!(decide(lease(b"b")).allowed);
    let wrong = handle.release(b"budget", b"a", NOW).expect_err("no leases");
    let key = b"budget".as_slice().into();
    assert_eq!(wrong, Undecided::WrongState(WrongState { key }));
    // The reservations of a key that was refused are still there.
    assert_eq!(
        handle
            .end(b"budget", b"a", 0, NOW)
            .expect("own")
            .map(|ended| ended.actual),
        Some(1)
    );
}

#[test]
fn a_commit_that_comes_too_late_forgets_nothing() {
    let handle = Handle::new(engine(4));
    let decide = |act, cost, now| {
        let check = AnyCheck {
            act,
            cost: Cost(cost),
            ..any(b"budget", 10)
        };
        handle.decide_any(&[check], now).expect("own")[0]
    };
    let ttl = 1_000_000;
    assert!(decide(Act::Hold { id: b"a", ttl }, 3, NOW).allowed);
    assert!(decide(Act::Take, 5, NOW).allowed);
    let late = NOW.plus(ttl);
    assert_eq!(handle.end(b"budget", b"a", 3, late), Ok(None));
    assert_eq!(decide(Act::Peek, 0, late).remaining, 5);
}

#[test]
fn a_counter_goes_on_under_another_key_once() {
    let handle = Handle::new(engine(16));
    let decide = |check: AnyCheck<'_>| handle.decide_any(&[check], NOW).expect("own")[0];
    let left = |check: AnyCheck<'_>| {
        let look = AnyCheck {
            act: Act::Peek,
            cost: Cost(0),
            ..check
        };
        decide(look).remaining
    };
    let halve = |left: u64, before: u64, after: u64| after - left * after / before;
    let log = |key, limit| AnyCheck {
        method: Method::Log,
        ..any(key, limit)
    };
    // Nothing was counted: nothing goes on.
    assert_eq!(
        handle.succeed(&any(b"b", 20), &any(b"a", 10), halve, NOW),
        Ok(false)
    );
    for _ in 0..4 {
        assert!(decide(any(b"a", 10)).allowed);
    }
    assert_eq!(
        handle.succeed(&log(b"b", 20), &any(b"a", 10), halve, NOW),
        Ok(true)
    );
    assert_eq!((left(log(b"b", 20)), left(any(b"a", 10))), (12, 10));
    // A counter that has begun keeps what it has.
    assert!(decide(any(b"a", 10)).allowed);
    assert_eq!(
        handle.succeed(&log(b"b", 20), &any(b"a", 10), halve, NOW),
        Ok(false)
    );
    assert_eq!((left(log(b"b", 20)), left(any(b"a", 10))), (12, 9));
    // Back again, while many ask at once.
    assert_eq!(
        handle.succeed(&any(b"c", 10), &log(b"b", 20), halve, NOW),
        Ok(true)
    );
    let carried = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let was = handle.succeed(&any(b"d", 5), &any(b"c", 10), halve, NOW);
                if was.expect("nothing is kept") {
                    carried.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!((carried.into_inner(), left(any(b"d", 5))), (1, 3));
}

#[test]
fn a_ban_goes_on_under_another_key_with_what_it_covers() {
    let engine = engine(16);
    let handle = Handle::new(Arc::clone(&engine));
    let mut client = Client::new(&engine);
    let decide = |check: AnyCheck<'_>| handle.decide_any(&[check], NOW).expect("own")[0];
    let log = AnyCheck {
        method: Method::Log,
        cost: Cost(7),
        ..any(b"a", 10)
    };
    assert!(decide(log).allowed);
    client.call(&["RL.BAN", "a", "30000"]);
    let as_is = |left: u64, _, after: u64| after - left;
    assert_eq!(handle.succeed(&any(b"b", 20), &log, as_is, NOW), Ok(true));
    assert!(!decide(any(b"b", 20)).allowed);
    client.call(&["RL.UNBAN", "b"]);
    assert_eq!(decide(any(b"b", 20)).remaining, 2);
}

/// Whoever has paused writes, so that a replica gets everything, is not deceived by the service.
#[test]
fn nothing_is_counted_while_writes_are_paused() {
    let engine = engine(4);
    let handle = Handle::new(Arc::clone(&engine));
    let mut local = LocalHandle::new(handle.clone());
    let woken = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&woken);
    let wake: Arc<Wake> = Arc::new(move || {
        told.fetch_add(1, Ordering::SeqCst);
    });
    let check = |key: &'static str| Check {
        key: key.as_bytes(),
        algorithm: AlgorithmKind::FixedWindow,
        quota: Quota::new(10, 1_000_000_000_000),
        cost: Cost(1),
        peek: false,
        exact: false,
    };
    let (one, two) = (check("one"), check("two"));
    assert!(!handle.may_be_kept() && !handle.when_freed(&wake));
    handle.decide(&[one], NOW).expect("counted");
    engine
        .pause()
        .begin(PausedBy::Failover, Paused::Writes, i64::MAX);
    assert!(handle.may_be_kept());
    assert_eq!(handle.decide(&[one], NOW), Err(Undecided::Kept));
    assert_eq!(handle.decide(&[one, two], NOW), Err(Undecided::Kept));
    assert_eq!(handle.refund(&one, NOW), Err(Undecided::Kept));
    assert_eq!(local.decide(&one, NOW), Err(Undecided::Kept));
    for _ in 0..3 {
        assert!(handle.when_freed(&wake));
    }
    engine.pause().end(PausedBy::Failover);
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    assert_eq!(local.decide(&one, NOW).expect("counted").remaining, 8);
}

/// What a replica holds is its master's: nothing is taken there, and who asks is told so. Neither what threads took in advance
/// before it became one nor anything else comes back, so that it goes on from where the master is.
#[test]
fn nothing_comes_back_on_a_replica() {
    let engine = engine(4);
    let handle = Handle::new(Arc::clone(&engine));
    let mut local = LocalHandle::new(handle.clone());
    let any = |key: &'static str, method, act| AnyCheck {
        key: key.as_bytes(),
        method,
        quota: Quota::new(100_000, MINUTE),
        cost: Cost(10),
        act,
        exact: true,
    };
    let hold = Act::Hold {
        id: b"h",
        ttl: MINUTE,
    };
    let window = Method::Small(AlgorithmKind::FixedWindow);
    let (used, log) = (
        any("used", window, Act::Take),
        any("log", Method::Log, Act::Take),
    );
    let held = any("held", window, hold);
    let leased = any("leased", Method::Concurrency, hold);
    let all = [used, log, held, leased];
    handle.decide_any(&all, NOW).expect("counted");
    for _ in 0..100 {
        local.decide(&check(b"hot", 100_000), NOW).expect("counted");
    }
    assert!(local.holds());
    let mut client = Client::new(&engine);
    let mut state =
        || ["used", "log", "held", "leased", "hot"].map(|key| client.bytes(&["DUMP", key]));
    let before = state();
    let following = engine.follow(None).expect("nothing is loaded");
    engine.restrict(Restrictions::READ_ONLY);

    let refused = Undecided::OnReplica;
    let short = Check {
        cost: Cost(10),
        ..check(b"used", 100_000)
    };
    assert_eq!(handle.decide(&[short], NOW), Err(refused.clone()));
    assert_eq!(local.decide(&short, NOW), Err(refused.clone()));
    assert_eq!(handle.refund(&short, NOW), Err(refused.clone()));
    for one in [used, log, held, leased] {
        assert_eq!(handle.decide_any(&[one], NOW), Err(refused.clone()));
        assert_eq!(handle.refund_any(&one, NOW), Err(refused.clone()));
    }
    assert_eq!(handle.end(b"held", b"h", 0, NOW), Err(refused.clone()));
    assert_eq!(handle.release(b"leased", b"h", NOW), Err(refused.clone()));
    let heir = any("heir", window, Act::Take);
    let carried = handle.succeed(&heir, &used, |_, _, left| left, NOW);
    assert_eq!(carried, Err(refused));
    let later = NOW.plus(1_000_000_000);
    local.give_back(later);
    assert!(!local.give_back(later));
    assert_eq!(state(), before);
    let place = engine.continue_history(following, None);
    assert!(place.is_ok() && engine.place().is_some());
}

/// As commands that write: what too few replicas would know of is not counted, and who asked is told so.
#[test]
fn nothing_is_counted_while_too_few_replicas_follow() {
    let engine = engine(4);
    let handle = Handle::new(Arc::clone(&engine));
    let mut local = LocalHandle::new(handle.clone());
    let hold = Act::Hold {
        id: b"h",
        ttl: MINUTE,
    };
    let leased = AnyCheck {
        method: Method::Concurrency,
        act: hold,
        ..any(b"leased", 4)
    };
    let held = AnyCheck {
        act: hold,
        ..any(b"held", 4)
    };
    handle.decide_any(&[leased, held], NOW).expect("counted");
    let mut client = Client::new(&engine);
    let before = client.bytes(&["DUMP", "held"]);

    engine.refuse_writes_without_replicas(true);
    let none = Err(Undecided::TooFewReplicas);
    let one = check(b"window", 4);
    assert_eq!(handle.decide(&[one], NOW), none);
    assert_eq!(handle.decide(&[one, check(b"other", 4)], NOW), none);
    assert_eq!(local.decide(&one, NOW), Err(Undecided::TooFewReplicas));
    assert_eq!(local.decide_any(&[any(b"window", 4)], NOW), none);
    assert_eq!(handle.decide_any(&[leased], NOW), none);
    assert_eq!(handle.refund(&one, NOW), Err(Undecided::TooFewReplicas));
    let back = handle.refund_any(&leased, NOW);
    assert_eq!(back, Err(Undecided::TooFewReplicas));
    let ended = handle.end(b"held", b"h", 0, NOW);
    assert_eq!(ended, Err(Undecided::TooFewReplicas));
    let released = handle.release(b"leased", b"h", NOW);
    assert_eq!(released, Err(Undecided::TooFewReplicas));
    let heir = any(b"heir", 4);
    let carried = handle.succeed(&heir, &held, |_, _, left| left, NOW);
    assert_eq!(carried, Err(Undecided::TooFewReplicas));

    engine.refuse_writes_without_replicas(false);
    assert_eq!(client.bytes(&["DUMP", "held"]), before);
    assert_eq!(handle.decide(&[one], NOW).expect("counted")[0].remaining, 3);
    assert_eq!(handle.release(b"leased", b"h", NOW), Ok(1));
}

/// Above the bound of what is to be written, whoever changes data waits for the disk: not the thread, which has others to serve.
#[test]
fn nothing_is_counted_while_the_append_only_file_lags_too_far() {
    let engine = engine(4);
    engine.open_log();
    let handle = Handle::new(Arc::clone(&engine));
    let mut local = LocalHandle::new(handle.clone());
    let mut client = Client::new(&engine);
    client.call(&["SET".as_bytes(), b"large", &vec![b'x'; 65 << 20]]);
    assert!(engine.log_is_full() && handle.may_be_kept());
    let (asked, told) = std::sync::mpsc::channel();
    let deciding = handle.clone();
    thread::spawn(move || {
        let decided = deciding.decide(&[check(b"one", 10)], NOW);
        asked.send(decided == Err(Undecided::Kept)).ok();
    });
    let told = told.recv_timeout(PATIENCE);
    assert_eq!(told, Ok(true), "the thread waits");
    assert_eq!(local.decide(&check(b"one", 10), NOW), Err(Undecided::Kept));
    let woken = Arc::new(AtomicUsize::new(0));
    let wakes = Arc::clone(&woken);
    let wake: Arc<Wake> = Arc::new(move || {
        wakes.fetch_add(1, Ordering::SeqCst);
    });
    assert!(handle.when_freed(&wake) && handle.when_freed(&wake));
    // There will be no room.
    engine.log_fails(Some("no space"));
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    assert!(!handle.when_freed(&wake));
    let refused = local.decide(&check(b"one", 10), NOW);
    assert_eq!(refused, Err(Undecided::Unwritable));
    assert!(!handle.may_be_kept(), "nobody is to wait for it");
    engine.log_fails(None);
    assert!(handle.when_freed(&wake));
    engine.log_written(engine.log_facts().appended);
    assert_eq!(woken.load(Ordering::SeqCst), 2);
    assert!(!handle.may_be_kept());
    assert!(
        local
            .decide(&check(b"one", 10), NOW)
            .expect("counted")
            .allowed
    );
}
