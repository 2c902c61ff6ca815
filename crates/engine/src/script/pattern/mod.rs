//! `string.find`, `match`, `gmatch` and `gsub`: those of Lua 5.1, but that a script can be ended while they are at work.

mod class;
mod matcher;
#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

use memchr::memmem;

use super::lua::*;
use super::pace;
use matcher::{Capture, ESCAPE, Fault, Matcher};

/// What takes the place of functions of the string library.
pub(super) const FUNCTIONS: &[(&CStr, lua_CFunction)] = &[
    (c"find", find),
    (c"match", match_),
    (c"gmatch", gmatch),
    (c"gfind", gmatch),
    (c"gsub", gsub),
];

/// Bytes that make a text more than a plain one.
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// The text of a string or number that is an argument.
unsafe fn text_argument<'a>(l: *mut lua_State, index: c_int) -> &'a [u8] {
    // SAFETY: the string stays on the stack while the function runs, which is as long as it is used.
    unsafe {
        let mut len = 0;
        let start = luaL_checklstring(l, index, &mut len);
        std::slice::from_raw_parts(start.cast(), len)
    }
}

/// A pattern up to its first zero byte.
fn pattern_of(text: &[u8]) -> &[u8] {
    match text.iter().position(|&byte| byte == 0) {
        Some(end) => &text[..end],
        None => text,
    }
}

/// A pattern without its anchor, and whether it had one.
fn unanchored(pattern: &[u8]) -> (&[u8], bool) {
    match pattern.split_first() {
        Some((b'^', rest)) => (rest, true),
        _ => (pattern, false),
    }
}

unsafe extern "C-unwind" fn find(l: *mut lua_State) -> c_int {
    // SAFETY: called by Lua.
    unsafe { search(l, true) }
}

unsafe extern "C-unwind" fn match_(l: *mut lua_State) -> c_int {
    // SAFETY: called by Lua.
    unsafe { search(l, false) }
}

/// `find` and `match`.
unsafe fn search(l: *mut lua_State, places: bool) -> c_int {
    // SAFETY: arguments are checked before use; the matcher needs no dropping.
    unsafe {
        let (subject, text) = (text_argument(l, 1), text_argument(l, 2));
        let start = match luaL_optinteger(l, 3, 1) {
            from @ 1.. => (from as usize - 1).min(subject.len()),
            0 => 0,
            back => subject.len().saturating_sub(back.unsigned_abs() as usize),
        };
        let pattern = pattern_of(text);
        let is_plain = || lua_toboolean(l, 4) != 0 || !pattern.iter().any(is_special);
        if places && is_plain() {
            return find_plain(l, subject, text, start);
        }
        let (pattern, anchored) = unanchored(pattern);
        let mut matcher = Matcher::new(subject, pattern, pace::left(), || pace::look(l));
        let Some((start, end)) = next(l, &mut matcher, start, anchored) else {
            lua_pushnil(l);
            return 1;
        };
        if places {
            lua_pushinteger(l, start as lua_Integer + 1);
            lua_pushinteger(l, end as lua_Integer);
            return 2 + push_captures(l, subject, matcher.captures(), None);
        }
        push_captures(l, subject, matcher.captures(), Some((start, end)))
    }
}

#[inline]
fn is_special(byte: &u8) -> bool {
    SPECIAL.contains(byte)
}

/// `find` of a text as it is.
unsafe fn find_plain(l: *mut lua_State, subject: &[u8], text: &[u8], start: usize) -> c_int {
    // SAFETY: three slots are free in a fresh frame.
    unsafe {
        let rest = &subject[start..];
        pace::charge(l, rest.len() / 8);
        let found = match text {
            [] => Some(0),
            [byte] => memchr::memchr(*byte, rest),
            _ => memmem::find(rest, text),
        };
        match found {
            Some(at) => {
                lua_pushinteger(l, (start + at + 1) as lua_Integer);
                lua_pushinteger(l, (start + at + text.len()) as lua_Integer);
                2
            }
            None => {
                lua_pushnil(l);
                1
            }
        }
    }
}

