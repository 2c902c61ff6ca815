//! The command table, its families, and what a handler may see and change.
//!
//! A command is one [`Row`] in `families/<family>.rs`. Everything else that needs to know about
//! commands derives it from the row: dispatch and arity errors ([`resolve`], [`gate`]), key
//! extraction ([`keys_of`]), COMMAND and its sub-commands, `docs/commands.md`
//! ([`render_docs`]), and the lock mode and journaling that the engine chooses.
//!
//! A [`Handler`] is a plain function: it parses with the one cursor ([`Args`]), does one
//! operation on the keyspace through [`Cx`], and replies. It cannot wait, and what it changed is
//! in [`Effects`] whether or not its author thought of that, because the only ways to change data
//! log it.

#![forbid(unsafe_code)]

pub mod acl;
mod args;
mod cx;
mod cx_object;
mod docs;
mod effects;
mod error;
mod families;
mod flags;
pub mod gate;
mod keyspec;
mod limits;
pub mod memcached;
mod names;
mod reply;
mod row;
mod shards;
mod syntax;
mod table;

pub use args::Args;
pub use cx::{Again, Cx, Entry, Moved, Origin, Rng, WriteEntry};
pub use cx_object::{Change, Create, ObjectKind, Seen};
pub use docs::render_docs;
pub use effects::{Effects, Event, EventClass, GoneField, Touch};
pub use error::CmdError;
pub use families::{help_title, shapes, sort_option_for_any_key};
pub use flags::{Acl, Flags};
pub use keyspec::{
    BeginSearch, FindKeys, Finder, KeyFlags, KeyPositions, KeySpec, Refusal, Uses, Varying,
    keys_of, routes_of, uses_hidden_keys,
};
pub use limits::{IncrexForm, Policy, StoreLimits};
pub use names::{Names, by_full_name_of};
pub use reply::Reply;
pub use row::{
    AclCommand, Arity, Channels, ClusterCommand, Deprecation, Family, FunctionCommand, Group,
    Handler, HotKeysCommand, NodeCommand, PubSubCommand, Row, Run, ScriptCommand,
    TransactionCommand,
};
pub use shards::{ClusterNode, LockedShards, ShardSet, Walk};
pub use table::{families, find, lookup, resolve, rows};
