//! What was refused lately, for ACL LOG.

use std::collections::VecDeque;

use super::check::DenialReason;

/// Refusals alike within this time count as one, in milliseconds.
const GROUPING_MS: i64 = 60_000;
/// Newest entries among which one alike is looked for.
const LOOKED_AT: usize = 10;

/// Where a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogContext {
    /// As a client sent it.
    TopLevel,
    /// In a transaction.
    Multi,
    /// In a script.
    Lua,
}

impl LogContext {
    /// As ACL LOG names it.
    pub const fn name(self) -> &'static str {
        match self {
            LogContext::TopLevel => "toplevel",
            LogContext::Multi => "multi",
            LogContext::Lua => "lua",
        }
    }
}

/// One refusal, or several alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// How many.
    pub count: u64,
    /// What was lacking.
    pub reason: DenialReason,
    /// Where.
    pub context: LogContext,
    /// The command, key, channel, or for a wrong password AUTH or HELLO.
    pub object: Box<[u8]>,
    /// Who was refused.
    pub user: Box<[u8]>,
    /// Unix milliseconds of the last one.
    pub at_ms: i64,
    /// The client of the last one, as CLIENT LIST describes it.
    pub client: Box<[u8]>,
}

impl LogEntry {
    fn is_alike(&self, other: &LogEntry) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && (self.at_ms - other.at_ms).abs() <= GROUPING_MS
            && self.object == other.object
            && self.user == other.user
    }
}

/// The newest refusals, newest first.
#[derive(Debug, Default)]
pub struct AclLog {
    entries: VecDeque<LogEntry>,
}

impl AclLog {
    /// Adds a refusal, or counts it with one alike; keeps at most `most` entries.
    pub fn add(&mut self, entry: LogEntry, most: usize) {
        let alike = self
            .entries
            .iter()
            .take(LOOKED_AT)
            .position(|known| known.is_alike(&entry));
        let newest = match alike.and_then(|at| self.entries.remove(at)) {
            Some(known) => LogEntry {
                count: known.count + 1,
                ..entry
            },
            None => entry,
        };
        self.entries.push_front(newest);
        self.entries.truncate(most);
    }

    /// The newest entries first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str, at_ms: i64) -> LogEntry {
        LogEntry {
            count: 1,
            reason: DenialReason::Command,
            context: LogContext::TopLevel,
            object: object.as_bytes().into(),
            user: (*b"u").into(),
            at_ms,
            client: Box::default(),
        }
    }

    #[test]
    fn refusals_alike_are_one_entry_that_comes_to_the_front() {
        let mut log = AclLog::default();
        for (object, at) in [("get", 0), ("set", 1), ("get", 2), ("get", 70_000)] {
            log.add(entry(object, at), 128);
        }
        let shown: Vec<_> = log
            .entries()
            .map(|it| {
                (
                    String::from_utf8_lossy(&it.object).into_owned(),
                    it.count,
                    it.at_ms,
                )
            })
            .collect();
        let expected = [
            ("get".to_owned(), 1, 70_000),
            ("get".to_owned(), 2, 2),
            ("set".to_owned(), 1, 1),
        ];
        assert_eq!(shown, expected);
        log.clear();
        assert_eq!(log.entries().len(), 0);
    }

    #[test]
    fn the_oldest_are_dropped() {
        let mut log = AclLog::default();
        for i in 0..5 {
            log.add(entry(&i.to_string(), i), 3);
        }
        assert_eq!(
            log.entries().map(|it| it.at_ms).collect::<Vec<_>>(),
            [4, 3, 2]
        );
        log.add(entry("x", 9), 0);
        assert_eq!(log.entries().len(), 0);
    }
}
