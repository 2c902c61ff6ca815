//! Making the file anew: a base that holds the data as they are, and what follows it.
//!
//! The file in force goes on until the new base and the file behind it are on the disk and the manifest that names them
//! takes the place of the old one. Whatever ends the server before leaves the old files, whatever ends it afterwards the
//! new ones.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate_engine::{Form, LogBytes, SnapshotError};
use tollgate_net::Clock;
use tollgate_net::files::Synced;
use tollgate_persist::aof::Manifest;
use tollgate_persist::rdb::Dialect;

use super::files::{LogFile, Place};
use super::{sync_folder, writer};
use crate::config::Key;
use crate::pace::pace;
use crate::shared::Shared;

/// Bytes after which a base is put on the disk (`aof-rewrite-incremental-fsync`).
const SYNC_BYTES: u64 = 4 << 20;
/// Rewrites that may fail in a row before the next one waits.
const FREE_FAILURES: u32 = 3;
/// The longest wait, in minutes.
const LONGEST_WAIT: i64 = 60;

/// What came of asking for a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It has begun.
    Begun,
    /// It will begin when the snapshot at work, or the transaction, is over.
    Scheduled,
    /// One is at work.
    Busy,
    /// There is no thread for it.
    Refused,
}

/// Has a worker make the file anew. `later`: not now.
pub(crate) fn ask(shared: &Arc<Shared>, later: bool) -> Asked {
    let aof = &shared.aof;
    if aof.is_rewriting() {
        return Asked::Busy;
    }
    if later || shared.is_taking_snapshot() {
        let mut facts = aof.lock_facts();
        facts.scheduled = true;
        return Asked::Scheduled;
    }
    if aof.rewriting.swap(true, Ordering::AcqRel) {
        return Asked::Busy;
    }
    aof.stop_rewriting.store(false, Ordering::Release);
    let mut facts = aof.lock_facts();
    facts.scheduled = false;
    facts.rewrites += 1;
    facts.rewrite_began = Some(Clock::monotone());
    drop(facts);
    let job = Arc::clone(shared);
    shared.log.notice(format_args!(
        "Background append only file rewriting started"
    ));
    let started = shared.workers.run(move || {
        let result = rewrite(&job);
        conclude(&job, result);
    });
    if started.is_err() {
        conclude(shared, Err(io::Error::other("there is no thread for it")));
        return Asked::Refused;
    }
    Asked::Begun
}

fn conclude(shared: &Shared, result: io::Result<bool>) {
    let aof = &shared.aof;
    let now = Clock::monotone();
    let mut facts = aof.lock_facts();
    let began = facts.rewrite_began.take().unwrap_or(now);
    facts.last_rewrite_secs = Some((now - began) / 1_000_000_000);
    match &result {
        Ok(true) => {
            facts.rewrite_failed = false;
            facts.failures_in_row = 0;
            facts.starting = false;
            facts.retry_at = 0;
        }
        Ok(false) => {}
        Err(_) => {
            facts.rewrite_failed = true;
            facts.failures_in_row += 1;
            let over = facts.failures_in_row.saturating_sub(FREE_FAILURES);
            let minutes = match over {
                0 => 0,
                over => (1_i64 << (over - 1).min(16)).min(LONGEST_WAIT),
            };
            // At least a second, as long as the next look takes.
            facts.retry_at = now + minutes * 60_000_000_000;
            if minutes > 0 {
                shared.log.warning(format_args!(
                    "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in {minutes} minutes"
                ));
            }
        }
    }
    drop(facts);
    aof.rewriting.store(false, Ordering::Release);
    match result {
        Ok(true) => shared
            .log
            .notice(format_args!("Background AOF rewrite finished successfully")),
        Ok(false) => shared
            .log
            .notice(format_args!("Background AOF rewrite was given up")),
        Err(error) => shared.log.warning(format_args!(
            "Background AOF rewrite terminated with error: {error}"
        )),
    }
    // An fsync may have been left out meanwhile.
    shared.engine.poke_log();
}

/// The end of a base's name, by `aof-use-rdb-preamble`.
pub(super) fn suffix(shared: &Shared) -> &'static str {
    match shared.settings.is_set(Key::AofUseRdbPreamble) {
        true => "rdb",
        false => "aof",
    }
}

/// True when the new file is in force; false when that is not wanted any more.
fn rewrite(shared: &Arc<Shared>) -> io::Result<bool> {
    let place = Place::of(shared);
    place.make_folder()?;
    let base = place.file("temp-rewriteaof-bg.aof");
    let next = place.file(&format!("temp-{}.incr", place.stem()));
    let follow = shared.aof.is_on();
    let result = write_both(shared, &base, follow.then_some(&next)).and_then(|whole| {
        Ok(whole && put_in_force(shared, &place, &base, follow.then_some(&next))?)
    });
    if !matches!(result, Ok(true)) {
        let mut io = shared.aof.lock_io();
        shared.engine.abandon_next_log();
        io.next = None;
        io.pending.next = Vec::new();
        // What is left of it is overwritten by the next attempt.
        drop((fs::remove_file(&base), fs::remove_file(&next)));
    }
    result
}

