//! PFSELFTEST: registers and estimates against what they should be.

use super::{Corrupted, REGISTERS, add, count, dense, empty, is_dense, make_dense};

const REGISTER_ROUNDS: usize = 100;
const ELEMENTS: u64 = 100_000;
/// The standard error of an estimate is 1.04 / sqrt(16384).
const STANDARD_ERROR: f64 = 1.04 / 128.0;
/// Errors beyond so many times the standard one are not chance.
const BOUND: f64 = 6.0;

/// Writes and reads random registers, then adds many elements to a sparse and a dense sketch, whose estimates must agree
/// and be near.
///
/// # Errors
/// What was wrong, as text for a person.
pub fn self_test(mut random: impl FnMut() -> u64, sparse_max: usize) -> Result<(), String> {
    registers(&mut random)?;
    estimates(random(), sparse_max)
}

fn registers(random: &mut impl FnMut() -> u64) -> Result<(), String> {
    let mut bytes = vec![0; dense::LEN];
    for _ in 0..REGISTER_ROUNDS {
        let values: Vec<u8> = (0..REGISTERS).map(|_| random() as u8 & 63).collect();
        for (index, &value) in values.iter().enumerate() {
            dense::set(&mut bytes, index, value);
        }
        let mut read = dense::fours(&bytes).flatten().enumerate();
        let wrong = read.find(|&(index, value)| value != values[index]);
        if let Some((index, value)) = wrong {
            let expected = values[index];
            return Err(format!(
                "Register {index} should be {expected} but is {value}"
            ));
        }
    }
    Ok(())
}

fn estimates(seed: u64, sparse_max: usize) -> Result<(), String> {
    let corrupted = |_: Corrupted| "sketch is corrupted".to_owned();
    let (mut sparse, mut dense) = (empty(), empty());
    make_dense(&mut dense).map_err(corrupted)?;
    let mut checkpoint = 1;
    for element in 1..=ELEMENTS {
        let bytes = (element ^ seed).to_le_bytes();
        add(&mut sparse, &bytes, sparse_max).map_err(corrupted)?;
        add(&mut dense, &bytes, sparse_max).map_err(corrupted)?;
        if element < checkpoint {
            continue;
        }
        if element < sparse_max as u64 / 2 && is_dense(sparse.as_slice()) {
            return Err("sparse encoding not used".to_owned());
        }
        let estimate = count(dense.as_slice()).map_err(corrupted)?;
        if Ok(estimate) != count(sparse.as_slice()) {
            return Err("dense/sparse disagree".to_owned());
        }
        let error = estimate.abs_diff(checkpoint);
        if error as f64 > (STANDARD_ERROR * BOUND * checkpoint as f64).ceil() {
            return Err(format!("Too big error. card:{checkpoint} abserr:{error}"));
        }
        checkpoint *= 10;
    }
    Ok(())
}
