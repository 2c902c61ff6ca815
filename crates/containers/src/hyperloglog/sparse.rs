//! Registers as runs of equal values.
//!
//! ```text
//! 00nnnnnn            ZERO:  n + 1 registers are 0
//! 01nnnnnn nnnnnnnn   XZERO: n + 1 registers are 0
//! 1vvvvvnn            VAL:   n + 1 registers are v + 1
//! ```

use super::{Corrupted, HEADER, REGISTERS, forget_count};
use crate::Str;

/// One XZERO over all registers.
pub(super) const EMPTY: [u8; 2] = [0x7f, 0xff];

const XZERO: u8 = 0x40;
const VAL: u8 = 0x80;
const ZERO_MAX: usize = 64;
const VAL_MAX: usize = 4;
/// The largest value that a VAL can hold.
const VALUE_MAX: u8 = 32;
/// How many runs are looked at, beginning before a changed one, to join equal neighbours.
const JOIN_WINDOW: usize = 5;

/// A run of equal registers.
#[derive(Clone, Copy)]
struct Run {
    /// Bytes of its code.
    bytes: usize,
    /// Registers.
    len: usize,
    /// What they hold.
    value: u8,
}

impl Run {
    /// The run whose code begins at `at`.
    fn at(codes: &[u8], at: usize) -> Option<Run> {
        let code = *codes.get(at)?;
        Some(if code & VAL != 0 {
            Run {
                bytes: 1,
                len: usize::from(code & 3) + 1,
                value: (code >> 2 & 0x1f) + 1,
            }
        } else if code & XZERO != 0 {
            let low = codes.get(at + 1).copied().unwrap_or(0);
            Run {
                bytes: 2,
                len: usize::from(u16::from_be_bytes([code & 0x3f, low])) + 1,
                value: 0,
            }
        } else {
            Run {
                bytes: 1,
                len: usize::from(code & 0x3f) + 1,
                value: 0,
            }
        })
    }
}

fn val(value: u8, len: usize) -> u8 {
    VAL | (value - 1) << 2 | (len - 1) as u8
}

/// The code that replaces a run: at most XZERO, VAL, XZERO.
#[derive(Default)]
struct Code {
    bytes: [u8; 5],
    len: usize,
}

impl Code {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Appends a run of `len` registers, if any.
    fn run(&mut self, value: u8, len: usize) {
        if len == 0 {
        } else if value > 0 {
            self.push(val(value, len));
        } else if len > ZERO_MAX {
            let [high, low] = ((len - 1) as u16).to_be_bytes();
            self.push(XZERO | high);
            self.push(low);
        } else {
            self.push((len - 1) as u8);
        }
    }
}

/// Calls `f` with the start, length and value of each run that is not zero. The runs must cover all registers exactly.
pub(super) fn each_run(codes: &[u8], mut f: impl FnMut(usize, usize, u8)) -> Result<(), Corrupted> {
    let (mut at, mut index) = (0, 0);
    while let Some(run) = Run::at(codes, at) {
        if index + run.len > REGISTERS {
            return Err(Corrupted);
        }
        if run.value > 0 {
            f(index, run.len, run.value);
        }
        index += run.len;
        at += run.bytes;
    }
    if index == REGISTERS {
        Ok(())
    } else {
        Err(Corrupted)
    }
}

/// What became of [`raise`].
pub(super) enum Raised {
    /// The register holds at least the rank; true when it held less.
    Done(bool),
    /// Nothing changed: the new value cannot be kept sparse, or not in so few bytes.
    NeedsDense,
}

/// Raises a register to `rank`, splitting the run it lies in.
pub(super) fn raise(
    sketch: &mut Str,
    index: usize,
    rank: u8,
    sparse_max: usize,
) -> Result<Raised, Corrupted> {
    if rank > VALUE_MAX {
        return Ok(Raised::NeedsDense);
    }
    let codes = &sketch.as_slice()[HEADER..];
    let (mut at, mut first, mut before) = (0, 0, 0);
    let run = loop {
        let run = Run::at(codes, at).ok_or(Corrupted)?;
        if index < first + run.len {
            break run;
        }
        before = at;
        at += run.bytes;
        first += run.len;
    };
    if run.value >= rank {
        return Ok(Raised::Done(false));
    }
    let mut code = Code::default();
    code.run(run.value, index - first);
    code.run(rank, 1);
    code.run(run.value, first + run.len - 1 - index);
    let len = sketch.len();
    let held = run.bytes.min(codes.len() - at);
    if code.len > held && len + code.len - held > sparse_max {
        return Ok(Raised::NeedsDense);
    }
    splice(sketch, HEADER + at, held, &code.bytes[..code.len]);
    join(sketch, HEADER + before);
    forget_count(sketch.as_mut_slice());
    Ok(Raised::Done(true))
}

/// Replaces `old` bytes at `at`.
fn splice(string: &mut Str, at: usize, old: usize, new: &[u8]) {
    let len = string.len();
    string.grow_to(len + new.len().saturating_sub(old));
    let bytes = string.as_mut_slice();
    bytes.copy_within(at + old..len, at + new.len());
    bytes[at..at + new.len()].copy_from_slice(new);
    string.truncate(len - old + new.len());
}

/// Joins neighbours of equal value, from the run at `at` on.
fn join(sketch: &mut Str, mut at: usize) {
    for _ in 0..JOIN_WINDOW {
        let bytes = sketch.as_slice();
        let Some(run) = Run::at(bytes, at) else {
            return;
        };
        let next = Run::at(bytes, at + 1);
        match next {
            Some(next)
                if run.value > 0 && next.value == run.value && run.len + next.len <= VAL_MAX =>
            {
                // The joined run may be joined again with the one that follows.
                splice(sketch, at, 2, &[val(run.value, run.len + next.len)]);
            }
            _ => at += run.bytes,
        }
    }
}

/// The runs as `PFDEBUG DECODE` shows them: `Z:16384`, `z:5 v:3,1`. `bytes` must be a sparse sketch.
pub fn decode(bytes: &[u8]) -> String {
    let codes = &bytes[HEADER..];
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(run) = Run::at(codes, at) {
        words.push(match run {
            Run {
                value: 0, bytes: 1, ..
            } => format!("z:{}", run.len),
            Run { value: 0, .. } => format!("Z:{}", run.len),
            _ => format!("v:{},{}", run.value, run.len),
        });
        at += run.bytes;
    }
    words.join(" ")
}
