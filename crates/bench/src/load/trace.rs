//! Requests that were recorded somewhere else: which key each named, and when.
//!
//! A file has one request per line: the key, or a time in seconds, a tab, comma or space, and the key. Times only rise,
//! and either all lines have one or none. Empty lines and lines that begin with `#` are passed over. Keys are numbered in the order of
//! their first line, so that what is asked of a target never contains the recorded names.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Largest file, in bytes.
const FILE_MAX: u64 = 256 * 1024 * 1024;
/// Most requests kept: 12 bytes each.
const REQUESTS_MAX: usize = 8_000_000;
/// Most different keys.
const KEYS_MAX: usize = 1_000_000;
/// Longest line, in bytes.
const LINE_MAX: usize = 4_096;
/// Latest time, in seconds: far beyond those since the Unix epoch.
const TIME_MAX_S: f64 = 1e10;

/// A trace.
#[derive(PartialEq)]
pub struct Trace {
    name: String,
    keys: Vec<u32>,
    distinct: u32,
    /// Offsets from the first request in nanoseconds; empty without times.
    offsets_ns: Vec<u64>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({}, {} requests)", self.name, self.keys.len())
    }
}

impl Trace {
    /// Reads `path`. The trace lives to the end of the process: one is read per run, and every step replays it.
    pub(crate) fn load(path: &str) -> Result<&'static Trace, String> {
        let failed = |error: std::io::Error| format!("the trace {path}: {error}");
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        if size > FILE_MAX {
            return Err(format!(
                "the trace {path} has {} MiB, {} MiB are read at most: give a part of it",
                size >> 20,
                FILE_MAX >> 20
            ));
        }
        let trace = Trace::read(path, BufReader::new(file))
            .map_err(|why| format!("the trace {path}: {why}"))?;
        Ok(Box::leak(Box::new(trace)))
    }

    /// Reads a trace called `name` line by line.
    pub(crate) fn read(name: &str, mut input: impl BufRead) -> Result<Trace, String> {
        let mut trace = Trace {
            name: name.into(),
            keys: Vec::new(),
            distinct: 0,
            offsets_ns: Vec::new(),
        };
        let (mut numbers, mut first_s) = (HashMap::new(), None);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            let mut bounded = std::io::Read::take(&mut input, LINE_MAX as u64 + 1);
            let read = bounded.read_until(b'\n', &mut line);
            if read.map_err(|error| error.to_string())? == 0 {
                break;
            }
            number += 1;
            if line.len() > LINE_MAX {
                return Err(format!("line {number} has more than {LINE_MAX} bytes"));
            }
            let text = line.trim_ascii();
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            let (time_s, key) = split(text);
            trace
                .push(&mut numbers, &mut first_s, time_s, key)
                .map_err(|why| format!("line {number}: {why}"))?;
        }
        match (trace.keys.len(), trace.offsets_ns.last()) {
            (0, _) => Err("it has no request".into()),
            (_, Some(0)) => Err("all its times are the same".into()),
            _ => Ok(trace),
        }
    }

    fn push(
        &mut self,
        numbers: &mut HashMap<Vec<u8>, u32>,
        first_s: &mut Option<f64>,
        time_s: Option<f64>,
        key: &[u8],
    ) -> Result<(), String> {
        if self.keys.len() == REQUESTS_MAX {
            return Err(format!(
                "more than {REQUESTS_MAX} requests: give a part of it"
            ));
        }
        if !self.keys.is_empty() && time_s.is_some() == self.offsets_ns.is_empty() {
            return Err("some lines have a time and some have none".into());
        }
        if let Some(time_s) = time_s {
            let offset_s = time_s - *first_s.get_or_insert(time_s);
            let offset_ns = (offset_s * 1e9) as u64;
            let before = self.offsets_ns.last().copied().unwrap_or(0);
            if offset_s < 0.0 || offset_ns < before {
                return Err("its time is before that of the line above".into());
            }
            self.offsets_ns.push(offset_ns);
        }
        let key = match numbers.get(key) {
            Some(number) => *number,
            None if numbers.len() == KEYS_MAX => {
                return Err(format!("more than {KEYS_MAX} different keys"));
            }
            None => {
                let number = self.distinct;
                numbers.insert(key.to_vec(), number);
                self.distinct += 1;
                number
            }
        };
        self.keys.push(key);
        Ok(())
    }

    /// Its file, as given.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Different keys.
    #[must_use]
    pub(crate) fn distinct(&self) -> u32 {
        self.distinct
    }

    /// Whether requests have times.
    #[must_use]
    pub(crate) fn is_timed(&self) -> bool {
        !self.offsets_ns.is_empty()
    }

    /// Mean rate in requests per second; `None` without times.
    #[must_use]
    pub(crate) fn rate_rps(&self) -> Option<f64> {
        self.is_timed()
            .then(|| self.keys.len() as f64 * 1e9 / self.span_ns())
    }

    /// The key of request `number`; after the last request the first one comes again.
    #[inline]
    #[must_use]
    pub(crate) fn key(&self, number: u64) -> u32 {
        self.keys[(number % self.keys.len() as u64) as usize]
    }

    /// Nanoseconds from the first request to request `number`, again and again from the start; 0 without times.
    #[must_use]
    pub(crate) fn offset_ns(&self, number: u64) -> f64 {
        if !self.is_timed() {
            return 0.0;
        }
        let count = self.keys.len() as u64;
        let rounds = (number / count) as f64;
        rounds * self.span_ns() + self.offsets_ns[(number % count) as usize] as f64
    }

    /// One round: the last time and a gap of mean length, so that the next round does not begin at its last request.
    fn span_ns(&self) -> f64 {
        let last = self.offsets_ns.last().copied().unwrap_or(0) as f64;
        let gaps = self.offsets_ns.len().saturating_sub(1).max(1) as f64;
        last + last / gaps
    }
}

