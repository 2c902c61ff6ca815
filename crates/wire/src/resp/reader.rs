//! Reads replies: decoded, or only measured.

use std::fmt;

use memchr::memchr;

use super::Value;
use super::digits::parse_int;

/// Deepest nesting that [`read_value`] follows; deeper frames are refused, so hostile input cannot exhaust the stack.
pub const MAX_DEPTH: usize = 128;

/// Longest line that is not a bulk: simple strings, errors and numbers, bytes.
const MAX_LINE: usize = 1024 * 1024;

/// Longest bulk that is believed, bytes. Servers stop at 512 MiB unless told otherwise.
const MAX_BLOB: usize = u32::MAX as usize;

/// Most elements for which room is made before they arrive.
const PREPARED_ELEMENTS: usize = 64;

/// Why bytes are not a reply. The stream cannot be read any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// No reply starts with this byte.
    UnknownType(u8),
    /// A length or number is not one, or is out of range.
    BadNumber,
    /// A line or bulk does not end with CR LF.
    MissingLineEnd,
    /// A line without end.
    LineTooLong,
    /// More than [`MAX_DEPTH`] levels.
    TooDeep,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::UnknownType(byte) => {
                write!(f, "unknown reply type '{}'", byte.escape_ascii())
            }
            FrameError::BadNumber => f.write_str("bad number in a reply"),
            FrameError::MissingLineEnd => f.write_str("a reply does not end with CR LF"),
            FrameError::LineTooLong => write!(f, "a reply line is longer than {MAX_LINE} bytes"),
            FrameError::TooDeep => write!(f, "a reply nests deeper than {MAX_DEPTH} levels"),
        }
    }
}

impl std::error::Error for FrameError {}

/// What follows a type byte and its first line.
enum Part<'a> {
    /// The reply is this line.
    Line(u8, &'a [u8]),
    /// The reply is these bytes (of `$`, `=` or `!`).
    Blob(u8, &'a [u8]),
    /// `-1` of a bulk or an array.
    Absent(u8),
    /// This many further replies belong to it.
    Aggregate(u8, usize),
    /// A map of attributes: skip this many replies; the reply proper follows.
    Attributes(usize),
}

/// Reads one part at `at`; returns it and the offset behind it, or `None` when bytes are missing.
#[inline]
fn read_part(buf: &[u8], at: usize) -> Result<Option<(Part<'_>, usize)>, FrameError> {
    let Some(&kind) = buf.get(at) else {
        return Ok(None);
    };
    if !matches!(
        kind,
        b'+' | b'-'
            | b':'
            | b'$'
            | b'*'
            | b'_'
            | b','
            | b'#'
            | b'!'
            | b'='
            | b'('
            | b'%'
            | b'~'
            | b'>'
            | b'|'
    ) {
        return Err(FrameError::UnknownType(kind));
    }
    let rest = &buf[at + 1..];
    let Some(len) = line_len(rest)? else {
        return Ok(None);
    };
    let line = &rest[..len];
    let next = at + 1 + len + 2;
    let part = match kind {
        b'$' | b'=' | b'!' => {
            let size = parse_int(line).ok_or(FrameError::BadNumber)?;
            if size == -1 && kind == b'$' {
                return Ok(Some((Part::Absent(kind), next)));
            }
            let size = usize::try_from(size).ok().filter(|&size| size <= MAX_BLOB);
            let end = next + size.ok_or(FrameError::BadNumber)? + 2;
            let Some(body) = buf.get(next..end) else {
                return Ok(None);
            };
            let Some(body) = body.strip_suffix(b"\r\n") else {
                return Err(FrameError::MissingLineEnd);
            };
            return Ok(Some((Part::Blob(kind, body), end)));
        }
        b'*' | b'%' | b'~' | b'>' | b'|' => match parse_int(line).ok_or(FrameError::BadNumber)? {
            -1 if kind == b'*' => Part::Absent(kind),
            count => {
                let count = usize::try_from(count)
                    .ok()
                    .filter(|&count| count <= u32::MAX as usize)
                    .ok_or(FrameError::BadNumber)?;
                if kind == b'|' {
                    Part::Attributes(2 * count)
                } else {
                    Part::Aggregate(kind, count)
                }
            }
        },
        _ => Part::Line(kind, line),
    };
    Ok(Some((part, next)))
}

/// Length of the line at the front of `rest`, without its CR LF.
#[inline]
fn line_len(rest: &[u8]) -> Result<Option<usize>, FrameError> {
    // Most lines are a few bytes long, where a call of `memchr` costs more than looking.
    let found = rest
        .iter()
        .take(8)
        .position(|&byte| byte == b'\r')
        .or_else(|| {
            let tail = rest.get(8..)?;
            memchr(b'\r', tail).map(|found| found + 8)
        });
    match found {
        Some(len) if len > MAX_LINE => Err(FrameError::LineTooLong),
        Some(len) => match rest.get(len + 1) {
            Some(b'\n') => Ok(Some(len)),
            Some(_) => Err(FrameError::MissingLineEnd),
            None => Ok(None),
        },
        None if rest.len() > MAX_LINE => Err(FrameError::LineTooLong),
        None => Ok(None),
    }
}

/// Decodes one reply from the front of `buf`: the value and the bytes it took, or `None` when it is not complete.
/// RESP3 attributes before a reply are dropped.
///
/// # Errors
/// [`FrameError`]: these bytes are no reply, or one beyond the limits of depth and length.
pub fn read_value(buf: &[u8]) -> Result<Option<(Value, usize)>, FrameError> {
    let mut at = 0;
    Ok(read_at(buf, &mut at, MAX_DEPTH)?.map(|value| (value, at)))
}

fn read_at(buf: &[u8], at: &mut usize, depth: usize) -> Result<Option<Value>, FrameError> {
    let depth = depth.checked_sub(1).ok_or(FrameError::TooDeep)?;
    let (part, next) = loop {
        let Some((part, next)) = read_part(buf, *at)? else {
            return Ok(None);
        };
        *at = next;
        let Part::Attributes(count) = part else {
            break (part, next);
        };
        for _ in 0..count {
            if read_at(buf, at, depth)?.is_none() {
                return Ok(None);
            }
        }
    };
    *at = next;
    match part {
        Part::Line(kind, line) => line_value(kind, line).map(Some),
        Part::Blob(kind, body) => blob_value(kind, body).map(Some),
        Part::Absent(b'*') => Ok(Some(Value::NullArray)),
        Part::Absent(_) => Ok(Some(Value::Null)),
        Part::Aggregate(b'%', count) => {
            let mut pairs = Vec::with_capacity(count.min(PREPARED_ELEMENTS));
            for _ in 0..count {
                let Some(key) = read_at(buf, at, depth)? else {
                    return Ok(None);
                };
                let Some(value) = read_at(buf, at, depth)? else {
                    return Ok(None);
                };
                pairs.push((key, value));
            }
            Ok(Some(Value::Map(pairs)))
        }
        Part::Aggregate(kind, count) => {
            let mut items = Vec::with_capacity(count.min(PREPARED_ELEMENTS));
            for _ in 0..count {
                let Some(item) = read_at(buf, at, depth)? else {
                    return Ok(None);
                };
                items.push(item);
            }
            Ok(Some(match kind {
                b'~' => Value::Set(items),
                b'>' => Value::Push(items),
                _ => Value::Array(items),
            }))
        }
        Part::Attributes(_) => unreachable!("the loop above ends at another part"),
    }
}

fn line_value(kind: u8, line: &[u8]) -> Result<Value, FrameError> {
    Ok(match kind {
        b'+' => Value::Simple(line.to_vec()),
        b'-' => Value::Error(line.to_vec()),
        b':' => Value::Int(parse_int(line).ok_or(FrameError::BadNumber)?),
        b'(' => {
            let digits = line.strip_prefix(b"-").unwrap_or(line);
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return Err(FrameError::BadNumber);
            }
            Value::BigNumber(line.to_vec())
        }
        b',' => Value::Double(
            std::str::from_utf8(line)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or(FrameError::BadNumber)?,
        ),
        b'#' => match line {
            b"t" => Value::Bool(true),
            b"f" => Value::Bool(false),
            _ => return Err(FrameError::BadNumber),
        },
        // `read_part` let no other type through: this is `_`.
        _ if line.is_empty() => Value::Null,
        _ => return Err(FrameError::BadNumber),
    })
}

