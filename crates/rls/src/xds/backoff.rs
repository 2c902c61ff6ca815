//! How long a client waits before it tries again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The least wait, so that no setting makes a client spin.
const LEAST: Duration = Duration::from_millis(100);

/// Waits after a stream has failed, each `factor` times the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XdsBackoff {
    /// The first, and the least.
    pub initial: Duration,
    /// The longest.
    pub most: Duration,
    /// What each is multiplied by; 2 where it is not above 0.
    pub factor: f64,
    /// Each is anywhere between the least and what it would be.
    pub jitter: bool,
}

/// Waits of one client.
pub(super) struct Waits {
    backoff: XdsBackoff,
    failures: i32,
}

impl Waits {
    pub(super) fn new(backoff: XdsBackoff) -> Self {
        Self {
            backoff,
            failures: 0,
        }
    }

    /// What failed has worked: the next wait is the first again.
    pub(super) fn begin_again(&mut self) {
        self.failures = 0;
    }

    pub(super) fn next(&mut self) -> Duration {
        let wait = self.backoff.after(self.failures, share());
        self.failures = self.failures.saturating_add(1);
        wait
    }
}

impl XdsBackoff {
    /// The wait after so many failures before; `share` is from 0 to 1.
    fn after(&self, failures: i32, share: f64) -> Duration {
        let initial = self.initial.max(LEAST);
        if initial >= self.most {
            return self.most.max(LEAST);
        }
        let factor = if self.factor > 0.0 { self.factor } else { 2.0 };
        let whole = initial.as_secs_f64() * factor.powi(failures);
        let wait = match self.jitter {
            true => initial.as_secs_f64() + share * (whole - initial.as_secs_f64()),
            false => whole,
        };
        // What is no duration is longer than any.
        let wait = Duration::try_from_secs_f64(wait.max(0.0)).unwrap_or(Duration::MAX);
        wait.clamp(initial, self.most)
    }
}

/// About so long, half of it more or less.
pub(super) fn about(wait: Duration) -> Duration {
    wait.max(LEAST).mul_f64(0.5 + share())
}

/// At random, from 0 to 1.
fn share() -> f64 {
    const STEPS: u64 = 1 << 20;
    (RandomState::new().hash_one(()) % STEPS) as f64 / STEPS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn backoff(initial: Duration, most: Duration, factor: f64, jitter: bool) -> XdsBackoff {
        XdsBackoff {
            initial,
            most,
            factor,
            jitter,
        }
    }

    #[test]
    fn waits_grow_by_the_factor_up_to_the_most() {
        let plain = backoff(SECOND, 20 * SECOND, 3.0, false);
        let waits = [0, 1, 2, 3, i32::MAX].map(|failures| plain.after(failures, 0.5).as_secs());
        assert_eq!(waits, [1, 3, 9, 20, 20]);
        let jitter = backoff(SECOND, 20 * SECOND, 3.0, true);
        for (failures, share, secs) in [(0, 0.9, 1.0), (2, 0.0, 1.0), (2, 0.5, 5.0), (2, 1.0, 9.0)]
        {
            let wait = jitter.after(failures, share).as_secs_f64();
            assert_eq!(wait, secs, "{failures} {share}");
        }
        // The factor that envoyproxy/ratelimit has where none is given.
        let falling = backoff(10 * SECOND, 60 * SECOND, 0.5, true);
        for failures in 0..100 {
            assert_eq!(falling.after(failures, share()), 10 * SECOND);
        }
        let unsaid = backoff(SECOND, 20 * SECOND, 0.0, false);
        assert_eq!(unsaid.after(2, 0.0), 4 * SECOND);
    }

    #[test]
    fn no_setting_makes_a_client_spin() {
        for most in [Duration::ZERO, SECOND, Duration::MAX] {
            for factor in [f64::NAN, f64::INFINITY, -1.0, 1e-300, 1e300] {
                let mut waits = Waits::new(backoff(Duration::ZERO, most, factor, true));
                assert!((0..100).all(|_| waits.next() >= LEAST), "{most:?} {factor}");
            }
        }
        for _ in 0..100 {
            assert!(about(Duration::ZERO) >= LEAST / 2);
            assert!((1.5..=4.5).contains(&about(3 * SECOND).as_secs_f64()));
        }
    }

    #[test]
    fn after_something_worked_the_first_wait_comes_again() {
        let mut waits = Waits::new(backoff(SECOND, 20 * SECOND, 2.0, false));
        assert_eq!([waits.next(), waits.next()], [SECOND, 2 * SECOND]);
        waits.begin_again();
        assert_eq!(waits.next(), SECOND);
    }
}
