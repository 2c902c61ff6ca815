//! Replies as Lua values.

use std::ffi::{CStr, c_int};

use super::lua::*;

/// Stack slots one level of a nested reply needs.
const SLOTS_PER_LEVEL: c_int = 6;

/// Pushes the reply at the front of `bytes`, which this program wrote, and returns what follows it.
///
/// # Safety
///
/// A live state inside a protected call, since lack of memory raises; `bytes` is not changed meanwhile.
pub(super) unsafe fn push_reply(l: *mut lua_State, bytes: &[u8]) -> &[u8] {
    let end = memchr_crlf(bytes);
    let (kind, line, rest) = (bytes[0], &bytes[1..end], &bytes[end + 2..]);
    // SAFETY: as promised by the caller; slots are reserved before they are used.
    unsafe {
        luaL_checkstack(l, SLOTS_PER_LEVEL, c"reply is nested too deeply".as_ptr());
        match kind {
            b':' => lua_pushnumber(l, number(line) as f64),
            b'$' | b'=' if line == b"-1" => lua_pushboolean(l, 0),
            b'$' => return push_sized(l, number(line), rest),
            b'+' => {
                lua_createtable(l, 0, 1);
                set_text(l, c"ok", line);
            }
            b'-' => {
                push_error(l, &bytes[..end]);
                lua_pushboolean(l, 1);
                lua_setfield(l, -2, c"ignore_error_stats_update".as_ptr());
            }
            b'*' | b'>' if line == b"-1" => lua_pushboolean(l, 0),
            b'*' | b'>' => return push_list(l, number(line), rest),
            b'_' => lua_pushnil(l),
            b'#' => lua_pushboolean(l, c_int::from(line == b"t")),
            b',' => {
                lua_createtable(l, 0, 1);
                push_bytes(l, line);
                let value = lua_tonumber(l, -1);
                lua_settop(l, -2);
                set_number(l, c"double", value);
            }
            b'(' => {
                lua_createtable(l, 0, 1);
                set_text(l, c"big_number", line);
            }
            b'%' => return push_pairs(l, c"map", number(line), rest),
            b'~' => return push_pairs(l, c"set", number(line), rest),
            b'=' => return push_verbatim(l, number(line), rest),
            b'|' => return push_behind_attributes(l, number(line), rest),
            _ => unreachable!("replies of this program are well formed"),
        }
    }
    rest
}

/// Position of the first CR, which ends the line.
fn memchr_crlf(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|&byte| byte == b'\r')
        .expect("a reply line ends in CR LF")
}

fn number(line: &[u8]) -> i64 {
    let (negative, digits) = match line.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, line),
    };
    // Accumulating the negative value reaches both ends of the range.
    let value = digits
        .iter()
        .fold(0i64, |value, digit| value * 10 - i64::from(digit - b'0'));
    if negative { value } else { -value }
}

unsafe fn push_sized(l: *mut lua_State, len: i64, rest: &[u8]) -> &[u8] {
    let len = len as usize;
    // SAFETY: as promised by the caller of `push_reply`.
    unsafe { push_bytes(l, &rest[..len]) };
    &rest[len + 2..]
}

unsafe fn push_list(l: *mut lua_State, len: i64, mut rest: &[u8]) -> &[u8] {
    // SAFETY: as promised by the caller of `push_reply`.
    unsafe {
        lua_createtable(l, c_int::try_from(len).unwrap_or(0), 0);
        for at in 1..=len {
            rest = push_reply(l, rest);
            lua_rawseti_(l, -2, at as c_int);
        }
    }
    rest
}

/// `{map = {key = value}}`, or `{set = {member = true}}`.
unsafe fn push_pairs<'a>(l: *mut lua_State, name: &CStr, len: i64, mut rest: &'a [u8]) -> &'a [u8] {
    let map = name == c"map";
    // SAFETY: as promised by the caller of `push_reply`.
    unsafe {
        lua_createtable(l, 0, 1);
        lua_createtable(l, 0, c_int::try_from(len).unwrap_or(0));
        for _ in 0..len {
            rest = push_reply(l, rest);
            if map {
                rest = push_reply(l, rest);
            } else {
                lua_pushboolean(l, 1);
            }
            lua_rawset(l, -3);
        }
        lua_setfield(l, -2, name.as_ptr());
    }
    rest
}

/// The reply behind attributes, which scripts do not see.
unsafe fn push_behind_attributes(l: *mut lua_State, len: i64, mut rest: &[u8]) -> &[u8] {
    // SAFETY: as promised by the caller of `push_reply`.
    unsafe {
        let top = lua_gettop(l);
        for _ in 0..2 * len {
            rest = push_reply(l, rest);
            lua_settop(l, top);
        }
        push_reply(l, rest)
    }
}

/// `{verbatim_string = {format = , string = }}`.
unsafe fn push_verbatim(l: *mut lua_State, len: i64, rest: &[u8]) -> &[u8] {
    let len = len as usize;
    // SAFETY: as promised by the caller of `push_reply`; a verbatim string starts with its format and a colon.
    unsafe {
        lua_createtable(l, 0, 1);
        lua_createtable(l, 0, 2);
        set_text(l, c"string", &rest[4..len]);
        set_text(l, c"format", &rest[..3]);
        lua_setfield(l, -2, c"verbatim_string".as_ptr());
    }
    &rest[len + 2..]
}
