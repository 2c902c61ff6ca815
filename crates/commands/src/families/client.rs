//! CLIENT's sub-commands: the server answers them all but HELP.

use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Flags, Group, NodeCommand, Reply, Row, Run};

const OWN: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE);
const OTHERS: Flags = OWN.or(Flags::ADMIN);

pub(super) const SUBS: &[Row] = &[
    client(
        "CLIENT|GETNAME",
        exactly(2),
        OWN,
        Run::Node(NodeCommand::ClientGetName),
    )
    .docs("Returns the name of the connection.", "2.6.9", "O(1)"),
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
        "<ip:port | ID client-id | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> | \
         USER username | ADDR ip:port | LADDR ip:port | SKIPME yes/no> [...]",
    )
    .docs("Closes connections.", "2.4.0", "O(N) in the connections"),
    client(
        "CLIENT|LIST",
        at_least(2),
        OTHERS,
        Run::Node(NodeCommand::ClientList),
    )
    .takes("[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]")
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
    ),
    client(
        "CLIENT|SETNAME",
        exactly(3),
        OWN,
        Run::Node(NodeCommand::ClientSetName),
    )
    .takes("connection-name")
    .docs("Names the connection.", "2.6.9", "O(1)"),
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
];

const fn client(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Connection, Acl::CONNECTION)
}

fn help(cx: &mut Cx<'_>, _: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
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
        "LIST [options ...]",
        "    Return information about client connections. Options:",
        "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
        "      Return clients of specified type.",
        "SETINFO <option> <value>",
        "    Set client meta attributes. Options are:",
        "    * LIB-NAME: the client library's name.",
        "    * LIB-VER: the client library's version.",
        "SETNAME <name>",
        "    Assign the name <name> to the current connection.",
        "UNBLOCK <clientid> [TIMEOUT|ERROR]",
        "    Unblock the specified blocked client.",
        "NO-EVICT (ON|OFF)",
        "    Protect current client connection from eviction.",
    ];
    Ok(super::help(cx, "CLIENT", &lines))
}
