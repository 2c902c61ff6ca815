//! Fields of hashes that expire, and the order in which shards find them.

use tollgate_containers::hash::{Hash, HashLimits, Keep};
use tollgate_keyspace::{DbIndex, Encoding, ExpiredFields, Object, Seed, Shard, Value, ValueRef};

use crate::{DB, NOW, shard};

const LIMITS: HashLimits = HashLimits {
    max_entries: 512,
    max_value: 64,
    seed: 3,
};

/// A hash of fields `0`, `1` and so on that expire at these times.
fn hash(times: &[i64]) -> Value {
    let mut hash = Hash::default();
    for (i, at) in times.iter().enumerate() {
        let name = i.to_string().into_bytes();
        hash.set(&name, b"value", Keep::Nothing, &LIMITS);
        hash.set_expiry(&name, Some(*at));
    }
    Value::Object(Box::new(Object::Hash(hash)))
}

fn fields(shard: &mut Shard, seed: &Seed, key: &[u8]) -> Option<usize> {
    let entry = shard.peek(DB, seed.key(key), i64::MIN)?;
    match entry.value() {
        ValueRef::Object(object) => Some(object.len()),
        _ => None,
    }
}

fn gone(key: &[u8], emptied: bool) -> ExpiredFields {
    gone_at(key, "0", emptied)
}

fn gone_at(key: &[u8], name: &str, emptied: bool) -> ExpiredFields {
    ExpiredFields {
        db: DB,
        key: key.into(),
        names: vec![name.as_bytes().into()],
        emptied,
    }
}

#[test]
fn due_fields_go_the_earliest_hash_first() {
    let (seed, mut shard) = shard();
    shard.track_expired(true);
    shard.set(
        DB,
        seed.key(b"later"),
        hash(&[NOW + 5, NOW + 50]),
        None,
        NOW,
    );
    shard.set(DB, seed.key(b"sooner"), hash(&[NOW + 2]), None, NOW);
    for i in 0..100 {
        shard.set(
            DB,
            seed.key(format!("plain:{i}").as_bytes()),
            hash(&[]),
            None,
            NOW,
        );
    }
    assert_eq!(
        shard.expire_cycle(NOW + 2, 10).examined,
        0,
        "they live through it"
    );
    let progress = shard.expire_cycle(NOW + 6, 1);
    assert_eq!((progress.examined, progress.removed), (1, 1));
    assert_eq!(shard.take_expired_fields(), [gone(b"sooner", true)]);
    assert_eq!(fields(&mut shard, &seed, b"sooner"), None);
    shard.expire_cycle(NOW + 6, 10);
    assert_eq!(shard.take_expired_fields(), [gone(b"later", false)]);
    assert_eq!(fields(&mut shard, &seed, b"later"), Some(1));
    let entry = shard
        .peek(DB, seed.key(b"later"), NOW)
        .expect("one is left");
    assert_eq!(entry.encoding(), Encoding::ListpackEx);
    shard.expire_cycle(NOW + 51, 10);
    assert_eq!(shard.take_expired_fields(), [gone_at(b"later", "1", true)]);
    assert_eq!(shard.stats().expired_fields, 3);
    assert_eq!((shard.len(DB), shard.take_expired()), (100, Vec::new()));
}

#[test]
fn large_hashes_are_emptied_in_bounded_steps() {
    let (seed, mut shard) = shard();
    let times: Vec<i64> = (0..2000).map(|i| NOW + i % 7).collect();
    shard.set(DB, seed.key(b"k"), hash(&times), None, NOW);
    let mut steps = 0;
    while shard.len(DB) > 0 {
        let progress = shard.expire_cycle(NOW + 10, 1);
        assert!(progress.removed <= 64);
        steps += 1;
    }
    assert!(steps >= 2000 / 64);
}

#[test]
fn what_is_replaced_moved_or_removed_is_not_due() {
    let (seed, mut shard) = shard();
    shard.track_expired(true);
    let empty = shard.memory();
    let set = |shard: &mut Shard, key: &[u8], value| shard.set(DB, seed.key(key), value, None, NOW);
    set(&mut shard, b"replaced", hash(&[NOW]));
    set(&mut shard, b"replaced", Value::Int(1));
    set(&mut shard, b"removed", hash(&[NOW]));
    shard.remove(DB, seed.key(b"removed"), NOW);
    set(&mut shard, b"old name", hash(&[NOW]));
    let (value, _) = shard
        .remove(DB, seed.key(b"old name"), NOW)
        .expect("present");
    set(&mut shard, b"new name", value);
    set(&mut shard, b"changed", hash(&[NOW, NOW + 9]));
    let mut entry = shard
        .get_mut(DB, seed.key(b"changed"), NOW)
        .expect("present");
    match &mut *entry.object_mut().expect("a hash") {
        Object::Hash(hash) => assert!(hash.set_expiry(b"0", None)),
        _ => panic!("a hash"),
    }
    let one = DbIndex::new(1).expect("there are sixteen");
    shard.swap(DB, one);
    while shard.expire_cycle(NOW + 1, 100).removed > 0 {}
    let moved = ExpiredFields {
        db: one,
        ..gone(b"new name", true)
    };
    assert_eq!(shard.take_expired_fields(), [moved]);
    shard.swap(DB, one);
    assert_eq!(fields(&mut shard, &seed, b"changed"), Some(2));
    for key in [&b"replaced"[..], b"changed"] {
        shard.remove(DB, seed.key(key), NOW);
    }
    assert_eq!(shard.len(DB), 0);
    shard.clear(DB);
    assert!(shard.memory() < empty + 16 * 1024);
    assert_eq!(shard.expire_cycle(i64::MAX, 100).removed, 0);
}
