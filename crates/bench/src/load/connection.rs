//! A non-blocking connection that writes rendered requests and cuts the replies into frames.

use std::io::{self, Read, Write};

use mio::event::Source;
use tollgate_wire::resp;

use super::address::{Endpoint, Socket};
use super::grpc::{FRAME_HEAD, FRAME_PAYLOAD_MAX};
use super::{http, memcache};
use crate::os::clock::Clock;
use crate::os::poller::Poller;

/// Bytes taken per read.
pub(crate) const READ_SIZE: usize = 64 * 1024;
/// Largest reply kept while incomplete. Replies to rate limit requests are under 100 bytes.
const REPLY_MAX: usize = 2 * 1024 * 1024;

/// What is said of a connection that the other side ended.
const CLOSED: &str = "the server closed the connection";
/// Longest reply that the next one is compared with before it is looked at: most servers give the same answer again and
/// again, and a comparison costs a tenth of finding where a reply ends.
const SAME_MAX: usize = 64;

#[derive(Debug)]
enum Stream {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

/// How the bytes of a connection are cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// RESP replies.
    Resp,
    /// HTTP/2 frames.
    Http2,
    /// HTTP/1.1 answers.
    Http1,
    /// Answers of memcached's text protocol.
    Memcache,
}

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Closed by the other side in order, between two replies.
    Closed,
    /// Its last reply was heard, and said so: what was asked behind it was not taken.
    Ended,
    /// Reset by the other side, between two replies.
    Reset(String),
    /// Ended within a reply, or failing.
    Lost(String),
    /// Its bytes are not the protocol.
    Garbage(String),
}

impl Broken {
    /// In words.
    pub(crate) fn text(self) -> String {
        match self {
            Broken::Closed | Broken::Ended => CLOSED.into(),
            Broken::Reset(text) | Broken::Lost(text) => text,
            Broken::Garbage(text) => format!("not a valid reply: {text}"),
        }
    }
}

/// Whether all bytes went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing is left.
    All,
    /// The socket is full; its writability will be reported.
    Blocked,
}

/// One connection of the generator.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    out: Vec<u8>,
    written: usize,
    partial: Vec<u8>,
    framing: Framing,
}

impl Connection {
    /// Connects as number `index` of its kind, and then stops blocking.
    pub(crate) fn open(
        endpoint: &Endpoint,
        index: usize,
        framing: Framing,
    ) -> io::Result<Connection> {
        Connection::from_socket(endpoint.connect_as(index)?, framing)
    }

    /// Takes over a blocking socket with nothing unread.
    pub(crate) fn from_socket(socket: Socket, framing: Framing) -> io::Result<Connection> {
        let stream = match socket {
            Socket::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                Stream::Tcp(mio::net::TcpStream::from_std(stream))
            }
            Socket::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Stream::Unix(mio::net::UnixStream::from_std(stream))
            }
        };
        Ok(Connection {
            stream,
            out: Vec::with_capacity(4096),
            written: 0,
            partial: Vec::new(),
            framing,
        })
    }

    /// Registers the connection under `token`.
    pub(crate) fn register(&mut self, poller: &Poller, token: usize) -> io::Result<()> {
        poller.add(self.source(), token)
    }

    fn source(&mut self) -> &mut dyn Source {
        match &mut self.stream {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }

    /// Adds a rendered request to the next write.
    #[inline]
    pub(crate) fn push(&mut self, request: &[u8]) {
        self.out.extend_from_slice(request);
    }

    /// Whether bytes wait for the socket.
    #[must_use]
    pub(crate) fn has_pending(&self) -> bool {
        self.written < self.out.len()
    }

    /// Writes what is pending, in one system call when the socket takes it.
    pub(crate) fn flush(&mut self) -> Result<Flushed, Broken> {
        while self.written < self.out.len() {
            let bytes = &self.out[self.written..];
            let done = match &mut self.stream {
                Stream::Tcp(stream) => stream.write(bytes),
                Stream::Unix(stream) => stream.write(bytes),
            };
            match done {
                Ok(0) => return Err(Broken::Lost("the connection takes no more bytes".into())),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Flushed::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&error, true)),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(Flushed::All)
    }

    /// Reads until the socket is empty (with `to_the_end`, until it says so or is closed); calls `each(frame, time)` for every whole reply, with the time right after
    /// the read that brought its end.
    pub(crate) fn read(
        &mut self,
        scratch: &mut [u8],
        clock: Clock,
        to_the_end: bool,
        mut each: impl FnMut(&[u8], u64),
    ) -> Result<(), Broken> {
        loop {
            let got = match &mut self.stream {
                Stream::Tcp(stream) => stream.read(scratch),
                Stream::Unix(stream) => stream.read(scratch),
            };
            let count = match got {
                Ok(0) if self.partial.is_empty() => return Err(Broken::Closed),
                Ok(0) => return Err(Broken::Lost(CLOSED.into())),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(&error, self.partial.is_empty())),
            };
            let now = clock.now();
            self.cut(&scratch[..count], now, &mut each)?;
            // A short read emptied the socket; what comes later is reported anew.
            if count < scratch.len() && !to_the_end {
                return Ok(());
            }
        }
    }

    fn cut(
        &mut self,
        fresh: &[u8],
        now: u64,
        each: &mut impl FnMut(&[u8], u64),
    ) -> Result<(), Broken> {
        if self.partial.is_empty() {
            let rest = frames(self.framing, fresh, now, each)?;
            self.partial.extend_from_slice(&fresh[rest..]);
        } else {
            self.partial.extend_from_slice(fresh);
            let rest = frames(self.framing, &self.partial, now, each)?;
            self.partial.drain(..rest);
        }
        if self.partial.len() > REPLY_MAX {
            return Err(Broken::Garbage(format!(
                "a reply of more than {REPLY_MAX} bytes"
            )));
        }
        Ok(())
    }
}

