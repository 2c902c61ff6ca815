//! Values and keys of all sizes, encodings, accounting.

use tollgate_containers::Str;
use tollgate_keyspace::{DbIndex, Encoding, Seed, Shard, TypeName, Value, ValueRef};
use tollgate_limiter::{LimiterState, Timestamp};

use crate::{DB, NOW, shard};

#[test]
fn keys_of_all_lengths_are_told_apart() {
    let (seed, mut shard) = shard();
    let lengths: Vec<usize> = (0..70).chain([1 << 10, 1 << 16, 3 << 20]).collect();
    // NULs only: the padding of short keys must not make them equal.
    for &len in &lengths {
        shard.set(
            DB,
            seed.key(&vec![0; len]),
            Value::Int(len as i64),
            None,
            NOW,
        );
    }
    for &len in &lengths {
        let bytes = vec![0; len];
        let entry = shard.get(DB, seed.key(&bytes), NOW).expect("present");
        assert_eq!(
            (entry.key(), entry.value()),
            (bytes.as_slice(), ValueRef::Int(len as i64))
        );
        let mut other = bytes.clone();
        if let Some(last) = other.last_mut() {
            *last = 1;
            assert!(shard.get(DB, seed.key(&other), NOW).is_none());
        }
    }
    assert_eq!(shard.len(DB), lengths.len());
}

#[test]
fn huge_values_are_kept_and_given_back() {
    let (seed, mut shard) = shard();
    let empty = shard.memory();
    let bytes: Vec<u8> = (0..20_000_000_u32).map(|i| i as u8).collect();
    shard.set(DB, seed.key(b"big"), Value::from_bytes(&bytes), None, NOW);
    assert!(shard.memory() > empty + bytes.len());
    assert_eq!(
        shard
            .get(DB, seed.key(b"big"), NOW)
            .expect("present")
            .value(),
        ValueRef::Bytes(&bytes)
    );
    {
        let mut entry = shard.get_mut(DB, seed.key(b"big"), NOW).expect("present");
        entry.str_mut().expect("a string").append(b"x");
    }
    assert!(
        shard.memory() > empty + bytes.len() + (1 << 20),
        "the reserve of an append counts"
    );
    shard.set(DB, seed.key(b"big"), Value::Int(1), None, NOW);
    assert!(shard.memory() < empty + 4096);
}

#[test]
fn encodings_are_those_of_redis() {
    let (seed, mut shard) = shard();
    let key = seed.key(b"k");
    let mut check = |value: Value, encoding: Encoding, kind: TypeName| {
        shard.set(DB, key, value, None, NOW);
        let entry = shard.get(DB, key, NOW).expect("present");
        assert_eq!((entry.encoding(), entry.type_name()), (encoding, kind));
    };
    check(Value::from_bytes(b"123"), Encoding::Int, TypeName::String);
    check(
        Value::from_bytes(b"0123"),
        Encoding::Embstr,
        TypeName::String,
    );
    check(
        Value::from_bytes(&[b'x'; 44]),
        Encoding::Embstr,
        TypeName::String,
    );
    check(
        Value::from_bytes(&[b'x'; 45]),
        Encoding::Raw,
        TypeName::String,
    );
    check(
        Value::Limiter(LimiterState::FixedWindow { count: 1 }),
        Encoding::FixedWindow,
        TypeName::RateLimit,
    );
    let tat = Timestamp::from_nanos(1);
    check(
        Value::Limiter(LimiterState::Gcra { tat }),
        Encoding::Gcra,
        TypeName::RateLimit,
    );
    shard.set(DB, key, Value::Int(5), None, NOW);
    let mut entry = shard.get_mut(DB, key, NOW).expect("present");
    entry.str_mut().expect("a string").append(b"6");
    assert_eq!(
        (entry.encoding(), entry.value()),
        (Encoding::Raw, ValueRef::Bytes(b"56"))
    );
    entry.set_value(Value::from_bytes(b"short"));
    assert_eq!(entry.encoding(), Encoding::Embstr);
}

#[test]
fn idle_time_counts_seconds_from_the_last_access() {
    let (seed, mut shard) = shard();
    let key = seed.key(b"k");
    shard.set(DB, key, Value::Int(1), None, NOW);
    let later = NOW + 600_000;
    let idle = shard
        .peek(DB, key, later)
        .expect("present")
        .idle_secs(later);
    assert_eq!(idle, 600);
    assert!(shard.get(DB, key, later).is_some());
    assert_eq!(
        shard
            .peek(DB, key, later)
            .expect("present")
            .idle_secs(later),
        0
    );
}

