//! Random operations on a shard and on a `HashMap`, side by side.

use std::collections::HashMap;

use proptest::prelude::*;
use tollgate_containers::Str;
use tollgate_keyspace::{DbIndex, Seed, Shard, Value};
use tollgate_limiter::{LimiterState, Timestamp};

use crate::NOW;

#[derive(Clone, Debug)]
enum Op {
    Get(u16),
    Set(u16, Value, Option<i64>),
    SetMany(u16, u8),
    Remove(u16),
    RemoveMany(u16, u8),
    Replace(u16, Value),
    Append(u16, Vec<u8>),
    Expire(u16, Option<i64>),
    Wait(i64),
    Cycle(u8),
    Random(u64),
    ScanAll,
    Clear,
    Swap,
}

/// Keys of all forms: empty, with NULs, around the inline length, long, and with hash tags.
fn key(id: u16) -> Vec<u8> {
    match id % 8 {
        0 if id == 0 => Vec::new(),
        1 => format!("{id:016}").into_bytes(),
        2 => format!("{id:017}").into_bytes(),
        3 => [b"\0\0\0".as_slice(), &id.to_le_bytes(), b"\0"].concat(),
        4 => format!("{{tag}}{id}").into_bytes(),
        5 => format!("a key of some length that never fits inline {id}").into_bytes(),
        6 => id.to_le_bytes().to_vec(),
        _ => format!("key:{id}").into_bytes(),
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::Int),
        proptest::collection::vec(any::<u8>(), 0..24)
            .prop_map(|bytes| Value::Str(Str::from_slice(&bytes))),
        any::<u64>().prop_map(|count| Value::Limiter(LimiterState::FixedWindow { count })),
        any::<i64>().prop_map(|nanos| Value::Limiter(LimiterState::Gcra {
            tat: Timestamp::from_nanos(nanos)
        })),
    ]
}

