//! Lines of the meta commands.

use std::borrow::Cow;

use super::line::{LONGEST, Line, fits, refused};
use super::request::{Flags, Operation, Request, Style, Target};
use super::{KEY_MAX, Mode, OPAQUE_MAX, Options, decode_base64, reply};
use super::{parse_i32, parse_u32, parse_u64};

/// Most words of a line, the command and its key included.
const WORDS_MAX: usize = 19;

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const BAD_FLAG: &str = "CLIENT_ERROR invalid or duplicate flag";
const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";

/// Judges a line whose first word has two letters and begins with `m`. `more`: it has more words than are given.
pub(super) fn judge<'a>(
    line: &'a [u8],
    words: &[&'a [u8]],
    more: bool,
    item_max: usize,
) -> Line<'a> {
    if words[0][1] == b'n' {
        return Line::Whole(Request::Noop);
    }
    let Some(operation) = operation_of(words[0][1]) else {
        return refused("ERROR");
    };
    let Some(&key) = words.get(1) else {
        return refused(match operation {
            Operation::Describe => reply::BAD_FORMAT,
            _ => "ERROR",
        });
    };
    if key.len() > KEY_MAX {
        return refused(reply::BAD_FORMAT);
    }
    if operation == Operation::Describe {
        return describe(key, words);
    }
    let stores = operation == Operation::Store;
    if stores && words.len() == 2 {
        return refused(reply::BAD_FORMAT);
    }
    if more || words.len() > WORDS_MAX {
        return refused(match operation {
            Operation::Get => "CLIENT_ERROR options flags are too long",
            _ => "CLIENT_ERROR options flags too long",
        });
    }
    let first = if stores { 3 } else { 2 };
    let flags = match words.get(first) {
        Some(word) => &line[word.as_ptr() as usize - line.as_ptr() as usize..],
        None => &line[line.len()..],
    };
    let asked = Asked {
        operation,
        key,
        flags: Flags(flags),
    };
    if !stores {
        return match asked.read() {
            Ok(target) => Line::Whole(Request::Item(target)),
            Err(line) => refused(line),
        };
    }
    let len = parse_i32(words[2]).and_then(|len| usize::try_from(len).ok());
    let Some(len) = len.filter(|&len| len < LONGEST) else {
        return refused(reply::BAD_FORMAT);
    };
    match asked.read() {
        Err(line) => Line::Ignored(Request::Refused { line: Some(line) }, len),
        Ok(target) if !fits(len, &target.key, target.options.flags, item_max) => {
            let answer = Request::TooLarge {
                key: target.key,
                removes: true,
                quiet: false,
            };
            Line::Ignored(answer, len)
        }
        Ok(mut target) => {
            target.options.item_max = item_max as u64;
            Line::Data(target, len)
        }
    }
}

/// What the second letter of a meta command stands for, of those with a key.
fn operation_of(letter: u8) -> Option<Operation> {
    Some(match letter {
        b'g' => Operation::Get,
        b's' => Operation::Store,
        b'd' => Operation::Delete,
        b'a' => Operation::Arithmetic,
        b'e' => Operation::Describe,
        _ => return None,
    })
}

fn describe<'a>(key: &'a [u8], words: &[&'a [u8]]) -> Line<'a> {
    let base64 = words.get(2).is_some_and(|word| *word == b"b");
    let key = match base64 {
        false => Cow::Borrowed(key),
        true => match decode_base64(key) {
            Some(key) => Cow::Owned(key),
            None => return refused(reply::BAD_FORMAT),
        },
    };
    Line::Whole(Request::Item(Target {
        operation: Operation::Describe,
        key,
        data: b"",
        options: Options {
            style: Style::Meta,
            base64,
            ..Options::default()
        },
        flags: Flags::default(),
    }))
}

/// A meta command before its flags are read.
struct Asked<'a> {
    operation: Operation,
    key: &'a [u8],
    flags: Flags<'a>,
}

