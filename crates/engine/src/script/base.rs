//! Functions of the base and math libraries that differ from Lua's own: they keep scripts apart, refuse compiled code,
//! or are quicker.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr;

use super::lua::*;
use super::pace;
use super::sandbox::Slot;

/// Functions of our own in place of the standard ones.
pub(super) const FUNCTIONS: &[(&CStr, lua_CFunction)] = &[
    (c"collectgarbage", collect_garbage),
    (c"getmetatable", get_metatable),
    (c"load", load),
    (c"loadstring", load_string),
    (c"pcall", protected_call),
    (c"rawset", raw_set),
    (c"setmetatable", set_metatable),
    (c"tonumber", to_number),
    (c"unpack", unpack),
];

/// Raises unless the first argument may be changed. As Redis, without a position in the text.
unsafe fn check_writable(l: *mut lua_State) {
    // SAFETY: pushes two values and pops them.
    unsafe {
        if lua_type(l, 1) != LUA_TTABLE {
            return;
        }
        lua_rawgeti(l, LUA_REGISTRYINDEX, Slot::Protected as _);
        lua_pushvalue(l, 1);
        if lua_rawget(l, -2) != LUA_TNIL {
            push_bytes(l, b"Attempt to modify a readonly table");
            lua_error(l);
        }
        lua_pop(l, 2);
    }
}

unsafe extern "C-unwind" fn raw_set(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use.
    unsafe {
        luaL_checktype(l, 1, LUA_TTABLE);
        luaL_checkany(l, 2);
        luaL_checkany(l, 3);
        check_writable(l);
        lua_settop(l, 3);
        lua_rawset(l, 1);
        1
    }
}

unsafe extern "C-unwind" fn set_metatable(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use.
    unsafe {
        luaL_checktype(l, 1, LUA_TTABLE);
        let kind = lua_type(l, 2);
        luaL_argcheck(
            l,
            c_int::from(kind == LUA_TNIL || kind == LUA_TTABLE),
            2,
            c"nil or table expected".as_ptr(),
        );
        check_writable(l);
        if luaL_getmetafield_(l, 1, c"__metatable".as_ptr()) != 0 {
            raise(l, b"cannot change a protected metatable");
        }
        lua_settop(l, 2);
        lua_setmetatable(l, 1);
        1
    }
}

/// `getmetatable`; a library has none to show.
unsafe extern "C-unwind" fn get_metatable(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked; the metatable is on the stack while its field is read.
    unsafe {
        luaL_checkany(l, 1);
        lua_settop(l, 1);
        let found = lua_getmetatable(l, 1) != 0;
        let hidden = found
            && luaL_getmetafield_(l, 1, c"__metatable".as_ptr()) != 0
            && lua_type(l, -1) == LUA_TBOOLEAN
            && lua_toboolean(l, -1) == 0;
        if !found || hidden {
            lua_pushnil(l);
        }
        1
    }
}

/// `unpack`. Lua's own counts the elements in a C `int`, which the bounds can make overflow: what its compiler made of that
/// read and wrote far outside of the stack.
unsafe extern "C-unwind" fn unpack(l: *mut lua_State) -> c_int {
    // SAFETY: the table is checked, and there is room on the stack for what is pushed.
    unsafe {
        luaL_checktype(l, 1, LUA_TTABLE);
        // As Lua does: of a number that is too large the low bits count.
        let first = luaL_optinteger(l, 2, 1) as c_int;
        let last = match lua_isnoneornil(l, 3) {
            0 => luaL_checkinteger(l, 3) as c_int,
            _ => lua_objlen(l, 1) as c_int,
        };
        if first > last {
            return 0;
        }
        let count = c_int::try_from(i64::from(last) - i64::from(first) + 1).unwrap_or(c_int::MAX);
        if count == c_int::MAX || lua_checkstack(l, count) == 0 {
            raise(l, b"too many results to unpack");
        }
        for index in first..=last {
            lua_rawgeti_(l, 1, index);
        }
        count
    }
}

