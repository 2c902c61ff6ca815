//! What the process may use and what it has used.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// While it lives, what the process touches for the first time does not become huge pages.
///
/// The allocator asks for huge pages. They make lookups in a large store quicker, but two megabytes are cleared and taken
/// wherever something is touched first, which a start does here and there, and a store as it grows.
#[derive(Debug)]
pub struct SmallPages(());

/// There is a guard that has turned huge pages off.
static SMALL_PAGES: AtomicBool = AtomicBool::new(false);

impl SmallPages {
    /// Begins. Does nothing where whoever has started the process wants no huge pages at all.
    pub fn begin() -> SmallPages {
        if takes_huge_pages() {
            take_huge_pages(false);
            SMALL_PAGES.store(true, Ordering::Relaxed);
        }
        SmallPages(())
    }

    /// Never ends, and is not lifted any more.
    pub fn keep(self) {
        SMALL_PAGES.store(false, Ordering::Relaxed);
    }

    /// Runs `f` as if there were none: it touches much.
    pub fn lift<R>(f: impl FnOnce() -> R) -> R {
        let off = SMALL_PAGES.load(Ordering::Relaxed);
        if off {
            take_huge_pages(true);
        }
        let result = f();
        if off && SMALL_PAGES.load(Ordering::Relaxed) {
            take_huge_pages(false);
        }
        result
    }
}

impl Drop for SmallPages {
    fn drop(&mut self) {
        if SMALL_PAGES.swap(false, Ordering::Relaxed) {
            take_huge_pages(true);
        }
    }
}

#[cfg(target_os = "linux")]
fn takes_huge_pages() -> bool {
    // SAFETY: asks for a flag of the process; the arguments are unused and must be zero.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0 }
}

#[cfg(target_os = "linux")]
fn take_huge_pages(on: bool) {
    // SAFETY: sets a flag of the process; the other arguments are unused and must be zero. Where it cannot be set all stays
    // as it is.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!on), 0, 0, 0) };
}

#[cfg(not(target_os = "linux"))]
fn takes_huge_pages() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn take_huge_pages(_: bool) {}

/// CPU time of the process in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the kernel.
    pub system_us: u64,
    /// In user code.
    pub user_us: u64,
}

/// Raises the soft limit of open files to `wanted` if the hard limit (or the right to raise it) allows; returns the limit
/// that holds afterwards.
pub fn raise_open_files(wanted: u64) -> io::Result<u64> {
    let (soft, hard) = open_files()?;
    if soft >= wanted {
        return Ok(soft);
    }
    for (soft, hard) in [(wanted, hard.max(wanted)), (wanted.min(hard), hard)] {
        if set_open_files(soft, hard).is_ok() {
            return Ok(soft);
        }
    }
    Ok(soft)
}

fn open_files() -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((limit.rlim_cur, limit.rlim_max))
}

fn set_open_files(soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: `limit` is a valid rlimit that outlives the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// CPU time used by the process (all threads) so far.
pub fn cpu_time() -> CpuTime {
    usage(libc::RUSAGE_SELF)
}

/// CPU time used by child processes that have ended.
pub fn children_cpu_time() -> CpuTime {
    usage(libc::RUSAGE_CHILDREN)
}

/// CPU time used by the thread that the process began with; `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub fn main_thread_cpu_time() -> Option<CpuTime> {
    let id = std::process::id();
    let text = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
    // The name of the thread, in brackets, may hold anything.
    let (_, behind) = text.rsplit_once(')')?;
    let mut times = behind.split_ascii_whitespace().skip(11);
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = u64::try_from(ticks).ok().filter(|ticks| *ticks > 0)?;
    let mut micros = || Some(times.next()?.parse::<u64>().ok()? * 1_000_000 / ticks);
    let (user_us, system_us) = (micros()?, micros()?);
    Some(CpuTime { system_us, user_us })
}

/// CPU time used by the thread that the process began with; `None` where the system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn main_thread_cpu_time() -> Option<CpuTime> {
    None
}

