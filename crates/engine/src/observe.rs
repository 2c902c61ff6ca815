//! What took long: the slow log, and the latency of events over time.
//!
//! Reading the clock twice costs as much as half a short command, so commands of constant cost, and those that cost what
//! they are given and are given little, are looked at only when the thresholds ask for times that they can reach; all
//! others always.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_commands::{Flags, Row};
use tollgate_limiter::Timestamp;

use crate::Session;
use crate::monitor::is_secret_of_migrate;

/// Words of a command that an entry keeps; the last one tells how many more there were.
const WORDS: usize = 32;
/// Bytes of a word that an entry keeps.
const WORD_LEN: usize = 128;
/// Below this threshold, in nanoseconds, short commands are timed as well.
const SHORT: i64 = 1_000_000;
/// What Redis shows as the address of a script, whose commands come from no connection.
const NO_ADDRESS: &[u8] = b"?:0";
/// Samples kept for each event.
const SAMPLES: usize = 160;

/// A command that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowEntry {
    /// Counted from 0 since the start.
    pub id: u64,
    /// Unix seconds.
    pub at_secs: i64,
    /// How long it took, microseconds.
    pub usec: i64,
    /// Its words, as far as they are kept.
    pub words: Vec<Box<[u8]>>,
    /// The client's address.
    pub address: Box<[u8]>,
    /// The client's name.
    pub name: Box<[u8]>,
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

#[derive(Debug, Default)]
struct SlowLog {
    entries: VecDeque<SlowEntry>,
    next_id: u64,
}

/// The slow log and the latency of events.
#[derive(Debug)]
pub struct Observer {
    /// Nanoseconds from which a command is slow; `i64::MAX` for never.
    slow_after: AtomicI64,
    /// Nanoseconds from which the latency of an event is kept; `i64::MAX` for never.
    latency_after: AtomicI64,
    /// Short commands are timed too.
    times_all: AtomicBool,
    slow_len: AtomicUsize,
    slow: Mutex<SlowLog>,
    latency: Mutex<BTreeMap<&'static str, LatencySeries>>,
}

impl Observer {
    pub(crate) fn new() -> Observer {
        Observer {
            slow_after: AtomicI64::new(10_000_000),
            latency_after: AtomicI64::new(i64::MAX),
            times_all: AtomicBool::new(false),
            slow_len: AtomicUsize::new(128),
            slow: Mutex::default(),
            latency: Mutex::default(),
        }
    }

    /// Microseconds from which a command is slow (`slowlog-log-slower-than`); negative for never.
    pub fn set_slow_after(&self, micros: i64) {
        let nanos = if micros < 0 {
            i64::MAX
        } else {
            micros.saturating_mul(1_000)
        };
        self.slow_after.store(nanos, Ordering::Relaxed);
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

    fn judge(&self) {
        self.times_all
            .store(self.threshold() < SHORT, Ordering::Relaxed);
    }

    fn threshold(&self) -> i64 {
        let slow = self.slow_after.load(Ordering::Relaxed);
        slow.min(self.latency_after.load(Ordering::Relaxed))
    }

    /// Sets how many slow commands are remembered (`slowlog-max-len`).
    pub fn set_slow_len(&self, most: usize) {
        self.slow_len.store(most, Ordering::Relaxed);
        lock(&self.slow).entries.truncate(most);
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
        if nanos < self.slow_after.load(Ordering::Relaxed) || row.name == "EXEC" {
            return;
        }
        let address = match session {
            Some(session) => session.client.as_ref().map(|client| client.address()),
            None => Some(NO_ADDRESS.to_vec()),
        };
        let mut log = lock(&self.slow);
        let entry = SlowEntry {
            id: log.next_id,
            at_secs: now.secs(),
            usec: nanos / 1_000,
            words: kept_words(row, words),
            address: address.unwrap_or_default().into(),
            name: session.map_or_else(Box::default, |session| session.name.clone()),
        };
        log.next_id += 1;
        log.entries.push_front(entry);
        log.entries.truncate(self.slow_len.load(Ordering::Relaxed));
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

    /// The newest slow commands, newest first.
    pub fn slow(&self, most: usize) -> Vec<SlowEntry> {
        lock(&self.slow)
            .entries
            .iter()
            .take(most)
            .cloned()
            .collect()
    }

    /// Slow commands remembered.
    pub fn slow_count(&self) -> usize {
        lock(&self.slow).entries.len()
    }

    /// Forgets the slow commands.
    pub fn reset_slow(&self) {
        lock(&self.slow).entries.clear();
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are added whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The words as an entry keeps them; those that may be passwords are blanked out.
fn kept_words(row: &Row, words: &[&[u8]]) -> Vec<Box<[u8]>> {
    let more = words.len().saturating_sub(WORDS);
    let whole = if more > 0 { WORDS - 1 } else { words.len() };
    let mut kept: Vec<Box<[u8]>> = words[..whole]
        .iter()
        .enumerate()
        .map(|(at, word)| match is_hidden(row, words, at) {
            true => (*b"(redacted)").into(),
            false => kept_word(word),
        })
        .collect();
    if more > 0 {
        let text = format!("... ({} more arguments)", more + 1);
        kept.push(text.into_bytes().into());
    }
    kept
}

fn kept_word(word: &[u8]) -> Box<[u8]> {
    if word.len() <= WORD_LEN {
        return word.into();
    }
    let tail = format!("... ({} more bytes)", word.len() - WORD_LEN);
    [&word[..WORD_LEN], tail.as_bytes()].concat().into()
}

/// Whether a word may be a password.
fn is_hidden(row: &Row, words: &[&[u8]], at: usize) -> bool {
    const SECRET: [&[u8]; 3] = [b"requirepass", b"masterauth", b"masteruser"];
    match row.name {
        "ACL|SETUSER" => at >= 2,
        "AUTH" => at >= 1,
        "MIGRATE" => is_secret_of_migrate(words, at),
        "HELLO" => {
            let behind = |back: usize| at > back && words[at - back].eq_ignore_ascii_case(b"AUTH");
            behind(1) || behind(2)
        }
        "CONFIG|SET" => {
            let named = |name: &[u8]| words[at - 1].eq_ignore_ascii_case(name);
            at >= 3 && at % 2 == 1 && SECRET.into_iter().any(named)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_commands::resolve;

    fn kept(line: &str) -> Vec<String> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let row = resolve(&words).expect("a command");
        let text = |word: Box<[u8]>| String::from_utf8_lossy(&word).into_owned();
        kept_words(row, &words).into_iter().map(text).collect()
    }

    #[test]
    fn many_and_long_words_are_trimmed() {
        let many = format!("mget{}", " k".repeat(40));
        let kept_many = kept(&many);
        assert_eq!(kept_many.len(), WORDS);
        assert_eq!(kept_many[WORDS - 1], "... (10 more arguments)");
        let long = format!("echo {}", "x".repeat(200));
        let expected = format!("{}... (72 more bytes)", "x".repeat(128));
        assert_eq!(kept(&long)[1], expected);
    }

    #[test]
    fn passwords_are_blanked_out() {
        assert_eq!(
            kept("acl setuser bob >secret"),
            ["acl", "setuser", "(redacted)", "(redacted)"]
        );
        assert_eq!(
            kept("config set timeout 1 requirepass x"),
            ["config", "set", "timeout", "1", "requirepass", "(redacted)"]
        );
    }

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
