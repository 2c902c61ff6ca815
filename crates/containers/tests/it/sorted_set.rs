//! `SortedSet` against a sorted vector.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tollgate_containers::Container;
use tollgate_containers::sorted_set::{LexBound, Limits, Order, ScoreBound, Scores, SortedSet};

#[derive(Clone, Debug)]
enum Op {
    Insert(Vec<u8>, f64),
    InsertMany(u16, f64),
    Remove(Vec<u8>),
    RemoveRange(usize, usize),
    Clone,
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(b'a'..b'e', 0..3),
        1 => proptest::collection::vec(any::<u8>(), 0..24),
        1 => (120..140_usize).prop_map(|len| vec![b'x'; len]),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-3..4_i32).prop_map(f64::from),
        1 => (i32::MIN..=i32::MAX).prop_map(f64::from),
        1 => any::<f64>().prop_filter("no score is NaN", |score| !score.is_nan()),
        1 => prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0)],
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (member(), score()).prop_map(|(member, score)| Op::Insert(member, score)),
        2 => (0..300_u16, score()).prop_map(|(count, score)| Op::InsertMany(count, score)),
        4 => member().prop_map(Op::Remove),
        2 => (0..400_usize, 0..200_usize).prop_map(|(start, len)| Op::RemoveRange(start, len)),
        1 => Just(Op::Clone),
    ]
}

/// Elements in order.
#[derive(Default)]
struct Model(Vec<(Vec<u8>, f64)>);

impl Model {
    fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let old = self.score(member);
        if old != Some(score) {
            self.remove(member);
            let at = self
                .0
                .partition_point(|(m, s)| *s < score || (*s == score && &m[..] < member));
            self.0.insert(at, (member.to_vec(), score));
        }
        old
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        let found = self.0.iter().find(|(m, _)| m == member);
        found.map(|(_, score)| *score)
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let at = self.0.iter().position(|(m, _)| m == member)?;
        Some(self.0.remove(at).1)
    }
}

fn apply(set: &mut SortedSet, model: &mut Model, op: Op, limits: Limits) {
    match op {
        Op::Insert(member, score) => {
            let old = set.insert(&member, score, limits);
            assert_eq!(old, model.insert(&member, score));
        }
        Op::InsertMany(count, score) => {
            for i in 0..count {
                let member = format!("m{}", i * 7 % 301).into_bytes();
                let score = score + f64::from(i % 5);
                set.insert(&member, score, limits);
                model.insert(&member, score);
            }
        }
        Op::Remove(member) => assert_eq!(set.remove(&member), model.remove(&member)),
        Op::RemoveRange(start, len) => {
            set.remove_range(start..start + len);
            let end = (start + len).min(model.0.len());
            model.0.drain(start.min(end)..end);
        }
        Op::Clone => *set = set.clone(),
    }
}

fn pairs<'a>(iter: impl Iterator<Item = (&'a [u8], f64)>) -> Vec<(Vec<u8>, f64)> {
    iter.map(|(member, score)| (member.to_vec(), score))
        .collect()
}

fn check(set: &SortedSet, model: &Model, bounds: &[f64], names: &[Vec<u8>], from: usize) {
    let len = model.0.len();
    assert_eq!(set.len(), len);
    assert_eq!(pairs(set.iter()), model.0);
    let range = from.min(len)..(from + 90).min(len);
    assert_eq!(pairs(set.range(from..from + 90)), model.0[range.clone()]);
    let reversed: Vec<_> = model.0[range].iter().rev().cloned().collect();
    assert_eq!(pairs(set.range_rev(from..from + 90)), reversed);
    for (index, (member, score)) in model.0.iter().enumerate().skip(from).take(40) {
        assert_eq!(set.score(member), Some(*score));
        assert_eq!(set.rank(member), Some((index, *score)));
    }
    for name in names {
        assert_eq!(set.score(name), model.score(name));
    }
    for &min in bounds {
        for (&max, exclusive) in bounds.iter().zip([true, false, true, false]) {
            let inside = |(_, score): &&(Vec<u8>, f64)| {
                *score >= min && (*score < max || (!exclusive && *score == max))
            };
            let expected: Vec<_> = model.0.iter().filter(inside).cloned().collect();
            let (from, to) = (bound(min, false), bound(max, exclusive));
            assert_eq!(pairs(set.range(set.range_by_score(from, to))), expected);
            let behind = model.0.iter().filter(|(_, score)| *score > min).count();
            assert_eq!(set.first_by_score(bound(min, true)), len - behind);
        }
    }
    let any: BTreeSet<_> = (0..len)
        .filter_map(|number| set.any(number))
        .map(|(member, score)| (member.to_vec(), (score + 0.0).to_bits()))
        .collect();
    assert_eq!((any.len(), set.any(len)), (len, None));
}

