//! What scripts can reach: the globals of Redis 7.0, protected.
//!
//! Lua 5.1 has no read-only tables. A protected table is an empty stand-in whose metatable reads through to the real
//! one and refuses writes, so that nothing a script does is seen by the next. Real tables are never handed out.

use std::ffi::{CStr, c_int};

use super::api::For;
use super::lua::*;
use super::{api, base, bit, cjson, cmsgpack, pattern, structs, tables};

/// Keys, or other arguments, of a call that are handed over in a table that is used again.
pub(super) const TAME_WORDS_MAX: usize = 16;

/// Registry slots with a fixed number: [`build`] fills them first, in this order.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Slot {
    /// The real table of globals.
    Globals = 1,
    /// Stand-ins, as keys: what `rawset` and `setmetatable` refuse.
    Protected = 2,
    /// The function that turns whatever was raised into an error table.
    Handler = 3,
    /// The function that runs a job, with the upvalues of [`Upvalue`].
    Enter = 4,
    /// The real table of globals with the real libraries in it, for tame scripts only.
    Fast = 5,
    /// The table of globals of functions: empty, with one of the two metatables that follow.
    FunctionGlobals = 6,
    /// Shows what functions see when they are called.
    CallMetatable = 7,
    /// Shows what the code of a library sees while it is loaded.
    LoadMetatable = 8,
}

/// Number of [`Slot`]s.
const SLOTS: c_int = 8;

/// Names of the table with the server's functions: Redis' and Valkey's.
const SERVER_TABLES: [&CStr; 2] = [c"redis", c"server"];

/// What the function that runs a job has at hand.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Upvalue {
    /// As [`Slot::Globals`].
    Globals = 1,
    /// As [`Slot::Fast`].
    Fast = 2,
    /// As [`Slot::Handler`].
    Handler = 3,
    /// The string.
    KeysName = 4,
    /// The string.
    ArgvName = 5,
    /// The table that all tame scripts get as KEYS, so that none has to be made.
    Keys = 6,
    /// The table that all tame scripts get as ARGV.
    Argv = 7,
}

/// Globals of the standard libraries that scripts may use.
const BASE: &[&CStr] = &[
    c"_VERSION",
    c"assert",
    c"error",
    c"gcinfo",
    c"ipairs",
    c"next",
    c"pairs",
    c"rawequal",
    c"rawget",
    c"select",
    c"tostring",
    c"type",
    c"xpcall",
];

/// Standard libraries that scripts may use.
const LIBRARIES: &[(&CStr, lua_CFunction)] = &[
    (c"table", luaopen_table),
    (c"string", luaopen_string),
    (c"math", luaopen_math),
];

/// Fills a fresh state: no argument, no result.
///
/// # Safety
///
/// Called by Lua in protected mode on a state without libraries.
pub(super) unsafe extern "C-unwind" fn build(l: *mut lua_State) -> c_int {
    // SAFETY: every step leaves the stack as it found it or documents what it pushes; indexes are absolute.
    unsafe {
        reserve_slots(l);
        lua_pushcfunction(l, luaopen_base);
        lua_call(l, 0, 0);
        lua_createtable(l, 0, 64);
        let globals = lua_gettop(l);
        lua_createtable(l, 0, 64);
        for name in BASE {
            lua_getfield(l, LUA_GLOBALSINDEX, name.as_ptr());
            share(l, globals, name);
        }
        for (name, function) in base::FUNCTIONS {
            lua_pushcfunction(l, *function);
            share(l, globals, name);
        }
        lua_getfield(l, LUA_GLOBALSINDEX, c"coroutine".as_ptr());
        library(l, globals, c"coroutine");
        for (name, open) in LIBRARIES {
            lua_pushcfunction(l, *open);
            lua_call(l, 0, 0);
            lua_getfield(l, LUA_GLOBALSINDEX, name.as_ptr());
            if *name == c"math" {
                set_function(l, c"random", base::random);
                set_function(l, c"randomseed", base::random_seed);
            }
            if *name == c"table" {
                tables::open(l);
            }
            if *name == c"string" {
                for (name, function) in pattern::FUNCTIONS {
                    set_function(l, name, *function);
                }
            }
            library(l, globals, name);
        }
        bit::open(l);
        library(l, globals, c"bit");
        cjson::open(l);
        library(l, globals, c"cjson");
        cmsgpack::open(l);
        library(l, globals, c"cmsgpack");
        structs::open(l);
        library(l, globals, c"struct");
        for name in SERVER_TABLES {
            api::open(l, For::Scripts);
            library(l, globals, name);
        }
        protect_strings(l, globals);
        function_globals(l, globals);
        protect_globals(l, globals);
        keep_entry(l);
        0
    }
}

