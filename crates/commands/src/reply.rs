//! What a handler answers.

use tollgate_wire::resp::ReplyBuf;

/// A small reply, or the word that a larger one stands in [`crate::Cx::out`] already.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reply {
    /// Exactly one reply has been written to `cx.out`.
    Written,
    /// `+OK`.
    Ok,
    /// An integer.
    Int(i64),
    /// No value.
    Null,
    /// No list of values (differs from [`Reply::Null`] in RESP2 only).
    NullArray,
    /// A status line.
    Simple(&'static str),
    /// A fixed text as a bulk string.
    Bulk(&'static str),
    /// Nothing yet: the command waits for one of its keys, until the deadline in Unix milliseconds if there is one.
    Block {
        /// When it gives up.
        deadline_ms: Option<i64>,
    },
}

impl Reply {
    /// Integer reply of a yes or no.
    #[inline]
    pub const fn flag(yes: bool) -> Reply {
        Reply::Int(yes as i64)
    }

    /// Integer reply of a count.
    #[inline]
    pub const fn count(n: usize) -> Reply {
        Reply::Int(n as i64)
    }

    /// Appends the reply; [`Reply::Written`] appends nothing.
    #[inline]
    pub fn write(self, out: &mut ReplyBuf) {
        match self {
            Reply::Written => {}
            Reply::Block { .. } => unreachable!("the executor parks commands that wait"),
            Reply::Ok => out.ok(),
            Reply::Int(n) => out.int(n),
            Reply::Null => out.null(),
            Reply::NullArray => out.null_array(),
            Reply::Simple(text) => out.simple(text),
            Reply::Bulk(text) => out.bulk(text.as_bytes()),
        }
    }
}
