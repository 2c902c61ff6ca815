//! What the strategies count.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_policy::HotKey;

/// Counters of all threads of a service. They are written where otherwise a store would be asked, so they may be shared.
#[derive(Debug, Default)]
pub(super) struct Stats {
    saved: [AtomicU64; HotKey::NAMES.len()],
    asked: [AtomicU64; HotKey::NAMES.len()],
    /// Sums written, failed to be written, and those that the store had no room for.
    pub(super) flushes: AtomicU64,
    pub(super) flush_errors: AtomicU64,
    pub(super) over_units: AtomicU64,
    pub(super) lost_units: AtomicU64,
    /// Units admitted and not yet written.
    pub(super) pending_units: AtomicU64,
}

/// Counts more.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Stats {
    /// A limit was decided without a question.
    pub(super) fn saved(&self, hot_key: HotKey) {
        add(&self.saved[hot_key.index()], 1);
    }

    /// The store was asked.
    pub(super) fn asked(&self, hot_key: HotKey) {
        add(&self.asked[hot_key.index()], 1);
    }
}

impl fmt::Display for Stats {
    /// In the form that Prometheus reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_strategy = [
            (
                "tollgate_hot_key_saved_total",
                "Decisions on single limits that were made without asking the store.",
                &self.saved,
            ),
            (
                "tollgate_hot_key_asked_total",
                "Requests to the store for limits with a strategy.",
                &self.asked,
            ),
        ];
        for (name, help, counters) in by_strategy {
            writeln!(f, "# HELP {name} {help}\n# TYPE {name} counter")?;
            for (strategy, counter) in HotKey::NAMES.iter().zip(counters).skip(1) {
                let count = counter.load(Ordering::Relaxed);
                writeln!(f, "{name}{{strategy=\"{strategy}\"}} {count}")?;
            }
        }
        let plain = [
            (
                "tollgate_hot_key_flushes_total",
                "counter",
                "Sums written to the store.",
                &self.flushes,
            ),
            (
                "tollgate_hot_key_flush_errors_total",
                "counter",
                "Sums that could not be written; they are retried.",
                &self.flush_errors,
            ),
            (
                "tollgate_hot_key_over_units_total",
                "counter",
                "Units that passed here but exceeded the limit at the store; they are charged as soon as there is room.",
                &self.over_units,
            ),
            (
                "tollgate_hot_key_lost_units_total",
                "counter",
                "Units that passed here and were never written: the store was unavailable for longer than they count, or until the service ended.",
                &self.lost_units,
            ),
            (
                "tollgate_hot_key_pending_units",
                "gauge",
                "Units that passed here and were not yet written when last checked.",
                &self.pending_units,
            ),
        ];
        for (name, kind, help, counter) in plain {
            let value = counter.load(Ordering::Relaxed);
            writeln!(
                f,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
            )?;
        }
        Ok(())
    }
}
