//! Reply writer and reader against each other.

use proptest::prelude::*;
use tollgate_wire::resp::{
    FrameError, FrameSkipper, MAX_DEPTH, Protocol, ReplyBuf, Value, frame_len, read_value,
};

fn text() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(
        any::<u8>().prop_filter("no line break", |byte| !matches!(byte, b'\r' | b'\n')),
        0..20,
    )
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::Simple),
        text().prop_map(Value::Error),
        any::<i64>().prop_map(Value::Int),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bulk),
        Just(Value::Null),
        any::<f64>()
            .prop_filter("NaN is not equal to itself", |x| !x.is_nan())
            .prop_map(Value::Double),
        any::<bool>().prop_map(Value::Bool),
        (
            proptest::array::uniform3(b'a'..=b'z'),
            proptest::collection::vec(any::<u8>(), 0..20)
        )
            .prop_map(|(kind, text)| Value::Verbatim { kind, text }),
        "-?[1-9][0-9]{0,40}".prop_map(|digits| Value::BigNumber(digits.into_bytes())),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Set),
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Push),
            proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

/// What a RESP2 client sees of `value`.
fn in_resp2(value: Value) -> Value {
    let all = |items: Vec<Value>| Value::Array(items.into_iter().map(in_resp2).collect());
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => all(items),
        Value::Map(pairs) => all(pairs
            .into_iter()
            .flat_map(|(key, value)| [key, value])
            .collect()),
        Value::Bool(b) => Value::Int(i64::from(b)),
        Value::Verbatim { text, .. } => Value::Bulk(text),
        Value::BigNumber(digits) => Value::Bulk(digits),
        Value::Double(x) => {
            let mut out = ReplyBuf::new(Protocol::Resp3);
            out.double(x);
            Value::Bulk(out.bytes()[1..out.len() - 2].to_vec())
        }
        other => other,
    }
}

fn written(value: &Value, protocol: Protocol) -> Vec<u8> {
    let mut out = ReplyBuf::new(protocol);
    value.write(&mut out);
    out.bytes().to_vec()
}

proptest! {
    #[test]
    fn a_written_reply_reads_back(value in value()) {
        let bytes = written(&value, Protocol::Resp3);
        prop_assert_eq!(read_value(&bytes), Ok(Some((value.clone(), bytes.len()))));
        let bytes = written(&value, Protocol::Resp2);
        prop_assert_eq!(read_value(&bytes), Ok(Some((in_resp2(value), bytes.len()))));
    }

    #[test]
    fn every_reader_agrees_on_where_a_reply_ends(value in value(), behind in proptest::collection::vec(any::<u8>(), 0..4)) {
        let mut bytes = written(&value, Protocol::Resp3);
        let end = bytes.len();
        for cut in 0..end {
            prop_assert_eq!(frame_len(&bytes[..cut]), Ok(None));
            prop_assert_eq!(read_value(&bytes[..cut]), Ok(None));
        }
        bytes.extend_from_slice(&behind);
        prop_assert_eq!(frame_len(&bytes), Ok(Some(end)));
        let mut skipper = FrameSkipper::default();
        for cut in 0..end {
            prop_assert_eq!(skipper.advance(&bytes[..cut]), Ok(None));
        }
        prop_assert_eq!(skipper.advance(&bytes), Ok(Some(end)));
    }

    #[test]
    fn garbage_is_an_error_or_incomplete_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(Some((_, len))) = read_value(&bytes) {
            prop_assert_eq!(frame_len(&bytes), Ok(Some(len)));
        }
    }
}

#[test]
fn nulls_and_attributes_are_understood() {
    assert_eq!(read_value(b"$-1\r\n"), Ok(Some((Value::Null, 5))));
    assert_eq!(read_value(b"*-1\r\n"), Ok(Some((Value::NullArray, 5))));
    assert_eq!(
        read_value(b"!5\r\nERR a\r\n"),
        Ok(Some((Value::Error(b"ERR a".to_vec()), 11)))
    );
    let attributed = b"|1\r\n$3\r\nkey\r\n*2\r\n:1\r\n:2\r\n+OK\r\n";
    assert_eq!(
        read_value(attributed),
        Ok(Some((Value::Simple(b"OK".to_vec()), attributed.len())))
    );
    assert_eq!(frame_len(attributed), Ok(Some(attributed.len())));
}

#[test]
fn hostile_frames_are_refused() {
    assert_eq!(read_value(b"?1\r\n"), Err(FrameError::UnknownType(b'?')));
    assert_eq!(read_value(b":1x\r\n"), Err(FrameError::BadNumber));
    assert_eq!(read_value(b"$-2\r\n"), Err(FrameError::BadNumber));
    assert_eq!(read_value(b"$1\r\nabc"), Err(FrameError::MissingLineEnd));
    assert_eq!(
        read_value(b"$9223372036854775807\r\n"),
        Err(FrameError::BadNumber)
    );
    assert_eq!(
        read_value("*1\r\n".repeat(MAX_DEPTH + 1).as_bytes()),
        Err(FrameError::TooDeep)
    );
    assert_eq!(
        read_value("*1\r\n".repeat(MAX_DEPTH - 1).as_bytes()),
        Ok(None)
    );
    assert_eq!(frame_len("*1\r\n".repeat(100_000).as_bytes()), Ok(None));
    assert_eq!(read_value(b"*4294967295\r\n"), Ok(None));
}
