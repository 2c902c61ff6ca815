//! Compiling a library: its code runs once and registers functions.
//!
//! While it runs it sees nothing but `redis.register_function`, `redis.log` and constants; its functions see what
//! scripts see. Both have one table of globals, whose metatable is exchanged for the time.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;

use tollgate_net::clock::Clock;

use super::super::api::fail;
use super::super::lua::*;
use super::super::sandbox::Slot;
use super::super::shebang::ScriptFlags;
use super::super::vm;
use super::library::{self, FunctionInfo};
use crate::Engine;

/// Nanoseconds that the code of a library may take to register its functions.
const LOAD_MAX_NANOS: i64 = 500_000_000;

/// Functions that one library may register.
const FUNCTIONS_MAX: usize = 10_000;

/// A library being loaded on this thread.
pub(in super::super) struct Loading<'e> {
    engine: &'e Engine,
    code: &'e [u8],
    started: i64,
    /// Time counts: not where the same code has been loaded before.
    limited: bool,
    /// What has been registered, with the registry references.
    registered: Vec<(FunctionInfo, c_int)>,
    /// Why it failed.
    error: Vec<u8>,
}

thread_local! {
    static LOADING: Cell<*mut Loading<'static>> = const { Cell::new(ptr::null_mut()) };
}

/// Runs the code of a library, its first line cut off. The error is the text behind `ERR `; what was registered before
/// it is forgotten.
///
/// # Safety
///
/// A live state with an empty stack on which nothing runs, built by [`super::super::sandbox::build`].
pub(in super::super) unsafe fn load(
    l: *mut lua_State,
    engine: &Engine,
    code: &[u8],
    limited: bool,
) -> Result<Vec<(FunctionInfo, c_int)>, Vec<u8>> {
    let mut loading = Loading {
        engine,
        code,
        started: Clock::monotone(),
        limited,
        registered: Vec::new(),
        error: Vec::new(),
    };
    let context = ptr::from_mut(&mut loading);
    LOADING.set(context.cast());
    // SAFETY: `run` gets the only pointer to `loading`, which lives here; exchanging metatables and taking references
    // back allocates nothing and cannot raise.
    let ended = unsafe {
        set_metatable(l, Slot::LoadMetatable);
        lua_sethook(l, Some(hook), LUA_MASKCOUNT, vm::HOOK_INSTRUCTIONS);
        let status = lua_cpcall(l, run, context.cast());
        lua_settop(l, 0);
        vm::set_hook(l);
        set_metatable(l, Slot::CallMetatable);
        status
    };
    LOADING.set(ptr::null_mut());
    if ended == LUA_OK && loading.error.is_empty() {
        return Ok(loading.registered);
    }
    for (_, function) in loading.registered {
        // SAFETY: the reference came from `luaL_ref`.
        unsafe { luaL_unref(l, LUA_REGISTRYINDEX, function) };
    }
    if loading.error.is_empty() {
        loading.error = b"not enough memory".to_vec();
    }
    Err(loading.error)
}

/// The engine for which a library is being loaded on this thread.
pub(in super::super) fn loading_engine<'a>() -> Option<&'a Engine> {
    // SAFETY: the pointer is set while `load` runs, whose engine outlives it; callers keep the reference for one call.
    unsafe { LOADING.get().as_ref().map(|loading| loading.engine) }
}

/// Gives the globals of functions the metatable in `slot`.
unsafe fn set_metatable(l: *mut lua_State, slot: Slot) {
    // SAFETY: both slots hold tables since the state was built.
    unsafe {
        lua_rawgeti(l, LUA_REGISTRYINDEX, Slot::FunctionGlobals as _);
        lua_rawgeti(l, LUA_REGISTRYINDEX, slot as _);
        lua_setmetatable(l, -2);
        lua_settop(l, -2);
    }
}

