//! The snapshot file: loaded at the start, written by SAVE, BGSAVE and SHUTDOWN SAVE.

use crate::config::Key;
use crate::config::save_points::SavePoint;
use crate::shared::Shared;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tollgate_limiter::Timestamp;
use tollgate_net::{Clock, files};

/// Seconds between a snapshot in the background that failed and the next attempt.
const RETRY_SECS: i64 = 5;

/// What INFO tells of snapshots.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SnapshotFacts {
    /// Changes made to the data when the last snapshot was taken.
    pub(crate) changes_at_save: u64,
    /// Unix seconds of the last snapshot; of the start if there was none.
    pub(crate) last_save_secs: i64,
    pub(crate) last_failed: bool,
    /// Unix seconds of the last attempt.
    pub(crate) last_try_secs: i64,
    pub(crate) saves: u64,
    pub(crate) keys_loaded: u64,
    pub(crate) keys_expired: u64,
}

/// When and how snapshots were taken.
#[derive(Debug)]
pub(crate) struct SnapshotState {
    facts: Mutex<SnapshotFacts>,
    /// Held while a file is written: there is one temporary file.
    writing: Mutex<()>,
    /// BGSAVE has begun and not ended.
    in_background: AtomicBool,
    /// What SHUTDOWN has said of a snapshot at the end.
    at_end: Mutex<Option<bool>>,
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
            writing: Mutex::new(()),
            in_background: AtomicBool::new(false),
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

    /// Whether BGSAVE is at work.
    pub(crate) fn is_in_background(&self) -> bool {
        self.in_background.load(Ordering::Acquire)
    }

    /// Takes the right to write in the background; false when it is taken.
    pub(crate) fn begin_background(&self) -> bool {
        !self.in_background.swap(true, Ordering::AcqRel)
    }

    /// Gives it back.
    pub(crate) fn end_background(&self) {
        self.in_background.store(false, Ordering::Release);
    }

    /// Whether the end of the server takes another snapshot, whatever the settings say.
    pub(crate) fn save_at_end(&self, save: bool) {
        *self.at_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(save);
    }

    /// True when SHUTDOWN has asked for it, or has said nothing and it is `usual`, and something has changed since the last
    /// snapshot.
    pub(crate) fn is_due_at_end(&self, changes: u64, usual: bool) -> bool {
        let asked = *self.at_end.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = self.lock();
        asked.unwrap_or(usual) && (facts.last_failed || facts.changes_at_save != changes)
    }

    /// The point that has come, if one has. After a failure some seconds pass before the next attempt.
    fn due<'p>(
        &self,
        points: &'p [SavePoint],
        changes: u64,
        now_secs: i64,
    ) -> Option<&'p SavePoint> {
        let facts = self.lock();
        let unsaved = changes.saturating_sub(facts.changes_at_save);
        let elapsed = now_secs - facts.last_save_secs;
        let reached = |point: &SavePoint| unsaved >= point.changes && elapsed > point.seconds;
        let may_try = !facts.last_failed || now_secs - facts.last_try_secs > RETRY_SECS;
        points.iter().find(|point| may_try && reached(point))
    }
}

impl SnapshotState {
    /// The data were read from another file, which has what was changed so far.
    pub(crate) fn loaded_changes(&self, changes: u64) {
        self.lock().changes_at_save = changes;
    }

    /// Writes the snapshot beside the old one and puts it in its place. The error names the file.
    pub(crate) fn save(&self, shared: &Shared, now: Timestamp) -> Result<(), String> {
        let path = path(shared);
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted before the walk, so that what is changed meanwhile counts as unsaved.
        let changes = shared.engine.stats().changes;
        let written = files::replace(&path, &mut |out| shared.engine.save(out, now));
        let mut facts = self.lock();
        facts.last_failed = written.is_err();
        facts.last_try_secs = now.secs();
        if written.is_ok() {
            facts.saves += 1;
            facts.changes_at_save = changes;
            facts.last_save_secs = now.secs();
        }
        let log = &shared.log;
        match written {
            Ok(()) => {
                log.notice(format_args!("DB saved on disk"));
                Ok(())
            }
            Err(error) => {
                let reason = format!("cannot write the snapshot {}: {error}", path.display());
                log.warning(format_args!("{reason}"));
                Err(reason)
            }
        }
    }

    /// Loads the snapshot if there is one. The error names the file.
    pub(crate) fn load(&self, shared: &Shared, now: Timestamp) -> Result<(), String> {
        self.load_as(shared, now, false)
    }

    /// As [`SnapshotState::load`]; `merge`: what is in the store already is replaced, or else an error.
    pub(crate) fn load_as(
        &self,
        shared: &Shared,
        now: Timestamp,
        merge: bool,
    ) -> Result<(), String> {
        let path = path(shared);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(format!(
                    "cannot read the snapshot {}: {error}",
                    path.display()
                ));
            }
        };
        let began = Clock::monotone();
        let loaded = match merge {
            true => shared.engine.merge(&mut file, now),
            false => shared.engine.load(&mut file, now),
        };
        let loaded = loaded
            .map_err(|error| format!("cannot load the snapshot {}: {error}", path.display()))?;
        let mut facts = self.lock();
        facts.keys_loaded = loaded.keys as u64;
        facts.keys_expired = loaded.expired as u64;
        facts.changes_at_save = shared.engine.stats().changes;
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

/// Has a worker write the snapshot; the caller has begun it. False when no worker can.
pub(crate) fn save_in_background(shared: &Arc<Shared>) -> bool {
    let job = Arc::clone(shared);
    shared.log.notice(format_args!("Background saving started"));
    let started = shared.workers.run(move || {
        let now = Timestamp::from_nanos(Clock::now());
        // INFO tells whether it went well.
        match job.snapshot.save(&job, now) {
            Ok(()) => job
                .log
                .notice(format_args!("Background saving terminated with success")),
            Err(_) => job.log.warning(format_args!("Background saving error")),
        }
        job.snapshot.end_background();
    });
    let started = started.is_ok();
    if !started {
        shared.log.warning(format_args!(
            "Can't save in background: there is no thread for it"
        ));
        shared.snapshot.end_background();
    }
    started
}

/// Begins a snapshot in the background when one of the save points has come.
pub(crate) fn save_when_due(shared: &Arc<Shared>, now: Timestamp) {
    let points = shared.settings.save_points();
    let changes = shared.engine.stats().changes;
    if !points.is_empty()
        && !shared.engine.has_lost_data()
        && let Some(point) = shared.snapshot.due(&points, changes, now.secs())
        && shared.snapshot.begin_background()
    {
        shared.log.notice(format_args!(
            "{} changes in {} seconds. Saving...",
            point.changes, point.seconds
        ));
        save_in_background(shared);
    }
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
        let is_due = |points: &[SavePoint], changes, now| state.due(points, changes, now).is_some();
        let points =
            [(60, 100), (3_600, 1)].map(|(seconds, changes)| SavePoint { seconds, changes });
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
        assert!(state.is_due_at_end(1, true));
        assert!(!state.is_due_at_end(1, false));
        assert!(!state.is_due_at_end(0, true));
        state.save_at_end(true);
        assert!(state.is_due_at_end(1, false));
        state.save_at_end(false);
        assert!(!state.is_due_at_end(1, true));
    }
}
