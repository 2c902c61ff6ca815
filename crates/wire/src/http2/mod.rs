//! HTTP/2 as a gRPC server needs it (RFC 9113, RFC 7541): bytes in, calls out, answers in, bytes out.
//!
//! Nothing here knows a socket or a clock. A general library keeps for every stream what any use of it might need; a unary
//! call needs a line in a short list while its message is on the way, and its answer is three frames of known fields. What
//! refusing a call costs decides what is left for the others past saturation, so it is one frame of a few bytes.

mod frame;
pub mod hpack;
mod huffman;
mod session;
mod streams;
mod timeout;

pub use frame::{ErrorCode, calls_begun};
pub use session::{Body, Call, Fault, Head, MAX_STREAMS, Piece, Session, Want};
pub use timeout::grpc_timeout;
