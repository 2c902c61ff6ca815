//! What becomes of requests that the backend cannot decide: each rule says by `on_error`.
//!
//! An outage begins with the first request that could not be decided. It is over when requests are decided again and for
//! [`QUIET_MS`] none has failed: where only a part of the store is away, or only now and then, some are decided all the
//! time. What a rule grants for a time (`budget`) counts from the beginning; afterwards it is closed.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tollgate_engine::Handle;
use tollgate_limiter::{Act, Decision, Timestamp};
use tollgate_policy::{Fallback, LimitCheck, Role};

use crate::backend::{BackendError, Checks, Decisions, Embedded, local_store};
use crate::combine;

/// Response header that names what decided in the backend's place.
pub(crate) const HEADER: &str = "x-ratelimit-fallback";

/// Entries looked at for their expiry with each local decision.
const EXPIRE_BUDGET: usize = 32;
/// How long the client of a closed rule is asked to wait: one second.
const RETRY_NANOS: u64 = 1_000_000_000;

/// How long no request may fail before the next outage is another one: ten seconds.
const QUIET_MS: u64 = 10_000;

/// Outages as all threads of the service see them.
#[derive(Clone)]
pub(crate) struct Fallbacks(Arc<State>);

struct State {
    clock: fn() -> Timestamp,
    started: Instant,
    /// The latest request could not be decided.
    down: AtomicBool,
    /// When the latest outage began, and when a request failed last, in milliseconds after `started`, plus one; 0: never.
    began: AtomicU64,
    failed: AtomicU64,
    errors: AtomicU64,
    /// Requests by what decided them, in the order of [`Fallback::ALL`].
    decided: [AtomicU64; Fallback::ALL.len()],
    /// The counters of rules that decide locally, made when there is need.
    local: OnceLock<Handle>,
}

/// Decisions made in the backend's place.
pub(crate) struct Made {
    pub(crate) decisions: Decisions,
    /// What decided.
    pub(crate) by: Fallback,
}

impl Fallbacks {
    pub(crate) fn new(clock: fn() -> Timestamp) -> Self {
        Self(Arc::new(State {
            clock,
            started: Instant::now(),
            down: AtomicBool::new(false),
            began: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            decided: Default::default(),
            local: OnceLock::new(),
        }))
    }

    /// Whether the latest request could not be decided.
    pub(crate) fn is_down(&self) -> bool {
        self.0.down.load(Ordering::Relaxed)
    }

    /// The backend has decided a request.
    pub(crate) fn answered(&self) {
        // Nearly always a read of what nobody writes.
        if self.is_down() {
            self.0.down.store(false, Ordering::Relaxed);
        }
    }

