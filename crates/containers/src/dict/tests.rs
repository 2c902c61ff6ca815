use std::collections::{HashMap, HashSet};

use super::*;
use crate::Str;

impl Dict<Str> {
    fn check(&self, model: &[Vec<u8>]) {
        assert_eq!(self.len(), model.len());
        assert_eq!(self.table.len() + self.older.len(), model.len());
        for key in model {
            let at = self.find(key).expect("present");
            assert_eq!(self.entries[at].as_slice(), &key[..]);
        }
        let payload: usize = self.iter().map(Keyed::heap_bytes).sum();
        assert_eq!(self.payload, payload);
        if self.unmoved == 0 {
            assert_eq!(self.older.allocation_size(), 0);
        }
    }
}

fn name(i: usize) -> Vec<u8> {
    format!("member:{i}").into_bytes()
}

#[test]
fn grows_and_shrinks_in_steps() {
    let mut dict = Dict::new(0, 7);
    let mut model = Vec::new();
    let mut stepwise = 0;
    for i in 0..60_000 {
        dict.push(Str::from_slice(&name(i)));
        model.push(name(i));
        stepwise += usize::from(dict.unmoved > 0);
        // Removals while positions are moved: from the part that is, and from the part that is not.
        if i % 3 == 2 {
            for at in [dict.len() / 7, dict.len() - 2] {
                let removed = dict.swap_remove(at);
                assert_eq!(removed.as_slice(), &model.swap_remove(at)[..]);
            }
        }
        if i % 9973 == 0 {
            dict.check(&model);
        }
    }
    assert!(stepwise > 1000, "{stepwise}");
    dict.check(&model);
    let large = dict.heap_bytes();
    while dict.len() > 50 {
        let at = dict.len() / 2;
        dict.swap_remove(at);
        model.swap_remove(at);
    }
    dict.check(&model);
    assert!(dict.heap_bytes() * 50 < large, "{}", dict.heap_bytes());
}

#[test]
fn absent_keys_are_not_found_while_positions_move() {
    let mut dict = Dict::new(0, 1);
    let mut i = 0;
    while dict.unmoved == 0 {
        dict.push(Str::from_slice(&name(i)));
        i += 1;
    }
    assert!((0..i).all(|n| dict.find(&name(n)) == Some(n)));
    assert!((i..2 * i).all(|n| dict.find(&name(n)).is_none()));
    assert_eq!(dict.clone().find(&name(i / 2)), Some(i / 2));
}

#[test]
fn churn_at_one_size_stays_at_that_size() {
    let mut dict = Dict::new(0, 3);
    (0..6000).for_each(|i| dict.push(Str::from_slice(&name(i))));
    let before = dict.heap_bytes();
    for i in 6000..100_000 {
        dict.swap_remove(i % 6000);
        dict.push(Str::from_slice(&name(i)));
        assert!(dict.heap_bytes() <= 3 * before);
    }
}

/// A scan under way.
struct Open {
    cursor: u64,
    /// What was there when it began and still is, and has not come.
    must: HashSet<Vec<u8>>,
    came: Vec<Vec<u8>>,
}

/// Scans of one dictionary while entries come and go: each returns all that stays, and one alone nothing twice.
fn scan_amid_changes(seed: u64, start: usize, count: usize, scans: usize) {
    let mut random = seed;
    let mut random = |bound: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize % bound.max(1)
    };
    let mut dict = Dict::new(0, seed);
    let mut model: Vec<Vec<u8>> = (0..start).map(name).collect();
    model.iter().for_each(|key| dict.push(Str::from_slice(key)));
    let mut next = start;
    let mut open: Vec<Open> = Vec::new();
    let mut done = 0;
    while done < 20 {
        if open.len() < scans && random(3) == 0 {
            open.push(Open {
                cursor: 0,
                must: model.iter().cloned().collect(),
                came: Vec::new(),
            });
        }
        if !open.is_empty() {
            let which = random(open.len());
            let scan = &mut open[which];
            let page = dict.scan(scan.cursor, 1 + random(count));
            scan.cursor = page.start as u64;
            for at in page {
                let key = dict.entries[at].as_slice().to_vec();
                scan.must.remove(&key);
                scan.came.push(key);
            }
            if scan.cursor == 0 {
                assert!(scan.must.is_empty(), "{:?} did not come", scan.must);
                let different: HashSet<_> = scan.came.iter().collect();
                assert!(scans > 1 || different.len() == scan.came.len());
                open.swap_remove(which);
                done += 1;
            }
        }
        for _ in 0..random(count) {
            if random(5) < 2 || model.is_empty() {
                dict.push(Str::from_slice(&name(next)));
                model.push(name(next));
                next += 1;
            } else {
                let key = model.swap_remove(random(model.len()));
                let at = dict.find(&key).expect("present");
                assert_eq!(dict.remove(at).as_slice(), &key[..]);
                for scan in &mut open {
                    scan.must.remove(&key);
                }
            }
        }
    }
    dict.check(&model);
}

#[test]
fn scans_amid_changes_return_what_stays_and_one_alone_nothing_twice() {
    for seed in 0..40 {
        for scans in 1..4 {
            scan_amid_changes(seed, 200, 20, scans);
        }
    }
    for scans in 1..3 {
        scan_amid_changes(scans as u64, 20_000, 3_000, scans);
    }
}

#[test]
fn a_scan_alone_returns_nothing_twice_while_positions_move() {
    let mut dict = Dict::new(0, 1);
    let mut model = Vec::new();
    while dict.unmoved == 0 {
        model.push(name(model.len()));
        dict.push(Str::from_slice(&model[model.len() - 1]));
    }
    let (mut cursor, mut came) = (0, HashSet::new());
    for round in 0.. {
        let page = dict.scan(cursor, 100);
        cursor = page.start as u64;
        for at in page {
            assert!(came.insert(dict.entries[at].as_slice().to_vec()));
        }
        if cursor == 0 {
            break;
        }
        for i in 0..20 {
            let at = dict.find(&name(round * 20 + i)).expect("present");
            let removed = dict.remove(at);
            model.retain(|key| removed.as_slice() != key);
        }
        dict.check(&model);
    }
    assert!(model.iter().all(|key| came.contains(key)));
}

#[test]
fn a_scan_returns_what_is_present_throughout() {
    for (start, count) in [(300, 7), (9000, 101)] {
        let mut dict = Dict::new(0, 5);
        (0..start).for_each(|i| dict.push(Str::from_slice(&name(i))));
        let mut stays: HashSet<Vec<u8>> = (0..start).map(name).collect();
        let mut seen = HashMap::<Vec<u8>, usize>::new();
        let (mut cursor, mut i) = (0, start);
        loop {
            let page = dict.scan(cursor, count);
            cursor = page.start as u64;
            for at in page {
                *seen
                    .entry(dict.entries[at].as_slice().to_vec())
                    .or_default() += 1;
            }
            if cursor == 0 {
                break;
            }
            for step in 0..count / 2 {
                let at = (i * 31 + step * 17) % dict.len();
                stays.remove(dict.swap_remove(at).as_slice());
                if i % 3 == 0 {
                    dict.push(Str::from_slice(&name(i)));
                }
                i += 1;
            }
        }
        assert!(stays.iter().all(|key| seen.contains_key(key)));
    }
    assert_eq!(Dict::<Str>::new(0, 1).scan(17, 10), 0..0);
}
