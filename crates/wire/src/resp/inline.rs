//! Splits a line into words as Redis' `sdssplitargs` does: the inline command syntax, also that of redis-cli and of
//! the configuration file.

/// A quote is open at the end of the line, or text follows a closing quote directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnbalancedQuotes;

/// Gives `word` every word of `line`, unquoted.
///
/// Double quotes understand `\xHH \n \r \t \b \a` and take any other escaped byte as it is; single quotes understand `\'`
/// alone. A quote may start within a word; behind its end there must be a space.
///
/// # Errors
/// [`UnbalancedQuotes`]; `word` has then been given the words before.
pub fn split_line(line: &[u8], mut word: impl FnMut(&[u8])) -> Result<(), UnbalancedQuotes> {
    let mut rest = line;
    let mut text = Vec::new();
    loop {
        while let [first, tail @ ..] = rest
            && is_space(*first)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Ok(());
        }
        text.clear();
        rest = read_word(rest, &mut text)?;
        word(&text);
    }
}

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn read_word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        match rest {
            // Vertical tab and form feed separate only where a word has not begun.
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', tail @ ..] => return end_of_quoted(read_double(tail, text)?),
            [b'\'', tail @ ..] => return end_of_quoted(read_single(tail, text)?),
            [byte, tail @ ..] => {
                text.push(*byte);
                rest = tail;
            }
        }
    }
}

fn end_of_quoted(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => Err(UnbalancedQuotes),
        _ => Ok(rest),
    }
}

/// Reads up to the closing double quote; returns what is behind it.
fn read_double<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                text.push(hex(*high) << 4 | hex(*low));
                tail
            }
            [b'\\', escaped, tail @ ..] => {
                text.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                tail
            }
            [b'"', tail @ ..] => return Ok(tail),
            [byte, tail @ ..] => {
                text.push(*byte);
                tail
            }
            [] => return Err(UnbalancedQuotes),
        };
    }
}

/// Reads up to the closing single quote; returns what is behind it.
fn read_single<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [b'\\', b'\'', tail @ ..] => {
                text.push(b'\'');
                tail
            }
            [b'\'', tail @ ..] => return Ok(tail),
            [byte, tail @ ..] => {
                text.push(*byte);
                tail
            }
            [] => return Err(UnbalancedQuotes),
        };
    }
}

/// Value of an ASCII hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
        let mut words = Vec::new();
        split_line(line, |word| words.push(word.to_vec()))?;
        Ok(words)
    }

    /// Expected words were read from ECHO of redis-server 7.0.15, sent inline.
    #[test]
    fn lines_split_as_redis_splits_them() {
        for (line, expected) in [
            (&b"\t PING\t "[..], vec![&b"PING"[..]]),
            (b"", vec![]),
            (b"   ", vec![]),
            (
                br#"E "a\x41\n\t\r\b\a\q\"\\""#,
                vec![b"E", b"aA\n\t\r\x08\x07q\"\\"],
            ),
            (br"E 'a\'b\n'", vec![b"E", br"a'b\n"]),
            (b"E ab\"c d\"", vec![b"E", b"abc d"]),
            (b"E ab'c d'", vec![b"E", b"abc d"]),
            (br#"E "\xZZ""#, vec![b"E", b"xZZ"]),
            (b"E a\x0bb", vec![b"E", b"a\x0bb"]),
            (b"E a\rb", vec![b"E", b"a", b"b"]),
            (b"E \"\"", vec![b"E", b""]),
            (br"E a\x41", vec![b"E", br"a\x41"]),
            (b"E a\"b\"\tc", vec![b"E", b"ab", b"c"]),
        ] {
            assert_eq!(
                words(line),
                Ok(expected.iter().map(|word| word.to_vec()).collect()),
                "{}",
                line.escape_ascii()
            );
        }
    }

    #[test]
    fn an_open_quote_and_text_behind_a_quote_are_errors() {
        for line in [
            &b"E \"abc"[..],
            b"E \"abc\"d",
            b"E 'abc'd",
            b"E \"abc\\",
            b"E '",
            b"E \"\\\"",
            b"E ''''",
        ] {
            assert_eq!(
                words(line),
                Err(UnbalancedQuotes),
                "{}",
                line.escape_ascii()
            );
        }
    }
}