/// Where the pattern fits next. Raises when it is none, or the script is to end.
unsafe fn next<G: FnMut() -> usize>(
    l: *mut lua_State,
    matcher: &mut Matcher<'_, G>,
    start: usize,
    here: bool,
) -> Option<(usize, usize)> {
    let found = matcher.find(start, here);
    pace::set_left(matcher.left());
    match found {
        Ok(found) => found,
        // SAFETY: called from functions of Lua, without anything that needs dropping.
        Err(Fault::Pattern(text)) => unsafe { raise(l, text.as_bytes()) },
        // SAFETY: as above.
        Err(Fault::Ended) => unsafe { pace::end(l) },
    }
}

/// Pushes all captures, or, if there are none, what fits as a whole.
unsafe fn push_captures(
    l: *mut lua_State,
    subject: &[u8],
    captures: &[Capture],
    whole: Option<(usize, usize)>,
) -> c_int {
    // SAFETY: room for what is pushed is made first.
    unsafe {
        let count = match whole {
            Some(_) => captures.len().max(1),
            None => captures.len(),
        } as c_int;
        luaL_checkstack_(l, count, c"too many captures".as_ptr());
        for number in 0..count as usize {
            push_capture(l, subject, captures, number, whole.unwrap_or_default());
        }
        count
    }
}

/// Pushes a capture; the first one is what fits as a whole where there are none.
unsafe fn push_capture(
    l: *mut lua_State,
    subject: &[u8],
    captures: &[Capture],
    number: usize,
    whole: (usize, usize),
) {
    // SAFETY: a slot is free.
    unsafe {
        match captures.get(number) {
            None if number == 0 => push_bytes(l, &subject[whole.0..whole.1]),
            None => raise(l, b"invalid capture index"),
            Some(Capture::Open { .. }) => raise(l, b"unfinished capture"),
            Some(Capture::Place { start }) => lua_pushinteger(l, *start as lua_Integer + 1),
            Some(Capture::Text { start, end }) => push_bytes(l, &subject[*start..*end]),
        }
    }
}

/// `gmatch`: the subject, the pattern and the place to go on from are kept by the iterator.
unsafe extern "C-unwind" fn gmatch(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use.
    unsafe {
        text_argument(l, 1);
        text_argument(l, 2);
        lua_settop(l, 2);
        lua_pushinteger(l, 0);
        lua_pushcclosure(l, gmatch_next, 3);
        1
    }
}

unsafe extern "C-unwind" fn gmatch_next(l: *mut lua_State) -> c_int {
    // SAFETY: the upvalues are those of `gmatch`.
    unsafe {
        let upvalue = |number| {
            let mut len = 0;
            let start = lua_tolstring(l, lua_upvalueindex(number), &mut len);
            std::slice::from_raw_parts(start.cast::<u8>(), len)
        };
        let (subject, pattern) = (upvalue(1), pattern_of(upvalue(2)));
        let from = lua_tonumber(l, lua_upvalueindex(3)) as usize;
        let mut matcher = Matcher::new(subject, pattern, pace::left(), || pace::look(l));
        let Some((start, end)) = next(l, &mut matcher, from, false) else {
            return 0;
        };
        lua_pushinteger(l, (end + usize::from(end == start)) as lua_Integer);
        lua_replace(l, lua_upvalueindex(3));
        push_captures(l, subject, matcher.captures(), Some((start, end)))
    }
}

unsafe extern "C-unwind" fn gsub(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use; neither the matcher nor the buffer needs dropping, and the buffer's pieces
    // are at the top of the stack whenever it is used.
    unsafe {
        let (subject, text) = (text_argument(l, 1), text_argument(l, 2));
        let (pattern, anchored) = unanchored(pattern_of(text));
        let kind = lua_type(l, 3);
        let most = luaL_optinteger(l, 4, subject.len() as lua_Integer + 1) as c_int;
        let is_known = matches!(kind, LUA_TNUMBER | LUA_TSTRING | LUA_TFUNCTION | LUA_TTABLE);
        luaL_argcheck(
            l,
            is_known.into(),
            3,
            c"string/function/table expected".as_ptr(),
        );
        let mut buffer = MaybeUninit::<luaL_Buffer>::uninit();
        let buffer = buffer.as_mut_ptr();
        luaL_buffinit(l, buffer);
        let (mut count, mut copied, mut from) = (0, 0, 0);
        while count < most && from <= subject.len() {
            // A replacement may have done work of its own.
            let mut matcher = Matcher::new(subject, pattern, pace::left(), || pace::look(l));
            let Some((start, end)) = next(l, &mut matcher, from, anchored) else {
                break;
            };
            count += 1;
            add(buffer, &subject[copied..start]);
            add_replacement(l, buffer, kind, subject, matcher.captures(), (start, end));
            copied = end;
            from = end + usize::from(end == start);
            if anchored {
                break;
            }
        }
        add(buffer, &subject[copied..]);
        luaL_pushresult(buffer);
        lua_pushinteger(l, count.into());
        2
    }
}

