//! Requests out of a stream of bytes.

use super::line::{Line, judge, words};
use super::request::Request;
use super::{BAD_CHUNK, parse_u32};

/// Bounds of what a client may send.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest item in bytes, as memcached counts them; the data of a larger one are passed over without being kept.
    pub item_max: usize,
    /// Longest line of a command that names many keys, in bytes; all others may have `LINE_MAX`.
    pub keys_max: usize,
}

/// Longest line in bytes, but of commands that name many keys.
const LINE_MAX: usize = 2048;

/// Longest user and password together, in bytes.
pub(super) const CREDENTIALS_MAX: usize = 2048;

/// What stands at the front of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// A request, and how many bytes it took.
    Request(Request<'a>, usize),
    /// Nothing whole. So many bytes are done with; so many more are missing at least, as far as known.
    Incomplete {
        /// Bytes that were passed over.
        consumed: usize,
        /// Bytes that must still arrive; 0 = not known.
        needed: usize,
    },
    /// What can be no request: the connection is to be closed.
    Broken,
    /// User and password, and how many bytes they took; only of [`Reader::read_credentials`].
    Credentials(Option<(&'a [u8], &'a [u8])>, usize),
}

/// Reads requests; between two calls it knows only how much is to be passed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reader {
    /// Bytes of data that nobody wants and that are still to come.
    ignored: usize,
}

impl Reader {
    /// Reads the request at the front of `input`, which begins where the last one ended.
    pub fn read<'a>(&mut self, input: &'a [u8], limits: &Limits) -> Read<'a> {
        let skipped = self.ignored.min(input.len());
        self.ignored -= skipped;
        let rest = &input[skipped..];
        if self.ignored > 0 || rest.is_empty() {
            return Read::Incomplete {
                consumed: skipped,
                needed: 0,
            };
        }
        let Some((line, end)) = cut_line(rest) else {
            return match is_too_long(rest, limits.keys_max) {
                true => Read::Broken,
                false => Read::Incomplete {
                    consumed: skipped,
                    needed: 0,
                },
            };
        };
        let end = skipped + end;
        match judge(line, limits.item_max) {
            Line::Whole(request) => Read::Request(request, end),
            Line::Ignored(answer, len) => {
                self.ignored = len + 2;
                Read::Request(answer, end)
            }
            Line::Data(mut target, len) => {
                let whole = end + len + 2;
                let Some(block) = input.get(end..whole) else {
                    return Read::Incomplete {
                        consumed: skipped,
                        needed: whole - input.len(),
                    };
                };
                match block.strip_suffix(b"\r\n") {
                    Some(data) => {
                        target.data = data;
                        Read::Request(Request::Item(target), whole)
                    }
                    None => {
                        // Meta commands are always told.
                        let told =
                            target.options.style == super::Style::Meta || !target.options.quiet;
                        let line = told.then_some(BAD_CHUNK);
                        Read::Request(Request::Refused { line }, whole)
                    }
                }
            }
        }
    }

    /// Reads user and password, of a client that has to send them first: as the data of a `set` whose key, flags and expiry mean
    /// nothing. Anything else is refused.
    pub fn read_credentials<'a>(&mut self, input: &'a [u8]) -> Read<'a> {
        let incomplete = |needed| Read::Incomplete {
            consumed: 0,
            needed,
        };
        let refused = |line, end| Read::Request(Request::Refused { line: Some(line) }, end);
        let Some((line, end)) = cut_line(input) else {
            return match input.len() > LINE_MAX {
                true => Read::Broken,
                false => incomplete(0),
            };
        };
        let (words, _) = words(line);
        let len = match words[..] {
            [b"set", _, _, _, len, ..] => parse_u32(len).map(|len| len as usize),
            _ => None,
        };
        let Some(len) = len.filter(|&len| len <= CREDENTIALS_MAX) else {
            return refused("CLIENT_ERROR unauthenticated", end);
        };
        let whole = end + len + 2;
        let Some(block) = input.get(end..whole) else {
            return incomplete(whole - input.len());
        };
        let Some(data) = block.strip_suffix(b"\r\n") else {
            return refused("CLIENT_ERROR bad command line termination", whole);
        };
        let mut words = data.split(|&b| b == b' ').filter(|word| !word.is_empty());
        Read::Credentials(words.next().zip(words.next()), whole)
    }
}

/// The first line without its end, and the bytes it takes with it.
fn cut_line(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', input)?;
    let line = &input[..end];
    // A line end alone is a line of one carriage return, as in memcached.
    let line = match line.strip_suffix(b"\r") {
        Some(stripped) if !stripped.is_empty() => stripped,
        _ => line,
    };
    Some((line, end + 1))
}

/// Whether a line that has not ended is longer than any may be.
fn is_too_long(input: &[u8], keys_max: usize) -> bool {
    if input.len() <= LINE_MAX {
        return false;
    }
    let line = input.trim_ascii_start();
    let names_keys = line.starts_with(b"get ") || line.starts_with(b"gets ");
    input.len() > keys_max || !names_keys
}