/// What an error of a socket means that failed between two replies, or within one.
fn failed(error: &io::Error, between: bool) -> Broken {
    let reset = matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    );
    match reset && between {
        true => Broken::Reset(error.to_string()),
        false => Broken::Lost(error.to_string()),
    }
}

/// Calls `each` for every whole frame at the front of `bytes`; returns where the rest begins. What lies behind the last
/// answer of a connection is nobody's.
fn frames(
    framing: Framing,
    bytes: &[u8],
    now: u64,
    each: &mut impl FnMut(&[u8], u64),
) -> Result<usize, Broken> {
    let mut from = 0;
    let mut last: &[u8] = &[];
    loop {
        let rest = &bytes[from..];
        let mut last_of_all = false;
        let length = match framing {
            // Where a reply ends follows from its own bytes, so the same bytes are the same reply.
            Framing::Resp if !last.is_empty() && rest.starts_with(last) => Ok(Some(last.len())),
            Framing::Resp => resp::frame_len(rest).map_err(|error| error.to_string()),
            Framing::Http2 => http2_frame_len(rest),
            Framing::Http1 if rest.is_empty() => Ok(None),
            Framing::Http1 => http::cut(rest).map(|cut| {
                last_of_all = cut.is_some_and(|cut| cut.ends_connection);
                cut.map(|cut| cut.length)
            }),
            Framing::Memcache => memcache::answer_len(rest),
        };
        match length {
            Ok(Some(length)) => {
                let frame = &rest[..length];
                each(frame, now);
                if last_of_all {
                    return Err(Broken::Ended);
                }
                last = if length <= SAME_MAX { frame } else { &[] };
                from += length;
            }
            Ok(None) => return Ok(from),
            Err(error) => {
                let shown = String::from_utf8_lossy(&rest[..rest.len().min(40)]);
                return Err(Broken::Garbage(format!("{error} in {shown:?}")));
            }
        }
    }
}

fn http2_frame_len(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(&[a, b, c, ..]) = bytes.get(..FRAME_HEAD) else {
        return Ok(None);
    };
    let payload = u32::from_be_bytes([0, a, b, c]) as usize;
    if payload > FRAME_PAYLOAD_MAX {
        return Err(format!("an HTTP/2 frame of {payload} bytes"));
    }
    let length = FRAME_HEAD + payload;
    Ok((bytes.len() >= length).then_some(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_alike_and_unlike_are_cut_where_they_end() {
        let long = format!("${}\r\n{}\r\n", 2 * SAME_MAX, "x".repeat(2 * SAME_MAX));
        let replies = [
            ":1\r\n",
            ":1\r\n",
            ":12\r\n",
            "$3\r\nabc\r\n",
            "$3\r\nabc\r\n",
            "$3\r\nabd\r\n",
            "*2\r\n:1\r\n:2\r\n",
            "*2\r\n:1\r\n:2\r\n",
            "*2\r\n:1\r\n:3\r\n",
            &long,
            &long,
            "-ERR no\r\n",
        ];
        let bytes = replies.concat();
        for end in 0..=bytes.len() {
            let mut found: Vec<String> = Vec::new();
            let rest = frames(
                Framing::Resp,
                &bytes.as_bytes()[..end],
                0,
                &mut |frame, _| {
                    found.push(String::from_utf8_lossy(frame).into_owned());
                },
            );
            let rest = rest.unwrap();
            assert_eq!(found, replies[..found.len()], "of {end} bytes");
            assert_eq!(found.concat().len(), rest);
            assert!(found.len() == replies.len() || rest + replies[found.len()].len() > end);
        }
    }
}
