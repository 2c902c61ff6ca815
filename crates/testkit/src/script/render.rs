//! Shows the exact bytes of a reply as lines of text.
//!
//! One line per part: numbers, lines and nulls as they are on the wire; a bulk as `$"text"`, its length being that of the text;
//! a collection as its header with its elements below, indented. Different bytes give different lines.

use tollgate_wire::resp::{FrameError, frame_len};

/// Bulks longer than this are shown by their start, length and checksum, bytes.
const SHOWN: usize = 2048;

/// Bytes of a long bulk that are shown.
const SHOWN_START: usize = 48;

/// One part of a reply.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Node {
    line: String,
    /// Elements that belong to one entry: 2 for maps.
    arity: usize,
    children: Vec<Node>,
}

/// Lines of the replies in `bytes`, which must be whole. With `sorted`, the entries of every collection that holds only scalars are sorted.
pub fn render(bytes: &[u8], sorted: bool) -> Result<Vec<String>, FrameError> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        // Checks the framing, so that the walk below may trust it.
        if frame_len(rest)?.is_none() {
            return Err(FrameError::MissingLineEnd);
        }
        let mut node = take(&mut rest)?;
        if sorted {
            sort(&mut node);
        }
        flatten(&node, 0, &mut lines);
    }
    Ok(lines)
}

fn take(rest: &mut &[u8]) -> Result<Node, FrameError> {
    let end = rest
        .windows(2)
        .position(|pair| pair == b"\r\n")
        .ok_or(FrameError::MissingLineEnd)?;
    let (line, tail) = rest.split_at(end);
    *rest = &tail[2..];
    let kind = *line.first().ok_or(FrameError::MissingLineEnd)?;
    let number = std::str::from_utf8(&line[1..])
        .ok()
        .and_then(|text| text.parse::<usize>().ok());
    let mut node = Node {
        line: escape(line),
        arity: 1,
        children: Vec::new(),
    };
    let elements = match (kind, number) {
        (b'$' | b'=' | b'!', Some(len)) => {
            let body = rest.get(..len).ok_or(FrameError::MissingLineEnd)?;
            *rest = rest.get(len + 2..).ok_or(FrameError::MissingLineEnd)?;
            node.line = format!("{}{}", kind as char, bulk(body));
            0
        }
        (b'*' | b'~' | b'>', Some(len)) => len,
        (b'%' | b'|', Some(len)) => {
            node.arity = 2;
            2 * len
        }
        _ => 0,
    };
    for _ in 0..elements {
        node.children.push(take(rest)?);
    }
    if kind == b'|' {
        // The reply proper belongs to its attributes.
        node.children.push(take(rest)?);
    }
    Ok(node)
}

fn bulk(body: &[u8]) -> String {
    if body.len() <= SHOWN {
        return format!("\"{}\"", escape(body));
    }
    format!(
        "\"{}\"... {} bytes, fnv {:016x}",
        escape(&body[..SHOWN_START]),
        body.len(),
        fnv(body)
    )
}

/// FNV-1a, enough to tell a wrong long reply from a right one.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Printable ASCII as it is, everything else escaped, quotes only where they would end a bulk.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(byte as char),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    // Editors strip a space at the end of a line.
    if text.ends_with(' ') {
        text.pop();
        text.push_str("\\x20");
    }
    text
}

fn sort(node: &mut Node) {
    node.children.iter_mut().for_each(sort);
    if node.arity == 1 {
        if node.children.iter().all(|child| child.children.is_empty()) {
            node.children.sort();
        }
        return;
    }
    let mut pairs = Vec::new();
    let mut children = std::mem::take(&mut node.children).into_iter();
    while let (Some(key), value) = (children.next(), children.next()) {
        pairs.push((key, value));
    }
    pairs.sort();
    node.children = pairs
        .into_iter()
        .flat_map(|(key, value)| std::iter::once(key).chain(value))
        .collect();
}

fn flatten(node: &Node, depth: usize, lines: &mut Vec<String>) {
    lines.push(format!("{}{}", "  ".repeat(depth), node.line));
    for child in &node.children {
        flatten(child, depth + 1, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::render;

    fn lines(bytes: &[u8], sorted: bool) -> Vec<String> {
        render(bytes, sorted).expect("the bytes are whole replies")
    }

    #[test]
    fn every_part_has_its_line() {
        assert_eq!(
            lines(b"+OK\r\n:5\r\n$-1\r\n_\r\n", false),
            ["+OK", ":5", "$-1", "_"]
        );
        assert_eq!(
            lines(b"*2\r\n$3\r\na\"\n\r\n*1\r\n,1.5\r\n", false),
            ["*2", "  $\"a\"\\n\"", "  *1", "    ,1.5"]
        );
        assert_eq!(lines(b"%1\r\n+k\r\n#t\r\n", false), ["%1", "  +k", "  #t"]);
        assert_eq!(lines(b"=7\r\ntxt:abc\r\n", false), ["=\"txt:abc\""]);
        assert_eq!(lines(b"$0\r\n\r\n", false), ["$\"\""]);
    }

    #[test]
    fn long_bulks_differ_by_any_byte() {
        let shown = |last: u8| {
            let mut body = vec![b'a'; 3000];
            body[2999] = last;
            lines(&[b"$3000\r\n", &body[..], b"\r\n"].concat(), false)
        };
        assert_ne!(shown(b'a'), shown(b'b'));
        assert!(shown(b'a')[0].len() < 120);
    }

    #[test]
    fn sorting_reaches_the_keys_of_a_scan_and_not_its_cursor() {
        let scan = b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$1\r\na\r\n";
        assert_eq!(
            lines(scan, true),
            ["*2", "  $\"0\"", "  *2", "    $\"a\"", "    $\"b\""]
        );
        assert_eq!(
            lines(b"%2\r\n+b\r\n:1\r\n+a\r\n:2\r\n", true),
            ["%2", "  +a", "  :2", "  +b", "  :1"]
        );
    }
}
