//! Which limit a descriptor gets.

use std::collections::HashSet;

use proptest::prelude::*;
use tollgate_limiter::{AlgorithmKind, Cost, Method};
use tollgate_policy::{MAX_DESCRIPTORS, RequestError, Ruleset, Unit};
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest, UInt64Value};

use crate::{descriptor, request, ruleset, with_override};

const RULES: &str = "
domain: basic
descriptors:
  - key: path
    value: /orders
    rate_limit: {unit: second, requests_per_unit: 1}
    descriptors:
      - key: user
        rate_limit: {unit: second, requests_per_unit: 2}
  - key: path
    rate_limit: {unit: second, requests_per_unit: 3}
  - key: path
    value: /files/*
    rate_limit: {unit: second, requests_per_unit: 4}
  - key: path
    value: /files/*.png
    rate_limit: {unit: second, requests_per_unit: 5}
  - key: path
    value: /nothing
  - key: deep
    descriptors:
      - key: a
        descriptors:
          - key: b
            value: '1'
            rate_limit: {unit: second, requests_per_unit: 6}
";

/// Stars at the end of keys, as envoyproxy/ratelimit takes them: the key and the value are matched as one text.
#[test]
fn a_key_may_end_in_a_star() {
    let rules = ruleset(
        "
domain: basic
descriptors:
  - {key: user*, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: user, value: bob, rate_limit: {unit: second, requests_per_unit: 2}}
  - {key: user, rate_limit: {unit: second, requests_per_unit: 3}}
  - {key: path_/a*, rate_limit: {unit: second, requests_per_unit: 4}}
  - key: tree*
    descriptors: [{key: leaf, rate_limit: {unit: second, requests_per_unit: 5}}]
",
    );
    for (pairs, want) in [
        (&["user-id=x"][..], Some(1)),
        (&["user=x"], Some(1)),
        (&["user=bob"], Some(2)),
        (&["use=r"], None),
        (&["path=/abc"], Some(4)),
        (&["path=/b"], None),
        (&["path_/abc=x"], Some(4)),
        (&["trees=1", "leaf=2"], Some(5)),
        (&["trees=1"], None),
    ] {
        assert_eq!(limit(&rules, pairs), want, "{pairs:?}");
    }
}

/// The limit that applies to a descriptor of these pairs.
fn limit(rules: &Ruleset, pairs: &[&str]) -> Option<u64> {
    let request = request(vec![descriptor(pairs)]);
    let resolved = rules.resolve(&request).expect("a valid request");
    resolved.checks(b"").next().map(|check| check.quota.limit)
}

#[test]
fn the_most_specific_rule_of_exactly_this_depth_counts() {
    let rules = ruleset(RULES);
    for (pairs, want) in [
        (&["path=/orders"][..], Some(1)),
        (&["path=/orders", "user=bob"], Some(2)),
        (&["path=/carts"], Some(3)),
        (&["path="], Some(3)),
        (&["path=/files/a"], Some(4)),
        // The first wildcard of the file wins, even where a later one is narrower.
        (&["path=/files/a.png"], Some(4)),
        // A literal star in the value is matched by the pattern like any other character.
        (&["path=/files/*.png"], Some(4)),
        // The exact rule has no limit and hides the rule without a value.
        (&["path=/nothing"], None),
        // A rule counts at its own depth only.
        (&["path=/carts", "user=bob"], None),
        (&["path=/orders", "user=bob", "x=y"], None),
        (&["deep=x"], None),
        (&["deep=x", "a=y"], None),
        (&["deep=x", "a=y", "b=1"], Some(6)),
        (&["deep=x", "a=y", "b=2"], None),
        (&["user=bob"], None),
        (&["unknown=x"], None),
        (&[], None),
    ] {
        assert_eq!(limit(&rules, pairs), want, "{pairs:?}");
    }
}

#[test]
fn an_exact_rule_without_children_hides_the_children_of_the_bare_rule() {
    let rules = ruleset(
        "
domain: basic
descriptors:
  - {key: a, value: x}
  - key: a
    descriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 9}}]
",
    );
    assert_eq!(limit(&rules, &["a=y", "b=1"]), Some(9));
    assert_eq!(limit(&rules, &["a=x", "b=1"]), None);
}

#[test]
fn joined_names_do_not_stand_for_pairs() {
    let rules = ruleset(
        "domain: basic\ndescriptors: [{key: a, value: b, rate_limit: {unit: day, requests_per_unit: 1}}]",
    );
    assert_eq!(limit(&rules, &["a=b"]), Some(1));
    assert_eq!(limit(&rules, &["a_b=x"]), None);
    assert_eq!(limit(&rules, &["a_b="]), None);
}

#[test]
fn an_unknown_domain_has_no_limits_and_not_even_overrides() {
    let rules = ruleset(RULES);
    let descriptors = vec![
        descriptor(&["path=/orders"]),
        with_override(descriptor(&["a=b"]), 5, 1),
    ];
    let request = RateLimitRequest {
        domain: "other".to_owned(),
        descriptors,
        hits_addend: 0,
    };
    assert_eq!(
        rules
            .resolve(&request)
            .expect("a valid request")
            .checks(b"")
            .count(),
        0
    );
}

#[test]
fn an_override_replaces_the_rule() {
    let rules = ruleset(RULES);
    let request = request(vec![
        with_override(descriptor(&["path=/orders"]), 42, 3),
        with_override(descriptor(&["no=rule"]), 7, 7),
    ]);
    let resolved = rules.resolve(&request).expect("a valid request");
    let checks: Vec<_> = resolved.checks(b"").collect();
    assert_eq!(
        (checks[0].quota.limit, checks[0].quota.period),
        (42, Unit::Hour.nanos())
    );
    assert_eq!(
        (checks[1].quota.limit, checks[1].quota.period),
        (7, Unit::Week.nanos())
    );
    assert!(
        checks
            .iter()
            .all(|check| check.method == Method::Small(AlgorithmKind::FixedWindowEpoch))
    );
}

#[test]
fn hits_of_the_descriptor_come_before_those_of_the_request() {
    let rules = ruleset(RULES);
    for (own, of_request, want) in [
        (None, 0, 1),
        (None, 1, 1),
        (None, 5, 5),
        (Some(0), 5, 0),
        (Some(3), 5, 3),
    ] {
        let own = own.map(|value| UInt64Value { value });
        let descriptors = vec![RateLimitDescriptor {
            hits_addend: own,
            ..descriptor(&["path=/orders"])
        }];
        let request = RateLimitRequest {
            hits_addend: of_request,
            ..request(descriptors)
        };
        let resolved = rules.resolve(&request).expect("a valid request");
        assert_eq!(
            resolved.checks(b"").next().expect("a limit").cost,
            Cost(want),
            "{own:?} {of_request}"
        );
    }
}

#[test]
fn what_cannot_be_answered_is_said() {
    let rules = ruleset(RULES);
    let error = |request: RateLimitRequest| rules.resolve(&request).expect_err("not valid");
    let no_domain = RateLimitRequest {
        domain: String::new(),
        ..request(vec![descriptor(&["a=b"])])
    };
    assert_eq!(
        error(no_domain).to_string(),
        "rate limit domain must not be empty"
    );
    assert_eq!(
        error(request(Vec::new())).to_string(),
        "rate limit descriptor list must not be empty"
    );
    let many = vec![descriptor(&["a=b"]); MAX_DESCRIPTORS + 1];
    assert_eq!(error(request(many)), RequestError::TooManyDescriptors);
    for unit in [0, -1, 8] {
        let bad = request(vec![
            descriptor(&["a=b"]),
            with_override(descriptor(&["a=b"]), 1, unit),
        ]);
        assert_eq!(error(bad), RequestError::OverrideUnit(1));
    }
}

fn text() -> impl Strategy<Value = String> {
    let of = |pattern| prop::string::string_regex(pattern).expect("a valid pattern");
    // Short ones of few letters are those that would collide.
    prop_oneof![of("[a:]{0,2}"), of("[a1:_|]{0,12}")]
}

proptest! {
    /// Different descriptors never share a counter, whatever their texts are made of.
    #[test]
    fn trap_04_counters_are_never_shared(
        descriptors in prop::collection::hash_set(
            (1..=7i32, prop::collection::vec((text(), text()), 1..4)), 2..12),
    ) {
        let rules = ruleset("domain: basic");
        let made: Vec<RateLimitDescriptor> = descriptors
            .iter()
            .map(|(unit, pairs)| {
                let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
                with_override(descriptor(&pairs), 1, *unit)
            })
            .collect();
        let request = request(made);
        let resolved = rules.resolve(&request).expect("a valid request");
        let keys: HashSet<&[u8]> = resolved.checks(b"").map(|check| check.key).collect();
        prop_assert_eq!(keys.len(), descriptors.len());
    }
}
