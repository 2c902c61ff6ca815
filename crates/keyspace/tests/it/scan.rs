//! The guarantee of scan cursors: what is there throughout is visited.

use std::collections::HashSet;

use proptest::prelude::*;
use tollgate_keyspace::Value;

use crate::{DB, NOW, shard};

fn name(id: u32) -> Vec<u8> {
    format!("key:{id}").into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 150 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Between two steps the table grows or shrinks by up to some thousand keys.
    #[test]
    fn visits_every_key_that_stays(
        staying in 0..if cfg!(miri) { 30 } else { 600_u32 },
        first in 0..if cfg!(miri) { 30 } else { 4000_u32 },
        sizes in proptest::collection::vec(0..if cfg!(miri) { 60 } else { 4000_u32 }, 1..30),
    ) {
        let (seed, mut shard) = shard();
        for id in 0..staying {
            shard.set(DB, seed.key(&name(id)), Value::Int(id.into()), None, NOW);
        }
        // Ids from `staying` on come and go: `present` of them are there.
        let mut present = 0;
        let mut resize = |shard: &mut tollgate_keyspace::Shard, size: u32| {
            while present < size {
                shard.set(DB, seed.key(&name(staying + present)), Value::Int(0), None, NOW);
                present += 1;
            }
            while present > size {
                present -= 1;
                prop_assert!(shard.remove(DB, seed.key(&name(staying + present)), NOW).is_some());
            }
            Ok(())
        };
        resize(&mut shard, first)?;
        let mut seen = HashSet::new();
        let (mut cursor, mut steps) = (0, 0);
        loop {
            cursor = shard.scan(DB, cursor, NOW, &mut |key, _| { seen.insert(key.to_vec()); });
            prop_assert!(cursor < 1 << 32);
            if cursor == 0 {
                break;
            }
            steps += 1;
            resize(&mut shard, sizes[steps % sizes.len()])?;
            prop_assert!(steps < 100_000, "a scan ends");
        }
        for id in 0..staying {
            prop_assert!(seen.contains(&name(id)), "key {} was missed", id);
        }
    }

    #[test]
    fn any_cursor_is_harmless(cursor: u64, keys in 0..200_u32) {
        let (seed, mut shard) = shard();
        for id in 0..keys {
            shard.set(DB, seed.key(&name(id)), Value::Int(0), None, NOW);
        }
        let mut cursor = cursor;
        for _ in 0..1000 {
            cursor = shard.scan(DB, cursor, NOW, &mut |_, _| {});
            if cursor == 0 {
                return Ok(());
            }
        }
        prop_assert!(false, "the scan does not end");
    }
}

#[test]
fn an_empty_database_is_scanned_in_one_step() {
    let (_, mut shard) = shard();
    assert_eq!(
        shard.scan(DB, 0, NOW, &mut |_, _| panic!("nothing is there")),
        0
    );
}

#[test]
fn random_keys_come_from_everywhere() {
    let (seed, mut shard) = shard();
    let keys = 1000;
    for id in 0..keys {
        shard.set(DB, seed.key(&name(id)), Value::Int(0), None, NOW);
    }
    let mut counts = std::collections::HashMap::new();
    for r in 0..50_000 {
        let key = shard.random(DB, r, NOW).expect("not empty").to_vec();
        *counts.entry(key).or_insert(0_u32) += 1;
    }
    assert_eq!(counts.len(), keys as usize);
    // 50 on average; 7 standard deviations.
    assert!(
        counts.values().all(|&n| (5..=100).contains(&n)),
        "{counts:?}"
    );
}
