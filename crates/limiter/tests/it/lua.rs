//! The scripts on a real redis-server decide exactly as the native functions do.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tollgate_limiter::gcra::{self, Gcra};
use tollgate_limiter::lua::{self, Arguments};
use tollgate_limiter::{
    ALGORITHMS, AlgorithmKind, Cost, Decision, LimiterState, Quota, Record, Request, Timestamp,
    decide_all,
};
use tollgate_wire::resp::Value;

use crate::models::{quota, steps};
use crate::redis::Redis;

/// The quota as the scripts see it: for buckets an increment of whole microseconds.
fn as_scripted(kind: AlgorithmKind, quota: &Quota) -> Quota {
    let bucket = matches!(
        kind,
        AlgorithmKind::Gcra | AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket
    );
    if !bucket {
        return *quota;
    }
    let gcra = Gcra::with_resolution(quota, lua::GCRA_RESOLUTION);
    // One unit per increment has the very same increment in nanoseconds.
    Quota {
        limit: u64::from(quota.limit > 0),
        period: gcra.increment,
        burst: gcra.burst,
    }
}

/// The machine's clock.
fn system_now() -> Timestamp {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    Timestamp::from_millis(since.as_millis() as i64)
}

fn micros(nanos: i64) -> i64 {
    nanos.div_euclid(1_000)
}

fn runner(seed: u8) -> TestRunner {
    TestRunner::new_with_rng(
        Config::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]),
    )
}

fn words(arguments: &Arguments) -> [String; 5] {
    [
        arguments.a,
        arguments.b,
        arguments.c,
        arguments.cost,
        arguments.peek,
    ]
    .map(|number| number.to_string())
}

#[test]
fn single_scripts_equal_the_native_functions() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let mut runner = runner(1);
    let histories = (
        quota(),
        steps(),
        1_000_000_000_000_000_000..3_000_000_000_000_000_000i64,
    );
    for round in 0..300 {
        let (quota, steps, start) = histories
            .new_tree(&mut runner)
            .expect("a history")
            .current();
        for row in ALGORITHMS {
            let native = as_scripted(row.kind, &quota);
            let key = format!("{}:{round}", row.name);
            let mut record = None;
            let mut now = start;
            for step in &steps {
                now += step.advance;
                let at = Timestamp::from_micros(micros(now));
                let (want, next) = row
                    .kind
                    .decide(record, &native, Cost(step.cost), at)
                    .expect("one algorithm");
                let args = words(&Arguments::new(
                    row.kind,
                    &quota,
                    Cost(step.cost),
                    step.peek,
                    at,
                ));
                let time = micros(now).to_string();
                let mut command: Vec<&[u8]> = vec![
                    b"EVAL",
                    row.lua.as_bytes(),
                    b"1",
                    key.as_bytes(),
                    time.as_bytes(),
                ];
                command.extend(args.iter().map(|word| word.as_bytes()));
                let got = lua::decision(&redis.ints(&command)).expect("a decision");
                assert_eq!(got, want, "{} {quota:?} at {now}: {step:?}", row.name);
                if !step.peek {
                    record = next.or(record);
                }
            }
        }
    }
}

/// How far the clock moves, then one request of several checks: key, cost, and whether it only looks.
type Checks = (i64, Vec<(usize, u64, bool)>);

fn requests() -> impl Strategy<Value = Vec<Checks>> {
    let check = (0..4usize, 0..4u64, prop::bool::weighted(0.15));
    let request = (
        -200_000_000..600_000_000i64,
        prop::collection::vec(check, 1..5),
    );
    prop::collection::vec(request, 1..60)
}

#[test]
fn the_batch_script_equals_the_native_batch() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let mut runner = runner(2);
    let histories = (prop::collection::vec(quota(), 4), requests());
    for round in 0..300 {
        let (quotas, requests) = histories
            .new_tree(&mut runner)
            .expect("a history")
            .current();
        // Each round mixes four of the algorithms.
        let kinds = [0, 1, 2, 3].map(|row| ALGORITHMS[(row + round) % ALGORITHMS.len()].kind);
        let keys: Vec<String> = (0..4).map(|key| format!("{round}:{key}")).collect();
        let mut records: [Option<Record>; 4] = [None; 4];
        let mut now = 1_700_000_000_000_000_000i64;
        for (advance, checks) in requests {
            now += advance;
            let at = Timestamp::from_micros(micros(now));
            let native: Vec<Request> = checks
                .iter()
                .map(|&(key, cost, peek)| Request {
                    kind: kinds[key],
                    quota: as_scripted(kinds[key], &quotas[key]),
                    cost: Cost(cost),
                    peek,
                    record: key,
                })
                .collect();
            let mut want = vec![Decision::DENIED; native.len()];
            decide_all(&native, &mut records, &mut [None; 4], &mut want, at)
                .expect("one algorithm per key");

            let mut command: Vec<Vec<u8>> = vec![
                b"EVAL".to_vec(),
                lua::BATCH.into(),
                checks.len().to_string().into(),
            ];
            command.extend(
                checks
                    .iter()
                    .map(|&(key, ..)| keys[key].clone().into_bytes()),
            );
            command.push(micros(now).to_string().into());
            for &(key, cost, peek) in &checks {
                let arguments = Arguments::new(kinds[key], &quotas[key], Cost(cost), peek, at);
                command.push(arguments.tag.into());
                command.extend(words(&arguments).map(String::into_bytes));
            }
            let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            let got = redis.ints(&command);
            let got: Vec<_> = got
                .chunks(lua::REPLY_LEN)
                .map(|five| lua::decision(five).expect("a decision"))
                .collect();
            assert_eq!(got, want, "{checks:?} at {now}");
        }
    }
}

