//! The `redis` table of scripts, but for `redis.call`.

use std::ffi::{CStr, c_int};

use tollgate_wire::resp::Protocol;

use super::functions::load::{loading_engine, register_function};
use super::lua::*;
use super::sha1::sha1_hex;
use super::{REDIS_VERSION, REDIS_VERSION_NUMBER, call, vm};

/// What scripts and functions have.
const FUNCTIONS: &[(&CStr, lua_CFunction)] = &[
    (c"call", call::call),
    (c"pcall", call::pcall),
    (c"log", log),
    (c"sha1hex", sha1hex),
    (c"error_reply", error_reply),
    (c"status_reply", status_reply),
    (c"setresp", set_resp),
    (c"set_repl", set_repl),
    (c"acl_check_cmd", acl_check_cmd),
];

/// What only scripts have.
const SCRIPT_FUNCTIONS: &[(&CStr, lua_CFunction)] = &[
    (c"replicate_commands", replicate_commands),
    (c"breakpoint", breakpoint),
    (c"debug", debug),
];

/// What the code of a library has while it is loaded.
const LOAD_FUNCTIONS: &[(&CStr, lua_CFunction)] =
    &[(c"register_function", register_function), (c"log", log)];

const LOG_LEVELS: &[(&CStr, f64)] = &[
    (c"LOG_DEBUG", 0.0),
    (c"LOG_VERBOSE", 1.0),
    (c"LOG_NOTICE", 2.0),
    (c"LOG_WARNING", 3.0),
];

const NUMBERS: &[(&CStr, f64)] = &[
    (c"REPL_NONE", 0.0),
    (c"REPL_AOF", 1.0),
    (c"REPL_SLAVE", 2.0),
    (c"REPL_REPLICA", 2.0),
    (c"REPL_ALL", REPL_ALL as f64),
];

/// For whom the table is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// EVAL and its relatives.
    Scripts,
    /// FCALL.
    Functions,
    /// The code of a library while it is loaded.
    Loading,
}

/// Pushes the table.
///
/// # Safety
///
/// A live state in protected mode.
pub(super) unsafe fn open(l: *mut lua_State, whom: For) {
    let functions: &[&[(&CStr, lua_CFunction)]] = match whom {
        For::Scripts => &[FUNCTIONS, SCRIPT_FUNCTIONS],
        For::Functions => &[FUNCTIONS],
        For::Loading => &[LOAD_FUNCTIONS],
    };
    // SAFETY: as promised by the caller.
    unsafe {
        lua_createtable(l, 0, 32);
        for (name, function) in functions.iter().copied().flatten() {
            set_function(l, name, *function);
        }
        for (name, number) in LOG_LEVELS {
            set_number(l, name, *number);
        }
        if whom != For::Loading {
            for (name, number) in NUMBERS {
                set_number(l, name, *number);
            }
        }
        set_number(l, c"REDIS_VERSION_NUM", f64::from(REDIS_VERSION_NUMBER));
        set_text(l, c"REDIS_VERSION", REDIS_VERSION.as_bytes());
    }
}

/// Raises an error table, as the functions of Redis do.
///
/// # Safety
///
/// Called from a C function of a live state, with nothing in the frame that needs dropping.
pub(super) unsafe fn fail(l: *mut lua_State, text: &[u8]) -> ! {
    // SAFETY: nothing in this frame needs dropping.
    unsafe {
        push_error(l, text);
        lua_error(l)
    }
}

unsafe extern "C-unwind" fn log(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use; the run is borrowed when nothing can raise any more.
    unsafe {
        let count = lua_gettop(l);
        if count < 2 {
            fail(l, b"redis.log() requires two arguments or more.");
        }
        if lua_isnumber(l, 1) == 0 {
            fail(l, b"First argument must be a number (log level).");
        }
        let level = lua_tonumber(l, 1);
        if !(0.0..=3.0).contains(&level) {
            fail(l, b"Invalid debug level.");
        }
        push_bytes(l, b"");
        for index in 2..=count {
            if lua_isstring(l, index) == 0 {
                continue;
            }
            if index > 2 {
                push_bytes(l, b" ");
                lua_pushvalue(l, index);
                lua_concat(l, 3);
            } else {
                lua_pushvalue(l, index);
                lua_concat(l, 2);
            }
        }
        let engine = match loading_engine() {
            Some(engine) => engine,
            None => vm::current().engine,
        };
        engine
            .scripts
            .log(level as u8, string_at(l, -1).unwrap_or_default());
        0
    }
}

