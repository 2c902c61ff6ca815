//! Large values that are gone: they are freed when no shard is locked, by a thread that serves no client.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate_keyspace::{Graves, Value};

use crate::Engine;

#[derive(Default)]
pub(crate) struct Garbage {
    values: Mutex<Vec<Value>>,
    /// Nobody has taken it upon them yet to free the values.
    unclaimed: AtomicBool,
    /// Values that are not freed yet, those being freed included.
    pending: AtomicUsize,
    freed: AtomicU64,
}

impl fmt::Debug for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Garbage")
            .field("pending", &self.pending)
            .field("freed", &self.freed)
            .finish_non_exhaustive()
    }
}

impl Garbage {
    #[cold]
    pub(crate) fn add(&self, mut values: Vec<Value>) {
        let mut all = self.values.lock();
        self.pending.fetch_add(values.len(), Ordering::Release);
        all.append(&mut values);
        self.unclaimed.store(true, Ordering::Release);
    }

    pub(crate) fn reset(&self) {
        self.freed.store(0, Ordering::Relaxed);
    }
}

impl Graves for Garbage {
    #[cold]
    fn bury(&self, value: Value) {
        self.add(vec![value]);
    }
}

impl Engine {
    /// Whether there are values for [`Engine::free_garbage`], which the caller now has to call.
    #[inline]
    pub fn claim_garbage(&self) -> bool {
        self.garbage.unclaimed.load(Ordering::Relaxed)
            && self.garbage.unclaimed.swap(false, Ordering::AcqRel)
    }

    /// Frees the values that are left.
    pub fn free_garbage(&self) {
        let values = std::mem::take(&mut *self.garbage.values.lock());
        let count = values.len();
        drop(values);
        self.garbage
            .freed
            .fetch_add(count as u64, Ordering::Relaxed);
        self.garbage.pending.fetch_sub(count, Ordering::Release);
    }

    /// Values that wait to be freed, and how many have been.
    pub fn lazily_freed(&self) -> (usize, u64) {
        (
            self.garbage.pending.load(Ordering::Acquire),
            self.garbage.freed.load(Ordering::Relaxed),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::NoNode;
    use crate::{EngineConfig, Session};
    use tollgate_limiter::Timestamp;
    use tollgate_wire::resp::ReplyBuf;

    fn run(engine: &Engine, command: &str, now_ms: i64) {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let now = Timestamp::from_millis(now_ms);
        let mut out = ReplyBuf::default();
        engine.execute(
            &mut Session::new(1, true),
            &words,
            now,
            &mut out,
            &mut NoNode,
        );
        assert!(!out.bytes().starts_with(b"-"), "{command}");
    }

    #[test]
    fn large_values_are_left_whatever_removes_them() {
        const START: i64 = 1_800_000_000_000;
        let members: Vec<String> = (0..5_000).map(|number| format!("m{number}")).collect();
        for removal in [
            &["DEL large"][..],
            &["UNLINK large"],
            &["SET large x"],
            &["SINTERSTORE large none"],
            &["SUNIONSTORE large small"],
            &["RENAME small large"],
            &["COPY small large REPLACE"],
            &["PEXPIRE large -1"],
            &["PEXPIRE large 10", "GET large"],
            &["PEXPIRE large 10", "SCAN 0"],
            &["PEXPIRE large 10", "active"],
        ] {
            let engine = Engine::new(EngineConfig {
                shards: 1,
                ..EngineConfig::default()
            });
            run(&engine, &format!("SADD large {}", members.join(" ")), START);
            run(&engine, "SADD small a b", START);
            for (step, command) in removal.iter().enumerate() {
                let now_ms = START + step as i64 * 100;
                match *command {
                    "active" => {
                        engine.expire_step(Timestamp::from_millis(now_ms), 100);
                    }
                    command => run(&engine, command, now_ms),
                }
            }
            assert_eq!(engine.lazily_freed().0, 1, "{removal:?}");
            assert!(engine.claim_garbage());
            engine.free_garbage();
            assert_eq!(engine.lazily_freed(), (0, 1));
            run(&engine, "DEL small large", START + 1_000);
            assert_eq!(engine.lazily_freed().0, 0, "what is small is freed at once");
        }
    }
}
