//! Lua values as JSON text.

use std::ffi::{CStr, c_int};

use super::super::lua::*;
use super::super::vm;
use super::{DEPTH_LIMIT, Invalid, SETTINGS, Settings};

/// Longest text, bytes: shared tables can make a small value print without end.
const TEXT_MAX: usize = 128 << 20;

/// Why a value cannot be encoded.
enum Refusal {
    /// The value at this stack index, and the reason.
    Value(c_int, &'static CStr),
    Depth(c_int),
    Length,
}

/// `cjson.encode(value)`.
///
/// # Safety
///
/// Called by Lua during a run.
pub(super) unsafe extern "C-unwind" fn encode(l: *mut lua_State) -> c_int {
    // SAFETY: the text lives in the run and not in this frame, so an error leaks nothing; its pointer is used while
    // nobody else holds the run.
    unsafe {
        if lua_gettop(l) != 1 {
            luaL_argerror(l, 1, c"expected 1 argument".as_ptr());
        }
        let text: *mut Vec<u8> = &mut vm::current().text;
        (*text).clear();
        let writer = Writer {
            l,
            settings: SETTINGS.get(),
            text,
        };
        match writer.value(0) {
            Ok(()) => {
                push_bytes(l, &*text);
                1
            }
            Err(Refusal::Value(index, reason)) => {
                let kind = lua_typename(l, lua_type(l, index));
                luaL_error(
                    l,
                    c"Cannot serialise %s: %s".as_ptr(),
                    kind,
                    reason.as_ptr(),
                )
            }
            Err(Refusal::Depth(depth)) => luaL_error(
                l,
                c"Cannot serialise, excessive nesting (%d)".as_ptr(),
                depth,
            ),
            Err(Refusal::Length) => {
                luaL_error(l, c"Cannot serialise, the text is too long".as_ptr())
            }
        }
    }
}

struct Writer {
    l: *mut lua_State,
    settings: Settings,
    text: *mut Vec<u8>,
}

impl Writer {
    /// The text so far.
    #[allow(
        clippy::mut_from_ref,
        reason = "one short borrow at a time; the owner is the run"
    )]
    fn text(&self) -> &mut Vec<u8> {
        // SAFETY: the run outlives the call, and no two borrows overlap.
        unsafe { &mut *self.text }
    }

    /// Writes the value at the top, which stays.
    unsafe fn value(&self, depth: c_int) -> Result<(), Refusal> {
        let l = self.l;
        // SAFETY: the top is a value.
        unsafe {
            if self.text().len() > TEXT_MAX {
                return Err(Refusal::Length);
            }
            match lua_type(l, -1) {
                LUA_TSTRING => self.string(string_at(l, -1).unwrap_or_default()),
                LUA_TNUMBER => self.number(lua_tonumber(l, -1))?,
                LUA_TBOOLEAN if lua_toboolean(l, -1) != 0 => self.text().extend_from_slice(b"true"),
                LUA_TBOOLEAN => self.text().extend_from_slice(b"false"),
                LUA_TNIL => self.text().extend_from_slice(b"null"),
                LUA_TLIGHTUSERDATA if lua_touserdata(l, -1).is_null() => {
                    self.text().extend_from_slice(b"null")
                }
                LUA_TTABLE => self.table(depth + 1)?,
                _ => return Err(Refusal::Value(-1, c"type not supported")),
            }
        }
        Ok(())
    }

    unsafe fn table(&self, depth: c_int) -> Result<(), Refusal> {
        // SAFETY: the top is a table; four slots are enough for one level.
        unsafe {
            if depth > self.settings.encode_max_depth.min(DEPTH_LIMIT)
                || lua_checkstack(self.l, 4) == 0
            {
                return Err(Refusal::Depth(depth));
            }
            match self.array_length()? {
                Some(length) => self.array(length, depth),
                None => self.object(depth),
            }
        }
    }

    /// The largest index of the table at the top when it is an array with elements; `None` for an object.
    unsafe fn array_length(&self) -> Result<Option<c_int>, Refusal> {
        let l = self.l;
        // SAFETY: `lua_next` gets the keys it returned; values are popped.
        unsafe {
            let (mut largest, mut elements) = (0.0f64, 0.0f64);
            lua_pushnil(l);
            while lua_next(l, -2) != 0 {
                let key = if lua_type(l, -2) == LUA_TNUMBER {
                    lua_tonumber(l, -2)
                } else {
                    0.0
                };
                if key < 1.0 || key.floor() != key {
                    lua_settop(l, -3);
                    return Ok(None);
                }
                largest = largest.max(key);
                elements += 1.0;
                lua_settop(l, -2);
            }
            let settings = &self.settings;
            let sparse = settings.sparse_ratio > 0
                && largest > elements * f64::from(settings.sparse_ratio)
                && largest > f64::from(settings.sparse_safe);
            if sparse && !settings.sparse_convert {
                return Err(Refusal::Value(-1, c"excessively sparse array"));
            }
            Ok((!sparse && largest > 0.0).then_some(largest as c_int))
        }
    }

    unsafe fn array(&self, length: c_int, depth: c_int) -> Result<(), Refusal> {
        self.text().push(b'[');
        for at in 1..=length {
            if at > 1 {
                self.text().push(b',');
            }
            // SAFETY: the top is the table before and after.
            unsafe {
                lua_rawgeti_(self.l, -1, at);
                self.value(depth)?;
                lua_settop(self.l, -2);
            }
        }
        self.text().push(b']');
        Ok(())
    }

    unsafe fn object(&self, depth: c_int) -> Result<(), Refusal> {
        let l = self.l;
        self.text().push(b'{');
        // SAFETY: `lua_next` gets the keys it returned, which are read and not converted; values are popped.
        unsafe {
            let mut first = true;
            lua_pushnil(l);
            while lua_next(l, -2) != 0 {
                if !first {
                    self.text().push(b',');
                }
                first = false;
                match lua_type(l, -2) {
                    LUA_TNUMBER => {
                        self.text().push(b'"');
                        self.number(lua_tonumber(l, -2))?;
                        self.text().push(b'"');
                    }
                    LUA_TSTRING => self.string(string_at(l, -2).unwrap_or_default()),
                    _ => return Err(Refusal::Value(-2, c"table key must be a number or string")),
                }
                self.text().push(b':');
                self.value(depth)?;
                lua_settop(l, -2);
            }
        }
        self.text().push(b'}');
        Ok(())
    }

    fn number(&self, number: f64) -> Result<(), Refusal> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Refuse => return Err(Refusal::Value(-1, c"must not be NaN or Inf")),
                Invalid::Null => {
                    self.text().extend_from_slice(b"null");
                    return Ok(());
                }
                Invalid::Print if number.is_nan() => {
                    self.text().extend_from_slice(b"nan");
                    return Ok(());
                }
                Invalid::Print => {}
            }
        }
        let mut digits = [0u8; 32];
        // SAFETY: the buffer is longer than any number of 14 digits, and the call writes at most its length.
        let len = unsafe {
            libc::snprintf(
                digits.as_mut_ptr().cast(),
                digits.len(),
                c"%.*g".as_ptr(),
                self.settings.precision,
                number,
            )
        };
        self.text()
            .extend_from_slice(&digits[..usize::try_from(len).unwrap_or(0)]);
        Ok(())
    }

    fn string(&self, bytes: &[u8]) {
        let text = self.text();
        text.reserve(bytes.len() + 2);
        text.push(b'"');
        for &byte in bytes {
            match byte {
                b'"' => text.extend_from_slice(b"\\\""),
                b'\\' => text.extend_from_slice(b"\\\\"),
                b'/' => text.extend_from_slice(b"\\/"),
                0x08 => text.extend_from_slice(b"\\b"),
                b'\t' => text.extend_from_slice(b"\\t"),
                b'\n' => text.extend_from_slice(b"\\n"),
                0x0c => text.extend_from_slice(b"\\f"),
                b'\r' => text.extend_from_slice(b"\\r"),
                0..=31 | 127 => {
                    const DIGITS: &[u8; 16] = b"0123456789abcdef";
                    text.extend_from_slice(b"\\u00");
                    text.extend([
                        DIGITS[usize::from(byte >> 4)],
                        DIGITS[usize::from(byte & 15)],
                    ]);
                }
                _ => text.push(byte),
            }
        }
        text.push(b'"');
    }
}
