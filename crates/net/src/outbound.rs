//! A connection to another server, for a thread that has nothing else to do than to wait for it.

use crate::driver::{Peer, PeerAddress};
use crate::tls::TlsConnector;
use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Socket, Type};
use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Bytes written at a time, each within the time-out.
const CHUNK: usize = 64 * 1024;

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
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for address in (host, port).to_socket_addrs()? {
            match connect_to(address, timeout, route.from) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
                    let stream = match &route.tls {
                        None => Stream::Plain(stream),
                        Some(tls) => Stream::Tls(Box::new(tls.begin(host, stream)?)),
                    };
                    let stream = BufReader::new(stream);
                    return Ok(Outbound { stream });
                }
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
        use std::os::fd::AsRawFd;
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

fn connect_to(
    address: SocketAddr,
    timeout: Duration,
    from: Option<IpAddr>,
) -> io::Result<TcpStream> {
    let Some(from) = from.filter(|from| from.is_ipv4() == address.is_ipv4()) else {
        return TcpStream::connect_timeout(&address, timeout);
    };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // As in Redis, an address that this machine does not have is not insisted on.
    drop(socket.bind(&SocketAddr::new(from, 0).into()));
    socket.connect_timeout(&address.into(), timeout)?;
    Ok(socket.into())
}

/// Reads what has come, at least one byte; 0 at the end. When nothing comes in time, the error is one of
/// [`io::ErrorKind::WouldBlock`] and [`io::ErrorKind::TimedOut`].
impl Read for Outbound {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.read(bytes)
    }
}
