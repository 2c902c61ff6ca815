//! Ctrl-C, SIGTERM and the SIGHUP of a terminal that closes: the first asks the run to stop and keep what it has, a later one ends the process.
//!
//! `timeout` and the supervisors of containers send their signal to a process and to its group, so that it arrives twice
//! at once: a second one that soon is the first one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::terminal;

static ASKED: AtomicBool = AtomicBool::new(false);
/// When the first signal came; 0 before it.
static FIRST_MS: AtomicU64 = AtomicU64::new(0);

/// Signals closer together than this are one.
const SAME_MS: u64 = 300;

/// Exit status after a second interrupt, as shells report SIGINT.
const STATUS_INTERRUPTED: i32 = 130;

extern "C" fn on_signal(_signal: libc::c_int) {
    let now = now_ms();
    if note(now).is_some_and(|first| impatient(first, now)) {
        terminal::give_back();
        // SAFETY: `_exit` is async-signal-safe. Server children ask the kernel to end them with their parent.
        unsafe { libc::_exit(STATUS_INTERRUPTED) };
    }
    ASKED.store(true, Ordering::Relaxed);
}

/// Notes when the first signal came; that time, if it was an earlier one.
fn note(now_ms: u64) -> Option<u64> {
    let first = FIRST_MS.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed);
    first.err()
}

/// Whether a signal at `now` means more than the one at `first`.
fn impatient(first_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(first_ms) >= SAME_MS
}

/// Milliseconds of the monotonic clock, never 0.
fn now_ms() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `clock_gettime` is async-signal-safe and writes one timespec. Should it fail, the time stays 0, and a
    // second signal never ends the process at once.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000).max(1)
}

/// Catches SIGINT, SIGTERM and SIGHUP from now on. A SIGHUP that is ignored, as behind `nohup`, stays so.
pub(crate) fn install() {
    let handler = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only touches atomics and calls what is async-signal-safe.
        let before = unsafe { libc::signal(signal, handler) };
        if signal == libc::SIGHUP && before == libc::SIG_IGN {
            // SAFETY: as above.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
}

/// The flag that the first interrupt sets.
#[must_use]
pub(crate) fn flag() -> &'static AtomicBool {
    &ASKED
}

/// As the first interrupt: asks the run to stop and keep what it has.
pub(crate) fn ask() {
    note(now_ms());
    ASKED.store(true, Ordering::Relaxed);
}

/// Whether an interrupt has arrived.
#[must_use]
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_signal_that_arrives_twice_is_not_impatience() {
        assert!(!impatient(5_000, 5_000) && !impatient(5_000, 5_020));
        assert!(impatient(5_000, 5_400));
        assert!(now_ms() > 0);
    }
}
