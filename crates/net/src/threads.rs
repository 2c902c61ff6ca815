//! Named threads, optionally pinned.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts a thread. A pin that the system refuses is not an error: it is a matter of speed, not of correctness.
pub fn spawn<T: Send + 'static>(
    name: String,
    cpu: Option<usize>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name).spawn(move || {
        if let Some(cpu) = cpu {
            pin_current(cpu);
        }
        body()
    })
}

/// Stands still, and with it whatever the calling thread serves: for DEBUG SLEEP, which asks for that, and for who cannot have
/// a lock for long.
pub fn stand_still(time: Duration) {
    std::thread::sleep(time);
}

/// CPUs this process may use.
pub fn available_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Pins the calling thread to one CPU; tells whether the system did.
#[cfg(target_os = "linux")]
pub(crate) fn pin_current(cpu: usize) -> bool {
    if cpu >= libc::CPU_SETSIZE as usize {
        return false;
    }
    // SAFETY: an all-zero cpu_set_t is a valid empty set, `cpu` is below its size, and the set outlives the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// Pins the calling thread to one CPU; tells whether the system did. Only Linux can.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin_current(_cpu: usize) -> bool {
    false
}
