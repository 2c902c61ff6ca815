//! Functions. The engine's script host answers; the rows say where the keys are.

use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{
    Acl, Args, Arity, CmdError, Cx, Family, Flags, FunctionCommand, Group, Reply, Row, Run,
    ScriptCommand,
};

const CALL: Flags = Flags::NOSCRIPT
    .or(Flags::STALE)
    .or(Flags::SKIP_MONITOR)
    .or(Flags::NO_MANDATORY_KEYS)
    .or(Flags::MOVABLE_KEYS);
const CHANGE: Flags = Flags::NOSCRIPT.or(Flags::WRITE);
const ADD: Flags = CHANGE.or(Flags::DENYOOM);

const ANY_USE: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
const READ_USE: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
const TAKES: &str = "function numkeys [key [key ...]] [arg [arg ...]]";
const COST: &str = "Depends on the function";
const ON_ALL: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

pub(super) static FAMILY: Family = Family {
    name: "Functions",
    about: "Lua functions that are loaded as libraries, stay, and are called by name as one atomic step.",
    rows: &[
        function(
            "FCALL",
            at_least(3),
            CALL.or(Flags::MAY_REPLICATE),
            Run::Script(ScriptCommand::Fcall),
        )
        .keys(&[KeySpec::counted(2, ANY_USE).notes(
            "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE",
        )])
        .takes(TAKES)
        .docs("Calls a function.", "7.0.0", COST),
        function(
            "FCALL_RO",
            at_least(3),
            CALL.or(Flags::READONLY),
            Run::Script(ScriptCommand::FcallRo),
        )
        .keys(&[KeySpec::counted(2, READ_USE).notes(
            "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS",
        )])
        .takes(TAKES)
        .docs("Calls a function that may not write.", "7.0.0", COST),
        row("FUNCTION", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Scripting, Acl::NONE)
            .docs(
                "Holds the commands on libraries of functions.",
                "7.0.0",
                "Depends on the sub-command",
            )
            .subs(SUBS),
    ],
};

const SUBS: &[Row] = &[
    sub(
        "FUNCTION|DELETE",
        exactly(3),
        CHANGE,
        FunctionCommand::Delete,
    )
    .takes("library-name")
    .docs("Removes a library.", "7.0.0", "O(1)")
    .tips(ON_ALL),
    sub(
        "FUNCTION|DUMP",
        exactly(2),
        Flags::NOSCRIPT,
        FunctionCommand::Dump,
    )
    .docs(
        "Returns all libraries as one payload.",
        "7.0.0",
        "O(N) in the functions",
    ),
    sub(
        "FUNCTION|FLUSH",
        at_least(2),
        CHANGE,
        FunctionCommand::Flush,
    )
    .takes("[ASYNC | SYNC]")
    .docs("Removes all libraries.", "7.0.0", "O(N) in the functions")
    .tips(ON_ALL),
    function(
        "FUNCTION|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .docs("Describes the sub-commands.", "7.0.0", "O(1)"),
    sub(
        "FUNCTION|KILL",
        exactly(2),
        Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
        FunctionCommand::Kill,
    )
    .docs(
        "Ends the function that is running, unless it has written.",
        "7.0.0",
        "O(1)",
    )
    .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    sub(
        "FUNCTION|LIST",
        at_least(2),
        Flags::NOSCRIPT,
        FunctionCommand::List,
    )
    .takes("[LIBRARYNAME library-name-pattern] [WITHCODE]")
    .docs(
        "Lists libraries and their functions.",
        "7.0.0",
        "O(N) in the functions",
    )
    .tips(&["nondeterministic_output_order"]),
    sub("FUNCTION|LOAD", at_least(3), ADD, FunctionCommand::Load)
        .takes("[REPLACE] function-code")
        .docs(
            "Loads a library and returns its name.",
            "7.0.0",
            "O(1), and what the library's code takes",
        )
        .tips(ON_ALL),
    sub(
        "FUNCTION|RESTORE",
        at_least(3),
        ADD,
        FunctionCommand::Restore,
    )
    .takes("serialized-value [FLUSH | APPEND | REPLACE]")
    .docs(
        "Loads the libraries of a payload.",
        "7.0.0",
        "O(N) in the functions of the payload",
    )
    .tips(ON_ALL),
    sub(
        "FUNCTION|STATS",
        exactly(2),
        Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
        FunctionCommand::Stats,
    )
    .docs(
        "Tells which function is running, and how many there are.",
        "7.0.0",
        "O(1)",
    )
    .tips(&[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ]),
];

const fn function(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Scripting, Acl::SCRIPTING)
}

const fn sub(name: &'static str, arity: Arity, flags: Flags, command: FunctionCommand) -> Row {
    function(
        name,
        arity,
        flags,
        Run::Script(ScriptCommand::Function(command)),
    )
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "LOAD [REPLACE] <FUNCTION CODE>",
        "    Create a new library with the given library name and code.",
        "DELETE <LIBRARY NAME>",
        "    Delete the given library.",
        "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
        "    Return general information on all the libraries:",
        "    * Library name",
        "    * The engine used to run the Library",
        "    * Library description",
        "    * Functions list",
        "    * Library code (if WITHCODE is given)",
        "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
        "STATS",
        "    Return information about the current function running:",
        "    * Function name",
        "    * Command used to run the function",
        "    * Duration in MS that the function is running",
        "    If no function is running, return nil",
        "    In addition, returns a list of available engines.",
        "KILL",
        "    Kill the current running function.",
        "FLUSH [ASYNC|SYNC]",
        "    Delete all the libraries.",
        "    When called without the optional mode argument, the behavior is determined by the",
        "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the libraries.",
        "    * SYNC: Synchronously flush the libraries.",
        "DUMP",
        "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
        "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
        "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
        "    control how to handle existing libraries (default APPEND):",
        "    * FLUSH: delete all existing libraries.",
        "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
        "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
        "      libraries with the new libraries (notice that even on this option there is a chance of failure",
        "      in case of functions name collision with another library).",
    ];
    Ok(super::help(cx, &args, &lines))
}
