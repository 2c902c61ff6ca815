//! What becomes of counters when the rules give their limit another number, algorithm or period.
//!
//! A rule that says how keeps its counters under keys that name the quota. New rules remember the quota before, so the first
//! decision on a new counter finds the old one and carries its units over, once.

use tollgate_limiter::{Method, Quota};

use crate::bound::Bound;
use crate::ruleset::{Level, NamedBound, Rate, Rule, Ruleset};

/// How a counter goes on under another limit; the words are those of bucket4j.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// It starts anew.
    Reset,
    /// The same share of it is left.
    Proportional,
    /// As many units are left, as far as the new limit has as many.
    AsIs,
    /// As many units are left, and by how many the new limit is larger.
    Additive,
}

impl Inherit {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Reset, Self::Proportional, Self::AsIs, Self::Additive];

    /// Its name in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Proportional => "proportional",
            Self::AsIs => "as_is",
            Self::Additive => "additive",
        }
    }

    /// Units that count as taken of a limit of `after` units when `left` of `before` were still there.
    pub fn used(self, left: u64, before: u64, after: u64) -> u64 {
        let left_after = match self {
            Self::Reset => after,
            Self::Proportional => match u128::from(before) {
                0 => after,
                whole => {
                    let share = u128::from(left) * u128::from(after) / whole;
                    u64::try_from(share).unwrap_or(u64::MAX)
                }
            },
            Self::AsIs => left,
            Self::Additive => left.saturating_add(after.saturating_sub(before)),
        };
        after.saturating_sub(left_after)
    }
}

/// The counter that a limit had before the rules changed.
#[derive(Clone, Copy, Debug)]
pub struct Predecessor<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// How it was counted.
    pub method: Method,
    /// Its limit.
    pub quota: Quota,
    /// How it goes on.
    pub way: Inherit,
    /// Which change of the rules it is from; grows by one with each.
    pub generation: u64,
}

impl Ruleset {
    /// These rules take the place of others: limits that say how they inherit know from now on what they were before.
    #[must_use]
    pub fn succeed(mut self, before: &Ruleset) -> Self {
        self.generation = before.generation + 1;
        for (name, level) in &mut self.domains {
            if let Some(old) = before.domains.get(name) {
                succeed_level(level, old);
            }
        }
        self
    }
}

/// The nesting is bounded by that of the file.
fn succeed_level(level: &mut Level, before: &Level) {
    for (key, rules) in &mut level.keys {
        let Some(old) = before.keys.get(key) else {
            continue;
        };
        for (value, rule) in &mut rules.exact {
            if let Some(old) = old.exact.get(value) {
                succeed_rule(rule, old);
            }
        }
        for (_, rule) in &mut rules.wildcards {
            let same = |(_, old): &&(_, Rule)| old.value == rule.value;
            if let Some((_, old)) = old.wildcards.iter().find(same) {
                succeed_rule(rule, old);
            }
        }
        if let (Some(rule), Some(old)) = (&mut rules.bare, &old.bare) {
            succeed_rule(rule, old);
        }
    }
}

fn succeed_rule(rule: &mut Rule, before: &Rule) {
    if let (Some(limit), Some(old)) = (&mut rule.limit, &before.limit)
        && let (Rate::Limited(bounds), Rate::Limited(old)) = (&mut limit.rate, &old.rate)
        // Where values no longer count together, or do so now, the counters have other keys.
        && limit.shared == before.limit.as_ref().is_some_and(|old| old.shared)
    {
        succeed_bounds(bounds, old);
    }
    if let (Some(children), Some(old)) = (&mut rule.children, &before.children) {
        succeed_level(children, old);
    }
}