/// `run(*mut Loading)`: compiles and runs. Raises only for lack of memory.
unsafe extern "C-unwind" fn run(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is the one of `load`; the texts are copied when nothing can raise any more.
    unsafe {
        let loading: *mut Loading<'_> = lua_touserdata(l, 1).cast();
        let code = (*loading).code;
        let status = luaL_loadbuffer(
            l,
            code.as_ptr().cast(),
            code.len(),
            c"@user_function".as_ptr(),
        );
        if status != LUA_OK {
            let text = string_at(l, -1).unwrap_or(b"not enough memory");
            (*loading).error = [b"Error compiling function: ", text].concat();
            return 0;
        }
        lua_rawgeti(l, LUA_REGISTRYINDEX, Slot::FunctionGlobals as _);
        lua_setfenv(l, -2);
        // What it takes to compile it does not count.
        (*loading).started = Clock::monotone();
        if lua_pcall(l, 0, 0, 0) == LUA_OK {
            return 0;
        }
        let mut head: &[u8] = b"Error registering functions: ERR ";
        if lua_type(l, -1) == LUA_TTABLE {
            raw_field(l, lua_gettop(l), c"err");
            head = b"Error registering functions: ";
        }
        let text = string_at(l, -1).unwrap_or(b"the error is not a text");
        (*loading).error = [head, text].concat();
        0
    }
}

unsafe extern "C-unwind" fn hook(l: *mut lua_State, _info: *mut lua_Debug) {
    // SAFETY: called by Lua; nothing in this frame needs dropping.
    unsafe {
        vm::look_later(l);
        if look(l) == Some(false) {
            time_out(l)
        }
    }
}

/// Looks at a library that is being loaded on this thread; false when it is to end: then every line of it raises from now
/// on, so that it cannot go on by catching the error. `None` if none is loaded.
///
/// # Safety
///
/// Called from a function that Lua called.
pub(in super::super) unsafe fn look(l: *mut lua_State) -> Option<bool> {
    // SAFETY: the pointer is set while `load` runs.
    unsafe {
        let loading = LOADING.get().as_ref()?;
        let ran = Clock::monotone() - loading.started;
        let over = loading.limited && ran > LOAD_MAX_NANOS;
        if !over && !loading.engine.scripts.stopping() {
            return Some(true);
        }
        lua_sethook(l, Some(hook), LUA_MASKLINE, 0);
        Some(false)
    }
}

/// Whether a library is being loaded on this thread.
pub(in super::super) fn is_loading() -> bool {
    !LOADING.get().is_null()
}

/// Raises the error of a library that [`look`] has ended.
///
/// # Safety
///
/// Called from a function that Lua called, with nothing in the frame that needs dropping.
pub(in super::super) unsafe fn time_out(l: *mut lua_State) -> ! {
    // SAFETY: as promised by the caller.
    unsafe { fail(l, b"FUNCTION LOAD timeout") }
}

/// Stack places of what [`register_function`] has read.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Place {
    Name = 3,
    Description = 4,
    Callback = 5,
}

/// `redis.register_function(name, callback)` or `redis.register_function{function_name=, callback=, ...}`.
///
/// # Safety
///
/// Called by Lua.
pub(in super::super) unsafe extern "C-unwind" fn register_function(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use; values with destructors are made when nothing can raise any more.
    unsafe {
        let loading = LOADING.get();
        if loading.is_null() {
            fail(
                l,
                b"redis.register_function can only be called on FUNCTION LOAD command",
            );
        }
        let count = lua_gettop(l);
        lua_settop(l, Place::Callback as c_int);
        let flags = match count {
            1 => read_named(l),
            2 => read_positional(l),
            _ => fail(l, b"wrong number of arguments to redis.register_function"),
        };
        let name = string_at(l, Place::Name as c_int).unwrap_or_default();
        if library::check_name(name).is_err() {
            fail(l, library::BAD_NAME.as_bytes());
        }
        let known = &(*loading).registered;
        if known.iter().any(|(info, _)| *info.name == *name) {
            fail(l, b"Function already exists in the library");
        }
        if known.len() >= FUNCTIONS_MAX {
            fail(l, b"A library cannot have so many functions");
        }
        lua_settop(l, Place::Callback as c_int);
        let function = luaL_ref(l, LUA_REGISTRYINDEX);
        let info = FunctionInfo {
            name: name.into(),
            description: string_at(l, Place::Description as c_int).map(Into::into),
            flags,
        };
        (*loading).registered.push((info, function));
        0
    }
}

