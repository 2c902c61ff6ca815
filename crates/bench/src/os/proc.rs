//! Counters of processes and of the machine, from `/proc` and the process clocks. Systems without them give `None`,
//! and the report prints `n/a`.

use std::fs;

use super::proc_text;
pub(crate) use super::proc_text::Ticks as MachineTicks;

/// Whether this process runs as root.
#[must_use]
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Processor time used by all threads of process `pid` since its start, in nanoseconds.
///
/// The process clock is exact to the nanosecond; `/proc/PID/stat` counts in ticks of 10 ms, too coarse for a slice of a
/// quarter of a second.
#[cfg(target_os = "linux")]
#[must_use]
pub fn cpu_ns(pid: u32) -> Option<u64> {
    // Clock numbers have room for 29 bits of a process id, and 0 would be the caller itself.
    if pid == 0 || pid > PID_MAX {
        return None;
    }
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for the result; an unknown pid is reported by the return value.
    if unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) } != 0 {
        return None;
    }
    read_clock(clock)
}

/// Highest process id that Linux gives out.
#[cfg(target_os = "linux")]
const PID_MAX: u32 = 1 << 22;

/// Process clocks of other processes are not available on this system.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub(crate) fn cpu_ns(_pid: u32) -> Option<u64> {
    None
}

/// Processor time used by the calling thread, in nanoseconds.
#[must_use]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return None;
    }
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Nanoseconds the calling thread stood ready in a run queue without a processor.
#[must_use]
pub(crate) fn thread_run_queue_wait_ns() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(proc_text::schedule(&text)?.waited_ns)
}

/// Nanoseconds all threads of `pid` stood ready without a processor. Threads that have ended are not counted.
#[must_use]
pub(crate) fn run_queue_wait_ns(pid: u32) -> Option<u64> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else {
            continue;
        };
        total += proc_text::schedule(&text)?.waited_ns;
    }
    Some(total)
}

/// Resident memory of process `pid`, in bytes.
#[must_use]
pub(crate) fn rss_bytes(pid: u32) -> Option<u64> {
    proc_text::status(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?).rss_bytes
}

/// Resident memory of processes together; `None` without any, or where one cannot be read.
#[must_use]
pub(crate) fn rss_bytes_of_all(pids: &[u32]) -> Option<u64> {
    let sum = pids.iter().map(|pid| rss_bytes(*pid)).sum::<Option<u64>>();
    sum.filter(|_| !pids.is_empty())
}

/// Reads the machine's tick counters.
#[must_use]
pub(crate) fn machine_ticks() -> Option<MachineTicks> {
    proc_text::ticks(&fs::read_to_string("/proc/stat").ok()?)
}

/// Share of processor time stolen between two readings, in percent.
#[must_use]
pub(crate) fn steal_percent(before: MachineTicks, after: MachineTicks) -> f64 {
    let total = after.total.saturating_sub(before.total);
    if total == 0 {
        return 0.0;
    }
    100.0 * after.steal.saturating_sub(before.steal) as f64 / total as f64
}

/// The part of [`steal_percent`] that is certain: the counter counts whole ticks, so that a single one says nothing, and in
/// a short step is a percent.
#[must_use]
pub(crate) fn certain_steal_percent(before: MachineTicks, after: MachineTicks) -> f64 {
    let one_less = MachineTicks {
        steal: after.steal.saturating_sub(1),
        ..after
    };
    steal_percent(before, one_less)
}

/// The processor's model name, as the kernel words it.
#[must_use]
pub(crate) fn cpu_model() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The machine's memory in bytes.
#[must_use]
pub(crate) fn memory_bytes() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_share_of_all_ticks() {
        let at = |total, steal| MachineTicks {
            total,
            steal,
            ..MachineTicks::default()
        };
        assert!((steal_percent(at(125, 4), at(325, 14)) - 5.0).abs() < 1e-9);
        assert_eq!(steal_percent(at(125, 4), at(125, 4)), 0.0);
        assert_eq!(certain_steal_percent(at(125, 4), at(225, 4)), 0.0);
        assert_eq!(certain_steal_percent(at(125, 4), at(225, 5)), 0.0);
        assert_eq!(certain_steal_percent(at(125, 4), at(225, 8)), 3.0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn own_process_has_counters() {
        let pid = std::process::id();
        let before = cpu_ns(pid).unwrap();
        let mut x = 0_u64;
        while cpu_ns(pid).unwrap() <= before {
            x = std::hint::black_box(x.wrapping_add(1));
        }
        assert!(rss_bytes(pid).unwrap() > 100_000);
        assert!(run_queue_wait_ns(pid).is_some() && thread_run_queue_wait_ns().is_some());
        assert!(cpu_ns(u32::MAX).is_none() && cpu_ns(0).is_none() && cpu_ns(PID_MAX).is_none());
    }
}
