//! Bodies in chunks (RFC 9112, 7.1).

use httparse::{Status, parse_chunk_size};

use super::{MAX_HEAD, Malformed};

/// Longest line of a chunk's size, in bytes.
const MAX_LINE: usize = 1 << 10;
/// Length that a line with a size has without an extension, at most.
const PLAIN_LINE: usize = 20;
/// Most bytes of extensions of all chunks of a body, which nobody reads.
const MAX_EXTENSIONS: usize = 16 << 10;

/// How far a body in chunks is.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    at: At,
    /// Bytes of extensions so far.
    extensions: usize,
}

#[derive(Debug, Default)]
enum At {
    /// Before the line of a chunk's size.
    #[default]
    Size,
    /// So many bytes of a chunk are missing.
    Data(usize),
    /// Before the end of the line behind a chunk.
    DataEnd,
    /// Behind the last chunk; so many bytes of trailers came.
    Trailers(usize),
}

impl Chunks {
    /// Appends what `input` holds of the body; how many of its bytes are done with, and whether the body is whole. A body
    /// of more than `max` bytes is refused before any byte beyond.
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        body: &mut Vec<u8>,
        max: usize,
    ) -> Result<(usize, bool), Malformed> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match self.at {
                At::Size => {
                    let Some((line, size)) = self.size(rest)? else {
                        return Ok((used, false));
                    };
                    if size > (max - body.len()) as u64 {
                        return Err(Malformed::BodyTooLong);
                    }
                    used += line;
                    self.at = match size as usize {
                        0 => At::Trailers(0),
                        size => At::Data(size),
                    };
                }
                At::Data(missing) => {
                    let came = &rest[..missing.min(rest.len())];
                    body.extend_from_slice(came);
                    used += came.len();
                    if came.len() < missing {
                        self.at = At::Data(missing - came.len());
                        return Ok((used, false));
                    }
                    self.at = At::DataEnd;
                }
                At::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        used += 2;
                        self.at = At::Size;
                    }
                    [] | [b'\r'] => return Ok((used, false)),
                    _ => return Err(Malformed::Request("a chunk is longer than its size")),
                },
                At::Trailers(seen) => {
                    let line = rest.iter().position(|byte| *byte == b'\n');
                    let seen = seen + line.map_or(rest.len(), |end| end + 1);
                    if seen > MAX_HEAD {
                        return Err(Malformed::HeadTooLong);
                    }
                    let Some(end) = line else {
                        return Ok((used, false));
                    };
                    used += end + 1;
                    self.at = At::Trailers(seen);
                    match &rest[..end] {
                        b"\r" => return Ok((used, true)),
                        [.., b'\r'] => {}
                        _ => return Err(Malformed::Request("the trailers are not valid")),
                    }
                }
            }
        }
    }

    /// Length of the line at the front, and the size it tells; `None` while it is incomplete.
    fn size(&mut self, rest: &[u8]) -> Result<Option<(usize, u64)>, Malformed> {
        const BAD: Malformed = Malformed::Request("the size of a chunk is not valid");
        let Some(first) = rest.first() else {
            return Ok(None);
        };
        if !first.is_ascii_hexdigit() {
            return Err(BAD);
        }
        let line = &rest[..rest.len().min(MAX_LINE)];
        match parse_chunk_size(line) {
            Ok(Status::Complete((length, size))) => {
                self.extensions += length.saturating_sub(PLAIN_LINE);
                // Somebody in between may take a line feed within an extension for the end of the line.
                let is_split = line[..length - 1].contains(&b'\n');
                match is_split || self.extensions > MAX_EXTENSIONS {
                    true => Err(BAD),
                    false => Ok(Some((length, size))),
                }
            }
            Ok(Status::Partial) if line.len() < MAX_LINE => Ok(None),
            Ok(Status::Partial) | Err(_) => Err(BAD),
        }
    }
}
