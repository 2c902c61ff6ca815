//! The commands of clusters. A server that is part of none says so.

use super::scan_cluster;
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Arity, ClusterCommand, Family, Flags, Group, NodeCommand, Row, Run};

const CHANGES: Flags = Flags::ADMIN.or(Flags::STALE).or(Flags::NO_ASYNC_LOADING);
const OWN: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);
const VARYING: &[&str] = &["nondeterministic_output"];

pub(super) static FAMILY: Family = Family {
    name: "Cluster",
    about: "What clients of a cluster send. With `cluster-enabled` the server is a cluster of one node.",
    rows: &[
        connection("ASKING", ClusterCommand::Asking, Flags::FAST).docs(
            "Allows the next command on a slot that is being moved here.",
            "3.0.0",
            "O(1)",
        ),
        row("CLUSTER", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Cluster, Acl::NONE)
            .docs(
                "Holds the commands on the cluster.",
                "3.0.0",
                "Depends on the sub-command",
            )
            .subs(SUBS),
        row(
            "CLUSTERSCAN",
            at_least(2),
            Flags::READONLY,
            Run::Keyspace(scan_cluster::clusterscan),
        )
        .acl(Group::Cluster, Acl::KEYSPACE.or(Acl::READ))
        .keys(&[KeySpec::at(1, KeyFlags::NOT_KEY)])
        .takes("cursor [MATCH pattern] [COUNT count] [TYPE type] [SLOT slot]")
        .docs(
            "Returns some keys of the cluster and where to go on.",
            "9.1.0",
            "O(1) per call, O(N) for all keys of a node",
        )
        .tips(&[
            "nondeterministic_output",
            "request_policy:special",
            "response_policy:special",
        ]),
        connection("READONLY", ClusterCommand::ReadOnly, OWN).docs(
            "Allows reads from a replica.",
            "3.0.0",
            "O(1)",
        ),
        connection("READWRITE", ClusterCommand::ReadWrite, OWN).docs(
            "Ends what READONLY allows.",
            "3.0.0",
            "O(1)",
        ),
    ],
};

