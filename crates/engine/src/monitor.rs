//! MONITOR: connections that see every command of every other one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_commands::{Flags, NodeCommand, Row, Run};
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_net::clock::Clock;

use crate::subscriber::{Place, Subscriber};

/// The connections that monitor.
#[derive(Default)]
pub struct Monitors {
    list: Mutex<BTreeMap<u64, Arc<dyn Subscriber>>>,
    count: AtomicUsize,
}

impl Monitors {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<dyn Subscriber>>> {
        // Monitors are added and removed whole.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins showing commands to a connection.
    pub fn add(&self, who: Arc<dyn Subscriber>) {
        let mut list = self.lock();
        list.insert(who.id(), who);
        self.count.store(list.len(), Ordering::Relaxed);
    }

    /// Ends it.
    pub fn remove(&self, id: u64) {
        let mut list = self.lock();
        list.remove(&id);
        self.count.store(list.len(), Ordering::Relaxed);
    }

    /// Whether anybody monitors.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Shows a command; `source` is where it came from, as Redis prints it: an address or `lua`.
    #[cold]
    pub fn show(&self, row: &Row, db: DbIndex, source: &[u8], args: &[&[u8]]) {
        if row.flags.intersects(Flags::ADMIN.or(Flags::SKIP_MONITOR)) {
            return;
        }
        self.send(row, db, source, args);
    }

    /// Shows a script, which its flags hide from [`Monitors::show`]: its commands come behind it.
    #[cold]
    pub(crate) fn show_script(&self, row: &Row, db: DbIndex, source: &[u8], args: &[&[u8]]) {
        if matches!(row.run, Run::Script(_)) {
            self.send(row, db, source, args);
        }
    }

    fn send(&self, row: &Row, db: DbIndex, source: &[u8], args: &[&[u8]]) {
        let line: Arc<[u8]> = line(Clock::now(), row, db, source, args).into();
        for monitor in self.lock().values() {
            monitor.deliver(&line, Place::AfterReply);
        }
    }
}

/// `+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`.
fn line(now: i64, row: &Row, db: DbIndex, source: &[u8], args: &[&[u8]]) -> Vec<u8> {
    let micros = Timestamp::from_nanos(now).nanos() / 1_000;
    let head = format!(
        "+{}.{:06} [{} ",
        micros / 1_000_000,
        micros % 1_000_000,
        db.get()
    );
    let mut line = head.into_bytes();
    line.extend_from_slice(source);
    line.push(b']');
    for (at, word) in args.iter().enumerate() {
        line.push(b' ');
        if is_secret(row, args, at) {
            line.extend_from_slice(b"\"(redacted)\"");
        } else {
            quote(&mut line, word);
        }
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Whether a word is a name or password that nobody else is to see.
fn is_secret(row: &Row, args: &[&[u8]], at: usize) -> bool {
    match row.run {
        Run::Node(NodeCommand::Auth) => at > 0,
        Run::Node(NodeCommand::Hello) => {
            let is_auth = |at: usize| at >= 2 && args[at].eq_ignore_ascii_case(b"AUTH");
            at > 2 && is_auth(at - 1) || at > 3 && is_auth(at - 2)
        }
        Run::Node(NodeCommand::Migrate) => is_secret_of_migrate(args, at),
        _ => false,
    }
}

/// Whether a word of MIGRATE is a user or a password for the target.
pub(crate) fn is_secret_of_migrate(args: &[&[u8]], at: usize) -> bool {
    let mut option = 6;
    while let Some(word) = args.get(option) {
        let words = match &word.to_ascii_uppercase()[..] {
            b"AUTH" => 1,
            b"AUTH2" => 2,
            b"KEYS" => return false,
            _ => 0,
        };
        if (option + 1..=option + words).contains(&at) {
            return true;
        }
        option += 1 + words;
    }
    false
}

/// A word in quotes, as Redis' `sdscatrepr` writes it.
fn quote(line: &mut Vec<u8>, word: &[u8]) {
    line.push(b'"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x07 => line.extend_from_slice(b"\\a"),
            0x08 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_commands::lookup;

    fn shown(words: &[&[u8]]) -> String {
        let row = lookup(words[0]).expect("a command");
        let now = 1_700_000_000_000_123_456;
        let line = line(now, row, DbIndex::ZERO, b"127.0.0.1:5", words);
        String::from_utf8(line).expect("quoted text is ASCII")
    }

    #[test]
    fn lines_are_quoted_and_secrets_hidden() {
        let head = "+1700000000.000123 [0 127.0.0.1:5] ";
        assert_eq!(
            shown(&[b"set", b"a\"\\\n\r\t\x07\x08\x00\xff ~", b""]),
            format!("{head}\"set\" \"a\\\"\\\\\\n\\r\\t\\a\\b\\x00\\xff ~\" \"\"\r\n")
        );
        assert_eq!(
            shown(&[b"AUTH", b"name", b"secret"]),
            format!("{head}\"AUTH\" \"(redacted)\" \"(redacted)\"\r\n")
        );
        assert_eq!(
            shown(&[
                b"HELLO", b"3", b"auth", b"name", b"secret", b"SETNAME", b"x"
            ]),
            format!(
                "{head}\"HELLO\" \"3\" \"auth\" \"(redacted)\" \"(redacted)\" \"SETNAME\" \"x\"\r\n"
            )
        );
    }
}
