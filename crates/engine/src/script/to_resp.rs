//! Lua values as replies.

use std::ffi::{CStr, c_int};

use tollgate_wire::resp::{Protocol, ReplyBuf};

use super::lua::*;
use super::pace;

/// Stack slots one level of a nested value needs.
const SLOTS_PER_LEVEL: c_int = 6;

/// Levels of nesting before the reply says that there are too many: what the C stack of a thread bears easily.
const DEPTH_MAX: u32 = 1_000;

/// Bytes of a reply: tables that hold each other often make of a few bytes more than there is memory.
const REPLY_MAX: usize = 512 << 20;

/// Work that it is to write one value.
const WORK: usize = 50;

/// Writes the value at the top, and pops it. `asked` is the protocol the script chose with `redis.setresp`: it decides
/// what booleans become.
///
/// # Safety
///
/// A live state with a value at the top, inside a protected call: lack of memory raises.
pub(super) unsafe fn write_value(l: *mut lua_State, asked: Protocol, out: &mut ReplyBuf) {
    // SAFETY: as promised by the caller.
    unsafe { value(l, asked, out, 0) }
}

unsafe fn value(l: *mut lua_State, asked: Protocol, out: &mut ReplyBuf, depth: u32) {
    // SAFETY: the top of the stack is a value; slots are checked before they are used.
    unsafe {
        if depth >= DEPTH_MAX || lua_checkstack(l, SLOTS_PER_LEVEL) == 0 {
            out.error("ERR reached lua stack limit");
            lua_settop(l, -2);
            return;
        }
        pace::charge(l, WORK);
        if out.len() > REPLY_MAX {
            raise(l, b"The reply of the script is too long");
        }
        match lua_type(l, -1) {
            LUA_TSTRING => out.bulk(string_at(l, -1).unwrap_or_default()),
            LUA_TNUMBER => out.int(truncate(lua_tonumber(l, -1))),
            LUA_TBOOLEAN => {
                let yes = lua_toboolean(l, -1) != 0;
                match asked {
                    Protocol::Resp3 => out.bool(yes),
                    Protocol::Resp2 if yes => out.int(1),
                    Protocol::Resp2 => out.null(),
                }
            }
            LUA_TTABLE => table(l, asked, out, depth),
            _ => out.null(),
        }
        lua_settop(l, -2);
    }
}

/// A number as a 64-bit integer by truncation; what does not fit becomes the smallest one, as on the processors Redis
/// runs on.
fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Writes the table at the top, which stays.
unsafe fn table(l: *mut lua_State, asked: Protocol, out: &mut ReplyBuf, depth: u32) {
    // SAFETY: `at` is the absolute index of the table; every branch leaves the stack as it found it.
    unsafe {
        let at = lua_gettop(l);
        if field(l, at, c"err", &[LUA_TSTRING]) {
            out.error_bytes(string_at(l, -1).unwrap_or_default());
        } else if field(l, at, c"ok", &[LUA_TSTRING]) {
            status(out, string_at(l, -1).unwrap_or_default());
        } else if field(l, at, c"double", &[LUA_TNUMBER]) {
            out.double(lua_tonumber(l, -1));
        } else if field(l, at, c"map", &[LUA_TTABLE]) {
            pairs(l, asked, out, depth, true);
        } else if field(l, at, c"set", &[LUA_TTABLE]) {
            pairs(l, asked, out, depth, false);
        } else if field(l, at, c"big_number", &[LUA_TSTRING]) {
            out.big_number(&one_line(string_at(l, -1).unwrap_or_default()));
        } else if field(l, at, c"verbatim_string", &[LUA_TTABLE]) && verbatim(l, out) {
            // Written.
        } else {
            lua_settop(l, at);
            list(l, asked, out, depth);
        }
        lua_settop(l, at);
    }
}

