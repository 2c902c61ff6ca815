//! The `cjson` library, as lua-cjson 2.1 in Redis behaves: its rules for arrays, numbers and `null`, its error texts.

mod decode;
mod encode;

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr;

use super::lua::*;

/// What the functions of the library can be told; a script starts with the defaults.
#[derive(Clone, Copy)]
struct Settings {
    /// Encode arrays that are too sparse as objects instead of raising.
    sparse_convert: bool,
    /// An array is too sparse when its largest index is above this many times its elements; 0 = never.
    sparse_ratio: c_int,
    /// An array with no larger index than this is never too sparse.
    sparse_safe: c_int,
    encode_max_depth: c_int,
    decode_max_depth: c_int,
    /// Significant digits of numbers.
    precision: c_int,
    encode_invalid: Invalid,
    decode_invalid: bool,
    keep_buffer: bool,
}

/// How `encode` treats NaN and infinities.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refuse,
    Print,
    Null,
}

const DEFAULTS: Settings = Settings {
    sparse_convert: false,
    sparse_ratio: 2,
    sparse_safe: 10,
    encode_max_depth: 1_000,
    decode_max_depth: 1_000,
    precision: 14,
    encode_invalid: Invalid::Refuse,
    decode_invalid: true,
    keep_buffer: true,
};

/// Deepest nesting whatever the settings say: what the stack of a thread bears.
const DEPTH_LIMIT: c_int = 2_000;

thread_local! {
    static SETTINGS: Cell<Settings> = const { Cell::new(DEFAULTS) };
}

/// Restores the defaults: what one script sets is not seen by the next.
pub(super) fn reset() {
    SETTINGS.set(DEFAULTS);
}

const FUNCTIONS: &[(&CStr, lua_CFunction)] = &[
    (c"encode", encode::encode),
    (c"decode", decode::decode),
    (c"encode_sparse_array", encode_sparse_array),
    (c"encode_max_depth", encode_max_depth),
    (c"decode_max_depth", decode_max_depth),
    (c"encode_number_precision", encode_number_precision),
    (c"encode_keep_buffer", encode_keep_buffer),
    (c"encode_invalid_numbers", encode_invalid_numbers),
    (c"decode_invalid_numbers", decode_invalid_numbers),
];

/// Pushes the library.
///
/// # Safety
///
/// A live state in protected mode.
pub(super) unsafe fn open(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        lua_createtable(l, 0, FUNCTIONS.len() as c_int + 3);
        for (name, function) in FUNCTIONS {
            set_function(l, name, *function);
        }
        lua_pushlightuserdata(l, ptr::null_mut());
        lua_setfield(l, -2, c"null".as_ptr());
        set_text(l, c"_NAME", b"cjson");
        set_text(l, c"_VERSION", b"2.1.0");
    }
}

/// An integer setting: set when the argument is there, and pushed.
unsafe fn integer(l: *mut lua_State, index: c_int, setting: &mut c_int, low: c_int, high: c_int) {
    // SAFETY: the argument is checked; the message is copied before it is raised.
    unsafe {
        if lua_isnoneornil(l, index) == 0 {
            let value = luaL_checkinteger(l, index);
            if value < i64::from(low) as lua_Integer || value > i64::from(high) as lua_Integer {
                lua_pushfstring(l, c"expected integer between %d and %d".as_ptr(), low, high);
                luaL_argerror(l, index, lua_tolstring(l, -1, ptr::null_mut()));
            }
            *setting = value as c_int;
        }
        lua_pushnumber(l, f64::from(*setting));
    }
}

/// A yes or no: `true`, `false`, `"on"` or `"off"`; set when the argument is there, and pushed.
unsafe fn switch(l: *mut lua_State, index: c_int, setting: &mut bool) {
    // SAFETY: the argument is checked.
    unsafe {
        match lua_type(l, index) {
            LUA_TNONE | LUA_TNIL => {}
            LUA_TBOOLEAN => *setting = lua_toboolean(l, index) != 0,
            _ => {
                let names = [c"off".as_ptr(), c"on".as_ptr(), ptr::null()];
                *setting = luaL_checkoption(l, index, ptr::null(), names.as_ptr()) == 1;
            }
        }
        lua_pushboolean(l, c_int::from(*setting));
    }
}

/// Changes the settings with `f`, which pushes `results` values.
fn change(results: c_int, f: impl FnOnce(&mut Settings)) -> c_int {
    let mut settings = SETTINGS.get();
    f(&mut settings);
    SETTINGS.set(settings);
    results
}

unsafe extern "C-unwind" fn encode_sparse_array(l: *mut lua_State) -> c_int {
    change(3, |settings| {
        // SAFETY: arguments are checked.
        unsafe {
            lua_settop(l, 3);
            switch(l, 1, &mut settings.sparse_convert);
            integer(l, 2, &mut settings.sparse_ratio, 0, c_int::MAX);
            integer(l, 3, &mut settings.sparse_safe, 0, c_int::MAX);
        }
    })
}

unsafe extern "C-unwind" fn encode_max_depth(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    change(1, |settings| unsafe {
        integer(l, 1, &mut settings.encode_max_depth, 1, c_int::MAX)
    })
}

unsafe extern "C-unwind" fn decode_max_depth(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    change(1, |settings| unsafe {
        integer(l, 1, &mut settings.decode_max_depth, 1, c_int::MAX)
    })
}

unsafe extern "C-unwind" fn encode_number_precision(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    change(1, |settings| unsafe {
        integer(l, 1, &mut settings.precision, 1, 14)
    })
}

unsafe extern "C-unwind" fn encode_keep_buffer(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    change(1, |settings| unsafe {
        switch(l, 1, &mut settings.keep_buffer)
    })
}

unsafe extern "C-unwind" fn encode_invalid_numbers(l: *mut lua_State) -> c_int {
    change(1, |settings| {
        // SAFETY: the argument is checked.
        unsafe {
            match lua_type(l, 1) {
                LUA_TNONE | LUA_TNIL => {}
                LUA_TBOOLEAN if lua_toboolean(l, 1) != 0 => {
                    settings.encode_invalid = Invalid::Print
                }
                LUA_TBOOLEAN => settings.encode_invalid = Invalid::Refuse,
                _ => {
                    let names = [
                        c"off".as_ptr(),
                        c"on".as_ptr(),
                        c"null".as_ptr(),
                        ptr::null(),
                    ];
                    settings.encode_invalid =
                        match luaL_checkoption(l, 1, ptr::null(), names.as_ptr()) {
                            0 => Invalid::Refuse,
                            1 => Invalid::Print,
                            _ => Invalid::Null,
                        };
                }
            }
            match settings.encode_invalid {
                Invalid::Null => push_bytes(l, b"null"),
                known => lua_pushboolean(l, c_int::from(known == Invalid::Print)),
            }
        }
    })
}

unsafe extern "C-unwind" fn decode_invalid_numbers(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    change(1, |settings| unsafe {
        switch(l, 1, &mut settings.decode_invalid)
    })
}
