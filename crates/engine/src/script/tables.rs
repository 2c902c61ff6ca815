//! Functions of the table library whose work grows with the table, so that a script can be ended while they are at work.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use super::lua::*;
use super::pace;

/// Work for each element that is looked at or moved.
const ELEMENT: usize = 10;

/// Work for each comparison of a sort.
const COMPARISON: usize = 30;

/// Bytes of a string that are compared for one of work.
const BYTES_COMPARED: usize = 16;

/// Lua's own functions that are asked after their work has been told, and those that do that.
const TOLD: [(&CStr, lua_CFunction); 4] = [
    (c"concat", concat),
    (c"insert", insert),
    (c"maxn", maxn),
    (c"remove", remove),
];

/// The functions of Lua's library by the names in [`TOLD`]; they are the same in all states.
static OWN: [OnceLock<lua_CFunction>; TOLD.len()] = [const { OnceLock::new() }; TOLD.len()];

/// Puts functions into the table library at the top.
///
/// # Safety
///
/// The top is the library; two free slots; may raise a memory error.
pub(super) unsafe fn open(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        for (at, (name, function)) in TOLD.iter().enumerate() {
            lua_getfield(l, -1, name.as_ptr());
            let own = lua_tocfunction(l, -1).expect("Lua's library has the function");
            OWN[at].get_or_init(|| own);
            lua_pop(l, 1);
            set_function(l, name, *function);
        }
        set_function(l, c"sort", sort);
    }
}

/// Runs the function of Lua's library at that place of [`TOLD`] in this frame, so that its errors are as ever.
unsafe fn own(l: *mut lua_State, at: usize) -> c_int {
    // SAFETY: called by a function that Lua has called, with the stack as it came.
    unsafe { OWN[at].get().expect("the library has been opened")(l) }
}

/// Elements of the first argument from `first` on.
unsafe fn elements_from(l: *mut lua_State, first: f64) -> usize {
    // SAFETY: the first argument is a table.
    unsafe {
        match lua_type(l, 1) {
            LUA_TTABLE => (lua_objlen(l, 1) as f64 - first).max(0.0) as usize,
            _ => 0,
        }
    }
}

unsafe extern "C-unwind" fn concat(l: *mut lua_State) -> c_int {
    // SAFETY: called by Lua.
    unsafe {
        pace::charge(l, ELEMENT * elements_from(l, 0.0));
        own(l, 0)
    }
}

unsafe extern "C-unwind" fn insert(l: *mut lua_State) -> c_int {
    // SAFETY: called by Lua.
    unsafe {
        if lua_gettop(l) > 2 {
            pace::charge(l, ELEMENT * elements_from(l, lua_tonumber(l, 2)));
        }
        own(l, 1)
    }
}

unsafe extern "C-unwind" fn maxn(l: *mut lua_State) -> c_int {
    // SAFETY: called by Lua.
    unsafe {
        pace::charge(l, ELEMENT * elements_from(l, 0.0));
        own(l, 2)
    }
}

unsafe extern "C-unwind" fn remove(l: *mut lua_State) -> c_int {
    // SAFETY: called by Lua.
    unsafe {
        if lua_gettop(l) > 1 {
            pace::charge(l, ELEMENT * elements_from(l, lua_tonumber(l, 2)));
        }
        own(l, 3)
    }
}

/// `table.sort`: the quicksort of Lua 5.1, whose order of equal elements and whose errors scripts may have come to rely on.
unsafe extern "C-unwind" fn sort(l: *mut lua_State) -> c_int {
    // SAFETY: arguments are checked before use.
    unsafe {
        luaL_checktype(l, 1, LUA_TTABLE);
        let count = lua_objlen(l, 1) as c_int;
        luaL_checkstack_(l, 40, c"".as_ptr());
        if lua_isnoneornil(l, 2) == 0 {
            luaL_checktype(l, 2, LUA_TFUNCTION);
        }
        lua_settop(l, 2);
        quicksort(l, 1, count);
        0
    }
}

/// Sorts the elements from `low` to `high`.
unsafe fn quicksort(l: *mut lua_State, mut low: c_int, mut high: c_int) {
    // SAFETY: the table is the first value of the stack; each step leaves the stack as it found it.
    unsafe {
        while low < high {
            order(l, low, high);
            if high - low == 1 {
                return;
            }
            let middle = ((i64::from(low) + i64::from(high)) / 2) as c_int;
            // The middle one between the two others.
            if !order(l, low, middle) {
                order(l, middle, high);
            }
            if high - low == 2 {
                return;
            }
            let split = partition(l, low, high, middle);
            // The smaller part first, so that the calls stay few.
            if split - low < high - split {
                quicksort(l, low, split - 1);
                low = split + 1;
            } else {
                quicksort(l, split + 1, high);
                high = split - 1;
            }
        }
    }
}

/// Exchanges two elements if the second one belongs before the first; whether it did.
unsafe fn order(l: *mut lua_State, first: c_int, second: c_int) -> bool {
    // SAFETY: two values are pushed, and popped either way.
    unsafe {
        lua_rawgeti_(l, 1, first);
        lua_rawgeti_(l, 1, second);
        let wrong = is_less(l, -1, -2);
        if wrong {
            lua_rawseti_(l, 1, first);
            lua_rawseti_(l, 1, second);
        } else {
            lua_pop(l, 2);
        }
        wrong
    }
}