fn usage(who: i32) -> CpuTime {
    // SAFETY: an all-zero rusage is a valid value, and it is valid for writes.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above; both values of `who` used here are valid, so the call cannot fail.
    unsafe { libc::getrusage(who, &mut usage) };
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    CpuTime {
        system_us: micros(usage.ru_stime),
        user_us: micros(usage.ru_utime),
    }
}

/// Resident memory in bytes; `None` where the system does not tell cheaply.
#[cfg(target_os = "linux")]
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page).ok()?)
}

/// Resident memory in bytes; `None` where the system does not tell cheaply.
#[cfg(not(target_os = "linux"))]
pub fn resident_bytes() -> Option<u64> {
    None
}

/// Memory of the machine in bytes.
pub fn machine_memory() -> Option<u64> {
    // SAFETY: sysconf has no preconditions.
    let (pages, page) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    Some(u64::try_from(pages).ok()? * u64::try_from(page).ok()?)
}

/// How willingly the system ends this process when it runs out of memory: from -1000, never, to 1000.
///
/// # Errors
///
/// The system does not tell.
pub fn oom_score_adj() -> io::Result<i64> {
    let text = std::fs::read_to_string(OOM_SCORE_ADJ)?;
    let score = text.trim().parse();
    score.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a number"))
}

/// Sets it.
///
/// # Errors
///
/// The system refuses: to make it lower takes a right.
pub fn set_oom_score_adj(score: i64) -> io::Result<()> {
    // A file of the system, which is there or not.
    let file = std::fs::OpenOptions::new().write(true).open(OOM_SCORE_ADJ);
    file.and_then(|mut file| io::Write::write_all(&mut file, format!("{score}\n").as_bytes()))
}

const OOM_SCORE_ADJ: &str = "/proc/self/oom_score_adj";

/// System name, release and machine, as `uname -srm` prints them.
pub fn system_name() -> String {
    // SAFETY: an all-zero utsname is a valid value, valid for writes, and uname fills it with NUL-terminated text.
    let name = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        if libc::uname(&mut name) != 0 {
            return std::env::consts::OS.to_owned();
        }
        name
    };
    let text = |field: &[libc::c_char]| -> String {
        field
            .iter()
            .take_while(|&&c| c != 0)
            .map(|&c| c as u8 as char)
            .collect()
    };
    format!(
        "{} {} {}",
        text(&name.sysname),
        text(&name.release),
        text(&name.machine)
    )
}

/// 40 random hex digits: a name that nobody else has.
pub fn random_id() -> io::Result<String> {
    let bytes = random::<20>()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Random bytes of the system, fit for secrets.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_to_what_is_there_changes_nothing() {
        let (soft, _) = open_files().unwrap();
        assert_eq!(raise_open_files(1).unwrap(), soft);
    }

    #[test]
    fn huge_pages_are_off_while_the_guard_lives_but_where_it_is_lifted() {
        if !takes_huge_pages() {
            return;
        }
        let guard = SmallPages::begin();
        if cfg!(target_os = "linux") {
            assert!(!takes_huge_pages());
            assert!(SmallPages::lift(takes_huge_pages));
            assert!(!takes_huge_pages());
        }
        drop(guard);
        assert!(takes_huge_pages() && SmallPages::lift(takes_huge_pages));
        SmallPages::begin().keep();
        if cfg!(target_os = "linux") {
            assert!(!takes_huge_pages() && !SmallPages::lift(takes_huge_pages));
        }
        take_huge_pages(true);
    }

    #[test]
    fn tells_its_own_usage() {
        assert!(system_name().starts_with(if cfg!(target_os = "linux") {
            "Linux "
        } else {
            ""
        }));
        #[cfg(target_os = "linux")]
        assert!(resident_bytes().unwrap() > 100_000);
        assert!(machine_memory().unwrap() > 1 << 20);
        assert!(cpu_time().user_us + cpu_time().system_us > 0);
    }
}
