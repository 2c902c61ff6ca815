//! AUTH and HELLO.

use super::client::valid_name;
use crate::shared::Shared;
use tollgate_commands::{CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::{NodeCx, REDIS_VERSION, Session};
use tollgate_wire::resp::Protocol;

const DEFAULT_USER: &[u8] = b"default";

pub(super) fn auth(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    match *cx.args.rest() {
        [password] => {
            if !shared.settings.has_password() {
                return Err(CmdError::NoPasswordSet);
            }
            authenticate(shared, cx.session, DEFAULT_USER, password)?;
        }
        [user, password] => authenticate(shared, cx.session, user, password)?,
        _ => return Err(CmdError::Syntax),
    }
    Ok(Reply::Ok)
}

/// There is one user, who has the configured password, or any if none is configured.
fn authenticate(
    shared: &Shared,
    session: &mut Session,
    user: &[u8],
    password: &[u8],
) -> Result<(), CmdError> {
    let settings = &shared.settings;
    if user != DEFAULT_USER || (settings.has_password() && !settings.password_matches(password)) {
        return Err(CmdError::WrongPassword);
    }
    session.authenticated = true;
    Ok(())
}

pub(super) fn hello(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let mut protocol = None;
    if let Some(word) = cx.args.peek() {
        cx.args.next()?;
        protocol = Some(match number::parse_i64(word) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(CmdError::NoProto),
            None => return Err(CmdError::ProtocolNotAnInteger),
        });
    }
    let mut credentials = None;
    let mut name = None;
    while let Some(option) = cx.args.peek() {
        match cx.args.rest() {
            [_, user, password, ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                credentials = Some((*user, *password));
                cx.args.next()?;
                cx.args.next()?;
            }
            [_, text, ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(valid_name(text)?);
                cx.args.next()?;
            }
            _ => {
                return Err(CmdError::err(
                    [b"Syntax error in HELLO option '", option, b"'"].concat(),
                ));
            }
        }
        cx.args.next()?;
    }
    if let Some((user, password)) = credentials {
        authenticate(shared, cx.session, user, password)?;
    }
    if !cx.session.authenticated {
        return Err(CmdError::HelloNotAuthenticated);
    }
    if let Some(name) = name {
        cx.session.name = name.into();
    }
    if let Some(protocol) = protocol {
        cx.session.protocol = protocol;
        cx.out.set_protocol(protocol);
    }
    greet(cx);
    Ok(Reply::Written)
}

fn greet(cx: &mut NodeCx<'_>) {
    let out = &mut *cx.out;
    out.map(7);
    for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"proto");
    out.int(if cx.session.protocol == Protocol::Resp3 {
        3
    } else {
        2
    });
    out.bulk(b"id");
    out.int(cx.session.id as i64);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
}