/// A limit follows the one of the same name, else the one at its place; never one that still counts beside it.
fn succeed_bounds(bounds: &mut [NamedBound], before: &[NamedBound]) {
    let counting: Vec<String> = bounds.iter().map(|named| named.bound.tag()).collect();
    let is_over = |old: &Bound| !counting.contains(&old.tag()) && old.method != Method::Concurrency;
    let mut taken = vec![false; before.len()];
    for (at, named) in bounds.iter_mut().enumerate() {
        if named.bound.inherit.is_none() || named.bound.method == Method::Concurrency {
            continue;
        }
        if let Some(same) = before.iter().find(|old| old.bound.tag() == counting[at]) {
            named.previous = same.previous.filter(is_over);
            continue;
        }
        let by_name = before
            .iter()
            .position(|old| !old.name.is_empty() && old.name == named.name);
        let found = by_name.or((at < before.len()).then_some(at));
        let Some(found) = found.filter(|&found| !taken[found] && is_over(&before[found].bound))
        else {
            continue;
        };
        taken[found] = true;
        named.previous = Some(before[found].bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_on_as_the_words_say() {
        let used = |way: Inherit, left, before, after| way.used(left, before, after);
        // Three of ten are left, and the limit becomes fifteen, or five.
        assert_eq!(Inherit::ALL.map(|way| used(way, 3, 10, 15)), [0, 11, 12, 7]);
        assert_eq!(Inherit::ALL.map(|way| used(way, 3, 10, 5)), [0, 4, 2, 2]);
        assert_eq!(Inherit::ALL.map(|way| used(way, 10, 10, 5)), [0, 0, 0, 0]);
        assert_eq!(Inherit::ALL.map(|way| used(way, 0, 0, 7)), [0, 0, 7, 0]);
        let most = u64::MAX;
        assert_eq!(
            Inherit::ALL.map(|way| used(way, most, most, most)),
            [0, 0, 0, 0]
        );
    }

    fn rules(limit: &str) -> Ruleset {
        let text = format!(
            "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {{inherit: as_is, {limit}}}\n"
        );
        Ruleset::load(&[("a", &text)]).expect("valid")
    }

    fn before(rules: &Ruleset) -> Vec<Option<(u64, String)>> {
        let rule = rules.domains["d"].keys["a"].bare.as_ref().expect("there");
        let Rate::Limited(bounds) = &rule.limit.as_ref().expect("there").rate else {
            panic!("limited")
        };
        let previous = bounds.iter().map(|named| named.previous);
        previous
            .map(|bound| bound.map(|bound| (bound.quota.limit, bound.tag())))
            .collect()
    }

    #[test]
    fn a_changed_limit_knows_the_one_before() {
        let first = rules("unit: minute, requests_per_unit: 10");
        assert_eq!(before(&first), [None]);
        let second = rules("unit: minute, requests_per_unit: 20").succeed(&first);
        assert_eq!(before(&second), [Some((10, "m@10".to_owned()))]);
        // Other changes of the file leave that as it is.
        let third = rules("unit: minute, requests_per_unit: 20").succeed(&second);
        assert_eq!(before(&third), [Some((10, "m@10".to_owned()))]);
        let fourth =
            rules("period: 1s, requests_per_unit: 5, algorithm: gcra, burst: 9").succeed(&third);
        assert_eq!(before(&fourth), [Some((20, "m@20".to_owned()))]);
        let back = rules("unit: minute, requests_per_unit: 20").succeed(&fourth);
        assert_eq!(before(&back), [Some((5, "gcra-1000@5-9".to_owned()))]);
        assert_eq!(back.generation, 4);
    }

    #[test]
    fn limits_follow_their_names_and_never_one_that_still_counts() {
        let first = rules(
            "limits: [{name: a, unit: second, requests_per_unit: 1}, {name: b, unit: day, requests_per_unit: 2}]",
        );
        let turned = rules(
            "limits: [{name: b, unit: day, requests_per_unit: 3}, {name: a, unit: second, requests_per_unit: 4}]",
        );
        let turned = turned.succeed(&first);
        assert_eq!(
            before(&turned),
            [Some((2, "d@2".to_owned())), Some((1, "s@1".to_owned()))]
        );
        let beside = rules(
            "limits: [{unit: hour, requests_per_unit: 9}, {name: a, unit: second, requests_per_unit: 1}]",
        );
        assert_eq!(before(&beside.succeed(&first)), [None, None]);
    }
}
