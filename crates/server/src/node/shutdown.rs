//! SHUTDOWN.

use super::NodeRunner;
use crate::ending::Request;
use tollgate_commands::{CmdError, Reply};
use tollgate_engine::{NodeCx, Outcome};

pub(super) fn shutdown(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let shared = runner.shared;
    let (mut save, mut no_save, mut force, mut abort, mut now) =
        (false, false, false, false, false);
    for word in cx.args.rest() {
        let flag = match word.to_ascii_uppercase().as_slice() {
            b"SAVE" => &mut save,
            b"NOSAVE" => &mut no_save,
            b"FORCE" => &mut force,
            b"NOW" => &mut now,
            b"ABORT" => &mut abort,
            _ => return Err(CmdError::Syntax),
        };
        *flag = true;
    }
    if (save && no_save) || (abort && (save || no_save || force || now)) {
        return Err(CmdError::Syntax);
    }
    if abort {
        return match shared.ending.abort(&shared.log) {
            true => Ok(Reply::Ok),
            false => Err(CmdError::err("No shutdown in progress.")),
        };
    }
    if let Some(busy) = cx.engine.busy().filter(|_| !no_save) {
        return Err(busy.error());
    }
    let request = Request {
        save: match (save, no_save) {
            (false, false) => None,
            (save, _) => Some(save),
        },
        now,
        force,
    };
    if shared
        .ending
        .ask(shared, request, runner.client.at)
        .is_err()
    {
        return Err(CmdError::err("Errors trying to SHUTDOWN. Check logs."));
    }
    // As in Redis, the end of the connection is the reply, unless the server does not end.
    *cx.outcome = Outcome::Wait;
    Ok(Reply::Written)
}
