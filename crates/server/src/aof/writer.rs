//! The thread that writes what the journal has gathered.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tollgate_net::{Clock, threads};

use super::files::Place;
use super::{Aof, Io, Policy};
use crate::shared::Shared;

/// Least time between two writes unless clients wait for them: writes of that time go together.
const PAUSE: Duration = Duration::from_millis(1);
/// Time between two fsync (`appendfsync everysec`), and two attempts after an error, in nanoseconds.
const SYNC_EVERY: i64 = 1_000_000_000;
/// How long the thread sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_secs(3_600);

/// Starts the thread, unless there is one.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let aof = &shared.aof;
    let mut thread = aof.thread.lock().unwrap_or_else(PoisonError::into_inner);
    if thread.is_none() && !aof.ending.load(Ordering::Acquire) {
        let shared = Arc::clone(shared);
        let run = move || run(&shared);
        *thread = Some(threads::spawn("tollgate-aof".to_owned(), None, run)?);
    }
    Ok(())
}

fn run(shared: &Shared) {
    let aof = &shared.aof;
    let mut wait = IDLE;
    while !aof.ending.load(Ordering::Acquire) {
        shared.engine.wait_for_records(wait);
        wait = turn(shared, &mut aof.lock_io());
        if wait.is_zero() {
            // There is an error: nothing helps but to try again.
            threads::stand_still(Duration::from_nanos(SYNC_EVERY as u64 / 10));
        } else if aof.policy() != Policy::Always {
            threads::stand_still(PAUSE);
        }
    }
}

/// Writes and syncs what is due; how long there is nothing to do unless something is appended.
fn turn(shared: &Shared, io: &mut Io) -> Duration {
    let aof = &shared.aof;
    if write(shared, io).is_err() {
        return Duration::ZERO;
    }
    let unsynced = io.main.is_some() && io.synced < io.written;
    let now = Clock::monotone();
    match aof.policy() {
        Policy::No => {}
        _ if !unsynced || aof.leaves_sync_out(shared) => {}
        Policy::Everysec if now - io.synced_at < SYNC_EVERY => {
            let left = SYNC_EVERY - (now - io.synced_at);
            aof.holds.release(shared, io.written);
            return Duration::from_nanos(left.unsigned_abs());
        }
        Policy::Always | Policy::Everysec => {
            if sync(shared, io).is_err() {
                return Duration::ZERO;
            }
        }
    }
    aof.holds.release(shared, io.written);
    match unsynced && aof.policy() != Policy::No && io.synced < io.written {
        // It was left out while a rewrite is at work: another look, whatever comes.
        true => Duration::from_nanos(SYNC_EVERY as u64),
        false => IDLE,
    }
}

/// Writes what the journal has.
pub(super) fn write(shared: &Shared, io: &mut Io) -> io::Result<()> {
    let aof = &shared.aof;
    aof.rest_before_writing();
    if io.pending.main.is_empty() && io.pending.next.is_empty() {
        shared.engine.take_records(&mut io.pending);
    }
    if let Some(next) = &mut io.next
        && let Err(error) = next.write(&mut io.pending.next)
    {
        shared
            .log
            .warning(format_args!("writing behind the new AOF base: {error}"));
        // The rewrite finds it gone and fails; the file in force has everything.
        io.next = None;
        shared.engine.abandon_next_log();
    }
    io.pending.next.clear();
    if let Some(main) = &mut io.main
        && let Err(error) = main.write(&mut io.pending.main)
    {
        failed(shared, "writing to", &error, |facts| {
            &mut facts.write_failed
        });
        return Err(error);
    }
    io.pending.main.clear();
    if aof.facts().write_failed {
        aof.lock_facts().write_failed = false;
        shared.log.warning(format_args!(
            "AOF write error looks solved, the server can write again."
        ));
        recovered(shared);
    }
    io.written = io.pending.position;
    shared.engine.log_written(io.written);
    aof.tell_sizes(io);
    Ok(())
}

/// Puts what was written on the disk.
pub(super) fn sync(shared: &Shared, io: &mut Io) -> io::Result<()> {
    let aof = &shared.aof;
    let Some(main) = &mut io.main else {
        return Ok(());
    };
    // Without its name a file is lost with all that is in it.
    let named = match io.folder_unsynced {
        true => super::sync_folder(&Place::of(shared)),
        false => Ok(()),
    };
    io.folder_unsynced &= named.is_err();
    let result = named.and_then(|()| main.sync());
    io.synced_at = Clock::monotone();
    if let Err(error) = result {
        failed(shared, "fsync of", &error, |facts| &mut facts.sync_failed);
        return Err(error);
    }
    if aof.facts().sync_failed {
        aof.lock_facts().sync_failed = false;
        recovered(shared);
    }
    io.synced = io.written;
    shared.engine.log_synced(io.synced);
    Ok(())
}

/// Writes and syncs all there is, as well as it goes.
pub(super) fn flush(shared: &Shared, io: &mut Io) {
    // What was taken before an error goes first.
    for _ in 0..2 {
        if write(shared, io).is_err() {
            return;
        }
    }
    if sync(shared, io).is_ok() {
        shared.aof.holds.release(shared, io.written);
    }
}

/// Writing has failed. What clients were promised by `appendfsync always` cannot be kept, so the server ends; otherwise
/// writes are refused until it works again.
fn failed(
    shared: &Shared,
    what: &str,
    error: &io::Error,
    mark: impl FnOnce(&mut super::AofFacts) -> &mut bool,
) {
    let aof = &shared.aof;
    if aof.policy() == Policy::Always {
        shared.log.warning(format_args!(
            "{what} the append-only file failed: {error}. Can't recover when the AOF fsync policy is 'always'. Exiting..."
        ));
        shared.log.flush();
        std::process::exit(1);
    }
    let mut facts = aof.lock_facts();
    let before = std::mem::replace(mark(&mut facts), true);
    drop(facts);
    if !before {
        shared
            .log
            .warning(format_args!("{what} the append-only file failed: {error}"));
    }
    shared.engine.log_fails(Some(&reason(error)));
    // Whoever waits for room would wait for the disk.
    aof.holds
        .release(shared, shared.engine.log_facts().appended);
}

fn recovered(shared: &Shared) {
    let facts = shared.aof.facts();
    if !facts.write_failed && !facts.sync_failed {
        shared.engine.log_fails(None);
    }
}

/// The system's reason, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

impl Aof {
    /// Bytes that wait to be written.
    pub(crate) fn buffered(&self, shared: &Shared) -> u64 {
        let facts = shared.engine.log_facts();
        facts.appended.saturating_sub(facts.written)
    }
}
