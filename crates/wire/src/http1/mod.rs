//! HTTP/1.1 as a server reads and writes it (RFC 9110, RFC 9112).
//!
//! [`Reader`] follows the requests of one connection. It is handed the bytes that came and says how many of them it is done
//! with and what they were: a head, a whole body, or something that is no request. Nothing is allocated from a length
//! that was merely announced, and everything that may grow has a bound.

mod answer;
mod chunks;
mod head;

pub use answer::{Answer, CONTINUE};
pub use head::Head;

use chunks::Chunks;
use head::Parsed;

/// Longest head of a request, and longest trailers behind a body in chunks, in bytes.
pub const MAX_HEAD: usize = 256 << 10;
/// Most header fields of a request.
pub const MAX_FIELDS: usize = 100;
/// Memory of a decoded body that is kept for the next one, in bytes.
const KEPT_BODY: usize = 64 << 10;

/// Why a request is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes are no request; what is wrong with them.
    Request(&'static str),
    /// A version other than 1.0 and 1.1.
    Version,
    /// The request line is longer than [`MAX_HEAD`].
    TargetTooLong,
    /// The head or the trailers are longer than [`MAX_HEAD`], or have more than [`MAX_FIELDS`] fields.
    HeadTooLong,
    /// The body is longer than the reader takes.
    BodyTooLong,
    /// A transfer coding other than chunked.
    Coding,
}

impl Malformed {
    /// The status to answer with.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Malformed::Request(_) => 400,
            Malformed::BodyTooLong => 413,
            Malformed::TargetTooLong => 414,
            Malformed::HeadTooLong => 431,
            Malformed::Coding => 501,
            Malformed::Version => 505,
        }
    }

    /// The same in words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Malformed::Request(reason) => reason,
            Malformed::BodyTooLong => "the body is too long",
            Malformed::TargetTooLong => "the request line is too long",
            Malformed::HeadTooLong => "the header fields are too long or too many",
            Malformed::Coding => "the only transfer coding is chunked",
            Malformed::Version => "the version is neither HTTP/1.0 nor HTTP/1.1",
        }
    }
}

