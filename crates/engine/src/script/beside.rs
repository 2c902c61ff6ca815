//! A state in which our functions stand beside those of Lua's own libraries.

use std::ffi::{CStr, c_int};

use super::lua::*;
use super::{pattern, tables};

/// Lua's libraries under their names, our functions in the table `ours`.
pub(super) struct Both(*mut lua_State);

unsafe extern "C-unwind" fn open(l: *mut lua_State) -> c_int {
    // SAFETY: a fresh state in protected mode; the stack is balanced.
    unsafe {
        for library in [luaopen_base, luaopen_table, luaopen_string] {
            lua_pushcfunction(l, library);
            lua_call(l, 0, 0);
        }
        lua_createtable(l, 0, 8);
        for (name, function) in pattern::FUNCTIONS {
            set_function(l, name, *function);
        }
        for name in [c"concat", c"insert", c"maxn", c"remove"] {
            lua_getfield(l, LUA_GLOBALSINDEX, c"table".as_ptr());
            lua_getfield(l, -1, name.as_ptr());
            lua_setfield(l, -3, name.as_ptr());
            lua_settop(l, -2);
        }
        tables::open(l);
        lua_setfield(l, LUA_GLOBALSINDEX, c"ours".as_ptr());
        0
    }
}

impl Both {
    /// Runs a script that defines the function `same`, which says what differs.
    pub(super) fn new(script: &CStr) -> Both {
        // SAFETY: a fresh state.
        unsafe {
            let l = luaL_newstate();
            assert_eq!(lua_cpcall(l, open, std::ptr::null_mut()), LUA_OK);
            assert_eq!(luaL_dostring(l, script.as_ptr()), LUA_OK);
            Both(l)
        }
    }

    /// Calls that function.
    pub(super) fn ask(&self, arguments: &[&[u8]]) -> Option<String> {
        // SAFETY: the state is live; what is on its stack is read before it is popped.
        unsafe {
            let l = self.0;
            lua_getfield(l, LUA_GLOBALSINDEX, c"same".as_ptr());
            for argument in arguments {
                push_bytes(l, argument);
            }
            let status = lua_pcall(l, arguments.len() as c_int, 1, 0);
            let text = string_at(l, -1).map(|text| String::from_utf8_lossy(text).into_owned());
            lua_settop(l, 0);
            assert_eq!(status, LUA_OK, "{text:?}");
            text
        }
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        // SAFETY: the state is live and nobody uses it afterwards.
        unsafe { lua_close(self.0) };
    }
}