/// Adds bytes to a buffer.
#[inline]
unsafe fn add(buffer: *mut luaL_Buffer, mut bytes: &[u8]) {
    // SAFETY: as many bytes are written as are free.
    unsafe {
        while !bytes.is_empty() {
            let end = (&raw mut (*buffer).buffer)
                .cast::<c_char>()
                .add(LUAL_BUFFERSIZE);
            let free = end.offset_from((*buffer).p) as usize;
            if free == 0 {
                luaL_prepbuffer(buffer);
                continue;
            }
            let (now, later) = bytes.split_at(free.min(bytes.len()));
            std::ptr::copy_nonoverlapping(now.as_ptr(), (*buffer).p.cast(), now.len());
            luaL_addsize(buffer, now.len());
            bytes = later;
        }
    }
}

/// Adds what takes the place of a fit.
unsafe fn add_replacement(
    l: *mut lua_State,
    buffer: *mut luaL_Buffer,
    kind: c_int,
    subject: &[u8],
    captures: &[Capture],
    whole: (usize, usize),
) {
    // SAFETY: the third argument is of that kind; one value is pushed before it is added.
    unsafe {
        match kind {
            LUA_TFUNCTION => {
                lua_pushvalue(l, 3);
                let count = push_captures(l, subject, captures, Some(whole));
                lua_call(l, count, 1);
            }
            LUA_TTABLE => {
                push_capture(l, subject, captures, 0, whole);
                lua_gettable_(l, 3);
            }
            _ => return add_text(l, buffer, subject, captures, whole),
        }
        let kept = &subject[whole.0..whole.1];
        if lua_toboolean(l, -1) == 0 {
            lua_settop(l, -2);
            return add(buffer, kept);
        }
        if lua_isstring(l, -1) == 0 {
            let name = CStr::from_ptr(luaL_typename(l, -1));
            luaL_where(l, 1);
            push_bytes(l, b"invalid replacement value (a ");
            push_bytes(l, name.to_bytes());
            push_bytes(l, b")");
            lua_concat(l, 4);
            lua_error(l);
        }
        luaL_addvalue(buffer);
    }
}

/// Adds the text in the third argument, with captures in the places of `%1` and the like.
unsafe fn add_text(
    l: *mut lua_State,
    buffer: *mut luaL_Buffer,
    subject: &[u8],
    captures: &[Capture],
    whole: (usize, usize),
) {
    // SAFETY: the third argument is a string, or a number that becomes one and stays; a value is pushed before it is added.
    unsafe {
        let mut len = 0;
        let start = lua_tolstring(l, 3, &mut len);
        let mut text = std::slice::from_raw_parts(start.cast::<u8>(), len);
        while let Some(at) = memchr::memchr(ESCAPE, text) {
            add(buffer, &text[..at]);
            // A text that ends with the sign stands for one that has a zero behind it.
            match text.get(at + 1).copied().unwrap_or(0) {
                b'0' => add(buffer, &subject[whole.0..whole.1]),
                digit @ b'1'..=b'9' => {
                    let number = usize::from(digit - b'1');
                    push_capture(l, subject, captures, number, whole);
                    luaL_addvalue(buffer);
                }
                other => add(buffer, &[other]),
            }
            text = text.get(at + 2..).unwrap_or_default();
        }
        add(buffer, text);
    }
}
