//! `Set` against `BTreeSet`.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tollgate_containers::Container as _;
use tollgate_containers::set::{Member, Set, SetLimits};

#[derive(Clone, Debug)]
enum Op {
    Add(Vec<u8>),
    Remove(Vec<u8>),
    RemoveNth(usize),
    RemoveSome(u64),
    Scan(usize),
    Clone,
}

/// Integers of all widths, texts that look like integers, short and long texts.
fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (-20..40_i64).prop_map(|int| int.to_string().into_bytes()),
        1 => any::<i32>().prop_map(|int| int.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|int| int.to_string().into_bytes()),
        1 => prop_oneof![Just("01"), Just("-0"), Just(""), Just("+1")].prop_map(|text| text.into()),
        3 => (0..200_usize).prop_map(|n| format!("member:{n}").into_bytes()),
        1 => (60..70_usize).prop_map(|len| vec![b'x'; len]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => member().prop_map(Op::Add),
        4 => member().prop_map(Op::Remove),
        2 => any::<usize>().prop_map(Op::RemoveNth),
        1 => any::<u64>().prop_map(Op::RemoveSome),
        1 => (1..20_usize).prop_map(Op::Scan),
        1 => Just(Op::Clone),
    ]
}

fn text(member: Member<'_>) -> Vec<u8> {
    member.with_bytes(<[u8]>::to_vec)
}

fn limits(max_ints: usize) -> SetLimits {
    SetLimits { max_ints, seed: 42 }
}

fn scan(set: &Set, count: usize) -> BTreeSet<Vec<u8>> {
    let mut seen = BTreeSet::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, count, &mut |member| {
            assert!(
                seen.insert(text(member)),
                "nothing changed, so nothing twice"
            );
        });
        if cursor == 0 {
            return seen;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_set(max_ints in 0..60_usize, ops in proptest::collection::vec(op(), 0..300)) {
        let mut set = Set::default();
        let mut model = BTreeSet::new();
        let mut only_ints = true;
        for op in ops {
            match op {
                Op::Add(member) => {
                    let int = std::str::from_utf8(&member).ok().and_then(|text| text.parse::<i64>().ok());
                    let canonical = int.is_some_and(|int| int.to_string().as_bytes() == member);
                    prop_assert_eq!(set.add(&member, &limits(max_ints)), model.insert(member));
                    only_ints &= canonical && model.len() <= max_ints;
                }
                Op::Remove(member) => prop_assert_eq!(set.remove(&member), model.remove(&member)),
                Op::RemoveNth(at) if !model.is_empty() => {
                    let removed = set.remove_nth(at % model.len()).expect("below the length");
                    prop_assert!(model.remove(removed.as_slice()));
                }
                Op::RemoveNth(at) => prop_assert_eq!(set.remove_nth(at), None),
                Op::RemoveSome(bits) => {
                    let chosen = |at: &usize| bits >> (at % 64) & 1 == 1 && bits.count_ones() % 4 == 0;
                    let positions: Vec<usize> = (0..model.len()).filter(chosen).collect();
                    let mut picked = BTreeSet::new();
                    set.pick(&positions, &mut |member| assert!(picked.insert(text(member))));
                    prop_assert_eq!(picked.len(), positions.len());
                    set.remove_positions(&positions);
                    model = model.difference(&picked).cloned().collect();
                }
                Op::Scan(count) => prop_assert_eq!(scan(&set, count), model.clone()),
                Op::Clone => set = set.clone(),
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.is_ints(), only_ints);
        }
        let members: Vec<Vec<u8>> = set.iter().map(text).collect();
        prop_assert_eq!(members.iter().cloned().collect::<BTreeSet<_>>(), model.clone());
        for (at, member) in members.iter().enumerate() {
            prop_assert!(set.contains(member));
            prop_assert_eq!(&set.nth(at).map(text), &Some(member.clone()));
        }
        let mut copy = Set::default();
        for member in set.iter() {
            prop_assert!(copy.add_member(&member, &limits(0)));
            prop_assert!(set.contains_member(&member));
        }
        prop_assert!(copy == set);
        prop_assert_eq!(copy.add(b"one more", &limits(0)), copy != set);
    }
}

#[test]
fn the_forms_change_at_their_limits_and_never_back() {
    let mut set = Set::default();
    for i in 0..512 {
        assert!(set.add(i.to_string().as_bytes(), &limits(512)));
        assert!(set.is_ints());
    }
    let sorted_bytes = set.heap_bytes();
    assert!(sorted_bytes < 512 * 3, "{sorted_bytes}");
    set.add(b"512", &limits(512));
    assert!(!set.is_ints());
    for i in 1..513 {
        assert!(set.remove(i.to_string().as_bytes()));
    }
    assert!(!set.is_ints());
    let mut small = Set::default();
    small.add(b"1", &limits(512));
    small.add(b"a", &limits(512));
    assert!(small.heap_bytes() <= 32, "{}", small.heap_bytes());
}

#[test]
fn memory_follows_the_contents() {
    let mut set = Set::default();
    for i in 0..10_000 {
        set.add(format!("a member of the set:{i}").as_bytes(), &limits(512));
    }
    let full = set.heap_bytes();
    assert!(full > 10_000 * 25 && full < 10_000 * 70, "{full}");
    for i in 0..9_990 {
        set.remove(format!("a member of the set:{i}").as_bytes());
    }
    assert!(set.heap_bytes() * 100 < full, "{}", set.heap_bytes());
}
