//! A Rust file with its comments and literals blanked out, so that checks over text see code alone.

use std::ops::Range;

/// One Rust file.
pub(crate) struct Source {
    /// Path relative to the root.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// The same length, with the content of comments, strings and characters replaced by spaces.
    pub(crate) code: String,
    /// Byte ranges of `#[cfg(test)]` items.
    test_ranges: Vec<Range<usize>>,
}

impl Source {
    pub(crate) fn new(path: &str, text: String) -> Source {
        let code = blank(&text);
        let test_ranges = test_ranges(&code);
        Source {
            path: path.to_owned(),
            text,
            code,
            test_ranges,
        }
    }

    /// Number of the line that holds byte `at`, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count()
            + 1
    }

    /// Whether byte `at` belongs to test code.
    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.is_test_file() || self.test_ranges.iter().any(|range| range.contains(&at))
    }

    /// Whether the whole file is test code, a micro-benchmark or an example.
    pub(crate) fn is_test_file(&self) -> bool {
        let folders = ["/tests/", "/benches/", "/examples/"];
        folders.iter().any(|folder| self.path.contains(folder)) || self.path.ends_with("/tests.rs")
    }

    /// Name of the crate's folder: `wire` for `crates/wire/src/lib.rs`, `xtask`, `fuzz`.
    pub(crate) fn crate_name(&self) -> &str {
        let path = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        path.split('/').next().unwrap_or(path)
    }

    /// Offsets of `needle` in the code where it is not part of a longer name.
    pub(crate) fn find<'a>(&'a self, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let bytes = self.code.as_bytes();
        self.code
            .match_indices(needle)
            .map(|(at, _)| at)
            .filter(move |&at| {
                let starts = at == 0 || !word(bytes[at - 1]) || !word(needle.as_bytes()[0]);
                let end = at + needle.len();
                let ends = end >= bytes.len()
                    || !word(bytes[end])
                    || !word(needle.as_bytes()[needle.len() - 1]);
                starts && ends
            })
    }

    /// The bytes from the first `{` at or behind `at` to its closing brace; `None` if a `;` ends the item before.
    pub(crate) fn body(&self, at: usize) -> Option<Range<usize>> {
        body(&self.code, at)
    }
}

fn body(code: &str, at: usize) -> Option<Range<usize>> {
    let mut depth = 0usize;
    let mut brackets = 0usize;
    let mut start = None;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            // The `;` of an array type in a signature ends nothing.
            b'[' | b'(' => brackets += 1,
            b']' | b')' => brackets = brackets.saturating_sub(1),
            b';' if start.is_none() && brackets == 0 => return None,
            b'{' => {
                start.get_or_insert(offset);
                depth += 1;
            }
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(start?..offset + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn test_ranges(code: &str) -> Vec<Range<usize>> {
    code.match_indices("#[cfg(test)]")
        .filter_map(|(at, attribute)| Some(at..body(code, at + attribute.len())?.end))
        .collect()
}

/// Replaces the content of comments and literals by spaces; line breaks stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => find(bytes, at, b"\n").unwrap_or(bytes.len()),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' | b'b' | b'c' if !follows_name(bytes, at) => match prefixed_literal(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            b'\'' => match char_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(out)
        .expect("whole literals and comments are replaced, so no character is cut")
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> Option<usize> {
    bytes[from..]
        .windows(needle.len())
        .position(|window| window == needle)
        .map(|at| from + at)
}

fn follows_name(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// End of the string whose opening quote is at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// End of a literal with a prefix: `r"…"`, `r#"…"#`, `b"…"`, `br#"…"#`, `c"…"`, `b'x'`.
fn prefixed_literal(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    if matches!(bytes[at], b'b' | b'c') {
        at += 1;
    }
    match bytes.get(at)? {
        b'\'' if bytes[start] == b'b' => char_end(bytes, at),
        b'"' => Some(string_end(bytes, at)),
        b'r' => {
            let hashes = bytes[at + 1..]
                .iter()
                .take_while(|&&byte| byte == b'#')
                .count();
            let quote = at + 1 + hashes;
            if bytes.get(quote) != Some(&b'"') {
                return None;
            }
            let close = [&b"\""[..], &vec![b'#'; hashes]].concat();
            Some(find(bytes, quote + 1, &close).map_or(bytes.len(), |at| at + close.len()))
        }
        _ => None,
    }
}

/// End of the character whose quote is at `start`; `None` for a lifetime.
fn char_end(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start + 1) == Some(&b'\\') {
        return find(bytes, start + 3, b"'").map(|at| at + 1);
    }
    let len = match bytes.get(start + 1)? {
        0x00..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (bytes.get(start + 1 + len) == Some(&b'\'')).then_some(start + len + 2)
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn code(text: &str) -> String {
        Source::new("a.rs", text.to_owned()).code
    }

    #[test]
    fn only_code_is_left() {
        for (text, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (
                "f(\"a\\\"b\", 'x', '\\'', 'a')",
                "f(      ,    ,     ,    )",
            ),
            (
                "r#\"a\"b\"# + br\"x\" + b'\"' + c",
                "         +       +      + c",
            ),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("for r in b {}", "for r in b {}"),
        ] {
            assert_eq!(code(text), expected);
        }
    }

    #[test]
    fn names_are_found_whole() {
        let source = Source::new(
            "a.rs",
            "Instant::now(); MyInstant::now(); Instant::nowhere()".to_owned(),
        );
        assert_eq!(source.find("Instant::now").collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn test_modules_are_known() {
        let source = Source::new(
            "a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}".to_owned(),
        );
        let test = |name: &str| source.is_test(source.text.find(name).expect("the name is there"));
        assert_eq!(["fn a", "fn b", "fn c"].map(test), [false, true, false]);
    }
}
