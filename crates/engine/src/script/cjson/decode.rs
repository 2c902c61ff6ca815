//! JSON text as Lua values.

use std::ffi::{CStr, c_int};
use std::ptr;

use super::super::lua::*;
use super::super::vm;
use super::{DEPTH_LIMIT, SETTINGS, Settings};

/// What stands next in the text.
#[derive(Clone, Copy)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// The content is in the text between these positions, as it is.
    Plain(usize, usize),
    /// The content had escapes; it is in the run's text buffer.
    Escaped,
    Number(f64),
    Bool(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static CStr),
}

impl Token {
    /// As error texts name it.
    fn name(self) -> &'static CStr {
        match self {
            Token::ObjectBegin => c"T_OBJ_BEGIN",
            Token::ObjectEnd => c"T_OBJ_END",
            Token::ArrayBegin => c"T_ARR_BEGIN",
            Token::ArrayEnd => c"T_ARR_END",
            Token::Plain(..) | Token::Escaped => c"T_STRING",
            Token::Number(_) => c"T_NUMBER",
            Token::Bool(_) => c"T_BOOLEAN",
            Token::Null => c"T_NULL",
            Token::Colon => c"T_COLON",
            Token::Comma => c"T_COMMA",
            Token::End => c"T_END",
            Token::Error(text) => text,
        }
    }
}

/// `cjson.decode(text)`.
///
/// # Safety
///
/// Called by Lua during a run.
pub(super) unsafe extern "C-unwind" fn decode(l: *mut lua_State) -> c_int {
    // SAFETY: the text stays on the stack at index 1; nothing in the frames of the reader needs dropping.
    unsafe {
        if lua_gettop(l) != 1 {
            luaL_argerror(l, 1, c"expected 1 argument".as_ptr());
        }
        let mut len = 0;
        let start = luaL_checklstring(l, 1, &mut len);
        let text = std::slice::from_raw_parts(start.cast::<u8>(), len);
        if len >= 2 && (text[0] == 0 || text[1] == 0) {
            luaL_error(l, c"JSON parser does not support UTF-16 or UTF-32".as_ptr());
        }
        let mut reader = Reader {
            l,
            text,
            at: 0,
            token_at: 0,
            depth: 0,
            settings: SETTINGS.get(),
        };
        let token = reader.next();
        reader.value(token);
        match reader.next() {
            Token::End => 1,
            other => reader.unexpected(c"the end", other),
        }
    }
}

struct Reader<'a> {
    l: *mut lua_State,
    text: &'a [u8],
    at: usize,
    /// Where the last token (or the error in it) is.
    token_at: usize,
    depth: c_int,
    settings: Settings,
}

