//! CLIENT REPLY and MONITOR: what a connection is sent.

use super::NodeRunner;
use crate::client::Client;
use std::sync::Arc;
use tollgate_commands::{CmdError, Reply};
use tollgate_engine::{Engine, NodeCx, Replies, Session, Subscriber};

pub(super) fn reply(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let replies = &mut cx.session.replies;
    if cx.args.keyword("ON") {
        *replies = Replies::On;
        return Ok(Reply::Ok);
    }
    if cx.args.keyword("OFF") {
        *replies = Replies::Off;
    } else if cx.args.keyword("SKIP") {
        if *replies != Replies::Off {
            *replies = Replies::SkipNext;
        }
    } else {
        return Err(CmdError::Syntax);
    }
    Ok(Reply::Written)
}

pub(super) fn monitor(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    if cx.in_transaction {
        return Err(CmdError::MonitorInTransaction);
    }
    if cx.session.monitors {
        // As in Redis: a second time is not even answered.
        return Ok(Reply::Written);
    }
    let me: Arc<dyn Subscriber> = Arc::clone(runner.client) as _;
    cx.engine.monitors().add(me);
    runner.client.set_monitors(true);
    cx.session.monitors = true;
    Ok(Reply::Ok)
}

/// Ends monitoring.
pub(crate) fn stop_monitor(engine: &Engine, client: &Client, session: &mut Session) {
    if std::mem::take(&mut session.monitors) {
        engine.monitors().remove(client.id);
        client.set_monitors(false);
    }
}
