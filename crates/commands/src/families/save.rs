//! Snapshots: the server writes them.

use crate::row::{at_least, exactly, row};
use crate::{Acl, Arity, Family, Flags, Group, NodeCommand, Row, Run};

pub(super) static FAMILY: Family = Family {
    name: "Snapshots",
    about: "The whole data set in an RDB file, in the form that redis-server 7.0 reads and writes.",
    rows: &[
        server(
            "BGREWRITEAOF",
            exactly(1),
            WRITES,
            NodeCommand::BgRewriteAof,
        )
        .docs(
            "Writes the snapshot while the server goes on; there is no append-only file.",
            "1.0.0",
            "O(1), and O(N) in the keys behind it",
        ),
        server("BGSAVE", at_least(1), WRITES, NodeCommand::BgSave)
            .takes("[SCHEDULE]")
            .docs(
                "Writes the snapshot while the server goes on.",
                "1.0.0",
                "O(1), and O(N) in the keys behind it",
            ),
        server(
            "LASTSAVE",
            exactly(1),
            Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
            NodeCommand::LastSave,
        )
        .acl(Group::Server, Acl::ADMIN.or(Acl::DANGEROUS))
        .tips(&["nondeterministic_output"])
        .docs(
            "Returns when the last snapshot was written, in Unix seconds.",
            "1.0.0",
            "O(1)",
        ),
        server(
            "SAVE",
            exactly(1),
            WRITES.or(Flags::NO_MULTI),
            NodeCommand::Save,
        )
        .docs("Writes the snapshot.", "1.0.0", "O(N) in the keys"),
    ],
};

const WRITES: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING);

const fn server(name: &'static str, arity: Arity, flags: Flags, run: NodeCommand) -> Row {
    row(name, arity, flags, Run::Node(run)).acl(Group::Server, Acl::NONE)
}
