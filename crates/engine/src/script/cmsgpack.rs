//! The `cmsgpack` library, as lua-cmsgpack 0.4 in Redis behaves.

use std::ffi::{CStr, c_int};

use super::lua::*;
use super::vm;

/// Levels of tables that are packed; deeper ones become nil.
const PACK_DEPTH_MAX: u32 = 16;

/// Levels of tables that are unpacked: what the stack of a thread bears.
const UNPACK_DEPTH_MAX: u32 = 2_000;

/// Longest packed text, bytes: shared tables can make a small value long.
const TEXT_MAX: usize = 128 << 20;

const FUNCTIONS: &[(&CStr, lua_CFunction)] = &[
    (c"pack", pack),
    (c"unpack", unpack),
    (c"unpack_one", unpack_one),
    (c"unpack_limit", unpack_limit),
];

/// Pushes the library.
///
/// # Safety
///
/// A live state in protected mode.
pub(super) unsafe fn open(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        lua_createtable(l, 0, FUNCTIONS.len() as c_int + 4);
        for (name, function) in FUNCTIONS {
            set_function(l, name, *function);
        }
        set_text(l, c"_NAME", b"cmsgpack");
        set_text(l, c"_VERSION", b"lua-cmsgpack 0.4.0");
        set_text(
            l,
            c"_COPYRIGHT",
            b"Copyright (C) 2012, Salvatore Sanfilippo",
        );
        set_text(l, c"_DESCRIPTION", b"MessagePack C implementation for Lua");
    }
}

unsafe extern "C-unwind" fn pack(l: *mut lua_State) -> c_int {
    // SAFETY: the text lives in the run and not in this frame; nobody else holds the run meanwhile.
    unsafe {
        let count = lua_gettop(l);
        if count == 0 {
            luaL_argerror(l, 0, c"MessagePack pack needs input.".as_ptr());
        }
        let text: *mut Vec<u8> = &mut vm::current().text;
        (*text).clear();
        for index in 1..=count {
            luaL_checkstack(l, 1, c"in function mp_pack".as_ptr());
            lua_pushvalue(l, index);
            pack_value(l, &mut *text, 0);
        }
        push_bytes(l, &*text);
        1
    }
}

/// Packs the value at the top, and pops it.
unsafe fn pack_value(l: *mut lua_State, text: &mut Vec<u8>, depth: u32) {
    // SAFETY: the top is a value; slots are reserved before they are used.
    unsafe {
        if text.len() > TEXT_MAX {
            luaL_error(l, c"The packed text is too long.".as_ptr());
        }
        match lua_type(l, -1) {
            LUA_TSTRING => {
                let bytes = string_at(l, -1).unwrap_or_default();
                let len = bytes.len();
                match len {
                    0..32 => text.push(0xa0 | len as u8),
                    32..0x100 => text.extend([0xd9, len as u8]),
                    _ => head(text, len, 0xda, 0xdb),
                }
                text.extend_from_slice(bytes);
            }
            LUA_TNUMBER => pack_number(text, lua_tonumber(l, -1)),
            LUA_TBOOLEAN => text.push(if lua_toboolean(l, -1) != 0 {
                0xc3
            } else {
                0xc2
            }),
            LUA_TTABLE if depth < PACK_DEPTH_MAX => {
                luaL_checkstack(l, 4, c"in function mp_pack".as_ptr());
                pack_table(l, text, depth);
            }
            _ => text.push(0xc0),
        }
        lua_settop(l, -2);
    }
}

/// A header with the length in two bytes or in four.
fn head(text: &mut Vec<u8>, len: usize, short: u8, long: u8) {
    match u16::try_from(len) {
        Ok(len) => {
            text.push(short);
            text.extend(len.to_be_bytes());
        }
        Err(_) => {
            text.push(long);
            text.extend((len as u32).to_be_bytes());
        }
    }
}

fn pack_number(text: &mut Vec<u8>, number: f64) {
    // As in C on the processors Redis runs on, what does not fit becomes the smallest integer.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) && number as i64 as f64 == number {
        return pack_integer(text, number as i64);
    }
    let short = number as f32;
    if f64::from(short) == number {
        text.push(0xca);
        text.extend(short.to_be_bytes());
    } else {
        text.push(0xcb);
        text.extend(number.to_be_bytes());
    }
}

