//! Counters of the connections, per thread, and what is derived from them over time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most error codes counted by name; scripts can make up more.
const ERROR_CODES: usize = 128;
/// Longest error code counted by name.
const ERROR_CODE_LEN: usize = 32;
/// Samples over which the instantaneous rates are taken.
const SAMPLES: usize = 16;

/// What a thread has done with its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Commands of clients.
    pub(crate) commands: u64,
    /// Bytes of commands.
    pub(crate) input: u64,
    /// Bytes of replies.
    pub(crate) output: u64,
    /// Wake-ups of connections with data.
    pub(crate) reads: u64,
    /// Replies handed to connections, of one or more commands each.
    pub(crate) writes: u64,
    /// Nanoseconds spent in the active expiry.
    pub(crate) expiry_nanos: u64,
}

/// A thread's published traffic; alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane {
    commands: AtomicU64,
    input: AtomicU64,
    output: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    expiry_nanos: AtomicU64,
}

/// Bytes that went between this server and others of its replication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReplicationBytes {
    /// From the master.
    pub(crate) input: u64,
    /// To replicas.
    pub(crate) output: u64,
}

/// Counters of the server.
#[derive(Debug)]
pub(crate) struct Metrics {
    lanes: Box<[Lane]>,
    /// What CONFIG RESETSTAT has taken off.
    baseline: Mutex<Traffic>,
    errors: Mutex<BTreeMap<Box<str>, u64>>,
    error_replies: AtomicU64,
    samples: Mutex<VecDeque<(i64, Traffic, ReplicationBytes)>>,
    used_peak: AtomicU64,
    pub(crate) expiry: Expiry,
    /// Bytes that have come from a master.
    pub(crate) from_master: AtomicU64,
    /// Commands of a master that could not be applied.
    pub(crate) unexpected_errors: AtomicU64,
}

/// What the rounds of the active expiry found.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    /// The bits of the smoothed share, in percent.
    stale_perc: AtomicU64,
    /// Rounds that ended for lack of time.
    cut_short: AtomicU64,
}

impl Expiry {
    /// Notes a round: of `examined` places `removed` held what had expired. Smoothed as Redis smooths it.
    pub(crate) fn note(&self, removed: usize, examined: usize, cut_short: bool) {
        let share = 100.0 * removed as f64 / examined.max(1) as f64;
        let smoothed = 0.05 * share + 0.95 * self.stale_perc();
        self.stale_perc.store(smoothed.to_bits(), Ordering::Relaxed);
        self.cut_short
            .fetch_add(u64::from(cut_short), Ordering::Relaxed);
    }

    /// The share of what was looked at that had expired.
    pub(crate) fn stale_perc(&self) -> f64 {
        f64::from_bits(self.stale_perc.load(Ordering::Relaxed))
    }

    pub(crate) fn cut_short(&self) -> u64 {
        self.cut_short.load(Ordering::Relaxed)
    }
}

/// Rates over the last samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rates {
    /// Commands per second.
    pub(crate) commands: u64,
    /// KiB per second.
    pub(crate) input_kb: f64,
    /// KiB per second.
    pub(crate) output_kb: f64,
    /// KiB per second from the master.
    pub(crate) repl_input_kb: f64,
    /// KiB per second to replicas.
    pub(crate) repl_output_kb: f64,
}

impl Metrics {
    pub(crate) fn new(threads: usize) -> Metrics {
        Metrics {
            lanes: (0..threads).map(|_| Lane::default()).collect(),
            baseline: Mutex::default(),
            errors: Mutex::default(),
            error_replies: AtomicU64::new(0),
            samples: Mutex::default(),
            used_peak: AtomicU64::new(0),
            expiry: Expiry::default(),
            from_master: AtomicU64::new(0),
            unexpected_errors: AtomicU64::new(0),
        }
    }

    /// Publishes a thread's traffic since its start.
    #[inline]
    pub(crate) fn publish(&self, thread: usize, traffic: &Traffic) {
        let lane = &self.lanes[thread];
        lane.commands.store(traffic.commands, Ordering::Relaxed);
        lane.input.store(traffic.input, Ordering::Relaxed);
        lane.output.store(traffic.output, Ordering::Relaxed);
        lane.reads.store(traffic.reads, Ordering::Relaxed);
        lane.writes.store(traffic.writes, Ordering::Relaxed);
        lane.expiry_nanos
            .store(traffic.expiry_nanos, Ordering::Relaxed);
    }

    fn total(&self) -> Traffic {
        let mut total = Traffic::default();
        for lane in &self.lanes {
            total.commands += lane.commands.load(Ordering::Relaxed);
            total.input += lane.input.load(Ordering::Relaxed);
            total.output += lane.output.load(Ordering::Relaxed);
            total.reads += lane.reads.load(Ordering::Relaxed);
            total.writes += lane.writes.load(Ordering::Relaxed);
            total.expiry_nanos += lane.expiry_nanos.load(Ordering::Relaxed);
        }
        total
    }

    /// Commands of all threads since the start.
    pub(crate) fn commands(&self) -> u64 {
        self.total().commands
    }

    /// The most memory in use that was seen, `used` included; in bytes.
    pub(crate) fn used_peak(&self, used: u64) -> u64 {
        self.used_peak.fetch_max(used, Ordering::Relaxed).max(used)
    }