/// Writes the base, and has what follows written to `next`. False when it was stopped.
fn write_both(shared: &Arc<Shared>, base: &Path, next: Option<&Path>) -> io::Result<bool> {
    if let Some(next) = next {
        let mut io = shared.aof.lock_io();
        // From here on nothing of an earlier attempt is written.
        shared.engine.abandon_next_log();
        io.pending.next = Vec::new();
        io.next = Some(LogFile::create(next)?);
    }
    match write_base_file(shared, base, next.is_some()) {
        Ok(()) => Ok(true),
        Err(SnapshotError::Stopped) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes a base to a file and puts it on the disk.
pub(super) fn write_base_file(
    shared: &Shared,
    path: &Path,
    follow: bool,
) -> Result<(), SnapshotError> {
    let form = match suffix(shared) {
        "rdb" => Form::Rdb(Dialect::Redis),
        _ => Form::Commands,
    };
    let often = shared.settings.is_set(Key::AofRewriteIncrementalFsync);
    let file = Synced::new(File::create(path)?, often.then_some(SYNC_BYTES));
    let mut out = BufWriter::with_capacity(1 << 20, file);
    if form == Form::Commands && shared.settings.is_set(Key::AofTimestampEnabled) {
        write!(out, "#TS:{}\r\n", shared.now().secs())?;
    }
    let goes_on = || !shared.aof.stop_rewriting.load(Ordering::Acquire);
    let mut pace = pace(shared, &goes_on);
    shared
        .engine
        .write_base(&mut out, form, follow, shared.now(), &mut pace)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.into_file().sync_all()?;
    Ok(())
}

/// Names the new files in the manifest. True when they are in force.
fn put_in_force(
    shared: &Arc<Shared>,
    place: &Place,
    base: &Path,
    next: Option<&Path>,
) -> io::Result<bool> {
    let aof = &shared.aof;
    let mut io = aof.lock_io();
    if next.is_some() != aof.is_on() || aof.stop_rewriting.load(Ordering::Acquire) {
        return Ok(false);
    }
    // What was taken before an error goes first.
    for _ in 0..2 {
        writer::write(shared, &mut io)?;
    }
    let mut manifest = io.manifest.clone();
    let base_name = manifest.renew(place.stem(), suffix(shared)).name.clone();
    if let Some(next) = next {
        let Some(file) = &mut io.next else {
            return Err(io::Error::other(
                "what follows the base could not be written",
            ));
        };
        file.sync()?;
        let name = manifest.add_incr(place.stem()).name.clone();
        fs::rename(next, place.file(&name))?;
    }
    fs::rename(base, place.file(&base_name))?;
    sync_folder(place)?;
    // Once it is named there, the next start reads it: what follows must not go to the old file any more.
    let named = place.put_manifest(&manifest)?;
    io.manifest = manifest;
    io.folder_unsynced = named.is_err();
    if let Err(error) = &named {
        shared.log.warning(format_args!(
            "fsync of the folder of the AOF failed: {error}. The old files stay, and nothing counts as synced until it works."
        ));
    }
    let sizes = place.sizes(&io.manifest);
    if next.is_some() {
        shared.engine.promote_next_log();
        io.main = io.next.take();
        io.pending = LogBytes {
            position: io.written,
            ..LogBytes::default()
        };
        io.before = sizes.saturating_sub(io.main.as_ref().map_or(0, LogFile::len));
        if named.is_ok() {
            // All that was appended up to the last write is in the base or behind it, and on the disk.
            io.synced = io.written;
            io.synced_at = Clock::monotone();
            shared.engine.log_synced(io.synced);
            aof.holds.release(shared, io.written);
        }
    }
    let mut facts = aof.lock_facts();
    (facts.size, facts.base_size) = match next {
        Some(_) => (sizes, sizes),
        None => (0, 0),
    };
    drop(facts);
    if named.is_ok() && !shared.settings.is_set(Key::AofDisableAutoGc) {
        delete_history(shared, place, &mut io.manifest);
    }
    Ok(true)
}

/// Deletes the files that a manifest in force has no use for.
fn delete_history(shared: &Shared, place: &Place, manifest: &mut Manifest) {
    if let Err(error) = place.delete_history(manifest) {
        // They are deleted after the next rewrite.
        shared
            .log
            .warning(format_args!("deleting old files of the AOF: {error}"));
    }
}
