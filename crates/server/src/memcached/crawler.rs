//! `lru_crawler`: walking through all items, some at a time, between the requests of others.
//!
//! Expired items go without being asked for, so `crawl` has nothing to do. The dumps are walks that stop for others whenever
//! they have filled an answer or looked at some buckets.

use super::dump::{CLASS, item_len};
use super::{Ran, State, WRITE_AT};
use crate::conn::{Conn, RespDriver};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tollgate_keyspace::{DbIndex, EntryRef};
use tollgate_limiter::Timestamp;
use tollgate_wire::memcached::{self, Classes, KEY_MAX, encode_base64, item_bytes};

/// Buckets for which a shard is locked.
const STEPS_AT_ONCE: usize = 64;
/// Buckets that are looked at before others come first.
const STEPS_PER_TURN: usize = 4_096;

/// What all threads share of the crawler.
#[derive(Debug, Default)]
pub(crate) struct Crawler {
    is_disabled: AtomicBool,
    is_busy: Arc<AtomicBool>,
}

impl Crawler {
    pub(super) fn is_enabled(&self) -> bool {
        !self.is_disabled.load(Ordering::Relaxed)
    }

    /// The right to walk, which one connection has at a time.
    fn take(&self) -> Option<Turn> {
        let was_busy = self.is_busy.swap(true, Ordering::AcqRel);
        (!was_busy).then(|| Turn(Arc::clone(&self.is_busy)))
    }
}

/// Given back when it is dropped, also with a connection that has gone.
#[derive(Debug)]
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A dump that goes on.
#[derive(Debug)]
pub(super) struct Dump {
    shard: usize,
    cursor: u64,
    _turn: Turn,
}

/// What stands in the line of an item.
#[derive(Clone, Copy)]
enum Form {
    /// Everything about it.
    Meta,
    /// A request for it.
    Get,
}

impl RespDriver {
    pub(super) fn crawl(
        &mut self,
        conn: &mut Conn,
        state: &mut State,
        wanted: memcached::Crawler,
    ) -> Ran {
        let crawler = &self.shared.memcached.crawler;
        let (classes, form) = match wanted {
            memcached::Crawler::Pace => return self.say("OK", false),
            memcached::Crawler::Enable => {
                let was_disabled = crawler.is_disabled.swap(false, Ordering::Relaxed);
                return match was_disabled {
                    true => self.say("OK", false),
                    false => self.say("ERROR failed to start lru crawler thread", false),
                };
            }
            memcached::Crawler::Disable => {
                crawler.is_disabled.store(true, Ordering::Relaxed);
                return self.say("OK", false);
            }
            memcached::Crawler::Crawl(classes) => (classes, None),
            memcached::Crawler::Metadump(classes) => (classes, Some(Form::Meta)),
            memcached::Crawler::Mgdump(classes) => (classes, Some(Form::Get)),
        };
        if state.dump.is_none() {
            if !crawler.is_enabled() {
                return self.say("CLIENT_ERROR lru crawler disabled", false);
            }
            if let Some(refusal) = refusal(classes, form) {
                return self.say(refusal, false);
            }
        }
        let Some(form) = form else {
            return self.say("OK", false);
        };
        self.dump(conn, state, classes, form)
    }

    /// Begins a dump, or goes on with it.
    fn dump(&mut self, conn: &mut Conn, state: &mut State, classes: Classes, form: Form) -> Ran {
        let mut dump = match state.dump.take() {
            Some(dump) => dump,
            None => {
                if !self.may_see_keys(conn) {
                    return Ran::Done;
                }
                let Some(turn) = self.shared.memcached.crawler.take() else {
                    return self.say("BUSY currently processing crawler request", false);
                };
                if matches!(form, Form::Get) {
                    self.say("OK", false);
                }
                Dump {
                    shard: if has_items(classes) { 0 } else { usize::MAX },
                    cursor: 0,
                    _turn: turn,
                }
            }
        };
        let engine = Arc::clone(&self.shared.engine);
        let Some(_look) = engine.look(&conn.session) else {
            state.dump = Some(dump);
            return Ran::PutOff;
        };
        let now = Timestamp::from_nanos(self.now);
        let mut steps = 0;
        let mut lines = Vec::new();
        while dump.shard < engine.shard_count() {
            if steps >= STEPS_PER_TURN || self.out.len() + lines.len() >= WRITE_AT {
                self.out.raw(&lines);
                state.dump = Some(dump);
                return Ran::Yield;
            }
            let mut show =
                |key: &[u8], entry: EntryRef<'_>| line(&mut lines, key, &entry, now, form);
            let (db, cursor) = (DbIndex::ZERO, dump.cursor);
            dump.cursor = engine.scan_some(dump.shard, db, cursor, STEPS_AT_ONCE, &mut show);
            if dump.cursor == 0 {
                dump.shard += 1;
            }
            steps += STEPS_AT_ONCE;
        }
        self.out.raw(&lines);
        self.say(
            match form {
                Form::Meta => "END",
                Form::Get => "EN",
            },
            false,
        )
    }
}

/// What is said to classes that cannot be walked through.
fn refusal(classes: Classes, form: Option<Form>) -> Option<&'static str> {
    match classes {
        Classes::Bad => Some("BADCLASS invalid class id"),
        Classes::Some { bits: 0 } => Some("NOTSTARTED no items to crawl"),
        Classes::Hash if form.is_none() => Some("ERROR an unknown error happened"),
        _ => None,
    }
}

/// Whether the class of all items is among them.
fn has_items(classes: Classes) -> bool {
    match classes {
        Classes::All | Classes::Hash => true,
        Classes::Some { bits } => bits & 1 << CLASS != 0,
        Classes::Bad => false,
    }
}

/// Writes the line of an entry, if that is an item.
fn line(lines: &mut Vec<u8>, key: &[u8], entry: &EntryRef<'_>, now: Timestamp, form: Form) {
    let Some(len) = item_len(entry, now) else {
        return;
    };
    match form {
        Form::Meta => {
            let mark = entry.mark();
            let expiry = entry.expires_at_ms().map_or(-1, |at| at.div_euclid(1_000));
            let used = now.secs() - entry.idle_secs(now.millis()) as i64;
            let fetched = if mark.fetched { "yes" } else { "no" };
            let (cas, size) = (mark.cas, item_bytes(key.len(), len, mark.flags));
            lines.extend_from_slice(b"key=");
            encode_uri(lines, key);
            // The end of the line is a single byte, as memcached's.
            let rest = format!(
                " exp={expiry} la={used} cas={cas} fetch={fetched} cls={CLASS} size={size}\n"
            );
            lines.extend_from_slice(rest.as_bytes());
        }
        // No request can ask for it.
        Form::Get if key.is_empty() || key.len() > KEY_MAX => {}
        Form::Get => {
            lines.extend_from_slice(b"mg ");
            match key.iter().any(|&byte| byte <= b' ' || byte == 0x7f) {
                true => {
                    encode_base64(key, lines);
                    lines.extend_from_slice(b" b\r\n");
                }
                false => {
                    lines.extend_from_slice(key);
                    lines.extend_from_slice(b"\r\n");
                }
            }
        }
    }
}

/// As in an address of the web: everything but letters, digits and `-._~` by its number.
fn encode_uri(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
}