/// `collectgarbage` without the options that would outlive the script.
unsafe extern "C-unwind" fn collect_garbage(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked; the list of options ends with a null.
    unsafe {
        let options = [
            c"collect".as_ptr(),
            c"count".as_ptr(),
            c"step".as_ptr(),
            c"stop".as_ptr(),
            c"restart".as_ptr(),
            c"setpause".as_ptr(),
            c"setstepmul".as_ptr(),
            ptr::null(),
        ];
        let result = match luaL_checkoption(l, 1, c"collect".as_ptr(), options.as_ptr()) {
            0 => {
                // About what it is to look at so many kilobytes.
                pace::charge(l, 500 * lua_gc(l, LUA_GCCOUNT, 0) as usize);
                f64::from(lua_gc(l, LUA_GCCOLLECT, 0))
            }
            1 => {
                f64::from(lua_gc(l, LUA_GCCOUNT, 0))
                    + f64::from(lua_gc(l, LUA_GCCOUNTB, 0)) / 1024.0
            }
            2 => f64::from(lua_gc(l, LUA_GCSTEP, 0)),
            _ => 0.0,
        };
        lua_pushnumber(l, result);
        1
    }
}

/// `pcall`, which hands out the text of an error table that Redis' functions raise, and not the table.
unsafe extern "C-unwind" fn protected_call(l: *mut lua_State) -> c_int {
    // SAFETY: the first argument is checked; the result goes to the bottom.
    unsafe {
        luaL_checkany(l, 1);
        let args = lua_gettop(l) - 1;
        lua_pushboolean(l, 1);
        lua_insert(l, 1);
        if lua_pcall(l, args, LUA_MULTRET, 0) != LUA_OK {
            lua_remove(l, 1);
            if lua_type(l, -1) == LUA_TTABLE {
                lua_getfield(l, -1, c"err".as_ptr());
                if lua_isstring(l, -1) != 0 {
                    lua_replace(l, -2);
                } else {
                    lua_settop(l, -2);
                }
            }
            lua_pushboolean(l, 0);
            lua_insert(l, 1);
        }
        lua_gettop(l)
    }
}

/// Compiles the source at the top under the name at `name`; the results of `load` and `loadstring`. Compiled code is
/// refused: the virtual machine trusts it, so it could read and write any memory.
unsafe fn compile(l: *mut lua_State, name: c_int) -> c_int {
    // SAFETY: the top is a string; the name is a string.
    unsafe {
        let source = string_at(l, -1).unwrap_or_default();
        if source.first() == Some(&b'\x1b') {
            lua_pushnil(l);
            push_bytes(l, b"attempt to load compiled code");
            return 2;
        }
        let chunk = lua_tolstring(l, name, ptr::null_mut());
        if luaL_loadbuffer(l, source.as_ptr().cast(), source.len(), chunk) == 0 {
            return 1;
        }
        lua_pushnil(l);
        lua_insert(l, -2);
        2
    }
}

unsafe extern "C-unwind" fn load_string(l: *mut lua_State) -> c_int {
    // SAFETY: both arguments are strings after the checks.
    unsafe {
        luaL_checklstring(l, 1, ptr::null_mut());
        luaL_optlstring(l, 2, lua_tolstring(l, 1, ptr::null_mut()), ptr::null_mut());
        if lua_isnoneornil(l, 2) != 0 {
            lua_settop(l, 1);
            lua_pushvalue(l, 1);
        }
        lua_settop(l, 2);
        lua_pushvalue(l, 1);
        compile(l, 2)
    }
}

