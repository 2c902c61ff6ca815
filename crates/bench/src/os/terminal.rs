//! The terminal.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Switches to the screen that keeps what was printed before, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// Takes both back.
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// How the terminal was before it was taken over; null while it is not.
static BEFORE: AtomicPtr<libc::termios> = AtomicPtr::new(ptr::null_mut());

/// Columns of the terminal that standard output is; `None` if it is none, or does not say.
#[must_use]
pub(crate) fn columns() -> Option<usize> {
    // SAFETY: the structure consists of numbers, which may be zero, and the call writes to nothing else.
    let (size, done) = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        let done = libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size);
        (size, done)
    };
    (done == 0 && size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Takes over the terminal of standard input and standard error: keys come at once and are not shown, the screen is
/// another one. Ctrl-C still sends its signal. Until [`give_back`].
///
/// # Errors
/// If standard input is no terminal, or is not writable as one.
pub(crate) fn take_over() -> io::Result<()> {
    let mut before = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the call writes one `termios`, or fails.
    let before = unsafe {
        if libc::tcgetattr(libc::STDIN_FILENO, before.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        before.assume_init()
    };
    let mut keys = before;
    keys.c_lflag &= !(libc::ICANON | libc::ECHO);
    keys.c_cc[libc::VMIN] = 1;
    keys.c_cc[libc::VTIME] = 0;
    // A run that is stopped in its middle measures nothing, and would leave this screen on the terminal.
    keys.c_cc[libc::VSUSP] = libc::_POSIX_VDISABLE;
    // SAFETY: `keys` is a `termios` that the system has filled in.
    if unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const keys) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Never freed, because a signal handler may be reading it.
    BEFORE.store(Box::leak(Box::new(before)), Ordering::Release);
    say(ENTER);
    Ok(())
}

/// Leaves the terminal as it was before [`take_over`]; nothing if it was given back already. Async-signal-safe.
pub(crate) fn give_back() {
    let before = BEFORE.swap(ptr::null_mut(), Ordering::Acquire);
    if before.is_null() {
        return;
    }
    say(LEAVE);
    // SAFETY: what `take_over` stored is never freed, and `tcsetattr` is async-signal-safe.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, before) };
}

/// Writes to standard error; a terminal that is gone needs nothing any more.
fn say(sequence: &[u8]) {
    // SAFETY: `write` is async-signal-safe, and the bytes are valid for their length.
    unsafe {
        libc::write(
            libc::STDERR_FILENO,
            sequence.as_ptr().cast(),
            sequence.len(),
        )
    };
}
