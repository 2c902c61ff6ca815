//! Frames: nine bytes of head, then the payload.

/// Bytes of a frame before its payload.
pub(super) const HEAD: usize = 9;
/// Longest payload that either side may send without having agreed on more.
pub(super) const PAYLOAD_MAX: usize = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const WITH_PRIORITY: u8 = 0x20;

/// Why a stream or a connection ends (RFC 9113, 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// Nothing is wrong.
    NoError = 0,
    /// The peer broke the rules.
    Protocol = 1,
    /// More bytes than were granted.
    FlowControl = 3,
    /// A frame for a stream that has ended.
    StreamClosed = 5,
    /// A frame of a length that it cannot have.
    FrameSize = 6,
    /// Nothing was done for the stream.
    RefusedStream = 7,
    /// Header fields that cannot be read.
    Compression = 9,
    /// The peer asks too much.
    EnhanceYourCalm = 11,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) len: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes.first_chunk::<HEAD>()?;
        Some(Self {
            len: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([d, e, f, g]) & 0x7fff_ffff,
        })
    }
}

/// Counts the calls that bytes begin which start with a frame, by the frames that can; those after a message can, too. It
/// counts no further than to `most`.
#[must_use]
pub fn calls_begun(mut bytes: &[u8], most: usize) -> usize {
    let mut begun = 0;
    while let Some(head) = Head::read(bytes) {
        begun += usize::from(head.kind == HEADERS);
        if begun >= most {
            break;
        }
        bytes = bytes.get(HEAD + head.len..).unwrap_or_default();
    }
    begun
}

/// Writes a whole frame with a short payload.
pub(super) fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    put_head(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

pub(super) fn put_head(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (len as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// Writes a frame whose payload `fill` writes, at most [`PAYLOAD_MAX`] bytes of it.
pub(super) fn put_with(
    out: &mut Vec<u8>,
    kind: u8,
    flags: u8,
    stream: u32,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let at = out.len();
    put_head(out, 0, kind, flags, stream);
    fill(out);
    let len = out.len() - at - HEAD;
    debug_assert!(len <= PAYLOAD_MAX);
    out[at..at + 3].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
}
