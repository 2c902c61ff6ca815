//! Ctrl-C and SIGTERM: the first asks the run to stop and keep what it has, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Exit status after a second interrupt, as shells report SIGINT.
const STATUS_INTERRUPTED: i32 = 130;

extern "C" fn on_signal(_signal: libc::c_int) {
    if ASKED.swap(true, Ordering::Relaxed) {
        // SAFETY: `_exit` is async-signal-safe. Server children ask the kernel to end them with their parent.
        unsafe { libc::_exit(STATUS_INTERRUPTED) };
    }
}

/// Catches SIGINT and SIGTERM from now on.
pub fn install() {
    let handler = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic and calls `_exit`, both async-signal-safe.
        unsafe { libc::signal(signal, handler) };
    }
}

/// The flag that the first interrupt sets.
#[must_use]
pub fn flag() -> &'static AtomicBool {
    &ASKED
}

/// Whether an interrupt has arrived.
#[must_use]
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