impl Reader<'_> {
    /// The byte at a position; the text ends in a zero byte, and one inside ends it too.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    unsafe fn unexpected(&self, expected: &CStr, found: Token) -> ! {
        // SAFETY: nothing in this frame needs dropping.
        unsafe {
            luaL_error(
                self.l,
                c"Expected %s but found %s at character %d".as_ptr(),
                expected.as_ptr(),
                found.name().as_ptr(),
                c_int::try_from(self.token_at + 1).unwrap_or(c_int::MAX),
            );
        }
        unreachable!("luaL_error does not return")
    }

    /// Pushes the value that begins with `token`.
    unsafe fn value(&mut self, token: Token) {
        // SAFETY: slots are reserved by `descend`, and the first value has those of a fresh frame.
        unsafe {
            match token {
                Token::ObjectBegin => self.object(),
                Token::ArrayBegin => self.array(),
                Token::Plain(start, end) => push_bytes(self.l, &self.text[start..end]),
                Token::Escaped => self.push_escaped(),
                Token::Number(number) => lua_pushnumber(self.l, number),
                Token::Bool(yes) => lua_pushboolean(self.l, c_int::from(yes)),
                Token::Null => lua_pushlightuserdata(self.l, ptr::null_mut()),
                other => self.unexpected(c"value", other),
            }
        }
    }

    unsafe fn push_escaped(&self) {
        // SAFETY: Lua copies the bytes; nobody else holds the run.
        unsafe {
            let text: *const Vec<u8> = &vm::current().text;
            push_bytes(self.l, &*text);
        }
    }

    unsafe fn descend(&mut self) {
        self.depth += 1;
        // SAFETY: nothing in this frame needs dropping.
        unsafe {
            if self.depth > self.settings.decode_max_depth.min(DEPTH_LIMIT)
                || lua_checkstack(self.l, 3) == 0
            {
                luaL_error(
                    self.l,
                    c"Found too many nested data structures (%d) at character %d".as_ptr(),
                    self.depth,
                    c_int::try_from(self.at).unwrap_or(c_int::MAX),
                );
            }
        }
    }

    unsafe fn object(&mut self) {
        // SAFETY: `descend` reserved the slots for a table, a key and a value.
        unsafe {
            self.descend();
            lua_createtable(self.l, 0, 0);
            let mut token = self.next();
            if !matches!(token, Token::ObjectEnd) {
                loop {
                    match token {
                        Token::Plain(..) | Token::Escaped => self.value(token),
                        other => self.unexpected(c"object key string", other),
                    }
                    match self.next() {
                        Token::Colon => {}
                        other => self.unexpected(c"colon", other),
                    }
                    let token_of_value = self.next();
                    self.value(token_of_value);
                    lua_rawset(self.l, -3);
                    match self.next() {
                        Token::ObjectEnd => break,
                        Token::Comma => token = self.next(),
                        other => self.unexpected(c"comma or object end", other),
                    }
                }
            }
        }
        self.depth -= 1;
    }

    unsafe fn array(&mut self) {
        // SAFETY: `descend` reserved the slots for a table and a value.
        unsafe {
            self.descend();
            lua_createtable(self.l, 0, 0);
            let mut token = self.next();
            if !matches!(token, Token::ArrayEnd) {
                for at in 1.. {
                    self.value(token);
                    lua_rawseti_(self.l, -2, at);
                    match self.next() {
                        Token::ArrayEnd => break,
                        Token::Comma => token = self.next(),
                        other => self.unexpected(c"comma or array end", other),
                    }
                }
            }
        }
        self.depth -= 1;
    }

    /// The next token. Calls nothing that raises.
    fn next(&mut self) -> Token {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        let single = match self.byte(self.at) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Token::End,
            b'"' => return self.string(),
            _ => return self.word(),
        };
        self.at += 1;
        single
    }

    fn word(&mut self) -> Token {
        let rest = &self.text[self.at..];
        for (word, token) in [
            (&b"true"[..], Token::Bool(true)),
            (b"false", Token::Bool(false)),
            (b"null", Token::Null),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        let numeric = matches!(rest[0], b'-' | b'0'..=b'9');
        let invalid = self.is_invalid_number();
        if (numeric && !invalid) || (invalid && self.settings.decode_invalid) {
            return self.number();
        }
        Token::Error(if numeric {
            c"invalid number"
        } else {
            c"invalid token"
        })
    }

    /// Numbers that JSON does not have: hexadecimal, leading zeros, infinities, NaN.
    fn is_invalid_number(&self) -> bool {
        let at = self.at + usize::from(self.byte(self.at) == b'-');
        match self.byte(at) {
            b'+' => at == self.at,
            b'0' => {
                self.byte(at + 1).eq_ignore_ascii_case(&b'x') || self.byte(at + 1).is_ascii_digit()
            }
            b'1'..=b'9' => false,
            _ => {
                let rest = self.text.get(at..).unwrap_or_default();
                let begins = |word: &[u8]| {
                    rest.get(..word.len())
                        .is_some_and(|head| head.eq_ignore_ascii_case(word))
                };
                begins(b"inf") || begins(b"nan")
            }
        }
    }

    fn number(&mut self) -> Token {
        let start = self.text[self.at..].as_ptr();
        let mut end = ptr::null_mut();
        // SAFETY: the text is a Lua string, which ends in a zero byte, so the conversion stops inside it.
        let number = unsafe { libc::strtod(start.cast(), &mut end) };
        let len = end as usize - start as usize;
        if len == 0 {
            return Token::Error(c"invalid number");
        }
        self.at += len;
        Token::Number(number)
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        let start = self.at;
        loop {
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    return Token::Plain(start, self.at - 1);
                }
                b'\\' => return self.escaped(start),
                0 => return self.string_error(c"unexpected end of string"),
                _ => self.at += 1,
            }
        }
    }

    fn string_error(&mut self, text: &'static CStr) -> Token {
        self.token_at = self.at;
        Token::Error(text)
    }

    /// A string with escapes, of which the part from `start` to here has none.
    fn escaped(&mut self, start: usize) -> Token {
        // SAFETY: nobody else holds the run, and nothing below raises.
        let content = unsafe { &mut vm::current().text };
        content.clear();
        content.extend_from_slice(&self.text[start..self.at]);
        loop {
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    return Token::Escaped;
                }
                0 => return self.string_error(c"unexpected end of string"),
                b'\\' => {
                    let plain = match self.byte(self.at + 1) {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => 0x08,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 0x0c,
                        b'r' => b'\r',
                        b'u' => {
                            let Some((character, len)) = self.unicode() else {
                                return self.string_error(c"invalid unicode escape code");
                            };
                            let mut utf8 = [0; 4];
                            content.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                            self.at += len;
                            continue;
                        }
                        _ => return self.string_error(c"invalid escape code"),
                    };
                    content.push(plain);
                    self.at += 2;
                }
                byte => {
                    content.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// The character of `\uXXXX`, or of a pair of surrogates, at the position, and its length in the text.
    fn unicode(&self) -> Option<(char, usize)> {
        let unit = |at: usize| -> Option<u32> {
            if self.byte(at) != b'\\' || self.byte(at + 1) != b'u' {
                return None;
            }
            (at + 2..at + 6).try_fold(0, |value, at| {
                Some(value * 16 + char::from(self.byte(at)).to_digit(16)?)
            })
        };
        let first = unit(self.at)?;
        if first & 0xF800 != 0xD800 {
            return Some((char::from_u32(first)?, 6));
        }
        let second = unit(self.at + 6)?;
        if first & 0x400 != 0 || second & 0xFC00 != 0xDC00 {
            return None;
        }
        let code = 0x1_0000 + ((first & 0x3FF) << 10) + (second & 0x3FF);
        Some((char::from_u32(code)?, 12))
    }
}
