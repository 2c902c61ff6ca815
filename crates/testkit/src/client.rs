//! A RESP client as plain as a socket: it sends bytes and shows the bytes that come back.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tollgate_wire::resp::{FrameSkipper, Value, read_value, write_command};

use crate::PATIENCE;

/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// What a connection gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// Some bytes.
    Bytes(Vec<u8>),
    /// Nothing within the patience.
    Quiet,
    /// The end: the peer closed the connection.
    Closed,
}

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    /// Connects within [`PATIENCE`].
    pub fn connect(addr: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client {
            stream,
            unread: Vec::new(),
        })
    }

    /// Sends one command and returns its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Value> {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        let mut bytes = Vec::new();
        write_command(&mut bytes, &args);
        self.send(&bytes)?;
        self.value()
    }

    /// Sends one command given as a line of words separated by spaces.
    pub fn line(&mut self, command: &str) -> io::Result<Value> {
        self.call(&command.split(' ').collect::<Vec<_>>())
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads one reply.
    pub fn value(&mut self) -> io::Result<Value> {
        let frame = self.frame()?;
        match read_value(&frame) {
            Ok(Some((value, _))) => Ok(value),
            Ok(None) => Err(io::Error::other("the frame ends early")),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Reads the bytes of one reply.
    pub fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut skipper = FrameSkipper::default();
        loop {
            if let Some(len) = skipper.advance(&self.unread).map_err(io::Error::other)? {
                return Ok(self.unread.drain(..len).collect());
            }
            match self.receive(PATIENCE)? {
                Received::Bytes(bytes) => self.unread.extend_from_slice(&bytes),
                Received::Quiet => return Err(io::ErrorKind::TimedOut.into()),
                Received::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Reads whatever comes next within `patience`, past any reply already buffered.
    pub fn receive(&mut self, patience: Duration) -> io::Result<Received> {
        self.stream.set_read_timeout(Some(patience))?;
        let mut chunk = vec![0; CHUNK];
        match self.stream.read(&mut chunk) {
            Ok(0) => Ok(Received::Closed),
            Ok(n) => {
                chunk.truncate(n);
                Ok(Received::Bytes(chunk))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(Received::Quiet),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Ok(Received::Closed),
                _ => Err(error),
            },
        }
    }

    /// Reads until the peer closes the connection and returns the bytes before that; an error if it stays open for [`PATIENCE`].
    pub fn until_closed(&mut self) -> io::Result<Vec<u8>> {
        let mut all = std::mem::take(&mut self.unread);
        loop {
            match self.receive(PATIENCE)? {
                Received::Bytes(bytes) => all.extend_from_slice(&bytes),
                Received::Quiet => return Err(io::ErrorKind::TimedOut.into()),
                Received::Closed => return Ok(all),
            }
        }
    }

    /// The socket, for tests that shut one side or read slowly.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}
