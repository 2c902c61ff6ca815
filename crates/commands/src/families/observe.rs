//! COMMANDLOG, SLOWLOG, LATENCY and MEMORY: what took long or was large, and what takes room. The server answers them.

use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Flags, Group, NodeCommand, Reply, Row, Run};

const ALWAYS: Flags = Flags::LOADING.or(Flags::STALE);
const ADMIN: Flags = ALWAYS.or(Flags::ADMIN);
const PRIVATE: Flags = ADMIN.or(Flags::NOSCRIPT);
const PER_NODE: &[&str] = &[
    "nondeterministic_output",
    "request_policy:all_nodes",
    "response_policy:special",
];
const PER_SHARD: &[&str] = &[
    "nondeterministic_output",
    "request_policy:all_shards",
    "response_policy:special",
];
const LISTED: &[&str] = &["request_policy:all_nodes", "nondeterministic_output"];
const COUNTED: &[&str] = &[
    "request_policy:all_nodes",
    "response_policy:agg_sum",
    "nondeterministic_output",
];
const TO_ALL: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

pub(super) const COMMANDLOG: &[Row] = &[
    node(
        "COMMANDLOG|GET",
        exactly(4),
        ADMIN,
        NodeCommand::CommandlogGet,
    )
    .takes("count type")
    .docs(
        "Lists the commands of a log, the newest first.",
        "8.1.0",
        "O(N) in the entries shown",
    )
    .tips(LISTED),
    local("COMMANDLOG|HELP", commandlog_help).docs("Describes the sub-commands.", "8.1.0", "O(1)"),
    node("COMMANDLOG|LEN", exactly(3), ADMIN, NodeCommand::LogLen)
        .takes("type")
        .docs("Counts the commands of a log.", "8.1.0", "O(1)")
        .tips(COUNTED),
    node("COMMANDLOG|RESET", exactly(3), ADMIN, NodeCommand::LogReset)
        .takes("type")
        .docs(
            "Forgets the commands of a log.",
            "8.1.0",
            "O(N) in the entries",
        )
        .tips(TO_ALL),
];

pub(super) const SLOWLOG: &[Row] = &[
    node("SLOWLOG|GET", at_least(2), ADMIN, NodeCommand::SlowlogGet)
        .takes("[count]")
        .docs(
            "Lists the commands that took long, the newest first.",
            "2.2.12",
            "O(N) in the entries shown",
        )
        .tips(LISTED),
    local("SLOWLOG|HELP", slowlog_help).docs("Describes the sub-commands.", "6.2.0", "O(1)"),
    node("SLOWLOG|LEN", exactly(2), ADMIN, NodeCommand::LogLen)
        .docs(
            "Counts the commands that took long and are remembered.",
            "2.2.12",
            "O(1)",
        )
        .tips(COUNTED),
    node("SLOWLOG|RESET", exactly(2), ADMIN, NodeCommand::LogReset)
        .docs(
            "Forgets the commands that took long.",
            "2.2.12",
            "O(N) in the entries",
        )
        .tips(TO_ALL),
];

pub(super) const LATENCY: &[Row] = &[
    node(
        "LATENCY|DOCTOR",
        exactly(2),
        PRIVATE,
        NodeCommand::LatencyDoctor,
    )
    .docs("Explains the events that took long.", "2.8.13", "O(1)")
    .tips(PER_NODE),
    node(
        "LATENCY|GRAPH",
        exactly(3),
        PRIVATE,
        NodeCommand::LatencyGraph,
    )
    .takes("event")
    .docs("Draws the times of an event.", "2.8.13", "O(1)")
    .tips(PER_NODE),
    local("LATENCY|HELP", latency_help).docs("Describes the sub-commands.", "2.8.13", "O(1)"),
    node(
        "LATENCY|HISTOGRAM",
        at_least(2),
        PRIVATE,
        NodeCommand::LatencyHistogram,
    )
    .takes("[command [command ...]]")
    .docs(
        "Returns how the times of commands are distributed.",
        "7.0.0",
        "O(N) in the commands",
    )
    .tips(PER_NODE),
    node(
        "LATENCY|HISTORY",
        exactly(3),
        PRIVATE,
        NodeCommand::LatencyHistory,
    )
    .takes("event")
    .docs("Returns the times of an event.", "2.8.13", "O(1)")
    .tips(PER_NODE),
    node(
        "LATENCY|LATEST",
        exactly(2),
        PRIVATE,
        NodeCommand::LatencyLatest,
    )
    .docs(
        "Returns the last and the longest time of every event.",
        "2.8.13",
        "O(1)",
    )
    .tips(PER_NODE),
    node(
        "LATENCY|RESET",
        at_least(2),
        PRIVATE,
        NodeCommand::LatencyReset,
    )
    .takes("[event [event ...]]")
    .docs("Forgets the times of events, or of all.", "2.8.13", "O(1)")
    .tips(TO_ALL),
];

