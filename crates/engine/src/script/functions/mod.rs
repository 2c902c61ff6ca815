//! Functions: libraries of Lua code that stay, with names to call them by.

pub(super) mod commands;
mod library;
pub(super) mod load;

pub(super) use library::FunctionInfo;
pub(crate) use library::Functions;
