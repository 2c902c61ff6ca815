use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const SPARSE_MAX: usize = 3000;

fn sketch_of(elements: impl IntoIterator<Item = Vec<u8>>, sparse_max: usize) -> Str {
    let mut sketch = empty();
    for element in elements {
        add(&mut sketch, &element, sparse_max).expect("a sound sketch");
    }
    sketch
}

fn numbered(count: u32) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|n| n.to_string().into_bytes())
}

proptest! {
    /// Each register holds the highest rank of its elements, sparse or dense.
    #[test]
    fn both_encodings_agree_with_a_model(
        elements in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..400),
        sparse_max in 16usize..1200,
    ) {
        let mut model = vec![0u8; REGISTERS];
        let mut sketch = empty();
        for element in &elements {
            let (index, rank) = hash::index_and_rank(element);
            let raised = model[index] < rank;
            model[index] = rank.max(model[index]);
            prop_assert_eq!(add(&mut sketch, element, sparse_max), Ok(raised));
        }
        let bytes = sketch.as_slice();
        prop_assert!(is_sketch(bytes));
        let read = registers(bytes).expect("a sound sketch");
        prop_assert_eq!(read.as_slice(), &model[..]);
        let mut dense = sketch.clone();
        make_dense(&mut dense).expect("a sound sketch");
        prop_assert_eq!(count(bytes), count(dense.as_slice()));
        prop_assert_eq!(count(bytes), Ok(read.count()));
    }

    #[test]
    fn a_merge_is_the_sketch_of_the_union(
        a in prop::collection::vec(any::<u16>(), 0..300),
        b in prop::collection::vec(any::<u16>(), 0..300),
        sparse_max in 16usize..800,
    ) {
        let bytes = |numbers: &[u16]| -> Vec<Vec<u8>> {
            numbers.iter().map(|n| n.to_be_bytes().to_vec()).collect()
        };
        let mut target = sketch_of(bytes(&a), sparse_max);
        let other = sketch_of(bytes(&b), SPARSE_MAX);
        let mut merged = registers(target.as_slice()).expect("a sound sketch");
        merged.merge(other.as_slice()).expect("a sound sketch");
        merged.raise_in(&mut target, sparse_max).expect("a sound sketch");
        let union = sketch_of(bytes(&[a, b].concat()), SPARSE_MAX);
        let (target, union) = (registers(target.as_slice()), registers(union.as_slice()));
        let (target, union) = (target.expect("sound"), union.expect("sound"));
        prop_assert_eq!(target.as_slice(), union.as_slice());
    }

    /// Bytes behind a good header are never a reason to panic.
    #[test]
    fn garbage_is_corrupted_or_counted(
        tail in prop::collection::vec(any::<u8>(), 0..200),
        element in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut bytes = empty().as_slice()[..HEADER].to_vec();
        bytes.extend_from_slice(&tail);
        let mut sketch = Str::from_slice(&bytes);
        prop_assert!(is_sketch(&bytes));
        prop_assert_eq!(count(&bytes).is_ok(), registers(&bytes).is_ok());
        decode(&bytes);
        let changed = add(&mut sketch, &element, SPARSE_MAX);
        prop_assert!(changed.is_ok() || count(&bytes).is_err());
    }
}

/// Counts of redis-server 7.0.15 for the elements "0" to "n-1".
#[test]
fn counts_are_those_of_redis() {
    for (elements, expected) in [(0, 0), (1, 1), (10, 10), (1000, 1001), (20_000, 19_891)] {
        let sketch = sketch_of(numbered(elements), SPARSE_MAX);
        assert_eq!(count(sketch.as_slice()), Ok(expected), "{elements}");
    }
}

#[test]
fn the_estimate_is_near() {
    let elements: HashSet<Vec<u8>> = numbered(100_000).collect();
    let sketch = sketch_of(elements, SPARSE_MAX);
    assert!(is_dense(sketch.as_slice()));
    let estimate = count(sketch.as_slice()).expect("a sound sketch");
    assert!(estimate.abs_diff(100_000) < 3_000, "{estimate}");
}

#[test]
fn the_cached_count_is_out_of_date_after_a_change() {
    let mut sketch = empty();
    assert_eq!(cached_count(sketch.as_slice()), Some(0));
    add(&mut sketch, b"a", SPARSE_MAX).expect("a sound sketch");
    assert_eq!(cached_count(sketch.as_slice()), None);
    cache_count(sketch.as_mut_slice(), 1);
    assert_eq!(cached_count(sketch.as_slice()), Some(1));
}

#[test]
fn other_strings_are_no_sketches() {
    let good = empty();
    let good = good.as_slice();
    assert!(is_sketch(good));
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        bytes
    };
    assert!(!is_sketch(&good[..HEADER - 1]));
    assert!(!is_sketch(&changed(0, b'h')));
    assert!(!is_sketch(&changed(ENCODING_AT, 2)));
    // Dense, but too short.
    assert!(!is_sketch(&changed(ENCODING_AT, DENSE)));
}

#[test]
fn runs_are_shown_as_text() {
    let mut sketch = empty();
    assert_eq!(decode(sketch.as_slice()), "Z:16384");
    for (index, rank) in [(100, 3), (101, 3), (99, 1), (16_383, 32)] {
        raise(&mut sketch, index, rank, SPARSE_MAX).expect("a sound sketch");
    }
    assert_eq!(decode(sketch.as_slice()), "Z:99 v:1,1 v:3,2 Z:16281 v:32,1");
    raise(&mut sketch, 0, 33, SPARSE_MAX).expect("a sound sketch");
    assert!(is_dense(sketch.as_slice()));
}
