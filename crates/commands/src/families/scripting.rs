//! Scripts. The engine's script host answers; the rows say where the keys are.

use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Family, Flags, Group, Reply, Row, Run, ScriptCommand};

const SCRIPT: Flags = Flags::NOSCRIPT
    .or(Flags::STALE)
    .or(Flags::SKIP_MONITOR)
    .or(Flags::NO_MANDATORY_KEYS)
    .or(Flags::MOVABLE_KEYS);
const SCRIPT_RW: Flags = SCRIPT.or(Flags::MAY_REPLICATE);
const SCRIPT_RO: Flags = SCRIPT.or(Flags::READONLY);

const ANY_USE: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
const READ_USE: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
const TAKES: &str = "script numkeys [key [key ...]] [arg [arg ...]]";
const TAKES_SHA: &str = "sha1 numkeys [key [key ...]] [arg [arg ...]]";
const COST: &str = "Depends on the script";

pub(super) static FAMILY: Family = Family {
    name: "Scripting",
    about: "Lua 5.1 scripts that run as one atomic step.",
    rows: &[
        script(
            "EVAL",
            at_least(3),
            SCRIPT_RW,
            Run::Script(ScriptCommand::Eval),
        )
        .keys(&[KeySpec::counted(2, ANY_USE).notes(
            "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE",
        )])
        .takes(TAKES)
        .docs("Runs a script.", "2.6.0", COST),
        script(
            "EVALSHA",
            at_least(3),
            SCRIPT_RW,
            Run::Script(ScriptCommand::EvalSha),
        )
        .keys(&[KeySpec::counted(2, ANY_USE)])
        .takes(TAKES_SHA)
        .docs("Runs a cached script by its digest.", "2.6.0", COST),
        script(
            "EVALSHA_RO",
            at_least(3),
            SCRIPT_RO,
            Run::Script(ScriptCommand::EvalShaRo),
        )
        .keys(&[KeySpec::counted(2, READ_USE)])
        .takes(TAKES_SHA)
        .docs(
            "Runs a cached script by its digest; it may not write.",
            "7.0.0",
            COST,
        ),
        script(
            "EVAL_RO",
            at_least(3),
            SCRIPT_RO,
            Run::Script(ScriptCommand::EvalRo),
        )
        .keys(&[KeySpec::counted(2, READ_USE).notes(
            "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS",
        )])
        .takes(TAKES)
        .docs("Runs a script that may not write.", "7.0.0", COST),
        row("SCRIPT", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Scripting, Acl::NONE)
            .docs(
                "Holds the commands on the script cache.",
                "2.6.0",
                "Depends on the sub-command",
            )
            .subs(SUBS),
    ],
};

const SUBS: &[Row] = &[
    script(
        "SCRIPT|DEBUG",
        exactly(3),
        Flags::NOSCRIPT,
        Run::Script(ScriptCommand::ScriptDebug),
    )
    .takes("YES | SYNC | NO")
    .docs(
        "Turns the script debugger off; there is none.",
        "3.2.0",
        "O(1)",
    ),
    script(
        "SCRIPT|EXISTS",
        at_least(3),
        Flags::NOSCRIPT,
        Run::Script(ScriptCommand::ScriptExists),
    )
    .takes("sha1 [sha1 ...]")
    .docs(
        "Tells which scripts are cached.",
        "2.6.0",
        "O(N) in the digests given",
    )
    .tips(&[
        "request_policy:all_shards",
        "response_policy:agg_logical_and",
    ]),
    script(
        "SCRIPT|FLUSH",
        at_least(2),
        Flags::NOSCRIPT,
        Run::Script(ScriptCommand::ScriptFlush),
    )
    .takes("[ASYNC | SYNC]")
    .docs("Empties the script cache.", "2.6.0", "O(N) in the scripts")
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    script(
        "SCRIPT|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .docs("Describes the sub-commands.", "5.0.0", "O(1)"),
    script(
        "SCRIPT|KILL",
        exactly(2),
        Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
        Run::Script(ScriptCommand::ScriptKill),
    )
    .docs(
        "Ends the script that is running, unless it has written.",
        "2.6.0",
        "O(1)",
    )
    .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    script(
        "SCRIPT|LOAD",
        exactly(3),
        Flags::NOSCRIPT.or(Flags::STALE),
        Run::Script(ScriptCommand::ScriptLoad),
    )
    .takes("script")
    .docs(
        "Caches a script and returns its digest.",
        "2.6.0",
        "O(N) in the script's bytes",
    )
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
];

const fn script(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Scripting, Acl::SCRIPTING)
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "DEBUG (YES|SYNC|NO)",
        "    Set the debug mode for subsequent scripts executed.",
        "EXISTS <sha1> [<sha1> ...]",
        "    Return information about the existence of the scripts in the script cache.",
        "FLUSH [ASYNC|SYNC]",
        "    Flush the Lua scripts cache. Very dangerous on replicas.",
        "    When called without the optional mode argument, the behavior is determined by the",
        "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the scripts cache.",
        "    * SYNC: Synchronously flush the scripts cache.",
        "KILL",
        "    Kill the currently executing Lua script.",
        "LOAD <script>",
        "    Load a script into the scripts cache without executing it.",
    ];
    Ok(super::help(cx, &args, &lines))
}
