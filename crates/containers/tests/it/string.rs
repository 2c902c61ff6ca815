//! `Str` against `Vec<u8>`.

use proptest::prelude::*;
use tollgate_containers::Str;

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<u8>),
    SetRange(usize, Vec<u8>),
    GrowTo(usize),
    Flip(usize),
    Clone,
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        bytes().prop_map(Op::Append),
        (0..60_usize, bytes()).prop_map(|(at, bytes)| Op::SetRange(at, bytes)),
        (0..60_usize).prop_map(Op::GrowTo),
        (0..60_usize).prop_map(Op::Flip),
        Just(Op::Clone),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_vector(start in proptest::collection::vec(any::<u8>(), 0..20), ops in proptest::collection::vec(op(), 0..20)) {
        let mut string = Str::from_slice(&start);
        let mut model = start;
        for op in ops {
            match op {
                Op::Append(bytes) => {
                    string.append(&bytes);
                    model.extend_from_slice(&bytes);
                }
                Op::SetRange(at, bytes) => {
                    string.set_range(at, &bytes);
                    if !bytes.is_empty() {
                        model.resize(model.len().max(at + bytes.len()), 0);
                        model[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                Op::GrowTo(len) => {
                    string.grow_to(len);
                    model.resize(model.len().max(len), 0);
                }
                Op::Flip(at) => {
                    if let Some(byte) = string.as_mut_slice().get_mut(at) {
                        *byte ^= 0xff;
                        model[at] ^= 0xff;
                    }
                }
                Op::Clone => string = string.clone(),
            }
            prop_assert_eq!(string.as_slice(), model.as_slice());
            prop_assert_eq!(string.len(), model.len());
            prop_assert!(string.capacity() >= string.len());
        }
    }
}
