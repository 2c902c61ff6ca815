//! CLIENT's sub-commands.

mod filter;

use std::sync::Arc;

use super::NodeRunner;
use crate::client::Client;
use crate::outbox::Class;
use crate::replication;
use tollgate_commands::{CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::{NodeCx, Outcome, Unblock};

use filter::{Filter, is_filter};

/// A name that shows in lists: printable, without spaces.
pub(super) fn valid_name(name: &[u8]) -> Result<&[u8], CmdError> {
    if is_printable(name) {
        Ok(name)
    } else {
        Err(CmdError::BadClientName)
    }
}

fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|b| (b'!'..=b'~').contains(b))
}

pub(super) fn get_name(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    if cx.session.name.is_empty() {
        return Ok(Reply::Null);
    }
    cx.out.bulk(&cx.session.name);
    Ok(Reply::Written)
}

pub(super) fn set_name(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    cx.session.name = valid_name(cx.args.next()?)?.into();
    Ok(Reply::Ok)
}

pub(super) fn set_info(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let attribute = cx.args.next()?;
    let value = cx.args.next()?;
    let place = if attribute.eq_ignore_ascii_case(b"LIB-NAME") {
        &mut cx.session.lib_name
    } else if attribute.eq_ignore_ascii_case(b"LIB-VER") {
        &mut cx.session.lib_version
    } else {
        return Err(CmdError::err(
            [b"Unrecognized option '", attribute, b"'"].concat(),
        ));
    };
    if !is_printable(value) {
        let text = b" cannot contain spaces, newlines or special characters.";
        return Err(CmdError::err([attribute, text].concat()));
    }
    *place = value.into();
    Ok(Reply::Ok)
}

fn on_or_off(word: &[u8]) -> Result<bool, CmdError> {
    match word {
        word if word.eq_ignore_ascii_case(b"ON") => Ok(true),
        word if word.eq_ignore_ascii_case(b"OFF") => Ok(false),
        _ => Err(CmdError::Syntax),
    }
}

/// CLIENT CAPA of Valkey 8: what is not known is passed over, and nothing is ever taken back.
pub(super) fn capa(cx: &mut NodeCx<'_>) -> Reply {
    let is_redirect = |word: &&[u8]| word.eq_ignore_ascii_case(b"redirect");
    cx.session.follows_redirects |= cx.args.rest().iter().any(is_redirect);
    Reply::Ok
}

pub(super) fn no_touch(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    cx.session.no_touch = on_or_off(cx.args.next()?)?;
    Ok(Reply::Ok)
}

pub(super) fn no_evict(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    cx.session.no_evict = on_or_off(cx.args.next()?)?;
    Ok(Reply::Ok)
}

pub(super) fn unblock(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let id = cx.args.next()?;
    let how = match cx.args.rest() {
        [] => Unblock::Timeout,
        [word] if word.eq_ignore_ascii_case(b"TIMEOUT") => Unblock::Timeout,
        [word] if word.eq_ignore_ascii_case(b"ERROR") => Unblock::Error,
        [_] => return Err(CmdError::BadUnblockReason),
        _ => {
            let text: [&[u8]; 3] = [
                b"unknown subcommand or wrong number of arguments for '",
                cx.args.all()[1],
                b"'. Try CLIENT HELP.",
            ];
            return Err(CmdError::err(text.concat()));
        }
    };
    let id = number::parse_i64(id).ok_or(CmdError::NotAnInteger)?;
    let id = u64::try_from(id).unwrap_or(0);
    Ok(Reply::flag(cx.engine.unblock(id, how, cx.now)))
}

pub(super) fn info(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    publish_self(runner, cx);
    if !cx.in_transaction {
        runner.client.look_at_watched(cx.engine);
    }
    let mut line = runner.client.describe(cx.now.nanos(), cx.args.all());
    line.push(b'\n');
    cx.out.verbatim("txt", &line);
    Ok(Reply::Written)
}

/// The class of a client as lists have it.
fn listed_class(client: &Client) -> Option<Class> {
    (!client.is_master()).then(|| client.class())
}

