//! Wall clock that never steps back.
//!
//! A limiter that sees time go back would hold its keys for as long as the step; one that ignores the wall clock
//! would drift from every other machine. So: monotone time plus an offset. A step forward of the wall clock is
//! adopted at once. A step back is absorbed by running up to ten percent slow until both agree again, which can only
//! under-admit. Within a thread time never decreases. While a step back is being absorbed two threads may
//! differ by `MAX_SLEW_STEP`.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// How far the offset may fall at once, in nanoseconds.
pub(crate) const MAX_SLEW_STEP: i64 = 1_000_000;
/// How much monotone time passes between two comparisons with the wall clock, in nanoseconds.
pub(crate) const SYNC_INTERVAL: i64 = 10_000_000;

const _: () = assert!(
    MAX_SLEW_STEP * 10 <= SYNC_INTERVAL,
    "time may slow down by ten percent, not more"
);

/// Offset between the monotone clock and the reported time; pure, so that its rules can be tested without waiting.
#[derive(Debug)]
struct Offset {
    /// Added to monotone nanoseconds.
    offset: AtomicI64,
    /// Monotone time of the next comparison.
    sync_at: AtomicI64,
}

impl Offset {
    const fn new() -> Offset {
        Offset {
            offset: AtomicI64::new(i64::MIN),
            sync_at: AtomicI64::new(i64::MIN),
        }
    }

    fn read(&self, monotone: i64, wall: impl FnOnce() -> i64) -> i64 {
        if monotone >= self.sync_at.load(Ordering::Relaxed) {
            self.sync(monotone, wall());
        }
        monotone + self.offset.load(Ordering::Relaxed)
    }

    fn sync(&self, monotone: i64, wall: i64) {
        let due = self.sync_at.load(Ordering::Relaxed);
        let next = monotone + SYNC_INTERVAL;
        // One thread compares; a thread that loses the race uses the offset it finds.
        let won = self
            .sync_at
            .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        let wanted = wall - monotone;
        let old = self.offset.load(Ordering::Relaxed);
        if old == i64::MIN {
            // First reading. Two threads may both store one; they differ by nanoseconds.
            self.offset.store(wanted, Ordering::Relaxed);
        } else if won {
            self.offset
                .store(wanted.max(old - MAX_SLEW_STEP), Ordering::Relaxed);
        }
    }
}

static OFFSET: Offset = Offset::new();

thread_local! {
    static LAST: Cell<i64> = const { Cell::new(i64::MIN) };
}

/// The process' clock. Read it once per batch of work and hand the value on.
#[derive(Debug, Clone, Copy)]
pub struct Clock;

impl Clock {
    /// Processor time of the calling thread; costs a system call.
    #[must_use]
    pub fn of_thread() -> std::time::Duration {
        let nanos = read(libc::CLOCK_THREAD_CPUTIME_ID);
        std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// Nanoseconds since the Unix epoch; never less than an earlier reading on the same thread.
    pub fn now() -> i64 {
        let reading = OFFSET.read(read(libc::CLOCK_MONOTONIC), || read(libc::CLOCK_REALTIME));
        LAST.with(|last| {
            let now = reading.max(last.get());
            last.set(now);
            now
        })
    }

    /// Monotone nanoseconds since an arbitrary moment: for uptimes and deadlines.
    pub fn monotone() -> i64 {
        read(libc::CLOCK_MONOTONIC)
    }

    /// The same clock, for callers of libraries that want an [`Instant`](std::time::Instant).
    pub fn instant() -> std::time::Instant {
        std::time::Instant::now()
    }
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes, and both clock ids used here exist on every supported system, so the call
    // cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn starts_at_the_wall_clock_and_runs_with_monotone_time() {
        let offset = Offset::new();
        assert_eq!(offset.read(5, || 1_000 * SECOND), 1_000 * SECOND);
        assert_eq!(
            offset.read(6, || unreachable!("not due")),
            1_000 * SECOND + 1
        );
    }

    #[test]
    fn adopts_a_step_forward_at_once() {
        let offset = Offset::new();
        offset.read(0, || 10 * SECOND);
        assert_eq!(offset.read(SYNC_INTERVAL, || 500 * SECOND), 500 * SECOND);
    }

    #[test]
    fn absorbs_a_step_back_slowly_without_going_back() {
        let offset = Offset::new();
        let mut monotone = 0;
        let mut last = offset.read(monotone, || 3_600 * SECOND);
        // The wall clock is set back by 100 ms (fact 64).
        let wall = |monotone: i64| 3_600 * SECOND - SECOND / 10 + monotone;
        let mut steps = 0;
        while last > wall(monotone) {
            monotone += SYNC_INTERVAL;
            let now = offset.read(monotone, || wall(monotone));
            assert!(
                now - last >= SYNC_INTERVAL - MAX_SLEW_STEP,
                "runs at nine tenths at least"
            );
            last = now;
            steps += 1;
        }
        assert_eq!(steps, 100);
        assert_eq!(last, wall(monotone));
    }

    #[test]
    fn reads_the_real_clock() {
        let first = Clock::now();
        assert!(first > 1_600_000_000 * SECOND);
        assert!(Clock::now() >= first);
    }
}
