//! The short way of reading commands: those that are there as a whole, in the form that client libraries write.

use super::Limits;

/// Numbers of up to this many digits; longer ones are errors or gigabytes.
const DIGITS_MAX: usize = 9;

/// Reads one command from the front of `buf`, appends its arguments to `words`, and returns the bytes that it takes.
///
/// `None` for whatever is not the usual (a command that is incomplete, empty, inline, or breaks a rule or limit) and for
/// clients that have not authenticated: that is for [`super::RequestParser`] to judge. Then `words` is as before.
#[inline]
pub fn read_whole<'a>(buf: &'a [u8], limits: &Limits, words: &mut Vec<&'a [u8]>) -> Option<usize> {
    let before = words.len();
    let consumed = read(buf, limits, words);
    if consumed.is_none() {
        words.truncate(before);
    }
    consumed
}

#[inline]
fn read<'a>(buf: &'a [u8], limits: &Limits, words: &mut Vec<&'a [u8]>) -> Option<usize> {
    let (count, mut at) = header(buf, 0, b'*')?;
    if count == 0 || count > limits.max_args || !limits.authenticated {
        return None;
    }
    for index in 0..count {
        let (len, start) = header(buf, at, b'$')?;
        // The two bytes behind an argument are passed over, as Redis does.
        at = start + len + 2;
        if at > buf.len() || len > limits.max_bulk_len {
            return None;
        }
        let word = &buf[start..start + len];
        if index == 0 && is_http(word) {
            return None;
        }
        words.push(word);
    }
    (at <= limits.max_request.min(u32::MAX as usize)).then_some(at)
}

/// Reads `kind` and a number at `at`; returns it and the place behind its line end.
#[inline]
fn header(buf: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let line = buf.get(at..)?;
    // Nearly all numbers have one digit or two. The byte behind CR is passed over, as Redis does.
    match *line {
        [first, a @ b'0'..=b'9', b'\r', _, ..] if first == kind => {
            Some((usize::from(a - b'0'), at + 4))
        }
        [first, a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', _, ..] if first == kind => {
            Some((usize::from(a - b'0') * 10 + usize::from(b - b'0'), at + 5))
        }
        [first, b'1'..=b'9', ..] if first == kind => long_header(line, at),
        _ => None,
    }
}

fn long_header(line: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut value = 0;
    for (digits, &byte) in line[1..].iter().take(DIGITS_MAX + 1).enumerate() {
        match byte {
            b'0'..=b'9' if digits < DIGITS_MAX => value = value * 10 + usize::from(byte - b'0'),
            b'\r' if line.len() > digits + 2 => return Some((value, at + digits + 3)),
            _ => return None,
        }
    }
    None
}

/// A command of that name is an HTTP request.
#[inline]
fn is_http(name: &[u8]) -> bool {
    match name.len() {
        4 => name.eq_ignore_ascii_case(b"post"),
        5 => name.eq_ignore_ascii_case(b"host:"),
        _ => false,
    }
}

/// Bytes of a command as clients send it: an array of bulk strings.
#[must_use]
pub fn request_len(words: &[&[u8]]) -> usize {
    let header = |number: usize| 1 + number.checked_ilog10().unwrap_or(0) as usize + 1 + 2;
    let bulk = |word: &&[u8]| header(word.len()) + word.len() + 2;
    header(words.len()) + words.iter().map(bulk).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Progress, RequestParser};

    /// What the parser makes of the same bytes.
    fn parsed(buf: &[u8], limits: &Limits) -> Option<(Vec<Vec<u8>>, usize)> {
        let mut parser = RequestParser::new();
        match parser.parse(buf, limits) {
            Ok(Progress::Ready { consumed }) => {
                let words = parser.args(buf).iter().map(|word| word.to_vec()).collect();
                Some((words, consumed))
            }
            _ => None,
        }
    }

    fn check(buf: &[u8], limits: &Limits) -> bool {
        let mut words: Vec<&[u8]> = vec![b"before"];
        let read = read_whole(buf, limits, &mut words);
        assert_eq!(words[0], b"before");
        let text = String::from_utf8_lossy(buf);
        match read {
            Some(consumed) => {
                // Headers are as clients write them, without leading zeros.
                assert_eq!(request_len(&words[1..]), consumed, "{text:?}");
                let words = words[1..].iter().map(|word| word.to_vec()).collect();
                assert_eq!(parsed(buf, limits), Some((words, consumed)), "{text:?}");
            }
            None => assert_eq!(words.len(), 1, "{text:?}"),
        }
        read.is_some()
    }

    #[test]
    fn usual_commands_are_read_as_the_parser_reads_them() {
        let limits = Limits::authenticated();
        let long = [b"*2\r\n$4\r\nECHO\r\n$1234\r\n", &[b'x'; 1234][..], b"\r\n"].concat();
        let many = [b"*120\r\n".as_slice(), &b"$1\r\na\r\n".repeat(120)].concat();
        let usual: [&[u8]; 6] = [
            b"*1\r\n$4\r\nPING\r\n",
            b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nhello world!\r\n*1\r\n",
            b"*2\r\n$4\r\nLPOP\r\n$5\r\nhost:\r\n",
            &long,
            &many,
        ];
        for command in usual {
            assert!(check(command, &limits));
            for cut in 0..command.len() {
                check(&command[..cut], &limits);
            }
        }
    }

    #[test]
    fn the_parser_judges_all_else() {
        let limits = Limits::authenticated();
        let others: [&[u8]; 16] = [
            b"",
            b"PING\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*01\r\n$4\r\nPING\r\n",
            b"*1\r\n$04\r\nPING\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n:4\r\nPING\r\n",
            b"*1\r\n$4\nPING\r\n",
            b"*1\r\n$4\r\nPOST\r\n",
            b"*1\r\n$5\r\nHost:\r\n",
            b"*1\r\n$1000000000\r\nx\r\n",
            b"*1000000000\r\n$1\r\nx\r\n",
            b"*a\r\n",
            b"*1\r\n$4\r\nPING\r",
            b"*2\r\n$4\r\nECHO\r\n",
        ];
        for buf in others {
            assert!(!check(buf, &limits), "{}", String::from_utf8_lossy(buf));
        }
        let ping = b"*2\r\n$4\r\nECHO\r\n$20\r\naaaaaaaaaaaaaaaaaaaa\r\n";
        assert!(check(ping, &limits));
        for narrow in [
            Limits::unauthenticated(),
            Limits {
                max_args: 1,
                ..limits
            },
            Limits {
                max_bulk_len: 19,
                ..limits
            },
            Limits {
                max_request: 40,
                ..limits
            },
        ] {
            assert!(!check(ping, &narrow), "{narrow:?}");
        }
    }
}
