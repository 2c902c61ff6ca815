//! All limits of the rules, as the debug port prints them and metrics begin with.

use crate::bound::Bound;
use crate::ruleset::{Level, Limit, Quota, Rate, Rule, Ruleset};

/// One limit, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its domain.
    pub domain: String,
    /// Domain and rules, joined by dots.
    pub path: String,
    /// As envoyproxy/ratelimit prints it.
    pub text: String,
    /// Metrics call it by its path; otherwise values of requests are part of their names.
    pub is_series: bool,
}

impl Ruleset {
    /// Every limit, in the order of their paths.
    pub fn describe(&self) -> Vec<Described> {
        let mut all = Vec::new();
        for (domain, level) in &self.domains {
            walk(domain, level, &mut all);
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }
}

fn walk(domain: &str, level: &Level, all: &mut Vec<Described>) {
    for rules in level.keys.values() {
        let wildcards = rules.wildcards.iter().map(|(_, rule)| rule);
        for rule in rules.exact.values().chain(wildcards).chain(&rules.bare) {
            describe(domain, rule, all);
        }
    }
}

/// The nesting is bounded by that of the file.
fn describe(domain: &str, rule: &Rule, all: &mut Vec<Described>) {
    if let Some(limit) = &rule.limit {
        all.push(Described {
            domain: domain.to_owned(),
            path: limit.series.to_string(),
            text: format!(
                "{}: {}, shadow_mode: {}, quota_mode: {}",
                limit.series,
                rate_text(limit),
                limit.shadow_mode,
                limit.quota != Quota::No
            ),
            is_series: !limit.by_value,
        });
    }
    if let Some(children) = &rule.children {
        walk(domain, children, all);
    }
}

fn rate_text(limit: &Limit) -> String {
    let Rate::Limited(limits) = &limit.rate else {
        return "unit=UNKNOWN requests_per_unit=0".to_owned();
    };
    let texts: Vec<String> = limits
        .iter()
        .map(|named| bound_text(&named.bound))
        .collect();
    texts.join(" and ")
}

/// As the peer prints it what the peer can count; else the algorithm, the limit and its window.
fn bound_text(bound: &Bound) -> String {
    let requests = bound.quota.limit;
    match bound.unit {
        Some(unit) if bound.plain => format!(
            "unit={} requests_per_unit={requests}",
            unit.name().to_ascii_uppercase()
        ),
        _ => format!(
            "algorithm={} limit={requests} window_ms={}",
            bound.method.name(),
            bound.window().div_ceil(1_000_000)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_printed_as_the_peer_prints_them() {
        let rules = "
domain: d
descriptors:
  - key: b
    value: x
    rate_limit: {unit: minute, requests_per_unit: 5}
    descriptors: [{key: c, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 7}}]
  - key: a
    detailed_metric: true
    rate_limit: {unlimited: true}
";
        let all = Ruleset::load(&[("a", rules)]).expect("valid").describe();
        let lines: Vec<&str> = all.iter().map(|limit| &*limit.text).collect();
        assert_eq!(
            lines,
            [
                "d.a: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false",
                "d.b_x: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false",
                "d.b_x.c: unit=DAY requests_per_unit=7, shadow_mode: true, quota_mode: false",
            ]
        );
        let series: Vec<bool> = all.iter().map(|limit| limit.is_series).collect();
        assert_eq!(series, [false, true, true]);
    }
}
