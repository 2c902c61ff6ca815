//! The snapshot file: loaded at the start, written by SAVE, BGSAVE and SHUTDOWN SAVE.

use crate::config::Key;
use crate::config::save_points::SavePoint;
use crate::pace::pace;
use crate::shared::Shared;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tollgate_engine::{Purpose, Snapshot, SnapshotError};
use tollgate_limiter::Timestamp;
use tollgate_net::{Clock, files};

/// Seconds between a snapshot in the background that failed and the next attempt.
const RETRY_SECS: i64 = 5;

/// Bytes after which a snapshot is put on the disk (`rdb-save-incremental-fsync`).
const SYNC_BYTES: u64 = 4 << 20;

/// What INFO tells of snapshots.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SnapshotFacts {
    /// Changes made to the data when the last snapshot was taken.
    pub(crate) changes_at_save: u64,
    /// Where the data of the last one are in the history, as far as its place is of use; see [`place_to_keep`].
    place_at_save: Option<u64>,
    /// Unix seconds of the last snapshot; of the start if there was none.
    pub(crate) last_save_secs: i64,
    /// The last snapshot in the background could not be written, and none has been since.
    pub(crate) last_failed: bool,
    /// Unix seconds of the last attempt in the background.
    pub(crate) last_try_secs: i64,
    /// Snapshots that were begun.
    pub(crate) saves: u64,
    /// Those of them that were begun in the background.
    pub(crate) background_saves: u64,
    /// Monotone nanoseconds at which the one in the background began.
    pub(crate) began: Option<i64>,
    /// Seconds that the last one in the background took; `None`: there was none.
    pub(crate) last_secs: Option<i64>,
    /// Most bytes that commands had handed over to the last one in the background.
    pub(crate) last_handed_bytes: u64,
    /// One in the background is to begin as soon as possible.
    pub(crate) scheduled: bool,
    pub(crate) keys_loaded: u64,
    pub(crate) keys_expired: u64,
}

/// When and how snapshots were taken.
#[derive(Debug)]
pub(crate) struct SnapshotState {
    facts: Mutex<SnapshotFacts>,
    /// The files that are being written under a name of their own.
    temporary: Mutex<Vec<PathBuf>>,
    /// What SHUTDOWN has said of a snapshot at the end.
    at_end: Mutex<Option<bool>>,
}

/// Why a snapshot is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Point(SavePoint),
    Scheduled,
}

/// What there was when a snapshot was begun, or before.
#[derive(Debug, Clone, Copy)]
struct Had {
    changes: u64,
    place: Option<u64>,
}

impl Had {
    fn now(shared: &Shared) -> Had {
        Had {
            changes: shared.engine.changes(),
            place: place_to_keep(shared),
        }
    }
}

/// Where a master is in its history, if replicas may come back to where it is.
pub(crate) fn place_to_keep(shared: &Shared) -> Option<u64> {
    let facts = shared.engine.journal_facts();
    (facts.kept && !shared.engine.is_replica()).then_some(facts.offset)
}

/// As what a snapshot is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadAs {
    /// As the data of a server that starts, with their place in the history.
    Start,
    /// As data; what is in the store already is an error.
    Data,
    /// As data; what is in the store already is replaced.
    Merged,
}

/// What came of asking for a snapshot in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It has begun.
    Begun,
    /// It will begin when what is at work is over.
    Scheduled,
    /// One is being written.
    Busy,
    /// The append-only file is being made anew.
    OtherBusy,
    /// There is no thread for it.
    Refused,
}

