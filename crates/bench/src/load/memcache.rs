//! The memcached text protocol: requests, and answers cut out of the byte stream.
//!
//! Facts from memcached's `doc/protocol.txt`: keys of up to 250 bytes, one line per answer, `get` answers `VALUE`
//! blocks that end with `END`.

use super::tally::Verdict;
use super::workload::Rule;

/// Longest line of an answer, in bytes.
const LINE_MAX: usize = 2_048;
/// Longest value of an answer, in bytes: memcached's own default for an item.
const VALUE_MAX: usize = 1024 * 1024;
/// Expiry that `touch` sets, in seconds.
const TOUCH_S: u64 = 3_600;

/// What is asked of a memcached server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcacheAsk {
    /// A fixed window: the counter is added with the window as its expiry if it is not there, then `incr`. Both
    /// go in one write and have one answer, the counter.
    Counter(Rule),
    /// `get`.
    Get,
    /// `set` of a value of this many bytes.
    Set(usize),
    /// `incr` by 1.
    Incr,
    /// `touch`.
    Touch,
}

impl MemcacheAsk {
    /// Appends the request for `key`.
    pub(crate) fn write(self, out: &mut Vec<u8>, key: &str) {
        let text = match self {
            // memcached counts whole seconds of a coarse clock: an expiry of n ends after n-1 to n seconds. One
            // more, so that no window is shorter than the rule says.
            MemcacheAsk::Counter(rule) => format!(
                "add {key} 0 {} 1 noreply\r\n0\r\nincr {key} 1\r\n",
                rule.window_s.saturating_add(1)
            ),
            MemcacheAsk::Get => format!("get {key}\r\n"),
            MemcacheAsk::Set(length) => set(key, &"x".repeat(length)),
            MemcacheAsk::Incr => format!("incr {key} 1\r\n"),
            MemcacheAsk::Touch => format!("touch {key} {TOUCH_S}\r\n"),
        };
        out.extend_from_slice(text.as_bytes());
    }

    /// The request that must be sent once before, so that `key` is there; `None` where nothing must be.
    #[must_use]
    pub(crate) fn fill(self, key: &str, value_length: usize) -> Option<Vec<u8>> {
        match self {
            MemcacheAsk::Counter(_) | MemcacheAsk::Set(_) => None,
            MemcacheAsk::Incr => Some(set(key, "0").into_bytes()),
            MemcacheAsk::Get | MemcacheAsk::Touch => {
                Some(set(key, &"x".repeat(value_length)).into_bytes())
            }
        }
    }

    /// What a whole answer said.
    #[must_use]
    pub(crate) fn verdict(self, frame: &[u8]) -> Verdict {
        if is_error(frame) {
            return Verdict::Error;
        }
        let number = number(frame);
        let good = match self {
            MemcacheAsk::Counter(rule) => {
                return match number {
                    Some(count) if count <= rule.limit => Verdict::Allowed,
                    Some(_) => Verdict::Denied,
                    None => Verdict::Unexpected,
                };
            }
            MemcacheAsk::Get => frame.starts_with(b"VALUE ") || frame == b"END\r\n",
            MemcacheAsk::Set(_) => frame == b"STORED\r\n",
            MemcacheAsk::Incr => number.is_some(),
            MemcacheAsk::Touch => frame == b"TOUCHED\r\n",
        };
        if good {
            Verdict::Allowed
        } else {
            Verdict::Unexpected
        }
    }

    /// Short name for records and the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            MemcacheAsk::Counter(_) => "counter",
            MemcacheAsk::Get => "get",
            MemcacheAsk::Set(_) => "set",
            MemcacheAsk::Incr => "incr",
            MemcacheAsk::Touch => "touch",
        }
    }

    /// Title for tables.
    #[must_use]
    pub(crate) fn title(self) -> &'static str {
        match self {
            MemcacheAsk::Counter(_) => "memcached add+incr counter",
            MemcacheAsk::Get => "memcached get",
            MemcacheAsk::Set(_) => "memcached set",
            MemcacheAsk::Incr => "memcached incr",
            MemcacheAsk::Touch => "memcached touch",
        }
    }
}

fn set(key: &str, value: &str) -> String {
    format!("set {key} 0 0 {}\r\n{value}\r\n", value.len())
}

fn is_error(frame: &[u8]) -> bool {
    [&b"ERROR"[..], b"CLIENT_ERROR", b"SERVER_ERROR"]
        .iter()
        .any(|word| frame.starts_with(word))
}

fn number(frame: &[u8]) -> Option<u64> {
    let digits = frame.strip_suffix(b"\r\n")?;
    // A counter that got shorter keeps its length, with spaces behind.
    std::str::from_utf8(digits).ok()?.trim_end().parse().ok()
}