/// A name and a function.
unsafe fn read_positional(l: *mut lua_State) -> ScriptFlags {
    // SAFETY: called by `register_function` with five places on the stack.
    unsafe {
        if lua_isstring(l, 1) == 0 {
            fail(
                l,
                b"first argument to redis.register_function must be a string",
            );
        }
        if lua_type(l, 2) != LUA_TFUNCTION {
            fail(
                l,
                b"second argument to redis.register_function must be a function",
            );
        }
        put_text(l, 1, Place::Name);
        lua_pushvalue(l, 2);
        lua_replace(l, Place::Callback as c_int);
        ScriptFlags::NONE
    }
}

/// One table with named arguments.
unsafe fn read_named(l: *mut lua_State) -> ScriptFlags {
    // SAFETY: called by `register_function` with five places on the stack; `lua_next` is given keys that it returned.
    unsafe {
        if lua_type(l, 1) != LUA_TTABLE {
            fail(
                l,
                b"calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
            );
        }
        let mut flags = ScriptFlags::NONE;
        lua_pushnil(l);
        while lua_next(l, 1) != 0 {
            let value = lua_gettop(l);
            match lua_type(l, value - 1) {
                LUA_TSTRING => read_argument(l, value, &mut flags),
                LUA_TNUMBER => fail(l, b"unknown argument given to redis.register_function"),
                _ => fail(
                    l,
                    b"named argument key given to redis.register_function is not a string",
                ),
            }
            lua_settop(l, value - 1);
        }
        if lua_type(l, Place::Name as c_int) == LUA_TNIL {
            fail(
                l,
                b"redis.register_function must get a function name argument",
            );
        }
        if lua_type(l, Place::Callback as c_int) == LUA_TNIL {
            fail(l, b"redis.register_function must get a callback argument");
        }
        flags
    }
}

/// The named argument whose value is at `value` and whose name is below it.
unsafe fn read_argument(l: *mut lua_State, value: c_int, flags: &mut ScriptFlags) {
    // SAFETY: the name is a string, which stays on the stack.
    unsafe {
        let name = string_at(l, value - 1).unwrap_or_default();
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        if is("function_name") {
            if lua_isstring(l, value) == 0 {
                fail(
                    l,
                    b"function_name argument given to redis.register_function must be a string",
                );
            }
            put_text(l, value, Place::Name);
        } else if is("description") {
            if lua_isstring(l, value) == 0 {
                fail(
                    l,
                    b"description argument given to redis.register_function must be a string",
                );
            }
            put_text(l, value, Place::Description);
        } else if is("callback") {
            if lua_type(l, value) != LUA_TFUNCTION {
                fail(
                    l,
                    b"callback argument given to redis.register_function must be a function",
                );
            }
            lua_pushvalue(l, value);
            lua_replace(l, Place::Callback as c_int);
        } else if is("flags") {
            if lua_type(l, value) != LUA_TTABLE {
                fail(
                    l,
                    b"flags argument to redis.register_function must be a table representing function flags",
                );
            }
            *flags = read_flags(l, value);
        } else {
            fail(l, b"unknown argument given to redis.register_function");
        }
    }
}

/// Copies the string or number at `from` to a place, as a string.
unsafe fn put_text(l: *mut lua_State, from: c_int, place: Place) {
    // SAFETY: the value is a string or a number; the copy is converted and not the key of a table that is walked.
    unsafe {
        lua_pushvalue(l, from);
        lua_tolstring(l, -1, ptr::null_mut());
        lua_replace(l, place as c_int);
    }
}

/// The flags named in the table at `table`, up to the first nil.
unsafe fn read_flags(l: *mut lua_State, table: c_int) -> ScriptFlags {
    // SAFETY: `table` is a table, and its index absolute.
    unsafe {
        let mut flags = ScriptFlags::NONE;
        for at in 1.. {
            lua_rawgeti_(l, table, at);
            if lua_type(l, -1) == LUA_TNIL {
                break;
            }
            match string_at(l, -1).and_then(ScriptFlags::named_in_any_case) {
                Some(flag) => flags.add(flag),
                None => fail(l, b"unknown flag given"),
            }
            lua_settop(l, table);
        }
        flags
    }
}
