//! The `struct` library: numbers and strings as packed bytes, as in Redis.

use std::ffi::{CStr, c_int};

use super::lua::*;
use super::vm;

/// Largest integer, bytes.
const INTEGER_MAX: usize = 32;

/// Alignment that `!` alone asks for.
const ALIGN_DEFAULT: usize = 8;

/// Longest packed text, bytes.
const TEXT_MAX: usize = 128 << 20;

const FUNCTIONS: &[(&CStr, lua_CFunction)] =
    &[(c"pack", pack), (c"unpack", unpack), (c"size", size)];

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

/// A format being read.
struct Format<'a> {
    l: *mut lua_State,
    rest: &'a [u8],
    big_endian: bool,
    align: usize,
}

impl<'a> Format<'a> {
    /// The format at argument 1.
    unsafe fn new(l: *mut lua_State) -> Format<'a> {
        // SAFETY: the string stays at index 1. It ends at its first zero byte.
        let rest = unsafe {
            luaL_checklstring(l, 1, std::ptr::null_mut());
            let text = string_at(l, 1).unwrap_or_default();
            text.split(|&byte| byte == 0).next().unwrap_or_default()
        };
        Format {
            l,
            rest,
            big_endian: cfg!(target_endian = "big"),
            align: 1,
        }
    }

    /// The next option and the bytes it takes.
    unsafe fn next(&mut self) -> Option<(u8, usize)> {
        let (&option, rest) = self.rest.split_first()?;
        self.rest = rest;
        // SAFETY: raises for a number that is too large.
        let size = unsafe {
            match option {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b'c' => self.number(1),
                b'i' | b'I' => {
                    let size = self.number(4);
                    if size > INTEGER_MAX {
                        luaL_error(
                            self.l,
                            c"integral size %d is larger than limit of %d".as_ptr(),
                            size as c_int,
                            INTEGER_MAX as c_int,
                        );
                    }
                    size
                }
                _ => 0,
            }
        };
        Some((option, size))
    }

    unsafe fn number(&mut self, default: usize) -> usize {
        if !self.rest.first().is_some_and(u8::is_ascii_digit) {
            return default;
        }
        let mut value = 0usize;
        while let Some((digit, rest)) = self
            .rest
            .split_first()
            .filter(|(digit, _)| digit.is_ascii_digit())
        {
            value = value * 10 + usize::from(digit - b'0');
            self.rest = rest;
            if value > c_int::MAX as usize {
                // SAFETY: nothing in this frame needs dropping.
                unsafe { luaL_error(self.l, c"integral size overflow".as_ptr()) };
            }
        }
        value
    }

    /// Bytes between `at` and the place of a value.
    fn padding(&self, at: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        size.wrapping_sub(at & size.wrapping_sub(1)) & size.wrapping_sub(1)
    }

    /// An option that is no value.
    unsafe fn control(&mut self, option: u8) {
        // SAFETY: nothing in this frame needs dropping.
        unsafe {
            match option {
                b' ' => {}
                b'>' => self.big_endian = true,
                b'<' => self.big_endian = false,
                b'!' => {
                    let align = self.number(ALIGN_DEFAULT);
                    if !align.is_power_of_two() {
                        luaL_error(
                            self.l,
                            c"alignment %d is not a power of 2".as_ptr(),
                            align as c_int,
                        );
                    }
                    self.align = align;
                }
                _ => {
                    lua_pushfstring(
                        self.l,
                        c"invalid format option '%c'".as_ptr(),
                        c_int::from(option),
                    );
                    luaL_argerror(self.l, 1, lua_tolstring(self.l, -1, std::ptr::null_mut()));
                }
            }
        }
    }

    /// Appends bytes that are given least significant first.
    fn put(&self, text: &mut Vec<u8>, little: &[u8]) {
        if self.big_endian {
            text.extend(little.iter().rev());
        } else {
            text.extend_from_slice(little);
        }
    }

    fn array<const N: usize>(&self, data: &[u8]) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(data);
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn integer(&self, data: &[u8], signed: bool) -> f64 {
        let step = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = if self.big_endian {
            data.iter().fold(0, step)
        } else {
            data.iter().rev().fold(0, step)
        };
        if !signed {
            return value as f64;
        }
        // The shift wraps as on the processors Redis runs on: of wide integers the low 64 bits count.
        let sign = u64::MAX.wrapping_shl((data.len() as u32 * 8).wrapping_sub(1));
        (if value & sign == 0 {
            value
        } else {
            value | sign
        }) as i64 as f64
    }
}

