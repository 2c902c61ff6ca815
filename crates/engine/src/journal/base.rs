//! The base of an append-only file: a snapshot, and at its moment the file behind it begins.
//!
//! What is recorded afterwards goes to both files: to the one in force, so that it stays good when the new base fails, and
//! to the one behind the base.

use std::io::Write;
use std::sync::Arc;

use tollgate_limiter::Timestamp;

use crate::Engine;
use crate::held::while_held;
use crate::snapshot::{Form, Purpose, SnapshotError, Wanted};

impl Engine {
    /// Writes all data as they are now, while commands run on. `follow`: what changes meanwhile is recorded for a file
    /// behind the base, which is to be put in force with [`Engine::promote_next_log`] or given up with
    /// [`Engine::abandon_next_log`]. `pace` as for [`crate::Snapshot::write`].
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn write_base(
        self: &Arc<Self>,
        out: &mut dyn Write,
        form: Form,
        follow: bool,
        now: Timestamp,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), SnapshotError> {
        let wanted = Wanted {
            purpose: Purpose::Base,
            form,
            now: self.lapsed_before(now),
            waits: &mut || true,
        };
        let begun = self.begin_snapshot(wanted, |held| {
            if follow {
                while_held(held, || self.open_next_log());
            }
        });
        let Ok((mut snapshot, ())) = begun else {
            return Err(SnapshotError::Stopped);
        };
        snapshot.say("aof-base", "1");
        snapshot.write(out, pace)
    }
}
