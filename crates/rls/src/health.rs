//! Whether the service should be asked: by its rules, its backend, and whether it is on its way down.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_limiter::{Act, AlgorithmKind, Cost, Method, Quota};
use tollgate_policy::{HotKey, LimitCheck, OnError, Role, Ruleset, Unit};

use crate::backend::AnyBackend;
use crate::fallback::Fallbacks;
use crate::log::{LogLevel, LogLine};

/// Time between two looks at the backend.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The counters that a look asks for.
const PROBE_KEY: &[u8] = b"rl:health";
const PROBE_KEY_PER_SECOND: &[u8] = b"rl:health:s";

/// What a service must have to be healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthNeeds {
    /// Rules. Without them it answers errors.
    pub rules: bool,
    /// A backend that decides, unless the rules say of every request what becomes of it meanwhile.
    pub backend: bool,
}

impl Default for HealthNeeds {
    fn default() -> Self {
        Self {
            rules: true,
            backend: true,
        }
    }
}

/// What the service depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    needs: HealthNeeds,
    rules: bool,
    backend: bool,
    /// The rules say what becomes of every request while the backend is away.
    alone: bool,
    /// Rules have not come yet, before which nobody is served.
    waiting: bool,
    stopping: bool,
}

impl Parts {
    const fn serving(self) -> bool {
        let has_rules = self.rules || !self.needs.rules;
        let has_backend = self.backend || self.alone || !self.needs.backend;
        has_rules && has_backend && !self.waiting && !self.stopping
    }
}

/// The service's health, as all of its threads see it.
#[derive(Clone, Debug)]
pub(crate) struct Health(Arc<watch::Sender<Parts>>);

/// Tells changes of health one after another.
#[derive(Debug)]
pub(crate) struct Follower {
    parts: watch::Receiver<Parts>,
    told: Option<bool>,
}

impl Health {
    /// Healthy as soon as there is what it needs; the backend is taken to be there.
    pub(crate) fn new(rules: &Ruleset, needs: HealthNeeds) -> Self {
        let health = Self(Arc::new(watch::Sender::new(Parts {
            needs,
            rules: false,
            backend: true,
            alone: false,
            waiting: false,
            stopping: false,
        })));
        health.have_rules(rules);
        health
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.0.borrow().serving()
    }

    /// It serves nobody until there are rules, whatever it needs later.
    pub(crate) fn wait_for_rules(&self) {
        self.change(|parts| parts.waiting = true);
    }

    /// These rules are in force from now on.
    pub(crate) fn have_rules(&self, rules: &Ruleset) {
        self.change(|parts| {
            parts.waiting &= !rules.is_loaded();
            parts.rules = rules.domain_count() > 0;
            parts.alone = rules.decides_without_backend();
        });
    }

    /// The service takes no more work, for good.
    pub(crate) fn stop(&self) {
        self.change(|parts| parts.stopping = true);
    }

    /// Whether that was a change.
    fn change(&self, change: impl FnOnce(&mut Parts)) -> bool {
        self.0.send_if_modified(|parts| {
            let before = *parts;
            change(parts);
            *parts != before
        })
    }

    pub(crate) fn follow(&self) -> Follower {
        Follower {
            parts: self.0.subscribe(),
            told: None,
        }
    }

