//! A connection to another server, for a thread that has nothing else to do than to wait for it.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Bytes written at a time, each within the time-out.
const CHUNK: usize = 64 * 1024;

/// A connection whose every step ends within a time.
#[derive(Debug)]
pub struct Outbound {
    stream: BufReader<TcpStream>,
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
