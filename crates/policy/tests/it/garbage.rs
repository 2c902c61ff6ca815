//! Texts that are no rules end in an error, and never in a panic or without bound.

use proptest::prelude::*;
use tollgate_policy::Ruleset;

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
}
