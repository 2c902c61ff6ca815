//! Work that Lua does not count: what its functions in C, and ours, do between two instructions of a script.
//!
//! Lua looks at the clock every so many instructions, and an instruction may call a function that is at work for hours.
//! Such functions tell here what they do, and a script is looked at when it has come to as much as the instructions
//! between two looks.

use std::cell::Cell;

use super::lua::*;
use super::vm;

/// Work between two looks at the clock; about a nanosecond each.
const BUDGET: usize = 1_000_000;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(BUDGET) };
}

/// A script begins.
#[inline]
pub(super) fn begin() {
    LEFT.set(BUDGET);
}

/// Work until the next look.
#[inline]
pub(super) fn left() -> usize {
    LEFT.get()
}

/// So much of it is left.
#[inline]
pub(super) fn set_left(left: usize) {
    LEFT.set(left);
}

/// Looks at the script; how much may be done until the next look, 0 if it is to end by [`end`].
///
/// # Safety
///
/// Called from a function that Lua called.
pub(super) unsafe fn look(l: *mut lua_State) -> usize {
    // SAFETY: as promised by the caller.
    match unsafe { vm::look(l) } {
        true => BUDGET,
        false => 0,
    }
}

/// Raises the error of a script that is to end.
///
/// # Safety
///
/// Called from a function that Lua called, with nothing in the frame that needs dropping.
pub(super) unsafe fn end(l: *mut lua_State) -> ! {
    set_left(BUDGET);
    // SAFETY: as promised by the caller.
    unsafe { vm::end(l) }
}

/// So much is to be done at once. Raises when the script is to end.
///
/// # Safety
///
/// As [`end`].
#[inline]
pub(super) unsafe fn charge(l: *mut lua_State, work: usize) {
    let left = left();
    if work < left {
        set_left(left - work);
        return;
    }
    // SAFETY: as promised by the caller.
    unsafe {
        match look(l) {
            0 => end(l),
            left => set_left(left),
        }
    }
}
