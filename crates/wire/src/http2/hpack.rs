//! Header fields on HTTP/2 (RFC 7541): those of requests are read, those of answers written.
//!
//! A field of a table is known by what it means to a gRPC server as soon as it goes into the table, so a request whose
//! fields are all in it, as with every client after its first request, costs one lookup for each.

mod decoder;
mod encoder;

use std::rc::Rc;

pub use decoder::Decoder;
pub use encoder::{Common, Encoder, literal};

/// Bytes that our table of a peer's fields may take, by the RFC's count.
pub(crate) const TABLE_MAX: usize = 4_096;
/// What a field takes beyond its texts.
const OVERHEAD: usize = 32;
/// Entries of the static table.
const STATIC: usize = 61;

/// The static table (appendix A).
const STATIC_TABLE: [(&str, &str); STATIC] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
/// Index of the static field whose name is `content-type`.
const CONTENT_TYPE_INDEX: usize = 31;

/// What a field means to a gRPC server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// `:method`.
    Method,
    /// `:scheme`.
    Scheme,
    /// `:path`.
    Path,
    /// `:authority`.
    Authority,
    /// `content-type`.
    ContentType,
    /// `grpc-timeout`.
    Timeout,
    /// `traceparent`.
    TraceParent,
    /// `tracestate`.
    TraceState,
    /// `te`.
    Te,
    /// `grpc-status`.
    GrpcStatus,
    /// `grpc-message`.
    GrpcMessage,
    /// What makes a request malformed: fields of a connection, names with capitals, unknown pseudo-fields.
    Forbidden,
    /// Anything else.
    Other,
}

impl Meaning {
    fn of(name: &[u8]) -> Self {
        match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":path" => Self::Path,
            b":authority" => Self::Authority,
            b"content-type" => Self::ContentType,
            b"grpc-timeout" => Self::Timeout,
            b"traceparent" => Self::TraceParent,
            b"tracestate" => Self::TraceState,
            b"te" => Self::Te,
            b"grpc-status" => Self::GrpcStatus,
            b"grpc-message" => Self::GrpcMessage,
            b"" | b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => Self::Forbidden,
            [b':', ..] => Self::Forbidden,
            _ if name.iter().any(u8::is_ascii_uppercase) => Self::Forbidden,
            _ => Self::Other,
        }
    }

    /// Whether the field must come before the others.
    #[must_use]
    pub(crate) const fn is_pseudo(self) -> bool {
        matches!(
            self,
            Self::Method | Self::Scheme | Self::Path | Self::Authority
        )
    }
}

/// A value: in a table, or in the block itself.
#[derive(Debug)]
pub enum Value<'a> {
    /// In the static table.
    Static(&'static str),
    /// Shared with the dynamic table.
    Shared(&'a Rc<[u8]>),
    /// Only here.
    Own(&'a [u8]),
}

impl Value<'_> {
    /// The text.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Static(text) => text.as_bytes(),
            Self::Shared(text) => text,
            Self::Own(text) => text,
        }
    }

    /// The text, shared with the table where it is there.
    #[must_use]
    pub fn share(&self) -> Rc<[u8]> {
        match self {
            Self::Shared(text) => Rc::clone(text),
            other => other.bytes().into(),
        }
    }
}

/// A block that cannot be read; the tables of both sides differ from now on, so the connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

