//! `stats detail`: what was asked of the keys of each prefix, while somebody wants to know.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tollgate_wire::memcached::{Operation, Options, Style};
use tollgate_wire::resp::ReplyBuf;

/// Ends the prefix of a key.
pub(super) const DELIMITER: u8 = b':';

/// Most prefixes that are counted. They are the clients' to choose; keys of further ones are not counted.
const PREFIXES_MAX: usize = 8_192;

/// How often it was asked.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// The statistics of prefixes.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    counts: AtomicBool,
    uses: Mutex<BTreeMap<Box<[u8]>, Uses>>,
}

impl Prefixes {
    /// Whether requests count.
    pub(super) fn is_on(&self) -> bool {
        self.counts.load(Ordering::Relaxed)
    }

    pub(super) fn turn(&self, on: bool) {
        self.counts.store(on, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.all(BTreeMap::clear);
    }

    /// Notes a request about a key, as memcached does: numbers, `touch` and meta commands do not count.
    pub(super) fn note(&self, operation: Operation, options: &Options, key: &[u8], hit: bool) {
        if !self.is_on() || options.style == Style::Meta {
            return;
        }
        let change: fn(&mut Uses) = match operation {
            Operation::Get if hit => |uses| {
                uses.gets += 1;
                uses.hits += 1;
            },
            Operation::Get => |uses| uses.gets += 1,
            Operation::Store => |uses| uses.sets += 1,
            Operation::Delete => |uses| uses.deletes += 1,
            Operation::Arithmetic | Operation::Touch | Operation::Describe => return,
        };
        let Some(len) = key.iter().position(|&b| b == DELIMITER) else {
            return;
        };
        self.all(|all| {
            let is_full = all.len() >= PREFIXES_MAX;
            match all.get_mut(&key[..len]) {
                Some(uses) => change(uses),
                None if is_full => {}
                None => change(all.entry(key[..len].into()).or_default()),
            }
        });
    }

    /// Writes a line for each prefix.
    pub(super) fn write(&self, out: &mut ReplyBuf) {
        self.all(|all| {
            for (prefix, uses) in all.iter() {
                out.raw(b"PREFIX ");
                out.raw(prefix);
                let Uses {
                    gets,
                    hits,
                    sets,
                    deletes,
                } = uses;
                let counts = format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n");
                out.raw(counts.as_bytes());
            }
        });
    }

    fn all<T>(&self, f: impl FnOnce(&mut BTreeMap<Box<[u8]>, Uses>) -> T) -> T {
        f(&mut self.uses.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