fn blob_value(kind: u8, body: &[u8]) -> Result<Value, FrameError> {
    Ok(match kind {
        b'!' => Value::Error(body.to_vec()),
        b'=' => match body {
            [a, b, c, b':', text @ ..] => Value::Verbatim {
                kind: [*a, *b, *c],
                text: text.to_vec(),
            },
            _ => return Err(FrameError::BadNumber),
        },
        _ => Value::Bulk(body.to_vec()),
    })
}

/// Length in bytes of the first reply in `buf`, or `None` when it is not complete. Decodes nothing and checks only the
/// framing; any nesting depth is fine.
///
/// # Errors
/// [`FrameError`]: these bytes are no reply.
pub fn frame_len(buf: &[u8]) -> Result<Option<usize>, FrameError> {
    FrameSkipper::default().advance(buf)
}

/// Finds the end of one reply in bytes that arrive in pieces, looking at each finished part once.
#[derive(Clone, Copy, Debug)]
pub struct FrameSkipper {
    /// Offset of the next part.
    at: usize,
    /// Replies still to be passed over.
    missing: u64,
}

impl Default for FrameSkipper {
    fn default() -> Self {
        FrameSkipper { at: 0, missing: 1 }
    }
}

impl FrameSkipper {
    /// Goes on in `buf`, which must start at the reply's first byte on every call. At the end of the reply returns its length
    /// and starts anew.
    ///
    /// # Errors
    /// [`FrameError`]: these bytes are no reply.
    #[inline]
    pub fn advance(&mut self, buf: &[u8]) -> Result<Option<usize>, FrameError> {
        while self.missing > 0 {
            let Some((part, next)) = read_part(buf, self.at)? else {
                return Ok(None);
            };
            self.at = next;
            let further = match part {
                Part::Aggregate(b'%', count) => 2 * count as u64,
                Part::Aggregate(_, count) => count as u64,
                // The reply proper follows the attributes, so it is still missing.
                Part::Attributes(count) => count as u64 + 1,
                _ => 0,
            };
            self.missing = (self.missing - 1)
                .checked_add(further)
                .ok_or(FrameError::BadNumber)?;
        }
        let len = self.at;
        *self = FrameSkipper::default();
        Ok(Some(len))
    }
}