/// Pushes the field of the table at `at` if it has one of the types; otherwise leaves the stack as it was.
unsafe fn field(l: *mut lua_State, at: c_int, name: &CStr, types: &[c_int]) -> bool {
    // SAFETY: `at` is a table.
    unsafe {
        lua_settop(l, at);
        raw_field(l, at, name);
        types.contains(&lua_type(l, -1))
    }
}

fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter()
        .map(|&byte| {
            if matches!(byte, b'\r' | b'\n') {
                b' '
            } else {
                byte
            }
        })
        .collect()
}

fn status(out: &mut ReplyBuf, text: &[u8]) {
    out.raw(b"+");
    out.raw(&one_line(text));
    out.raw(b"\r\n");
}

/// The elements from 1 to the first nil.
unsafe fn list(l: *mut lua_State, asked: Protocol, out: &mut ReplyBuf, depth: u32) {
    // SAFETY: the top is the table.
    unsafe {
        let at = lua_gettop(l);
        let place = out.defer_array();
        let mut count = 0;
        loop {
            lua_rawgeti_(l, at, count + 1);
            if lua_type(l, -1) == LUA_TNIL {
                break;
            }
            value(l, asked, out, depth + 1);
            count += 1;
        }
        out.close_array(place, count as usize);
    }
}

/// The table at the top as a map, or its keys as a set.
unsafe fn pairs(l: *mut lua_State, asked: Protocol, out: &mut ReplyBuf, depth: u32, map: bool) {
    // SAFETY: the top is the table; `lua_next` is given keys that it returned, since the copies are popped.
    unsafe {
        let at = lua_gettop(l);
        let mut count = 0;
        lua_pushnil(l);
        while lua_next(l, at) != 0 {
            count += 1;
            lua_settop(l, -2);
        }
        if map {
            out.map(count)
        } else {
            out.set(count)
        }
        lua_pushnil(l);
        while lua_next(l, at) != 0 {
            lua_pushvalue(l, -2);
            value(l, asked, out, depth + 1);
            if map {
                value(l, asked, out, depth + 1);
            } else {
                lua_settop(l, -2);
            }
        }
    }
}

/// The table at the top as `{format, string}`; false when it is not of that form.
unsafe fn verbatim(l: *mut lua_State, out: &mut ReplyBuf) -> bool {
    // SAFETY: the top is the table.
    unsafe {
        let at = lua_gettop(l);
        raw_field(l, at, c"format");
        raw_field(l, at, c"string");
        let (Some(format), Some(text)) = (string_at(l, -2), string_at(l, -1)) else {
            return false;
        };
        let mut kind = *b"   ";
        for (to, from) in kind.iter_mut().zip(format) {
            *to = *from;
        }
        match std::str::from_utf8(&kind) {
            Ok(kind) => out.verbatim(kind, text),
            Err(_) => out.bulk(text),
        }
        true
    }
}

/// Writes the error that ended a script, which is at the top: the table of the error handler, or a text when there
/// was no memory for it. `name` is the script's digest or the function's name.
///
/// # Safety
///
/// As [`write_value`].
pub(super) unsafe fn write_failure(l: *mut lua_State, name: &[u8], out: &mut ReplyBuf) {
    // SAFETY: the top is what was raised.
    unsafe {
        let at = lua_gettop(l);
        if lua_type(l, at) != LUA_TTABLE {
            let text = string_at(l, at).unwrap_or(b"execution failure");
            return out.error_bytes(&[b"ERR Error running script ", name, b", ", text].concat());
        }
        lua_checkstack(l, SLOTS_PER_LEVEL);
        raw_field(l, at, c"err");
        raw_field(l, at, c"source");
        raw_field(l, at, c"line");
        let text =
            string_at(l, at + 1).unwrap_or(b"ERR the script raised a table without an err field");
        let line = lua_tonumber(l, at + 3);
        let source = string_at(l, at + 2);
        let place = match source {
            Some(source) => [
                b" script: ",
                name,
                b", on ",
                source,
                format!(":{line}.").as_bytes(),
            ]
            .concat(),
            None => Vec::new(),
        };
        out.error_bytes(&[text, &place[..]].concat());
    }
}
