//! REPLICAOF and SLAVEOF, and what a replica tells of itself.

use super::NodeRunner;
use super::info::Text;
use crate::aof;
use crate::config::Key;
use crate::failover;
use crate::link::{Link, LinkFacts, Master, Stage};
use crate::shared::Shared;
use std::io;
use std::sync::Arc;
use tollgate_commands::{CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::{NodeCx, RoleError};
use tollgate_limiter::Timestamp;
use tollgate_net::process;

pub(super) fn replicaof(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    if cx.engine.cluster().is_on() {
        return Err(CmdError::NoReplicaOfInCluster);
    }
    if runner.shared.failover.stage() != failover::Stage::None {
        return Err(CmdError::err("REPLICAOF not allowed while failing over."));
    }
    let (host, port) = (cx.args.next()?, cx.args.next()?);
    if host.eq_ignore_ascii_case(b"NO") && port.eq_ignore_ascii_case(b"ONE") {
        let was_replica = runner.shared.link.facts().master.is_some();
        become_master(runner.shared, cx.now)?;
        if was_replica {
            runner.shared.log.notice(format_args!(
                "MASTER MODE enabled (user request from '{}')",
                runner.shown(cx)
            ));
        }
        return Ok(Reply::Ok);
    }
    if cx.session.follows {
        return Err(CmdError::err(
            "Command is not valid when client is a replica.",
        ));
    }
    let port = number::parse_i64(port).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(CmdError::err("Invalid master port"))?;
    let host = String::from_utf8_lossy(host);
    let facts = runner.shared.link.facts();
    let same = |it: &Master| it.host.eq_ignore_ascii_case(&host) && it.port == port;
    if facts.master.as_ref().is_some_and(same) {
        runner.shared.log.notice(format_args!(
            "REPLICAOF would result into synchronization with the master we are already connected with. No operation \
             performed."
        ));
        return Ok(Reply::Simple("OK Already connected to specified master"));
    }
    follow(runner.shared, &host, port, None).map_err(NotFollowed::into_error)?;
    runner.shared.log.notice(format_args!(
        "REPLICAOF {host}:{port} enabled (user request from '{}')",
        runner.shown(cx)
    ));
    Ok(Reply::Ok)
}

/// Why no master is followed.
pub(crate) enum NotFollowed {
    /// The journal has got on.
    Moved,
    Refused(CmdError),
}

impl NotFollowed {
    fn into_error(self) -> CmdError {
        match self {
            NotFollowed::Moved => refused(RoleError::Moved),
            NotFollowed::Refused(error) => error,
        }
    }
}

/// Makes this server the replica of a master, whether that is there or not; only if the journal ends `at` that byte, where
/// that is said.
pub(crate) fn follow(
    shared: &Arc<Shared>,
    host: &str,
    port: u16,
    at: Option<u64>,
) -> Result<(), NotFollowed> {
    // Before anybody can be told to go there.
    let before = shared.engine.master();
    shared
        .engine
        .set_master(Some(format!("{host}:{port}").into()));
    let following = shared.engine.follow(at).map_err(|error| {
        shared.engine.set_master(before);
        match error {
            RoleError::Moved => NotFollowed::Moved,
            error => NotFollowed::Refused(refused(error)),
        }
    })?;
    shared.engine.dismiss_all();
    let master = Master {
        host: host.to_owned(),
        port,
    };
    let followed = Link::follow(shared, Some(master), following);
    followed.map_err(|error| NotFollowed::Refused(no_thread(&error)))?;
    tell_settings(shared);
    Ok(())
}

/// Makes this server a master, if it is none, which goes on with the data it has.
pub(crate) fn become_master(shared: &Arc<Shared>, now: Timestamp) -> Result<(), CmdError> {
    if shared.link.facts().master.is_none() {
        return Ok(());
    }
    let id = process::random_id().map_err(|error| CmdError::err(error.to_string()))?;
    let lost = shared.engine.has_lost_data();
    let following = shared.engine.stop_following(&id, now).map_err(refused)?;
    Link::follow(shared, None, following).map_err(|error| no_thread(&error))?;
    if lost {
        // What there is counts from now on, though it is nothing.
        aof::resume(shared);
    }
    tell_settings(shared);
    Ok(())
}

/// Follows the master that the configuration names.
pub(crate) fn follow_at_start(shared: &Arc<Shared>) -> Result<(), String> {
    let master = shared.settings.get(Key::ReplicaOf);
    let Some((host, port)) = master.split_once(' ') else {
        return Ok(());
    };
    let port = port
        .parse()
        .map_err(|_| format!("replicaof: {port} is not a port"))?;
    let followed = follow(shared, host, port, None).map_err(NotFollowed::into_error);
    followed.map_err(|error| String::from_utf8_lossy(&error.to_line()).into_owned())
}

fn refused(error: RoleError) -> CmdError {
    match error {
        RoleError::Loading | RoleError::Over | RoleError::Moved => CmdError::Loading,
    }
}

fn no_thread(error: &io::Error) -> CmdError {
    CmdError::err(format!("no thread for the link to the master: {error}"))
}

/// CONFIG GET and CONFIG REWRITE show the master that is followed.
fn tell_settings(shared: &Shared) {
    shared.follow_role(shared.link.facts().master.is_some());
    let text = match shared.link.facts().master {
        Some(Master { host, port }) => format!("{host} {port}"),
        None => String::new(),
    };
    shared.settings.correct(Key::ReplicaOf, &text);
}

/// ROLE of a replica; `None` of a master.
pub(super) fn role(shared: &Shared, cx: &mut NodeCx<'_>) -> Option<Reply> {
    let LinkFacts { master, stage, .. } = shared.link.facts();
    let master = master?;
    cx.out.array(5);
    cx.out.bulk(b"slave");
    cx.out.bulk(master.host.as_bytes());
    cx.out.int(i64::from(master.port));
    cx.out.bulk(stage.name().as_bytes());
    let offset = match stage {
        Stage::Connected => cx.engine.journal_facts().offset as i64,
        _ => -1,
    };
    cx.out.int(offset);
    Some(Reply::Written)
}

/// The lines of INFO that replicas have.
pub(super) fn info(text: &mut Text, shared: &Shared, facts: &LinkFacts, now: i64) {
    let Some(master) = &facts.master else { return };
    let is_up = facts.stage == Stage::Connected;
    let secs_since = |at: i64| (now - at).max(0) / 1_000_000_000;
    text.line("master_host", &master.host);
    text.line("master_port", master.port);
    text.line("master_link_status", if is_up { "up" } else { "down" });
    let heard = if is_up {
        secs_since(facts.heard_at)
    } else {
        -1
    };
    text.line("master_last_io_seconds_ago", heard);
    let in_sync = facts.stage == Stage::Sync;
    text.line("master_sync_in_progress", u8::from(in_sync));
    let applied = shared.engine.place().map_or(1, |place| place.offset);
    let read = if is_up {
        facts.read.max(applied)
    } else {
        applied
    };
    text.line("slave_read_repl_offset", read);
    text.line("slave_repl_offset", applied);
    if in_sync {
        let progress = facts.progress;
        let total = progress.total.map_or(-1, |total| total as i64);
        let read = progress.read as i64;
        let percent = match progress.total {
            None | Some(0) => 0.0,
            Some(total) => progress.read as f64 / total as f64 * 100.0,
        };
        text.line("master_sync_total_bytes", total);
        text.line("master_sync_read_bytes", read);
        text.line("master_sync_left_bytes", total - read);
        text.line("master_sync_perc", format_args!("{percent:.2}"));
        text.line("master_sync_last_io_seconds_ago", secs_since(progress.at));
    }
    if !is_up {
        let down = match facts.down_since {
            0 => -1,
            since => secs_since(since),
        };
        text.line("master_link_down_since_seconds", down);
    }
    if !facts.error.is_empty() {
        text.line("master_link_error", facts.error.replace(['\r', '\n'], " "));
    }
    let flag = |key| u8::from(&*shared.settings.get(key) == "yes");
    text.line("slave_priority", shared.settings.get(Key::ReplicaPriority));
    text.line("slave_read_only", flag(Key::ReplicaReadOnly));
    text.line("replica_announced", flag(Key::ReplicaAnnounced));
}