    /// Traffic since the start or the last reset.
    pub(crate) fn traffic(&self) -> Traffic {
        self.total().since(&lock(&self.baseline))
    }

    /// Counts an error reply by its code.
    #[cold]
    pub(crate) fn error_reply(&self, line: &[u8]) {
        self.error_replies.fetch_add(1, Ordering::Relaxed);
        let end = line
            .iter()
            .position(|b| matches!(b, b' ' | b'\r' | b'\n'))
            .unwrap_or(line.len());
        let Ok(code) = std::str::from_utf8(&line[..end.min(ERROR_CODE_LEN)]) else {
            return;
        };
        let mut errors = lock(&self.errors);
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < ERROR_CODES {
            errors.insert(code.into(), 1);
        }
    }

    /// Error replies, and how many of each code.
    pub(crate) fn errors(&self) -> (u64, Vec<(Box<str>, u64)>) {
        let by_code = lock(&self.errors)
            .iter()
            .map(|(code, count)| (code.clone(), *count))
            .collect();
        (self.error_replies.load(Ordering::Relaxed), by_code)
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset(&self) {
        *lock(&self.baseline) = self.total();
        self.error_replies.store(0, Ordering::Relaxed);
        lock(&self.errors).clear();
        lock(&self.samples).clear();
        self.expiry.cut_short.store(0, Ordering::Relaxed);
        self.from_master.store(0, Ordering::Relaxed);
        self.unexpected_errors.store(0, Ordering::Relaxed);
    }

    /// Takes a sample for the rates; called about ten times a second while there is traffic, once a second otherwise.
    pub(crate) fn sample(&self, now: i64, replication: ReplicationBytes) {
        let mut samples = lock(&self.samples);
        if samples.len() == SAMPLES {
            samples.pop_front();
        }
        samples.push_back((now, self.total(), replication));
    }

    /// Rates over the samples taken.
    pub(crate) fn rates(&self, now: i64, replication: ReplicationBytes) -> Rates {
        let samples = lock(&self.samples);
        let Some((start, first, replicated)) = samples.front() else {
            return Rates::default();
        };
        let done = self.total().since(first);
        let seconds = (now - start).max(1) as f64 / 1e9;
        let kilobytes = |bytes: u64| bytes as f64 / 1024.0 / seconds;
        Rates {
            commands: (done.commands as f64 / seconds) as u64,
            input_kb: kilobytes(done.input),
            output_kb: kilobytes(done.output),
            repl_input_kb: kilobytes(replication.input.saturating_sub(replicated.input)),
            repl_output_kb: kilobytes(replication.output.saturating_sub(replicated.output)),
        }
    }
}

impl Traffic {
    fn since(&self, earlier: &Traffic) -> Traffic {
        Traffic {
            commands: self.commands.saturating_sub(earlier.commands),
            input: self.input.saturating_sub(earlier.input),
            output: self.output.saturating_sub(earlier.output),
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            expiry_nanos: self.expiry_nanos.saturating_sub(earlier.expiry_nanos),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counters are valid whatever a panic interrupted.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_takes_off_what_was_and_keeps_counting() {
        let metrics = Metrics::new(2);
        metrics.publish(
            0,
            &Traffic {
                commands: 5,
                ..Traffic::default()
            },
        );
        metrics.publish(
            1,
            &Traffic {
                commands: 7,
                ..Traffic::default()
            },
        );
        assert_eq!(metrics.traffic().commands, 12);
        metrics.reset();
        metrics.publish(
            1,
            &Traffic {
                commands: 9,
                ..Traffic::default()
            },
        );
        assert_eq!(metrics.traffic().commands, 2);
    }

    #[test]
    fn the_share_of_stale_keys_is_smoothed() {
        let expiry = Expiry::default();
        expiry.note(0, 0, false);
        assert_eq!((expiry.stale_perc(), expiry.cut_short()), (0.0, 0));
        expiry.note(50, 100, true);
        assert_eq!((expiry.stale_perc(), expiry.cut_short()), (2.5, 1));
        (0..1_000).for_each(|_| expiry.note(1, 4, false));
        assert!((expiry.stale_perc() - 25.0).abs() < 0.01);
    }

    #[test]
    fn errors_are_counted_by_code_up_to_a_bound() {
        let metrics = Metrics::new(1);
        metrics.error_reply(b"WRONGTYPE Operation against");
        metrics.error_reply(b"ERR\r\n");
        for i in 0..1_000 {
            metrics.error_reply(format!("CODE{i} x").as_bytes());
        }
        let (total, by_code) = metrics.errors();
        assert_eq!(total, 1_002);
        assert_eq!(by_code.len(), ERROR_CODES);
        assert!(by_code.contains(&("ERR".into(), 1)));
    }

    #[test]
    fn rates_are_taken_over_the_samples() {
        let metrics = Metrics::new(1);
        let replicated = |input, output| ReplicationBytes { input, output };
        assert_eq!(metrics.rates(0, replicated(0, 0)), Rates::default());
        metrics.sample(0, replicated(1_024, 0));
        metrics.publish(
            0,
            &Traffic {
                commands: 500,
                input: 2_048,
                ..Traffic::default()
            },
        );
        let rates = metrics.rates(2_000_000_000, replicated(3_072, 4_096));
        assert_eq!((rates.commands, rates.input_kb), (250, 1.0));
        assert_eq!((rates.repl_input_kb, rates.repl_output_kb), (1.0, 2.0));
    }
}
