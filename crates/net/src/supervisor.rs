//! Whoever has started this process and wants to know how it is: systemd, upstart, or a shell that is to go on.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

/// Tells systemd the state of this service, as `sd_notify(3)` does: lines such as `READY=1`. `socket` is the value of
/// `NOTIFY_SOCKET`: a path, or a name that begins with `@`.
///
/// # Errors
///
/// Nobody listens there, or the name is none.
pub fn notify_systemd(socket: &str, state: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    let sent = match socket.strip_prefix('@') {
        Some(name) => sender.send_to_addr(state.as_bytes(), &abstract_address(name)?)?,
        None => sender.send_to(state.as_bytes(), socket)?,
    };
    match sent == state.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::WriteZero.into()),
    }
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &str) -> io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    std::os::unix::net::SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &str) -> io::Result<std::os::unix::net::SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Stops this process until its supervisor goes on with it: that is how upstart is told that a service is ready.
pub fn stop_until_continued() {
    // SAFETY: raise has no preconditions.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Goes on as a process of its own session, without a terminal, while the one that was started ends with success. Standard
/// input, output and error are `/dev/null` afterwards. Only for a process of one thread: others would be gone.
///
/// # Errors
///
/// The system refuses another process, or has no `/dev/null`. Nothing has changed then, save that it may be the new
/// process that fails.
pub fn become_daemon() -> io::Result<()> {
    // SAFETY: the process has one thread, so the child has all of its state whole.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        _ => {
            // SAFETY: _exit only ends the process; what its buffers hold is the child's to write.
            unsafe { libc::_exit(0) }
        }
    }
    // SAFETY: setsid has no preconditions; it fails only for the leader of a group, which a new process is not.
    unsafe { libc::setsid() };
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: dup2 on an open descriptor; the standard streams are nobody's in this process' own code.
        if unsafe { libc::dup2(null.as_raw_fd(), stream) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn systemd_hears_it_by_path_and_by_abstract_name() {
        let mut bytes = [0; 100];
        let root = tollgate_testkit::process::temp_root();
        let path = root.join(format!("tollgate-notify-{}", std::process::id()));
        let listener = UnixDatagram::bind(&path).unwrap();
        notify_systemd(path.to_str().unwrap(), "READY=1\n").unwrap();
        let len = listener.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"READY=1\n");
        std::fs::remove_file(path).unwrap();
        let name = format!("tollgate-notify-{}", std::process::id());
        let address = abstract_address(&name).unwrap();
        let listener = UnixDatagram::bind_addr(&address).unwrap();
        notify_systemd(&format!("@{name}"), "STOPPING=1\n").unwrap();
        let len = listener.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"STOPPING=1\n");
        drop(listener);
        assert!(notify_systemd(&format!("@{name}"), "READY=1\n").is_err());
        assert!(notify_systemd("/nonexistent/socket", "READY=1\n").is_err());
    }
}
