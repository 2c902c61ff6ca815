//! Lua 5.1 source as tokens, for the analysis of scripts.

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'s> {
    /// A name or a keyword.
    Word(&'s [u8]),
    /// A string literal without escapes, its content.
    Text(&'s [u8]),
    /// A string literal with escapes, or a number.
    Literal,
    /// An operator or a bracket.
    Sign(&'s [u8]),
}

impl<'s> Token<'s> {
    /// True for this operator or bracket.
    pub(super) fn is(self, sign: &str) -> bool {
        matches!(self, Token::Sign(found) if found == sign.as_bytes())
    }

    /// True for this name or keyword.
    pub(super) fn is_word(self, word: &str) -> bool {
        matches!(self, Token::Word(found) if found == word.as_bytes())
    }
}

const LONG_SIGNS: &[&[u8]] = &[b"...", b"..", b"==", b"~=", b"<=", b">="];

/// The tokens of `source`; `None` when it is not Lua, which the compiler will say better.
pub(super) fn tokens(source: &[u8]) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::new();
    let mut rest = source;
    loop {
        rest = rest.trim_ascii_start();
        let &first = match rest.first() {
            Some(first) => first,
            None => return Some(found),
        };
        if let Some(comment) = rest.strip_prefix(b"--") {
            rest = skip_comment(comment)?;
            continue;
        }
        let (token, len) = if first.is_ascii_alphabetic() || first == b'_' {
            let len = run(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
            (Token::Word(&rest[..len]), len)
        } else if first.is_ascii_digit()
            || (first == b'.' && rest.get(1).is_some_and(u8::is_ascii_digit))
        {
            (Token::Literal, number_len(rest))
        } else if first == b'"' || first == b'\'' {
            quoted(rest, first)?
        } else if let Some((text, len)) = long_bracket(rest) {
            (Token::Text(text), len)
        } else {
            let len = LONG_SIGNS
                .iter()
                .find(|sign| rest.starts_with(sign))
                .map_or(1, |sign| sign.len());
            (Token::Sign(&rest[..len]), len)
        };
        found.push(token);
        rest = &rest[len..];
    }
}

fn run(bytes: &[u8], accept: impl Fn(u8) -> bool) -> usize {
    bytes
        .iter()
        .position(|&byte| !accept(byte))
        .unwrap_or(bytes.len())
}

fn number_len(bytes: &[u8]) -> usize {
    let mut len = run(bytes, |byte| byte.is_ascii_alphanumeric() || byte == b'.');
    // The sign of an exponent; a hexadecimal number has none.
    let hexadecimal = bytes.len() > 1 && bytes[1].eq_ignore_ascii_case(&b'x');
    if !hexadecimal
        && bytes[len - 1].eq_ignore_ascii_case(&b'e')
        && matches!(bytes.get(len), Some(b'+' | b'-'))
    {
        len += 1;
        len += run(&bytes[len..], |byte| byte.is_ascii_alphanumeric());
    }
    len
}

fn quoted(bytes: &[u8], quote: u8) -> Option<(Token<'_>, usize)> {
    let mut at = 1;
    let mut plain = true;
    loop {
        match *bytes.get(at)? {
            b'\\' => {
                plain = false;
                at += 2;
            }
            byte if byte == quote => break,
            _ => at += 1,
        }
    }
    let token = if plain {
        Token::Text(&bytes[1..at])
    } else {
        Token::Literal
    };
    Some((token, at + 1))
}

/// The content of `[[...]]` or `[=[...]=]` at the front, and the length of the whole.
fn long_bracket(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let inner = bytes.strip_prefix(b"[")?;
    let level = run(inner, |byte| byte == b'=');
    let content = inner[level..].strip_prefix(b"[")?;
    let close = |at: &usize| {
        content[*at..].strip_prefix(b"]").is_some_and(|rest| {
            run(rest, |byte| byte == b'=') == level && rest.get(level) == Some(&b']')
        })
    };
    let end = (0..content.len()).find(close)?;
    let text = &content[..end];
    // A line break right after the bracket is not part of the text.
    let text = text
        .strip_prefix(b"\r\n")
        .or(text.strip_prefix(b"\n"))
        .unwrap_or(text);
    Some((text, bytes.len() - content.len() + end + level + 2))
}

/// What follows a comment whose `--` is taken off.
fn skip_comment(bytes: &[u8]) -> Option<&[u8]> {
    if let Some((_, len)) = long_bracket(bytes) {
        return Some(&bytes[len..]);
    }
    Some(&bytes[run(bytes, |byte| byte != b'\n')..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str) -> Vec<String> {
        let show = |token: Token<'_>| match token {
            Token::Word(word) => format!("w:{}", String::from_utf8_lossy(word)),
            Token::Text(text) => format!("t:{}", String::from_utf8_lossy(text)),
            Token::Literal => "literal".to_owned(),
            Token::Sign(sign) => String::from_utf8_lossy(sign).into_owned(),
        };
        tokens(source.as_bytes())
            .expect("Lua")
            .into_iter()
            .map(show)
            .collect()
    }

    #[test]
    fn words_strings_numbers_and_signs() {
        assert_eq!(
            shown("local x='a' .. [[b]]"),
            ["w:local", "w:x", "=", "t:a", "..", "t:b"]
        );
        assert_eq!(shown("1.5e+3-2"), ["literal", "-", "literal"]);
        assert_eq!(shown("0xfe-1"), ["literal", "-", "literal"]);
        assert_eq!(
            shown("a[b[1]]"),
            ["w:a", "[", "w:b", "[", "literal", "]", "]"]
        );
        assert_eq!(shown(r#"'a\'b' "c""#), ["literal", "t:c"]);
        assert_eq!(
            shown("a==b~=c...d"),
            ["w:a", "==", "w:b", "~=", "w:c", "...", "w:d"]
        );
    }

    #[test]
    fn comments_hide_what_they_hold() {
        assert_eq!(shown("a -- redis.call\nb"), ["w:a", "w:b"]);
        assert_eq!(shown("a --[==[ x ]] \n y ]==] b"), ["w:a", "w:b"]);
        assert_eq!(shown("a --[ x\nb --"), ["w:a", "w:b"]);
    }

    #[test]
    fn an_open_string_is_not_lua() {
        assert_eq!(tokens(b"x = 'abc"), None);
        assert_eq!(tokens(b"x = '\\"), None);
    }
}
