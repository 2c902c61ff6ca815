//! AUTH and HELLO.

use super::client::valid_name;
use tollgate_commands::acl::DEFAULT_USER;
use tollgate_commands::{CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::{Engine, NodeCx, REDIS_VERSION};
use tollgate_wire::resp::Protocol;

pub(super) fn auth(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    match *cx.args.rest() {
        [password] => {
            if cx.engine.access().default_user().any_password {
                return Err(CmdError::NoPasswordSet);
            }
            authenticate(cx, DEFAULT_USER, password)?;
        }
        [user, password] => authenticate(cx, user, password)?,
        _ => return Err(CmdError::Syntax),
    }
    Ok(Reply::Ok)
}

fn authenticate(cx: &mut NodeCx<'_>, user: &[u8], password: &[u8]) -> Result<(), CmdError> {
    let command = cx.args.all()[0];
    cx.engine
        .access()
        .authenticate(cx.session, user, password, command, cx.now)
}

pub(super) fn hello(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
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
        authenticate(cx, user, password)?;
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

/// `redis_mode`: whether the server is a node of a cluster.
pub(crate) fn mode(engine: &Engine) -> &'static str {
    match engine.cluster().is_on() {
        true => "cluster",
        false => "standalone",
    }
}

fn greet(cx: &mut NodeCx<'_>) {
    let role = match cx.engine.is_replica() {
        true => "replica",
        false => "master",
    };
    let mode = mode(cx.engine);
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
    for (name, value) in [("mode", mode), ("role", role)] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
}
