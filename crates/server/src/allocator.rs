//! What the server asks of the program's allocator, which it does not know.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Sets what gives free memory of the calling thread back to the system. The first to ask stays; without it none is given
/// back but by the allocator itself.
pub fn give_back_with(give_back: fn()) {
    GIVE_BACK.get_or_init(|| give_back);
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
