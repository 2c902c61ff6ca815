//! Single requests as they went, in `samples.raw`: what `--raw` keeps and `bench raw` prints.
//!
//! ```text
//! file    "TGRAW 1\n", then a block per measured step
//! block   varint, that many bytes of JSON (`About`); varint, that many bytes of samples
//! sample  tag: outcome, + 8 if it was sent again
//!         zigzag varint: due - due of the sample before (0 for the first), ns from the begin of the step
//!         varint due - first due   if it was sent again
//!         varint key               unless it was never sent
//!         varint sent - due        unless it was never sent
//!         varint answered - sent   if it was answered
//! ```
//!
//! Varints are those of Protocol Buffers (LEB128). A file that was cut off is read up to its last whole sample.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// What a file begins with.
const MAGIC: &[u8] = b"TGRAW 1\n";
/// Longest JSON of a block.
const ABOUT_MAX: u64 = 64 << 10;
/// Most bytes of samples in a block.
pub(crate) const BLOCK_MAX: usize = 16 << 20;
/// Most bytes of one sample: a tag and five varints.
pub(crate) const SAMPLE_MAX: usize = 1 + 5 * 10;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Admitted, in time or late.
    Allowed,
    /// Denied, in time or late.
    Denied,
    /// Answered with an error.
    Error,
    /// Answered with something of the wrong shape.
    Unexpected,
    /// Sent, and not answered until the step ended or its connection broke.
    Unanswered,
    /// Never sent.
    Unsent,
}

const OUTCOMES: [Outcome; 6] = [
    Outcome::Allowed,
    Outcome::Denied,
    Outcome::Error,
    Outcome::Unexpected,
    Outcome::Unanswered,
    Outcome::Unsent,
];
/// Added to the tag of a request that was sent again.
const AGAIN: u8 = 8;

impl Outcome {
    /// As it stands in tables.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Outcome::Allowed => "allowed",
            Outcome::Denied => "denied",
            Outcome::Error => "error",
            Outcome::Unexpected => "unexpected",
            Outcome::Unanswered => "unanswered",
            Outcome::Unsent => "unsent",
        }
    }

    fn is_answer(self) -> bool {
        !matches!(self, Outcome::Unanswered | Outcome::Unsent)
    }
}

/// One request. Times are nanoseconds from the begin of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When its first attempt was due.
    pub first_ns: u64,
    /// When this attempt was due.
    pub due_ns: u64,
    /// When it was sent; 0 if never.
    pub sent_ns: u64,
    /// When its answer was read; 0 without one.
    pub answered_ns: u64,
    /// Number of its key; 0 if it was never sent.
    pub key: u32,
    /// What became of it.
    pub outcome: Outcome,
}

/// Which step samples belong to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct About {
    /// Name of the target.
    pub target: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the operation.
    pub operation: String,
    /// Offered load.
    pub target_rps: f64,
    /// Number of the start, from 1.
    pub start: u32,
    /// Seconds from the begin of the start to that of the step.
    pub offset_s: f64,
    /// Answers later than this count as failures.
    pub deadline_ms: f64,
    /// How many there are, of how many.
    #[serde(flatten)]
    pub kept: Kept,
}

/// What a file holds of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// One request in so many was looked at.
    pub every: u64,
    /// Samples kept.
    pub kept: u64,
    /// Samples for which there was no room.
    pub left_out: u64,
}

/// Appends `sample`; `before_ns` is the due time of the one before, 0 for the first.
pub(crate) fn put(out: &mut Vec<u8>, sample: &Sample, before_ns: u64) {
    let again = sample.first_ns != sample.due_ns;
    out.push(sample.outcome as u8 + if again { AGAIN } else { 0 });
    let step = sample.due_ns.wrapping_sub(before_ns) as i64;
    put_varint(out, ((step << 1) ^ (step >> 63)) as u64);
    if again {
        put_varint(out, sample.due_ns.wrapping_sub(sample.first_ns));
    }
    if sample.outcome == Outcome::Unsent {
        return;
    }
    put_varint(out, u64::from(sample.key));
    put_varint(out, sample.sent_ns.saturating_sub(sample.due_ns));
    if sample.outcome.is_answer() {
        put_varint(out, sample.answered_ns.saturating_sub(sample.sent_ns));
    }
}

