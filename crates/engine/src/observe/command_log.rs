//! The logs of commands: what took long, what was large, and what had a large reply.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_commands::Row;
use tollgate_limiter::Timestamp;

use crate::Session;
use crate::monitor::is_secret_of_migrate;

/// Words of a command that an entry keeps; the last one tells how many more there were.
const WORDS: usize = 32;
/// Bytes of a word that an entry keeps.
const WORD_LEN: usize = 128;
/// What Redis shows as the address of a script, whose commands come from no connection.
const NO_ADDRESS: &[u8] = b"?:0";

/// A command in one of the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCommand {
    /// Counted from 0 since the start.
    pub id: u64,
    /// Unix seconds.
    pub at_secs: i64,
    /// Why it is there: microseconds that it took, or bytes of it or of its reply.
    pub value: i64,
    /// Its words, as far as they are kept.
    pub words: Vec<Box<[u8]>>,
    /// The client's address.
    pub address: Box<[u8]>,
    /// The client's name.
    pub name: Box<[u8]>,
}

#[derive(Debug, Default)]
struct Entries {
    newest_first: VecDeque<LoggedCommand>,
    next_id: u64,
}

/// The newest commands of which something was more than a threshold.
#[derive(Debug)]
pub struct CommandLog {
    /// Values from which a command is kept; `i64::MAX` for never.
    from: AtomicI64,
    most: AtomicUsize,
    entries: Mutex<Entries>,
}

impl CommandLog {
    pub(super) fn new(from: i64) -> CommandLog {
        CommandLog {
            from: AtomicI64::new(from),
            most: AtomicUsize::new(128),
            entries: Mutex::default(),
        }
    }

    /// The threshold; negative for never.
    pub(super) fn set_from(&self, from: i64) {
        let from = if from < 0 { i64::MAX } else { from };
        self.from.store(from, Ordering::Relaxed);
    }

    pub(super) fn from(&self) -> i64 {
        self.from.load(Ordering::Relaxed)
    }

    /// Sets how many commands are remembered.
    pub fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
        self.lock().newest_first.truncate(most);
    }

    /// Remembers a command of a connection, or without one that of a script.
    pub(super) fn add(
        &self,
        row: &'static Row,
        session: Option<&Session>,
        words: &[&[u8]],
        value: i64,
        now: Timestamp,
    ) {
        let address = match session {
            Some(session) => session.client.as_ref().map(|client| client.address()),
            None => Some(NO_ADDRESS.to_vec()),
        };
        let mut entries = self.lock();
        let entry = LoggedCommand {
            id: entries.next_id,
            at_secs: now.secs(),
            value,
            words: kept_words(row, words),
            address: address.unwrap_or_default().into(),
            name: session.map_or_else(Box::default, |session| session.name.clone()),
        };
        entries.next_id += 1;
        entries.newest_first.push_front(entry);
        let most = self.most.load(Ordering::Relaxed);
        entries.newest_first.truncate(most);
    }

    /// The newest commands, newest first.
    pub fn newest(&self, most: usize) -> Vec<LoggedCommand> {
        let entries = self.lock();
        entries.newest_first.iter().take(most).cloned().collect()
    }

    /// Commands remembered.
    pub fn count(&self) -> usize {
        self.lock().newest_first.len()
    }

    /// Forgets them.
    pub fn reset(&self) {
        self.lock().newest_first.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Entries are added whole.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
}