/// Words with which an answer of one line begins.
const WORDS: [&str; 12] = [
    "STORED",
    "NOT_STORED",
    "EXISTS",
    "NOT_FOUND",
    "END",
    "TOUCHED",
    "DELETED",
    "OK",
    "ERROR",
    "CLIENT_ERROR",
    "SERVER_ERROR",
    "VERSION",
];

/// Length of the first whole answer in `bytes`; `None` while it is incomplete.
pub(crate) fn answer_len(bytes: &[u8]) -> Result<Option<usize>, String> {
    let mut from = 0;
    loop {
        let rest = &bytes[from..];
        let Some(end) = rest.iter().position(|&b| b == b'\n') else {
            return if rest.len() > LINE_MAX {
                Err(format!("a line of more than {LINE_MAX} bytes"))
            } else {
                Ok(None)
            };
        };
        let Some(line) = rest[..end].strip_suffix(b"\r") else {
            return Err("a line that does not end with CR LF".into());
        };
        let mut words = line.split(|&b| b == b' ');
        let first = words.next().unwrap_or_default();
        if first != b"VALUE" {
            let known = WORDS.iter().any(|word| word.as_bytes() == first)
                || (!first.is_empty() && first.iter().all(u8::is_ascii_digit));
            return if !known || (from > 0 && line != b"END") {
                Err("not an answer of memcached".into())
            } else {
                Ok(Some(from + end + 1))
            };
        }
        let length = words
            .nth(2)
            .and_then(|word| std::str::from_utf8(word).ok()?.parse::<usize>().ok())
            .ok_or("a VALUE without a length")?;
        if length > VALUE_MAX || from > VALUE_MAX {
            return Err(format!("a value of more than {VALUE_MAX} bytes"));
        }
        let value_end = from + end + 1 + length;
        match bytes.get(value_end..value_end + 2) {
            Some(b"\r\n") => from = value_end + 2,
            Some(_) => return Err("a value that is longer than its length".into()),
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        limit: 2,
        window_s: 60,
    };

    #[test]
    fn answers_are_cut_at_their_ends() {
        for answer in [
            "STORED\r\n",
            "17\r\n",
            "NOT_FOUND\r\n",
            "END\r\n",
            "VALUE k 0 5\r\na\r\nb\n\r\nEND\r\n",
            "SERVER_ERROR out of memory storing object\r\n",
        ] {
            let bytes = answer.as_bytes();
            for end in 0..bytes.len() {
                assert_eq!(answer_len(&bytes[..end]), Ok(None), "{end} of {answer:?}");
            }
            let more = format!("{answer}12\r\n");
            assert_eq!(answer_len(more.as_bytes()), Ok(Some(bytes.len())));
        }
    }

    #[test]
    fn what_is_no_answer_says_why() {
        let long = "1".repeat(LINE_MAX + 1);
        for (bytes, says) in [
            ("+OK\r\n", "not an answer"),
            ("\r\n", "not an answer"),
            ("STORED\n", "CR LF"),
            ("VALUE k 0\r\n", "without a length"),
            ("VALUE k 0 99999999\r\n", "more than"),
            ("VALUE k 0 1\r\nabc\r\n", "longer than"),
            ("VALUE k 0 1\r\na\r\n17\r\n", "not an answer"),
            (long.as_str(), "line of more than"),
        ] {
            let error = answer_len(bytes.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{bytes:.40}: {error}");
        }
    }

    #[test]
    fn counters_decide_by_their_number() {
        let counter = MemcacheAsk::Counter(RULE);
        for (frame, verdict) in [
            ("1\r\n", Verdict::Allowed),
            ("2\r\n", Verdict::Allowed),
            ("3  \r\n", Verdict::Denied),
            ("NOT_FOUND\r\n", Verdict::Unexpected),
            ("SERVER_ERROR out of memory\r\n", Verdict::Error),
        ] {
            assert_eq!(counter.verdict(frame.as_bytes()), verdict, "{frame}");
        }
        let mut out = Vec::new();
        counter.write(&mut out, "k1");
        assert_eq!(out, b"add k1 0 61 1 noreply\r\n0\r\nincr k1 1\r\n");
        assert_eq!(
            MemcacheAsk::Touch.verdict(b"NOT_FOUND\r\n"),
            Verdict::Unexpected
        );
        assert_eq!(MemcacheAsk::Get.verdict(b"END\r\n"), Verdict::Allowed);
        assert_eq!(
            MemcacheAsk::Incr.fill("k", 3).unwrap(),
            b"set k 0 0 1\r\n0\r\n"
        );
    }
}