/// Takes the first sample off `bytes`. `None` if they end before it does, or are none.
pub(crate) fn take(bytes: &mut &[u8], before_ns: u64) -> Option<Sample> {
    let mut rest = *bytes;
    let (tag, after) = rest.split_first()?;
    rest = after;
    let outcome = *OUTCOMES.get(usize::from(tag & !AGAIN))?;
    let zigzag = take_varint(&mut rest)?;
    let step = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    let due_ns = before_ns.wrapping_add(step as u64);
    let again = match tag & AGAIN {
        0 => 0,
        _ => take_varint(&mut rest)?,
    };
    let mut sample = Sample {
        first_ns: due_ns.wrapping_sub(again),
        due_ns,
        sent_ns: 0,
        answered_ns: 0,
        key: 0,
        outcome,
    };
    if outcome != Outcome::Unsent {
        sample.key = u32::try_from(take_varint(&mut rest)?).ok()?;
        sample.sent_ns = due_ns.checked_add(take_varint(&mut rest)?)?;
    }
    if outcome.is_answer() {
        sample.answered_ns = sample.sent_ns.checked_add(take_varint(&mut rest)?)?;
    }
    *bytes = rest;
    Some(sample)
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The file of a run, which its starts share. After a failure nothing more is written.
#[derive(Clone, Debug)]
pub(crate) struct SampleFile(Arc<Mutex<Option<File>>>);

impl SampleFile {
    /// Begins the empty `file`.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub(crate) fn begin(mut file: File) -> io::Result<SampleFile> {
        file.write_all(MAGIC)?;
        Ok(SampleFile(Arc::new(Mutex::new(Some(file)))))
    }

    /// Appends a block, whole or not at all. False where an earlier one failed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn append(&self, about: &About, samples: &[u8]) -> io::Result<bool> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = held.as_mut() else {
            return Ok(false);
        };
        let before = file.metadata()?.len();
        let written = write_block(file, about, samples);
        if written.is_err() {
            // What follows a block that was cut off could not be found.
            drop(file.set_len(before));
            *held = None;
        }
        written.map(|()| true)
    }
}

fn write_block(out: &mut impl Write, about: &About, samples: &[u8]) -> io::Result<()> {
    let json = serde_json::to_vec(about)?;
    let mut head = Vec::with_capacity(json.len() + 20);
    put_varint(&mut head, json.len() as u64);
    head.extend(&json);
    put_varint(&mut head, samples.len() as u64);
    out.write_all(&head)?;
    out.write_all(samples)?;
    out.flush()
}

/// Reads a file block by block.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    input: R,
}

/// The samples of one step.
#[derive(Debug)]
pub(crate) struct Block {
    /// Which step.
    pub about: About,
    /// The samples.
    pub samples: Vec<Sample>,
    /// Whether the file ends, or is damaged, within this block.
    pub cut_off: bool,
}

impl<R: Read> Reader<R> {
    /// A reader of `input`.
    ///
    /// # Errors
    /// If it does not begin as such a file does.
    pub(crate) fn new(mut input: R) -> io::Result<Reader<R>> {
        let mut magic = [0; MAGIC.len()];
        let read = input.read_exact(&mut magic);
        if read.is_err() || magic != MAGIC {
            return Err(io::Error::other("it holds no samples of a bench run"));
        }
        Ok(Reader { input })
    }

    /// The next block; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read, or ends within the words of a block.
    pub(crate) fn next_block(&mut self) -> io::Result<Option<Block>> {
        let cut = || io::Error::other("it ends, or is damaged, between two steps");
        let Some(length) = self.varint()? else {
            return Ok(None);
        };
        let json = self.bytes(length, ABOUT_MAX)?.ok_or_else(cut)?;
        let about: About = serde_json::from_slice(&json).map_err(|_| cut())?;
        let length = self.varint()?.filter(|n| *n <= BLOCK_MAX as u64);
        let length = length.ok_or_else(cut)?;
        let mut bytes = Vec::new();
        (&mut self.input).take(length).read_to_end(&mut bytes)?;
        let whole = bytes.len() as u64 == length;
        let (mut samples, mut rest, mut before) = (Vec::new(), bytes.as_slice(), 0);
        while let Some(sample) = take(&mut rest, before) {
            before = sample.due_ns;
            samples.push(sample);
        }
        Ok(Some(Block {
            about,
            samples,
            cut_off: !whole || !rest.is_empty(),
        }))
    }

