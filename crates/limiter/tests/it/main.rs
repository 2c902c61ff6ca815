//! Algorithms against their brute-force models, and the Lua scripts against the algorithms on a real store.

mod general;
mod late;
mod lua;
mod models;
mod published;
mod redis;
mod traps;
