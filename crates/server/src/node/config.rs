//! CONFIG's sub-commands.

use crate::shared::Shared;
use tollgate_commands::{CmdError, Reply};
use tollgate_engine::NodeCx;

pub(super) fn get(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let found = shared.settings.matching(cx.args.rest());
    cx.out.map(found.len());
    for (name, value) in found {
        cx.out.bulk(&name);
        cx.out.bulk(value.as_bytes());
    }
    Ok(Reply::Written)
}

pub(super) fn set(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let (pairs, rest) = cx.args.rest().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CmdError::Syntax);
    }
    let pairs: Vec<_> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    shared.settings.set(&pairs)?;
    shared.settings.configure(&shared.engine);
    // Sweeps and rounds of the expiry follow the new settings at once. A loop whose mailbox is full follows at its next tick.
    shared.mailboxes.tick_all().ok();
    Ok(Reply::Ok)
}

pub(super) fn reset_stat(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    cx.engine.reset_stats();
    shared.metrics.reset();
    shared.clients.reset_stats();
    Ok(Reply::Ok)
}
