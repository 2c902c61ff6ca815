//! ACL's sub-commands: users and their permissions. The server answers them: it knows the connections.

use crate::row::{at_least, exactly, row};
use crate::{
    Acl, AclCommand, Args, Arity, CmdError, Cx, Flags, Group, NodeCommand, Reply, Row, Run,
};

const OWN: Flags = Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE);
const ADMIN: Flags = OWN.or(Flags::ADMIN);

pub(super) const SUBS: &[Row] = &[
    acl("ACL|CAT", at_least(2), OWN, Run::Local(cat))
        .takes("[categoryname]")
        .docs(
            "Lists the categories of commands, or the commands of one.",
            "6.0.0",
            "O(1)",
        ),
    acl(
        "ACL|DELUSER",
        at_least(3),
        ADMIN,
        Run::Node(NodeCommand::Acl(AclCommand::DelUser)),
    )
    .takes("username [username ...]")
    .docs(
        "Removes users and closes their connections.",
        "6.0.0",
        "O(N) in the connections",
    ),
    acl(
        "ACL|DRYRUN",
        at_least(4),
        ADMIN,
        Run::Node(NodeCommand::Acl(AclCommand::DryRun)),
    )
    .takes("username command [arg [arg ...]]")
    .docs(
        "Tells whether a user may run a command, without running it.",
        "7.0.0",
        "O(1)",
    ),
    acl(
        "ACL|GENPASS",
        at_least(2),
        OWN,
        Run::Node(NodeCommand::Acl(AclCommand::GenPass)),
    )
    .takes("[bits]")
    .docs("Returns a random password.", "6.0.0", "O(1)"),
    acl(
        "ACL|GETUSER",
        exactly(3),
        ADMIN,
        Run::Node(NodeCommand::Acl(AclCommand::GetUser)),
    )
    .takes("username")
    .docs(
        "Returns the rules of a user.",
        "6.0.0",
        "O(N) in the rules of the user",
    ),
    acl(
        "ACL|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .docs("Describes the sub-commands.", "6.0.0", "O(1)"),
    acl(
        "ACL|LIST",
        exactly(2),
        ADMIN,
        Run::Node(NodeCommand::Acl(AclCommand::List)),
    )
    .docs(
        "Lists the users as lines of the ACL file.",
        "6.0.0",
        "O(N) in the users",
    ),
    acl(
        "ACL|LOAD",
        exactly(2),
        ADMIN,
        Run::Node(NodeCommand::Acl(AclCommand::Load)),
    )
    .docs(
        "Puts the users of the ACL file in place of all users.",
        "6.0.0",
        "O(N) in the users",
    ),
    acl(
        "ACL|LOG",
        at_least(2),
        ADMIN,
        Run::Node(NodeCommand::Acl(AclCommand::Log)),
    )
    .takes("[count | RESET]")
    .docs(
        "Lists what users were refused lately.",
        "6.0.0",
        "O(N) in the entries shown",
    ),
    acl(
        "ACL|SAVE",
        exactly(2),
        ADMIN,
        Run::Node(NodeCommand::Acl(AclCommand::Save)),
    )
    .docs(
        "Writes the users to the ACL file.",
        "6.0.0",
        "O(N) in the users",
    ),
    acl(
        "ACL|SETUSER",
        at_least(3),
        ADMIN,
        Run::Node(NodeCommand::Acl(AclCommand::SetUser)),
    )
    .takes("username [rule [rule ...]]")
    .docs(
        "Changes a user, or makes a new one, by rules.",
        "6.0.0",
        "O(N) in the rules",
    ),
    acl(
        "ACL|USERS",
        exactly(2),
        ADMIN,
        Run::Node(NodeCommand::Acl(AclCommand::Users)),
    )
    .docs(
        "Lists the names of the users.",
        "6.0.0",
        "O(N) in the users",
    ),
    acl(
        "ACL|WHOAMI",
        exactly(2),
        OWN,
        Run::Node(NodeCommand::Acl(AclCommand::WhoAmI)),
    )
    .docs(
        "Returns the name of the connection's user.",
        "6.0.0",
        "O(1)",
    ),
];

const fn acl(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    row(name, arity, flags, run).acl(Group::Server, Acl::NONE)
}

fn cat(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    match *args.rest() {
        [] => {
            cx.out.array(Acl::NAMES.len());
            Acl::NAMES
                .iter()
                .for_each(|(_, name)| cx.out.bulk(name.as_bytes()));
            Ok(Reply::Written)
        }
        [name] => {
            let category = Acl::by_name(name).ok_or_else(|| CmdError::unknown_category(name))?;
            let place = cx.out.defer_array();
            let mut listed = 0;
            let every = crate::rows().flat_map(|row| std::iter::once(row).chain(row.subs));
            for row in every.filter(|row| row.acl.contains(category)) {
                cx.out.bulk(row.name.to_ascii_lowercase().as_bytes());
                listed += 1;
            }
            cx.out.close_array(place, listed);
            Ok(Reply::Written)
        }
        _ => Err(CmdError::subcommand_syntax(args.all())),
    }
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "CAT [<category>]",
        "    List all commands that belong to <category>, or all command categories",
        "    when no category is specified.",
        "DELUSER <username> [<username> ...]",
        "    Delete a list of users.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Returns whether the user can execute the given command without executing the command.",
        "GETUSER <username>",
        "    Get the user's details.",
        "GENPASS [<bits>]",
        "    Generate a secure 256-bit user password. The optional `bits` argument can",
        "    be used to specify a different size.",
        "LIST",
        "    Show users details in config file format.",
        "LOAD",
        "    Reload users from the ACL file.",
        "LOG [<count> | RESET]",
        "    Show the ACL log entries.",
        "SAVE",
        "    Save the current config to the ACL file.",
        "SETUSER <username> <attribute> [<attribute> ...]",
        "    Create or modify a user with the specified attributes.",
        "USERS",
        "    List all the registered usernames.",
        "WHOAMI",
        "    Return the current connection username.",
    ];
    Ok(super::help(cx, &args, &lines))
}
