//! `Hash` against `BTreeMap`.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tollgate_containers::Container as _;
use tollgate_containers::hash::{Hash, HashLimits, Keep};

#[derive(Clone, Debug)]
enum Op {
    Set(Vec<u8>, Vec<u8>, bool),
    Expire(Vec<u8>, Option<i64>),
    Remove(Vec<u8>),
    Purge(i64, usize),
    Scan(i64, usize),
    Clone,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => (0..80_usize).prop_map(|n| format!("field:{n}").into_bytes()),
        1 => Just(Vec::new()),
        1 => (10..40_usize).prop_map(|len| vec![b'f'; len]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let value = || proptest::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        12 => (name(), value(), any::<bool>()).prop_map(|(name, value, keep)| Op::Set(name, value, keep)),
        6 => (name(), proptest::option::weighted(0.8, 0..100_i64)).prop_map(|(name, at)| Op::Expire(name, at)),
        4 => name().prop_map(Op::Remove),
        1 => (0..100_i64, 1..20_usize).prop_map(|(now, budget)| Op::Purge(now, budget)),
        1 => (0..100_i64, 1..20_usize).prop_map(|(now, count)| Op::Scan(now, count)),
        1 => Just(Op::Clone),
    ]
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

fn live(model: &Model, now: i64) -> Model {
    let lives = |(_, (_, at)): &(&Vec<u8>, &(Vec<u8>, Option<i64>))| at.is_none_or(|at| now <= at);
    model
        .iter()
        .filter(lives)
        .map(|(name, field)| (name.clone(), field.clone()))
        .collect()
}

fn all(hash: &Hash, now: i64) -> Model {
    hash.live(now)
        .iter()
        .map(|field| {
            let value = (field.value.to_vec(), field.expires_at_ms);
            (field.name.to_vec(), value)
        })
        .collect()
}

fn scan(hash: &Hash, now: i64, count: usize) -> Model {
    let mut seen = Model::new();
    let mut cursor = 0;
    loop {
        cursor = hash.live(now).scan(cursor, count, &mut |field| {
            let value = (field.value.to_vec(), field.expires_at_ms);
            assert_eq!(seen.insert(field.name.to_vec(), value), None);
        });
        if cursor == 0 {
            return seen;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_map(max_entries in 0..60_usize, max_value in 8..50_usize, ops in proptest::collection::vec(op(), 0..300)) {
        let limits = HashLimits { max_entries, max_value, seed: 9 };
        let mut hash = Hash::default();
        let mut model = Model::new();
        let mut compact = true;
        for op in ops {
            match op {
                Op::Set(name, value, keep) => {
                    compact &= name.len().max(value.len()) <= max_value;
                    let old = model.get(&name).cloned();
                    let keep = if keep { Keep::Expiry } else { Keep::Nothing };
                    prop_assert_eq!(hash.set(&name, &value, keep, &limits), old.is_none());
                    let at = old.and_then(|(_, at)| at).filter(|_| keep == Keep::Expiry);
                    model.insert(name, (value, at));
                    compact &= model.len() <= max_entries;
                }
                Op::Expire(name, at) => {
                    let field = model.get_mut(&name);
                    prop_assert_eq!(hash.set_expiry(&name, at), field.is_some());
                    field.into_iter().for_each(|field| field.1 = at);
                }
                Op::Remove(name) => prop_assert_eq!(hash.remove(&name), model.remove(&name).is_some()),
                Op::Purge(now, budget) => {
                    let due = model.len() - live(&model, now).len();
                    let mut gone = Vec::new();
                    let removed = hash.expire(now, budget, |name| gone.push(name.to_vec()));
                    prop_assert_eq!((removed, gone.len()), (due.min(budget), removed));
                    prop_assert!(gone.iter().all(|name| hash.get(name).is_none()));
                    model = all(&hash, i64::MIN);
                    prop_assert_eq!(model.len() - live(&model, now).len(), due - due.min(budget));
                }
                Op::Scan(now, count) => prop_assert_eq!(scan(&hash, now, count), live(&model, now)),
                Op::Clone => hash = hash.clone(),
            }
            prop_assert_eq!(hash.len(), model.len());
            prop_assert_eq!(hash.is_compact(), compact);
            let expiries = || model.values().filter_map(|(_, at)| *at);
            prop_assert_eq!(hash.next_expiry(), expiries().min());
            prop_assert_eq!(hash.expiring(), expiries().count());
        }
        for now in [i64::MIN, 30, 60, i64::MAX] {
            let expected = live(&model, now);
            prop_assert_eq!(all(&hash, now), expected.clone());
            let lives = hash.live(now);
            prop_assert_eq!((lives.len(), lives.is_empty()), (expected.len(), expected.is_empty()));
            for (name, (value, at)) in &model {
                let field = lives.get(name);
                prop_assert_eq!(field.is_some(), expected.contains_key(name));
                prop_assert!(field.is_none_or(|field| field.value == value && field.expires_at_ms == *at));
            }
            let ordinals: Vec<usize> = (0..expected.len()).step_by(3).collect();
            let mut picked = Vec::new();
            lives.pick(&ordinals, &mut |field| picked.push(field));
            prop_assert!(picked.iter().copied().eq(lives.iter().step_by(3)));
            let mut calls = 0;
            let random = lives.random(&mut |below| {
                calls += 1;
                calls * 7 % below
            });
            prop_assert_eq!(random.is_none(), expected.is_empty());
            prop_assert!(random.is_none_or(|field| expected.contains_key(field.name)));
        }
        let mut copy = Hash::default();
        let large = HashLimits { max_entries: 0, ..limits };
        for field in hash.iter() {
            prop_assert!(copy.set(field.name, field.value, Keep::Nothing, &large));
            copy.set_expiry(field.name, field.expires_at_ms);
        }
        prop_assert!(copy == hash);
        if let Some(name) = model.keys().next() {
            copy.set_expiry(name, Some(-1));
            prop_assert!(copy != hash);
        }
    }
}

const LIMITS: HashLimits = HashLimits {
    max_entries: 512,
    max_value: 64,
    seed: 1,
};

#[test]
fn a_compact_hash_keeps_its_order() {
    let mut hash = Hash::default();
    for name in ["c", "a", "b", "d"] {
        hash.set(name.as_bytes(), b"1", Keep::Nothing, &LIMITS);
    }
    hash.set(b"a", b"longer than before", Keep::Nothing, &LIMITS);
    hash.remove(b"c");
    hash.set(b"c", b"2", Keep::Nothing, &LIMITS);
    let names: Vec<&[u8]> = hash.iter().map(|field| field.name).collect();
    assert_eq!(names, [b"a", b"b", b"d", b"c"]);
    assert!(hash.heap_bytes() <= 64, "{}", hash.heap_bytes());
}

#[test]
fn memory_follows_the_contents() {
    let mut hash = Hash::default();
    let name = |i: u32| format!("field:{i:06}").into_bytes();
    for i in 0..10_000 {
        hash.set(
            &name(i),
            b"a value of no great length",
            Keep::Nothing,
            &LIMITS,
        );
    }
    let plain = hash.heap_bytes();
    assert!(plain > 10_000 * 50 && plain < 10_000 * 100, "{plain}");
    assert!(hash.set_expiry(&name(5_000), Some(9)));
    assert!(hash.heap_bytes() > plain);
    assert_eq!(hash.expire(10, 100, |_| ()), 1);
    assert!(hash.heap_bytes() < plain, "the expiries are gone");
    for i in 0..9_990 {
        hash.remove(&name(i));
    }
    assert!(hash.heap_bytes() * 100 < plain);
}
