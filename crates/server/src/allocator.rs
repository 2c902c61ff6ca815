//! What the server asks of the program's allocator, which it does not know.

use crate::workers::Workers;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Resident memory beyond the data that may lie free, whatever their size.
const SPARE: u64 = 64 << 20;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Sets what gives free memory back to the system: that of the calling thread, and what others have no use for. The first
/// to ask stays; without it none is given back but by the allocator itself.
pub fn give_back_with(give_back: fn()) {
    GIVE_BACK.get_or_init(|| give_back);
}

/// Whether much of `resident` memory is not taken by `data`, both in bytes.
fn is_much_free(resident: u64, data: u64) -> bool {
    resident > data + data / 4 + SPARE
}

/// Gives back what is free when that is much, beside the threads that serve connections: it takes milliseconds for each
/// GiB. The allocator itself does so only when it is asked for memory, so not after a FLUSHALL with little to do.
pub(crate) fn give_back_when_much(resident: u64, data: u64, workers: &Workers) {
    if is_much_free(resident, data)
        && let Some(give_back) = GIVE_BACK.get()
    {
        // Without a worker it is tried again at the next look.
        workers.run(*give_back).ok();
    }
}

/// How often free memory was to be given back: each thread that serves connections holds some.
#[derive(Debug, Default)]
pub(crate) struct Purges(AtomicU64);

impl Purges {
    /// Has every thread give back in its next turn.
    pub(crate) fn ask(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives back what this thread has if it was asked for since `done`, which is brought up to date.
    pub(crate) fn follow(&self, done: &mut u64) {
        let asked = self.0.load(Ordering::Relaxed);
        if std::mem::replace(done, asked) != asked
            && let Some(give_back) = GIVE_BACK.get()
        {
            give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_data_and_a_spare_may_lie_free() {
        const GIB: u64 = 1 << 30;
        assert!(!is_much_free(SPARE, 0));
        assert!(is_much_free(SPARE + 1, 0));
        assert!(!is_much_free(GIB + GIB / 4, GIB));
        assert!(is_much_free(GIB + GIB / 2, GIB));
    }
}
