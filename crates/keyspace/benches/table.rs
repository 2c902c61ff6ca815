//! Memory per record and time per operation of the keyspace, beside a hash map of the same content.
//!
//! `cargo bench -p tollgate-keyspace [-- RECORDS...]`; several sizes show how memory varies between two doublings.
//! Every figure of memory is resident memory of a process of its own: the bench runs itself once per line.
#![allow(clippy::print_stdout, reason = "a bench reports to its reader")]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use tollgate_keyspace::{DbIndex, Seed, Shard, Value, ValueRef};
use tollgate_limiter::{LimiterState, Timestamp};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SHARDS: usize = 1024;
const NOW: i64 = 1_795_000_000_000;
const DB: DbIndex = DbIndex::ZERO;
const OPS: u64 = 4_000_000;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    if let [child, subject, records] = args.as_slice()
        && child == "child"
    {
        let records = records.parse().expect("the parent passes a number");
        return if subject == "keyspace" {
            keyspace(records)
        } else {
            hash_map(records)
        };
    }
    let mut sizes: Vec<u64> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    if sizes.is_empty() {
        sizes.push(1_000_000);
    }
    println!(
        "{:10} {:>9} {:>6} {:>6} | ns/op",
        "", "records", "RSS/r", "own/r"
    );
    let program = std::env::current_exe().expect("a running program has a path");
    for records in sizes {
        for subject in ["keyspace", "HashMap"] {
            let status = std::process::Command::new(&program)
                .args(["child", subject, &records.to_string()])
                .status();
            assert!(status.expect("the bench starts itself").success());
        }
    }
}

/// A 16-byte key; consecutive numbers give keys in no order.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"limiter:00000000";
    let mut rest = number;
    for digit in key[8..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Numbers below `bound` in random order.
fn random(state: &mut u64, bound: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    ((u128::from(*state) * u128::from(bound)) >> 64) as u64
}

fn rss() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * 4096
}

/// Prints the time per operation of the best of several slices, which other load on the machine disturbs least.
fn timed(name: &str, mut f: impl FnMut(u64)) {
    const SLICES: u32 = 16;
    let mut state = 1;
    let mut best = f64::INFINITY;
    for _ in 0..SLICES {
        let start = Instant::now();
        for _ in 0..OPS / u64::from(SLICES) {
            f(random(&mut state, u64::MAX));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (OPS / u64::from(SLICES)) as f64);
    }
    print!(" {name} {best:.0}");
}

/// A number below `records` from random bits.
fn pick(bits: u64, records: u64) -> u64 {
    ((u128::from(bits) * u128::from(records)) >> 64) as u64
}

fn keyspace(records: u64) {
    let seed = Seed::new(0xfeed);
    let mut shards: Vec<Shard> = (0..SHARDS).map(|_| Shard::new(&seed)).collect();
    let before = rss();
    let start = Instant::now();
    for number in 0..records {
        let bytes = key(number);
        let key = seed.key(&bytes);
        let state = LimiterState::Gcra {
            tat: Timestamp::from_millis(NOW),
        };
        shards[key.shard(SHARDS)].set(DB, key, Value::Limiter(state), Some(NOW + 60_000), NOW);
    }
    let insert = start.elapsed().as_nanos() as f64 / records as f64;
    let own: usize = shards
        .iter()
        .map(|shard| shard.memory() - size_of::<Shard>())
        .sum();
    let resident = (rss() - before) as f64 / records as f64;
    print!(
        "{:10} {records:>9} {resident:>6.1} {:>6.1} |",
        "keyspace",
        own as f64 / records as f64
    );
    print!(" insert {insert:.0}");
    timed("key", |bits| {
        black_box(key(pick(bits, records)));
    });
    timed("get", |bits| {
        let bytes = key(pick(bits, records));
        let key = seed.key(&bytes);
        assert!(shards[key.shard(SHARDS)].get(DB, key, NOW).is_some());
    });
    timed("miss", |bits| {
        let bytes = key(pick(bits, records) + records);
        let key = seed.key(&bytes);
        assert!(shards[key.shard(SHARDS)].get(DB, key, NOW).is_none());
    });
    timed("take", |bits| {
        let bytes = key(pick(bits, records));
        let key = seed.key(&bytes);
        let mut entry = shards[key.shard(SHARDS)]
            .get_mut(DB, key, NOW)
            .expect("present");
        if let ValueRef::Limiter(LimiterState::Gcra { tat }) = entry.value() {
            entry.set_limiter(LimiterState::Gcra {
                tat: tat.plus(1000),
            });
            entry.set_expiry(Some(NOW + 60_001));
        }
    });
    timed("set", |bits| {
        let bytes = key(pick(bits, records));
        let key = seed.key(&bytes);
        shards[key.shard(SHARDS)].set(DB, key, Value::Int(bits as i64), None, NOW);
    });
    timed("incr", |bits| {
        let bytes = key(pick(bits, records));
        let key = seed.key(&bytes);
        let mut entry = shards[key.shard(SHARDS)]
            .get_mut(DB, key, NOW)
            .expect("present");
        if let ValueRef::Int(int) = entry.value() {
            entry.set_int(int.wrapping_add(1));
        }
    });
    timed("set64B", |bits| {
        let bytes = key(pick(bits, records));
        let key = seed.key(&bytes);
        shards[key.shard(SHARDS)].set(DB, key, Value::from_bytes(&[b'v'; 64]), None, NOW);
    });
    let start = Instant::now();
    for number in 0..records {
        let bytes = key(number);
        let key = seed.key(&bytes);
        assert!(shards[key.shard(SHARDS)].remove(DB, key, NOW).is_some());
    }
    println!(
        " remove {:.0}",
        start.elapsed().as_nanos() as f64 / records as f64
    );
}

/// The same content in hash maps with the same number of shards, as plain as they can be.
fn hash_map(records: u64) {
    type Map = HashMap<[u8; 16], (i64, i64), foldhash::quality::RandomState>;
    let seed = Seed::new(0xfeed);
    let mut shards: Vec<Map> = (0..SHARDS).map(|_| Map::default()).collect();
    let before = rss();
    let start = Instant::now();
    for number in 0..records {
        let key = key(number);
        shards[seed.key(&key).shard(SHARDS)].insert(key, (NOW, NOW + 60_000));
    }
    let insert = start.elapsed().as_nanos() as f64 / records as f64;
    let own: usize = shards.iter().map(|map| map.capacity() * 8 / 7 * 33).sum();
    let resident = (rss() - before) as f64 / records as f64;
    print!(
        "{:10} {records:>9} {resident:>6.1} {:>6.1} |",
        "HashMap",
        own as f64 / records as f64
    );
    print!(" insert {insert:.0}");
    timed("get", |bits| {
        let key = key(pick(bits, records));
        assert!(shards[seed.key(&key).shard(SHARDS)].contains_key(&key));
    });
    timed("miss", |bits| {
        let key = key(pick(bits, records) + records);
        assert!(!shards[seed.key(&key).shard(SHARDS)].contains_key(&key));
    });
    timed("incr", |bits| {
        let key = key(pick(bits, records));
        shards[seed.key(&key).shard(SHARDS)]
            .get_mut(&key)
            .expect("present")
            .0 += 1;
    });
    println!();
}
