//! SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE.

use crate::aof::{self, Asked};
use crate::shared::Shared;
use crate::snapshot;
use std::sync::Arc;
use tollgate_commands::{CmdError, Reply};
use tollgate_engine::NodeCx;

/// The file could not be written; the log says why.
fn failed() -> CmdError {
    CmdError::line("ERR")
}

fn busy() -> CmdError {
    CmdError::err("Background save already in progress")
}

pub(super) fn save(shared: &Shared, cx: &NodeCx<'_>) -> Result<Reply, CmdError> {
    if shared.snapshot.is_busy(shared) {
        return Err(busy());
    }
    match shared.snapshot.save(shared, cx.now) {
        Ok(()) => Ok(Reply::Ok),
        Err(_) => Err(failed()),
    }
}

pub(super) fn background(shared: &Arc<Shared>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let may_wait = match cx.args.rest() {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"SCHEDULE") => true,
        _ => return Err(CmdError::Syntax),
    };
    match shared.snapshot.ask(shared, cx.in_transaction, may_wait) {
        snapshot::Asked::Begun => Ok(Reply::Simple("Background saving started")),
        snapshot::Asked::Scheduled => Ok(Reply::Simple("Background saving scheduled")),
        snapshot::Asked::Busy => Err(busy()),
        snapshot::Asked::OtherBusy => Err(CmdError::err(
            "Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule \
             a BGSAVE whenever possible.",
        )),
        snapshot::Asked::Refused => Err(failed()),
    }
}

/// BGREWRITEAOF.
pub(super) fn rewrite_log(shared: &Arc<Shared>, cx: &NodeCx<'_>) -> Result<Reply, CmdError> {
    match aof::ask(shared, cx.in_transaction) {
        Asked::Begun => Ok(Reply::Simple(
            "Background append only file rewriting started",
        )),
        Asked::Scheduled => Ok(Reply::Simple(
            "Background append only file rewriting scheduled",
        )),
        Asked::Busy => Err(CmdError::err(
            "Background append only file rewriting already in progress",
        )),
        Asked::Refused => Err(CmdError::err(
            "Can't execute an AOF background rewriting. Please check the server logs for more information.",
        )),
    }
}

pub(super) fn last(shared: &Shared) -> Reply {
    Reply::Int(shared.snapshot.facts().last_save_secs)
}