#[test]
fn databases_are_apart_and_can_be_exchanged() {
    let (seed, mut shard) = shard();
    let key = seed.key(b"k");
    for db in DbIndex::all() {
        shard.set(db, key, Value::Int(db.get() as i64), None, NOW);
    }
    let (a, b) = (DB, DbIndex::new(9).expect("in range"));
    shard.swap(a, b);
    assert_eq!(
        shard.get(a, key, NOW).expect("present").value(),
        ValueRef::Int(9)
    );
    assert_eq!(
        shard.get(b, key, NOW).expect("present").value(),
        ValueRef::Int(0)
    );
    assert_eq!(shard.clear(a), 1);
    assert_eq!((shard.len(a), shard.len(b)), (0, 1));
    assert_eq!(DbIndex::new(16), None);
}

#[test]
fn every_change_has_its_version() {
    let (seed, mut shard) = shard();
    let key = seed.key(b"k");
    let mut last = shard.version();
    let mut step = |shard: &Shard, changed: bool| {
        assert_eq!(shard.version() > last, changed);
        last = shard.version();
    };
    shard.set(DB, key, Value::Int(1), None, NOW);
    step(&shard, true);
    shard.get(DB, key, NOW);
    step(&shard, false);
    shard
        .get_mut(DB, key, NOW)
        .expect("present")
        .set_expiry(Some(NOW));
    step(&shard, true);
    shard.get(DB, key, NOW + 1);
    step(&shard, true);
    shard.remove(DB, key, NOW);
    step(&shard, false);
    shard.clear(DB);
    step(&shard, false);
}

#[test]
fn memory_is_within_the_budget_of_the_design() {
    let seed = Seed::new(5);
    let mut shard = Shard::new(&seed);
    let empty = shard.memory();
    let (mut worst, mut sum, mut measured) = (0.0_f64, 0.0, 0);
    for id in 0..20_000_u64 {
        let key = format!("limiter:{id:08}");
        let state = LimiterState::Gcra {
            tat: Timestamp::from_millis(NOW),
        };
        shard.set(
            DB,
            seed.key(key.as_bytes()),
            Value::Limiter(state),
            Some(NOW + 1000),
            NOW,
        );
        if id >= 1000 {
            let each = (shard.memory() - empty) as f64 / (id + 1) as f64;
            worst = worst.max(each);
            sum += each;
            measured += 1;
        }
    }
    let mean = sum / f64::from(measured);
    // The worst is right after the directory has doubled.
    assert!(
        mean < 36.2 && worst < 38.2,
        "{mean} bytes per record, {worst} at worst"
    );
    assert!(size_of::<Shard>() < 1024 && empty < 1024);
    for id in 0..20_000_u64 {
        shard.remove(DB, seed.key(format!("limiter:{id:08}").as_bytes()), NOW);
    }
    assert_eq!(shard.memory(), empty);
}

#[test]
fn strings_are_dropped_with_their_shard() {
    let (seed, mut shard) = shard();
    for id in 0..200 {
        let key = format!("a key that is kept on the heap {id}");
        let db = DbIndex::new(id % 16).expect("in range");
        shard.set(
            db,
            seed.key(key.as_bytes()),
            Value::Str(Str::from_slice(&[7; 100])),
            Some(i64::MAX),
            NOW,
        );
    }
}

#[test]
fn a_string_that_is_set_equals_a_fresh_one_whatever_was_there() {
    let (seed, mut shard) = shard();
    let (key, fresh) = (seed.key(b"key"), seed.key(b"fresh"));
    let texts: [&[u8]; 7] = [
        b"",
        b"short",
        b"12345",
        b"1234567890123456",
        b"sixteen bytes xx",
        b"sixteen other xx",
        b"somewhat longer than that",
    ];
    for before in texts {
        for after in texts {
            for expiry in [None, Some(NOW + 1000)] {
                shard.set_bytes(DB, key, before, Some(NOW + 5), NOW);
                if let Some(mut entry) = shard.get_mut(DB, key, NOW)
                    && before.len() == 16
                {
                    entry.str_mut().expect("a string").truncate(3);
                }
                shard.set_bytes(DB, key, after, expiry, NOW);
                shard.set(DB, fresh, Value::from_bytes(after), expiry, NOW);
                let seen = |shard: &mut Shard, key| {
                    let entry = shard.get(DB, key, NOW).expect("present");
                    let value = entry.value().to_value();
                    (
                        value,
                        entry.encoding(),
                        entry.expires_at_ms(),
                        entry.memory(),
                    )
                };
                assert_eq!(seen(&mut shard, key), seen(&mut shard, fresh));
            }
        }
    }
    shard.remove(DB, key, NOW);
    shard.remove(DB, fresh, NOW);
    assert!(shard.is_empty(DB));
}
