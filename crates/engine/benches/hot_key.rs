//! Decisions per second on one key that all threads ask for, in process: `cargo bench -p tollgate-engine`.
//!
//! One element is one decision. The time that decisions are made at advances by a real clock every 256 decisions, as an
//! event loop reads it once per batch.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use criterion::{Criterion, Throughput};
use tollgate_engine::{Check, Engine, EngineConfig, Handle, LocalHandle};
use tollgate_limiter::{AlgorithmKind, Cost, Quota, Timestamp};

const BATCH: u64 = 256;

const KEY: &[u8] = b"tenant:12345678";
const LONG_KEY: &[u8] = b"shop_user_user-12345678_1767225600";

struct Case {
    name: &'static str,
    key: &'static [u8],
    algorithm: AlgorithmKind,
    limit: u64,
    exact: bool,
}

const CASES: [Case; 5] = [
    Case {
        name: "admitted, fixed window",
        key: KEY,
        algorithm: AlgorithmKind::FixedWindow,
        limit: 1 << 50,
        exact: false,
    },
    Case {
        name: "admitted, gcra",
        key: KEY,
        algorithm: AlgorithmKind::Gcra,
        limit: 1 << 35,
        exact: false,
    },
    Case {
        name: "admitted, fixed window, long key",
        key: LONG_KEY,
        algorithm: AlgorithmKind::FixedWindow,
        limit: 1 << 50,
        exact: false,
    },
    Case {
        name: "denied",
        key: KEY,
        algorithm: AlgorithmKind::FixedWindow,
        limit: 1,
        exact: false,
    },
    Case {
        name: "admitted, under the lock",
        key: KEY,
        algorithm: AlgorithmKind::FixedWindow,
        limit: 1 << 50,
        exact: true,
    },
];

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from_nanos(since.map_or(0, |since| since.as_nanos() as i64))
}

/// The time that `threads` need for `decisions` each.
fn run(case: &Case, threads: usize, decisions: u64) -> Duration {
    let handle = Handle::new(Engine::new(EngineConfig::default()));
    let ready = Barrier::new(threads + 1);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut local = LocalHandle::new(handle.clone());
                let check = Check {
                    key: case.key,
                    algorithm: case.algorithm,
                    quota: Quota::new(case.limit, 3_600_000_000_000),
                    cost: Cost(1),
                    peek: false,
                    exact: case.exact,
                };
                for _ in 0..BATCH {
                    black_box(local.decide(&check, now())).expect("limiter state");
                }
                ready.wait();
                let (mut made, mut admitted, mut left) = (0, 0, 0u64);
                while made < decisions {
                    let now = now();
                    for _ in 0..BATCH {
                        let decision = local.decide(black_box(&check), now);
                        let decision = decision.expect("limiter state");
                        admitted += u64::from(decision.allowed);
                        left ^= decision.remaining ^ decision.reset_after;
                    }
                    made += BATCH;
                }
                black_box((admitted, left));
                ready.wait();
            });
        }
        ready.wait();
        let start = Instant::now();
        ready.wait();
        start.elapsed()
    })
}

fn hot_key(criterion: &mut Criterion) {
    for threads in [1, 2] {
        let mut group = criterion.benchmark_group(format!("one key, threads: {threads}"));
        group.throughput(Throughput::Elements(BATCH * threads as u64));
        for case in &CASES {
            group.bench_function(case.name, |bencher| {
                bencher.iter_custom(|batches| run(case, threads, batches * BATCH));
            });
        }
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    hot_key(&mut criterion);
    criterion.final_summary();
}
