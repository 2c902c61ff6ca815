//! Handing keys over to another server: they stay locked until it is known who has them.

use tollgate_commands::{Reply, Run, resolve};
use tollgate_limiter::Timestamp;
use tollgate_persist::rdb::dump_value;
use tollgate_wire::resp::ReplyBuf;

use crate::call::Call;
use crate::cell::Cells;
use crate::held::with_held;
use crate::shards::LockSet;
use crate::{Engine, Session};

/// A key on its way to another server.
#[derive(Debug, Clone)]
pub struct Parcel<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its value as DUMP gives it.
    pub payload: Vec<u8>,
    /// When it expires, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
}

impl Engine {
    /// Locks `keys`, lets `send` send what is there of them in the order of `keys`, and removes those whose positions
    /// among the parcels it has added to its second argument. Nobody sees or changes the keys meanwhile; on a thread for
    /// long commands they are marked, so that nobody waits for them either. `None`: none of them is there, and `send` was
    /// not called.
    pub fn hand_over<R>(
        &self,
        session: &Session,
        keys: &[&[u8]],
        now: Timestamp,
        send: impl FnOnce(&[Parcel<'_>], &mut Vec<usize>) -> R,
    ) -> Option<R> {
        let hashed: Vec<_> = keys.iter().map(|key| self.seed.key(key)).collect();
        let wanted = self.shards_of_keys(&hashed);
        with_held(|held| match held {
            Some(held) => {
                for index in wanted {
                    held.acquire(index);
                }
                self.hand_over_held(session, keys, now, held, send)
            }
            None => {
                let mut held = match session.is_worker {
                    true => self.shards.keep_set(&wanted),
                    false => self.shards.lock_set(&wanted),
                };
                let sent = self.hand_over_held(session, keys, now, &mut held, send);
                self.settle(&mut held, now);
                sent
            }
        })
    }

    fn hand_over_held<R>(
        &self,
        session: &Session,
        keys: &[&[u8]],
        now: Timestamp,
        held: &mut LockSet<'_>,
        send: impl FnOnce(&[Parcel<'_>], &mut Vec<usize>) -> R,
    ) -> Option<R> {
        let mut parcels = Vec::new();
        for &key in keys {
            let hashed = self.seed.key(key);
            let cell = held.cell(hashed.shard(self.shards.count()));
            if let Some(entry) = cell.get(session.db, hashed, now.millis()) {
                parcels.push(Parcel {
                    key,
                    payload: dump_value(entry.value()),
                    expires_at_ms: entry.expires_at_ms(),
                });
            }
        }
        if parcels.is_empty() {
            return None;
        }
        let mut taken = Vec::new();
        let result = send(&parcels, &mut taken);
        if !taken.is_empty() {
            let mut words: Vec<&[u8]> = vec![b"DEL"];
            words.extend(taken.iter().map(|&at| parcels[at].key));
            self.remove_held(session, &words, now, held);
        }
        Some(result)
    }

    /// Runs DEL on keys whose shards are held.
    fn remove_held(
        &self,
        session: &Session,
        words: &[&[u8]],
        now: Timestamp,
        held: &mut LockSet<'_>,
    ) {
        let Ok(row) = resolve(words) else { return };
        let Run::Keys(handler) = row.run else { return };
        let call = Call::of_client(row, words, session, now);
        let mut out = ReplyBuf::new(session.protocol);
        let removed = self.run_held(handler, &call, held, &mut out);
        debug_assert!(matches!(removed, Ok(Reply::Int(_))));
    }
}
