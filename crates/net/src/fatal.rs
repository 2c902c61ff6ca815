//! What is told when a signal ends the program: a fault of its own, or an abort.
//!
//! The handler does only what is async-signal-safe: it takes no lock, allocates nothing, and writes by write(2). It runs on
//! the stack that Rust gives each thread for signals, so a thread that has overflowed its own is told of as well.

use std::ffi::{CString, c_int, c_void};
use std::fmt::{self, Write};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The signals that are told of.
const SIGNALS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
];
/// Levels of the stack that are shown.
const LEVELS: usize = 64;
/// Seconds that threads which fault after the first give it to finish.
const OTHERS_WAIT: u32 = 5;

/// Writes what else is known; it must be as careful as the handler is.
pub type More = fn(&mut dyn Write) -> fmt::Result;

/// Where it is told, and what.
#[derive(Debug)]
struct Report {
    /// A file that is opened for it; without one it goes to standard error.
    file: Option<CString>,
    program: &'static str,
    more: More,
}

static REPORT: OnceLock<Report> = OnceLock::new();
/// Nothing is told, though there is a report.
static SILENT: AtomicBool = AtomicBool::new(false);
/// The thread that reports; 0 = none.
static REPORTING: AtomicUsize = AtomicUsize::new(0);

/// Has the end by a fault or an abort told at the end of `file`, or on standard error: as that of `program`, its name and
/// version, with what `more` adds.
///
/// # Errors
///
/// There is a report already, the name of the file has a zero byte, or the system refuses.
pub fn report(file: Option<Vec<u8>>, program: &'static str, more: More) -> io::Result<()> {
    let file = file.map(CString::new).transpose()?;
    let report = Report {
        file,
        program,
        more,
    };
    REPORT
        .set(report)
        .map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))?;
    // The first time it loads a library, which a handler could not.
    show_stack(None);
    for signal in SIGNALS {
        // SAFETY: `handle` does only what is async-signal-safe. The struct is zero-initialised, which is a valid sigaction
        // with an empty mask.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// Has nothing told, or told again, as long as there is a report.
pub fn silence(on: bool) {
    SILENT.store(on, Ordering::Relaxed);
}

/// Whether nothing is told.
pub fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// Ends the process by SIGABRT, without a report: one has been made.
pub fn abort() -> ! {
    // SAFETY: the default action of a signal runs no code of this program.
    unsafe { libc::signal(libc::SIGABRT, libc::SIG_DFL) };
    std::process::abort()
}

/// Ends the process as a fault in it would.
pub fn fault() {
    // SAFETY: only the handler runs, which ends the process.
    unsafe { libc::raise(libc::SIGSEGV) };
}

/// Writes to a descriptor, as much as it takes.
struct Descriptor(c_int);

impl Write for Descriptor {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            // SAFETY: write(2) is async-signal-safe, and `rest` is valid for its length.
            let done = unsafe { libc::write(self.0, rest.as_ptr().cast(), rest.len()) };
            rest = match usize::try_from(done) {
                Ok(done @ 1..) => &rest[done..],
                _ => return Err(fmt::Error),
            };
        }
        Ok(())
    }
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: async-signal-safe where there are threads at all: it reads a register.
    let thread = unsafe { libc::pthread_self() } as usize;
    let first = REPORTING.compare_exchange(0, thread, Ordering::SeqCst, Ordering::SeqCst);
    match (first, REPORT.get().filter(|_| !is_silent())) {
        (Ok(_), Some(report)) => {
            let out = report.file.as_ref().map_or(libc::STDERR_FILENO, |file| {
                let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
                // SAFETY: open(2) is async-signal-safe, and the name ends with a zero byte.
                unsafe { libc::open(file.as_ptr(), flags, 0o644) }
            });
            // SAFETY: with SA_SIGINFO the system hands over what it knows of the signal.
            let info = unsafe { &*info };
            // What cannot be written has no other place.
            tell(report, signal, info, out).unwrap_or_default();
        }
        // SAFETY: sleep(3) is async-signal-safe.
        (Err(other), _) if other != thread => drop(unsafe { libc::sleep(OTHERS_WAIT) }),
        // The report itself has failed.
        _ => {}
    }
    // SAFETY: both are async-signal-safe; the default action ends the process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn tell(report: &Report, signal: c_int, info: &libc::siginfo_t, out: c_int) -> fmt::Result {
    let mut to = Descriptor(out);
    to.write_str("\n\n=== TOLLGATE BUG REPORT START: Cut & paste starting from here ===\n")?;
    writeln!(
        to,
        "{} crashed by signal: {signal}, si_code: {}",
        report.program, info.si_code
    )?;
    if info.si_code <= 0 || signal == libc::SIGABRT {
        // SAFETY: a signal that a process has sent says which.
        let (pid, uid) = unsafe { (info.si_pid(), info.si_uid()) };
        writeln!(to, "Killed by PID: {pid}, UID: {uid}")?;
    } else {
        // SAFETY: of a fault the address is known.
        writeln!(to, "Accessing address: {:p}", unsafe { info.si_addr() })?;
    }
    (report.more)(&mut to)?;
    to.write_str("\n------ STACK TRACE ------\n")?;
    show_stack(Some(out));
    to.write_str("=== TOLLGATE BUG REPORT END. Make sure to include from START to END. ===\n\n")
}

/// Writes where this thread is, as places in the program's file, or nowhere.
#[cfg(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos"))]
fn show_stack(out: Option<c_int>) {
    let mut levels = [std::ptr::null_mut(); LEVELS];
    // SAFETY: there is room for so many levels; neither function allocates once the first has been called.
    unsafe {
        let count = libc::backtrace(levels.as_mut_ptr(), LEVELS as c_int);
        if let Some(out) = out {
            libc::backtrace_symbols_fd(levels.as_ptr(), count, out);
        }
    }
}

#[cfg(not(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos")))]
fn show_stack(_: Option<c_int>) {}