/// What the bytes at hand are.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Not enough; to be asked again with more behind them.
    More,
    /// The head of a request. Its body is given next, unless it is skipped.
    Head(Head<'a>),
    /// The whole body of the request whose head came before; empty where it has none.
    Body(&'a [u8]),
    /// No request, and what follows cannot be told apart either.
    Malformed(Malformed),
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// So many bytes.
    Length(u64),
    Chunked,
}

#[derive(Debug)]
enum State {
    /// Before a head.
    Head,
    /// Behind a head.
    Body(Framing),
    /// The request is whole, or will not become so: an answer is due.
    Answer,
}

/// The requests of one connection, one after another.
#[derive(Debug)]
pub struct Reader {
    max_body: usize,
    state: State,
    /// Bytes of an incomplete head that were looked at.
    looked: usize,
    chunks: Chunks,
    /// A body that came in chunks.
    body: Vec<u8>,
    keeps_alive: bool,
    is_http10: bool,
    /// The answer has no body.
    is_head: bool,
    /// The peer waits for a word before it sends the body.
    expects: bool,
    /// The request at hand was answered before it was whole.
    is_cut_off: bool,
    /// Bytes to come of the body of a request that is answered already.
    skips: u64,
}

impl Reader {
    /// Takes bodies of at most `max_body` bytes.
    #[must_use]
    pub fn new(max_body: usize) -> Reader {
        Reader {
            max_body,
            state: State::Head,
            looked: 0,
            chunks: Chunks::default(),
            body: Vec::new(),
            keeps_alive: true,
            is_http10: false,
            is_head: false,
            expects: false,
            is_cut_off: false,
            skips: 0,
        }
    }

    /// What `input` begins with, and how many bytes of it are done with. An answer is due after a body and after what is
    /// malformed; before it there is nothing more to be had.
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> (usize, Event<'a>) {
        let skipped = self.skips.min(input.len() as u64);
        self.skips -= skipped;
        let skipped = skipped as usize;
        let (used, event) = self.read(&input[skipped..]);
        (skipped + used, event)
    }

    fn read<'a>(&'a mut self, input: &'a [u8]) -> (usize, Event<'a>) {
        match self.state {
            State::Head => match head::parse(input, &mut self.looked) {
                Ok(None) => (0, Event::More),
                Ok(Some(parsed)) => (parsed.length, Event::Head(self.begin(parsed))),
                Err(malformed) => self.give_up(malformed),
            },
            State::Body(Framing::Length(length)) if length > self.max_body as u64 => {
                self.give_up(Malformed::BodyTooLong)
            }
            State::Body(Framing::Length(length)) => match input.get(..length as usize) {
                Some(body) => {
                    self.state = State::Answer;
                    (body.len(), Event::Body(body))
                }
                None => (0, Event::More),
            },
            State::Body(Framing::Chunked) => {
                match self.chunks.decode(input, &mut self.body, self.max_body) {
                    Ok((used, true)) => {
                        self.state = State::Answer;
                        (used, Event::Body(&self.body))
                    }
                    Ok((used, false)) => (used, Event::More),
                    Err(malformed) => self.give_up(malformed),
                }
            }
            State::Answer => (0, Event::More),
        }
    }

    fn begin<'a>(&mut self, parsed: Parsed<'a>) -> Head<'a> {
        self.state = State::Body(parsed.framing);
        self.looked = 0;
        self.keeps_alive = parsed.keeps_alive;
        self.is_http10 = parsed.is_http10;
        self.is_head = parsed.head.method == "HEAD";
        self.expects = parsed.expects;
        if parsed.framing == Framing::Chunked {
            self.chunks = Chunks::default();
            self.body.clear();
            self.body.shrink_to(KEPT_BODY);
        }
        parsed.head
    }

    fn give_up(&mut self, malformed: Malformed) -> (usize, Event<'static>) {
        if matches!(self.state, State::Head) {
            // What was known is of the request before.
            (self.is_head, self.is_http10) = (false, false);
        }
        self.state = State::Answer;
        self.cut_off();
        (0, Event::Malformed(malformed))
    }

    /// The body of the request whose head came is not wanted: how many bytes of `input` it is. What is to come of it is left
    /// out when it comes, if it is of a known length that the reader takes and the peer does not wait to send it; any
    /// other one that is not there as a whole makes this request the last of its connection.
    pub fn skip_body(&mut self, input: &[u8]) -> usize {
        let State::Body(framing) = self.state else {
            return 0;
        };
        let used = match framing {
            Framing::Length(length) => {
                let here = length.min(input.len() as u64);
                let comes = length <= self.max_body as u64 && !self.expects;
                (here == length || comes).then(|| {
                    self.skips = length - here;
                    here as usize
                })
            }
            Framing::Chunked => {
                let decoded = self.chunks.decode(input, &mut self.body, self.max_body);
                decoded.ok().and_then(|(used, whole)| whole.then_some(used))
            }
        };
        self.state = State::Answer;
        if used.is_none() {
            self.cut_off();
        }
        used.unwrap_or(0)
    }

    fn cut_off(&mut self) {
        self.keeps_alive = false;
        self.is_cut_off = true;
    }

    /// Whether the request answered last was not whole: the peer may still be sending it.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Whether the peer is to be told now, by [`CONTINUE`], that its body is wanted; true once.
    #[must_use]
    pub fn takes_up_expectation(&mut self) -> bool {
        matches!(self.state, State::Body(_)) && std::mem::take(&mut self.expects)
    }

    /// Whether a head came whose body is still on its way.
    #[must_use]
    pub fn is_within_request(&self) -> bool {
        matches!(self.state, State::Body(_))
    }

    /// Whether part of the body of a request that is answered is still on its way.
    #[must_use]
    pub fn is_skipping(&self) -> bool {
        self.skips > 0
    }

    /// Whether the connection goes on after the answer that was written last.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }

    /// No request follows the one at hand.
    pub fn end(&mut self) {
        self.keeps_alive = false;
    }

    /// Appends the answer to the request at hand, whole or not.
    pub fn answer(&mut self, answer: &Answer<'_>, out: &mut Vec<u8>) {
        if !matches!(self.state, State::Answer) {
            // What is left of the request cannot be told from the next one.
            self.cut_off();
        }
        self.state = State::Head;
        self.expects = false;
        answer.write(out, self.is_http10, self.keeps_alive, self.is_head);
    }
}

#[cfg(test)]
mod tests;
