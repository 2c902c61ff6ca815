//! What Memcached's protocol keeps beside a string.

use tollgate_keyspace::{DbIndex, Encoding, Mark, Seed, Shard, Value, ValueRef};

const DB: DbIndex = DbIndex::ZERO;
const NOW: i64 = 1_800_000_000_000;

const MARK: Mark = Mark {
    cas: 77,
    flags: 5,
    stale: true,
    claimed: true,
    fetched: true,
};

/// A shard with these strings at the keys 0, 1, …
fn shard(seed: &Seed, texts: &[&[u8]]) -> Shard {
    let mut shard = Shard::new(seed);
    for (number, text) in texts.iter().enumerate() {
        let key = number.to_string();
        shard.set_bytes(DB, seed.key(key.as_bytes()), text, None, NOW);
    }
    shard
}

#[test]
fn a_marked_string_reads_as_before_and_can_be_unmarked() {
    let seed = Seed::new(1);
    let long = [b'x'; 100];
    let texts: &[&[u8]] = &[b"", b"12", b"-5", b"short", b"a text of some length", &long];
    let mut shard = shard(&seed, texts);
    let plain = shard.memory();
    for (number, text) in texts.iter().enumerate() {
        let name = number.to_string();
        let key = seed.key(name.as_bytes());
        let mut entry = shard.get_mut(DB, key, NOW).unwrap();
        let encoding = entry.encoding();
        assert!(entry.set_mark(MARK));
        assert_eq!(entry.value(), ValueRef::Bytes(text));
        assert_eq!((entry.mark(), entry.encoding()), (MARK, encoding));
        let more = Mark { flags: 9, ..MARK };
        assert!(entry.set_mark(more) && entry.mark() == more);
        entry.set_expiry(Some(NOW + 5));
        assert_eq!(entry.mark(), more);
    }
    assert!(shard.memory() > plain);
    for (number, text) in texts.iter().enumerate() {
        let name = number.to_string();
        let key = seed.key(name.as_bytes());
        let mut entry = shard.get_mut(DB, key, NOW).unwrap();
        assert!(entry.set_mark(Mark::default()));
        assert!(entry.mark().is_none());
        assert_eq!(entry.value(), Value::from_bytes(text).as_ref());
    }
    assert_eq!(shard.memory(), plain);
}

#[test]
fn what_replaces_the_value_drops_the_mark_and_what_changes_it_keeps_the_flags() {
    let seed = Seed::new(1);
    let mut shard = shard(&seed, &[b"a text of some length"]);
    let plain = shard.memory();
    let key = seed.key(b"0");
    let mut entry = shard.get_mut(DB, key, NOW).unwrap();
    assert!(entry.set_mark(MARK));
    entry.str_mut().unwrap().append(b"!");
    assert_eq!(entry.value(), ValueRef::Bytes(b"a text of some length!"));
    assert_eq!(entry.mark(), MARK.changed());
    assert_eq!(entry.encoding(), Encoding::Raw);
    assert!(entry.set_mark(Mark::default()));
    assert_eq!(entry.encoding(), Encoding::Raw);
    assert!(entry.set_mark(MARK));
    entry.set_bytes(b"b text of some length");
    assert!(entry.mark().is_none());
    assert_eq!(shard.memory(), plain);
    let mut entry = shard.get_mut(DB, key, NOW).unwrap();
    assert!(entry.set_mark(MARK));
    entry.set_int(5);
    assert!(entry.mark().is_none());
    assert!(entry.set_mark(MARK));
    let (value, _) = shard.remove(DB, key, NOW).unwrap();
    assert_eq!(value.as_ref(), ValueRef::Bytes(b"5"));
    assert_eq!(shard.len(DB), 0);
}

#[test]
fn numbers_that_name_states_only_rise() {
    let shard = Shard::new(&Seed::new(1));
    let mut last = 0;
    for step in 0..10_000 {
        // The clock stands still, and steps back.
        let number = shard.next_cas(NOW - step / 5000 * 1000);
        assert!(number > last && number < 1 << 53);
        last = number;
    }
}
