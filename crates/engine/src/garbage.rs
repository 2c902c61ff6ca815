//! Large values that UNLINK has removed: they are freed when no shard is locked, by a thread that serves no client.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate_keyspace::Value;

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

impl Engine {
    /// Whether there are values for [`Engine::free_garbage`], which the caller now has to call.
    #[inline]
    pub fn claim_garbage(&self) -> bool {
        self.garbage.unclaimed.load(Ordering::Relaxed)
            && self.garbage.unclaimed.swap(false, Ordering::AcqRel)
    }

    /// Frees the values that UNLINK has left.
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
