//! What took long or was large: the logs of commands, and the latency of events over time.
//!
//! Reading the clock twice costs as much as half a short command, so commands of constant cost, and those that cost what
//! they are given and are given little, are looked at only when the thresholds ask for times that they can reach; all
//! others always.

mod command_log;
mod hotkeys;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_commands::{Flags, Row};
use tollgate_limiter::Timestamp;
use tollgate_net::process::{self, CpuTime};

use crate::{Engine, Session};

pub use command_log::{CommandLog, LoggedCommand};
use hotkeys::HotKeySession;
pub use hotkeys::{HotKeyOptions, HotKeyReport, Spent};

/// Below this threshold, in nanoseconds, short commands are timed as well.
const SHORT: i64 = 1_000_000;
/// Samples kept for each event.
const SAMPLES: usize = 160;

/// Bytes from which a request or a reply is large, unless set otherwise.
const LARGE: i64 = 1 << 20;

/// A log of commands (COMMANDLOG of Valkey; `Slow` is the slow log of Redis).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Commands that took long; values are microseconds.
    Slow,
    /// Large requests; values are bytes.
    LargeRequest,
    /// Requests with large replies; values are bytes.
    LargeReply,
}

/// The longest time of an event within a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencySample {
    /// Unix seconds.
    pub at_secs: i64,
    /// Milliseconds.
    pub millis: i64,
}

/// Times of one event.
#[derive(Debug, Clone, Default)]
pub struct LatencySeries {
    /// The oldest first; there is always one.
    pub samples: VecDeque<LatencySample>,
    /// The longest ever, milliseconds.
    pub max: i64,
}

impl LatencySeries {
    fn add(&mut self, sample: LatencySample) {
        self.max = self.max.max(sample.millis);
        if let Some(last) = self.samples.back_mut()
            && last.at_secs == sample.at_secs
        {
            last.millis = last.millis.max(sample.millis);
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }
}

/// The logs of commands and the latency of events.
#[derive(Debug)]
pub struct Observer {
    /// One for each [`LogKind`].
    logs: [CommandLog; 3],
    /// Nanoseconds from which a command is slow; `i64::MAX` for never.
    slow_after: AtomicI64,
    /// Bytes from which a request or its reply may be large.
    large_from: AtomicI64,
    /// Nanoseconds from which the latency of an event is kept; `i64::MAX` for never.
    latency_after: AtomicI64,
    /// Short commands are timed too.
    times_all: AtomicBool,
    latency: Mutex<BTreeMap<&'static str, LatencySeries>>,
    /// Held to decide what is asked of commands: the last to decide has seen all that was set before.
    judging: Mutex<()>,
    /// With the processor time of this process at the start of the session.
    hot_keys: HotKeySession<CpuTime>,
}

impl Observer {
    pub(crate) fn new() -> Observer {
        Observer {
            logs: [
                CommandLog::new(10_000),
                CommandLog::new(LARGE),
                CommandLog::new(LARGE),
            ],
            slow_after: AtomicI64::new(10_000_000),
            large_from: AtomicI64::new(LARGE),
            latency_after: AtomicI64::new(i64::MAX),
            times_all: AtomicBool::new(false),
            latency: Mutex::default(),
            judging: Mutex::default(),
            hot_keys: HotKeySession::default(),
        }
    }

    /// One of the logs.
    pub fn log(&self, kind: LogKind) -> &CommandLog {
        &self.logs[kind as usize]
    }

    /// Sets the value, as that of an entry, from which a command is in a log; negative for never.
    pub fn set_log_from(&self, kind: LogKind, from: i64) {
        self.log(kind).set_from(from);
        match kind {
            LogKind::Slow => {
                let nanos = self.log(kind).from().saturating_mul(1_000);
                self.slow_after.store(nanos, Ordering::Relaxed);
            }
            LogKind::LargeRequest | LogKind::LargeReply => {}
        }
        self.judge();
    }

    /// Milliseconds from which the latency of an event is kept (`latency-monitor-threshold`); 0 for never.
    pub fn set_latency_after(&self, millis: i64) {
        let nanos = if millis == 0 {
            i64::MAX
        } else {
            millis.saturating_mul(1_000_000)
        };
        self.latency_after.store(nanos, Ordering::Relaxed);
        self.judge();
    }

    /// Decides what is asked of every command.
    fn judge(&self) {
        let _alone = self.judging.lock().unwrap_or_else(PoisonError::into_inner);
        let tracks = self.hot_keys.is_active();
        self.times_all
            .store(tracks || self.threshold() < SHORT, Ordering::Relaxed);
        let request = self.log(LogKind::LargeRequest).from();
        let large = request.min(self.log(LogKind::LargeReply).from());
        let from = if tracks { 0 } else { large };
        self.large_from.store(from, Ordering::Relaxed);
    }

    /// Begins to track hot keys (HOTKEYS of Redis). False when they are tracked already.
    pub fn track_hot_keys(&self, options: HotKeyOptions, now: Timestamp) -> bool {
        let started = self.hot_keys.start(options, process::cpu_time(), now);
        self.judge();
        started
    }

    /// Ends that; what was found stays. False when they are not tracked.
    pub fn stop_hot_keys(&self, now: Timestamp) -> bool {
        let ended = self.hot_keys.stop(now);
        self.judge();
        ended
    }

    /// Forgets what was found. False while they are tracked.
    pub fn forget_hot_keys(&self, now: Timestamp) -> bool {
        self.hot_keys.reset(now)
    }

