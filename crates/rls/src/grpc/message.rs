//! Messages in their frames: a prefix that says whether they are compressed and how long they are.

use std::borrow::Cow;
use std::io::Read;

use flate2::bufread::MultiGzDecoder;

use super::status::{Code, Status};

/// Bytes in front of a message: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

/// What each message packed by gzip begins with. `deflate` begins otherwise, so nobody needs to ask for `grpc-encoding`.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A message without its frame, as it was before it was compressed: at most `max` bytes.
pub(super) fn unpacked(
    compressed: u8,
    message: &[u8],
    max: usize,
) -> Result<Cow<'_, [u8]>, Status> {
    match compressed {
        0 => Ok(Cow::Borrowed(message)),
        1 if message.is_empty() => Ok(Cow::Borrowed(message)),
        1 if message.starts_with(&GZIP) => gunzipped(message, max).map(Cow::Owned),
        1 => {
            let reason = "messages may be compressed only by gzip";
            Err(Status::new(Code::Unimplemented, reason))
        }
        _ => {
            let reason = "the message's prefix is not valid";
            Err(Status::new(Code::InvalidArgument, reason))
        }
    }
}

/// Stops after `max` bytes, however many more there are.
fn gunzipped(packed: &[u8], max: usize) -> Result<Vec<u8>, Status> {
    let mut message = Vec::new();
    let read = MultiGzDecoder::new(packed)
        .take(max as u64 + 1)
        .read_to_end(&mut message);
    if let Err(error) = read {
        let reason = format!("the message cannot be decompressed: {error}");
        return Err(Status::new(Code::InvalidArgument, reason));
    }
    if message.len() > max {
        return Err(too_long(max));
    }
    Ok(message)
}

/// The status of a message above its bound.
pub(super) fn too_long(max: usize) -> Status {
    let reason = format!("the call's message is longer than {max} bytes");
    Status::new(Code::ResourceExhausted, reason)
}