unsafe extern "C-unwind" fn load(l: *mut lua_State) -> c_int {
    // SAFETY: the first argument is a function after the check; slots 3 and 4 are ours.
    unsafe {
        luaL_checktype(l, 1, LUA_TFUNCTION);
        luaL_optlstring(l, 2, c"=(load)".as_ptr(), ptr::null_mut());
        lua_settop(l, 2);
        if lua_type(l, 2) == LUA_TNIL {
            push_bytes(l, b"=(load)");
            lua_replace(l, 2);
        }
        push_bytes(l, b"");
        loop {
            lua_pushvalue(l, 1);
            lua_call(l, 0, 1);
            match lua_type(l, 4) {
                LUA_TNIL => break,
                LUA_TSTRING | LUA_TNUMBER => {
                    if lua_objlen(l, 4) == 0 {
                        break;
                    }
                    lua_concat(l, 2);
                }
                _ => raise(l, b"reader function must return a string"),
            }
        }
        lua_settop(l, 3);
        compile(l, 2)
    }
}

/// `tonumber`, with a short way for what scripts mostly give it: a number, or a few decimal digits.
unsafe extern "C-unwind" fn to_number(l: *mut lua_State) -> c_int {
    /// Digits that are exact in a double.
    const DIGITS_MAX: usize = 15;
    // SAFETY: arguments are checked before use; a string ends in a zero byte.
    unsafe {
        let base = luaL_optinteger(l, 2, 10);
        if base != 10 {
            return to_number_of_base(l, base);
        }
        luaL_checkany(l, 1);
        if let Some(text) = string_at(l, 1)
            && (1..=DIGITS_MAX).contains(&text.len())
            && text.iter().all(u8::is_ascii_digit)
        {
            let value = text
                .iter()
                .fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
            lua_pushnumber(l, value as f64);
        } else if lua_isnumber(l, 1) != 0 {
            lua_pushnumber(l, lua_tonumber(l, 1));
        } else {
            lua_pushnil(l);
        }
        1
    }
}

unsafe fn to_number_of_base(l: *mut lua_State, base: lua_Integer) -> c_int {
    // SAFETY: the text is a Lua string, which ends in a zero byte, so the conversion and the search stop inside it.
    unsafe {
        let text = luaL_checklstring(l, 1, ptr::null_mut());
        luaL_argcheck(
            l,
            c_int::from((2..=36).contains(&base)),
            2,
            c"base out of range".as_ptr(),
        );
        let mut end = ptr::null_mut();
        let value = libc::strtoul(text, &mut end, base as c_int);
        if !ptr::eq(end, text) {
            while (*end as u8).is_ascii_whitespace() || *end as u8 == 0x0b {
                end = end.add(1);
            }
            if *end == 0 {
                lua_pushnumber(l, value as f64);
                return 1;
            }
        }
        lua_pushnil(l);
        1
    }
}

thread_local! {
    /// State of the generator behind `math.random`: that of `drand48`, so that a seeded script draws the same
    /// numbers as in Redis.
    static RANDOM: Cell<u64> = const { Cell::new(0x1234_ABCD_330E) };
}

/// `math.randomseed`.
///
/// # Safety
///
/// Called by Lua.
pub(super) unsafe extern "C-unwind" fn random_seed(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    let seed = unsafe { luaL_checkinteger(l, 1) };
    RANDOM.set((seed as u64 & 0xFFFF_FFFF) << 16 | 0x330E);
    0
}

/// The next number in [0, 1).
fn draw() -> f64 {
    const MAX: u64 = i32::MAX as u64;
    let next = RANDOM.get().wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & 0xFFFF_FFFF_FFFF;
    RANDOM.set(next);
    ((next >> 17) % MAX) as f64 / MAX as f64
}

/// `math.random`.
///
/// # Safety
///
/// Called by Lua.
pub(super) unsafe extern "C-unwind" fn random(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use.
    unsafe {
        let (low, high) = match lua_gettop(l) {
            0 => {
                lua_pushnumber(l, draw());
                return 1;
            }
            1 => (1, luaL_checkinteger(l, 1)),
            2 => (luaL_checkinteger(l, 1), luaL_checkinteger(l, 2)),
            _ => raise(l, b"wrong number of arguments"),
        };
        if low > high {
            luaL_argerror(l, lua_gettop(l), c"interval is empty".as_ptr());
        }
        lua_pushnumber(
            l,
            (draw() * (high as f64 - low as f64 + 1.0)).floor() + low as f64,
        );
        1
    }
}
