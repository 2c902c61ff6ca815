//! CONFIG's sub-commands: the settings are the server's.

use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Flags, Group, NodeCommand, Reply, Row, Run};

const ADMIN: Flags = Flags::ADMIN
    .or(Flags::NOSCRIPT)
    .or(Flags::LOADING)
    .or(Flags::STALE);

pub(super) const SUBS: &[Row] = &[
    config(
        "CONFIG|GET",
        at_least(3),
        ADMIN,
        Run::Node(NodeCommand::ConfigGet),
    )
    .takes("parameter [parameter ...]")
    .docs(
        "Returns the settings whose names match.",
        "2.0.0",
        "O(N) in the settings",
    ),
    config(
        "CONFIG|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .docs("Describes the sub-commands.", "5.0.0", "O(1)"),
    config(
        "CONFIG|RESETSTAT",
        exactly(2),
        ADMIN,
        Run::Node(NodeCommand::ConfigResetStat),
    )
    .docs("Sets the counters of INFO to zero.", "2.0.0", "O(1)"),
    config(
        "CONFIG|REWRITE",
        exactly(2),
        ADMIN,
        Run::Node(NodeCommand::ConfigRewrite),
    )
    .docs(
        "Writes the settings as they are to the configuration file.",
        "2.8.0",
        "O(N) in the settings",
    ),
    config(
        "CONFIG|SET",
        at_least(4),
        ADMIN,
        Run::Node(NodeCommand::ConfigSet),
    )
    .takes("parameter value [parameter value ...]")
    .docs(
        "Changes settings, all or none.",
        "2.0.0",
        "O(N) in the settings given",
    )
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
];

const fn config(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Server, Acl::NONE)
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "GET <pattern>",
        "    Return parameters matching the glob-like <pattern> and their values.",
        "SET <directive> <value>",
        "    Set the configuration <directive> to <value>.",
        "RESETSTAT",
        "    Reset statistics reported by the INFO command.",
        "REWRITE",
        "    Rewrite the configuration file.",
    ];
    Ok(super::help(cx, &args, &lines))
}
