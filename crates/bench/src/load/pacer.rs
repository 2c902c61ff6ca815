//! Wakes the generator less often when it would otherwise use up its core.
//!
//! Below the threshold every wake-up handles what is ready at once. When the thread uses most of a core, a
//! short pause between wake-ups lets several requests and replies share a system call. Requests are never sent
//! early, each keeps its intended time, and the pause shows in the send lag.
//!
//! The measure is processor time, not time awake: on a virtual machine, falling asleep for 30 us can cost 15 us of it.

/// Length of the windows over which the load of the thread is judged.
const WINDOW_NS: u64 = 5_000_000;
/// Share of a core above which the pause grows.
const BUSY_HIGH: f64 = 0.70;
/// Share below which it shrinks.
const BUSY_LOW: f64 = 0.62;
/// First pause.
const HOLD_FIRST_NS: u64 = 10_000;
/// Longest pause.
const HOLD_MAX_NS: u64 = 150_000;

/// The current pause, adapted to how busy the thread is.
#[derive(Debug)]
pub(crate) struct Pacer {
    hold_ns: u64,
    window_start: u64,
    cpu_at_start: Option<u64>,
}

impl Pacer {
    /// No pause, starting at `now` with `cpu_ns` of processor time used by the thread.
    #[must_use]
    pub(crate) fn new(now: u64, cpu_ns: Option<u64>) -> Pacer {
        Pacer {
            hold_ns: 0,
            window_start: now,
            cpu_at_start: cpu_ns,
        }
    }

    /// The thread woke up at `now`; returns how long it should stay away next. `cpu_ns` reads the processor time of
    /// the thread and is asked for once per window. Where it is not known there is no pause.
    pub(crate) fn woke(&mut self, now: u64, cpu_ns: impl FnOnce() -> Option<u64>) -> u64 {
        let length = now.saturating_sub(self.window_start);
        if length >= WINDOW_NS {
            let cpu = cpu_ns();
            if let (Some(before), Some(after)) = (self.cpu_at_start, cpu) {
                self.adapt(after.saturating_sub(before) as f64 / length as f64);
            }
            self.window_start = now;
            self.cpu_at_start = cpu;
        }
        self.hold_ns
    }

    fn adapt(&mut self, busy: f64) {
        if busy > BUSY_HIGH {
            self.hold_ns = (self.hold_ns * 6 / 5).clamp(HOLD_FIRST_NS, HOLD_MAX_NS);
        } else if busy < BUSY_LOW {
            let shrunk = self.hold_ns * 9 / 10;
            self.hold_ns = if shrunk < HOLD_FIRST_NS { 0 } else { shrunk };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_under_load_and_vanishes_after_it() {
        let (mut now, mut cpu) = (0, 0);
        let mut pacer = Pacer::new(now, Some(cpu));
        let mut run = |share: u64| {
            let mut hold = 0;
            for _ in 0..100 {
                now += WINDOW_NS;
                cpu += WINDOW_NS * share / 100;
                hold = pacer.woke(now, || Some(cpu));
            }
            hold
        };
        assert_eq!(run(95), HOLD_MAX_NS);
        assert_eq!(run(65), HOLD_MAX_NS);
        assert_eq!(run(10), 0);
    }

    #[test]
    fn without_a_processor_clock_there_is_no_pause() {
        let mut pacer = Pacer::new(0, None);
        assert_eq!(pacer.woke(10 * WINDOW_NS, || None), 0);
    }
}
