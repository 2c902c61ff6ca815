//! SHUTDOWN.

use crate::shared::Shared;
use tollgate_commands::{CmdError, Reply};
use tollgate_engine::{NodeCx, Outcome};

pub(super) fn shutdown(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
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
        return Err(CmdError::err("No shutdown in progress."));
    }
    if let Some(busy) = cx.engine.busy().filter(|_| !no_save) {
        return Err(busy.error());
    }
    let save = save || (!no_save && shared.settings.saves_at_end());
    // A snapshot that cannot be written is told while the client can still be told. What is written after it and before
    // the loops have stopped goes into a second one.
    if save && shared.snapshot.save(shared, cx.now).is_err() && !force {
        return Err(CmdError::err("Errors trying to SHUTDOWN. Check logs."));
    }
    shared.snapshot.save_at_end(save);
    if shared.signals.notify().is_err() {
        return Err(CmdError::err("Errors trying to SHUTDOWN. Check logs."));
    }
    // As in Redis, the end of the connection is the reply.
    *cx.outcome = Outcome::Close;
    Ok(Reply::Written)
}
