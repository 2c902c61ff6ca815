//! Reads commands from a byte stream: the multibulk form and the inline form.
//!
//! The parser borrows: arguments are ranges of the caller's buffer, and a command that arrives in pieces keeps its
//! progress, so trickling bytes cost linear time in total. No length from the wire ever sizes an allocation; memory
//! grows only with bytes that arrived.

use std::fmt;

use memchr::memchr;
use smallvec::SmallVec;

use super::digits::{parse_int, push_header};
use super::inline::split_line;

/// Arguments that fit without a heap allocation.
const INLINE_ARGS: usize = 16;

/// Scratch memory kept between commands; one giant MSET must not stay charged to its connection.
const KEPT_ARGS: usize = 1024;

/// Kept scratch bytes for inline commands.
const KEPT_SCRATCH: usize = 4096;

/// Most arguments of a command before authentication (Redis: `processMultibulkBuffer`).
const UNAUTHENTICATED_MAX_ARGS: usize = 10;

/// Longest argument in bytes before authentication.
const UNAUTHENTICATED_MAX_BULK: usize = 16_384;

/// The most that any bound on an argument can be, bytes: values count their bytes in 32 bits, and need some for themselves.
pub const BULK_MAX: usize = 4_095 << 20;

/// Arguments of one command, borrowed from the input.
pub type ArgList<'a> = SmallVec<[&'a [u8]; INLINE_ARGS]>;

/// Bounds on what a client may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest argument, bytes (`proto-max-bulk-len`).
    pub max_bulk_len: usize,
    /// Most arguments of one command.
    pub max_args: usize,
    /// Longest inline command or length header, bytes.
    pub max_inline: usize,
    /// Longest whole command, bytes (`client-query-buffer-limit`); values above 4 GiB act as 4 GiB.
    pub max_request: usize,
    /// Whether the client may send more than 10 arguments, and arguments beyond 16 KiB.
    pub authenticated: bool,
}

impl Limits {
    /// Bounds for a client that may run commands.
    #[must_use]
    pub const fn authenticated() -> Self {
        Limits {
            max_bulk_len: 512 * 1024 * 1024,
            max_args: i32::MAX as usize,
            max_inline: 64 * 1024,
            max_request: 1024 * 1024 * 1024,
            authenticated: true,
        }
    }

    /// Bounds for a master, and for what was recorded: its settings, which need not be those of this server, have let it
    /// through.
    #[must_use]
    pub const fn trusted() -> Self {
        Limits {
            max_bulk_len: BULK_MAX,
            max_request: u32::MAX as usize,
            ..Self::authenticated()
        }
    }

    /// Bounds for a client that has yet to give a password.
    #[must_use]
    pub const fn unauthenticated() -> Self {
        Limits {
            authenticated: false,
            ..Self::authenticated()
        }
    }
}

/// What [`RequestParser::parse`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// One command occupies the first `consumed` bytes. It may have no arguments: then it gets no reply.
    Ready {
        /// Bytes to drop from the buffer before the next call.
        consumed: usize,
    },
    /// The command is not complete.
    Incomplete {
        /// At least this many more bytes are to come.
        needed: usize,
    },
}

/// Why a byte stream is not a command. The connection cannot be used any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolError {
    /// The count after `*` is not a number in range.
    InvalidMultibulkLength,
    /// More than 10 arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// The length after `$` is not a number in range.
    InvalidBulkLength,
    /// An argument beyond 16 KiB before authentication.
    UnauthenticatedBulkLength,
    /// An argument started with another byte.
    ExpectedDollar(u8),
    /// No line end within the inline limit.
    TooBigInline,
    /// No line end within the inline limit, after `*`.
    TooBigMultibulkHeader,
    /// No line end within the inline limit, after `$`.
    TooBigBulkHeader,
    /// A quote of an inline command is not closed, or text follows it.
    UnbalancedQuotes,
    /// The command is longer than the limit on whole commands.
    TooBigRequest,
    /// An HTTP request: a browser may have been tricked into sending it, so nothing is answered.
    CrossProtocol,
}

