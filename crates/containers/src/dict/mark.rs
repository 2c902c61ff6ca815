//! How far a scan has come.

use std::sync::atomic::{AtomicU64, Ordering};

/// The cursor that was told last, and the position that the scan has reached by now: as entries below it are removed, those
/// that are still to come become fewer. There is none if both are 0.
///
/// A scan that comes with the same cursor, but was told it earlier, may use the mark too: whatever has come to lie between
/// the mark and the cursor was above the cursor before, where it had returned all that it must.
///
/// Both in one word, because a scan only reads its set, on whatever thread.
#[derive(Debug, Default)]
pub(super) struct Mark(AtomicU64);

impl Mark {
    fn get(&self) -> (u32, u32) {
        let both = self.0.load(Ordering::Relaxed);
        ((both >> 32) as u32, both as u32)
    }

    fn set(&self, told: u32, at: u32) {
        let both = u64::from(told) << 32 | u64::from(at);
        self.0.store(both, Ordering::Relaxed);
    }

    /// A scan was told to come with this cursor; 0: it has ended.
    pub(super) fn tell(&self, cursor: usize) {
        let cursor = u32::try_from(cursor).unwrap_or(0);
        self.set(cursor, cursor);
    }

    /// The position that a scan with this cursor has reached; `None` if it begins.
    pub(super) fn reached(&self, cursor: u64) -> Option<usize> {
        let (told, at) = self.get();
        match cursor {
            0 => None,
            _ if cursor == u64::from(told) => Some(at as usize),
            _ => Some(usize::try_from(cursor).unwrap_or(usize::MAX)),
        }
    }

    /// The position that an entry to be removed is to have.
    #[inline]
    pub(super) fn gap(&self, at: usize) -> usize {
        let (_, reached) = self.get();
        at.max((reached as usize).saturating_sub(1))
    }

    /// The entry at this position was removed, and the last one may have taken its place; `len` are left.
    #[inline]
    pub(super) fn removed(&self, at: usize, len: usize) {
        let (told, reached) = self.get();
        if at + 1 == reached as usize {
            self.set(told, reached - 1);
        } else if len < reached as usize {
            self.set(told, len as u32);
        }
    }
}

impl Clone for Mark {
    fn clone(&self) -> Mark {
        Mark(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}
