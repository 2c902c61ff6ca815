//! Transactions: commands that run together, if what they build on has not changed.

use crate::row::{at_least, exactly, row};
use crate::{Acl, Family, Flags, Group, KeyFlags, KeySpec, Run, TransactionCommand};

const AT_ONCE: Flags = Flags::NOSCRIPT
    .or(Flags::LOADING)
    .or(Flags::STALE)
    .or(Flags::FAST)
    .or(Flags::ALLOW_BUSY);

pub(super) static FAMILY: Family = Family {
    name: "Transactions",
    about: "Commands that run together, if what they build on has not changed.",
    rows: &[
        row(
            "DISCARD",
            exactly(1),
            AT_ONCE,
            Run::Transaction(TransactionCommand::Discard),
        )
        .acl(Group::Transactions, Acl::TRANSACTION)
        .docs(
            "Drops the queued commands and forgets the watched keys.",
            "2.0.0",
            "O(N) in the queued commands",
        ),
        row(
            "EXEC",
            exactly(1),
            Flags::NOSCRIPT
                .or(Flags::LOADING)
                .or(Flags::STALE)
                .or(Flags::SKIP_SLOWLOG),
            Run::Transaction(TransactionCommand::Exec),
        )
        .acl(Group::Transactions, Acl::TRANSACTION)
        .docs(
            "Runs the queued commands, unless a watched key has changed.",
            "1.2.0",
            "Depends on the commands",
        ),
        row(
            "MULTI",
            exactly(1),
            AT_ONCE,
            Run::Transaction(TransactionCommand::Multi),
        )
        .acl(Group::Transactions, Acl::TRANSACTION)
        .docs(
            "Starts a transaction: commands are queued from now on.",
            "1.2.0",
            "O(1)",
        ),
        row(
            "UNWATCH",
            exactly(1),
            AT_ONCE,
            Run::Transaction(TransactionCommand::Unwatch),
        )
        .acl(Group::Transactions, Acl::TRANSACTION)
        .docs(
            "Forgets the watched keys.",
            "2.2.0",
            "O(N) in the watched keys",
        ),
        row(
            "WATCH",
            at_least(2),
            AT_ONCE,
            Run::Transaction(TransactionCommand::Watch),
        )
        .keys(&[KeySpec::every(1, KeyFlags::RO)])
        .acl(Group::Transactions, Acl::TRANSACTION)
        .takes("key [key ...]")
        .docs(
            "Lets the next transaction fail if one of the keys changes before it.",
            "2.2.0",
            "O(1) for each key",
        ),
    ],
};
