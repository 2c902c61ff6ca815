//! What belongs to replicas and clusters, as a server answers that is neither.

use crate::{Args, CmdError, Cx, Reply};

pub(super) fn failover(_: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    match args.rest() {
        [abort] if abort.eq_ignore_ascii_case(b"ABORT") => {
            Err(CmdError::err("No failover in progress."))
        }
        _ => Err(CmdError::err("FAILOVER requires connected replicas.")),
    }
}
