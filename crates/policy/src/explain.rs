//! Which rule a descriptor matches, and why.

use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest};

use crate::ruleset::{Level, Ruleset};

/// The way of one descriptor through the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// One for each entry that was looked at, in order.
    pub steps: Vec<Step>,
    /// Whether a rule with a limit, or with `unlimited`, was found.
    pub matched: bool,
    /// What it came to, in one sentence.
    pub reason: String,
}

/// One entry and the rule that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The entry's key.
    pub key: String,
    /// The entry's value.
    pub value: String,
    /// The rule, as `key` or `key_value`; `None` when there is none.
    pub rule: Option<String>,
    /// Why this rule, or none.
    pub reason: String,
}

impl Ruleset {
    /// The way of each descriptor of a request, in their order. Nothing is counted.
    pub fn trace(&self, request: &RateLimitRequest) -> Vec<Trace> {
        let domain = self.domains.get(&*request.domain);
        let trace = |descriptor: &RateLimitDescriptor| match (domain, &descriptor.limit) {
            (None, _) => Trace::nowhere(false, format!("no rules for domain '{}'", request.domain)),
            (Some(_), Some(_)) => Trace::nowhere(
                true,
                "the request gives its own limit, which takes the place of the rules".to_owned(),
            ),
            (Some(level), None) => trace(level, descriptor),
        };
        request.descriptors.iter().map(trace).collect()
    }
}

impl Trace {
    fn nowhere(matched: bool, reason: String) -> Self {
        Self {
            steps: Vec::new(),
            matched,
            reason,
        }
    }
}

fn trace(level: &Level, descriptor: &RateLimitDescriptor) -> Trace {
    let mut steps = Vec::new();
    let mut level = Some(level);
    let count = descriptor.entries.len();
    for (index, entry) in descriptor.entries.iter().enumerate() {
        let place = index + 1;
        let Some(rules) = level else {
            let reason = format!(
                "the rules end before entry {place} of {count}: a rule counts only for descriptors as deep as itself"
            );
            return Trace {
                steps,
                matched: false,
                reason,
            };
        };
        let (rule, why) = rules.explain(entry);
        steps.push(Step {
            key: entry.key.clone(),
            value: entry.value.clone(),
            rule: rule.map(|rule| match &*rule.value {
                "" => entry.key.clone(),
                value => format!("{}_{value}", entry.key),
            }),
            reason: why,
        });
        let Some(rule) = rule else {
            return Trace {
                steps,
                matched: false,
                reason: format!("entry {place} of {count} matches no rule"),
            };
        };
        if place == count {
            let matched = rule.limit.is_some();
            let reason = match (matched, rule.children.is_some()) {
                (true, _) => "the rule of the last entry has a limit",
                (false, true) => {
                    "the rule of the last entry has no limit itself, only rules for further entries"
                }
                (false, false) => "the rule of the last entry has no limit",
            };
            return Trace {
                steps,
                matched,
                reason: reason.to_owned(),
            };
        }
        level = rule.children.as_ref();
    }
    Trace::nowhere(false, "the descriptor has no entries".to_owned())
}
