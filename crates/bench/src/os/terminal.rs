//! The terminal.

/// Columns of the terminal that standard output is; `None` if it is none, or does not say.
#[must_use]
pub fn columns() -> Option<usize> {
    // SAFETY: the structure consists of numbers, which may be zero, and the call writes to nothing else.
    let (size, done) = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        let done = libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size);
        (size, done)
    };
    (done == 0 && size.ws_col > 0).then(|| usize::from(size.ws_col))
}