pub(super) const MEMORY: &[Row] = &[
    node(
        "MEMORY|DOCTOR",
        exactly(2),
        Flags::NONE,
        NodeCommand::MemoryDoctor,
    )
    .docs("Explains the use of memory.", "4.0.0", "O(1)")
    .tips(PER_SHARD),
    local("MEMORY|HELP", memory_help).docs("Describes the sub-commands.", "4.0.0", "O(1)"),
    node(
        "MEMORY|MALLOC-STATS",
        exactly(2),
        Flags::NONE,
        NodeCommand::MemoryMallocStats,
    )
    .docs(
        "Returns what the allocator says of itself.",
        "4.0.0",
        "Depends on the allocator",
    )
    .tips(PER_SHARD),
    node(
        "MEMORY|PURGE",
        exactly(2),
        Flags::NONE,
        NodeCommand::MemoryPurge,
    )
    .docs(
        "Asks the allocator to give back what it does not use.",
        "4.0.0",
        "Depends on the allocator",
    )
    .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    node(
        "MEMORY|STATS",
        exactly(2),
        Flags::NONE,
        NodeCommand::MemoryStats,
    )
    .docs("Returns what memory is used for.", "4.0.0", "O(1)")
    .tips(PER_SHARD),
    row(
        "MEMORY|USAGE",
        at_least(3),
        Flags::READONLY,
        Run::Keys(usage),
    )
    .acl(Group::Server, Acl::NONE)
    .keys(&[KeySpec::at(2, KeyFlags::RO)])
    .takes("key [SAMPLES count]")
    .docs(
        "Estimates the memory of a key and its value.",
        "4.0.0",
        "O(1)",
    ),
];

const fn node(name: &'static str, arity: Arity, flags: Flags, command: NodeCommand) -> Row {
    row(name, arity, flags, Run::Node(command)).acl(Group::Server, Acl::NONE)
}

const fn local(name: &'static str, run: crate::Handler) -> Row {
    row(name, exactly(2), ALWAYS, Run::Local(run)).acl(Group::Server, Acl::NONE)
}

fn usage(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    while !args.is_empty() {
        if !args.keyword("SAMPLES") || args.is_empty() {
            return Err(CmdError::Syntax);
        }
        // Containers know their size, so nothing is sampled.
        if args.int()? < 0 {
            return Err(CmdError::Syntax);
        }
    }
    Ok(match cx.peek(key) {
        Some(entry) => Reply::count(entry.memory()),
        None => Reply::Null,
    })
}

fn commandlog_help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "GET <count> <type>",
        "    Return top <count> entries of the specified <type> from the commandlog (-1 mean all).",
        "    Entries are made of:",
        "    id, timestamp,",
        "        time in microseconds for type of slow,",
        "        or size in bytes for type of large-request,",
        "        or size in bytes for type of large-reply",
        "    arguments array, client IP and port,",
        "    client name",
        "LEN <type>",
        "    Return the length of the specified type of commandlog.",
        "RESET <type>",
        "    Reset the specified type of commandlog.",
    ];
    Ok(super::help_with(cx, &args, &lines, "    Print this help."))
}

fn slowlog_help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "GET [<count>]",
        "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
        "    Entries are made of:",
        "    id, timestamp, time in microseconds, arguments array, client IP and port,",
        "    client name",
        "LEN",
        "    Return the length of the slowlog.",
        "RESET",
        "    Reset the slowlog.",
    ];
    Ok(super::help(cx, &args, &lines))
}

fn latency_help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "DOCTOR",
        "    Return a human readable latency analysis report.",
        "GRAPH <event>",
        "    Return an ASCII latency graph for the <event> class.",
        "HISTORY <event>",
        "    Return time-latency samples for the <event> class.",
        "LATEST",
        "    Return the latest latency samples for all events.",
        "RESET [<event> ...]",
        "    Reset latency data of one or more <event> classes.",
        "    (default: reset all data for all event classes)",
        "HISTOGRAM [COMMAND ...]",
        "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
        "    If no commands are specified then all histograms are replied.",
    ];
    Ok(super::help(cx, &args, &lines))
}

fn memory_help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "DOCTOR",
        "    Return memory problems reports.",
        "MALLOC-STATS",
        "    Return internal statistics report from the memory allocator.",
        "PURGE",
        "    Attempt to purge dirty pages for reclamation by the allocator.",
        "STATS",
        "    Return information about the memory usage of the server.",
        "USAGE <key> [SAMPLES <count>]",
        "    Return memory in bytes used by <key> and its value. Nested values are",
        "    sampled up to <count> times (default: 5, 0 means sample all).",
    ];
    Ok(super::help(cx, &args, &lines))
}
