//! FAILOVER.

use super::NodeRunner;
use crate::failover::{self, Stage, Wanted};
use tollgate_commands::{CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::NodeCx;

pub(super) fn failover(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let shared = runner.shared;
    if cx.engine.cluster().is_on() {
        return Err(CmdError::NoFailoverInCluster);
    }
    let words = cx.args.rest();
    if let [word] = words
        && word.eq_ignore_ascii_case(b"ABORT")
    {
        return match failover::abort(shared, "Failover manually aborted") {
            true => Ok(Reply::Ok),
            false => Err(CmdError::err("No failover in progress.")),
        };
    }
    let (target, timeout_ms, force) = parse(words)?;
    if shared.failover.stage() != Stage::None {
        return Err(CmdError::err("FAILOVER already in progress."));
    }
    if cx.engine.is_replica() {
        return Err(CmdError::err(
            "FAILOVER is not valid when server is a replica.",
        ));
    }
    let followers = cx.engine.followers(cx.now);
    if followers.is_empty() {
        return Err(CmdError::err("FAILOVER requires connected replicas."));
    }
    if force && (timeout_ms == 0 || target.is_none()) {
        return Err(CmdError::err(
            "FAILOVER with force option requires both a timeout and target HOST and IP.",
        ));
    }
    let wanted = Wanted {
        target: target.map(|(host, port)| {
            let host = String::from_utf8_lossy(host).into_owned();
            (host, u16::try_from(port).unwrap_or(0))
        }),
        deadline_ms: (timeout_ms > 0).then(|| cx.now.millis().saturating_add(timeout_ms)),
        force,
    };
    if let Some((host, port)) = &wanted.target {
        let found = followers.iter().find(|it| {
            let client = shared.clients.get(it.id);
            client.is_some_and(|client| {
                let address = client.replica_address();
                address.0.eq_ignore_ascii_case(host) && address.1 == *port
            })
        });
        let found = found.ok_or(CmdError::err(
            "FAILOVER target HOST and PORT is not a replica.",
        ))?;
        if found.state != "online" {
            return Err(CmdError::err("FAILOVER target replica is not online."));
        }
    }
    match failover::begin(shared, wanted) {
        true => Ok(Reply::Ok),
        false => Err(CmdError::err("FAILOVER already in progress.")),
    }
}

/// Target, timeout in milliseconds (0: none), and whether it is forced.
type Parsed<'a> = (Option<(&'a [u8], i64)>, i64, bool);

fn parse<'a>(words: &[&'a [u8]]) -> Result<Parsed<'a>, CmdError> {
    let (mut target, mut timeout_ms, mut force) = (None, 0, false);
    let mut rest = words;
    loop {
        rest = match rest {
            [] => return Ok((target, timeout_ms, force)),
            [word, millis, rest @ ..]
                if word.eq_ignore_ascii_case(b"TIMEOUT") && timeout_ms == 0 =>
            {
                timeout_ms = number::parse_i64(millis).ok_or(CmdError::NotAnInteger)?;
                if timeout_ms <= 0 {
                    return Err(CmdError::err("FAILOVER timeout must be greater than 0"));
                }
                rest
            }
            [word, host, port, rest @ ..]
                if word.eq_ignore_ascii_case(b"TO") && target.is_none() =>
            {
                let port = number::parse_i64(port).ok_or(CmdError::NotAnInteger)?;
                target = Some((*host, port));
                rest
            }
            [word, rest @ ..] if word.eq_ignore_ascii_case(b"FORCE") && !force => {
                force = true;
                rest
            }
            _ => return Err(CmdError::Syntax),
        };
    }
}
