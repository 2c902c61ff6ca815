//! What belongs to replicas and clusters, as a server answers that is neither.

use crate::{Args, CmdError, Cx, Reply};
use tollgate_containers::number;

/// REPLICAOF: only its end is possible, which changes nothing.
pub(super) fn replicaof(_: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let (host, port) = (args.next()?, args.next()?);
    if host.eq_ignore_ascii_case(b"NO") && port.eq_ignore_ascii_case(b"ONE") {
        return Ok(Reply::Ok);
    }
    let port = number::parse_i64(port).filter(|port| (0..=65_535).contains(port));
    match port {
        Some(_) => Err(CmdError::err("This server does not follow others")),
        None => Err(CmdError::err("Invalid master port")),
    }
}

pub(super) fn failover(_: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    match args.rest() {
        [abort] if abort.eq_ignore_ascii_case(b"ABORT") => {
            Err(CmdError::err("No failover in progress."))
        }
        _ => Err(CmdError::err("FAILOVER requires connected replicas.")),
    }
}
