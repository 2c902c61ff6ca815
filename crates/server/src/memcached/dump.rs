//! `stats cachedump`: a look at some of the items.

use crate::conn::{Conn, RespDriver};
use tollgate_keyspace::{DbIndex, EntryRef, TypeName, ValueRef};
use tollgate_limiter::Timestamp;

/// What asks for the keys: who may not does not see them here either.
const SCAN: &[&[u8]] = &[b"SCAN", b"0"];

/// The class of all items: there are no slabs.
pub(super) const CLASS: u32 = 1;

/// Most bytes of items in one answer, as of memcached's.
const ANSWER_MAX: usize = 2 << 20;

/// Bytes of the value, if that is an item and has not expired.
pub(super) fn item_len(entry: &EntryRef<'_>, now: Timestamp) -> Option<usize> {
    let expires_at_ms = entry.expires_at_ms();
    if expires_at_ms.is_some_and(|at| now.millis() > at) || entry.type_name() != TypeName::String {
        return None;
    }
    match entry.value() {
        ValueRef::Bytes(bytes) => Some(bytes.len()),
        ValueRef::Int(int) => Some(int.to_string().len()),
        ValueRef::Limiter(_) | ValueRef::Object(_) => None,
    }
}

impl RespDriver {
    /// Whether the client may be shown all keys; if not, it is told.
    pub(super) fn may_see_keys(&mut self, conn: &mut Conn) -> bool {
        let engine = &self.shared.engine;
        let now = Timestamp::from_nanos(self.now);
        let plan = engine.plan(SCAN);
        let Err(error) = engine.may_run(&plan, &mut conn.session, SCAN, now) else {
            return true;
        };
        let mark = self.out.len();
        error.write(&mut self.out);
        self.refuse(mark);
        false
    }

    /// Shows items, at most `limit`, or as many as fit when that is 0.
    pub(super) fn dump_items(&mut self, conn: &mut Conn, class: u32, limit: u32) {
        if !self.may_see_keys(conn) {
            return;
        }
        let engine = &self.shared.engine;
        let now = Timestamp::from_nanos(self.now);
        let most = match limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let (mut lines, mut count) = (Vec::new(), 0);
        engine.for_each_shard(|shard| {
            let mut cursor = 0;
            while class == CLASS && count < most && lines.len() < ANSWER_MAX {
                // What has expired is passed over, not removed: an entry is then met once.
                cursor = shard.scan(DbIndex::ZERO, cursor, i64::MIN, &mut |key, entry| {
                    if count == most || lines.len() >= ANSWER_MAX {
                        return;
                    }
                    let Some(len) = item_len(&entry, now) else {
                        return;
                    };
                    let expiry = entry.expires_at_ms().map_or(0, |at| at.div_euclid(1_000));
                    lines.extend_from_slice(b"ITEM ");
                    lines.extend_from_slice(key);
                    lines.extend_from_slice(format!(" [{len} b; {expiry} s]\r\n").as_bytes());
                    count += 1;
                });
                if cursor == 0 {
                    break;
                }
            }
        });
        self.out.raw(&lines);
        self.out.raw(b"END\r\n");
    }
}
