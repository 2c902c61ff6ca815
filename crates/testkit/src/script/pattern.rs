//! Expected lines with volatile parts: `{*}` any text, `{int}` an integer, `{LOW..HIGH}` an integer in a range, both ends included.

/// Whether `line` fits `pattern`. Braces around anything else stand for themselves.
pub(super) fn matches(pattern: &str, line: &str) -> bool {
    let Some((literal, placeholder, rest)) = next_placeholder(pattern) else {
        return pattern == line;
    };
    let Some(line) = line.strip_prefix(literal) else {
        return false;
    };
    match placeholder {
        Placeholder::Any => (0..=line.len())
            .filter(|&at| line.is_char_boundary(at))
            .any(|at| matches(rest, &line[at..])),
        Placeholder::Int { low, high } => {
            let digits = line
                .bytes()
                .enumerate()
                .take_while(|&(at, byte)| byte.is_ascii_digit() || (at == 0 && byte == b'-'))
                .count();
            line[..digits]
                .parse()
                .is_ok_and(|n: i64| (low..=high).contains(&n))
                && matches(rest, &line[digits..])
        }
    }
}

enum Placeholder {
    Any,
    Int { low: i64, high: i64 },
}

/// Text before the first placeholder, the placeholder, and the text behind it.
fn next_placeholder(pattern: &str) -> Option<(&str, Placeholder, &str)> {
    let mut from = 0;
    while let Some(found) = pattern[from..].find('{') {
        let open = from + found;
        let close = open + pattern[open..].find('}')?;
        if let Some(placeholder) = placeholder(&pattern[open + 1..close]) {
            return Some((&pattern[..open], placeholder, &pattern[close + 1..]));
        }
        from = open + 1;
    }
    None
}

fn placeholder(inner: &str) -> Option<Placeholder> {
    match inner {
        "*" => Some(Placeholder::Any),
        "int" => Some(Placeholder::Int {
            low: i64::MIN,
            high: i64::MAX,
        }),
        _ => {
            let (low, high) = inner.split_once("..")?;
            Some(Placeholder::Int {
                low: low.parse().ok()?,
                high: high.parse().ok()?,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn placeholders_match_what_they_name() {
        for (pattern, line, expected) in [
            (":5", ":5", true),
            (":{1..5}", ":5", true),
            (":{1..5}", ":6", false),
            (":{1..5}", ":-1", false),
            (":{-3..5}", ":-1", true),
            (":{int}", ":", false),
            (
                "$\"id={int} addr={*}\"",
                "$\"id=7 addr=127.0.0.1:5 fd=8\"",
                true,
            ),
            ("$\"{*}b\"", "$\"abab\"", true),
            ("$\"{*}b\"", "$\"aba\"", false),
            ("$\"{user}1\"", "$\"{user}1\"", true),
            ("-ERR {*}", "+OK", false),
        ] {
            assert_eq!(matches(pattern, line), expected, "{pattern} {line}");
        }
    }
}
