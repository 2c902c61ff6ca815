//! IDs and intervals among the words of a command.

use tollgate_containers::number;
use tollgate_containers::stream::StreamId;

use crate::{Args, CmdError};

/// Reads an ID; a missing sequence is 0.
pub(super) fn id(word: &[u8]) -> Result<StreamId, CmdError> {
    StreamId::parse(word, 0).ok_or(CmdError::BadStreamId)
}

/// As [`id`], but takes `-` and `+` for the first and the last possible one.
pub(super) fn id_or_end(word: &[u8], missing_seq: u64) -> Result<StreamId, CmdError> {
    match word {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => StreamId::parse(word, missing_seq).ok_or(CmdError::BadStreamId),
    }
}

/// Reads several IDs.
pub(super) fn ids(words: &[&[u8]]) -> Result<Vec<StreamId>, CmdError> {
    words.iter().map(|word| id(word)).collect()
}

/// The first ID of an interval: `(` excludes it.
pub(super) fn start(word: &[u8]) -> Result<StreamId, CmdError> {
    match word {
        [b'(', word @ ..] if !word.is_empty() => id(word)?.next().ok_or(CmdError::BadIntervalStart),
        _ => id_or_end(word, 0),
    }
}

/// The last ID of an interval: `(` excludes it, and without a sequence it is the last of its millisecond.
pub(super) fn end(word: &[u8]) -> Result<StreamId, CmdError> {
    match word {
        [b'(', word @ ..] if !word.is_empty() => StreamId::parse(word, u64::MAX)
            .ok_or(CmdError::BadStreamId)?
            .previous()
            .ok_or(CmdError::BadIntervalEnd),
        _ => id_or_end(word, u64::MAX),
    }
}

/// The next word as an integer, with an error of its own.
pub(super) fn int_or(args: &mut Args<'_>, error: &str) -> Result<i64, CmdError> {
    number::parse_i64(args.next()?).ok_or_else(|| CmdError::err(error))
}

/// The group is missing, or the key.
pub(super) fn no_group(key: &[u8], group: &[u8], tail: &str) -> CmdError {
    let mut line = b"NOGROUP No such key '".to_vec();
    line.extend_from_slice(c_string(key));
    line.extend_from_slice(b"' or consumer group '");
    line.extend_from_slice(c_string(group));
    line.push(b'\'');
    line.extend_from_slice(tail.as_bytes());
    CmdError::line(line)
}

/// The key is there, but not its group.
pub(super) fn no_group_of_key(key: &[u8], group: &[u8]) -> CmdError {
    let mut line = b"NOGROUP No such consumer group '".to_vec();
    line.extend_from_slice(c_string(group));
    line.extend_from_slice(b"' for key name '");
    line.extend_from_slice(c_string(key));
    line.push(b'\'');
    CmdError::line(line)
}

/// As C prints it: up to the first NUL.
fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// What a deletion does to the lists of pending entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum References {
    /// They stay.
    #[default]
    Keep,
    /// They go from the lists of all groups.
    Delete,
    /// Only what all groups have had and acknowledged is deleted.
    Acknowledged,
}

impl References {
    /// Takes the option if it comes next.
    pub(super) fn option(args: &mut Args<'_>) -> Option<References> {
        if args.keyword("KEEPREF") {
            Some(References::Keep)
        } else if args.keyword("DELREF") {
            Some(References::Delete)
        } else if args.keyword("ACKED") {
            Some(References::Acknowledged)
        } else {
            None
        }
    }
}
