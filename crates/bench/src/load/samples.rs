//! Some requests of a step, one by one, within a bound of memory.

use super::rng::Rng;
use super::tally::{Answer, Verdict};
use crate::record::samples::{BLOCK_MAX, Kept, Outcome, SAMPLE_MAX, Sample, put};

/// The samples of a step so far, as they will stand in the file.
#[derive(Clone, Debug)]
pub struct Samples {
    bytes: Vec<u8>,
    room: usize,
    every: u64,
    rng: Rng,
    /// Requests until the next one that is kept.
    skip: u64,
    before_ns: u64,
    /// The clock's time at the begin of the step.
    origin_ns: u64,
    kept: u64,
    left_out: u64,
}

impl Samples {
    /// Keeps one request in `every`, at random gaps by `seed`, of a step that begins at `origin_ns`.
    #[must_use]
    pub(crate) fn new(every: u64, seed: u64, origin_ns: u64) -> Samples {
        Samples::with_room(every, seed, origin_ns, BLOCK_MAX)
    }

    fn with_room(every: u64, seed: u64, origin_ns: u64, room: usize) -> Samples {
        let mut samples = Samples {
            // Reserved at once: growing would copy megabytes in the middle of a step. Untouched pages cost nothing.
            bytes: Vec::with_capacity(room),
            room,
            every: every.max(1),
            rng: Rng::new(seed),
            skip: 0,
            before_ns: 0,
            origin_ns,
            kept: 0,
            left_out: 0,
        };
        samples.skip = samples.gap();
        samples
    }

    /// Requests up to and with the next one that is kept. At random, as a fixed gap might meet the same connection, or the
    /// same place in a pipeline, every time.
    fn gap(&mut self) -> u64 {
        match self.every {
            1 => 1,
            every => 1 + self.rng.next_u64() % (2 * every - 1),
        }
    }

    /// Looks at an answer.
    #[inline]
    pub(crate) fn answered(&mut self, answer: &Answer) {
        let outcome = match answer.verdict {
            Verdict::Allowed => Outcome::Allowed,
            Verdict::Denied => Outcome::Denied,
            Verdict::Error => Outcome::Error,
            Verdict::Unexpected => Outcome::Unexpected,
        };
        let (first_ns, due_ns) = (answer.first, answer.intended);
        self.look(|| Sample {
            first_ns,
            due_ns,
            sent_ns: answer.sent,
            answered_ns: answer.now,
            key: answer.key,
            outcome,
        });
    }

    /// Looks at a request without an answer.
    pub(crate) fn unanswered(&mut self, key: u32, (first_ns, due_ns): (u64, u64), sent_ns: u64) {
        self.look(|| Sample {
            first_ns,
            due_ns,
            sent_ns,
            answered_ns: 0,
            key,
            outcome: Outcome::Unanswered,
        });
    }

    /// Looks at a request that was never sent, first due at `first_ns`.
    pub(crate) fn unsent(&mut self, first_ns: u64) {
        self.look(|| Sample {
            first_ns,
            due_ns: first_ns,
            sent_ns: 0,
            answered_ns: 0,
            key: 0,
            outcome: Outcome::Unsent,
        });
    }

    #[inline]
    fn look(&mut self, sample: impl FnOnce() -> Sample) {
        self.skip -= 1;
        if self.skip == 0 {
            self.skip = self.gap();
            self.keep(sample());
        }
    }

    fn keep(&mut self, mut sample: Sample) {
        if self.room - self.bytes.len() < SAMPLE_MAX {
            self.left_out += 1;
            return;
        }
        let origin = self.origin_ns;
        let times = [
            &mut sample.first_ns,
            &mut sample.due_ns,
            &mut sample.sent_ns,
            &mut sample.answered_ns,
        ];
        times
            .into_iter()
            .for_each(|at| *at = at.saturating_sub(origin));
        put(&mut self.bytes, &sample, self.before_ns);
        self.before_ns = sample.due_ns;
        self.kept += 1;
    }

    /// How many are kept, of how many.
    #[must_use]
    pub(crate) fn counts(&self) -> Kept {
        Kept {
            every: self.every,
            kept: self.kept,
            left_out: self.left_out,
        }
    }

    /// The samples as they stand in the file.
    #[must_use]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::samples::take;

    fn all(samples: &Samples) -> Vec<Sample> {
        let (mut rest, mut before) = (samples.bytes(), 0);
        let next = || {
            let sample = take(&mut rest, before)?;
            before = sample.due_ns;
            Some(sample)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn one_in_so_many_is_kept_without_a_period() {
        let mut samples = Samples::new(10, 7, 0);
        for due in 0..100_000 {
            samples.unsent(due);
        }
        let kept = all(&samples);
        let share = kept.len() as f64 / 100_000.0;
        assert!((0.095..0.105).contains(&share), "{share}");
        let counts = samples.counts();
        assert_eq!((counts.kept, counts.left_out), (kept.len() as u64, 0));
        for place in 0..10 {
            let here = kept.iter().filter(|one| one.due_ns % 10 == place).count();
            let share = here as f64 / kept.len() as f64;
            assert!((0.08..0.12).contains(&share), "{place}: {share}");
        }
    }

    #[test]
    fn memory_has_a_bound_and_what_is_over_it_is_counted() {
        let mut samples = Samples::with_room(1, 7, 1_000, 4 * SAMPLE_MAX);
        for number in 0..1_000 {
            samples.unanswered(3, (1_500, 2_000), 3_000 + number);
        }
        assert!(samples.bytes().len() <= 4 * SAMPLE_MAX);
        let kept = all(&samples);
        let counts = samples.counts();
        assert_eq!(counts.kept, kept.len() as u64);
        assert_eq!(counts.left_out, 1_000 - counts.kept);
        let first = kept[0];
        assert_eq!(
            (first.first_ns, first.due_ns, first.sent_ns),
            (500, 1_000, 2_000)
        );
        assert_eq!((first.key, first.answered_ns), (3, 0));
    }
}
