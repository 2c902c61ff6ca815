//! Writes replies into a growable buffer, in either protocol.

use super::digits::{IntText, push_double, push_header};
use super::{Protocol, ProtocolError};

/// A drained buffer that grew beyond this many bytes gives its memory back, so that one large reply does not
/// stay charged to an idle connection.
const KEPT_CAPACITY: usize = 64 * 1024;

/// Longest bulk that is copied by a few fixed steps.
const SHORT: usize = 24;

/// Replies of one connection, in order, not yet sent.
///
/// Every method appends one reply or one header; the caller writes the promised elements after a header.
#[derive(Debug, Default)]
pub struct ReplyBuf {
    protocol: Protocol,
    /// Bytes before `sent` have been handed over.
    sent: usize,
    buf: Vec<u8>,
}

/// A place where an array header goes once the number of elements is known.
#[derive(Debug)]
#[must_use = "an array whose header is never written breaks the reply stream"]
pub struct DeferredArray {
    /// Offset among all bytes in the buffer, the handed-over ones included.
    at: usize,
}

impl ReplyBuf {
    /// An empty buffer; allocates nothing.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        ReplyBuf {
            protocol,
            sent: 0,
            buf: Vec::new(),
        }
    }

    /// Protocol of the replies written from now on.
    #[must_use]
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol of the replies written from now on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Bytes not yet handed over.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buf[self.sent..]
    }

    /// Marks the first `n` bytes as handed over.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.len(), "more bytes sent than written");
        self.sent += n;
        if self.sent == self.buf.len() {
            self.clear();
        } else if self.sent >= KEPT_CAPACITY && self.sent >= self.buf.len() / 2 {
            // A client that always leaves a few bytes unread must not keep the sent ones alive; moving at
            // most as many bytes as were sent keeps the cost per byte constant.
            self.buf.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Number of bytes not yet handed over.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.buf.len() - self.sent
    }

    /// Whether everything has been handed over.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything that is not handed over.
    #[inline]
    pub fn clear(&mut self) {
        self.buf.clear();
        self.sent = 0;
        if self.buf.capacity() > KEPT_CAPACITY {
            self.buf.shrink_to(KEPT_CAPACITY);
        }
    }

    /// Hands everything over that is not yet, with the buffer.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.buf.drain(..std::mem::take(&mut self.sent));
        std::mem::take(&mut self.buf)
    }

    /// Cuts the buffer back to `len` unsent bytes (a value [`ReplyBuf::len`] gave earlier, with no [`ReplyBuf::consume`]
    /// in between), taking back what was written since.
    pub fn truncate(&mut self, len: usize) {
        self.buf.truncate(self.sent + len);
    }

    /// Puts bytes that are whole replies in front of those written since the buffer held `at` unsent bytes.
    pub fn insert(&mut self, at: usize, bytes: &[u8]) {
        let at = self.sent + at;
        let end = self.buf.len();
        self.buf.extend_from_slice(bytes);
        let added = self.buf.len() - end;
        self.buf[at..].rotate_right(added);
    }

    /// Heap bytes held.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.buf.extend_from_slice(b"+OK\r\n");
    }

    /// `+text`. A CR or LF in `text` becomes a space.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `-line`, where `line` starts with its code (`ERR syntax error`). A CR or LF in it becomes a space.
    pub fn error(&mut self, line: &str) {
        self.line(b'-', line.as_bytes());
    }

    /// As [`ReplyBuf::error`], for a line that quotes a client's bytes.
    pub fn error_bytes(&mut self, line: &[u8]) {
        self.line(b'-', line);
    }

    /// The reply that goes before the connection is closed; nothing for an error that is silent.
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        if !error.is_silent() {
            self.line(b'-', &error.line());
        }
    }

    #[inline]
    pub(super) fn line(&mut self, kind: u8, text: &[u8]) {
        self.buf.reserve(text.len() + 3);
        self.buf.push(kind);
        let start = self.buf.len();
        self.buf.extend_from_slice(text);
        for byte in &mut self.buf[start..] {
            if matches!(*byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.buf.extend_from_slice(b"\r\n");
    }

    /// `:value`.
    #[inline]
    pub fn int(&mut self, value: i64) {
        push_header(&mut self.buf, b':', value);
    }

    /// `$len` and the bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.sized(b'$', bytes);
    }

    #[inline]
    fn sized(&mut self, kind: u8, bytes: &[u8]) {
        if bytes.len() <= SHORT {
            return self.short(kind, bytes);
        }
        // 25 = kind, 20 digits, two CR LF.
        self.buf.reserve(bytes.len() + 25);
        push_header(&mut self.buf, kind, bytes.len() as i64);
        self.buf.extend_from_slice(bytes);
        self.buf.extend_from_slice(b"\r\n");
    }

    /// Writes a short bulk into room of a fixed size: copying so few bytes costs less than calling for it.
    #[inline]
    fn short(&mut self, kind: u8, bytes: &[u8]) {
        const ROOM: [u8; SHORT + 7] = [0; SHORT + 7];
        let (len, at) = (bytes.len(), self.buf.len());
        self.buf.extend_from_slice(&ROOM);
        let line = &mut self.buf[at..at + ROOM.len()];
        line[0] = kind;
        let start = if len < 10 {
            line[1] = b'0' + len as u8;
            2
        } else {
            line[1] = b'0' + (len / 10) as u8;
            line[2] = b'0' + (len % 10) as u8;
            3
        };
        line[start..start + 2].copy_from_slice(b"\r\n");
        let body = &mut line[start + 2..start + 2 + SHORT + 2];
        if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            // Chunks of eight from the front, and the last eight over them.
            let (chunks, _) = bytes.as_chunks::<8>();
            body[..8].copy_from_slice(first);
            for (index, chunk) in chunks.iter().enumerate().skip(1) {
                body[8 * index..8 * index + 8].copy_from_slice(chunk);
            }
            body[len - 8..len].copy_from_slice(last);
        } else {
            body.iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = *from);
        }
        body[len..len + 2].copy_from_slice(b"\r\n");
        self.buf.truncate(at + start + 2 + len + 2);
    }

    /// `$len` and the decimal text of `value`: an integer stored under a key, read as a string.
    #[inline]
    pub fn bulk_int(&mut self, value: i64) {
        let text = IntText::new(value);
        self.bulk(text.as_bytes());
    }

    /// Absent value: `$-1` in RESP2, `_` in RESP3.
    #[inline]
    pub fn null(&mut self) {
        self.buf.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Absent collection: `*-1` in RESP2, `_` in RESP3.
    #[inline]
    pub fn null_array(&mut self) {
        self.buf.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Header of an array of `len` elements.
    #[inline]
    pub fn array(&mut self, len: usize) {
        push_header(&mut self.buf, b'*', len as i64);
    }

    /// Header of a map of `len` pairs; in RESP2 an array of twice as many elements.
    #[inline]
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => push_header(&mut self.buf, b'*', 2 * len as i64),
            Protocol::Resp3 => push_header(&mut self.buf, b'%', len as i64),
        }
    }

    /// Header of a set of `len` members; in RESP2 an array.
    #[inline]
    pub fn set(&mut self, len: usize) {
        self.typed(b'~', len);
    }

    /// Header of an out-of-band message of `len` elements; in RESP2 an array.
    #[inline]
    pub fn push(&mut self, len: usize) {
        self.typed(b'>', len);
    }

    fn typed(&mut self, kind: u8, len: usize) {
        let kind = match self.protocol {
            Protocol::Resp2 => b'*',
            Protocol::Resp3 => kind,
        };
        push_header(&mut self.buf, kind, len as i64);
    }

    /// A double as Redis 7.0 prints it (`%.17g`, `inf`, `-inf`, `nan`); in RESP2 a bulk string.
    #[inline]
    pub fn double(&mut self, value: f64) {
        // Whole numbers, which most are, print as integers do while they are exact; a negative zero keeps its sign.
        const EXACT: f64 = (1_u64 << 53) as f64;
        let whole = value as i64;
        if value.abs() < EXACT && (whole as f64).to_bits() == value.to_bits() {
            return match self.protocol {
                Protocol::Resp2 => self.bulk_int(whole),
                Protocol::Resp3 => push_header(&mut self.buf, b',', whole),
            };
        }
        self.double_text(value);
    }

    /// The text of a double (see [`ReplyBuf::double`]) as a bulk string in both protocols.
    pub fn bulk_double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(24);
        push_double(&mut text, value);
        self.bulk(&text);
    }

    fn double_text(&mut self, value: f64) {
        let mut text = Vec::with_capacity(24);
        push_double(&mut text, value);
        match self.protocol {
            Protocol::Resp2 => self.bulk(&text),
            Protocol::Resp3 => self.line(b',', &text),
        }
    }

    /// A double given as its text; in RESP2 a bulk string.
    pub fn double_as(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// A truth value; in RESP2 the integer 1 or 0.
    pub fn bool(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 => self.int(i64::from(value)),
            Protocol::Resp3 => {
                self.buf
                    .extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" })
            }
        }
    }

    /// Text with a three-letter format (`txt`, `mkd`); in RESP2 a bulk string without the format.
    ///
    /// # Panics
    /// If `kind` does not have three bytes.
    pub fn verbatim(&mut self, kind: &str, text: &[u8]) {
        let kind = kind
            .as_bytes()
            .try_into()
            .expect("a verbatim format has three letters");
        self.verbatim_bytes(kind, text);
    }

    pub(super) fn verbatim_bytes(&mut self, kind: [u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.buf.reserve(text.len() + 29);
                push_header(&mut self.buf, b'=', text.len() as i64 + 4);
                self.buf.extend_from_slice(&kind);
                self.buf.push(b':');
                self.buf.extend_from_slice(text);
                self.buf.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A number beyond 64 bits, given as its digits; in RESP2 a bulk string.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits),
        }
    }

    /// Bytes that are a whole reply already.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Starts an array whose length is not known yet: write the elements, then [`ReplyBuf::close_array`].
    /// Nothing may be consumed or truncated before that in between.
    pub fn defer_array(&mut self) -> DeferredArray {
        DeferredArray { at: self.buf.len() }
    }

    /// Puts the header of `len` elements where [`ReplyBuf::defer_array`] left its place. Moves what was written since.
    pub fn close_array(&mut self, place: DeferredArray, len: usize) {
        let end = self.buf.len();
        push_header(&mut self.buf, b'*', len as i64);
        let header = self.buf.len() - end;
        self.buf[place.at..].rotate_right(header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(write: impl Fn(&mut ReplyBuf)) -> (String, String) {
        let text = |protocol| {
            let mut out = ReplyBuf::new(protocol);
            write(&mut out);
            String::from_utf8(out.bytes().to_vec()).expect("replies of these tests are ASCII")
        };
        (text(Protocol::Resp2), text(Protocol::Resp3))
    }

    fn check(write: impl Fn(&mut ReplyBuf), resp2: &str, resp3: &str) {
        assert_eq!(both(write), (resp2.to_owned(), resp3.to_owned()));
    }

    /// Expected bytes were read from `DEBUG PROTOCOL` of redis-server 7.0.15.
    #[test]
    fn types_differ_by_protocol() {
        check(|out| out.double(6.25), "$4\r\n6.25\r\n", ",6.25\r\n");
        check(|out| out.double(-70.0), "$3\r\n-70\r\n", ",-70\r\n");
        check(|out| out.double(-0.0), "$2\r\n-0\r\n", ",-0\r\n");
        check(ReplyBuf::null, "$-1\r\n", "_\r\n");
        check(ReplyBuf::null_array, "*-1\r\n", "_\r\n");
        check(|out| out.map(3), "*6\r\n", "%3\r\n");
        check(|out| out.set(3), "*3\r\n", "~3\r\n");
        check(|out| out.push(2), "*2\r\n", ">2\r\n");
        check(|out| out.bool(true), ":1\r\n", "#t\r\n");
        check(|out| out.bool(false), ":0\r\n", "#f\r\n");
        check(
            |out| out.verbatim("txt", b"This is a verbatim\nstring"),
            "$25\r\nThis is a verbatim\nstring\r\n",
            "=29\r\ntxt:This is a verbatim\nstring\r\n",
        );
        check(|out| out.big_number(b"123"), "$3\r\n123\r\n", "(123\r\n");
    }

    #[test]
    fn bulks_of_every_length_are_whole() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut out = ReplyBuf::new(Protocol::Resp2);
        let mut expected = Vec::new();
        for len in 0..bytes.len() {
            out.bulk(&bytes[..len]);
            expected.extend_from_slice(format!("${len}\r\n").as_bytes());
            expected.extend_from_slice(&bytes[..len]);
            expected.extend_from_slice(b"\r\n");
        }
        assert_eq!(out.bytes(), expected);
    }

    #[test]
    fn lines_never_hold_a_line_break() {
        check(
            |out| out.error("ERR a\r\nb"),
            "-ERR a  b\r\n",
            "-ERR a  b\r\n",
        );
        check(|out| out.simple("a\nb"), "+a b\r\n", "+a b\r\n");
    }

    #[test]
    fn a_deferred_header_lands_before_its_elements_however_long_it_is() {
        for len in [0, 3, 10, 1000] {
            let mut out = ReplyBuf::new(Protocol::Resp2);
            out.ok();
            out.consume(2);
            let outer = out.defer_array();
            let inner = out.defer_array();
            for _ in 0..len {
                out.bulk(b"abc");
            }
            out.close_array(inner, len);
            out.int(7);
            out.close_array(outer, 2);
            let expected = format!("K\r\n*2\r\n*{len}\r\n{}:7\r\n", "$3\r\nabc\r\n".repeat(len));
            assert_eq!(out.bytes(), expected.as_bytes());
        }
    }

    #[test]
    fn a_slow_reader_sees_every_byte_once_and_the_buffer_stays_small() {
        let mut out = ReplyBuf::new(Protocol::Resp2);
        let mut seen = Vec::new();
        let mut expected = Vec::new();
        for i in 0..20_000i64 {
            out.int(i);
            expected.extend_from_slice(format!(":{i}\r\n").as_bytes());
            let take = out.len().saturating_sub(3);
            seen.extend_from_slice(&out.bytes()[..take]);
            out.consume(take);
            assert!(out.capacity() <= 4 * KEPT_CAPACITY);
        }
        seen.extend_from_slice(out.bytes());
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_large_reply_gives_its_memory_back() {
        let mut out = ReplyBuf::new(Protocol::Resp2);
        out.bulk(&vec![b'x'; 10 * KEPT_CAPACITY]);
        out.consume(out.len());
        assert!(out.is_empty() && out.capacity() <= KEPT_CAPACITY);
    }

    #[test]
    fn what_is_inserted_stands_before_what_was_written_since() {
        let mut out = ReplyBuf::new(Protocol::Resp2);
        out.ok();
        out.consume(2);
        let mark = out.len();
        out.int(5);
        out.insert(mark, b"+first\r\n");
        assert_eq!(out.bytes(), b"K\r\n+first\r\n:5\r\n");
    }

    #[test]
    fn truncating_takes_back_what_was_written_since() {
        let mut out = ReplyBuf::new(Protocol::Resp2);
        out.ok();
        out.int(5);
        out.consume(5);
        let mark = out.len();
        out.bulk(b"gone");
        out.truncate(mark);
        assert_eq!(out.bytes(), b":5\r\n");
    }
}
