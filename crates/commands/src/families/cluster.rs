//! The commands of clusters, as a server answers that is part of none.

use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Family, Flags, Group, Reply, Row, Run};

const CHANGES: Flags = Flags::ADMIN.or(Flags::STALE).or(Flags::NO_ASYNC_LOADING);
const OWN: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);
const VARYING: &[&str] = &["nondeterministic_output"];

pub(super) static FAMILY: Family = Family {
    name: "Cluster",
    about: "What clients of a cluster send; this server is part of none, and says so.",
    rows: &[
        connection("ASKING", Flags::FAST).docs(
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
        connection("READONLY", OWN).docs("Allows reads from a replica.", "3.0.0", "O(1)"),
        connection("READWRITE", OWN).docs("Ends what READONLY allows.", "3.0.0", "O(1)"),
    ],
};

const SUBS: &[Row] = &[
    cluster("CLUSTER|ADDSLOTS", at_least(3), CHANGES)
        .takes("slot [slot ...]")
        .docs("Takes slots over.", "3.0.0", "O(1)"),
    cluster("CLUSTER|ADDSLOTSRANGE", at_least(4), CHANGES)
        .takes("start-slot end-slot [start-slot end-slot ...]")
        .docs("Takes ranges of slots over.", "7.0.0", "O(1)"),
    cluster("CLUSTER|BUMPEPOCH", exactly(2), CHANGES)
        .docs("Advances the configuration epoch.", "3.0.0", "O(1)")
        .tips(VARYING),
    cluster(
        "CLUSTER|COUNT-FAILURE-REPORTS",
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
    cluster("CLUSTER|COUNTKEYSINSLOT", exactly(3), Flags::STALE)
        .takes("slot")
        .docs("Counts the keys of a slot.", "3.0.0", "O(1)"),
    cluster("CLUSTER|DELSLOTS", at_least(3), CHANGES)
        .takes("slot [slot ...]")
        .docs("Gives slots up.", "3.0.0", "O(1)"),
    cluster("CLUSTER|DELSLOTSRANGE", at_least(4), CHANGES)
        .takes("start-slot end-slot [start-slot end-slot ...]")
        .docs("Gives ranges of slots up.", "7.0.0", "O(1)"),
    cluster("CLUSTER|FAILOVER", at_least(2), CHANGES)
        .takes("[FORCE | TAKEOVER]")
        .docs("Makes a replica the master.", "3.0.0", "O(1)"),
    cluster("CLUSTER|FLUSHSLOTS", exactly(2), CHANGES).docs("Gives all slots up.", "3.0.0", "O(1)"),
    cluster("CLUSTER|FORGET", exactly(3), CHANGES)
        .takes("node-id")
        .docs("Removes a node.", "3.0.0", "O(1)"),
    cluster("CLUSTER|GETKEYSINSLOT", exactly(4), Flags::STALE)
        .takes("slot count")
        .docs("Lists keys of a slot.", "3.0.0", "O(1)")
        .tips(VARYING),
    cluster("CLUSTER|HELP", exactly(2), Flags::LOADING.or(Flags::STALE)).docs(
        "Describes the sub-commands.",
        "5.0.0",
        "O(1)",
    ),
    cluster("CLUSTER|INFO", exactly(2), Flags::STALE)
        .docs("Describes the cluster.", "3.0.0", "O(1)")
        .tips(VARYING),
    cluster("CLUSTER|KEYSLOT", exactly(3), Flags::STALE)
        .takes("name")
        .docs("Returns the slot of a key.", "3.0.0", "O(1)"),
    cluster("CLUSTER|LINKS", exactly(2), Flags::STALE)
        .docs("Lists the connections between nodes.", "7.0.0", "O(1)")
        .tips(VARYING),
    cluster("CLUSTER|MEET", at_least(4), CHANGES)
        .takes("ip port [cluster_bus_port]")
        .docs("Joins two nodes.", "3.0.0", "O(1)"),
    cluster("CLUSTER|MYID", exactly(2), Flags::STALE).docs(
        "Returns the id of the node.",
        "3.0.0",
        "O(1)",
    ),
    cluster("CLUSTER|MYSHARDID", exactly(2), Flags::STALE)
        .docs("Returns the id of the node's shard.", "7.2.0", "O(1)")
        .tips(VARYING),
    cluster("CLUSTER|NODES", exactly(2), Flags::STALE)
        .docs("Lists the nodes.", "3.0.0", "O(1)")
        .tips(VARYING),
    cluster(
        "CLUSTER|REPLICAS",
        exactly(3),
        Flags::ADMIN.or(Flags::STALE),
    )
    .takes("node-id")
    .docs("Lists the replicas of a node.", "5.0.0", "O(1)")
    .tips(VARYING),
    cluster("CLUSTER|REPLICATE", exactly(3), CHANGES)
        .takes("node-id")
        .docs("Makes the node a replica.", "3.0.0", "O(1)"),
    cluster(
        "CLUSTER|RESET",
        at_least(2),
        Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::STALE),
    )
    .takes("[HARD | SOFT]")
    .docs("Makes the node a new one.", "3.0.0", "O(1)"),
    cluster("CLUSTER|SAVECONFIG", exactly(2), CHANGES).docs(
        "Writes the configuration of the cluster.",
        "3.0.0",
        "O(1)",
    ),
    cluster("CLUSTER|SET-CONFIG-EPOCH", exactly(3), CHANGES)
        .takes("config-epoch")
        .docs(
            "Sets the configuration epoch of a new node.",
            "3.0.0",
            "O(1)",
        ),
    cluster("CLUSTER|SETSLOT", at_least(4), CHANGES)
        .takes("slot <IMPORTING | MIGRATING | NODE | STABLE> [node-id]")
        .docs("Moves a slot.", "3.0.0", "O(1)"),
    cluster("CLUSTER|SHARDS", exactly(2), Flags::STALE)
        .docs("Lists the slots with their nodes.", "7.0.0", "O(1)")
        .tips(VARYING),
    cluster("CLUSTER|SLAVES", exactly(3), Flags::ADMIN.or(Flags::STALE))
        .takes("node-id")
        .docs("Lists the replicas of a node.", "3.0.0", "O(1)")
        .tips(VARYING),
    cluster(
        "CLUSTER|SLOT-STATS",
        at_least(4),
        Flags::LOADING.or(Flags::STALE),
    )
    .takes("<SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | DESC]>")
    .docs("Describes the load of slots.", "8.2.0", "O(1)")
    .tips(VARYING),
    cluster("CLUSTER|SLOTS", exactly(2), Flags::STALE)
        .docs("Lists the slots with their nodes.", "3.0.0", "O(1)")
        .tips(VARYING),
];

const fn cluster(name: &'static str, arity: Arity, flags: Flags) -> Row {
    row(name, arity, flags, Run::Local(no_cluster)).acl(Group::Cluster, Acl::NONE)
}

const fn connection(name: &'static str, flags: Flags) -> Row {
    row(name, exactly(1), flags, Run::Local(no_cluster)).acl(Group::Cluster, Acl::CONNECTION)
}

fn no_cluster(_: &mut Cx<'_>, _: Args<'_>) -> Result<Reply, CmdError> {
    Err(CmdError::NoCluster)
}
