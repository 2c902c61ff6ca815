//! The header blocks of calls. Names and values go into the connection's table with its first call and are one byte each
//! afterwards.

use super::calls::Calls;

/// `:method POST` and `:scheme http` from the static table.
const METHOD_AND_SCHEME: [u8; 2] = [0x83, 0x86];
/// Fields that [`first_headers`] put into the table: the newest entry is 62.
pub(super) fn later_headers(calls: &Calls) -> Vec<u8> {
    let kept = if calls.gives_up() { 5 } else { 4 };
    let references = (0..kept).rev().map(|age| 0x80 | (62 + age));
    METHOD_AND_SCHEME.into_iter().chain(references).collect()
}

pub(super) fn first_headers(calls: &Calls) -> Vec<u8> {
    let mut block = METHOD_AND_SCHEME.to_vec();
    let mut literal = |name: &[u8], value: &str| {
        block.extend_from_slice(name);
        // Without Huffman coding, and shorter than 127 bytes: one byte of length.
        block.push(value.len().min(126) as u8);
        block.extend_from_slice(&value.as_bytes()[..value.len().min(126)]);
    };
    // With incremental indexing: 0x40 | index of the name in the static table, or 0x40 and the name.
    literal(&[0x40 | 4], calls.method);
    literal(&[0x40 | 1], &calls.authority);
    literal(&[0x40 | 31], "application/grpc");
    literal(&[0x40, 2, b't', b'e'], "trailers");
    if let Some(timeout) = &calls.timeout {
        literal(b"\x40\x0cgrpc-timeout", timeout);
    }
    block
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_wire::rls::SHOULD_RATE_LIMIT;

    use super::*;

    fn calls() -> Calls {
        Calls::new("bench", "limit_10", "k", 3, "127.0.0.1:8081".into())
    }

    #[test]
    fn the_header_block_has_the_entries_that_later_requests_name() {
        let block = first_headers(&calls());
        let text = String::from_utf8_lossy(&block);
        assert!(
            text.contains(SHOULD_RATE_LIMIT)
                && text.contains("application/grpc")
                && text.contains("trailers")
        );
        let later = later_headers(&calls());
        assert_eq!(later[2..], [65, 64, 63, 62].map(|index| 0x80 | index));
        let waiting = calls().waiting(Duration::from_millis(20));
        let block = first_headers(&waiting);
        assert!(String::from_utf8_lossy(&block).ends_with("\x0cgrpc-timeout\x0320m"));
        assert_eq!(later_headers(&waiting)[2..3], [0x80 | 66]);
    }
}
