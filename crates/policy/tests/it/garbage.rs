//! Texts that are no rules end in an error, and never in a panic or without bound.

use proptest::prelude::*;
use tollgate_policy::Ruleset;
use tollgate_wire::rls::rate_limit_descriptor::{Entry, RateLimitOverride};
use tollgate_wire::rls::{RateLimitDescriptor, UInt64Value};

use crate::request;

fn outcome_is_sound(text: &str) {
    if let Err(error) = Ruleset::load(&[("rules.yaml", text)]) {
        assert!(error.line >= 1, "{error}");
        assert!(!error.reason.is_empty());
    }
}

const RULES: &str = "domain: basic
descriptors:
  - key: path
    value: '/a*'
    rate_limit: &l {unit: minute, requests_per_unit: 20, name: \"x\"}
    descriptors:
      - {key: user, rate_limit: *l}
";

/// Entries that the rules match, begin to match, or have never heard of; none at all too.
fn descriptors() -> impl Strategy<Value = Vec<RateLimitDescriptor>> {
    let key = prop_oneof![
        Just("path".to_owned()),
        Just("user".to_owned()),
        "\\PC{0,8}"
    ];
    let value = prop_oneof![Just("/a1".to_owned()), Just("*".to_owned()), "\\PC{0,8}"];
    let entry = (key, value).prop_map(|(key, value)| Entry { key, value });
    let limit = (any::<u32>(), -1..9).prop_map(|(requests_per_unit, unit)| RateLimitOverride {
        requests_per_unit,
        unit,
    });
    let descriptor = (
        prop::collection::vec(entry, 0..4),
        prop::option::weighted(0.1, limit),
        prop::option::of(any::<u64>()),
        any::<bool>(),
    );
    let descriptor =
        descriptor.prop_map(
            |(entries, limit, hits, is_negative_hits)| RateLimitDescriptor {
                entries,
                limit,
                hits_addend: hits.map(|value| UInt64Value { value }),
                is_negative_hits,
            },
        );
    prop::collection::vec(descriptor, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        outcome_is_sound(&text);
    }

    #[test]
    fn any_text_of_yaml_characters(text in "[-\\[\\]{}:,&*!|>'\"%@`#? \n\ta1~.]{0,200}") {
        outcome_is_sound(&text);
    }

    #[test]
    fn rules_with_a_wound(at in 0..RULES.len(), len in 0..20usize, patch in "[-\\[\\]{}:,&*!|>'\"#? \n\tl]{0,4}") {
        let end = (at + len).min(RULES.len());
        let text = format!("{}{patch}{}", &RULES[..at], &RULES[end..]);
        outcome_is_sound(&text);
    }

    /// Whatever rules a text makes, and whatever is asked of them, there is a verdict or an error.
    #[test]
    fn trap_19_any_request_on_any_rules_is_answered(
        at in 0..RULES.len(),
        len in 0..20usize,
        patch in "[-\\[\\]{}:,&*!|>'\"#? \n\tl]{0,4}",
        asked in descriptors(),
    ) {
        let end = (at + len).min(RULES.len());
        let text = format!("{}{patch}{}", &RULES[..at], &RULES[end..]);
        let rules = Ruleset::load(&[("rules.yaml", &*text)]).or_else(|_| Ruleset::load(&[("rules.yaml", RULES)]));
        let rules = rules.expect("the rules without a wound are valid");
        let request = request(asked);
        match rules.resolve(&request) {
            Ok(resolved) => {
                prop_assert!(resolved.checks(b"").count() <= request.descriptors.len());
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
