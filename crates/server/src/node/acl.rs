//! ACL's sub-commands.

use super::NodeRunner;
use crate::client::Client;
use crate::config::Key;
use std::path::{Path, PathBuf};
use tollgate_commands::acl::{DEFAULT_USER, Selector, Users};
use tollgate_commands::{AclCommand, CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::{NodeCx, Outcome};
use tollgate_net::{files, process};
use tollgate_wire::resp::ReplyBuf;

/// Longest password that GENPASS makes, in bits.
const LONGEST_PASSWORD: i64 = 4096;
/// Entries that LOG shows when it is not asked for a number.
const LOG_SHOWN: i64 = 10;

/// Answers a sub-command of ACL.
pub(super) fn run(
    runner: &NodeRunner<'_>,
    command: AclCommand,
    cx: &mut NodeCx<'_>,
) -> Result<Reply, CmdError> {
    match command {
        AclCommand::DelUser => del_user(runner, cx),
        AclCommand::DryRun => dry_run(cx),
        AclCommand::GenPass => gen_pass(cx),
        AclCommand::GetUser => get_user(cx),
        AclCommand::List => list(cx),
        AclCommand::Load => load(runner, cx),
        AclCommand::Log => log(cx),
        AclCommand::Save => save(runner, cx),
        AclCommand::SetUser => set_user(runner, cx),
        AclCommand::Users => users(cx),
        AclCommand::WhoAmI => who_am_i(cx),
    }
}

fn set_user(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let name = cx.args.next()?;
    let rules = cx.args.rest();
    let access = cx.engine.access();
    let before = access.user(name);
    let changed = access.change(|users| {
        let user = users.changed(name, rules)?;
        users.insert(user.clone());
        Ok(user)
    });
    let user = changed.map_err(|text: Vec<u8>| CmdError::err(text))?;
    if before.is_some_and(|before| user.narrows_channels_of(&before)) {
        // Subscribers to channels that the user may not use any more.
        close_clients(runner, cx, |client| {
            *client.user_name() == *user.name
                && client
                    .subscriptions
                    .go_beyond(&|name, is_pattern| user.allows_channel(name, is_pattern))
        });
    }
    Ok(Reply::Ok)
}

/// Closes the connections that `which` selects. The link to the master has no user.
fn close_clients(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>, which: impl Fn(&Client) -> bool) {
    let me = runner.client.id;
    let selected = |client: &Client| !client.is_master() && which(client);
    for client in runner.shared.clients.kill(selected) {
        if client.id == me {
            *cx.outcome = Outcome::Close;
            continue;
        }
        // What it waits for goes to others from now on.
        cx.engine.abandon(client.id);
        client.post_kill();
    }
}

fn del_user(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let names = cx.args.rest();
    if names.contains(&DEFAULT_USER) {
        return Err(CmdError::err("The 'default' user cannot be removed"));
    }
    let removed: Vec<&[u8]> = cx.engine.access().change(|users| {
        let there = names.iter().copied();
        there.filter(|name| users.remove(name)).collect()
    });
    if !removed.is_empty() {
        close_clients(runner, cx, |client| removed.contains(&&*client.user_name()));
    }
    Ok(Reply::count(removed.len()))
}

fn get_user(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let name = cx.args.next()?;
    let Some(user) = cx.engine.access().user(name) else {
        return Ok(Reply::Null);
    };
    let out = &mut *cx.out;
    out.map(6);
    out.bulk(b"flags");
    let flags: Vec<&str> = user.flags().collect();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    out.array(user.passwords.len());
    user.passwords
        .iter()
        .for_each(|hash| out.bulk(hash.as_str().as_bytes()));
    let (own, others) = user.selectors().split_at(1);
    own.iter()
        .for_each(|selector| write_selector(out, selector));
    out.bulk(b"selectors");
    out.array(others.len());
    for selector in others {
        out.map(3);
        write_selector(out, selector);
    }
    Ok(Reply::Written)
}

fn write_selector(out: &mut ReplyBuf, selector: &Selector) {
    out.bulk(b"commands");
    out.bulk(selector.describe_commands().as_bytes());
    out.bulk(b"keys");
    out.bulk(&selector.describe_keys());
    out.bulk(b"channels");
    out.bulk(&selector.describe_channels());
}

fn list(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let users = cx.engine.access().users();
    cx.out.array(users.iter().len());
    users.iter().for_each(|user| cx.out.bulk(&user.to_line()));
    Ok(Reply::Written)
}

fn users(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let users = cx.engine.access().users();
    cx.out.array(users.iter().len());
    users.iter().for_each(|user| cx.out.bulk(&user.name));
    Ok(Reply::Written)
}

fn who_am_i(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    cx.out.bulk(&cx.session.user.name);
    Ok(Reply::Written)
}

fn file(runner: &NodeRunner<'_>) -> Result<PathBuf, CmdError> {
    match &*runner.shared.settings.get(Key::AclFile) {
        "" => Err(CmdError::err(
            "This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
             SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in \
             order to store users in the Redis configuration.",
        )),
        path => Ok(path.into()),
    }
}

/// What the system says of an error, without its number.
pub(super) fn system_reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

/// What the ACL file, as it is named from `dir`, makes of `users`; the error is the text of the reply.
pub(crate) fn read_file(users: &Users, dir: &str, path: &str) -> Result<Users, String> {
    let text = std::fs::read(Path::new(dir).join(path)).map_err(|error| {
        let reason = system_reason(&error);
        format!("Error loading ACLs, opening file '{path}': {reason}")
    })?;
    users.load(path, &text)
}

fn load(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let path = file(runner)?;
    let dir = runner.shared.settings.get(Key::Dir);
    let loaded = cx.engine.access().change(|users| {
        *users = read_file(users, &dir, &path.to_string_lossy())?;
        Ok(())
    });
    let log = &runner.shared.log;
    loaded.map_err(|text: String| {
        log.warning(format_args!("{text}"));
        CmdError::err(text)
    })?;
    log.notice(format_args!("ACL file {} loaded", path.display()));
    close_clients(runner, cx, |client| *client.user_name() != *DEFAULT_USER);
    Ok(Reply::Ok)
}

fn save(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let path = file(runner)?;
    let text = cx.engine.access().users().save();
    let whole = Path::new(&*runner.shared.settings.get(Key::Dir)).join(&path);
    let written = files::replace(&whole, &mut |out| out.write_all(&text));
    written.map_err(|error| {
        runner.shared.log.warning(format_args!(
            "There was an error trying to save the ACLs to {}: {error}",
            path.display()
        ));
        CmdError::err(
            "There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })?;
    Ok(Reply::Ok)
}

fn gen_pass(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let bits = match *cx.args.rest() {
        [] => 256,
        [bits] => number::parse_i64(bits).ok_or(CmdError::NotAnInteger)?,
        _ => return Err(CmdError::subcommand_syntax(cx.args.all())),
    };
    if !(1..=LONGEST_PASSWORD).contains(&bits) {
        return Err(CmdError::err(format!(
            "ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {LONGEST_PASSWORD}"
        )));
    }
    let bytes: [u8; LONGEST_PASSWORD as usize / 8] =
        process::random().map_err(|error| CmdError::err(format!("no randomness: {error}")))?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = (bits as usize).div_ceil(4);
    cx.out.bulk(&text.as_bytes()[..digits]);
    Ok(Reply::Written)
}

fn log(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let access = cx.engine.access();
    let count = match *cx.args.rest() {
        [] => LOG_SHOWN,
        [word] if word.eq_ignore_ascii_case(b"RESET") => {
            access.clear_log();
            return Ok(Reply::Ok);
        }
        [count] => number::parse_i64(count).ok_or(CmdError::NotAnInteger)?,
        _ => return Err(CmdError::subcommand_syntax(cx.args.all())),
    };
    let entries = access.newest_denials(usize::try_from(count).unwrap_or(0));
    let out = &mut *cx.out;
    out.array(entries.len());
    for entry in &entries {
        out.map(7);
        out.bulk(b"count");
        out.int(entry.count as i64);
        for (name, value) in [
            ("reason", entry.reason.name().as_bytes()),
            ("context", entry.context.name().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            out.bulk(name.as_bytes());
            out.bulk(value);
        }
        out.bulk(b"age-seconds");
        out.double((cx.now.millis() - entry.at_ms).max(0) as f64 / 1_000.0);
        out.bulk(b"client-info");
        out.bulk(&entry.client);
    }
    Ok(Reply::Written)
}

fn dry_run(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let name = cx.args.next()?;
    let words = cx.args.rest();
    let Some(user) = cx.engine.access().user(name) else {
        return Err(CmdError::err([b"User '", name, b"' not found"].concat()));
    };
    let Ok(row) = cx.engine.resolve(words) else {
        return Err(CmdError::err(
            [b"Command '", words[0], b"' not found"].concat(),
        ));
    };
    if !row.arity.accepts(words.len()) {
        return Err(CmdError::Arity(row.name));
    }
    match user.check(row, words) {
        Ok(()) => Ok(Reply::Ok),
        Err(denied) => {
            cx.out.bulk(&denied.describe(row, words));
            Ok(Reply::Written)
        }
    }
}