/// Expiries as offsets from the time of the operation; some beyond what a record can hold.
fn expiry() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![
        3 => Just(None),
        3 => (-50_i64..500).prop_map(Some),
        1 => Just(Some(i64::MAX - 2 * NOW)),
        1 => Just(Some(-NOW + 5)),
        1 => Just(Some(3_000_000_000_000)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let id = || prop_oneof![3 => 0..40_u16, 1 => any::<u16>()];
    prop_oneof![
        8 => id().prop_map(Op::Get),
        8 => (id(), value(), expiry()).prop_map(|(k, v, e)| Op::Set(k, v, e)),
        3 => (any::<u16>(), any::<u8>()).prop_map(|(k, n)| Op::SetMany(k, n)),
        5 => id().prop_map(Op::Remove),
        3 => (any::<u16>(), any::<u8>()).prop_map(|(k, n)| Op::RemoveMany(k, n)),
        3 => (id(), value()).prop_map(|(k, v)| Op::Replace(k, v)),
        3 => (id(), proptest::collection::vec(any::<u8>(), 0..10)).prop_map(|(k, b)| Op::Append(k, b)),
        4 => (id(), expiry()).prop_map(|(k, e)| Op::Expire(k, e)),
        3 => (0..200_i64).prop_map(Op::Wait),
        2 => any::<u8>().prop_map(Op::Cycle),
        2 => any::<u64>().prop_map(Op::Random),
        1 => Just(Op::ScanAll),
        1 => proptest::bool::weighted(0.1).prop_map(|clear| if clear { Op::Clear } else { Op::ScanAll }),
        1 => Just(Op::Swap),
    ]
}

type Map = HashMap<Vec<u8>, (Value, Option<i64>)>;

struct Pair {
    seed: Seed,
    shard: Shard,
    db: DbIndex,
    map: Map,
    now: i64,
}

impl Pair {
    fn new(db: usize) -> Self {
        let seed = Seed::new(42);
        let shard = Shard::new(&seed);
        Self {
            seed,
            shard,
            db: DbIndex::new(db).expect("in range"),
            map: Map::new(),
            now: NOW,
        }
    }

    /// The model's live entry.
    fn live(&mut self, key: &[u8]) -> Option<&mut (Value, Option<i64>)> {
        let now = self.now;
        self.map
            .get_mut(key)
            .filter(|(_, expiry)| expiry.is_none_or(|at| now <= at))
    }

    fn at(&self, offset: Option<i64>) -> Option<i64> {
        offset.map(|offset| self.now + offset)
    }

    fn set(&mut self, key: &[u8], value: Value, expiry: Option<i64>) {
        self.shard
            .set(self.db, self.seed.key(key), value.clone(), expiry, self.now);
        self.map.insert(key.to_vec(), (value, expiry));
    }

    fn remove(&mut self, key: &[u8]) {
        let expected = self.live(key).cloned();
        self.map.remove(key);
        assert_eq!(
            self.shard.remove(self.db, self.seed.key(key), self.now),
            expected
        );
    }

    fn compare(&mut self, key: &[u8]) {
        let now = self.now;
        let expected = self.live(key).cloned();
        let found = self.shard.get(self.db, self.seed.key(key), now);
        let found = found.map(|entry| {
            assert_eq!(entry.key(), key);
            assert!(entry.memory() >= 32);
            (entry.value().to_value(), entry.expires_at_ms())
        });
        assert_eq!(found, expected, "{}", key.escape_ascii());
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Get(id) => self.compare(&key(id)),
            Op::Set(id, value, expiry) => self.set(&key(id), value, self.at(expiry)),
            Op::SetMany(from, count) => {
                for id in 0..u16::from(count) {
                    let expiry = if id % 3 == 0 {
                        Some(self.now + i64::from(id))
                    } else {
                        None
                    };
                    self.set(
                        &key(from.wrapping_add(id)),
                        Value::Int(i64::from(id)),
                        expiry,
                    );
                }
            }
            Op::Remove(id) => self.remove(&key(id)),
            Op::RemoveMany(from, count) => {
                (0..u16::from(count)).for_each(|id| self.remove(&key(from.wrapping_add(id))));
            }
            Op::Replace(id, value) => {
                let key = key(id);
                if let Some(entry) = self.live(&key) {
                    entry.0 = value.clone();
                }
                if let Some(mut entry) = self.shard.get_mut(self.db, self.seed.key(&key), self.now)
                {
                    entry.set_value(value);
                }
            }
            Op::Append(id, bytes) => self.append(&key(id), &bytes),
            Op::Expire(id, expiry) => {
                let (key, at) = (key(id), self.at(expiry));
                if let Some(entry) = self.live(&key) {
                    entry.1 = at;
                }
                if let Some(mut entry) = self.shard.get_mut(self.db, self.seed.key(&key), self.now)
                {
                    entry.set_expiry(at);
                }
            }
            Op::Wait(ms) => self.now += ms,
            Op::Cycle(budget) => {
                let before = self.shard.len(self.db);
                let progress = self.shard.expire_cycle(self.now, budget.into());
                assert!(progress.examined <= budget.into());
                assert_eq!(self.shard.len(self.db), before - progress.removed);
            }
            Op::Random(r) => {
                let now = self.now;
                let found = self.shard.random(self.db, r, now).map(<[u8]>::to_vec);
                assert_eq!(
                    found.is_some(),
                    self.map
                        .values()
                        .any(|(_, expiry)| expiry.is_none_or(|at| now <= at))
                );
                assert!(found.is_none_or(|key| self.live(&key).is_some()));
            }
            Op::ScanAll => self.scan_all(),
            Op::Clear => {
                self.shard.clear(self.db);
                self.map.clear();
                assert_eq!(self.shard.len(self.db), 0);
            }
            Op::Swap => {
                let other = DbIndex::new((self.db.get() + 5) % 16).expect("in range");
                self.shard.swap(self.db, other);
                self.db = other;
            }
        }
    }

    fn append(&mut self, key: &[u8], bytes: &[u8]) {
        let mut expected = None;
        if let Some((value, _)) = self.live(key) {
            let mut string = match &*value {
                Value::Int(int) => Str::from_slice(int.to_string().as_bytes()),
                Value::Str(string) => string.clone(),
                Value::Limiter(_) | Value::Object(_) => return,
            };
            string.append(bytes);
            *value = Value::Str(string.clone());
            expected = Some(string);
        }
        let entry = self.shard.get_mut(self.db, self.seed.key(key), self.now);
        assert_eq!(entry.is_some(), expected.is_some());
        if let Some(mut entry) = entry {
            let mut string = entry.str_mut().expect("a string");
            string.append(bytes);
            assert_eq!(Some(&*string), expected.as_ref());
        }
    }

    fn scan_all(&mut self) {
        let now = self.now;
        let mut found = Map::new();
        let mut cursor = 0;
        // Removing expired entries shrinks the table on the way; then a scan may repeat itself.
        let steady = self
            .map
            .values()
            .all(|(_, expiry)| expiry.is_none_or(|at| now <= at));
        loop {
            cursor = self.shard.scan(self.db, cursor, now, &mut |key, entry| {
                let old = found.insert(
                    key.to_vec(),
                    (entry.value().to_value(), entry.expires_at_ms()),
                );
                assert!(
                    old.is_none() || !steady,
                    "a scan without changes visits no key twice"
                );
            });
            if cursor == 0 {
                break;
            }
        }
        self.map
            .retain(|_, (_, expiry)| expiry.is_none_or(|at| now <= at));
        assert_eq!(found, self.map);
        while self.shard.expire_cycle(now, 100).examined > 0 {}
        assert_eq!(self.shard.len(self.db), self.map.len());
        assert_eq!(
            self.shard.expiring(self.db),
            self.map.values().filter(|(_, e)| e.is_some()).count()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 400 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_shard_behaves_as_a_map(
        db in 0..16_usize,
        ops in proptest::collection::vec(op(), 1..if cfg!(miri) { 20 } else { 250 }),
    ) {
        let mut pair = Pair::new(db);
        for op in ops {
            pair.apply(op);
        }
        pair.scan_all();
        for key in pair.map.keys().cloned().collect::<Vec<_>>() {
            pair.remove(&key);
        }
        let empty = Pair::new(db).shard.memory();
        prop_assert!(pair.shard.memory() <= empty + 4096, "everything is given back: {}", pair.shard.memory());
    }
}