unsafe extern "C-unwind" fn pack(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use; the text lives in the run, which nobody else holds meanwhile.
    unsafe {
        let mut format = Format::new(l);
        // A missing argument is reported as nil, as Redis does.
        lua_pushnil(l);
        let text = &mut vm::current().text;
        text.clear();
        let mut arg = 2;
        while let Some((option, size)) = format.next() {
            text.resize(text.len() + format.padding(text.len(), option, size), 0);
            match option {
                b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                    let number = luaL_checknumber(l, arg);
                    let value = if number < 0.0 {
                        number as i64 as u64
                    } else {
                        number as u64
                    };
                    let mut bytes = [0; INTEGER_MAX];
                    bytes[..8].copy_from_slice(&value.to_le_bytes());
                    format.put(text, &bytes[..size]);
                    arg += 1;
                }
                b'x' => text.push(0),
                b'f' => {
                    format.put(text, &(luaL_checknumber(l, arg) as f32).to_le_bytes());
                    arg += 1;
                }
                b'd' => {
                    format.put(text, &luaL_checknumber(l, arg).to_le_bytes());
                    arg += 1;
                }
                b'c' | b's' => {
                    luaL_checklstring(l, arg, std::ptr::null_mut());
                    let bytes = string_at(l, arg).unwrap_or_default();
                    arg += 1;
                    let size = if size == 0 { bytes.len() } else { size };
                    luaL_argcheck(
                        l,
                        c_int::from(bytes.len() >= size),
                        arg,
                        c"string too short".as_ptr(),
                    );
                    text.extend_from_slice(bytes.get(..size).unwrap_or_default());
                    if option == b's' {
                        text.push(0);
                    }
                }
                _ => format.control(option),
            }
            if text.len() > TEXT_MAX {
                luaL_error(l, c"the packed text is too long".as_ptr());
            }
        }
        push_bytes(l, text);
        1
    }
}

unsafe extern "C-unwind" fn unpack(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use; the data stays at index 2.
    unsafe {
        let mut format = Format::new(l);
        luaL_checklstring(l, 2, std::ptr::null_mut());
        let data = string_at(l, 2).unwrap_or_default();
        let from = luaL_optinteger(l, 3, 1);
        luaL_argcheck(
            l,
            c_int::from(from > 0),
            3,
            c"offset must be 1 or greater".as_ptr(),
        );
        let mut at = from as usize - 1;
        let mut count = 0;
        while let Some((option, mut size)) = format.next() {
            at += format.padding(at, option, size);
            let short = c"data string too short";
            let fits = |size: usize| c_int::from(size <= data.len() && at <= data.len() - size);
            luaL_argcheck(l, fits(size), 2, short.as_ptr());
            luaL_checkstack(l, 2, c"too many results".as_ptr());
            let here = &data[at..];
            match option {
                b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                    lua_pushnumber(
                        l,
                        format.integer(&here[..size], option.is_ascii_lowercase()),
                    );
                    count += 1;
                }
                b'x' => {}
                b'f' => {
                    lua_pushnumber(l, f32::from_le_bytes(format.array(&here[..size])).into());
                    count += 1;
                }
                b'd' => {
                    lua_pushnumber(l, f64::from_le_bytes(format.array(&here[..size])));
                    count += 1;
                }
                b'c' => {
                    if size == 0 {
                        if count == 0 || lua_isnumber(l, -1) == 0 {
                            luaL_error(l, c"format 'c0' needs a previous size".as_ptr());
                        }
                        size = lua_tonumber(l, -1) as usize;
                        lua_settop(l, -2);
                        count -= 1;
                        luaL_argcheck(l, fits(size), 2, short.as_ptr());
                    }
                    push_bytes(l, &here[..size]);
                    count += 1;
                }
                b's' => {
                    let Some(end) = here.iter().position(|&byte| byte == 0) else {
                        return luaL_error(l, c"unfinished string in data".as_ptr());
                    };
                    push_bytes(l, &here[..end]);
                    size = end + 1;
                    count += 1;
                }
                _ => format.control(option),
            }
            at += size;
        }
        lua_pushnumber(l, (at + 1) as f64);
        count + 1
    }
}

unsafe extern "C-unwind" fn size(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked before use.
    unsafe {
        let mut format = Format::new(l);
        let mut at = 0;
        while let Some((option, size)) = format.next() {
            at += format.padding(at, option, size);
            match option {
                b's' => drop(luaL_argerror(
                    l,
                    1,
                    c"option 's' has no fixed size".as_ptr(),
                )),
                b'c' if size == 0 => drop(luaL_argerror(
                    l,
                    1,
                    c"option 'c0' has no fixed size".as_ptr(),
                )),
                _ if !option.is_ascii_alphanumeric() => format.control(option),
                _ => {}
            }
            at += size;
        }
        lua_pushnumber(l, at as f64);
        1
    }
}
