//! CLIENT PAUSE and UNPAUSE.

use super::NodeRunner;
use tollgate_commands::{CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::{NodeCx, Paused, PausedBy};

pub(super) fn pause(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let (millis, what) = match *cx.args.rest() {
        [millis] => (millis, Paused::All),
        [millis, mode] if mode.eq_ignore_ascii_case(b"ALL") => (millis, Paused::All),
        [millis, mode] if mode.eq_ignore_ascii_case(b"WRITE") => (millis, Paused::Writes),
        [_, _] => return Err(CmdError::PauseMode),
        _ => return Err(CmdError::subcommand_syntax(cx.args.all())),
    };
    let millis = number::parse_i64(millis).ok_or(CmdError::TimeoutNotAnInteger)?;
    if millis < 0 {
        return Err(CmdError::TimeoutNegative);
    }
    // As in Redis 7.0, an end beyond all numbers lies in the past.
    let end = cx.now.millis().checked_add(millis);
    if let Some(end) = end.filter(|_| millis > 0) {
        cx.engine.pause().begin(PausedBy::Client, what, end);
        // Loop 0 ends it in time. A loop whose mailbox is full looks at its next tick, within a second.
        runner.shared.mailboxes.tick_all().ok();
    }
    Ok(Reply::Ok)
}

pub(super) fn unpause(cx: &NodeCx<'_>) -> Reply {
    cx.engine.pause().end(PausedBy::Client);
    Reply::Ok
}
