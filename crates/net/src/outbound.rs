//! A connection to another server, for a thread that has nothing else to do than to wait for it.

use crate::driver::{Peer, PeerAddress};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Bytes written at a time, each within the time-out.
const CHUNK: usize = 64 * 1024;

/// A connection whose every step ends within a time.
#[derive(Debug)]
pub struct Outbound {
    stream: BufReader<TcpStream>,
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
    /// The name is not known, nobody answers in time, or the system refuses.
    pub fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<Outbound> {
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
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
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))
    }

    /// What ends the connection from another thread.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn closer(&self) -> io::Result<Closer> {
        self.stream.get_ref().try_clone().map(Closer)
    }

    /// Both ends.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub fn peer(&self) -> io::Result<Peer> {
        use std::os::fd::AsRawFd;
        let stream = self.stream.get_ref();
        Ok(Peer {
            remote: PeerAddress::Tcp(stream.peer_addr()?),
            local: PeerAddress::Tcp(stream.local_addr()?),
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
            .try_for_each(|part| stream.write_all(part))
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

/// Reads what has come, at least one byte; 0 at the end. When nothing comes in time, the error is one of
/// [`io::ErrorKind::WouldBlock`] and [`io::ErrorKind::TimedOut`].
impl Read for Outbound {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.read(bytes)
    }
}