impl ProtocolError {
    /// Whether the connection is closed without a reply.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        matches!(self, ProtocolError::CrossProtocol)
    }

    /// The error line with its code, as [`super::ReplyBuf::error_bytes`] takes it. Quotes the client's byte unchanged.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut line = b"ERR ".to_vec();
        match self {
            ProtocolError::ExpectedDollar(byte) => {
                line.extend_from_slice(b"Protocol error: expected '$', got '");
                line.extend_from_slice(&[*byte, b'\'']);
            }
            other => line.extend_from_slice(other.to_string().as_bytes()),
        }
        line
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::ExpectedDollar(byte) => {
                return write!(
                    f,
                    "Protocol error: expected '$', got '{}'",
                    byte.escape_ascii()
                );
            }
            ProtocolError::TooBigInline => "too big inline request",
            ProtocolError::TooBigMultibulkHeader => "too big mbulk count string",
            ProtocolError::TooBigBulkHeader => "too big bulk count string",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::TooBigRequest => "too big request",
            ProtocolError::CrossProtocol => "HTTP request on a Redis port",
        };
        write!(f, "Protocol error: {text}")
    }
}

impl std::error::Error for ProtocolError {}

/// Where an argument lies; offsets from the command's first byte, or into the scratch of an inline command.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

/// Incremental request parser of one connection.
///
/// Call [`RequestParser::parse`] with the unread bytes. While it answers [`Progress::Incomplete`], call it again with the
/// same bytes and more behind them; after [`Progress::Ready`], read [`RequestParser::args`], drop the consumed bytes and go on.
#[derive(Debug, Default)]
pub struct RequestParser {
    /// Bytes of the current command that are understood.
    pos: usize,
    /// Arguments still to come; 0 before the header is read.
    missing: usize,
    /// Length of the argument whose header is read and whose bytes are not all here.
    bulk: Option<usize>,
    /// Bytes from `pos` on that hold no line end.
    scanned: usize,
    /// The last call reported a command; the next one starts anew.
    finished: bool,
    /// `spans` point into `scratch` instead of the caller's buffer.
    inline: bool,
    spans: SmallVec<[Span; INLINE_ARGS]>,
    scratch: Vec<u8>,
}

/// A length header, or how far it is.
enum Header {
    /// The number, and the offset behind its CR LF.
    Value(i64, usize),
    /// A whole line that is no number.
    Invalid,
    Incomplete,
    TooBig,
}

impl RequestParser {
    /// A parser at the start of a command; allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one command from the front of `buf`, which must start at that command's first byte on every call.
    ///
    /// # Errors
    /// [`ProtocolError`]: these bytes are no command, or one beyond `limits`. The connection cannot go on: where the next
    /// command begins is not known.
    #[inline]
    pub fn parse(&mut self, buf: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        if self.finished {
            self.restart();
        }
        if self.missing == 0 {
            match buf.first() {
                None => return Ok(Progress::Incomplete { needed: 1 }),
                Some(b'*') => {
                    if let Some(progress) = self.parse_count(buf, limits)? {
                        return Ok(progress);
                    }
                }
                Some(_) => return self.parse_inline(buf, limits),
            }
        }
        self.parse_bulks(buf, limits)
    }

    /// Number of arguments of the command last reported as ready.
    #[must_use]
    #[inline]
    pub fn arg_count(&self) -> usize {
        self.spans.len()
    }

    /// Arguments of the command last reported as ready. `buf` is the buffer that [`RequestParser::parse`] saw then.
    #[must_use]
    #[inline]
    pub fn args<'a>(&'a self, buf: &'a [u8]) -> ArgList<'a> {
        let mut args = ArgList::new();
        self.args_into(buf, &mut args);
        args
    }