#[cfg(test)]
mod tests {
    use super::encoder::{put_integer, put_name, put_text};
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
        let byte = |pair: &[u8]| {
            u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex")
        };
        digits.chunks(2).map(byte).collect()
    }

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Broken> {
        let mut fields = Vec::new();
        decoder.read(block, |meaning, value, size| {
            let value = String::from_utf8_lossy(value.bytes()).into_owned();
            fields.push(format!("{meaning:?} {value} {size}"));
        })?;
        Ok(fields)
    }

    /// RFC 7541, C.3 (plain) and C.4 (Huffman): three requests on one connection.
    #[test]
    fn the_rfcs_requests() {
        for [first, second, third] in [
            [
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            ],
            [
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                "8286 84be 5886 a8eb 1064 9cbf",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ],
        ] {
            let mut decoder = Decoder::default();
            assert_eq!(
                read(&mut decoder, &hex(first)).expect("a block"),
                [
                    "Method GET 42",
                    "Scheme http 43",
                    "Path / 38",
                    "Authority www.example.com 57"
                ]
            );
            let fields = read(&mut decoder, &hex(second)).expect("a block");
            assert_eq!(
                fields[3..],
                ["Authority www.example.com 57", "Other no-cache 53"]
            );
            let fields = read(&mut decoder, &hex(third)).expect("a block");
            assert_eq!(
                fields[3..],
                ["Authority www.example.com 57", "Other custom-value 54"]
            );
            assert_eq!((decoder.entries.len(), decoder.size), (3, 164));
        }
    }

    /// RFC 7541, C.5: a table of 256 bytes, from which the oldest fields go.
    #[test]
    fn the_oldest_fields_go() {
        let mut decoder = Decoder::default();
        let mut block = Vec::new();
        put_integer(&mut block, 0x20, 5, 256);
        for number in 0..10 {
            put_name(&mut block, 0x40, 6, "x");
            put_text(&mut block, format!("{number:0>20}").as_bytes());
        }
        assert_eq!(read(&mut decoder, &block).expect("a block").len(), 10);
        // 53 bytes each.
        assert_eq!((decoder.entries.len(), decoder.size), (4, 212));
        let newest = read(&mut decoder, &[0x80 | 62]).expect("there");
        assert_eq!(newest, ["Other 00000000000000000009 53"]);
        assert_eq!(read(&mut decoder, &[0x80 | 66]), Err(Broken));
        // A field that does not fit empties the table and is read all the same.
        let mut large = vec![0x40];
        put_text(&mut large, b"y");
        put_text(&mut large, &[b'z'; 300]);
        assert_eq!(read(&mut decoder, &large).expect("a block").len(), 1);
        assert_eq!((decoder.entries.len(), decoder.size), (0, 0));
    }

    #[test]
    fn what_is_no_block_is_refused() {
        for block in [
            "80",
            "be",
            "41",
            "41 05 61",
            "40",
            "ff ff ff ff ff ff 7f",
            "3f e2 1f",
            "82 20",
            "0f",
            "7f 00 00",
            "41 8c ff",
        ] {
            assert_eq!(
                read(&mut Decoder::default(), &hex(block)),
                Err(Broken),
                "{block}"
            );
        }
    }

    #[test]
    fn fields_of_a_connection_are_known() {
        for (name, meaning) in [
            ("te", Meaning::Te),
            ("connection", Meaning::Forbidden),
            (":status", Meaning::Forbidden),
            ("X-Up", Meaning::Forbidden),
            ("grpc-timeout", Meaning::Timeout),
            ("traceparent", Meaning::TraceParent),
            ("tracestate", Meaning::TraceState),
            ("x-up", Meaning::Other),
        ] {
            assert_eq!(Meaning::of(name.as_bytes()), meaning, "{name}");
        }
    }

    /// A refusal that is written in one go says the same whatever was put into the table in the meantime.
    #[test]
    fn refusals_are_right_whatever_lies_between() {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let texts: [(u16, &'static str); 4] = [
            (14, "overloaded"),
            (14, "too late"),
            (8, "overloaded"),
            (14, "x"),
        ];
        let long = "y".repeat(200).leak();
        for round in 0..40 {
            if round == 30 {
                encoder.resize(0);
            }
            let (status, text) = texts[round % (1 + round / 8).min(4)];
            let text = if round % 7 == 6 { &*long } else { text };
            for _ in 0..3 {
                let mut block = Vec::new();
                encoder.refusal(status, text, &mut block);
                let fields = read(&mut decoder, &block).expect("a block");
                let said: Vec<&str> = fields
                    .iter()
                    .map(|field| field.rsplit_once(' ').unwrap().0)
                    .collect();
                assert_eq!(
                    said[1..],
                    [
                        "ContentType application/grpc",
                        &format!("GrpcStatus {status}"),
                        &format!("GrpcMessage {text}")
                    ]
                );
            }
            let mut end = Vec::new();
            encoder.common(Common::Ok, &mut end);
            assert_eq!(read(&mut decoder, &end).expect("a block").len(), 1);
        }
    }

    /// What the encoder writes is read by the decoder, in few bytes from the second time on.
    #[test]
    fn answers_are_short_after_the_first() {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let mut lens = Vec::new();
        for _ in 0..3 {
            let mut block = Vec::new();
            encoder.refusal(14, "overloaded", &mut block);
            let mut end = Vec::new();
            encoder.common(Common::Ok, &mut end);
            let fields = read(&mut decoder, &block).expect("a block");
            assert_eq!(
                fields[1..],
                [
                    "ContentType application/grpc 60",
                    "GrpcStatus 14 45",
                    "GrpcMessage overloaded 54"
                ]
            );
            assert_eq!(
                read(&mut decoder, &end).expect("a block"),
                ["GrpcStatus 0 44"]
            );
            lens.push((block.len(), end.len()));
        }
        assert_eq!(lens[1..], [(4, 1), (4, 1)]);
    }

    #[test]
    fn a_small_table_is_kept_empty() {
        let mut encoder = Encoder::default();
        let mut block = Vec::new();
        encoder.common(Common::Grpc, &mut block);
        encoder.resize(100);
        for _ in 0..2 {
            block.clear();
            encoder.http_status(404, &mut block);
            encoder.common(Common::Grpc, &mut block);
            let fields = read(&mut Decoder::default(), &block).expect("a block");
            assert_eq!(
                fields,
                ["Forbidden 404 42", "ContentType application/grpc 60"]
            );
        }
        assert_ne!(block.first(), Some(&0x20), "the size is told once");
    }
}
