//! HyperLogLog sketches in the string format of Redis: counting distinct elements in at most 12 KiB.
//!
//! ```text
//! "HYLL" | encoding: u8 | 3 bytes unused | cached count: u64 le, highest bit = out of date | registers
//! ```
//!
//! 16,384 registers of 6 bits, either all of them (dense) or as runs (sparse). An element's hash (MurmurHash64A)
//! chooses a register and gives the number to raise it to. The estimate is Otmar Ertl's ("New cardinality estimation
//! algorithms for HyperLogLog sketches", arXiv:1702.01284), evaluated in the order in which Redis does, so that the
//! counts are equal.

mod dense;
mod estimate;
mod hash;
mod self_test;
mod sparse;

use crate::Str;

pub use self_test::self_test;
pub use sparse::decode;

/// Registers of a sketch.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;

const INDEX_BITS: u32 = 14;
/// Bits of the hash behind the index; a register holds at most one more than that.
const RANK_BITS: u32 = 64 - INDEX_BITS;
const MAGIC: &[u8; 4] = b"HYLL";
const HEADER: usize = 16;
const ENCODING_AT: usize = 4;
/// The byte of the cached count whose highest bit says that it is out of date.
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// The registers do not add up: the string was written by something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupted;

/// One byte per register: for merging.
pub struct Registers(Box<[u8; REGISTERS]>);

/// An empty sketch.
pub fn empty() -> Str {
    let mut bytes = [0; HEADER + 2];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[ENCODING_AT] = SPARSE;
    bytes[HEADER..].copy_from_slice(&sparse::EMPTY);
    Str::from_slice(&bytes)
}

/// Whether a string has the header and the length of a sketch.
pub fn is_sketch(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER
        && bytes.starts_with(MAGIC)
        && match bytes[ENCODING_AT] {
            DENSE => bytes.len() == HEADER + dense::LEN,
            SPARSE => true,
            _ => false,
        }
}

/// Whether all registers are written out. `bytes` must be a sketch.
pub fn is_dense(bytes: &[u8]) -> bool {
    bytes[ENCODING_AT] == DENSE
}

/// Adds an element; true when a register changed. A sparse sketch that would grow beyond `sparse_max` bytes becomes
/// dense. `sketch` must be [a sketch](is_sketch).
///
/// # Errors
/// [`Corrupted`]: the runs of a sparse sketch do not add up.
pub fn add(sketch: &mut Str, element: &[u8], sparse_max: usize) -> Result<bool, Corrupted> {
    let (index, rank) = hash::index_and_rank(element);
    raise(sketch, index, rank, sparse_max)
}

/// Raises a register to `rank`; true when it was lower.
fn raise(sketch: &mut Str, index: usize, rank: u8, sparse_max: usize) -> Result<bool, Corrupted> {
    if !is_dense(sketch.as_slice()) {
        if let sparse::Raised::Done(changed) = sparse::raise(sketch, index, rank, sparse_max)? {
            return Ok(changed);
        }
        make_dense(sketch)?;
    }
    let registers = &mut sketch.as_mut_slice()[HEADER..];
    Ok(dense::raise(registers, index, rank))
}

/// Makes a sketch dense; false when it was already. `sketch` must be [a sketch](is_sketch).
///
/// # Errors
/// [`Corrupted`]: the runs of a sparse sketch do not add up.
pub fn make_dense(sketch: &mut Str) -> Result<bool, Corrupted> {
    let bytes = sketch.as_slice();
    if is_dense(bytes) {
        return Ok(false);
    }
    let mut dense = vec![0; HEADER + dense::LEN];
    dense[..HEADER].copy_from_slice(&bytes[..HEADER]);
    dense[ENCODING_AT] = DENSE;
    sparse::each_run(&bytes[HEADER..], |start, len, value| {
        for index in start..start + len {
            dense::set(&mut dense[HEADER..], index, value);
        }
    })?;
    *sketch = Str::from_slice(&dense);
    Ok(true)
}

/// The cached count, unless it is out of date. `bytes` must be a sketch.
pub fn cached_count(bytes: &[u8]) -> Option<u64> {
    let cached = bytes[8..HEADER].try_into().map(u64::from_le_bytes).ok()?;
    (bytes[STALE_AT] & STALE == 0).then_some(cached)
}

/// Keeps a count for [`cached_count`].
pub fn cache_count(bytes: &mut [u8], count: u64) {
    bytes[8..HEADER].copy_from_slice(&count.to_le_bytes());
}

/// Marks the cached count as out of date.
pub fn forget_count(bytes: &mut [u8]) {
    bytes[STALE_AT] |= STALE;
}

/// The estimated number of distinct elements. `bytes` must be [a sketch](is_sketch).
///
/// # Errors
/// [`Corrupted`]: the runs of a sparse sketch do not add up.
pub fn count(bytes: &[u8]) -> Result<u64, Corrupted> {
    if is_dense(bytes) {
        let histogram = estimate::histogram(dense::fours(&bytes[HEADER..]));
        return Ok(estimate::cardinality(&histogram));
    }
    let mut histogram = [0u32; estimate::RANKS];
    histogram[0] = REGISTERS as u32;
    sparse::each_run(&bytes[HEADER..], |_, len, value| {
        histogram[usize::from(value)] += len as u32;
        histogram[0] -= len as u32;
    })?;
    Ok(estimate::cardinality(&histogram))
}

/// The value of each register, in order. `bytes` must be [a sketch](is_sketch).
///
/// # Errors
/// [`Corrupted`]: the runs of a sparse sketch do not add up.
pub fn registers(bytes: &[u8]) -> Result<Registers, Corrupted> {
    let mut registers = Registers::default();
    registers.merge(bytes)?;
    Ok(registers)
}

impl Default for Registers {
    fn default() -> Registers {
        Registers(Box::new([0; REGISTERS]))
    }
}

impl Registers {
    /// The values.
    pub fn as_slice(&self) -> &[u8] {
        &self.0[..]
    }

    /// Raises every register to that of another sketch. `bytes` must be [a sketch](is_sketch).
    ///
    /// # Errors
    /// [`Corrupted`]: the runs of a sparse sketch do not add up.
    pub fn merge(&mut self, bytes: &[u8]) -> Result<(), Corrupted> {
        let mine = &mut self.0;
        if is_dense(bytes) {
            let (mine, _) = mine.as_chunks_mut::<4>();
            for (mine, theirs) in mine.iter_mut().zip(dense::fours(&bytes[HEADER..])) {
                *mine = std::array::from_fn(|at| mine[at].max(theirs[at]));
            }
            return Ok(());
        }
        sparse::each_run(&bytes[HEADER..], |start, len, value| {
            mine[start..start + len]
                .iter_mut()
                .for_each(|register| *register = value.max(*register));
        })
    }

    /// The estimated number of distinct elements.
    pub fn count(&self) -> u64 {
        let (fours, _) = self.0.as_chunks::<4>();
        estimate::cardinality(&estimate::histogram(fours.iter().copied()))
    }

    /// Raises the registers of `sketch` to these; a sparse one that would grow beyond `sparse_max` bytes becomes dense.
    ///
    /// # Errors
    /// [`Corrupted`]: the runs of a sparse sketch do not add up.
    pub fn raise_in(&self, sketch: &mut Str, sparse_max: usize) -> Result<(), Corrupted> {
        for (index, &rank) in self.0.iter().enumerate() {
            if rank > 0 {
                raise(sketch, index, rank, sparse_max)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