    /// As [`RequestParser::args`], appended to a list that stays where it is: returning one by value moves its 264 bytes,
    /// for about half the time that parsing a short command takes (`cargo bench -p tollgate-wire`).
    #[inline]
    pub fn args_into<'a>(&'a self, buf: &'a [u8], args: &mut ArgList<'a>) {
        let source = if self.inline { &self.scratch[..] } else { buf };
        for span in &self.spans {
            args.push(&source[span.start as usize..][..span.len as usize]);
        }
    }

    /// Heap bytes held.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let spilled = if self.spans.spilled() {
            self.spans.capacity() * size_of::<Span>()
        } else {
            0
        };
        spilled + self.scratch.capacity()
    }

    #[inline]
    fn restart(&mut self) {
        self.pos = 0;
        self.finished = false;
        if self.spans.capacity() > KEPT_ARGS {
            self.spans = SmallVec::new();
        } else {
            self.spans.clear();
        }
        if self.inline {
            self.inline = false;
            if self.scratch.capacity() > KEPT_SCRATCH {
                self.scratch = Vec::new();
            }
        }
    }

    /// Reads `*count`; `None` when arguments follow.
    #[inline]
    fn parse_count(
        &mut self,
        buf: &[u8],
        limits: &Limits,
    ) -> Result<Option<Progress>, ProtocolError> {
        match self.read_header(buf, 1, limits) {
            Header::Incomplete => Ok(Some(Progress::Incomplete { needed: 1 })),
            Header::TooBig => Err(ProtocolError::TooBigMultibulkHeader),
            Header::Invalid => Err(ProtocolError::InvalidMultibulkLength),
            Header::Value(count, next) => {
                self.pos = next;
                if count <= 0 {
                    self.finished = true;
                    return Ok(Some(Progress::Ready { consumed: next }));
                }
                match usize::try_from(count) {
                    Ok(count) if count <= limits.max_args => self.missing = count,
                    _ => return Err(ProtocolError::InvalidMultibulkLength),
                }
                if !limits.authenticated && self.missing > UNAUTHENTICATED_MAX_ARGS {
                    return Err(ProtocolError::UnauthenticatedMultibulkLength);
                }
                Ok(None)
            }
        }
    }

    #[inline]
    fn parse_bulks(&mut self, buf: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        loop {
            let len = match self.bulk {
                Some(len) => len,
                None => match self.parse_bulk_len(buf, limits)? {
                    Some(len) => len,
                    None => return Ok(Progress::Incomplete { needed: 1 }),
                },
            };
            let end = self.pos + len + 2;
            if end > buf.len() {
                self.bulk = Some(len);
                return Ok(Progress::Incomplete {
                    needed: end - buf.len(),
                });
            }
            self.bulk = None;
            // `parse_bulk_len` keeps `end` within u32.
            self.spans.push(Span {
                start: self.pos as u32,
                len: len as u32,
            });
            // Redis skips the two bytes behind an argument without looking at them.
            self.pos = end;
            self.missing -= 1;
            if self.missing == 0 {
                self.finished = true;
                self.guard_cross_protocol(buf)?;
                return Ok(Progress::Ready { consumed: end });
            }
        }
    }

    /// Reads `$len`; `None` when it is not complete.
    #[inline]
    fn parse_bulk_len(
        &mut self,
        buf: &[u8],
        limits: &Limits,
    ) -> Result<Option<usize>, ProtocolError> {
        match buf.get(self.pos) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(&other) => return Err(ProtocolError::ExpectedDollar(other)),
        }
        match self.read_header(buf, self.pos + 1, limits) {
            Header::Incomplete => Ok(None),
            Header::TooBig => Err(ProtocolError::TooBigBulkHeader),
            Header::Invalid => Err(ProtocolError::InvalidBulkLength),
            Header::Value(len, next) => {
                let len = usize::try_from(len).map_err(|_| ProtocolError::InvalidBulkLength)?;
                if len > limits.max_bulk_len {
                    return Err(ProtocolError::InvalidBulkLength);
                }
                if !limits.authenticated && len > UNAUTHENTICATED_MAX_BULK {
                    return Err(ProtocolError::UnauthenticatedBulkLength);
                }
                if next.saturating_add(len).saturating_add(2)
                    > limits.max_request.min(u32::MAX as usize)
                {
                    return Err(ProtocolError::TooBigRequest);
                }
                self.pos = next;
                Ok(Some(len))
            }
        }
    }

    /// Reads the number at `start` and its line end. Redis skips the byte behind CR without looking at it.
    #[inline]
    fn read_header(&mut self, buf: &[u8], start: usize, limits: &Limits) -> Header {
        /// Numbers of up to this many digits take the short way; longer ones are errors or gigabytes.
        const SHORT: usize = 9;
        let mut value = 0u32;
        for (digits, &byte) in buf[start.min(buf.len())..]
            .iter()
            .take(SHORT + 1)
            .enumerate()
        {
            let digit = byte.wrapping_sub(b'0');
            if digit <= 9 && digits < SHORT {
                value = value * 10 + u32::from(digit);
                continue;
            }
            let leading_zero = digits > 1 && buf[start] == b'0';
            if byte == b'\r' && digits > 0 && !leading_zero && start + digits + 1 < buf.len() {
                self.scanned = 0;
                return Header::Value(i64::from(value), start + digits + 2);
            }
            break;
        }
        self.read_header_slowly(buf, start, limits)
    }

    #[cold]
    fn read_header_slowly(&mut self, buf: &[u8], start: usize, limits: &Limits) -> Header {
        let line = &buf[start.min(buf.len())..];
        let searched = &line[..line.len().min(limits.max_inline)];
        match memchr(b'\r', &searched[self.scanned.min(searched.len())..]) {
            None if line.len() >= limits.max_inline => Header::TooBig,
            None => {
                self.scanned = line.len();
                Header::Incomplete
            }
            Some(found) => {
                let len = self.scanned + found;
                if line.len() < len + 2 {
                    self.scanned = len;
                    return Header::Incomplete;
                }
                self.scanned = 0;
                match parse_int(&line[..len]) {
                    Some(value) => Header::Value(value, start + len + 2),
                    None => Header::Invalid,
                }
            }
        }
    }

    #[cold]
    fn parse_inline(&mut self, buf: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        let searched = &buf[..buf.len().min(limits.max_inline + 1)];
        let Some(found) = memchr(b'\n', &searched[self.scanned.min(searched.len())..]) else {
            if buf.len() > limits.max_inline {
                return Err(ProtocolError::TooBigInline);
            }
            self.scanned = buf.len();
            return Ok(Progress::Incomplete { needed: 1 });
        };
        let newline = self.scanned + found;
        self.scanned = 0;
        let line = &buf[..newline];
        self.scratch.clear();
        let (scratch, spans) = (&mut self.scratch, &mut self.spans);
        split_line(line.strip_suffix(b"\r").unwrap_or(line), |arg| {
            // Both fit u32: a line is at most `max_inline` long, and quoting only shortens it.
            spans.push(Span {
                start: scratch.len() as u32,
                len: arg.len() as u32,
            });
            scratch.extend_from_slice(arg);
        })
        .map_err(|_| ProtocolError::UnbalancedQuotes)?;
        self.inline = true;
        self.finished = true;
        self.guard_cross_protocol(buf)?;
        Ok(Progress::Ready {
            consumed: newline + 1,
        })
    }

    /// A command named `POST` or `Host:` is an HTTP request.
    #[inline]
    fn guard_cross_protocol(&self, buf: &[u8]) -> Result<(), ProtocolError> {
        let Some(first) = self.spans.first() else {
            return Ok(());
        };
        if first.len != 4 && first.len != 5 {
            return Ok(());
        }
        let source = if self.inline { &self.scratch[..] } else { buf };
        let name = &source[first.start as usize..][..first.len as usize];
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            return Err(ProtocolError::CrossProtocol);
        }
        Ok(())
    }
}

/// Appends one command in multibulk form.
pub fn write_command(out: &mut Vec<u8>, args: &[&[u8]]) {
    // 25 = marker, 20 digits, two CR LF.
    out.reserve(25 + args.iter().map(|arg| arg.len() + 25).sum::<usize>());
    push_header(out, b'*', args.len() as i64);
    for arg in args {
        push_header(out, b'$', arg.len() as i64);
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}
