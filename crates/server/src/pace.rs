//! How fast a snapshot is written, and when it stops.

use std::time::Duration;

use tollgate_net::threads;

use crate::shared::Shared;

/// Longest sleep, so that a setting that is changed, or the end, is noticed soon.
const SLICE_MICROS: i64 = 10_000;

/// For [`tollgate_engine::Snapshot::write`]: waits as `rdb-key-save-delay` says, while `goes_on`.
pub(crate) fn pace<'a>(
    shared: &'a Shared,
    goes_on: &'a dyn Fn() -> bool,
) -> impl FnMut(u64) -> bool + 'a {
    // Microseconds still to be waited, and keys that have not made one.
    let (mut owed, mut keys) = (0, 0);
    let goes_on = move || goes_on() && !shared.engine.snapshot_is_over();
    move |entries| {
        let entries = i64::try_from(entries).unwrap_or(i64::MAX);
        match shared.engine.limits().rdb_key_save_delay() {
            0 => return goes_on(),
            micros @ 1.. => owed += micros.saturating_mul(entries),
            per_micro => {
                keys += entries;
                owed += keys / per_micro.saturating_neg();
                keys %= per_micro.saturating_neg();
            }
        }
        while owed > 0 && goes_on() && shared.engine.limits().rdb_key_save_delay() != 0 {
            let slice = owed.min(SLICE_MICROS);
            threads::stand_still(Duration::from_micros(slice.unsigned_abs()));
            owed -= slice;
        }
        owed = owed.max(0);
        if shared.engine.limits().rdb_key_save_delay() == 0 {
            owed = 0;
        }
        goes_on()
    }
}