    /// Asks the backend once a second whether it decides, until the service stops. The store of this process does not while it is
    /// a replica, has too few of its own, or cannot write what it counts. One elsewhere is looked at as long as it decides requests;
    /// since it has not, units are taken, because a store that can be read may not count.
    pub(crate) async fn probe(
        self,
        backend: AnyBackend,
        fallbacks: Fallbacks,
        log: LogLine,
        mut stopped: watch::Receiver<bool>,
    ) {
        let check = |key, unit: Unit, act| LimitCheck {
            key,
            method: Method::Small(AlgorithmKind::FixedWindowEpoch),
            quota: Quota::new(u64::from(u32::MAX), unit.nanos()),
            cost: Cost(u64::from(act == Act::Take)),
            role: Role::Enforced,
            act,
            descriptor: 0,
            on_error: OnError::DEFAULT,
            exact: false,
            predecessor: None,
            hot_key: HotKey::Exact,
        };
        // Limits per second may have a store of their own.
        let checks = |act| {
            [
                check(PROBE_KEY, Unit::Hour, act),
                check(PROBE_KEY_PER_SECOND, Unit::Second, act),
            ]
        };
        loop {
            let act = match fallbacks.is_down() {
                true => Act::Take,
                false => Act::Peek,
            };
            let answer = backend.decides(&checks(act)).await;
            if self.change(|parts| parts.backend = answer.is_ok()) {
                match &answer {
                    Ok(()) => log(LogLevel::Info, "the backend decides again"),
                    Err(error) if self.is_serving() => {
                        let line = format!("serving without the backend: {error}");
                        log(LogLevel::Warning, &line);
                    }
                    Err(error) => log(LogLevel::Error, &format!("not serving: {error}")),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(PROBE_INTERVAL) => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
        }
    }
}

impl Follower {
    /// Whether the service serves: at once for the first time, then whenever that has changed. `None` once nothing can
    /// change any more.
    pub(crate) async fn next(&mut self) -> Option<bool> {
        loop {
            let parts = *self.parts.borrow_and_update();
            if self.told != Some(parts.serving()) {
                self.told = Some(parts.serving());
                return self.told;
            }
            if parts.stopping || self.parts.changed().await.is_err() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(on_error: &str) -> Ruleset {
        let text = format!(
            "domain: d\ndescriptors: [{{key: a, rate_limit: {{unlimited: true}}}}, \
             {{key: b, rate_limit: {{unit: day, requests_per_unit: 1, on_error: {on_error}}}}}]\n"
        );
        Ruleset::load(&[("a", &text)]).expect("valid")
    }

    /// Whoever is asked by health alone must not be left out for what the rules provide for.
    #[test]
    fn rules_that_decide_without_the_backend_are_healthy_without_it() {
        for (on_error, serves) in [
            ("error", false),
            ("closed", true),
            ("{mode: open, budget: 1s}", true),
            ("local", true),
        ] {
            let health = Health::new(&rules(on_error), HealthNeeds::default());
            assert!(health.is_serving());
            health.change(|parts| parts.backend = false);
            assert_eq!(health.is_serving(), serves, "{on_error}");
            health.have_rules(&rules("error"));
            assert!(!health.is_serving());
        }
    }

    #[test]
    fn what_is_not_needed_may_be_away() {
        for (has_rules, has_backend) in [(false, true), (true, false), (false, false)] {
            for (needs_rules, needs_backend) in
                [(true, true), (true, false), (false, true), (false, false)]
            {
                let all = match has_rules {
                    true => rules("error"),
                    false => Ruleset::default(),
                };
                let needs = HealthNeeds {
                    rules: needs_rules,
                    backend: needs_backend,
                };
                let health = Health::new(&all, needs);
                health.change(|parts| parts.backend = has_backend);
                let wants = (has_rules || !needs_rules) && (has_backend || !needs_backend);
                assert_eq!(health.is_serving(), wants, "{needs:?}");
                health.stop();
                assert!(!health.is_serving());
            }
        }
    }

    #[tokio::test]
    async fn changes_are_told_once_and_the_end_ends() {
        let health = Health::new(&Ruleset::default(), HealthNeeds::default());
        let mut follower = health.follow();
        assert_eq!(follower.next().await, Some(false));
        health.have_rules(&rules("error"));
        assert!(health.is_serving());
        assert_eq!(follower.next().await, Some(true));
        assert!(health.change(|parts| parts.backend = false));
        assert!(!health.change(|parts| parts.backend = false));
        assert_eq!(follower.next().await, Some(false));
        health.stop();
        assert_eq!(follower.next().await, None);
        assert_eq!(health.follow().next().await, Some(false));
    }
}
