//! A connection to another server, for a thread that has nothing else to do than to wait for it.

use crate::clock::Clock;
use crate::driver::{Peer, PeerAddress};
use crate::tls::TlsConnector;
use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Socket, Type};
use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Bytes written at a time, each within the time-out.
const CHUNK: usize = 64 * 1024;
/// Time between two looks whether a connection that is being made is still wanted.
const STEP: Duration = Duration::from_millis(50);

/// A connection whose every step ends within a time.
#[derive(Debug)]
pub struct Outbound {
    stream: BufReader<Stream>,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Stream::Plain(stream) => stream.read(bytes),
                Stream::Tls(stream) => stream.read(bytes),
            };
            match read {
                // A process that was stopped and goes on has lost nothing.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// How another server is connected to.
#[derive(Debug, Clone, Default)]
pub struct Route {
    /// The address of this machine that the connection comes from, if the system lets it have that one.
    pub from: Option<IpAddr>,
    /// The connection speaks TLS.
    pub tls: Option<TlsConnector>,
}

/// Ends an [`Outbound`] from another thread: whatever it waits for fails at once.
#[derive(Debug)]
pub struct Closer(TcpStream);

impl Closer {
    /// Ends the connection.
    pub fn close(&self) {
        // One that has ended already cannot be ended once more.
        drop(self.0.shutdown(Shutdown::Both));
    }
}

impl Outbound {
    /// Connects to the first address of `host` that answers; each is given `timeout`, and so is every read and write.
    ///
    /// # Errors
    ///
    /// The name is not known, nobody answers in time, the system refuses, or TLS cannot be agreed on.
    pub fn connect(
        host: &str,
        port: u16,
        timeout: Duration,
        route: &Route,
    ) -> io::Result<Outbound> {
        Outbound::connect_while(host, port, timeout, route, &|| true)
    }

    /// As [`Outbound::connect`], as long as `goes_on` says so.
    ///
    /// # Errors
    ///
    /// As there, and when it does not go on.
    pub fn connect_while(
        host: &str,
        port: u16,
        timeout: Duration,
        route: &Route,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<Outbound> {
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for address in (host, port).to_socket_addrs()? {
            let wait = Wait::new(timeout, goes_on);
            match connect_to(address, &wait, route.from) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_write_timeout(Some(timeout))?;
                    let tls = route.tls.as_ref();
                    let stream = match tls {
                        None => Stream::Plain(stream),
                        Some(tls) => {
                            let wait = Wait::new(timeout, goes_on);
                            Stream::Tls(Box::new(tls.begin(host, stream, &wait)?))
                        }
                    };
                    stream.tcp().set_read_timeout(Some(timeout))?;
                    let stream = BufReader::new(stream);
                    return Ok(Outbound { stream });
                }
                Err(error) if !goes_on() => return Err(error),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Gives every further read and write so much time.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let stream = self.stream.get_ref().tcp();
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))
    }

    /// What ends the connection from another thread.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn closer(&self) -> io::Result<Closer> {
        self.stream.get_ref().tcp().try_clone().map(Closer)
    }

    /// Both ends.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub fn peer(&self) -> io::Result<Peer> {
        let stream = self.stream.get_ref().tcp();
        Ok(Peer {
            remote: PeerAddress::Tcp(stream.peer_addr()?),
            local: PeerAddress::Tcp(stream.local_addr()?),
            kind: 0,
            fd: stream.as_raw_fd(),
        })
    }

    /// Sends all bytes.
    ///
    /// # Errors
    ///
    /// The connection has ended, or takes nothing in time.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.stream.get_mut();
        bytes
            .chunks(CHUNK)
            .try_for_each(|part| stream.write_all(part))?;
        stream.flush()
    }

    /// The next line without its end; what is beyond `most` bytes of it is left out.
    ///
    /// # Errors
    ///
    /// The connection has ended, or sends nothing in time.
    pub fn line(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            match byte {
                [b'\n'] => break,
                _ if line.len() < most => line.push(byte[0]),
                _ => {}
            }
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }
}

/// A wait that ends after a time, or when nobody wants its end any more.
pub(crate) struct Wait<'a> {
    /// Monotone nanoseconds.
    until: i64,
    goes_on: &'a dyn Fn() -> bool,
}

impl<'a> Wait<'a> {
    fn new(time: Duration, goes_on: &'a dyn Fn() -> bool) -> Wait<'a> {
        let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Wait {
            until: Clock::monotone().saturating_add(nanos),
            goes_on,
        }
    }

    /// How long to wait before this is asked again.
    ///
    /// # Errors
    ///
    /// The wait is over.
    pub(crate) fn step(&self) -> io::Result<Duration> {
        let left = self.until.saturating_sub(Clock::monotone());
        if left <= 0 || !(self.goes_on)() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(STEP.min(Duration::from_nanos(left.unsigned_abs())))
    }
}

fn connect_to(address: SocketAddr, wait: &Wait<'_>, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(from) = from.filter(|from| from.is_ipv4() == address.is_ipv4()) {
        // As in Redis, an address that this machine does not have is not insisted on.
        drop(socket.bind(&SocketAddr::new(from, 0).into()));
    }
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => connected(&socket, wait)?,
        result => result?,
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// Waits until a connection has been made, or refused.
fn connected(socket: &Socket, wait: &Wait<'_>) -> io::Result<()> {
    loop {
        let millis = i32::try_from(wait.step()?.as_millis()).unwrap_or(i32::MAX);
        let mut wanted = libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: `wanted` is one valid pollfd for the length of the call.
        match unsafe { libc::poll(&mut wanted, 1, millis.max(1)) } {
            0 => {}
            1.. => return socket.take_error()?.map_or(Ok(()), Err),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Reads what has come, at least one byte; 0 at the end. When nothing comes in time, the error is one of
/// [`io::ErrorKind::WouldBlock`] and [`io::ErrorKind::TimedOut`].
impl Read for Outbound {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.read(bytes)
    }
}
