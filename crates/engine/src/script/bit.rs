//! The `bit` library: 32-bit operations on numbers, as LuaBitOp defines them.

use std::ffi::{CStr, c_int};

use super::lua::*;

const FUNCTIONS: &[(&CStr, lua_CFunction)] = &[
    (c"tobit", to_bit),
    (c"bnot", bnot),
    (c"band", band),
    (c"bor", bor),
    (c"bxor", bxor),
    (c"lshift", lshift),
    (c"rshift", rshift),
    (c"arshift", arshift),
    (c"rol", rol),
    (c"ror", ror),
    (c"bswap", bswap),
    (c"tohex", to_hex),
];

/// Pushes the library.
///
/// # Safety
///
/// A live state in protected mode.
pub(super) unsafe fn open(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        lua_createtable(l, 0, FUNCTIONS.len() as c_int);
        for (name, function) in FUNCTIONS {
            set_function(l, name, *function);
        }
    }
}

/// The argument modulo 2^32: adding 2^52 + 2^51 moves the integer part into the low bits of the mantissa, rounded to
/// the nearest even, which is what the library documents.
unsafe fn argument(l: *mut lua_State, index: c_int) -> u32 {
    // SAFETY: raises when there is no number.
    let number = unsafe { luaL_checknumber(l, index) };
    (number + 6_755_399_441_055_744.0).to_bits() as u32
}

unsafe fn answer(l: *mut lua_State, value: u32) -> c_int {
    // SAFETY: one free slot.
    unsafe { lua_pushnumber(l, f64::from(value as i32)) };
    1
}

unsafe extern "C-unwind" fn to_bit(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    unsafe { answer(l, argument(l, 1)) }
}

unsafe extern "C-unwind" fn bnot(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    unsafe { answer(l, !argument(l, 1)) }
}

unsafe extern "C-unwind" fn bswap(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    unsafe { answer(l, argument(l, 1).swap_bytes()) }
}

unsafe fn fold(l: *mut lua_State, step: fn(u32, u32) -> u32) -> c_int {
    // SAFETY: every argument is checked.
    unsafe {
        let mut value = argument(l, 1);
        for index in 2..=lua_gettop(l) {
            value = step(value, argument(l, index));
        }
        answer(l, value)
    }
}

unsafe extern "C-unwind" fn band(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe { fold(l, |a, b| a & b) }
}

unsafe extern "C-unwind" fn bor(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe { fold(l, |a, b| a | b) }
}

unsafe extern "C-unwind" fn bxor(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe { fold(l, |a, b| a ^ b) }
}

unsafe fn shift(l: *mut lua_State, step: fn(u32, u32) -> u32) -> c_int {
    // SAFETY: arguments are checked.
    unsafe { answer(l, step(argument(l, 1), argument(l, 2) & 31)) }
}

unsafe extern "C-unwind" fn lshift(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe { shift(l, |value, by| value << by) }
}

unsafe extern "C-unwind" fn rshift(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe { shift(l, |value, by| value >> by) }
}

unsafe extern "C-unwind" fn arshift(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe { shift(l, |value, by| ((value as i32) >> by) as u32) }
}

unsafe extern "C-unwind" fn rol(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe { shift(l, u32::rotate_left) }
}

unsafe extern "C-unwind" fn ror(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe { shift(l, u32::rotate_right) }
}

unsafe extern "C-unwind" fn to_hex(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked; the buffer is copied by Lua.
    unsafe {
        let value = argument(l, 1);
        let wanted = if lua_isnoneornil(l, 2) != 0 {
            8
        } else {
            argument(l, 2) as i32
        };
        let (digits, count): (&[u8; 16], _) = match wanted {
            i32::MIN..0 => (b"0123456789ABCDEF", wanted.unsigned_abs().min(8)),
            _ => (b"0123456789abcdef", wanted.min(8) as u32),
        };
        let mut text = [0u8; 8];
        let text = &mut text[..count as usize];
        for (place, byte) in text.iter_mut().rev().enumerate() {
            *byte = digits[(value >> (4 * place) & 15) as usize];
        }
        push_bytes(l, text);
        1
    }
}
