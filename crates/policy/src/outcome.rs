//! Decisions as callers of this service's own interface, headers and metrics see them.

use std::borrow::Cow;
use std::collections::HashMap;

use tollgate_limiter::{Decision, Method, Nanos};
use tollgate_wire::rls::RateLimitRequest;

use crate::headers::{Retry, Standing};
use crate::resolve::{Item, Resolved, Role};
use crate::ruleset::Quota;

/// One limit that applied to a request.
#[derive(Clone, Debug)]
pub struct Outcome<'r> {
    /// Index of the descriptor that it applied to.
    pub descriptor: usize,
    /// Its name in the rules; empty where it has none.
    pub name: &'r str,
    /// Domain and rules on the way to it, joined by dots; empty where the request brings it.
    pub rule: &'r str,
    /// How it counts; `None` for one without a limit.
    pub counting: Option<Counting>,
    /// What it means for the request.
    pub role: Role,
    /// The rule itself is in shadow mode.
    pub shadow: bool,
    /// It is a quota, by its rule or because all are.
    pub quota: bool,
    /// It denies this request, or would if it were enforced.
    pub over: bool,
}

/// A limit that counts.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// How.
    pub algorithm: &'static str,
    /// Units per window.
    pub quota: u64,
    /// Units that may pass at one instant; as many as the quota where nothing else is said.
    pub burst: u64,
    /// Length of the window; of a calendar's about, of places in use how long a lease lasts.
    pub window: Nanos,
    /// What the request weighs, or gives back.
    pub cost: u64,
    /// What was decided.
    pub decision: Decision,
}

impl Resolved<'_> {
    /// What applied, in the order of descriptors and of the limits of each; those without a limit are left out.
    ///
    /// # Panics
    /// When there are not as many decisions as [`checks`](Resolved::checks).
    pub fn outcomes(&self, decisions: &[Decision]) -> Vec<Outcome<'_>> {
        let mut decisions = decisions.iter();
        let mut outcomes = Vec::new();
        for (descriptor, item) in self.items.iter().enumerate() {
            match item {
                Item::Free => {}
                Item::Unlimited(limit) => outcomes.push(Outcome {
                    descriptor,
                    name: &limit.name,
                    rule: &limit.series,
                    counting: None,
                    role: Role::Enforced,
                    shadow: false,
                    quota: false,
                    over: false,
                }),
                Item::Limited(applied) => {
                    for part in &self.parts[applied.parts.clone()] {
                        let decision = decisions.next().expect("one decision for each check");
                        outcomes.push(Outcome {
                            descriptor,
                            name: part.name,
                            rule: applied.limit.map_or("", |limit| &limit.series),
                            counting: Some(Counting {
                                algorithm: part.bound.method.name(),
                                quota: part.bound.quota.limit,
                                burst: part.bound.quota.burst,
                                window: part.bound.window(),
                                cost: applied.cost,
                                decision: *decision,
                            }),
                            role: applied.role,
                            shadow: applied.is_shadow(),
                            quota: self.quota_of(applied.limit) != Quota::No,
                            over: !decision.allowed && applied.role != Role::Refund,
                        });
                    }
                }
            }
        }
        outcomes
    }
}

