//! CONFIG's sub-commands.

use super::NodeRunner;
use super::acl::system_reason;
use crate::aof;
use crate::config::{Key, Live, Values, failed, find};
use crate::shared::Shared;
use crate::snapshot;
use std::io::ErrorKind;
use tollgate_commands::{CmdError, Reply};
use tollgate_engine::NodeCx;
use tollgate_net::files;

pub(super) fn get(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let found = shared.settings.matching(cx.args.rest());
    cx.out.map(found.len());
    for (name, value) in found {
        cx.out.bulk(&name);
        cx.out.bulk(value.as_bytes());
    }
    Ok(Reply::Written)
}

pub(super) fn set(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let shared = runner.shared;
    let (pairs, rest) = cx.args.rest().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CmdError::Syntax);
    }
    let pairs: Vec<_> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    if shared.engine.is_loading() && pairs.iter().any(|(name, _)| needs_data(name)) {
        return Err(CmdError::Loading);
    }
    let protected = runner.is_allowed(Key::EnableProtectedConfigs);
    let apply = |keys: &[Key], values: &Values<'_>| shared.apply(keys, values);
    let kept = |settings: &Live| settings.is_set(Key::AppendOnly);
    let before = kept(&shared.settings);
    shared.settings.set(&pairs, protected, apply)?;
    shared.judge();
    shared.settings.configure(&shared.engine);
    // A limit that is new counts what is there beside the data from the next command on.
    shared.audit_memory();
    snapshot::follow_failure(shared);
    if let Err(reason) = aof::switch(shared, kept(&shared.settings), cx.in_transaction) {
        let old = if before { "yes" } else { "no" };
        shared.settings.correct(Key::AppendOnly, old);
        return Err(failed(Key::AppendOnly.setting().name.as_bytes(), &reason));
    }
    // Sweeps and rounds of the expiry follow the new settings at once. A loop whose mailbox is full follows at its next tick.
    shared.mailboxes.tick_all().ok();
    Ok(Reply::Ok)
}

/// Settings that say where the data are, and so stay while those are being loaded.
fn needs_data(name: &[u8]) -> bool {
    let setting = std::str::from_utf8(name).ok().and_then(find);
    let kept = [Key::AppendOnly, Key::Dir, Key::ReplDisklessLoad];
    setting.is_some_and(|setting| kept.contains(&setting.key))
}

pub(super) fn rewrite(shared: &Shared) -> Result<Reply, CmdError> {
    let Some(path) = &shared.settings.file else {
        return Err(CmdError::err("The server is running without a config file"));
    };
    let users = shared.settings.get(Key::AclFile).is_empty().then(|| {
        let users = shared.engine.access().users();
        users.iter().map(|user| user.to_line()).collect::<Vec<_>>()
    });
    let old = match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    let written = old.and_then(|old| {
        let new = crate::config::rewrite(&old, &shared.settings.asked(), users.as_deref());
        files::replace(path, &mut |out| out.write_all(&new))
    });
    written.map_err(|error| {
        let reason = system_reason(&error);
        shared
            .log
            .warning(format_args!("CONFIG REWRITE failed: {reason}"));
        CmdError::err(format!("Rewriting config file: {reason}"))
    })?;
    shared
        .log
        .warning(format_args!("CONFIG REWRITE executed with success."));
    Ok(Reply::Ok)
}

pub(super) fn reset_stat(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    cx.engine.reset_stats();
    shared.metrics.reset();
    shared.clients.reset_stats();
    Ok(Reply::Ok)
}
