//! The Redis serialisation protocol: requests in, replies out (versions 2 and 3).

mod digits;
mod inline;
mod reader;
mod reply;
mod request;
mod value;
mod whole;

pub use digits::parse_int;
pub use digits::push_double;
pub use inline::{UnbalancedQuotes, split_line};
pub use reader::{FrameError, FrameSkipper, MAX_DEPTH, frame_len, read_value};
pub use reply::{DeferredArray, ReplyBuf};
pub use request::{
    ArgList, BULK_MAX, Limits, Progress, ProtocolError, RequestParser, write_command,
};
pub use value::Value;
pub use whole::{read_whole, request_len};

/// Version of the protocol that a connection speaks; it starts at 2 and HELLO changes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Protocol {
    /// RESP2: five reply types; maps, sets and doubles travel as arrays and strings.
    #[default]
    Resp2,
    /// RESP3: typed replies, pushes between them.
    Resp3,
}