#[test]
fn without_a_given_time_the_store_s_clock_and_expiry_count() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    for row in ALGORITHMS {
        let quota = Quota::new(2, 3_600_000_000_000);
        let args = words(&Arguments::new(
            row.kind,
            &quota,
            Cost(1),
            false,
            system_now(),
        ));
        let mut command: Vec<&[u8]> =
            vec![b"EVAL", row.lua.as_bytes(), b"1", row.name.as_bytes(), b""];
        command.extend(args.iter().map(|word| word.as_bytes()));
        let allowed: Vec<i64> = (0..3).map(|_| redis.ints(&command)[0]).collect();
        assert_eq!(allowed, [1, 1, 0], "{}", row.name);
        let Value::Int(ttl) = redis.call(&[b"PTTL", row.name.as_bytes()]) else {
            panic!("an integer")
        };
        let longest = match row.kind {
            AlgorithmKind::Calendar(_) => 31 * 86_400_000,
            AlgorithmKind::SlidingWindow => 2 * 3_600_000,
            _ => 3_600_000,
        };
        assert!((1..=longest).contains(&ttl), "{}: {ttl}", row.name);
    }
}

#[test]
fn the_largest_numbers_stay_exact() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let largest = lua::MAX_UNITS - 1;
    let quota = Quota::new(u64::MAX, u64::MAX);
    for (kind, script) in [
        (AlgorithmKind::FixedWindow, lua::FIXED_WINDOW),
        (AlgorithmKind::Gcra, lua::GCRA),
    ] {
        let capacity = match kind {
            AlgorithmKind::Gcra => largest.min(gcra::MAX_TOLERANCE / 1_000),
            _ => largest,
        };
        let mut ask = |cost: u64| {
            let args = words(&Arguments::new(
                kind,
                &quota,
                Cost(cost),
                false,
                Timestamp::from_secs(1_700_000_000),
            ));
            let mut command: Vec<&[u8]> = vec![
                b"EVAL",
                script.as_bytes(),
                b"1",
                kind.row().name.as_bytes(),
                b"1700000000000000",
            ];
            command.extend(args.iter().map(|word| word.as_bytes()));
            redis.ints(&command)
        };
        assert_eq!(ask(capacity - 1)[..3], [1, capacity as i64, 1]);
        assert_eq!(ask(2)[..3], [0, capacity as i64, 1]);
        assert_eq!(ask(1)[..3], [1, capacity as i64, 0]);
        assert_eq!(ask(u64::MAX)[3], -1);
    }
}

#[test]
fn foreign_values_are_refused_and_kept() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    for row in ALGORITHMS {
        for foreign in ["text", "1:2:3:4", "-", ""] {
            redis.call(&[b"SET", b"k", foreign.as_bytes()]);
            let args = words(&Arguments::new(
                row.kind,
                &Quota::new(2, 1_000_000_000),
                Cost(1),
                false,
                system_now(),
            ));
            let mut command: Vec<&[u8]> = vec![b"EVAL", row.lua.as_bytes(), b"1", b"k", b""];
            command.extend(args.iter().map(|word| word.as_bytes()));
            match redis.call(&command) {
                Value::Error(line) => assert!(line.starts_with(b"WRONGTYPE"), "{line:?}"),
                other => panic!("{} took {foreign:?}: {other:?}", row.name),
            }
            assert_eq!(
                redis.call(&[b"GET", b"k"]).as_bytes(),
                Some(foreign.as_bytes())
            );
        }
    }
    // A window's value is no arrival time, and the other way round.
    let window = Record {
        state: LimiterState::FixedWindow { count: 1 },
        expires_at_ms: 5,
    };
    assert!(
        AlgorithmKind::Gcra
            .decide(
                Some(window),
                &Quota::new(1, 1),
                Cost(1),
                Timestamp::default()
            )
            .is_err()
    );
}
