//! The event loops on real sockets, with a protocol of lines.

mod backends;
mod lines;
mod sockets;

/// Held while a process is started, and by who must be the only one to have a socket: until it runs its program, a new
/// process has a copy of each.
static STARTING: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn no_process_starts() -> std::sync::MutexGuard<'static, ()> {
    STARTING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
