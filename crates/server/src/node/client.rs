//! CLIENT's sub-commands.

use super::NodeRunner;
use crate::client::Client;
use crate::outbox::Class;
use crate::replication;
use tollgate_commands::{CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::{NodeCx, Outcome, Unblock};

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
    if word.eq_ignore_ascii_case(b"MASTER") {
        return Ok(None);
    }
    Err(CmdError::err(
        [b"Unknown client type '", word, b"'"].concat(),
    ))
}

pub(super) fn list(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let words = cx.args.rest();
    let mut clients = runner.shared.clients.all();
    cx.engine.waits_are_seen();
    match words {
        [] => {}
        [option, kind] if option.eq_ignore_ascii_case(b"TYPE") => {
            let class = class_of(kind)?;
            clients.retain(|client| class == listed_class(client));
        }
        [option, ids @ ..] if option.eq_ignore_ascii_case(b"ID") && !ids.is_empty() => {
            let ids = ids
                .iter()
                .map(|id| number::parse_i64(id).ok_or(CmdError::BadClientId));
            let ids = ids.collect::<Result<Vec<_>, _>>()?;
            // In the order asked for, as often as asked for.
            let by_id = |id: &i64| runner.shared.clients.get(u64::try_from(*id).ok()?);
            clients = ids.iter().filter_map(by_id).collect();
        }
        _ => return Err(CmdError::Syntax),
    }
    publish_self(runner, cx);
    let mut text = Vec::new();
    for client in &clients {
        if !cx.in_transaction {
            client.look_at_watched(cx.engine);
        }
        let words = match client.id == runner.client.id {
            true => cx.args.all(),
            false => &[],
        };
        text.extend_from_slice(&client.describe(cx.now.nanos(), words));
        text.push(b'\n');
    }
    cx.out.verbatim("txt", &text);
    Ok(Reply::Written)
}

/// Which clients to close.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    /// The class, if a type was given.
    class: Option<Option<Class>>,
    user: Option<&'a [u8]>,
    skip_me: bool,
    /// Seconds it has been connected at least.
    max_age: Option<i64>,
}

impl Filter<'_> {
    fn selects(&self, client: &Client, me: u64, now: i64) -> bool {
        !(self.skip_me && client.id == me)
            && self.max_age.is_none_or(|age| client.age(now) >= age)
            && self.class.is_none_or(|class| class == listed_class(client))
            && self.id.is_none_or(|id| client.id == id)
            && self
                .address
                .is_none_or(|address| client.peer.remote.to_string().as_bytes() == address)
            && self
                .local
                .is_none_or(|local| client.peer.local.to_string().as_bytes() == local)
            && self.user.is_none_or(|user| *client.user_name() == *user)
    }
}

pub(super) fn kill(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let words = cx.args.rest();
    let old_form = words.len() == 1;
    let filter = if old_form {
        Filter {
            address: Some(words[0]),
            ..Filter::default()
        }
    } else {
        parse_filter(runner, words)?
    };
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

fn parse_filter<'a>(runner: &NodeRunner<'_>, words: &[&'a [u8]]) -> Result<Filter<'a>, CmdError> {
    let mut filter = Filter {
        skip_me: true,
        ..Filter::default()
    };
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CmdError::Syntax);
    }
    for [option, value] in pairs {
        if option.eq_ignore_ascii_case(b"ID") {
            let id = number::parse_i64(value).filter(|&id| id > 0);
            filter.id = Some(id.ok_or(CmdError::ClientIdNotPositive)? as u64);
        } else if option.eq_ignore_ascii_case(b"TYPE") {
            filter.class = Some(class_of(value)?);
        } else if option.eq_ignore_ascii_case(b"ADDR") {
            filter.address = Some(value);
        } else if option.eq_ignore_ascii_case(b"LADDR") {
            filter.local = Some(value);
        } else if option.eq_ignore_ascii_case(b"USER") {
            if runner.shared.engine.access().user(value).is_none() {
                return Err(CmdError::err([b"No such user '", *value, b"'"].concat()));
            }
            filter.user = Some(value);
        } else if option.eq_ignore_ascii_case(b"MAXAGE") {
            let age = number::parse_i64(value).ok_or(CmdError::MaxAgeNotAnInteger)?;
            if age <= 0 {
                return Err(CmdError::MaxAgeNotPositive);
            }
            filter.max_age = Some(age);
        } else if option.eq_ignore_ascii_case(b"SKIPME") {
            filter.skip_me = match value {
                word if word.eq_ignore_ascii_case(b"YES") => true,
                word if word.eq_ignore_ascii_case(b"NO") => false,
                _ => return Err(CmdError::Syntax),
            };
        } else {
            return Err(CmdError::Syntax);
        }
    }
    Ok(filter)
}
