//! CLIENT's sub-commands: the server answers them all but HELP.

use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Flags, Group, NodeCommand, Reply, Row, Run};

const OWN: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE);
const OTHERS: Flags = OWN.or(Flags::ADMIN);

pub(super) const SUBS: &[Row] = &[
    client(
        "CLIENT|CACHING",
        exactly(3),
        OWN,
        Run::Node(NodeCommand::ClientCaching),
    )
    .takes("YES | NO")
    .docs(
        "Says whether the keys of the next command are tracked.",
        "6.0.0",
        "O(1)",
    ),
    client(
        "CLIENT|CAPA",
        at_least(3),
        OWN.or(Flags::ALLOW_BUSY),
        Run::Node(NodeCommand::ClientCapa),
    )
    .takes("capability [capability ...]")
    .docs(
        "Says what the client can do: `redirect`, that it follows a replica's redirections to the master.",
        "8.0.0",
        "O(1)",
    ),
    client(
        "CLIENT|GETNAME",
        exactly(2),
        OWN,
        Run::Node(NodeCommand::ClientGetName),
    )
    .docs("Returns the name of the connection.", "2.6.9", "O(1)"),
    client(
        "CLIENT|GETREDIR",
        exactly(2),
        OWN,
        Run::Node(NodeCommand::ClientGetRedir),
    )
    .docs(
        "Returns the connection that gets the invalidations of this one.",
        "6.0.0",
        "O(1)",
    ),
    client(
        "CLIENT|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .docs("Describes the sub-commands.", "5.0.0", "O(1)"),
    client(
        "CLIENT|ID",
        exactly(2),
        OWN,
        Run::Node(NodeCommand::ClientId),
    )
    .docs("Returns the unique id of the connection.", "5.0.0", "O(1)"),
    client(
        "CLIENT|INFO",
        exactly(2),
        OWN,
        Run::Node(NodeCommand::ClientInfo),
    )
    .docs("Describes the connection.", "6.2.0", "O(1)")
    .tips(&["nondeterministic_output"]),
    client(
        "CLIENT|KILL",
        at_least(3),
        OTHERS,
        Run::Node(NodeCommand::ClientKill),
    )
    .takes(
        "<ip:port | ID client-id [client-id ...] | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> | \
         USER username | ADDR ip:port | LADDR ip:port | IP ip | NAME name | LIB-NAME name | \
         LIB-VER version | FLAGS flags | CAPA capabilities | DB db | IDLE seconds | SKIPME yes/no | MAXAGE seconds> [...]",
    )
    .docs("Closes connections.", "2.4.0", "O(N) in the connections"),
    client(
        "CLIENT|LIST",
        at_least(2),
        OTHERS,
        Run::Node(NodeCommand::ClientList),
    )
    .takes(
        "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]] \
         [USER username] [ADDR ip:port] [LADDR ip:port] [IP ip] [NAME name] [LIB-NAME name] \
         [LIB-VER version] [FLAGS flags] [CAPA capabilities] [DB db] [IDLE seconds] [SKIPME yes/no] [MAXAGE seconds]",
    )
    .docs("Lists the connections.", "2.4.0", "O(N) in the connections")
    .tips(&["nondeterministic_output"]),
    client(
        "CLIENT|NO-EVICT",
        exactly(3),
        OTHERS,
        Run::Node(NodeCommand::ClientNoEvict),
    )
    .takes("ON | OFF")
    .docs("Exempts the connection from eviction.", "7.0.0", "O(1)"),
    client(
        "CLIENT|NO-TOUCH",
        exactly(3),
        OWN,
        Run::Node(NodeCommand::ClientNoTouch),
    )
    .takes("ON | OFF")
    .docs(
        "Says whether the commands of the connection count as uses of keys.",
        "7.2.0",
        "O(1)",
    ),
    client(
        "CLIENT|PAUSE",
        at_least(3),
        OTHERS,
        Run::Node(NodeCommand::ClientPause),
    )
    .takes("milliseconds [WRITE | ALL]")
    .docs(
        "Puts off the commands of all connections for some time.",
        "3.0.0",
        "O(1)",
    ),
    client(
        "CLIENT|REPLY",
        exactly(3),
        OWN,
        Run::Node(NodeCommand::ClientReply),
    )
    .takes("ON | OFF | SKIP")
    .docs(
        "Says whether the connection is sent replies.",
        "3.2.0",
        "O(1)",
    ),
    client(
        "CLIENT|SETINFO",
        exactly(4),
        OWN,
        Run::Node(NodeCommand::ClientSetInfo),
    )
    .takes("LIB-NAME libname | LIB-VER libver")
    .docs(
        "Tells the server which library the client uses.",
        "7.2.0",
        "O(1)",
    )
    .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    client(
        "CLIENT|SETNAME",
        exactly(3),
        OWN,
        Run::Node(NodeCommand::ClientSetName),
    )
    .takes("connection-name")
    .docs("Names the connection.", "2.6.9", "O(1)"),
    client(
        "CLIENT|TRACKING",
        at_least(3),
        OWN,
        Run::Node(NodeCommand::ClientTracking),
    )
    .takes(
        "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] \
         [NOLOOP]",
    )
    .docs(
        "Has the server tell the connection when keys change that it has read.",
        "6.0.0",
        "O(1), and O(N) in the prefixes",
    ),
    client(
        "CLIENT|TRACKINGINFO",
        exactly(2),
        OWN,
        Run::Node(NodeCommand::ClientTrackingInfo),
    )
    .docs(
        "Describes how the connection tracks keys.",
        "6.2.0",
        "O(1)",
    ),
    client(
        "CLIENT|UNBLOCK",
        at_least(3),
        OTHERS,
        Run::Node(NodeCommand::ClientUnblock),
    )
    .takes("client-id [TIMEOUT | ERROR]")
    .docs(
        "Ends the wait of another connection.",
        "5.0.0",
        "O(log N) in the connections",
    ),
    client(
        "CLIENT|UNPAUSE",
        exactly(2),
        OTHERS,
        Run::Node(NodeCommand::ClientUnpause),
    )
    .docs(
        "Ends the pause of all connections.",
        "6.2.0",
        "O(N) in the connections that wait",
    ),
];

const fn client(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Connection, Acl::CONNECTION)
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "CACHING (YES|NO)",
        "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
        "GETREDIR",
        "    Return the client ID we are redirecting to when tracking is enabled.",
        "GETNAME",
        "    Return the name of the current connection.",
        "ID",
        "    Return the ID of the current connection.",
        "INFO",
        "    Return information about the current client connection.",
        "KILL <ip:port>",
        "    Kill connection made from <ip:port>.",
        "KILL <option> <value> [<option> <value> [...]]",
        "    Kill connections. Options are:",
        "    * ADDR (<ip:port>|<unixsocket>:0)",
        "      Kill connections made from the specified address",
        "    * LADDR (<ip:port>|<unixsocket>:0)",
        "      Kill connections made to specified local address",
        "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
        "      Kill connections by type.",
        "    * USER <username>",
        "      Kill connections authenticated by <username>.",
        "    * SKIPME (YES|NO)",
        "      Skip killing current connection (default: yes).",
        "    * MAXAGE <maxage>",
        "      Kill connections older than the specified age.",
        "LIST [options ...]",
        "    Return information about client connections. Options:",
        "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
        "      Return clients of specified type.",
        "UNPAUSE",
        "    Stop the current client pause, resuming traffic.",
        "PAUSE <timeout> [WRITE|ALL]",
        "    Suspend all, or just write, clients for <timeout> milliseconds.",
        "REPLY (ON|OFF|SKIP)",
        "    Control the replies sent to the current connection.",
        "SETINFO <option> <value>",
        "    Set client meta attributes. Options are:",
        "    * LIB-NAME: the client library's name.",
        "    * LIB-VER: the client library's version.",
        "SETNAME <name>",
        "    Assign the name <name> to the current connection.",
        "UNBLOCK <clientid> [TIMEOUT|ERROR]",
        "    Unblock the specified blocked client.",
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
        "         [OPTIN] [OPTOUT] [NOLOOP]",
        "    Control server assisted client side caching.",
        "TRACKINGINFO",
        "    Report tracking status for the current connection.",
        "NO-EVICT (ON|OFF)",
        "    Protect current client connection from eviction.",
        "NO-TOUCH (ON|OFF)",
        "    Will not touch LRU/LFU stats when this mode is on.",
    ];
    Ok(super::help(cx, &args, &lines))
}