/// Puts what is not greater than the element at `middle` before it and what is not less behind it, and says where it is
/// then.
unsafe fn partition(l: *mut lua_State, low: c_int, high: c_int, middle: c_int) -> c_int {
    // SAFETY: the pivot stays on the stack, with at most two elements above it.
    unsafe {
        lua_rawgeti_(l, 1, middle);
        lua_pushvalue(l, -1);
        lua_rawgeti_(l, 1, high - 1);
        lua_rawseti_(l, 1, middle);
        lua_rawseti_(l, 1, high - 1);
        let (mut left, mut right) = (low, high - 1);
        loop {
            left += 1;
            lua_rawgeti_(l, 1, left);
            while is_less(l, -1, -2) {
                if left > high {
                    raise(l, b"invalid order function for sorting");
                }
                lua_pop(l, 1);
                left += 1;
                lua_rawgeti_(l, 1, left);
            }
            right -= 1;
            lua_rawgeti_(l, 1, right);
            while is_less(l, -3, -1) {
                if right < low {
                    raise(l, b"invalid order function for sorting");
                }
                lua_pop(l, 1);
                right -= 1;
                lua_rawgeti_(l, 1, right);
            }
            if right < left {
                break;
            }
            lua_rawseti_(l, 1, left);
            lua_rawseti_(l, 1, right);
        }
        lua_pop(l, 3);
        lua_rawgeti_(l, 1, high - 1);
        lua_rawgeti_(l, 1, left);
        lua_rawseti_(l, 1, high - 1);
        lua_rawseti_(l, 1, left);
        left
    }
}

/// Whether the value at `a` comes before the one at `b`; both are relative to the top.
unsafe fn is_less(l: *mut lua_State, a: c_int, b: c_int) -> bool {
    // SAFETY: what is pushed is popped.
    unsafe {
        let work = match lua_type(l, a) {
            LUA_TSTRING => COMPARISON + lua_objlen(l, a) / BYTES_COMPARED,
            _ => COMPARISON,
        };
        pace::charge(l, work);
        if lua_type(l, 2) == LUA_TNIL {
            return lua_lessthan(l, a, b) != 0;
        }
        lua_pushvalue(l, 2);
        lua_pushvalue(l, a - 1);
        lua_pushvalue(l, b - 2);
        lua_call(l, 2, 1);
        let less = lua_toboolean(l, -1) != 0;
        lua_pop(l, 1);
        less
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::beside::Both;
    use super::*;

    /// Does the same to copies of a list; elements are told apart where they compare as equal.
    const SAME: &CStr = c"
local orders = {
    function(a, b) return a:byte() < b:byte() end,
    function(a, b) return a > b end,
    function(a, b) return a:byte() <= b:byte() end,
    function(a, b) return true end,
    function(a, b) return (a:byte() + b:byte()) % 3 == 0 end,
    rawequal,
    nil,
}
local function run(library, text, order, at)
    local list, numbers = {}, {}
    for i = 1, #text do
        list[i] = text:sub(i, i) .. i
        numbers[i] = text:byte(i)
    end
    local all = {}
    local function note(list, ...)
        local words = {}
        for i = 0, #text + 2 do words[#words + 1] = tostring(list[i]) end
        for i = 1, select('#', ...) do words[#words + 1] = tostring((select(i, ...))) end
        all[#all + 1] = table.concat(words, ' ')
    end
    local function try(call, ...)
        return select(2, pcall(function(...) return call(...) end, ...))
    end
    note(list, try(library.sort, list, orders[order]))
    note(numbers, try(library.sort, numbers))
    note(list, try(library.insert, list, at, 'x'))
    note(list, try(library.insert, list, 'y'))
    note(list, try(library.insert, list))
    note(list, try(library.remove, list, at))
    note(list, try(library.remove, list))
    note(list, try(library.concat, list, '-', at))
    note(list, try(library.concat, list))
    list[at] = at
    note(list, try(library.maxn, list))
    note(list, try(library.sort, list))
    return table.concat(all, '\\n')
end
function same(text, order, at)
    order, at = tonumber(order), tonumber(at)
    local theirs, own = run(table, text, order, at), run(ours, text, order, at)
    if theirs ~= own then return theirs .. '\\n\\n--- ours:\\n' .. own end
end
";

    #[test]
    fn all_functions_are_as_those_of_lua() {
        let both = Both::new(SAME);
        let case = ("[a-e]{0,40}", 1..8u8, -1..45i8);
        proptest!(ProptestConfig::with_cases(2_000), |((text, order, at) in case)| {
            let (order, at) = (order.to_string(), at.to_string());
            let asked = both.ask(&[text.as_bytes(), order.as_bytes(), at.as_bytes()]);
            prop_assert_eq!(asked, None);
        });
    }

    #[test]
    fn errors_name_the_function_and_the_argument() {
        let both = Both::new(c"
function same(name)
    for _, first in ipairs({1, {}}) do
        local function try(library) return select(2, pcall(function() library[name](first, {}, {}, {}) end)) end
        local theirs, own = try(table), try(ours)
        if theirs ~= own then return theirs .. ' / ' .. tostring(own) end
    end
end
");
        for name in ["concat", "insert", "maxn", "remove", "sort"] {
            assert_eq!(both.ask(&[name.as_bytes()]), None, "{name}");
        }
    }
}
