//! Which processor a thread runs on, and how late its timers may fire.

use std::io;

/// Processors this process may run on.
#[must_use]
pub(crate) fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Indices of the processors that this process may run on, in order: not those from 0 where it was started on some of them.
#[cfg(target_os = "linux")]
#[must_use]
pub(crate) fn usable() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is plain data for which all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer and the length describe `set`; pid 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
        return (0..count()).collect();
    }
    // SAFETY: every index lies inside `set`.
    (0..8 * size_of::<libc::cpu_set_t>())
        .filter(|&index| unsafe { libc::CPU_ISSET(index, &set) })
        .collect()
}

/// Indices of the processors that this process may run on.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub(crate) fn usable() -> Vec<usize> {
    (0..count()).collect()
}

/// Ties the calling thread to processor `index`.
#[cfg(target_os = "linux")]
pub(crate) fn pin(index: usize) -> io::Result<()> {
    // SAFETY: `cpu_set_t` is plain data for which all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if index >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("processor {index} is out of range"),
        ));
    }
    // SAFETY: `set` is initialised and `index` was checked to lie inside it.
    unsafe { libc::CPU_SET(index, &mut set) };
    // SAFETY: the pointer and the length describe `set`; pid 0 is the calling thread.
    let done = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Pinning is not available on this system; nothing is done.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_index: usize) -> io::Result<()> {
    Ok(())
}

/// Lets timers of the calling thread fire 1 ns late instead of the kernel's usual 50 us.
pub(crate) fn sharpen_timers() {
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches only the calling thread's setting. A refusal
    // leaves the default slack, which shows up in the measured send lag.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0);
    }
}

/// Lets every other thread that wants the processor go first; for threads that only watch.
pub(crate) fn step_back() {
    #[cfg(target_os = "linux")]
    // SAFETY: `setpriority` takes plain integers; on Linux 0 is the calling thread. A refusal leaves the usual
    // priority, which costs the measured processes next to nothing.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, WATCHER_NICENESS);
    }
}

/// Niceness of threads that only watch.
#[cfg(target_os = "linux")]
const WATCHER_NICENESS: i32 = 10;
