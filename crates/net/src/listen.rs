//! Listening sockets: TCP and unix.

use crate::driver::{Peer, PeerAddress};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Probes that may fail before a dead peer is given up, as Redis sets it.
const KEEPALIVE_PROBES: u32 = 3;

/// Options of listening sockets.
#[derive(Debug, Clone, Copy)]
pub struct SocketOptions {
    /// Connections the kernel queues before they are accepted.
    pub backlog: i32,
}

/// A socket that could not be opened: the address and why.
#[derive(Debug)]
pub struct ListenError {
    /// `ip:port` or the path.
    pub address: String,
    /// The system's reason.
    pub source: io::Error,
}

impl ListenError {
    /// Whether this machine has no such address, or not its family.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        let missing = [
            libc::EADDRNOTAVAIL,
            libc::EAFNOSUPPORT,
            libc::EPFNOSUPPORT,
            libc::EPROTONOSUPPORT,
        ];
        self.source
            .raw_os_error()
            .is_some_and(|code| missing.contains(&code))
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.source.kind() {
            io::ErrorKind::AddrInUse => "the address is already in use".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => self.source.to_string(),
        };
        write!(f, "cannot listen on {}: {reason}", self.address)
    }
}

impl std::error::Error for ListenError {}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: PeerAddress,
    /// See [`Listener::of_kind`].
    kind: u8,
    /// Removed when the listener is dropped.
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens on TCP; port 0 takes a free one, which [`Listener::address`] tells.
    pub fn tcp(ip: IpAddr, port: u16, options: SocketOptions) -> Result<Listener, ListenError> {
        let wanted = SocketAddr::new(ip, port);
        open_tcp(wanted, options).map_err(|source| ListenError {
            address: wanted.to_string(),
            source,
        })
    }

    /// A TCP socket that listens already; connections are accepted without waiting.
    pub fn of_tcp(listener: std::net::TcpListener) -> io::Result<Listener> {
        listener.set_nonblocking(true)?;
        Ok(Listener {
            address: PeerAddress::Tcp(listener.local_addr()?),
            socket: listener.into(),
            kind: 0,
            path: None,
        })
    }

    /// Listens on a unix socket. A socket file that nobody listens on is replaced, and so is an empty file;
    /// any other is left alone.
    pub fn unix(
        path: &Path,
        mode: Option<u32>,
        options: SocketOptions,
    ) -> Result<Listener, ListenError> {
        open_unix(path, mode, options).map_err(|source| ListenError {
            address: path.display().to_string(),
            source,
        })
    }

    /// Marks its connections ([`Peer::kind`]) with a number that means something to the driver; otherwise it is 0.
    #[must_use]
    pub fn of_kind(mut self, kind: u8) -> Listener {
        self.kind = kind;
        self
    }

    pub(crate) fn kind(&self) -> u8 {
        self.kind
    }

    /// Where it listens.
    pub fn address(&self) -> &PeerAddress {
        &self.address
    }

    pub(crate) fn raw_fd(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// One waiting connection, made non-blocking and tuned.
    pub(crate) fn accept(&self, keepalive: u64) -> io::Result<(Socket, Peer)> {
        let (socket, remote) = self.socket.accept()?;
        socket.set_nonblocking(true)?;
        let fd = socket.as_raw_fd();
        let peer = match &self.address {
            PeerAddress::Unix(path) => Peer {
                remote: PeerAddress::Unix(Arc::clone(path)),
                local: self.address.clone(),
                kind: self.kind,
                fd,
            },
            PeerAddress::Tcp(listening) => {
                socket.set_tcp_nodelay(true)?;
                if keepalive > 0 {
                    set_keepalive(&socket, keepalive)?;
                }
                let remote = remote
                    .as_socket()
                    .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
                let local = if listening.ip().is_unspecified() {
                    socket.local_addr()?.as_socket().unwrap_or(*listening)
                } else {
                    *listening
                };
                Peer {
                    remote: PeerAddress::Tcp(remote),
                    local: PeerAddress::Tcp(local),
                    kind: self.kind,
                    fd,
                }
            }
        };
        Ok((socket, peer))
    }
}

/// For whoever accepts by other means; the file of a unix socket stays as long as the listener.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The file may be gone already; nothing is left to do about it on the way out.
            drop(std::fs::remove_file(path));
        }
    }
}

/// First probe after `seconds` of silence, then every third of it, given up after three: as Redis sets it.
fn set_keepalive(socket: &Socket, seconds: u64) -> io::Result<()> {
    let interval = (seconds / 3).max(1);
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(seconds))
        .with_interval(Duration::from_secs(interval))
        .with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)
}

fn open_tcp(wanted: SocketAddr, options: SocketOptions) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(wanted), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if wanted.is_ipv6() {
        // IPv4 has its own listener, as in Redis.
        socket.set_only_v6(true)?;
    }
    socket.bind(&wanted.into())?;
    socket.listen(options.backlog)?;
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?.as_socket().unwrap_or(wanted);
    Ok(Listener {
        socket,
        address: PeerAddress::Tcp(address),
        kind: 0,
        path: None,
    })
}

fn open_unix(path: &Path, mode: Option<u32>, options: SocketOptions) -> io::Result<Listener> {
    remove_dead_socket(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let address = PeerAddress::Unix(Arc::from(path.to_string_lossy()));
    let listener = Listener {
        socket,
        address,
        kind: 0,
        path: Some(path.to_owned()),
    };
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    listener.socket.listen(options.backlog)?;
    listener.socket.set_nonblocking(true)?;
    Ok(listener)
}

fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    // Programs that make a name for a socket leave an empty file of that name behind.
    if metadata.is_file() && metadata.len() == 0 {
        return std::fs::remove_file(path);
    }
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket is in the way",
        ));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Ok(()) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}
