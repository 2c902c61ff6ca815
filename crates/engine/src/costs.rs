//! Which calls have turned out to be long.
//!
//! A thread that runs a long command leaves its other connections waiting, so calls that may be long are better run
//! elsewhere, at the price of handing them over. Scripts, and a few commands whose work their words do not tell, are
//! remembered by what they are and judged by what they took: one that is not known is distrusted for a few runs, one that
//! was long for many. What counts is the processor time of the thread: where more threads want to run than there are
//! processors, a run that was interrupted takes milliseconds by the wall clock and is not long for that.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tollgate_keyspace::Seed;
use tollgate_net::Clock;

/// Places. Calls that share one are judged together, which costs a hand-over and nothing else.
const PLACES: usize = 4_096;

/// Nanoseconds from which a run is a long one: several times what handing it over costs.
const LONG_NANOS: i64 = 300_000;

/// Short runs after which a call that was not known is trusted.
const TRIALS: u8 = 8;

/// Short runs after which a call that was long is trusted again.
const PENANCE: u8 = 250;

/// What a call is remembered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u16);

impl Place {
    /// The place of a script with this digest, in hex.
    pub(crate) fn of_digest(sha: &[u8]) -> Place {
        let digit = |byte: &u8| u16::from(char::from(*byte).to_digit(16).unwrap_or(0) as u8);
        Place(
            sha.iter()
                .take(3)
                .fold(0, |place, byte| place << 4 | digit(byte)),
        )
    }
}

/// The judgements, shared by all threads and written only while they change.
pub(crate) struct Costs {
    seed: Seed,
    /// 0: not known. Else one more than the short runs that are still to come.
    places: Box<[AtomicU8; PLACES]>,
}

impl Costs {
    pub(crate) fn new(seed: &Seed) -> Costs {
        Costs {
            seed: seed.clone(),
            places: Box::new([const { AtomicU8::new(0) }; PLACES]),
        }
    }

    /// The place of a call that is told from others by these two texts.
    pub(crate) fn place(&self, kind: &[u8], name: &[u8]) -> Place {
        let hash = self.seed.hash(kind).rotate_left(1) ^ self.seed.hash(name);
        Place((hash as usize % PLACES) as u16)
    }

    /// Whether a run is to be expected to be short.
    #[inline]
    pub(crate) fn is_trusted(&self, place: Place) -> bool {
        self.places[usize::from(place.0)].load(Ordering::Relaxed) == 1
    }

    /// A run has taken so long. Runs at the same moment may count as one.
    #[inline]
    pub(crate) fn took(&self, place: Place, took: Took) {
        let slot = &self.places[usize::from(place.0)];
        let before = slot.load(Ordering::Relaxed);
        let after = match (took, before) {
            (Took::Processor(nanos), _) if nanos >= LONG_NANOS => PENANCE,
            // It may have been interrupted: those who run it next know better.
            (Took::Wall(nanos), _) if nanos >= LONG_NANOS => before.max(TRIALS),
            (_, 0) => TRIALS,
            (_, 1) => return,
            (_, more) => more - 1,
        };
        slot.store(after, Ordering::Relaxed);
    }
}

/// Nanoseconds of a run, and by which clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    /// Of the thread itself, which costs a system call to learn.
    Processor(i64),
    /// From start to end.
    Wall(i64),
}

/// The clock that times a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stopwatch {
    /// Started at this processor time.
    Processor(Duration),
    /// Started at this monotone time.
    Wall(i64),
}

impl Stopwatch {
    /// Starts for a run at `place`. A trusted one is timed the cheap way.
    pub(crate) fn start(costs: &Costs, place: Place) -> Stopwatch {
        match costs.is_trusted(place) {
            true => Stopwatch::Wall(Clock::monotone()),
            false => Stopwatch::Processor(Clock::of_thread()),
        }
    }

    pub(crate) fn stop(self) -> Took {
        match self {
            Stopwatch::Processor(started) => {
                let took = Clock::of_thread().saturating_sub(started);
                Took::Processor(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX))
            }
            Stopwatch::Wall(started) => Took::Wall(Clock::monotone() - started),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_comes_slowly_and_goes_at_once() {
        let costs = Costs::new(&Seed::new(1));
        let place = costs.place(b"script", b"sha");
        let short = |times: u8| (0..times).for_each(|_| costs.took(place, Took::Processor(1)));
        assert!(!costs.is_trusted(place));
        short(TRIALS - 1);
        assert!(!costs.is_trusted(place));
        short(1);
        assert!(costs.is_trusted(place));
        costs.took(place, Took::Processor(LONG_NANOS));
        short(PENANCE - 2);
        assert!(!costs.is_trusted(place));
        short(1);
        assert!(costs.is_trusted(place));
    }

    #[test]
    fn who_may_only_have_been_interrupted_is_tried_again() {
        let costs = Costs::new(&Seed::new(1));
        let place = costs.place(b"script", b"sha");
        costs.took(place, Took::Wall(LONG_NANOS));
        assert!(!costs.is_trusted(place));
        for left in (1..TRIALS).rev() {
            costs.took(place, Took::Processor(1));
            assert_eq!(costs.is_trusted(place), left == 1);
        }
        costs.took(place, Took::Wall(LONG_NANOS));
        assert!(!costs.is_trusted(place));
        // Who was long is not forgiven by a clock that knows less.
        costs.took(place, Took::Processor(LONG_NANOS));
        costs.took(place, Took::Wall(LONG_NANOS));
        (1..PENANCE - 1).for_each(|_| costs.took(place, Took::Processor(1)));
        assert!(!costs.is_trusted(place));
        costs.took(place, Took::Processor(1));
        assert!(costs.is_trusted(place));
    }

    #[test]
    fn every_digest_has_a_place() {
        assert_eq!(Place::of_digest(b"fffa"), Place(PLACES as u16 - 1));
        assert_eq!(Place::of_digest(b"0a0f"), Place(160));
    }

    #[test]
    fn calls_are_told_apart_by_both_texts() {
        let costs = Costs::new(&Seed::new(1));
        let names: Vec<_> = (0..100u32)
            .map(|number| costs.place(b"SORT", &number.to_le_bytes()).0)
            .collect();
        let mut different = names.clone();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 80);
    }
}
