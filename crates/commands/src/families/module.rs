//! MODULE, as a server answers that has no modules and can load none.

use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Flags, Group, NodeCommand, Reply, Row, Run};

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);
const CHANGES: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING);

pub(super) const SUBS: &[Row] = &[
    module(
        "MODULE|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .docs("Describes the sub-commands.", "5.0.0", "O(1)"),
    module("MODULE|LIST", exactly(2), ADMIN, Run::Local(list))
        .docs("Lists the modules: none.", "4.0.0", "O(1)")
        .tips(&["nondeterministic_output_order"]),
    module("MODULE|LOAD", at_least(3), CHANGES, LOAD)
        .takes("path [arg [arg ...]]")
        .docs("Is refused: modules cannot be loaded.", "4.0.0", "O(1)"),
    module("MODULE|LOADEX", at_least(3), CHANGES, LOAD)
        .takes("path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]")
        .docs("Is refused: modules cannot be loaded.", "7.0.0", "O(1)"),
    module(
        "MODULE|UNLOAD",
        exactly(3),
        CHANGES,
        Run::Node(NodeCommand::ModuleUnload),
    )
    .takes("name")
    .docs("Is refused: no module has that name.", "4.0.0", "O(1)"),
];

const LOAD: Run = Run::Node(NodeCommand::ModuleLoad);

const fn module(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Server, Acl::NONE)
}

fn list(cx: &mut Cx<'_>, _: Args<'_>) -> Result<Reply, CmdError> {
    cx.out.array(0);
    Ok(Reply::Written)
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "LIST",
        "    Return a list of loaded modules.",
        "LOAD <path> [<arg> ...]",
        "    Load a module library from <path>, passing to it any optional arguments.",
        "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
        "    Load a module library from <path>, while passing it module configurations and optional arguments.",
        "UNLOAD <name>",
        "    Unload a module.",
    ];
    Ok(super::help(cx, &args, &lines))
}