impl SnapshotState {
    /// No snapshot yet; `now` in clock nanoseconds.
    pub(crate) fn new(now: i64) -> SnapshotState {
        let facts = SnapshotFacts {
            last_save_secs: now / 1_000_000_000,
            ..SnapshotFacts::default()
        };
        SnapshotState {
            facts: Mutex::new(facts),
            temporary: Mutex::default(),
            at_end: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SnapshotFacts> {
        // Facts are plain values.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn facts(&self) -> SnapshotFacts {
        *self.lock()
    }

    /// Whether BGSAVE is at work, from its moment until the file is in its place.
    pub(crate) fn is_in_background(&self) -> bool {
        self.lock().began.is_some()
    }

    /// Whether another snapshot is being taken that SAVE and BGSAVE do not wait for.
    pub(crate) fn is_busy(&self, shared: &Shared) -> bool {
        let at_work = shared.engine.snapshot_progress().purpose;
        self.is_in_background() || matches!(at_work, Some(Purpose::Save | Purpose::Replica))
    }

    /// Whether the end of the server takes another snapshot, whatever the settings say.
    pub(crate) fn save_at_end(&self, save: bool) {
        *self.at_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(save);
    }

    /// True when SHUTDOWN has asked for it, or has said nothing and it is `usual`, and something has changed since the last
    /// snapshot: the data, or the place where replicas come back to.
    pub(crate) fn is_due_at_end(&self, changes: u64, place: Option<u64>, usual: bool) -> bool {
        let asked = *self.at_end.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = self.lock();
        let changed =
            facts.changes_at_save != changes || place.is_some() && facts.place_at_save != place;
        asked.unwrap_or(usual) && (facts.last_failed || changed)
    }

    /// Why one is due: a point that has come, or that one was asked for. After a failure some seconds pass before the next
    /// attempt.
    fn due(&self, points: &[SavePoint], changes: u64, now_secs: i64) -> Option<Due> {
        let facts = self.lock();
        if facts.last_failed && now_secs - facts.last_try_secs <= RETRY_SECS {
            return None;
        }
        let unsaved = changes.saturating_sub(facts.changes_at_save);
        let elapsed = now_secs - facts.last_save_secs;
        let reached = |point: &&SavePoint| unsaved >= point.changes && elapsed > point.seconds;
        let point = points.iter().find(reached).copied().map(Due::Point);
        point.or(facts.scheduled.then_some(Due::Scheduled))
    }
}

impl SnapshotState {
    /// The data were read from another file, which has what was changed so far.
    pub(crate) fn loaded_changes(&self, changes: u64) {
        self.lock().changes_at_save = changes;
    }

    /// Writes the snapshot beside the old one and puts it in its place, when one that is being taken has ended. The error
    /// names the file.
    pub(crate) fn save(&self, shared: &Shared, now: Timestamp) -> Result<(), String> {
        self.lock().saves += 1;
        // Counted before, so that what is changed meanwhile counts as unsaved.
        let had = Had::now(shared);
        let mut pace = pace(shared, &|| true);
        let written = self.replace(shared, &mut |out| {
            shared.engine.save(out, now, &mut pace).map_err(Into::into)
        });
        if written.is_ok() {
            self.saved(had, now);
            follow_failure(shared);
        }
        match written {
            Ok(()) => {
                shared.log.notice(format_args!("DB saved on disk"));
                Ok(())
            }
            Err(error) => {
                let path = path(shared);
                let reason = format!("cannot write the snapshot {}: {error}", path.display());
                shared.log.warning(format_args!("{reason}"));
                Err(reason)
            }
        }
    }

    fn replace(
        &self,
        shared: &Shared,
        fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let often = shared.settings.is_set(Key::RdbSaveIncrementalFsync);
        let sync_bytes = often.then_some(SYNC_BYTES);
        let path = path(shared);
        let temporary = self.begin_file(&path);
        let result = files::replace_by(&path, &temporary, sync_bytes, fill);
        self.lock_temporary().retain(|file| *file != temporary);
        result
    }

    fn lock_temporary(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        // Paths are put in and taken out whole.
        let temporary = self.temporary.lock();
        temporary.unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that is written first: `temp-PID.rdb`, as Redis names it, unless another snapshot has it.
    fn begin_file(&self, path: &Path) -> PathBuf {
        let pid = std::process::id();
        let mut temporary = self.lock_temporary();
        let mut file = path.with_file_name(format!("temp-{pid}.rdb"));
        let mut number = 0;
        while temporary.contains(&file) {
            number += 1;
            file = path.with_file_name(format!("temp-{pid}-{number}.rdb"));
        }
        temporary.push(file.clone());
        file
    }

    /// The process ends in the midst of it: what is not whole is removed.
    pub(crate) fn remove_temporary(&self) {
        for file in &*self.lock_temporary() {
            // One that stays is of no use and does no harm.
            drop(std::fs::remove_file(file));
        }
    }

    /// A snapshot of that moment is on the disk.
    fn saved(&self, had: Had, now: Timestamp) {
        let mut facts = self.lock();
        facts.last_failed = false;
        facts.changes_at_save = had.changes;
        facts.place_at_save = had.place;
        facts.last_save_secs = now.secs();
    }

    /// Begins one in the background: the data are those of now. `later`: not now. `may_wait`: it is to come later when it
    /// cannot begin now.
    pub(crate) fn ask(&self, shared: &Arc<Shared>, later: bool, may_wait: bool) -> Asked {
        if self.is_busy(shared) {
            return Asked::Busy;
        }
        let at_work = shared.engine.snapshot_progress().purpose;
        if later || at_work.is_some() || shared.aof.is_rewriting() {
            return self.schedule(later || may_wait);
        }
        let had = Had::now(shared);
        let now = shared.now();
        match shared.engine.begin_save(now) {
            Ok(snapshot) => self.write_in_background(shared, snapshot, had, now),
            Err(Purpose::Base) => self.schedule(may_wait),
            Err(Purpose::Save | Purpose::Replica) => Asked::Busy,
        }
    }

    fn schedule(&self, wanted: bool) -> Asked {
        if !wanted {
            return Asked::OtherBusy;
        }
        self.lock().scheduled = true;
        Asked::Scheduled
    }

    /// Has a worker write the snapshot.
    fn write_in_background(
        &self,
        shared: &Arc<Shared>,
        snapshot: Snapshot,
        had: Had,
        now: Timestamp,
    ) -> Asked {
        let mut facts = self.lock();
        facts.scheduled = false;
        facts.saves += 1;
        facts.background_saves += 1;
        facts.last_try_secs = now.secs();
        facts.began = Some(Clock::monotone());
        drop(facts);
        let job = Arc::clone(shared);
        let started = shared.workers.run(move || {
            let mut peak = 0;
            let result = job.snapshot.write(&job, snapshot, &mut peak);
            job.snapshot.conclude(&job, result, peak, (had, now));
        });
        if started.is_err() {
            let none = SnapshotError::Io(io::Error::other("there is no thread for it"));
            self.conclude(shared, Err(none), 0, (had, now));
            return Asked::Refused;
        }
        shared.log.notice(format_args!("Background saving started"));
        Asked::Begun
    }

    fn write(
        &self,
        shared: &Shared,
        snapshot: Snapshot,
        peak: &mut u64,
    ) -> Result<(), SnapshotError> {
        let (mut snapshot, mut failed) = (Some(snapshot), None);
        let mut pace = pace(shared, &|| true);
        let written = self.replace(shared, &mut |out| {
            let Some(snapshot) = snapshot.take() else {
                return Err(io::Error::other("it is written once"));
            };
            let result = snapshot.write(out, &mut |entries| {
                *peak = shared.engine.snapshot_progress().handed_peak_bytes;
                pace(entries)
            });
            result.map_err(|error| {
                let told = io::Error::other(error.to_string());
                failed = Some(error);
                told
            })
        });
        match (written, failed) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// One in the background has ended; one that was stopped counts as if it had not been begun.
    fn conclude(
        &self,
        shared: &Shared,
        result: Result<(), SnapshotError>,
        peak: u64,
        (had, now): (Had, Timestamp),
    ) {
        if result.is_ok() {
            self.saved(had, now);
        }
        let mut facts = self.lock();
        let ended = Clock::monotone();
        let began = facts.began.take().unwrap_or(ended);
        facts.last_secs = Some((ended - began) / 1_000_000_000);
        facts.last_handed_bytes = peak;
        facts.last_failed = match &result {
            Ok(()) => false,
            Err(SnapshotError::Stopped) => facts.last_failed,
            Err(SnapshotError::Io(_) | SnapshotError::Stuck) => true,
        };
        drop(facts);
        follow_failure(shared);
        let log = &shared.log;
        match result {
            Ok(()) => {
                log.notice(format_args!("DB saved on disk"));
                log.notice(format_args!("Background saving terminated with success"));
            }
            Err(SnapshotError::Stopped) => {
                log.notice(format_args!("Background saving was stopped"));
            }
            Err(error) => log.warning(format_args!("Background saving error: {error}")),
        }
    }

    /// Loads the snapshot if there is one. The error names the file.
    pub(crate) fn load(&self, shared: &Shared, now: Timestamp, as_: LoadAs) -> Result<(), String> {
        let path = path(shared);
        let mut file = match File::open(&path) {
            Ok(file) => shared.loading.count(file),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(format!(
                    "cannot read the snapshot {}: {error}",
                    path.display()
                ));
            }
        };
        let began = Clock::monotone();
        let loaded = match as_ {
            LoadAs::Start => shared.engine.restore(&mut file, now),
            LoadAs::Data => shared.engine.load(&mut file, now),
            LoadAs::Merged => shared.engine.merge(&mut file, now),
        };
        let loaded = loaded
            .map_err(|error| format!("cannot load the snapshot {}: {error}", path.display()))?;
        let mut facts = self.lock();
        facts.keys_loaded = loaded.keys as u64;
        facts.keys_expired = loaded.expired as u64;
        facts.changes_at_save = shared.engine.changes();
        shared.log.notice(format_args!(
            "Done loading RDB, keys loaded: {}, keys expired: {}.",
            loaded.keys, loaded.expired
        ));
        shared.log.notice(format_args!(
            "DB loaded from disk: {:.3} seconds",
            (Clock::monotone() - began) as f64 / 1e9
        ));
        Ok(())
    }
}

/// Begins a snapshot in the background when one of the save points has come, or one was asked for.
pub(crate) fn save_when_due(shared: &Arc<Shared>, now: Timestamp) {
    let points = shared.settings.save_points();
    let changes = shared.engine.changes();
    let flushed = shared.engine.take_flushed_all() && !points.is_empty();
    if shared.engine.has_lost_data() {
        return;
    }
    let due = shared.snapshot.due(&points, changes, now.secs());
    if due.is_none() && !flushed {
        return;
    }
    if let Some(Due::Point(point)) = due
        && !shared.is_taking_snapshot()
    {
        shared.log.notice(format_args!(
            "{} changes in {} seconds. Saving...",
            point.changes, point.seconds
        ));
    }
    // After FLUSHALL the file is not to hold what was there before for longer than need be.
    shared.snapshot.ask(shared, false, flushed);
}

/// Refuses writes while the last snapshot could not be written, if that is wanted (`stop-writes-on-bgsave-error`), or takes
/// them again.
pub(crate) fn follow_failure(shared: &Shared) {
    let refuses = shared.snapshot.facts().last_failed
        && shared.settings.is_set(Key::StopWritesOnBgsaveError)
        && !shared.settings.save_points().is_empty();
    shared.engine.refuse_unsaved(refuses);
}

fn path(shared: &Shared) -> PathBuf {
    Path::new(&*shared.settings.get(Key::Dir)).join(&*shared.settings.get(Key::DbFilename))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_when_a_point_has_come() {
        let state = SnapshotState::new(1_000 * 1_000_000_000);
        let points =
            [(60, 100), (3_600, 1)].map(|(seconds, changes)| SavePoint { seconds, changes });
        let is_due = |points: &[SavePoint], changes, now| state.due(points, changes, now).is_some();
        assert!(!is_due(&points, 100, 1_060));
        assert!(is_due(&points, 100, 1_061));
        assert!(!is_due(&points, 99, 4_600));
        assert!(is_due(&points, 1, 4_601));
        assert!(!is_due(&points, 0, 9_999));
        assert!(!is_due(&[], 100, 9_999));
        state.lock().changes_at_save = 50;
        assert!(!is_due(&points, 149, 1_061));
        // After a failure it waits a little.
        let mut facts = state.lock();
        (facts.last_failed, facts.last_try_secs) = (true, 1_200);
        drop(facts);
        assert!(!is_due(&points, 150, 1_205));
        assert!(is_due(&points, 150, 1_206));
    }

    #[test]
    fn the_end_takes_a_snapshot_of_what_has_changed() {
        let state = SnapshotState::new(0);
        assert!(state.is_due_at_end(1, None, true));
        assert!(!state.is_due_at_end(1, None, false));
        assert!(!state.is_due_at_end(0, None, true));
        state.save_at_end(true);
        assert!(state.is_due_at_end(1, None, false));
        state.save_at_end(false);
        assert!(!state.is_due_at_end(1, None, true));
    }

    #[test]
    fn the_end_takes_a_snapshot_of_where_replicas_come_back_to() {
        let state = SnapshotState::new(0);
        assert!(state.is_due_at_end(0, Some(0), true));
        state.lock().place_at_save = Some(7);
        assert!(!state.is_due_at_end(0, Some(7), true));
        assert!(state.is_due_at_end(0, Some(8), true));
        // A replica, or nobody has come.
        assert!(!state.is_due_at_end(0, None, true));
    }
}
