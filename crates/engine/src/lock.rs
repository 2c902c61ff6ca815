//! The lock of a shard: taken in one atomic step, released by a plain store.
//!
//! A lock that keeps a queue of sleepers must ask for them in one step with each release, which costs as much as taking
//! it. Locks are a tenth of a short command on a pipeline, so this one keeps no queue: who cannot have it soon sleeps for
//! some time and looks again. Shards are held for microseconds; long commands, which hold them for longer, mark what
//! they hold, and event loops keep away from it.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_net::threads;

/// Looks at a lock that is held before the processor is given to others: a few commands' time.
const SPINS: u32 = 100;
/// Times that the processor is given to others before sleeping.
const YIELDS: u32 = 4;
/// The first sleep; each further one is twice as long, up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);

/// A value that one thread at a time may use. The value stands right behind the lock itself.
#[repr(C)]
pub(crate) struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a guard, of which there is one at a time; `T: Send` lets it be used by any
// thread.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The right to use the value, until it is dropped. It is as an exclusive reference to it.
pub(crate) struct Guard<'l, T> {
    lock: &'l Lock<T>,
    value: PhantomData<&'l mut T>,
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        match self.lock_unless(|| false) {
            Some(guard) => guard,
            None => unreachable!("it never gives up"),
        }
    }

    /// Waits for the lock until it `gives_up`.
    #[inline]
    pub(crate) fn lock_unless(&self, gives_up: impl Fn() -> bool) -> Option<Guard<'_, T>> {
        match self.try_lock() {
            Some(guard) => Some(guard),
            None => self.wait(gives_up),
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let free = self
            .held
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // Made only now: a guard that is dropped frees the lock.
        match free {
            Ok(_) => Some(Guard {
                lock: self,
                value: PhantomData,
            }),
            Err(_) => None,
        }
    }

    #[cold]
    fn wait(&self, gives_up: impl Fn() -> bool) -> Option<Guard<'_, T>> {
        let (mut yields, mut pause) = (0, SHORTEST);
        loop {
            for _ in 0..SPINS {
                // Looked at first: trying would take the line away from the holder.
                if !self.held.load(Ordering::Relaxed)
                    && let Some(guard) = self.try_lock()
                {
                    return Some(guard);
                }
                std::hint::spin_loop();
            }
            if gives_up() {
                return None;
            }
            if yields < YIELDS {
                yields += 1;
                std::thread::yield_now();
            } else {
                threads::stand_still(pause);
                pause = LONGEST.min(pause * 2);
            }
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one, and nobody reaches the value without.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Whoever takes the lock next sees all that was done under it.
        self.lock.held.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        const THREADS: u64 = 8;
        const TIMES: u64 = if cfg!(miri) { 50 } else { 5_000 };
        let lock = Arc::new(Lock::new((0u64, 0u64)));
        let work = |lock: Arc<Lock<(u64, u64)>>| {
            for _ in 0..TIMES {
                let mut pair = lock.lock();
                assert_eq!(pair.0, pair.1);
                pair.0 += 1;
                if pair.0.is_multiple_of(512) {
                    // Longer than others spin.
                    thread::sleep(SHORTEST);
                }
                pair.1 += 1;
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || work(lock))
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(*lock.lock(), (THREADS * TIMES, THREADS * TIMES));
    }

    #[test]
    fn what_is_held_is_not_given_twice() {
        let lock = Lock::new(1);
        let guard = lock.try_lock().expect("it is free");
        assert!(lock.try_lock().is_none());
        drop(guard);
        *lock.try_lock().expect("it is free again") += 1;
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn a_panic_frees_the_lock() {
        let lock = Arc::new(Lock::new(0));
        let other = Arc::clone(&lock);
        let ended = thread::spawn(move || {
            let _guard = other.lock();
            panic!("on purpose");
        })
        .join();
        assert!(ended.is_err());
        assert_eq!(*lock.lock(), 0);
    }
}
