//! The shards that this thread holds while it runs a command of the server inside a transaction.
//!
//! Such a command (INFO, CONFIG RESETSTAT) may look at every shard through the engine. The locks are not recursive, so it
//! must find the ones that the transaction holds already.

use std::cell::Cell;
use std::ptr;

use crate::shards::LockSet;

thread_local! {
    static HELD: Cell<*mut LockSet<'static>> = const { Cell::new(ptr::null_mut()) };
}

/// Puts back what [`HELD`] was, however the scope ends.
struct Restore(*mut LockSet<'static>);

impl Drop for Restore {
    fn drop(&mut self) {
        HELD.set(self.0);
    }
}

/// Runs `f`, during which [`with_held`] finds `set`, which holds the gate.
pub(crate) fn while_held<R>(set: &mut LockSet<'_>, f: impl FnOnce() -> R) -> R {
    debug_assert!(set.has_gate());
    let _restore = Restore(HELD.replace(ptr::from_mut(set).cast()));
    f()
}

/// Runs `f` with the set of the transaction that this thread is in, if it is in one.
pub(crate) fn with_held<R>(f: impl FnOnce(Option<&mut LockSet<'_>>) -> R) -> R {
    let set = HELD.replace(ptr::null_mut());
    let _restore = Restore(set);
    // SAFETY: a pointer that is not null was put there by `while_held`, which borrows the set exclusively until it takes
    // the pointer back. It is taken out while it is used here, so no second reference can be made from it; and `f` cannot
    // keep the reference, whose lifetimes it does not know.
    f(unsafe { set.as_mut() })
}
