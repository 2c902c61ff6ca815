//! Where a target listens.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_wire::resp;

use crate::os::tcp;

/// Longest wait for a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A TCP or unix socket address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// IP address and port.
    Tcp(SocketAddr),
    /// Path of a unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Whether traffic to it stays on this machine.
    #[must_use]
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }

    /// Opens a blocking connection.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        match self {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
                stream.set_nodelay(true)?;
                tcp::send_freely(&stream);
                Ok(Socket::Tcp(stream))
            }
            Address::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path)?)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Longest wait for the answer to a greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// An address with what must be said before the first request (AUTH, SELECT).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where.
    pub address: Address,
    /// Commands sent once per connection, each answered without an error.
    pub greeting: Vec<Vec<Vec<u8>>>,
    /// Further places that do the same work: connections take turns.
    pub also: Vec<Address>,
}

impl Endpoint {
    /// An endpoint that wants no greeting.
    #[must_use]
    pub fn plain(address: Address) -> Endpoint {
        Endpoint {
            address,
            greeting: Vec::new(),
            also: Vec::new(),
        }
    }

    /// The place of connection number `index`.
    #[must_use]
    pub(crate) fn address_of(&self, index: usize) -> &Address {
        match index % (self.also.len() + 1) {
            0 => &self.address,
            place => &self.also[place - 1],
        }
    }

    /// Opens a blocking connection like [`Endpoint::connect`]; a failure is a sentence with the address.
    pub(crate) fn reach(&self) -> Result<Socket, String> {
        self.connect()
            .map_err(|error| format!("cannot connect to {}: {error}", self.address))
    }

    /// Opens a blocking connection to its first place and greets.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        self.connect_as(0)
    }

    /// Opens connection number `index` and greets.
    pub(crate) fn connect_as(&self, index: usize) -> io::Result<Socket> {
        let mut socket = self.address_of(index).connect()?;
        if self.greeting.is_empty() {
            return Ok(socket);
        }
        socket.set_timeout(Some(GREETING_TIMEOUT))?;
        for command in &self.greeting {
            let mut request = Vec::new();
            resp::write_command(
                &mut request,
                &command.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            );
            socket.write_all(&request)?;
            let mut reply = Vec::new();
            while !matches!(resp::frame_len(&reply), Ok(Some(_))) {
                let mut bytes = [0; 512];
                match socket.read(&mut bytes)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => reply.extend_from_slice(&bytes[..count]),
                }
                resp::frame_len(&reply).map_err(|error| io::Error::other(error.to_string()))?;
            }
            if reply.first() == Some(&b'-') {
                return Err(io::Error::other(
                    String::from_utf8_lossy(&reply[1..]).trim_end().to_owned(),
                ));
            }
        }
        socket.set_timeout(None)?;
        Ok(socket)
    }
}

/// A blocking socket of either kind.
#[derive(Debug)]
pub(crate) enum Socket {
    /// TCP, without Nagle's delay.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
}

impl Socket {
    /// Bounds the wait of each read and write.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Socket::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
        }
    }
}

impl io::Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl io::Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
