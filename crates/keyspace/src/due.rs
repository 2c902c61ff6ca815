//! The hashes of a table that have fields with an expiry, in the order in which their next field expires.
//!
//! Exact: a key stands here once, with the time its hash gives now, and is gone when the hash is. So the order costs
//! memory only for such hashes, and what is due is found without a walk.

use std::collections::BTreeSet;

/// Bytes that an entry is taken to occupy besides its key: tree and allocation.
const ENTRY: usize = 48;

/// Keys by the time at which the next field of their hash expires.
#[derive(Default)]
pub(crate) struct Due {
    order: BTreeSet<(i64, Box<[u8]>)>,
}

impl Due {
    /// Notes that the next expiry of the hash at `key` was `before` and is `after`. Returns by how many bytes the memory
    /// in use changed.
    pub(crate) fn changed(&mut self, key: &[u8], before: Option<i64>, after: Option<i64>) -> isize {
        let bytes = (ENTRY + key.len()) as isize;
        let mut change = 0;
        let mut entry: Box<[u8]> = key.into();
        if let Some(at) = before {
            let old = (at, entry);
            change -= if self.order.remove(&old) { bytes } else { 0 };
            entry = old.1;
        }
        if let Some(at) = after {
            change += if self.order.insert((at, entry)) {
                bytes
            } else {
                0
            };
        }
        change
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The key whose hash has a field that expired before `now_ms`, the earliest such.
    pub(crate) fn first(&self, now_ms: i64) -> Option<&[u8]> {
        let (at, key) = self.order.first()?;
        (now_ms > *at).then_some(key)
    }
}