fn pack_integer(text: &mut Vec<u8>, value: i64) {
    match value {
        -32..=127 => text.push(value as u8),
        128..=0xff => text.extend([0xcc, value as u8]),
        0x100..=0xffff => {
            text.push(0xcd);
            text.extend((value as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            text.push(0xce);
            text.extend((value as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            text.push(0xcf);
            text.extend(value.to_be_bytes());
        }
        -128..=-33 => text.extend([0xd0, value as u8]),
        -0x8000..=-129 => {
            text.push(0xd1);
            text.extend((value as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            text.push(0xd2);
            text.extend((value as i32).to_be_bytes());
        }
        _ => {
            text.push(0xd3);
            text.extend(value.to_be_bytes());
        }
    }
}

/// Packs the table at the top, which stays.
unsafe fn pack_table(l: *mut lua_State, text: &mut Vec<u8>, depth: u32) {
    // SAFETY: `lua_next` gets the keys it returned; copies are popped.
    unsafe {
        let table = lua_gettop(l);
        let (mut count, mut largest, mut list) = (0usize, 0.0f64, true);
        lua_pushnil(l);
        while lua_next(l, table) != 0 {
            let key = if lua_type(l, -2) == LUA_TNUMBER {
                lua_tonumber(l, -2)
            } else {
                0.0
            };
            list &= key >= 1.0 && key.fract() == 0.0;
            largest = largest.max(key);
            count += 1;
            lua_settop(l, -2);
        }
        if list && largest == count as f64 {
            match count {
                0..16 => text.push(0x90 | count as u8),
                _ => head(text, count, 0xdc, 0xdd),
            }
            for at in 1..=count {
                lua_rawgeti_(l, table, at as c_int);
                pack_value(l, text, depth + 1);
            }
            return;
        }
        match count {
            0..16 => text.push(0x80 | count as u8),
            _ => head(text, count, 0xde, 0xdf),
        }
        lua_pushnil(l);
        while lua_next(l, table) != 0 {
            lua_pushvalue(l, -2);
            pack_value(l, text, depth + 1);
            pack_value(l, text, depth + 1);
        }
    }
}

unsafe extern "C-unwind" fn unpack(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    unsafe { unpack_some(l, 0, 0) }
}

unsafe extern "C-unwind" fn unpack_one(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe {
        let offset = luaL_optinteger(l, 2, 0);
        lua_settop(l, 1);
        unpack_some(l, 1, offset as i64)
    }
}

unsafe extern "C-unwind" fn unpack_limit(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked.
    unsafe {
        let limit = luaL_checkinteger(l, 2);
        let offset = luaL_optinteger(l, 3, 0);
        lua_settop(l, 1);
        unpack_some(l, limit as i64, offset as i64)
    }
}

/// Unpacks values from `offset` on: all of them when both numbers are 0, otherwise up to `limit`, with the next offset
/// (-1 at the end) before them.
unsafe fn unpack_some(l: *mut lua_State, limit: i64, offset: i64) -> c_int {
    // SAFETY: the text stays at index 1.
    unsafe {
        let mut len = 0;
        let start = luaL_checklstring(l, 1, &mut len);
        let text = std::slice::from_raw_parts(start.cast::<u8>(), len);
        if offset < 0 || limit < 0 {
            luaL_error(
                l,
                c"Invalid request to unpack with offset of %d and limit of %d.".as_ptr(),
                offset as c_int,
                len as c_int,
            );
        }
        if offset > len as i64 {
            luaL_error(
                l,
                c"Start offset %d greater than input length %d.".as_ptr(),
                offset as c_int,
                len as c_int,
            );
        }
        let all = limit == 0 && offset == 0;
        let mut reader = Unpacker {
            l,
            rest: &text[offset as usize..],
        };
        let mut count = 0;
        while !reader.rest.is_empty() && (all || i64::from(count) < limit) {
            match reader.value(0) {
                Ok(()) => count += 1,
                Err(Fault::End) => drop(luaL_error(l, c"Missing bytes in input.".as_ptr())),
                Err(Fault::Format) => drop(luaL_error(l, c"Bad data format in input.".as_ptr())),
            }
        }
        if !all {
            luaL_checkstack(l, 1, c"in function mp_unpack_full".as_ptr());
            let next = if reader.rest.is_empty() {
                -1.0
            } else {
                (len - reader.rest.len()) as f64
            };
            lua_pushnumber(l, next);
            lua_insert(l, 2);
            count += 1;
        }
        count
    }
}

/// Why packed text cannot be read.
enum Fault {
    End,
    Format,
}

struct Unpacker<'a> {
    l: *mut lua_State,
    rest: &'a [u8],
}

impl<'a> Unpacker<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Fault::End)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Fault::End)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A length in `width` bytes.
    fn length(&mut self, width: usize) -> Result<usize, Fault> {
        Ok(self
            .bytes(width)?
            .iter()
            .fold(0, |len, &byte| len << 8 | usize::from(byte)))
    }

    /// Pushes the next value.
    unsafe fn value(&mut self, depth: u32) -> Result<(), Fault> {
        // SAFETY: slots are reserved before they are used.
        unsafe {
            let l = self.l;
            let full = c"too many return values at once; use unpack_one or unpack_limit instead.";
            luaL_checkstack(l, 3, full.as_ptr());
            let [kind] = self.array()?;
            match kind {
                0..=0x7f => lua_pushnumber(l, f64::from(kind)),
                0xe0..=0xff => lua_pushnumber(l, f64::from(kind as i8)),
                0x80..=0x8f => self.map(usize::from(kind & 15), depth)?,
                0x90..=0x9f => self.list(usize::from(kind & 15), depth)?,
                0xa0..=0xbf => self.string(usize::from(kind & 31))?,
                0xc0 => lua_pushnil(l),
                0xc2 | 0xc3 => lua_pushboolean(l, c_int::from(kind == 0xc3)),
                0xd9..=0xdb => {
                    let len = self.length(1 << (kind - 0xd9))?;
                    self.string(len)?;
                }
                0xdc | 0xdd => {
                    let len = self.length(if kind == 0xdc { 2 } else { 4 })?;
                    self.list(len, depth)?;
                }
                0xde | 0xdf => {
                    let len = self.length(if kind == 0xde { 2 } else { 4 })?;
                    self.map(len, depth)?;
                }
                _ => {
                    let number = self.number(kind)?;
                    lua_pushnumber(l, number);
                }
            }
        }
        Ok(())
    }

    fn number(&mut self, kind: u8) -> Result<f64, Fault> {
        Ok(match kind {
            0xca => f64::from(f32::from_be_bytes(self.array()?)),
            0xcb => f64::from_be_bytes(self.array()?),
            0xcc => f64::from(u8::from_be_bytes(self.array()?)),
            0xcd => f64::from(u16::from_be_bytes(self.array()?)),
            0xce => f64::from(u32::from_be_bytes(self.array()?)),
            // Lua 5.1 has no unsigned integers: the upper half comes out negative.
            0xcf | 0xd3 => i64::from_be_bytes(self.array()?) as f64,
            0xd0 => f64::from(i8::from_be_bytes(self.array()?)),
            0xd1 => f64::from(i16::from_be_bytes(self.array()?)),
            0xd2 => f64::from(i32::from_be_bytes(self.array()?)),
            _ => return Err(Fault::Format),
        })
    }

    unsafe fn string(&mut self, len: usize) -> Result<(), Fault> {
        let bytes = self.bytes(len)?;
        // SAFETY: `value` reserved the slot.
        unsafe { push_bytes(self.l, bytes) };
        Ok(())
    }

    unsafe fn descend(&self, depth: u32) {
        if depth >= UNPACK_DEPTH_MAX {
            // SAFETY: nothing in this frame needs dropping.
            unsafe { luaL_error(self.l, c"The input is nested too deeply.".as_ptr()) };
        }
    }

    unsafe fn list(&mut self, len: usize, depth: u32) -> Result<(), Fault> {
        // SAFETY: `value` reserved the slots of a table and of an element.
        unsafe {
            self.descend(depth);
            lua_createtable(self.l, 0, 0);
            for at in 1..=len {
                self.value(depth + 1)?;
                lua_rawseti_(self.l, -2, at as c_int);
            }
        }
        Ok(())
    }

    unsafe fn map(&mut self, len: usize, depth: u32) -> Result<(), Fault> {
        // SAFETY: `value` reserved the slots of a table, a key and a value; a key of nil or NaN raises.
        unsafe {
            self.descend(depth);
            lua_createtable(self.l, 0, 0);
            for _ in 0..len {
                self.value(depth + 1)?;
                self.value(depth + 1)?;
                lua_settable(self.l, -3);
            }
        }
        Ok(())
    }
}
