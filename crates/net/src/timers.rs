//! When a loop has to wake up without an event.

use crate::driver::Driver;

/// The due times of one loop, in clock nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    next_tick: Option<i64>,
    next_sweep: Option<i64>,
    /// Set once stopping: give up on unsent output then.
    pub(crate) stop_at: Option<i64>,
}

impl Timers {
    /// The earliest of them.
    pub(crate) fn earliest(&self) -> Option<i64> {
        [self.next_tick, self.next_sweep, self.stop_at]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn tick_due(&self, now: i64) -> bool {
        self.next_tick.is_some_and(|due| now >= due)
            || self.next_sweep.is_some_and(|due| now >= due)
    }

    /// Calls the driver's tick; tells whether connections are to be checked for silence as well.
    pub(crate) fn tick(&mut self, driver: &mut impl Driver, now: i64) -> bool {
        self.next_tick = driver.tick(now);
        let Some(interval) = driver.sweep_interval() else {
            self.next_sweep = None;
            return false;
        };
        let sweep = self.next_sweep.is_some_and(|due| now >= due);
        if sweep {
            self.next_sweep = None;
        }
        self.next_sweep.get_or_insert(now + interval);
        sweep
    }
}
