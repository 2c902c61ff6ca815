//! Counters that the progress line reads while the generator runs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::seconds::Bucket;

/// Written by the generator once per wake-up, read by the progress line ten times a second.
#[derive(Debug, Default)]
pub struct Live {
    planned: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    in_flight: AtomicU64,
    /// The last second that has passed, until it is taken.
    second: Mutex<Option<Bucket>>,
    watched: Vec<u32>,
}

/// One look at the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Glance {
    /// Requests that have come due.
    pub planned: u64,
    /// Answers received.
    pub answered: u64,
    /// Failures so far.
    pub failed: u64,
    /// Requests waiting or on the wire.
    pub in_flight: u64,
}

impl Live {
    /// Counters of a run that reads the processor time of processes `pids` once all connections are up and again after
    /// the last answer.
    #[must_use]
    pub fn watching(pids: Vec<u32>) -> Live {
        Live {
            watched: pids,
            ..Live::default()
        }
    }

    /// The processes whose processor time is read.
    #[must_use]
    pub(crate) fn watched(&self) -> &[u32] {
        &self.watched
    }

    /// Publishes the counters.
    pub(crate) fn publish(&self, glance: Glance) {
        self.planned.store(glance.planned, Ordering::Relaxed);
        self.answered.store(glance.answered, Ordering::Relaxed);
        self.failed.store(glance.failed, Ordering::Relaxed);
        self.in_flight.store(glance.in_flight, Ordering::Relaxed);
    }

    /// Publishes a second that has passed. The generator never waits for who reads: a second that is being taken at this
    /// very moment keeps its place.
    pub(crate) fn pass(&self, second: &Bucket) {
        if let Ok(mut slot) = self.second.try_lock() {
            *slot = Some(second.clone());
        }
    }

    /// The last second that has passed, if it was not taken before.
    #[must_use]
    pub(crate) fn take_second(&self) -> Option<Bucket> {
        self.second.lock().ok()?.take()
    }

    /// Reads them. The four may be from neighbouring wake-ups.
    #[must_use]
    pub(crate) fn glance(&self) -> Glance {
        Glance {
            planned: self.planned.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
        }
    }
}
