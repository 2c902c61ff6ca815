//! Lazy and active expiry.

use tollgate_keyspace::{DbIndex, Value};

use crate::{DB, NOW, shard};

#[test]
fn an_entry_lives_through_its_last_millisecond() {
    let (seed, mut shard) = shard();
    let key = seed.key(b"k");
    shard.set(DB, key, Value::Int(1), Some(NOW), NOW);
    assert!(shard.get(DB, key, NOW).is_some());
    assert!(shard.get(DB, key, NOW + 1).is_none());
    assert_eq!(
        (shard.len(DB), shard.expiring(DB), shard.stats().expired),
        (0, 0, 1)
    );
    assert_eq!((shard.stats().hits, shard.stats().misses), (1, 1));
}

#[test]
fn every_expiry_is_exact() {
    let (seed, mut shard) = shard();
    let key = seed.key(b"a key that is longer than a record");
    shard.set(DB, key, Value::Int(1), None, NOW);
    for at in [
        i64::MIN,
        -1,
        0,
        1,
        1_700_000_000_000,
        1_700_000_000_001,
        NOW,
        9_999_999_999_999,
        i64::MAX,
    ] {
        shard.set(DB, key, Value::Int(1), Some(at), i64::MIN);
        assert_eq!(
            shard
                .peek(DB, key, at)
                .and_then(|entry| entry.expires_at_ms()),
            Some(at)
        );
        assert_eq!(shard.expiring(DB), 1);
    }
    let before = shard.memory();
    shard
        .get_mut(DB, key, NOW)
        .expect("present")
        .set_expiry(None);
    assert_eq!(
        shard
            .peek(DB, key, i64::MAX)
            .and_then(|entry| entry.expires_at_ms()),
        None
    );
    assert!(shard.memory() < before, "the far expiry is forgotten");
    assert_eq!(shard.expiring(DB), 0);
}

#[test]
fn the_cycle_finds_everything_within_its_budget() {
    let (seed, mut shard) = shard();
    for id in 0..5000_i64 {
        let expiry = (id % 2 == 0).then_some(NOW + id);
        shard.set(
            DB,
            seed.key(format!("key:{id}").as_bytes()),
            Value::Int(id),
            expiry,
            NOW,
        );
    }
    let mut removed = 0;
    for _ in 0..1000 {
        let progress = shard.expire_cycle(NOW + 2500, 8);
        assert!(progress.examined <= 8);
        removed += progress.removed;
    }
    assert_eq!(removed, 1250);
    assert_eq!(shard.len(DB), 3750);
    assert_eq!(shard.stats().expired, 1250);
    for _ in 0..1000 {
        removed += shard.expire_cycle(NOW + 5000, 8).removed;
    }
    assert_eq!((removed, shard.expiring(DB)), (2500, 0));
}

#[test]
fn a_sweep_costs_nothing_before_the_next_expiry() {
    let (seed, mut shard) = shard();
    for id in 0..1000_i64 {
        shard.set(
            DB,
            seed.key(format!("key:{id}").as_bytes()),
            Value::Int(id),
            Some(NOW + 1000 + id),
            NOW,
        );
    }
    assert_eq!(shard.expire_cycle(NOW + 999, 1000).examined, 0);
    // One sweep removes the first and learns when the next is due.
    assert_eq!(shard.expire_cycle(NOW + 1001, 1000).removed, 1);
    assert_eq!(shard.expire_cycle(NOW + 1001, 1000).examined, 0);
    assert_eq!(shard.expire_cycle(NOW + 1002, 1000).removed, 1);
    // An earlier expiry that is set meanwhile counts.
    let key = seed.key(b"key:900");
    shard
        .get_mut(DB, key, NOW + 1002)
        .expect("present")
        .set_expiry(Some(NOW + 1002));
    assert_eq!(shard.expire_cycle(NOW + 1003, 1000).removed, 2);
}

#[test]
fn the_cycle_serves_all_databases() {
    let (seed, mut shard) = shard();
    for db in DbIndex::all() {
        for id in 0..100 {
            let key = format!("{id}");
            shard.set(db, seed.key(key.as_bytes()), Value::Int(0), Some(NOW), NOW);
        }
    }
    let mut removed = 0;
    while removed < 1600 {
        let progress = shard.expire_cycle(NOW + 1, 3);
        assert!(progress.examined > 0, "gave up at {removed}");
        removed += progress.removed;
    }
    assert!(DbIndex::all().all(|db| shard.is_empty(db)));
}

#[test]
fn expired_keys_are_reported_when_wanted() {
    let (seed, mut shard) = shard();
    let other = DbIndex::new(3).expect("in range");
    let set = |shard: &mut tollgate_keyspace::Shard| {
        shard.set(DB, seed.key(b"lazy"), Value::Int(0), Some(NOW), NOW);
        shard.set(other, seed.key(b"active"), Value::Int(0), Some(NOW), NOW);
    };
    set(&mut shard);
    shard.get(DB, seed.key(b"lazy"), NOW + 1);
    shard.expire_cycle(NOW + 1, 100);
    assert_eq!(shard.take_expired(), []);
    shard.track_expired(true);
    set(&mut shard);
    assert!(shard.get(DB, seed.key(b"lazy"), NOW + 1).is_none());
    shard.expire_cycle(NOW + 1, 100);
    assert_eq!(
        shard.take_expired(),
        [
            (DB, b"lazy".as_slice().into()),
            (other, b"active".as_slice().into())
        ]
    );
    assert_eq!(shard.take_expired(), []);
    // One more who wants to know does not make the others miss what was not told yet.
    set(&mut shard);
    shard.expire_cycle(NOW + 1, 100);
    shard.track_expired(true);
    assert_eq!(shard.take_expired().len(), 2);
}

#[test]
fn setting_an_expired_key_anew_counts_the_old_one_as_expired() {
    let (seed, mut shard) = shard();
    let key = seed.key(b"k");
    shard.set(DB, key, Value::Int(1), Some(NOW), NOW);
    shard.set(DB, key, Value::Int(2), None, NOW + 1);
    assert_eq!(
        (shard.stats().expired, shard.len(DB), shard.expiring(DB)),
        (1, 1, 0)
    );
}