/// How long a request waits until it passes, if nobody else takes: as long as the slowest enforced limit, and as the first of
/// its quotas if all of them deny. `None` when it never can.
fn wait_of(outcomes: &[Outcome<'_>]) -> Option<Nanos> {
    let mut longest = 0;
    let mut first_quota: Option<Option<Nanos>> = None;
    for limits in outcomes.chunk_by(|one, next| one.descriptor == next.descriptor) {
        let mut over = limits.iter().filter(|outcome| outcome.over);
        let wait = over.try_fold(0, |longest, outcome| {
            let counting = outcome.counting.as_ref()?;
            Some(counting.decision.retry_after?.max(longest))
        });
        match limits[0].role {
            Role::Enforced => longest = longest.max(wait?),
            Role::Quota => {
                first_quota = Some(match first_quota {
                    None => wait,
                    Some(known) => [known, wait].into_iter().flatten().min(),
                });
            }
            Role::Shadow | Role::Refund => {}
        }
    }
    match first_quota {
        None => Some(longest),
        Some(first) => Some(longest.max(first?)),
    }
}

/// What who asked is told of asking again.
pub fn retry_of(passed: bool, outcomes: &[Outcome<'_>]) -> Retry {
    match passed {
        true => Retry::Passed,
        false => wait_of(outcomes).map_or(Retry::Never, Retry::After),
    }
}

/// The limits as headers and problems tell of them, in their order. No two have one name, by which clients know what is left of
/// which: behind those of the first limit called so there is a number.
pub fn standings<'a>(outcomes: &'a [Outcome<'_>], request: &RateLimitRequest) -> Vec<Standing<'a>> {
    let standings = outcomes
        .iter()
        .filter_map(|outcome| outcome.standing(request));
    let mut standings: Vec<Standing<'a>> = standings.collect();
    if standings.len() > 1 {
        tell_apart(&mut standings);
    }
    standings
}

fn tell_apart(standings: &mut [Standing<'_>]) {
    // The last number of each name. Names may come from requests, so this is one of the maps that they cannot attack.
    let mut taken: HashMap<String, usize> = HashMap::with_capacity(standings.len());
    for standing in standings {
        let Some(&last) = taken.get(&*standing.name) else {
            taken.insert(standing.name.to_string(), 1);
            continue;
        };
        let mut numbered =
            (last + 1..).map(|number| (number, format!("{}-{number}", standing.name)));
        let free = numbered.find(|(_, name)| !taken.contains_key(name));
        let (number, name) = free.expect("there are more numbers than names");
        taken.insert(standing.name.to_string(), number);
        taken.insert(name.clone(), 1);
        standing.name = Cow::Owned(name);
    }
}

/// What clients are told to be the time until a limit's reset: who passed, until all units are there again; who is denied, until
/// the request would pass. That is what Envoy makes `Retry-After` of, and of a bucket its first unit comes long before its last. For
/// windows both are the same, as for what never passes, which no time is right for.
pub(crate) fn until_change(decision: &Decision, denied: bool) -> Nanos {
    match decision.retry_after {
        // Never 0: who comes back at once is denied again.
        Some(wait) if denied => wait.max(1),
        _ => decision.reset_after,
    }
}

/// Quota and window as clients are told of them: never is more left than the quota. A bucket that holds more than it earns in its
/// period is told by what it holds, and the time in which it earns that; so the rate is that of the rule.
pub(crate) fn told(quota: u64, burst: u64, window: Nanos) -> (u64, Nanos) {
    if burst <= quota || quota == 0 {
        return (quota, window);
    }
    let stretched = (u128::from(window) * u128::from(burst)).div_ceil(u128::from(quota));
    (burst, Nanos::try_from(stretched).unwrap_or(Nanos::MAX))
}

impl Outcome<'_> {
    /// As headers tell it; `None` without a limit. A limit without a name is called by the keys of its descriptor.
    fn standing(&self, request: &RateLimitRequest) -> Option<Standing<'_>> {
        let counting = self.counting.as_ref()?;
        let decision = &counting.decision;
        let seconds = |span: Nanos| span.div_ceil(1_000_000_000);
        let name = match self.name {
            "" => {
                let entries = request.descriptors.get(self.descriptor)?.entries.iter();
                let keys: Vec<&str> = entries.map(|entry| &*entry.key).collect();
                keys.join(".").into()
            }
            name => name.into(),
        };
        let over = self.over && !self.shadow;
        let (quota, window) = told(counting.quota, counting.burst, counting.window);
        Some(Standing {
            name,
            quota,
            window_secs: seconds(window),
            remaining: if decision.allowed || self.role == Role::Refund {
                decision.remaining
            } else {
                0
            },
            reset: until_change(decision, over),
            over,
            is_quota: self.quota,
            is_concurrency: counting.algorithm == Method::Concurrency.name(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(descriptor: usize, role: Role, retry_after: Option<Nanos>) -> Outcome<'static> {
        let over = retry_after != Some(0);
        Outcome {
            descriptor,
            name: "",
            rule: "",
            counting: Some(Counting {
                algorithm: "",
                quota: 1,
                burst: 1,
                window: 1,
                cost: 1,
                decision: Decision {
                    allowed: !over,
                    retry_after,
                    ..Decision::DENIED
                },
            }),
            role,
            shadow: role == Role::Shadow,
            quota: role == Role::Quota,
            over,
        }
    }

    #[test]
    fn limits_that_are_called_alike_are_told_apart() {
        let of = |names: &[&'static str]| {
            let named = |name: &&'static str| Outcome {
                name,
                ..outcome(0, Role::Enforced, Some(0))
            };
            let outcomes: Vec<_> = names.iter().map(named).collect();
            let told = standings(&outcomes, &RateLimitRequest::default());
            let names = told.iter().map(|standing| standing.name.to_string());
            names.collect::<Vec<_>>()
        };
        assert_eq!(of(&["a", "b"]), ["a", "b"]);
        assert_eq!(of(&["a", "b", "a", "a"]), ["a", "b", "a-2", "a-3"]);
        assert_eq!(
            of(&["a-2", "a", "a", "a-2", "a"]),
            ["a-2", "a", "a-3", "a-2-2", "a-4"]
        );
        assert_eq!(of(&["a", "a", "a-2"]), ["a", "a-2", "a-2-2"]);
    }

    #[test]
    fn a_request_waits_for_all_limits_and_for_one_of_its_quotas() {
        let limit = |at, wait| outcome(at, Role::Enforced, wait);
        let quota = |at, wait| outcome(at, Role::Quota, wait);
        let shadow = outcome(9, Role::Shadow, None);
        for (outcomes, wait) in [
            (
                vec![
                    limit(0, Some(3)),
                    limit(0, Some(7)),
                    limit(1, Some(5)),
                    shadow.clone(),
                ],
                Some(7),
            ),
            (vec![limit(0, Some(3)), limit(1, None)], None),
            (
                vec![quota(0, Some(9)), quota(1, Some(4)), quota(1, Some(6))],
                Some(6),
            ),
            (vec![quota(0, None), quota(1, Some(4))], Some(4)),
            (vec![quota(0, None), quota(1, None)], None),
            // The limit denies alone; a quota that is over does not matter beside one that is not.
            (
                vec![limit(0, Some(3)), quota(1, None), quota(2, Some(0))],
                Some(3),
            ),
            (vec![limit(0, Some(3)), quota(1, Some(8))], Some(8)),
        ] {
            assert_eq!(wait_of(&outcomes), wait, "{outcomes:?}");
        }
    }
}
