//! The client's own connection. What needs the connection or the server's settings is answered by
//! the server; the rest here.

use super::client;
use crate::row::{at_least, exactly, row};
use crate::{Acl, Args, CmdError, Cx, Family, Flags, Group, NodeCommand, Reply, Row, Run};

const SAFE: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);
const BEFORE_AUTH: Flags = SAFE
    .or(Flags::NOSCRIPT)
    .or(Flags::NO_AUTH)
    .or(Flags::ALLOW_BUSY);

pub(super) static FAMILY: Family = Family {
    name: "Connection",
    about: "The client's own connection: who it is, what it speaks, which database it uses.",
    rows: &[
        connection(
            "AUTH",
            at_least(2),
            BEFORE_AUTH,
            Run::Node(NodeCommand::Auth),
        )
        .takes("[username] password")
        .docs(
            "Authenticates the connection.",
            "1.0.0",
            "O(N) in the user's passwords",
        ),
        row("CLIENT", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::Connection, Acl::NONE)
            .docs(
                "Holds the commands on client connections.",
                "2.4.0",
                "Depends on the sub-command",
            )
            .subs(client::SUBS),
        connection("ECHO", exactly(2), SAFE, Run::Local(echo))
            .takes("message")
            .docs("Returns the given string.", "1.0.0", "O(1)"),
        connection(
            "HELLO",
            at_least(1),
            BEFORE_AUTH,
            Run::Node(NodeCommand::Hello),
        )
        .takes("[protover [AUTH username password] [SETNAME clientname]]")
        .docs(
            "Greets the server and chooses the protocol version.",
            "6.0.0",
            "O(1)",
        ),
        connection("PING", at_least(1), Flags::FAST, Run::Local(ping))
            .takes("[message]")
            .docs("Returns PONG, or the given message.", "1.0.0", "O(1)")
            .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
        connection(
            "QUIT",
            at_least(1),
            BEFORE_AUTH,
            Run::Node(NodeCommand::Quit),
        )
        .docs(
            "Closes the connection once its replies are sent.",
            "1.0.0",
            "O(1)",
        ),
        connection(
            "RESET",
            exactly(1),
            BEFORE_AUTH,
            Run::Node(NodeCommand::Reset),
        )
        .docs(
            "Returns the connection to the state of a new one.",
            "6.2.0",
            "O(1)",
        ),
        connection("SELECT", exactly(2), SAFE, Run::Node(NodeCommand::Select))
            .takes("index")
            .docs("Selects the database of the connection.", "1.0.0", "O(1)"),
    ],
};

const fn connection(name: &'static str, arity: crate::Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Connection, Acl::CONNECTION)
}

fn echo(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    cx.out.bulk(args.next()?);
    Ok(Reply::Written)
}

fn ping(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    match args.rest() {
        [] => Ok(Reply::Simple("PONG")),
        [message] => {
            cx.out.bulk(message);
            Ok(Reply::Written)
        }
        _ => Err(CmdError::Arity("ping")),
    }
}
