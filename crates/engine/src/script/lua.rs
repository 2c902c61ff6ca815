//! Small steps over the C interface of Lua.
//!
//! Rule of this folder: a C function that Lua calls holds no value with a destructor while it calls an interface
//! function that can raise (anything that allocates, converts or runs Lua code), because an error unwinds past Rust
//! frames without running destructors. What must be released lives in the frame that made the protected call.

use std::ffi::{CStr, c_int};

pub(super) use mlua_sys::*;

/// Pushes a string of any bytes.
///
/// # Safety
///
/// `l` is a live state with a free stack slot; may raise a memory error.
#[inline]
pub(super) unsafe fn push_bytes(l: *mut lua_State, bytes: &[u8]) {
    // SAFETY: the pointer and length describe `bytes`, which Lua copies.
    unsafe { lua_pushlstring_(l, bytes.as_ptr().cast(), bytes.len()) }
}

/// The bytes of the string at `index`; `None` for anything else (numbers included, which stay as they are).
///
/// # Safety
///
/// `l` is a live state; the slice is valid while the string stays on the stack.
#[inline]
pub(super) unsafe fn string_at<'a>(l: *mut lua_State, index: c_int) -> Option<&'a [u8]> {
    // SAFETY: a valid index or none; `lua_tolstring` of a string neither allocates nor raises.
    unsafe {
        if lua_type(l, index) != LUA_TSTRING {
            return None;
        }
        let mut len = 0;
        let start = lua_tolstring(l, index, &mut len);
        Some(std::slice::from_raw_parts(start.cast(), len))
    }
}

/// Sets `name` of the table at the top to the string `value`.
///
/// # Safety
///
/// The top of the stack is a table; two free slots; may raise a memory error.
pub(super) unsafe fn set_text(l: *mut lua_State, name: &CStr, value: &[u8]) {
    // SAFETY: as promised by the caller.
    unsafe {
        push_bytes(l, value);
        lua_setfield(l, -2, name.as_ptr());
    }
}

/// Sets `name` of the table at the top to a number.
///
/// # Safety
///
/// As [`set_text`].
pub(super) unsafe fn set_number(l: *mut lua_State, name: &CStr, value: f64) {
    // SAFETY: as promised by the caller.
    unsafe {
        lua_pushnumber(l, value);
        lua_setfield(l, -2, name.as_ptr());
    }
}

/// Sets `name` of the table at the top to a function.
///
/// # Safety
///
/// As [`set_text`].
pub(super) unsafe fn set_function(l: *mut lua_State, name: &CStr, function: lua_CFunction) {
    // SAFETY: as promised by the caller.
    unsafe {
        lua_pushcfunction(l, function);
        lua_setfield(l, -2, name.as_ptr());
    }
}

/// Reads the field `name` of the table at `index` without metamethods, onto the stack.
///
/// # Safety
///
/// `index` is a table and not relative to the top; two free slots; may raise a memory error.
pub(super) unsafe fn raw_field(l: *mut lua_State, index: c_int, name: &CStr) {
    debug_assert!(
        index > 0,
        "a relative index would move when the name is pushed"
    );
    // SAFETY: as promised by the caller.
    unsafe {
        push_bytes(l, name.to_bytes());
        lua_rawget_(l, index);
    }
}

/// Raises `text` with the position of the calling Lua code in front.
///
/// # Safety
///
/// Called from a C function of a live state, with nothing in the frame that needs dropping.
pub(super) unsafe fn raise(l: *mut lua_State, text: &[u8]) -> ! {
    // SAFETY: as promised by the caller.
    unsafe {
        luaL_where(l, 1);
        push_bytes(l, text);
        lua_concat(l, 2);
        lua_error(l)
    }
}

/// Pushes the table by which scripts see an error reply: `{err = "CODE text"}`. A `line` that starts with `-` has a
/// code of its own, any other gets `ERR`; a code without a text after it is text.
///
/// # Safety
///
/// Four free slots; may raise a memory error.
pub(super) unsafe fn push_error(l: *mut lua_State, line: &[u8]) {
    let (code, text): (&[u8], &[u8]) = match line.strip_prefix(b"-") {
        None => (b"ERR", line),
        Some(rest) => match rest.iter().position(|&byte| byte == b' ') {
            Some(space) => (&rest[..space], &rest[space + 1..]),
            None => (b"ERR", rest),
        },
    };
    let end = text.len()
        - text
            .iter()
            .rev()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
    // SAFETY: as promised by the caller.
    unsafe {
        lua_createtable(l, 0, 3);
        push_bytes(l, code);
        push_bytes(l, b" ");
        push_bytes(l, &text[..end]);
        lua_concat(l, 3);
        lua_setfield(l, -2, c"err".as_ptr());
    }
}
