//! Monotonic time as plain nanoseconds, and what reading it costs.

use std::time::Instant;

/// Nanoseconds per second.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// Nanoseconds per millisecond.
pub(crate) const MILLI: u64 = 1_000_000;

/// A monotonic clock that counts nanoseconds from its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that reads about 0 now.
    #[must_use]
    pub(crate) fn start() -> Clock {
        Clock {
            origin: Instant::now(),
        }
    }

    /// Nanoseconds since the clock was started.
    #[inline]
    #[must_use]
    pub(crate) fn now(&self) -> u64 {
        // A u64 of nanoseconds lasts 584 years.
        self.origin.elapsed().as_nanos() as u64
    }
}

/// Mean cost of one clock reading, in nanoseconds, over `readings` readings.
#[must_use]
pub(crate) fn reading_cost_ns(readings: u32) -> f64 {
    let clock = Clock::start();
    let mut last = 0;
    for _ in 0..readings {
        last = std::hint::black_box(clock.now());
    }
    last as f64 / f64::from(readings.max(1))
}

/// The kernel's clock source, such as `tsc`. `None` where the system does not say.
#[must_use]
pub(crate) fn source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}