/// Pops a value and makes it a global of both tables of globals: the one at `globals` and the one above it.
unsafe fn share(l: *mut lua_State, globals: c_int, name: &CStr) {
    // SAFETY: the top is the value; the stack is balanced but for it.
    unsafe {
        lua_pushvalue(l, -1);
        lua_setfield(l, globals + 1, name.as_ptr());
        lua_setfield(l, globals, name.as_ptr());
    }
}

/// Pops a library: tame scripts get it as it is, others its stand-in.
unsafe fn library(l: *mut lua_State, globals: c_int, name: &CStr) {
    // SAFETY: the top is the library; the stack is balanced but for it.
    unsafe {
        lua_pushvalue(l, -1);
        lua_setfield(l, globals + 1, name.as_ptr());
        stand_in(l);
        lua_setfield(l, globals, name.as_ptr());
    }
}

/// Stores the functions that run jobs.
unsafe fn keep_entry(l: *mut lua_State) {
    // SAFETY: the upvalues are pushed in the order of their numbers.
    unsafe {
        lua_pushcfunction(l, super::vm::error_handler);
        lua_rawseti(l, LUA_REGISTRYINDEX, Slot::Handler as _);
        lua_rawgeti(l, LUA_REGISTRYINDEX, Slot::Globals as _);
        lua_rawgeti(l, LUA_REGISTRYINDEX, Slot::Fast as _);
        lua_rawgeti(l, LUA_REGISTRYINDEX, Slot::Handler as _);
        push_bytes(l, b"KEYS");
        push_bytes(l, b"ARGV");
        lua_createtable(l, TAME_WORDS_MAX as c_int, 0);
        lua_createtable(l, TAME_WORDS_MAX as c_int, 0);
        lua_pushcclosure(l, super::vm::enter, Upvalue::Argv as c_int);
        lua_rawseti(l, LUA_REGISTRYINDEX, Slot::Enter as _);
    }
}

/// Takes the first registry references, so that `luaL_ref` never gives them out.
unsafe fn reserve_slots(l: *mut lua_State) {
    // SAFETY: pushes and pops one value at a time.
    unsafe {
        for expected in 1..=SLOTS {
            lua_createtable(l, 0, 0);
            let slot = luaL_ref(l, LUA_REGISTRYINDEX);
            assert_eq!(
                slot, expected,
                "references of a fresh registry are numbered from one"
            );
        }
    }
}

/// Replaces the real table at the top by its stand-in.
unsafe fn stand_in(l: *mut lua_State) {
    // SAFETY: the top is the real table.
    unsafe {
        lua_createtable(l, 0, 0);
        lua_createtable(l, 0, 3);
        lua_pushvalue(l, -3);
        lua_setfield(l, -2, c"__index".as_ptr());
        set_function(l, c"__newindex", refuse_write);
        lua_pushboolean(l, 0);
        lua_setfield(l, -2, c"__metatable".as_ptr());
        lua_setmetatable(l, -2);
        lua_rawgeti(l, LUA_REGISTRYINDEX, Slot::Protected as _);
        lua_pushvalue(l, -2);
        lua_pushboolean(l, 1);
        lua_rawset(l, -3);
        lua_pop(l, 1);
        lua_remove(l, -2);
    }
}

/// Hides the metatable that all strings share behind one that shows the protected library.
unsafe fn protect_strings(l: *mut lua_State, globals: c_int) {
    // SAFETY: strings have a metatable since the string library was opened; the stack is balanced.
    unsafe {
        push_bytes(l, b"");
        lua_getmetatable(l, -1);
        lua_createtable(l, 0, 1);
        lua_getfield(l, globals, c"string".as_ptr());
        lua_setfield(l, -2, c"__index".as_ptr());
        stand_in(l);
        lua_setfield(l, -2, c"__metatable".as_ptr());
        lua_pop(l, 2);
    }
}

/// Makes the table at `globals` the environment of all scripts, behind a stand-in, and the one above it that of tame
/// ones.
unsafe fn protect_globals(l: *mut lua_State, globals: c_int) {
    // SAFETY: both are tables of the calling frame.
    unsafe {
        for table in [globals, globals + 1] {
            for name in [c"KEYS", c"ARGV"] {
                lua_createtable(l, 0, 0);
                lua_setfield(l, table, name.as_ptr());
            }
            lua_createtable(l, 0, 2);
            set_function(l, c"__index", missing_global);
            if table != globals {
                set_function(l, c"__newindex", refuse_write);
            }
            lua_setmetatable(l, table);
        }
        lua_pushvalue(l, globals + 1);
        lua_rawseti(l, LUA_REGISTRYINDEX, Slot::Fast as _);
        lua_pushvalue(l, globals);
        lua_rawseti(l, LUA_REGISTRYINDEX, Slot::Globals as _);
        lua_pushvalue(l, globals);
        stand_in(l);
        lua_getmetatable(l, -1);
        show_metatable(l);
        lua_pop(l, 1);
        lua_pushvalue(l, -1);
        lua_setfield(l, globals, c"_G".as_ptr());
        lua_replace(l, LUA_GLOBALSINDEX);
    }
}

