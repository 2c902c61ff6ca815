//! HOTKEYS: which keys cost most. The server answers.

use crate::row::{at_least, exactly, row};
use crate::{
    Acl, Args, Arity, CmdError, Cx, Flags, Group, HotKeysCommand, NodeCommand, Reply, Row, Run,
};

const PRIVATE: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);
const SPECIAL: &[&str] = &["request_policy:special"];

pub(super) const SUBS: &[Row] = &[
    node("HOTKEYS|GET", exactly(2), HotKeysCommand::Get)
        .docs(
            "Returns the keys that cost most, and what all commands with keys cost.",
            "8.6.0",
            "O(K) in the keys returned",
        )
        .tips(&[
            "nondeterministic_output",
            "request_policy:special",
            "response_policy:special",
        ]),
    row(
        "HOTKEYS|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .acl(Group::Server, Acl::NONE)
    .docs("Describes the sub-commands.", "8.6.1", "O(1)"),
    node("HOTKEYS|RESET", exactly(2), HotKeysCommand::Reset)
        .docs("Forgets what a session has found.", "8.6.0", "O(1)")
        .tips(SPECIAL),
    node("HOTKEYS|START", at_least(2), HotKeysCommand::Start)
        .takes(
            "METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio] \
             [SLOTS count slot [slot ...]]",
        )
        .docs(
            "Begins a session, in which the keys are found that cost most.",
            "8.6.0",
            "O(1)",
        )
        .tips(SPECIAL),
    node("HOTKEYS|STOP", exactly(2), HotKeysCommand::Stop)
        .docs(
            "Ends the session; what it has found stays.",
            "8.6.0",
            "O(1)",
        )
        .tips(SPECIAL),
];

const fn node(name: &'static str, arity: Arity, command: HotKeysCommand) -> Row {
    let run = Run::Node(NodeCommand::HotKeys(command));
    row(name, arity, PRIVATE, run).acl(Group::Server, Acl::NONE)
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "START <METRICS count [CPU] [NET]> [COUNT k] [DURATION duration] [SAMPLE ratio] [SLOTS count slot...]",
        "    Starts hotkeys tracking with specified metrics.",
        "    * METRICS count [CPU] [NET]",
        "        Specify count of metrics and choose amongst:",
        "        - CPU: Track hotkeys by CPU time percentage",
        "        - NET: Track hotkeys by network bytes percentage",
        "    * COUNT k",
        "        Specifies the value of K for the top-K hotkeys tracking. Default: 10",
        "    * DURATION duration",
        "        Specifies tracking duration in seconds. 0 means tracking will continue until manually stopped. Default: 0",
        "    * SAMPLE ratio",
        "        Keys are tracked with probability 1/ratio. Default: 1 (tracks every key)",
        "    * SLOTS count slot...",
        "        Specify which slots to track keys from. Only available in cluster mode. Default: empty (track all slots)",
        "STOP",
        "    Stop hotkeys tracking. Results are still available via GET",
        "GET",
        "    Get results from hotkeys tracking.",
        "RESET",
        "    Reset memory used for hotkeys tracking. Tracking must have been stopped.",
        "    Results will no longer be available after this command.",
    ];
    Ok(super::help_with(cx, &args, &lines, "    Print this help."))
}
