//! Replies: no input panics, both readers agree on where a reply ends, and what is read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_wire::resp::{FrameSkipper, Protocol, ReplyBuf, Value, frame_len, read_value};

/// A NaN differs from itself, and a line keeps no line break: such values do not survive the comparison.
fn comparable(value: &Value) -> bool {
    match value {
        Value::Double(x) => !x.is_nan(),
        Value::Simple(text) | Value::Error(text) => {
            !text.iter().any(|byte| matches!(byte, b'\r' | b'\n'))
        }
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.iter().all(comparable)
        }
        Value::Map(pairs) => pairs
            .iter()
            .all(|(key, value)| comparable(key) && comparable(value)),
        // RESP3 has one null.
        Value::NullArray => false,
        _ => true,
    }
}

fuzz_target!(|data: &[u8]| {
    let len = frame_len(data);
    let mut skipper = FrameSkipper::default();
    let stepwise = (0..=data.len()).find_map(|end| skipper.advance(&data[..end]).transpose());
    if let Ok(Some(len)) = len {
        assert_eq!(stepwise, Some(Ok(len)));
    }
    let Ok(Some((value, end))) = read_value(data) else {
        return;
    };
    assert_eq!(len, Ok(Some(end)));
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut out = ReplyBuf::new(protocol);
        value.write(&mut out);
        let again = read_value(out.bytes());
        let Ok(Some((again, len))) = again else {
            panic!("a written reply does not read back: {again:?}")
        };
        assert_eq!(len, out.len());
        if protocol == Protocol::Resp3 && comparable(&value) {
            assert_eq!(again, value);
        }
    }
});
