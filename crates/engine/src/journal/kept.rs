//! Answers of the service in this process that wait for the append-only file, as the replies of clients do.
//!
//! Whoever writes the file says whether answers wait for it, and how far it has got; [`Handle`] tells what an answer waits for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::{Engine, Handle};

/// Called when the file has got far enough; at most one for each connection.
type Wake = Box<dyn FnOnce() + Send>;

/// Who waits for what.
#[derive(Default)]
pub(crate) struct Kept {
    /// Answers wait for the file, if there is one.
    promised: AtomicBool,
    /// What was appended up to here may be answered.
    released: AtomicU64,
    waiting: Mutex<Vec<(u64, Wake)>>,
}

impl Engine {
    /// Whether what changes data is answered only when the append-only file has it on the disk.
    pub fn promise_log(&self, promised: bool) {
        let kept = &self.journal.kept;
        kept.promised.store(promised, Ordering::Release);
    }

    /// What was appended up to `position` may be answered.
    pub fn release_log(&self, position: u64) {
        let kept = &self.journal.kept;
        kept.released.fetch_max(position, Ordering::AcqRel);
        let released = kept.released.load(Ordering::Acquire);
        let mut waiting = kept.waiting.lock();
        let may_be_answered: Vec<(u64, Wake)> = waiting
            .extract_if(.., |(until, _)| *until <= released)
            .collect();
        drop(waiting);
        for (_, wake) in may_be_answered {
            wake();
        }
    }
}

impl Handle {
    /// Where the append-only file must be before what was decided so far may be answered; `None`: it may be at once.
    #[inline]
    pub fn kept_at(&self) -> Option<u64> {
        let engine = self.engine();
        let kept = &engine.journal.kept;
        if !kept.promised.load(Ordering::Relaxed) || !engine.keeps_log() {
            return None;
        }
        let appended = engine.journal.log.position();
        (appended > kept.released.load(Ordering::Acquire)).then_some(appended)
    }

    /// Has `wake` called when the file has got so far; false when it has already, and nothing is called.
    pub fn when_kept(&self, until: u64, wake: impl FnOnce() + Send + 'static) -> bool {
        let kept = &self.engine().journal.kept;
        let mut waiting = kept.waiting.lock();
        // Read under the lock, so that whoever releases afterwards finds the entry.
        if kept.released.load(Ordering::Acquire) >= until {
            return false;
        }
        waiting.push((until, Box::new(wake)));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::EngineConfig;

    #[test]
    fn answers_wait_until_the_file_has_what_they_tell_of() {
        let engine = Engine::new(EngineConfig::default());
        let handle = Handle::new(Arc::clone(&engine));
        let append = || {
            let check = crate::Check {
                key: b"k",
                algorithm: tollgate_limiter::AlgorithmKind::FixedWindowEpoch,
                quota: tollgate_limiter::Quota::new(1_000, 1_000_000_000),
                cost: tollgate_limiter::Cost(1),
                peek: false,
                exact: true,
            };
            let now = tollgate_limiter::Timestamp::from_nanos(1);
            handle.decide(&[check], now).expect("a free key");
        };
        // Without a file, or without the promise, nothing is waited for.
        engine.promise_log(true);
        append();
        assert_eq!(handle.kept_at(), None);
        engine.promise_log(false);
        engine.open_log();
        append();
        assert_eq!(handle.kept_at(), None);
        engine.promise_log(true);
        let first = handle.kept_at().expect("appended");
        append();
        let second = handle.kept_at().expect("appended");
        assert!(second > first);
        let woken = Arc::new(AtomicU64::new(0));
        for until in [first, second] {
            let woken = Arc::clone(&woken);
            assert!(handle.when_kept(until, move || {
                woken.fetch_add(1, Ordering::SeqCst);
            }));
        }
        engine.release_log(first);
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert!(!handle.when_kept(first, || panic!("it is there already")));
        engine.release_log(second);
        assert_eq!(woken.load(Ordering::SeqCst), 2);
        assert_eq!(handle.kept_at(), None);
    }
}