/// Makes the globals of functions: as those of scripts in the table at `globals`, which has no KEYS and ARGV yet.
unsafe fn function_globals(l: *mut lua_State, globals: c_int) {
    // SAFETY: pushes absolute indexes and pops them; `lua_next` is given keys that it returned.
    unsafe {
        let environment = lua_gettop(l) + 1;
        lua_createtable(l, 0, 0);
        let seen = environment + 1;
        lua_createtable(l, 0, 64);
        lua_pushnil(l);
        while lua_next(l, globals) != 0 {
            lua_pushvalue(l, -2);
            lua_insert(l, -2);
            lua_rawset(l, seen);
        }
        server_tables(l, seen, For::Functions);
        lua_pushvalue(l, environment);
        lua_setfield(l, seen, c"_G".as_ptr());
        show_missing(l);
        globals_metatable(l, Slot::CallMetatable);
        lua_createtable(l, 0, 2);
        server_tables(l, seen, For::Loading);
        show_missing(l);
        globals_metatable(l, Slot::LoadMetatable);
        lua_rawgeti(l, LUA_REGISTRYINDEX, Slot::CallMetatable as _);
        lua_setmetatable(l, environment);
        lua_rawgeti(l, LUA_REGISTRYINDEX, Slot::Protected as _);
        lua_pushvalue(l, environment);
        lua_pushboolean(l, 1);
        lua_rawset(l, -3);
        lua_settop(l, environment);
        lua_rawseti(l, LUA_REGISTRYINDEX, Slot::FunctionGlobals as _);
    }
}

/// Puts stand-ins of the server's functions into the table at `table`.
unsafe fn server_tables(l: *mut lua_State, table: c_int, whom: For) {
    // SAFETY: `table` is absolute; the stack is balanced.
    unsafe {
        for name in SERVER_TABLES {
            api::open(l, whom);
            if whom == For::Loading {
                show_missing(l);
            }
            stand_in(l);
            lua_setfield(l, table, name.as_ptr());
        }
    }
}

/// Makes the table at the top raise an error for what it has not.
unsafe fn show_missing(l: *mut lua_State) {
    // SAFETY: the stack is balanced.
    unsafe {
        lua_createtable(l, 0, 1);
        set_function(l, c"__index", missing_global);
        lua_setmetatable(l, -2);
    }
}

/// Lets the metatable at the top be seen as a table that cannot be changed.
unsafe fn show_metatable(l: *mut lua_State) {
    // SAFETY: the top is the metatable; the stack is balanced.
    unsafe {
        lua_createtable(l, 0, 0);
        stand_in(l);
        lua_setfield(l, -2, c"__metatable".as_ptr());
    }
}

/// Pops a table and keeps, in a slot, the metatable of a stand-in for it.
unsafe fn globals_metatable(l: *mut lua_State, slot: Slot) {
    // SAFETY: the top is the table.
    unsafe {
        lua_createtable(l, 0, 3);
        lua_insert(l, -2);
        lua_setfield(l, -2, c"__index".as_ptr());
        set_function(l, c"__newindex", refuse_write);
        show_metatable(l);
        lua_rawseti(l, LUA_REGISTRYINDEX, slot as _);
    }
}

unsafe extern "C-unwind" fn refuse_write(l: *mut lua_State) -> c_int {
    // SAFETY: nothing in this frame needs dropping.
    unsafe { raise(l, b"Attempt to modify a readonly table") }
}

unsafe extern "C-unwind" fn missing_global(l: *mut lua_State) -> c_int {
    // SAFETY: called as `__index(table, name)`; a number as name is converted on our own stack.
    unsafe {
        luaL_where(l, 1);
        push_bytes(
            l,
            b"Script attempted to access nonexistent global variable '",
        );
        if lua_isstring(l, 2) != 0 {
            lua_pushvalue(l, 2);
        } else {
            lua_pushstring_(l, lua_typename(l, lua_type(l, 2)));
        }
        push_bytes(l, b"'");
        lua_concat(l, 4);
        lua_error(l)
    }
}