    /// Decides the checks of a request in the backend's place. A rule that is closed denies the request, and then nothing
    /// is taken anywhere; else one that leaves the error to its caller makes it one.
    ///
    /// # Errors
    /// The backend's, where a rule wants it.
    pub(crate) fn decide(
        &self,
        checks: &[LimitCheck<'_>],
        error: BackendError,
    ) -> Result<Made, BackendError> {
        self.0.errors.fetch_add(1, Ordering::Relaxed);
        let made = self.decide_by_rules(checks, self.lasts(true))?;
        made.ok_or_else(|| {
            self.count(Fallback::Error);
            error
        })
    }

    /// As [`decide`](Self::decide) for a request that the backend was not asked about, because too many wait for it already:
    /// it is not away for that, but a `budget` is spent. `None` where a rule leaves it to the caller.
    pub(crate) fn decide_unasked(
        &self,
        checks: &[LimitCheck<'_>],
    ) -> Result<Option<Made>, BackendError> {
        let says_nothing = |check: &LimitCheck<'_>| check.on_error.fallback == Fallback::Error;
        if checks.iter().all(says_nothing) {
            return Ok(None);
        }
        self.decide_by_rules(checks, self.lasts(false))
    }

    /// What the rules say after the backend could not decide for so long; `None` where one leaves it to the caller.
    fn decide_by_rules(
        &self,
        checks: &[LimitCheck<'_>],
        lasts: Duration,
    ) -> Result<Option<Made>, BackendError> {
        let modes: Vec<Fallback> = checks.iter().map(|check| mode_of(check, lasts)).collect();
        let denies = |(check, mode): (&LimitCheck<'_>, &Fallback)| {
            *mode == Fallback::Closed && matches!(check.role, Role::Enforced | Role::Quota)
        };
        let closed = checks.iter().zip(&modes).any(denies);
        if !closed && modes.contains(&Fallback::Error) {
            return Ok(None);
        }
        let mut decisions: Decisions = checks
            .iter()
            .zip(&modes)
            .map(|(check, mode)| by_mode(check, *mode))
            .collect();
        let local: Vec<usize> = (0..checks.len())
            .filter(|&at| modes[at] == Fallback::Local)
            .collect();
        if !local.is_empty() {
            let asked: Checks<'_> = local
                .iter()
                .map(|&at| share_of(&checks[at], closed))
                .collect();
            for (&at, made) in local.iter().zip(self.decide_locally(&asked)?) {
                decisions[at] = made;
            }
        }
        let by = [Fallback::Closed, Fallback::Local, Fallback::Open];
        let by = by.into_iter().find(|mode| modes.contains(mode));
        let by = by.unwrap_or(Fallback::Error);
        self.count(by);
        Ok(Some(Made { decisions, by }))
    }

    /// How long the outage has lasted; it begins with the first question. The backend is away if it `is_down`, else only full.
    fn lasts(&self, is_down: bool) -> Duration {
        let now = self.0.started.elapsed();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX - 1) + 1;
        self.lasts_at(now_ms, is_down)
    }

    fn lasts_at(&self, now_ms: u64, is_down: bool) -> Duration {
        let state = &*self.0;
        let failed = state.failed.swap(now_ms, Ordering::Relaxed);
        let was_up = match is_down {
            true => !state.down.swap(true, Ordering::Relaxed),
            false => !state.down.load(Ordering::Relaxed),
        };
        let is_new = was_up && (failed == 0 || now_ms.saturating_sub(failed) >= QUIET_MS);
        if is_new {
            state.began.store(now_ms, Ordering::Relaxed);
        }
        // Another thread may have begun it just now, and not said when yet.
        let began = match state.began.load(Ordering::Relaxed) {
            0 => now_ms,
            began => began,
        };
        Duration::from_millis(now_ms.saturating_sub(began))
    }

    fn decide_locally(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        let handle = self.0.local.get_or_init(local_store);
        handle.engine().expire_step((self.0.clock)(), EXPIRE_BUDGET);
        let local = Embedded::new(handle.clone(), self.0.clock);
        let decided = combine::decide(&local, checks).now_or_never();
        decided.expect("the store in this process never waits")
    }

    fn count(&self, by: Fallback) {
        self.0.decided[by as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// What a check's rule wants after an outage of this length.
fn mode_of(check: &LimitCheck<'_>, lasts: Duration) -> Fallback {
    match check.on_error.budget {
        Some(budget) if lasts >= Duration::from_nanos(budget) => Fallback::Closed,
        _ => check.on_error.fallback,
    }
}

/// The decision of a rule that does not count.
fn by_mode(check: &LimitCheck<'_>, mode: Fallback) -> Decision {
    let limit = check.quota.limit;
    match mode {
        Fallback::Closed => Decision {
            limit,
            retry_after: Some(RETRY_NANOS),
            reset_after: RETRY_NANOS,
            ..Decision::DENIED
        },
        Fallback::Error | Fallback::Open | Fallback::Local => Decision {
            allowed: true,
            limit,
            remaining: limit,
            retry_after: Some(0),
            reset_after: 0,
        },
    }
}

/// A check on this service's share of its limit.
fn share_of<'a>(check: &LimitCheck<'a>, only_look: bool) -> LimitCheck<'a> {
    LimitCheck {
        quota: check.on_error.share_of(&check.quota),
        act: if only_look { Act::Peek } else { check.act },
        ..*check
    }
}

impl fmt::Display for Fallbacks {
    /// In the form that Prometheus reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = &self.0;
        let name = "tollgate_backend_up";
        let up = u8::from(!self.is_down());
        writeln!(
            f,
            "# HELP {name} Whether the backend has decided the latest request.\n# TYPE {name} gauge\n{name} {up}"
        )?;
        let name = "tollgate_backend_errors_total";
        let errors = state.errors.load(Ordering::Relaxed);
        writeln!(
            f,
            "# HELP {name} Requests that the backend could not decide.\n# TYPE {name} counter\n{name} {errors}"
        )?;
        let name = "tollgate_fallback_total";
        writeln!(
            f,
            "# HELP {name} Requests that the backend could not decide, by the on_error mode that decided instead.\n# TYPE {name} counter"
        )?;
        for mode in Fallback::ALL {
            let count = state.decided[mode as usize].load(Ordering::Relaxed);
            writeln!(f, "{name}{{mode=\"{}\"}} {count}", mode.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_limiter::{AlgorithmKind, Cost, Method, Quota};
    use tollgate_policy::{HotKey, OnError};

    fn check(key: &[u8], fallback: Fallback) -> LimitCheck<'_> {
        LimitCheck {
            key,
            method: Method::Small(AlgorithmKind::FixedWindowEpoch),
            quota: Quota::new(10, 3_600_000_000_000),
            cost: Cost(1),
            role: Role::Enforced,
            act: Act::Take,
            descriptor: 0,
            on_error: OnError {
                fallback,
                ..OnError::DEFAULT
            },
            exact: false,
            predecessor: None,
            hot_key: HotKey::Exact,
        }
    }

    fn fallbacks() -> Fallbacks {
        Fallbacks::new(|| Timestamp::from_secs(7_200))
    }

    fn down() -> BackendError {
        BackendError::new("down")
    }

    /// Whether the request passes, and by what.
    fn made(fallbacks: &Fallbacks, checks: &[LimitCheck<'_>]) -> (bool, Fallback) {
        let made = fallbacks.decide(checks, down()).expect("decided");
        let passes = made.decisions.iter().all(|decision| decision.allowed);
        (passes, made.by)
    }

    #[test]
    fn each_rule_has_its_way() {
        let all = fallbacks();
        let (open, closed) = (check(b"o", Fallback::Open), check(b"c", Fallback::Closed));
        let error = check(b"e", Fallback::Error);
        assert_eq!(made(&all, &[open]), (true, Fallback::Open));
        assert_eq!(made(&all, &[closed]), (false, Fallback::Closed));
        assert_eq!(made(&all, &[open, closed]), (false, Fallback::Closed));
        assert_eq!(made(&all, &[error, closed]), (false, Fallback::Closed));
        assert!(all.decide(&[open, error], down()).is_err());
        let metrics = all.to_string();
        for line in [
            "tollgate_backend_up 0",
            "tollgate_backend_errors_total 5",
            "tollgate_fallback_total{mode=\"closed\"} 3",
            "tollgate_fallback_total{mode=\"open\"} 1",
            "tollgate_fallback_total{mode=\"error\"} 1",
        ] {
            assert!(metrics.lines().any(|found| found == line), "{metrics}");
        }
        all.answered();
        assert!(all.to_string().contains("tollgate_backend_up 1"));
    }

    #[test]
    fn a_local_rule_admits_its_share_and_takes_nothing_for_what_is_denied() {
        let all = fallbacks();
        let mut local = check(b"l", Fallback::Local);
        local.on_error.share_ppm = 300_000;
        let closed = check(b"c", Fallback::Closed);
        for _ in 0..5 {
            assert_eq!(made(&all, &[local, closed]), (false, Fallback::Closed));
        }
        let passed = (0..9).filter(|_| made(&all, &[local]).0).count();
        assert_eq!(passed, 3);
    }

    #[test]
    fn a_budget_that_is_spent_closes() {
        let all = fallbacks();
        let mut open = check(b"o", Fallback::Open);
        open.on_error.budget = Some(3_600_000_000_000);
        assert!(made(&all, &[open]).0);
        assert_eq!(mode_of(&open, Duration::from_secs(3_599)), Fallback::Open);
        assert_eq!(mode_of(&open, Duration::from_secs(3_600)), Fallback::Closed);
        open.on_error.budget = Some(0);
        assert_eq!(made(&all, &[open]), (false, Fallback::Closed));
    }

    #[test]
    fn a_backend_without_room_is_not_away() {
        let all = fallbacks();
        let (open, error) = (check(b"o", Fallback::Open), check(b"e", Fallback::Error));
        let asked = |checks: &[LimitCheck<'_>]| {
            let made = all.decide_unasked(checks).expect("a decision");
            made.map(|made| made.by)
        };
        assert_eq!(asked(&[open]), Some(Fallback::Open));
        assert_eq!(asked(&[error]), None);
        assert_eq!(asked(&[open, error]), None);
        let mut spent = open;
        spent.on_error.budget = Some(0);
        assert_eq!(asked(&[spent, error]), Some(Fallback::Closed));
        let metrics = all.to_string();
        for line in [
            "tollgate_backend_up 1",
            "tollgate_backend_errors_total 0",
            "tollgate_fallback_total{mode=\"open\"} 1",
            "tollgate_fallback_total{mode=\"closed\"} 1",
            "tollgate_fallback_total{mode=\"error\"} 0",
        ] {
            assert!(metrics.lines().any(|found| found == line), "{metrics}");
        }
    }

    #[test]
    fn an_outage_of_a_part_is_one_however_many_requests_are_decided_meanwhile() {
        let all = fallbacks();
        let lasts = |at| all.lasts_at(at, true).as_millis() as u64;
        for at in (1..90_000).step_by(100) {
            assert_eq!(lasts(at), at - 1);
            all.answered();
        }
        // It ends when none fails for a while, and not before one is decided.
        assert_eq!(lasts(200_000), 0);
        assert_eq!(lasts(300_000), 100_000);
    }
}