/// A time, if the line begins with one, and the key.
fn split(line: &[u8]) -> (Option<f64>, &[u8]) {
    let Some(at) = line.iter().position(|b| b"\t, ".contains(b)) else {
        return (None, line);
    };
    let time = std::str::from_utf8(&line[..at])
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|time| time.is_finite() && time.abs() <= TIME_MAX_S);
    match time {
        Some(time) => (Some(time), line[at + 1..].trim_ascii()),
        None => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Trace, String> {
        Trace::read("t", text.as_bytes())
    }

    #[test]
    fn keys_are_numbered_and_come_again() {
        let trace = read("# users\nann\nbob\n\nann\ncy d\n").unwrap();
        assert_eq!((trace.distinct(), trace.is_timed()), (3, false));
        let keys: Vec<u32> = (0..8).map(|number| trace.key(number)).collect();
        assert_eq!(keys, [0, 1, 0, 2, 0, 1, 0, 2]);
        assert_eq!(trace.rate_rps(), None);
    }

    #[test]
    fn times_are_relative_to_the_first() {
        let trace = read("100.5\tann\n100.5,bob\n101.5 ann\n").unwrap();
        assert_eq!(trace.distinct(), 2);
        let offsets: Vec<f64> = (0..4).map(|number| trace.offset_ns(number)).collect();
        assert_eq!(offsets, [0.0, 0.0, 1e9, 1.5e9]);
        assert_eq!(trace.rate_rps(), Some(2.0));
    }

    #[test]
    fn what_is_no_trace_says_why() {
        let long = "k".repeat(LINE_MAX + 1);
        for (text, says) in [
            ("", "no request"),
            ("# nothing\n\n", "no request"),
            ("1 a\nb\n", "line 2: some lines have a time"),
            ("a\n1 b\n", "line 2: some lines have a time"),
            ("2 a\n1 b\n", "line 2: its time is before"),
            ("1 a\n1 b\n", "all its times are the same"),
            (long.as_str(), "line 1 has more than"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text:.20}: {error}");
        }
        assert!(
            Trace::load("/no/such/trace")
                .unwrap_err()
                .contains("/no/such/trace")
        );
    }
}
