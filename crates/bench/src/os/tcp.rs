//! How the generator's connections send.

use std::net::TcpStream;

/// Sends whatever the peer has room for.
///
/// Every request is a small segment of its own, and a server that is late acknowledges late. A congestion control that takes this for
/// a slow path (BBR, the default of many machines) then lets about ten requests of a connection be under way, and all others wait
/// in the generator's kernel, where no server can see them: an overload would be the generator's. Reno's window grows with
/// every acknowledgement. Where it is refused the system's default stays.
#[cfg(target_os = "linux")]
pub(crate) fn send_freely(stream: &TcpStream) {
    use std::os::fd::AsRawFd;
    const NAME: &[u8] = b"reno";
    // SAFETY: the descriptor is open as long as `stream`, and pointer and length describe `NAME`.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            NAME.as_ptr().cast(),
            NAME.len() as libc::socklen_t,
        );
    }
}

/// Other systems have their own default.
#[cfg(not(target_os = "linux"))]
pub(crate) fn send_freely(_stream: &TcpStream) {}