impl<'a> Asked<'a> {
    fn read(self) -> Result<Target<'a>, &'static str> {
        let mut options = Options {
            style: Style::Meta,
            delta: 1,
            ..Options::default()
        };
        let mut key = Cow::Borrowed(self.key);
        let mut error = None;
        let mut seen = 0u128;
        let mut mode = None;
        let mut long_opaque = false;
        for (letter, token) in self.flags.iter() {
            if letter >= 127 || seen >> letter & 1 == 1 {
                return Err(self.coarse("CLIENT_ERROR duplicate flag"));
            }
            seen |= 1 << letter;
            // As in memcached, all flags are looked at, and the last mistake is told.
            match letter {
                b'M' if token.len() != 1 => {
                    error = Some("CLIENT_ERROR incorrect length for M token")
                }
                b'M' => mode = Some(token[0]),
                b'b' => match decode_base64(self.key) {
                    Some(decoded) => {
                        options.base64 = true;
                        key = Cow::Owned(decoded);
                    }
                    None => error = Some("CLIENT_ERROR error decoding key"),
                },
                b'O' => long_opaque |= token.len() >= OPAQUE_MAX,
                _ => match read_flag(&mut options, letter, token) {
                    Ok(true) => {}
                    Ok(false) => return Err(self.coarse("CLIENT_ERROR invalid flag")),
                    Err(line) => error = Some(line),
                },
            }
        }
        if let Some(line) = error {
            return Err(self.coarse(line));
        }
        if let Some(mode) = mode {
            set_mode(&mut options, self.operation, mode)?;
        }
        if long_opaque {
            return Err(LONG_OPAQUE);
        }
        Ok(Target {
            operation: self.operation,
            key,
            data: b"",
            options,
            flags: self.flags,
        })
    }

    /// How the command words a mistake in its flags.
    fn coarse(&self, line: &'static str) -> &'static str {
        match self.operation {
            Operation::Delete | Operation::Arithmetic => BAD_FLAG,
            _ => line,
        }
    }
}

/// Reads one flag; false when there is none of that letter.
fn read_flag(options: &mut Options, letter: u8, token: &[u8]) -> Result<bool, &'static str> {
    let time = || parse_i32(token).ok_or(BAD_TOKEN);
    match letter {
        b'N' => options.vivify = Some(time()?),
        b'T' => options.exptime = Some(time()?),
        b'R' => options.recache = Some(time()?),
        b'C' => options.compare = Some(parse_u64(token).ok_or(BAD_TOKEN)?),
        b'E' => options.explicit = Some(parse_u64(token).ok_or(BAD_TOKEN)?),
        b'F' => options.flags = parse_u32(token).ok_or(reply::BAD_FORMAT)?,
        b'J' => {
            let line = "CLIENT_ERROR invalid numeric initial value";
            options.initial = parse_u64(token).ok_or(line)?;
        }
        b'D' => {
            let line = "CLIENT_ERROR invalid numeric delta value";
            options.delta = parse_u64(token).ok_or(line)?;
        }
        b'I' => options.invalidate = true,
        b'q' => options.quiet = true,
        b'u' => options.no_bump = true,
        b'v' => options.value = true,
        // They change only the answer, or are for proxies.
        b'c' | b'f' | b'h' | b'k' | b'l' | b's' | b't' | b'L' | b'P' => {}
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_mode(options: &mut Options, operation: Operation, mode: u8) -> Result<(), &'static str> {
    match (operation, mode.to_ascii_uppercase()) {
        (Operation::Store, b'S') => options.mode = Mode::Set,
        (Operation::Store, b'E') => options.mode = Mode::Add,
        (Operation::Store, b'R') => options.mode = Mode::Replace,
        (Operation::Store, b'A') => options.mode = Mode::Append,
        (Operation::Store, b'P') => options.mode = Mode::Prepend,
        (Operation::Store, _) => return Err("CLIENT_ERROR invalid mode for ms M token"),
        (Operation::Arithmetic, b'I' | b'+') => options.decrement = false,
        (Operation::Arithmetic, b'D' | b'-') => options.decrement = true,
        (Operation::Arithmetic, _) => return Err("CLIENT_ERROR invalid mode for ma M token"),
        // It means nothing to the others.
        _ => {}
    }
    Ok(())
}