unsafe extern "C-unwind" fn sha1hex(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked; its bytes live while it is on the stack.
    unsafe {
        if lua_gettop(l) != 1 {
            fail(l, b"wrong number of arguments");
        }
        let mut len = 0;
        let text = lua_tolstring(l, 1, &mut len);
        let bytes: &[u8] = if text.is_null() {
            b""
        } else {
            std::slice::from_raw_parts(text.cast(), len)
        };
        push_bytes(l, &sha1_hex(bytes));
        1
    }
}

unsafe extern "C-unwind" fn error_reply(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    unsafe {
        match string_at(l, 1) {
            Some(text) if lua_gettop(l) == 1 => {
                if text.first() != Some(&b'-') {
                    push_bytes(l, b"-");
                    lua_insert(l, 1);
                    lua_concat(l, 2);
                }
                push_error(l, string_at(l, -1).unwrap_or_default());
            }
            _ => push_error(l, b"wrong number or type of arguments"),
        }
        1
    }
}

unsafe extern "C-unwind" fn status_reply(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked.
    unsafe {
        match string_at(l, 1) {
            Some(text) if lua_gettop(l) == 1 => {
                lua_createtable(l, 0, 1);
                set_text(l, c"ok", text);
            }
            _ => push_error(l, b"wrong number or type of arguments"),
        }
        1
    }
}

unsafe extern "C-unwind" fn set_resp(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked; the run is borrowed when nothing can raise any more.
    unsafe {
        if lua_gettop(l) != 1 {
            fail(l, b"redis.setresp() requires one argument.");
        }
        let protocol = match lua_tonumber(l, 1) {
            2.0 => Protocol::Resp2,
            3.0 => Protocol::Resp3,
            _ => fail(l, b"RESP version must be 2 or 3."),
        };
        vm::current().reply.set_protocol(protocol);
        0
    }
}

/// What a script does is for replicas and the append-only file, unless it says otherwise.
pub(super) const REPL_ALL: u8 = 3;

unsafe extern "C-unwind" fn set_repl(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is checked; the run is borrowed when nothing can raise any more.
    unsafe {
        if lua_gettop(l) != 1 {
            fail(l, b"redis.set_repl() requires two arguments.");
        }
        let flags = lua_tonumber(l, 1) as i32;
        if !(0..=i32::from(REPL_ALL)).contains(&flags) {
            fail(
                l,
                b"Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            );
        }
        vm::current().repl = flags as u8;
        0
    }
}

unsafe extern "C-unwind" fn replicate_commands(l: *mut lua_State) -> c_int {
    // SAFETY: one free slot.
    unsafe { lua_pushboolean(l, 1) };
    1
}

/// There is no debugger to stop in.
unsafe extern "C-unwind" fn breakpoint(l: *mut lua_State) -> c_int {
    // SAFETY: one free slot.
    unsafe { lua_pushboolean(l, 0) };
    1
}

/// Without a debugger there is nobody to print for.
unsafe extern "C-unwind" fn debug(_l: *mut lua_State) -> c_int {
    0
}

/// Whether the user who runs the script may run a command.
unsafe extern "C-unwind" fn acl_check_cmd(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use, and stay on the stack meanwhile.
    unsafe {
        let count = lua_gettop(l);
        if count == 0 {
            fail(
                l,
                b"Please specify at least one argument for this redis lib call",
            );
        }
        let caller = vm::current().caller.as_deref();
        let check = |words: &[&[u8]]| {
            let row = vm::current().engine.resolve(words).ok();
            Ok(row.map(|row| caller.is_none_or(|caller| caller.may(row, words))))
        };
        // The one error there can be is that of an argument of another type.
        let allowed = call::with_args(l, check).map_err(drop);
        let Ok(allowed) = allowed else {
            fail(
                l,
                b"Lua redis lib command arguments must be strings or integers",
            );
        };
        let Some(allowed) = allowed else {
            fail(l, b"Invalid command passed to redis.acl_check_cmd()");
        };
        lua_pushboolean(l, c_int::from(allowed));
        1
    }
}
