//! Waiting for the next due request: asleep, or asleep and then awake.
//!
//! A thread that sleeps wakes up late by what timer and scheduler need, some 10 us to 100 us. Who stays awake for the last
//! stretch sends on time, and keeps a core busy that the target's part of the kernel may need: that is why it is asked for.

use std::io;

/// Waits until `due`, until something is ready, or for `longest_ns`. Asleep up to `spin_ns` before `due`, awake from then
/// on: `wait` is asked again and again without a timeout. `now` reads the clock; `wait` gets a timeout and tells whether
/// anything is ready. Returns the time spent awake.
pub(crate) fn wait_until(
    due: u64,
    longest_ns: u64,
    spin_ns: u64,
    now: impl Fn() -> u64,
    mut wait: impl FnMut(u64) -> io::Result<bool>,
) -> io::Result<u64> {
    let left = due.saturating_sub(now());
    let asleep = left.saturating_sub(spin_ns);
    let ready = wait(asleep.min(longest_ns))?;
    if ready || spin_ns == 0 || asleep > longest_ns {
        return Ok(0);
    }
    let begun = now();
    let mut at = begun;
    while at < due && !wait(0)? {
        at = now();
    }
    Ok(now().saturating_sub(begun))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// What a sleep takes beyond its length.
    const OVERSLEPT: u64 = 60_000;
    /// What a look without a timeout takes.
    const LOOK: u64 = 500;
    const LONGEST: u64 = 50_000_000;

    /// A wait in a time of its own: when it ended, how often there was a look, and how long it was awake.
    fn waited(due: u64, spin_ns: u64, ready_at: Option<u64>) -> (u64, u32, u64) {
        let (time, looks) = (Cell::new(1_000_u64), Cell::new(0));
        let wait = |timeout: u64| {
            looks.set(looks.get() + u32::from(timeout == 0));
            let took = if timeout == 0 {
                LOOK
            } else {
                timeout + OVERSLEPT
            };
            let end = time.get() + took;
            let event = ready_at.filter(|at| *at <= end);
            time.set(event.unwrap_or(end).max(time.get()));
            Ok(event.is_some())
        };
        let awake = wait_until(due, LONGEST, spin_ns, || time.get(), wait).unwrap();
        (time.get(), looks.get(), awake)
    }

    #[test]
    fn who_sleeps_is_late_and_who_spins_is_not() {
        assert_eq!(waited(1_001_000, 0, None), (1_061_000, 0, 0));
        let (end, looks, awake) = waited(1_001_000, 100_000, None);
        assert!((1_001_000..1_001_000 + LOOK).contains(&end), "{end}");
        assert_eq!((u64::from(looks) * LOOK, awake), (40_000, 40_000));
        // Too little time to fall asleep in: awake from the beginning.
        let (end, looks, _) = waited(31_000, 100_000, None);
        assert!(
            (31_000..31_000 + LOOK).contains(&end) && looks == 60,
            "{end} {looks}"
        );
        // A sleep that was longer than the stretch left for it.
        assert_eq!(waited(1_001_000, 50_000, None), (1_011_000, 0, 0));
    }

    #[test]
    fn what_is_ready_ends_the_wait() {
        assert_eq!(waited(1_001_000, 100_000, Some(500_000)), (500_000, 0, 0));
        let (end, _, awake) = waited(1_001_000, 100_000, Some(970_000));
        assert_eq!((end, awake), (970_000, 9_000));
    }

    #[test]
    fn nothing_due_is_no_reason_to_stay_awake() {
        assert_eq!(
            waited(u64::MAX, 100_000, None),
            (1_000 + LONGEST + OVERSLEPT, 0, 0)
        );
        // Overdue already: one look, and no more.
        assert_eq!(waited(500, 100_000, None).1, 1);
    }
}
