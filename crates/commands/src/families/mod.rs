//! The command families: one file per kind, one row per command.

mod acl;
mod bitfield;
mod bitmap;
mod client;
mod cluster;
mod command;
mod config;
mod connection;
mod dump;
mod expiry;
mod flush;
mod functions;
mod geo;
mod geo_search;
mod hash;
mod hash_expiry;
mod hash_fields;
mod hash_read;
mod hash_write;
mod hotkeys;
mod hyperloglog;
mod increx;
mod keys;
mod lcs;
mod list;
mod list_move;
mod list_pop;
mod list_position;
mod lolwut;
mod memcached;
mod module;
mod object;
mod observe;
mod pubsub;
mod ratelimit;
mod sample;
mod save;
mod scan;
mod scan_cluster;
mod scan_elements;
mod scripting;
mod server;
mod set;
mod set_algebra;
mod set_random;
mod sort;
mod stream;
mod string;
mod string_condition;
mod string_edit;
mod string_range;
mod string_set;
mod transaction;
mod zset;
mod zset_add;
mod zset_combine;
mod zset_pop;
mod zset_range;
mod zset_sample;

pub use dump::shapes;
pub use sort::sort_option_for_any_key;

use crate::{Args, Cx, Family, Reply};

/// The table.
pub(crate) static FAMILIES: &[&Family] = &[
    &ratelimit::FAMILY,
    &string::FAMILY,
    &bitmap::FAMILY,
    &hyperloglog::FAMILY,
    &hash::FAMILY,
    &set::FAMILY,
    &stream::FAMILY,
    &zset::FAMILY,
    &list::FAMILY,
    &geo::FAMILY,
    &keys::FAMILY,
    &dump::FAMILY,
    &expiry::FAMILY,
    &connection::FAMILY,
    &server::FAMILY,
    &cluster::FAMILY,
    &save::FAMILY,
    &scripting::FAMILY,
    &pubsub::FAMILY,
    &functions::FAMILY,
    &transaction::FAMILY,
    &memcached::FAMILY,
];

/// The first line that HELP answers with: a command is called as it was asked for.
pub fn help_title(args: &Args<'_>) -> String {
    let name = args.all()[0].to_ascii_uppercase();
    let name = String::from_utf8_lossy(&name);
    format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
}

/// Answers a container's HELP: its name, a line per sub-command, and HELP itself.
fn help(cx: &mut Cx<'_>, args: &Args<'_>, lines: &[&str]) -> Reply {
    help_with(cx, args, lines, "    Prints this help.")
}

/// As [`help`], with what it says of HELP.
fn help_with(cx: &mut Cx<'_>, args: &Args<'_>, lines: &[&str], of_help: &str) -> Reply {
    cx.out.array(lines.len() + 3);
    cx.out.simple(&help_title(args));
    lines.iter().for_each(|line| cx.out.simple(line));
    cx.out.simple("HELP");
    cx.out.simple(of_help);
    Reply::Written
}
