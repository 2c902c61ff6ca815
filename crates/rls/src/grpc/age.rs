//! How long connections last: those of a fleet behind a balancer are to be dealt out anew now and then.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long connections of gRPC last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionAge {
    /// After that the peer is asked to send no more calls, a tenth earlier or later, so that connections that came together
    /// do not go together.
    pub age: Duration,
    /// How long calls under way may take from then on; `None`: as long as they do.
    pub grace: Option<Duration>,
}

/// The times of one connection, from when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) leaves: Duration,
    pub(super) ends: Option<Duration>,
}

impl Life {
    /// Those of a connection that comes now.
    pub(super) fn new(age: ConnectionAge) -> Life {
        Life::at(age, RandomState::new().hash_one(()))
    }

    fn at(age: ConnectionAge, random: u64) -> Life {
        const STEPS: u32 = 1_000;
        let tenth = age.age / 10;
        let share = tenth / STEPS * (random % u64::from(2 * STEPS + 1)) as u32;
        let leaves = (age.age - tenth).saturating_add(share);
        Life {
            leaves,
            ends: age.grace.map(|grace| leaves.saturating_add(grace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_differ_by_a_tenth_at_most() {
        let age = ConnectionAge {
            age: Duration::from_secs(100),
            grace: Some(Duration::from_secs(7)),
        };
        let leaves = |random| Life::at(age, random).leaves.as_secs();
        assert_eq!([leaves(0), leaves(1_000), leaves(2_000)], [90, 100, 110]);
        for random in 0..10_000 {
            let life = Life::at(age, random);
            assert!((90..=110).contains(&life.leaves.as_secs()));
            assert_eq!(life.ends, Some(life.leaves + Duration::from_secs(7)));
        }
        let longest = ConnectionAge {
            age: Duration::MAX,
            grace: Some(Duration::MAX),
        };
        assert_eq!(Life::at(longest, u64::MAX).ends, Some(Duration::MAX));
    }
}