    /// `None` at the end of the file.
    fn varint(&mut self) -> io::Result<Option<u64>> {
        let (mut bytes, mut byte) = (Vec::new(), [0x80]);
        while byte[0] & 0x80 != 0 && bytes.len() < 10 && self.input.read(&mut byte)? == 1 {
            bytes.extend(byte);
        }
        match bytes.as_slice() {
            [] => Ok(None),
            mut some => take_varint(&mut some)
                .map(Some)
                .ok_or_else(|| io::Error::other("it ends, or is damaged, between two steps")),
        }
    }

    /// `None` if there are fewer, or more than `most` are announced.
    fn bytes(&mut self, length: u64, most: u64) -> io::Result<Option<Vec<u8>>> {
        if length > most {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        (&mut self.input).take(length).read_to_end(&mut bytes)?;
        Ok(Some(bytes).filter(|bytes| bytes.len() as u64 == length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_sample() -> impl Strategy<Value = Sample> {
        let times = (
            0..1_u64 << 40,
            0..1_u64 << 36,
            0..1_u64 << 36,
            0..1_u64 << 36,
        );
        (times, any::<u32>(), 0..OUTCOMES.len()).prop_map(|(times, key, outcome)| {
            let (first_ns, again, lag, service) = times;
            let outcome = OUTCOMES[outcome];
            let due_ns = first_ns + again * u64::from(key.is_multiple_of(3));
            let sent = outcome != Outcome::Unsent;
            let sent_ns = if sent { due_ns + lag } else { 0 };
            Sample {
                first_ns,
                due_ns,
                sent_ns,
                answered_ns: if outcome.is_answer() {
                    sent_ns + service
                } else {
                    0
                },
                key: if sent { key } else { 0 },
                outcome,
            }
        })
    }

    fn file_of(steps: &[Vec<Sample>]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        for (number, samples) in steps.iter().enumerate() {
            let (mut bytes, mut before) = (Vec::new(), 0);
            for sample in samples {
                let length = bytes.len();
                put(&mut bytes, sample, before);
                assert!(bytes.len() - length <= SAMPLE_MAX);
                before = sample.due_ns;
            }
            let about = About {
                target_rps: number as f64,
                ..About::default()
            };
            write_block(&mut file, &about, &bytes).unwrap();
        }
        file
    }

    /// The samples read, and whether the file was whole.
    fn read(bytes: &[u8]) -> (Vec<Vec<Sample>>, bool) {
        let mut reader = Reader::new(bytes).unwrap();
        let mut steps = Vec::new();
        loop {
            match reader.next_block() {
                Ok(None) => return (steps, true),
                Ok(Some(block)) => {
                    steps.push(block.samples);
                    if block.cut_off {
                        return (steps, false);
                    }
                }
                Err(_) => return (steps, false),
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_again(
            steps in prop::collection::vec(prop::collection::vec(any_sample(), 0..20), 0..4)
        ) {
            prop_assert_eq!(read(&file_of(&steps)), (steps, true));
        }

        #[test]
        fn a_file_that_was_cut_off_gives_what_it_has(
            steps in prop::collection::vec(prop::collection::vec(any_sample(), 1..9), 1..4),
            share in 0.0..1.0,
        ) {
            let whole = file_of(&steps);
            let from = MAGIC.len();
            let end = from + ((whole.len() - from) as f64 * share) as usize;
            let (found, _) = read(&whole[..end]);
            let (found, all) = (found.concat(), steps.concat());
            prop_assert!(all.starts_with(&found));
        }

        #[test]
        fn no_bytes_are_too_wild(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut file = MAGIC.to_vec();
            file.extend(bytes);
            read(&file);
        }
    }

    #[test]
    fn a_block_after_one_that_failed_is_not_written() {
        let folder = tollgate_testkit::process::temp_dir().unwrap();
        let path = folder.join("samples.raw");
        let file = SampleFile::begin(File::create(&path).unwrap()).unwrap();
        assert!(file.append(&About::default(), &[]).unwrap());
        let whole = std::fs::read(&path).unwrap();
        // Open for reading alone: every write fails.
        *file.0.lock().unwrap() = Some(File::open(&path).unwrap());
        assert!(file.append(&About::default(), &[]).is_err());
        assert!(!file.append(&About::default(), &[]).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), whole);
        assert!(Reader::new(&b"something else"[..]).is_err());
    }
}