/// So that the list shows this connection as it is now and not as it was before the wake-up.
fn publish_self(runner: &NodeRunner<'_>, cx: &NodeCx<'_>) {
    runner.client.publish(cx.session, cx.now.nanos());
    runner.client.publish_session(cx.session);
}

/// The class of clients that a type of CLIENT LIST and KILL means; `None` for the link to the master.
fn class_of(word: &[u8]) -> Result<Option<Class>, CmdError> {
    if word.eq_ignore_ascii_case(b"NORMAL") {
        return Ok(Some(Class::Normal));
    }
    if word.eq_ignore_ascii_case(b"PUBSUB") {
        return Ok(Some(Class::PubSub));
    }
    let replica: [&[u8]; 2] = [b"SLAVE", b"REPLICA"];
    if replica.iter().any(|it| word.eq_ignore_ascii_case(it)) {
        return Ok(Some(Class::Replica));
    }
    let master: [&[u8]; 2] = [b"MASTER", b"PRIMARY"];
    if master.iter().any(|it| word.eq_ignore_ascii_case(it)) {
        return Ok(None);
    }
    Err(CmdError::err(
        [b"Unknown client type '", word, b"'"].concat(),
    ))
}

pub(super) fn list(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let words = cx.args.rest();
    let clients = &runner.shared.clients;
    cx.engine.waits_are_seen();
    publish_self(runner, cx);
    let mut listed = match words {
        [option, ids @ ..]
            if option.eq_ignore_ascii_case(b"ID")
                && !ids.is_empty()
                && !ids.iter().any(|word| is_filter(word)) =>
        {
            let ids = ids
                .iter()
                .map(|id| number::parse_i64(id).ok_or(CmdError::BadClientId));
            let ids = ids.collect::<Result<Vec<_>, _>>()?;
            // In the order asked for, as often as asked for.
            let by_id = |id: &i64| clients.get(u64::try_from(*id).ok()?);
            return Ok(show(
                runner,
                cx,
                &ids.iter().filter_map(by_id).collect::<Vec<_>>(),
            ));
        }
        _ => clients.all(),
    };
    let filter = Filter::parse(runner, words, false)?;
    let (me, now) = (runner.client.id, cx.now.nanos());
    look_at_watched(cx, &listed);
    listed.retain(|client| filter.selects(client, me, now));
    Ok(show(runner, cx, &listed))
}

/// So that the letters of clients tell whether keys that they watch have changed.
fn look_at_watched(cx: &NodeCx<'_>, clients: &[Arc<Client>]) {
    // A transaction holds shards.
    if !cx.in_transaction {
        for client in clients {
            client.look_at_watched(cx.engine);
        }
    }
}

/// Writes a line for each client.
fn show(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>, clients: &[Arc<Client>]) -> Reply {
    look_at_watched(cx, clients);
    let mut text = Vec::new();
    for client in clients {
        let words = match client.id == runner.client.id {
            true => cx.args.all(),
            false => &[],
        };
        text.extend_from_slice(&client.describe(cx.now.nanos(), words));
        text.push(b'\n');
    }
    cx.out.verbatim("txt", &text);
    Reply::Written
}

pub(super) fn kill(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let words = cx.args.rest();
    let old_form = words.len() == 1;
    let filter = match words {
        [address] => Filter::of_address(address),
        _ => Filter::parse(runner, words, true)?,
    };
    publish_self(runner, cx);
    let (me, now) = (runner.client.id, cx.now.nanos());
    let killed = runner
        .shared
        .clients
        .kill(|client| filter.selects(client, me, now));
    for client in &killed {
        if client.id == me {
            *cx.outcome = Outcome::Close;
            continue;
        }
        cx.engine.abandon(client.id);
        if client.is_master() {
            runner.shared.link.kill(client.id);
            continue;
        }
        client.post_kill();
        if client.class() == Class::Replica {
            replication::judge(runner.shared);
        }
    }
    match (old_form, killed.len()) {
        (true, 0) => Err(CmdError::NoSuchClient),
        (true, _) => Ok(Reply::Ok),
        (false, n) => Ok(Reply::count(n)),
    }
}