fn bound(score: f64, exclusive: bool) -> ScoreBound {
    ScoreBound { score, exclusive }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_sorted_vector(
        ops in proptest::collection::vec(op(), 0..40),
        entries in prop_oneof![Just(0_usize), 1..6_usize, Just(128)],
        value in prop_oneof![Just(64_usize), Just(1), Just(1000)],
        bounds in proptest::collection::vec(score(), 4),
        names in proptest::collection::vec(member(), 4),
        from in 0..300_usize,
    ) {
        let limits = Limits { entries, value, secret: 7 };
        let mut set = SortedSet::new();
        let mut model = Model::default();
        let mut fits = true;
        for op in ops {
            apply(&mut set, &mut model, op, limits);
            if set.is_empty() {
                (set, fits) = (SortedSet::new(), true);
            }
            let longest = model.0.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
            fits &= set.is_compact();
            // Once indexed it stays indexed; while compact it keeps the limits.
            prop_assert_eq!(set.is_compact(), fits);
            prop_assert!(!fits || (model.0.len() <= entries && longest <= value));
            check(&set, &model, &bounds, &names, from);
        }
        let text: usize = model.0.iter().map(|(member, _)| member.len()).sum();
        prop_assert!(set.is_empty() || set.heap_bytes() >= text.saturating_sub(7 * set.len()));
        prop_assert_eq!(set.clone(), set.clone());

        let mut scores = Scores::new(7);
        for (member, score) in model.0.iter().rev() {
            scores.push(member, *score);
        }
        let rebuilt = SortedSet::from_scores(scores, limits);
        let longest = model.0.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
        prop_assert_eq!(rebuilt.is_compact(), model.0.len() <= entries && longest <= value);
        prop_assert_eq!(rebuilt, set);
    }

    #[test]
    fn members_of_one_score_are_ranged_by_bytes(
        members in proptest::collection::btree_set(member(), 0..200),
        (min, max) in (member(), member()),
        entries in prop_oneof![Just(0_usize), Just(500)],
    ) {
        let limits = Limits { entries, value: 1000, secret: 7 };
        let mut set = SortedSet::new();
        for member in &members {
            set.insert(member, 0.0, limits);
        }
        let inside = |from: LexBound<'_>, to: LexBound<'_>| -> Vec<Vec<u8>> {
            set.range(set.range_by_lex(from, to, Order::Ascending, 0)).map(|(member, _)| member.to_vec()).collect()
        };
        let expected = |keep: &dyn Fn(&[u8]) -> bool| -> Vec<Vec<u8>> {
            members.iter().filter(|member| keep(member)).cloned().collect()
        };
        let (a, b) = (&min[..], &max[..]);
        prop_assert_eq!(inside(LexBound::Inclusive(a), LexBound::Exclusive(b)), expected(&|m| m >= a && m < b));
        prop_assert_eq!(inside(LexBound::Exclusive(a), LexBound::Inclusive(b)), expected(&|m| m > a && m <= b));
        prop_assert_eq!(inside(LexBound::Min, LexBound::Max), expected(&|_| true));
        prop_assert_eq!(inside(LexBound::Max, LexBound::Inclusive(b)), expected(&|_| false));
        prop_assert_eq!(inside(LexBound::Inclusive(a), LexBound::Min), expected(&|_| false));
    }

    #[test]
    fn a_scan_shows_every_element_that_stays(
        stay in proptest::collection::btree_set(any::<u16>(), 1..300),
        churn in proptest::collection::vec((any::<u16>(), any::<bool>()), 0..2000),
        pace in 1..50_usize,
    ) {
        let limits = Limits { entries: 0, value: 64, secret: 7 };
        let mut set = SortedSet::new();
        for member in &stay {
            set.insert(&member.to_be_bytes(), 1.0, limits);
        }
        let mut churn = churn.into_iter().filter(|(member, _)| !stay.contains(member));
        let mut seen = BTreeSet::new();
        let mut cursor = 0;
        loop {
            cursor = set.scan(cursor, &mut |member, _| {
                seen.insert(u16::from_be_bytes([member[0], member[1]]));
            });
            if cursor == 0 {
                break;
            }
            for (member, add) in churn.by_ref().take(pace) {
                match add {
                    true => set.insert(&member.to_be_bytes(), 2.0, limits),
                    false => set.remove(&member.to_be_bytes()),
                };
            }
        }
        prop_assert!(stay.is_subset(&seen));
    }
}

#[test]
fn small_whole_scores_take_little() {
    let bytes = |unit: f64| {
        let mut set = SortedSet::new();
        let limits = Limits {
            entries: 128,
            value: 64,
            secret: 7,
        };
        for n in 0..10 {
            set.insert(b"ten bytes.", -1.0, limits);
            set.insert(
                format!("member {n:03}").as_bytes(),
                f64::from(n) * unit,
                limits,
            );
        }
        set.heap_bytes() / 11
    };
    let (small, medium, large) = (bytes(1.0), bytes(1e6), bytes(0.1));
    assert!(
        small < 18 && medium < 20 && large < 25,
        "{small} {medium} {large}"
    );
}

#[test]
fn a_negative_zero_is_kept_only_by_the_indexed_form() {
    let sign = |entries| {
        let mut set = SortedSet::new();
        set.insert(
            b"m",
            -0.0,
            Limits {
                entries,
                value: 64,
                secret: 7,
            },
        );
        set.score(b"m").map(f64::is_sign_negative)
    };
    assert_eq!((sign(128), sign(0)), (Some(false), Some(true)));
}

#[test]
fn a_cursor_that_was_never_given_ends_the_scan() {
    let mut set = SortedSet::new();
    for i in 0..100_u8 {
        set.insert(
            &[i],
            0.0,
            Limits {
                entries: 0,
                value: 0,
                secret: 7,
            },
        );
    }
    for cursor in [1 << 32, u64::MAX] {
        assert_eq!(set.scan(cursor, &mut |_, _| panic!("nothing is left")), 0);
    }
    let mut shown = 0;
    let mut cursor = 12_345;
    while cursor != 0 {
        cursor = set.scan(cursor, &mut |_, _| shown += 1);
    }
    assert!(shown <= 100);
}
