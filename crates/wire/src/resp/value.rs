//! A decoded reply.

use super::ReplyBuf;

/// One reply as a client sees it.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `+text`.
    Simple(Vec<u8>),
    /// `-CODE text` (or RESP3's `!` form), without the marker and CR LF.
    Error(Vec<u8>),
    /// `:n`.
    Int(i64),
    /// `$n` and its bytes.
    Bulk(Vec<u8>),
    /// RESP2's `$-1`, or RESP3's `_`.
    Null,
    /// RESP2's `*-1`.
    NullArray,
    /// `*n` and its elements.
    Array(Vec<Value>),
    /// `%n` and its pairs, in the order received.
    Map(Vec<(Value, Value)>),
    /// `~n` and its members, in the order received.
    Set(Vec<Value>),
    /// `>n`: an out-of-band message.
    Push(Vec<Value>),
    /// `,x`.
    Double(f64),
    /// `#t` or `#f`.
    Bool(bool),
    /// `=n`: text with a three-letter format such as `txt`.
    Verbatim {
        /// Three letters.
        kind: [u8; 3],
        /// The text without the format and its colon.
        text: Vec<u8>,
    },
    /// `(digits`, as received.
    BigNumber(Vec<u8>),
}

impl Value {
    /// Text of a simple, bulk or verbatim string.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The number of an integer reply.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The line of an error reply, code first.
    #[must_use]
    pub fn as_error(&self) -> Option<&[u8]> {
        match self {
            Value::Error(line) => Some(line),
            _ => None,
        }
    }

    /// Elements of an array, set or push.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => Some(items),
            _ => None,
        }
    }

    /// Writes the value back in the protocol of `out`.
    pub fn write(&self, out: &mut ReplyBuf) {
        match self {
            Value::Simple(text) => out.line(b'+', text),
            Value::Error(text) => out.line(b'-', text),
            Value::Int(n) => out.int(*n),
            Value::Bulk(text) => out.bulk(text),
            Value::Null => out.null(),
            Value::NullArray => out.null_array(),
            Value::Array(items) => {
                out.array(items.len());
                items.iter().for_each(|item| item.write(out));
            }
            Value::Map(pairs) => {
                out.map(pairs.len());
                for (key, value) in pairs {
                    key.write(out);
                    value.write(out);
                }
            }
            Value::Set(items) => {
                out.set(items.len());
                items.iter().for_each(|item| item.write(out));
            }
            Value::Push(items) => {
                out.push(items.len());
                items.iter().for_each(|item| item.write(out));
            }
            Value::Double(x) => out.double(*x),
            Value::Bool(b) => out.bool(*b),
            Value::Verbatim { kind, text } => out.verbatim_bytes(*kind, text),
            Value::BigNumber(digits) => out.big_number(digits),
        }
    }
}