    /// What was found so far, unless nothing was tracked or that is forgotten.
    pub fn hot_keys(&self, now: Timestamp) -> Option<HotKeyReport<CpuTime>> {
        let report = self.hot_keys.report(now);
        self.judge();
        report
    }

    fn threshold(&self) -> i64 {
        let slow = self.slow_after.load(Ordering::Relaxed);
        slow.min(self.latency_after.load(Ordering::Relaxed))
    }

    /// Whether the time of a call of so many words is asked for.
    #[inline]
    pub(crate) fn times(&self, row: &Row, words: usize) -> bool {
        row.may_be_long_with(words) || self.times_all.load(Ordering::Relaxed)
    }

    /// A command of a connection took `nanos`; without one it is a script's.
    #[inline]
    pub(crate) fn took(
        &self,
        row: &'static Row,
        session: Option<&Session>,
        words: &[&[u8]],
        nanos: u64,
        now: Timestamp,
    ) {
        if self.hot_keys.is_active()
            && let Some(session) = session
        {
            session.spent.set(Some(nanos));
        }
        let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
        if nanos >= self.threshold() {
            self.remember(row, session, words, nanos, now);
        }
    }

    #[cold]
    fn remember(
        &self,
        row: &'static Row,
        session: Option<&Session>,
        words: &[&[u8]],
        nanos: i64,
        now: Timestamp,
    ) {
        if nanos >= self.latency_after.load(Ordering::Relaxed) {
            let event = match row.flags.contains(Flags::FAST) {
                true => "fast-command",
                false => "command",
            };
            self.event_took(event, nanos / 1_000_000, now);
        }
        // What EXEC runs is there by itself.
        if nanos < self.slow_after.load(Ordering::Relaxed)
            || row.flags.contains(Flags::SKIP_SLOWLOG)
        {
            return;
        }
        let slow = self.log(LogKind::Slow);
        slow.add(row, session, words, nanos / 1_000, now);
    }

    /// Whether a command of so many bytes, or its reply of so many, may belong into a log.
    #[inline]
    fn may_be_large(&self, request: usize, reply: usize) -> bool {
        request.max(reply) as i64 >= self.large_from.load(Ordering::Relaxed)
    }

    /// Remembers a command of a connection if it or its reply is large.
    fn exchanged(
        &self,
        row: &'static Row,
        session: &Session,
        words: &[&[u8]],
        (request, reply): (usize, usize),
        now: Timestamp,
    ) {
        if row.flags.contains(Flags::SKIP_SLOWLOG) {
            return;
        }
        for (kind, bytes) in [
            (LogKind::LargeRequest, request),
            (LogKind::LargeReply, reply),
        ] {
            let log = self.log(kind);
            if bytes as i64 >= log.from() {
                log.add(row, Some(session), words, bytes as i64, now);
            }
        }
    }

    /// Something beside commands took `nanos`; it is kept if that is long enough.
    #[inline]
    pub fn cycle_took(&self, event: &'static str, nanos: i64, now: Timestamp) {
        if nanos >= self.latency_after.load(Ordering::Relaxed) {
            self.event_took(event, nanos / 1_000_000, now);
        }
    }

    /// An event took so long, in milliseconds, and that is long enough to be kept.
    fn event_took(&self, event: &'static str, millis: i64, now: Timestamp) {
        let sample = LatencySample {
            at_secs: now.secs(),
            millis,
        };
        lock(&self.latency).entry(event).or_default().add(sample);
    }

    /// Events with their times, by name.
    pub fn latency(&self) -> Vec<(&'static str, LatencySeries)> {
        let latency = lock(&self.latency);
        latency
            .iter()
            .map(|(name, series)| (*name, series.clone()))
            .collect()
    }

    /// Forgets an event, or all of them; returns how many were there.
    pub fn reset_latency(&self, event: Option<&[u8]>) -> usize {
        let mut latency = lock(&self.latency);
        let before = latency.len();
        latency.retain(|name, _| event.is_some_and(|event| event != name.as_bytes()));
        before - latency.len()
    }
}

impl Engine {
    /// Remembers a command that a connection has run if it or its reply is large; in bytes, as they are sent.
    #[inline]
    pub fn exchanged(
        &self,
        session: &Session,
        words: &[&[u8]],
        (request, reply): (usize, usize),
        now: Timestamp,
    ) {
        if self.observer.may_be_large(request, reply) {
            self.remember_exchange(session, words, (request, reply), now);
        }
    }

    #[cold]
    fn remember_exchange(
        &self,
        session: &Session,
        words: &[&[u8]],
        sizes: (usize, usize),
        now: Timestamp,
    ) {
        let Some(row) = self.find(words) else {
            return;
        };
        self.observer.exchanged(row, session, words, sizes, now);
        // Without it the command has not been run: it was refused, or queued.
        if let Some(nanos) = session.spent.take()
            && let Ok(keys) = self.keys_in(row, words)
        {
            let bytes = (sizes.0 + sizes.1) as u64;
            let hot_keys = &self.observer.hot_keys;
            if !hot_keys.add(&keys, Spent { nanos, bytes }, now) {
                hot_keys.end_in_time(now);
                self.observer.judge();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are added whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_second_are_one() {
        let observer = Observer::new();
        for (secs, millis) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            observer.event_took("command", millis, Timestamp::from_millis(secs * 1_000));
        }
        let series = &observer.latency()[0].1;
        assert_eq!((series.max, series.samples.len()), (9, 2));
        assert_eq!(observer.reset_latency(Some(b"nosuch")), 0);
        assert_eq!(observer.reset_latency(Some(b"command")), 1);
    }
}
