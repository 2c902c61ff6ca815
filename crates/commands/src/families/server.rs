//! The server as a whole: its commands, settings, databases and clock.

use super::{acl, command, config, flush, hotkeys, lolwut, module, observe};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, CmdError, Cx, Family, Flags, Group, NodeCommand, Reply, Run};

const SAFE: Flags = Flags::LOADING.or(Flags::STALE);
const FLUSH_TIPS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

pub(super) static FAMILY: Family = Family {
    name: "Server",
    about: "The server as a whole: its commands, settings, databases and clock.",
    rows: &[
        row("ACL", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Holds the commands on users and their permissions.",
                "6.0.0",
                "Depends on the sub-command",
            )
            .subs(acl::SUBS),
        row("COMMAND", at_least(1), SAFE, Run::Local(command::all))
            .acl(Group::Server, Acl::CONNECTION)
            .docs("Describes all commands.", "2.8.13", "O(N) in the commands")
            .tips(&["nondeterministic_output_order"])
            .subs(command::SUBS),
        row("COMMANDLOG", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Holds the commands on the logs of commands.",
                "8.1.0",
                "Depends on the sub-command",
            )
            .subs(observe::COMMANDLOG),
        row("CONFIG", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Holds the commands on settings.",
                "2.0.0",
                "Depends on the sub-command",
            )
            .subs(config::SUBS),
        row(
            "DBSIZE",
            exactly(1),
            Flags::READONLY.or(Flags::FAST),
            Run::Keyspace(flush::dbsize),
        )
        .acl(Group::Server, Acl::KEYSPACE)
        .docs("Counts the keys of the selected database.", "1.0.0", "O(1)")
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
        row(
            "DEBUG",
            at_least(2),
            SAFE.or(Flags::ADMIN).or(Flags::NOSCRIPT),
            Run::Node(NodeCommand::Debug),
        )
        .acl(Group::Server, Acl::NONE)
        .takes("subcommand [argument [argument ...]]")
        .docs(
            "Holds what test suites ask of a server.",
            "1.0.0",
            "Depends on the sub-command",
        ),
        row(
            "FAILOVER",
            at_least(1),
            Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE),
            Run::Node(NodeCommand::Failover),
        )
        .acl(Group::Server, Acl::NONE)
        .takes("[TO host port] [ABORT] [TIMEOUT milliseconds]")
        .docs("Makes a replica the master.", "6.2.0", "O(1)"),
        row(
            "FLUSHALL",
            at_least(1),
            Flags::WRITE,
            Run::Keyspace(flush::flushall),
        )
        .acl(Group::Server, Acl::KEYSPACE.or(Acl::DANGEROUS))
        .takes("[ASYNC | SYNC]")
        .docs(
            "Removes all keys of all databases.",
            "1.0.0",
            "O(N) in the keys",
        )
        .tips(FLUSH_TIPS),
        row(
            "FLUSHDB",
            at_least(1),
            Flags::WRITE,
            Run::Keyspace(flush::flushdb),
        )
        .acl(Group::Server, Acl::KEYSPACE.or(Acl::DANGEROUS))
        .takes("[ASYNC | SYNC]")
        .docs(
            "Removes all keys of the selected database.",
            "1.0.0",
            "O(N) in the keys",
        )
        .tips(FLUSH_TIPS),
        row("HOTKEYS", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Holds the commands on the keys that cost most.",
                "8.6.0",
                "Depends on the sub-command",
            )
            .subs(hotkeys::SUBS),
        row("INFO", at_least(1), SAFE, Run::Node(NodeCommand::Info))
            .acl(Group::Server, Acl::DANGEROUS)
            .takes("[section [section ...]]")
            .docs("Returns facts and counters of the server.", "1.0.0", "O(1)")
            .tips(&[
                "nondeterministic_output",
                "request_policy:all_shards",
                "response_policy:special",
            ]),
        row("LATENCY", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Holds the commands on events that took long.",
                "2.8.13",
                "Depends on the sub-command",
            )
            .subs(observe::LATENCY),
        row(
            "LOLWUT",
            at_least(1),
            Flags::READONLY.or(Flags::FAST),
            Run::Local(lolwut::lolwut),
        )
        .acl(Group::Server, Acl::NONE)
        .takes("[VERSION version]")
        .docs("Draws a picture.", "5.0.0", "O(1)"),
        row("MEMORY", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Holds the commands on the use of memory.",
                "4.0.0",
                "Depends on the sub-command",
            )
            .subs(observe::MEMORY),
        row("MODULE", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Holds the commands on modules.",
                "4.0.0",
                "Depends on the sub-command",
            )
            .subs(module::SUBS),
        row(
            "MONITOR",
            exactly(1),
            SAFE.or(Flags::ADMIN).or(Flags::NOSCRIPT),
            Run::Node(NodeCommand::Monitor),
        )
        .acl(Group::Server, Acl::NONE)
        .docs(
            "Shows the connection every command of the others.",
            "1.0.0",
            "O(1), and O(1) for each command from then on",
        ),
        row(
            "PSYNC",
            at_least(3),
            SYNCS,
            Run::Node(NodeCommand::PSync),
        )
        .acl(Group::Server, Acl::NONE)
        .takes("replicationid offset")
        .docs(
            "Makes the connection a replica's: it is sent what it lacks, and every write from then on.",
            "2.8.0",
            "O(N) in the bytes of the data set, or of what the replica lacks",
        ),
        row(
            "REPLCONF",
            at_least(1),
            SAFE.or(Flags::ADMIN)
                .or(Flags::NOSCRIPT)
                .or(Flags::ALLOW_BUSY),
            Run::Node(NodeCommand::ReplConf),
        )
        .acl(Group::Server, Acl::NONE)
        .takes("[option value [option value ...]]")
        .docs(
            "Takes what a replica says of itself and how far it has come.",
            "3.0.0",
            "O(1)",
        ),
        row(
            "REPLICAOF",
            exactly(3),
            Flags::ADMIN
                .or(Flags::NOSCRIPT)
                .or(Flags::STALE)
                .or(Flags::NO_ASYNC_LOADING),
            Run::Node(NodeCommand::ReplicaOf),
        )
        .acl(Group::Server, Acl::NONE)
        .takes("host port")
        .docs("Follows another server, or none.", "5.0.0", "O(1)"),
        row(
            "ROLE",
            exactly(1),
            SAFE.or(Flags::NOSCRIPT).or(Flags::FAST),
            Run::Node(NodeCommand::Role),
        )
        .acl(Group::Server, Acl::ADMIN.or(Acl::DANGEROUS))
        .docs(
            "Returns the part of the server in replication.",
            "2.8.12",
            "O(1)",
        ),
        row(
            "SHUTDOWN",
            at_least(1),
            SAFE.or(Flags::ADMIN)
                .or(Flags::NOSCRIPT)
                .or(Flags::NO_MULTI)
                .or(Flags::ALLOW_BUSY),
            Run::Node(NodeCommand::Shutdown),
        )
        .acl(Group::Server, Acl::NONE)
        .takes("[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]")
        .docs(
            "Stops the server.",
            "1.0.0",
            "O(N) in the keys when saving, else O(1)",
        ),
        row(
            "SLAVEOF",
            exactly(3),
            Flags::ADMIN
                .or(Flags::NOSCRIPT)
                .or(Flags::STALE)
                .or(Flags::NO_ASYNC_LOADING),
            Run::Node(NodeCommand::ReplicaOf),
        )
        .acl(Group::Server, Acl::NONE)
        .takes("host port")
        .docs("Follows another server, or none.", "1.0.0", "O(1)")
        .deprecated("5.0.0", "`REPLICAOF`"),
        row("SLOWLOG", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Holds the commands on the slow log.",
                "2.2.12",
                "Depends on the sub-command",
            )
            .subs(observe::SLOWLOG),
        row(
            "SWAPDB",
            exactly(3),
            Flags::WRITE.or(Flags::FAST),
            Run::Keyspace(flush::swapdb),
        )
        .acl(Group::Server, Acl::KEYSPACE.or(Acl::DANGEROUS))
        .takes("index1 index2")
        .docs(
            "Exchanges two databases at one moment.",
            "4.0.0",
            "O(N) in the shards, and in the keys of both databases that clients watch or wait for",
        ),
        row("SYNC", exactly(1), SYNCS, Run::Node(NodeCommand::Sync))
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Makes the connection a replica's: it is sent all data, and every write from then on.",
                "1.0.0",
                "O(N) in the bytes of the data set",
            ),
        row("TIME", exactly(1), SAFE.or(Flags::FAST), Run::Local(time))
            .acl(Group::Server, Acl::NONE)
            .docs(
                "Returns the server's clock: seconds and microseconds.",
                "2.6.0",
                "O(1)",
            )
            .tips(&["nondeterministic_output"]),
    ],
};

/// What turns a connection into a replica's.
const SYNCS: Flags = Flags::ADMIN
    .or(Flags::NOSCRIPT)
    .or(Flags::NO_ASYNC_LOADING)
    .or(Flags::NO_MULTI);

fn time(cx: &mut Cx<'_>, _: Args<'_>) -> Result<Reply, CmdError> {
    let micros = cx.now.micros();
    cx.out.array(2);
    cx.out.bulk_int(micros.div_euclid(1_000_000));
    cx.out.bulk_int(micros.rem_euclid(1_000_000));
    Ok(Reply::Written)
}