const SUBS: &[Row] = &[
    cluster(
        "CLUSTER|ADDSLOTS",
        ClusterCommand::AddSlots,
        at_least(3),
        CHANGES,
    )
    .takes("slot [slot ...]")
    .docs("Takes slots over.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|ADDSLOTSRANGE",
        ClusterCommand::AddSlotsRange,
        at_least(4),
        CHANGES,
    )
    .takes("start-slot end-slot [start-slot end-slot ...]")
    .docs("Takes ranges of slots over.", "7.0.0", "O(1)"),
    cluster(
        "CLUSTER|BUMPEPOCH",
        ClusterCommand::BumpEpoch,
        exactly(2),
        CHANGES,
    )
    .docs("Advances the configuration epoch.", "3.0.0", "O(1)")
    .tips(VARYING),
    cluster(
        "CLUSTER|COUNT-FAILURE-REPORTS",
        ClusterCommand::CountFailureReports,
        exactly(3),
        Flags::ADMIN.or(Flags::STALE),
    )
    .takes("node-id")
    .docs(
        "Counts the reports that a node has failed.",
        "3.0.0",
        "O(1)",
    )
    .tips(VARYING),
    cluster(
        "CLUSTER|COUNTKEYSINSLOT",
        ClusterCommand::CountKeysInSlot,
        exactly(3),
        Flags::STALE,
    )
    .takes("slot")
    .docs("Counts the keys of a slot.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|DELSLOTS",
        ClusterCommand::DelSlots,
        at_least(3),
        CHANGES,
    )
    .takes("slot [slot ...]")
    .docs("Gives slots up.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|DELSLOTSRANGE",
        ClusterCommand::DelSlotsRange,
        at_least(4),
        CHANGES,
    )
    .takes("start-slot end-slot [start-slot end-slot ...]")
    .docs("Gives ranges of slots up.", "7.0.0", "O(1)"),
    cluster(
        "CLUSTER|FAILOVER",
        ClusterCommand::Failover,
        at_least(2),
        CHANGES,
    )
    .takes("[FORCE | TAKEOVER]")
    .docs("Makes a replica the master.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|FLUSHSLOTS",
        ClusterCommand::FlushSlots,
        exactly(2),
        CHANGES,
    )
    .docs("Gives all slots up.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|FORGET",
        ClusterCommand::Forget,
        exactly(3),
        CHANGES,
    )
    .takes("node-id")
    .docs("Removes a node.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|GETKEYSINSLOT",
        ClusterCommand::GetKeysInSlot,
        exactly(4),
        Flags::STALE,
    )
    .takes("slot count")
    .docs("Lists keys of a slot.", "3.0.0", "O(1)")
    .tips(VARYING),
    cluster(
        "CLUSTER|HELP",
        ClusterCommand::Help,
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
    )
    .docs("Describes the sub-commands.", "5.0.0", "O(1)"),
    cluster(
        "CLUSTER|INFO",
        ClusterCommand::Info,
        exactly(2),
        Flags::STALE,
    )
    .docs("Describes the cluster.", "3.0.0", "O(1)")
    .tips(VARYING),
    cluster(
        "CLUSTER|KEYSLOT",
        ClusterCommand::KeySlot,
        exactly(3),
        Flags::STALE,
    )
    .takes("name")
    .docs("Returns the slot of a key.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|LINKS",
        ClusterCommand::Links,
        exactly(2),
        Flags::STALE,
    )
    .docs("Lists the connections between nodes.", "7.0.0", "O(1)")
    .tips(VARYING),
    cluster("CLUSTER|MEET", ClusterCommand::Meet, at_least(4), CHANGES)
        .takes("ip port [cluster_bus_port]")
        .docs("Joins two nodes.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|MYID",
        ClusterCommand::MyId,
        exactly(2),
        Flags::STALE,
    )
    .docs("Returns the id of the node.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|MYSHARDID",
        ClusterCommand::MyShardId,
        exactly(2),
        Flags::STALE,
    )
    .docs("Returns the id of the node's shard.", "7.2.0", "O(1)")
    .tips(VARYING),
    cluster(
        "CLUSTER|NODES",
        ClusterCommand::Nodes,
        exactly(2),
        Flags::STALE,
    )
    .docs("Lists the nodes.", "3.0.0", "O(1)")
    .tips(VARYING),
    cluster(
        "CLUSTER|REPLICAS",
        ClusterCommand::Replicas,
        exactly(3),
        Flags::ADMIN.or(Flags::STALE),
    )
    .takes("node-id")
    .docs("Lists the replicas of a node.", "5.0.0", "O(1)")
    .tips(VARYING),
    cluster(
        "CLUSTER|REPLICATE",
        ClusterCommand::Replicate,
        exactly(3),
        CHANGES,
    )
    .takes("node-id")
    .docs("Makes the node a replica.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|RESET",
        ClusterCommand::Reset,
        at_least(2),
        Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE),
    )
    .takes("[HARD | SOFT]")
    .docs("Makes the node a new one.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|SAVECONFIG",
        ClusterCommand::SaveConfig,
        exactly(2),
        CHANGES,
    )
    .docs("Writes the configuration of the cluster.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|SET-CONFIG-EPOCH",
        ClusterCommand::SetConfigEpoch,
        exactly(3),
        CHANGES,
    )
    .takes("config-epoch")
    .docs(
        "Sets the configuration epoch of a new node.",
        "3.0.0",
        "O(1)",
    ),
    cluster(
        "CLUSTER|SETSLOT",
        ClusterCommand::SetSlot,
        at_least(4),
        CHANGES,
    )
    .takes("slot <IMPORTING | MIGRATING | NODE | STABLE> [node-id]")
    .docs("Moves a slot.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|SHARDS",
        ClusterCommand::Shards,
        exactly(2),
        Flags::STALE,
    )
    .docs("Lists the slots with their nodes.", "7.0.0", "O(1)")
    .tips(VARYING),
    cluster(
        "CLUSTER|SLAVES",
        ClusterCommand::Replicas,
        exactly(3),
        Flags::ADMIN.or(Flags::STALE),
    )
    .takes("node-id")
    .docs("Lists the replicas of a node.", "3.0.0", "O(1)")
    .tips(VARYING),
    cluster(
        "CLUSTER|SLOT-STATS",
        ClusterCommand::SlotStats,
        at_least(4),
        Flags::LOADING.or(Flags::STALE),
    )
    .takes("<SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | DESC]>")
    .docs("Describes the load of slots.", "8.2.0", "O(1)")
    .tips(VARYING),
    cluster(
        "CLUSTER|SLOTS",
        ClusterCommand::Slots,
        exactly(2),
        Flags::STALE,
    )
    .docs("Lists the slots with their nodes.", "3.0.0", "O(1)")
    .tips(VARYING),
];

const fn cluster(name: &'static str, command: ClusterCommand, arity: Arity, flags: Flags) -> Row {
    row(name, arity, flags, node(command)).acl(Group::Cluster, Acl::NONE)
}

const fn connection(name: &'static str, command: ClusterCommand, flags: Flags) -> Row {
    row(name, exactly(1), flags, node(command)).acl(Group::Cluster, Acl::CONNECTION)
}

const fn node(command: ClusterCommand) -> Run {
    Run::Node(NodeCommand::Cluster(command))
}
