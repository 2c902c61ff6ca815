//! Counters as envoyproxy/ratelimit calls them, and the limits that they cannot hold.

use tollgate_policy::{LoadOptions, Modes, Ruleset};

use crate::{descriptor, request, with_override};

const OPTIONS: LoadOptions = LoadOptions {
    merge_domains: false,
    envoy_counters: true,
};

fn rules(limits: &str, prefix: &str) -> Ruleset {
    let text = format!("domain: basic\ndescriptors:\n{limits}");
    let rules = Ruleset::load_with(&[("rules.yaml", &text)], OPTIONS).expect("valid");
    rules.with_modes(Modes {
        envoy_keys: Some(prefix.into()),
        ..Modes::default()
    })
}

/// Vectors in the form of the peer's tests of its cache keys; whoever counts appends the start of the window.
#[test]
fn keys_are_those_of_the_peer() {
    const RULES: &str = "
  - {key: key, value: value, rate_limit: {unit: second, requests_per_unit: 10}}
  - key: key
    value: other
    descriptors:
      - {key: subkey, rate_limit: {unit: hour, requests_per_unit: 10}}
  - key: path
    value: files*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 2}
    descriptors:
      - {key: user, value: a*z, rate_limit: {unit: year, requests_per_unit: 2}}
";
    let keys = |prefix: &str, descriptors| {
        let rules = rules(RULES, prefix);
        let request = request(descriptors);
        let resolved = rules.resolve(&request).expect("valid");
        let checks = resolved.checks(b"");
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).expect("text");
        checks
            .map(|check| (text(check.key), check.is_per_second()))
            .collect::<Vec<_>>()
    };
    let of = |prefix: &str, pairs: &[&str]| keys(prefix, vec![descriptor(pairs)]).remove(0);
    assert_eq!(of("", &["key=value"]), ("basic_key_value_".into(), true));
    assert_eq!(
        of("p:", &["key=value"]),
        ("p:basic_key_value_".into(), true)
    );
    assert_eq!(
        of("", &["key=other", "subkey="]),
        ("basic_key_other_subkey__".into(), false)
    );
    // Values that count together are counted under their pattern, and the others of the descriptor as they are.
    assert_eq!(of("", &["path=files1"]).0, "basic_path_files*_");
    assert_eq!(
        of("", &["path=files1", "user=abz"]).0,
        "basic_path_files*_user_abz_"
    );
    // Underscores are not told apart, as there.
    assert_eq!(of("", &["key=value"]).0, "basic_key_value_");
    let given = with_override(descriptor(&["a=b_c", "d="]), 5, 1);
    assert_eq!(
        keys("", vec![given]),
        [("basic_a_b_c_d__".to_owned(), true)]
    );
    // With lengths in front, keys of our own do.
    let own = rules(RULES, "").with_modes(Modes::default());
    let request = request(vec![descriptor(&["key=value"])]);
    let resolved = own.resolve(&request).expect("valid");
    let check = resolved.checks(b"").next().expect("one limit");
    assert_eq!(check.key, b"rl:s:5:basic:3:key:5:value");
}

#[test]
fn what_those_counters_cannot_hold_is_refused_with_its_line() {
    let load = |limit: &str| {
        let text = format!("domain: d\ndescriptors:\n  - key: a\n    rate_limit: {{{limit}}}\n");
        Ruleset::load(&[("f", &text)]).expect("valid for counters of our own");
        Ruleset::load_with(&[("f", &text)], OPTIONS)
    };
    for (limit, why) in [
        (
            "unit: minute, requests_per_unit: 1, algorithm: gcra",
            "not by gcra or another period",
        ),
        (
            "period: 90s, requests_per_unit: 1",
            "not by fixed-window-epoch or another period",
        ),
        (
            "unit: month, zone: Europe/Paris, requests_per_unit: 1",
            "not by calendar",
        ),
        ("concurrency: 3", "not by concurrency"),
        (
            "limits: [{unit: second, requests_per_unit: 1}, {unit: day, requests_per_unit: 1}]",
            "one limit of a rule, not several",
        ),
        (
            "unit: minute, requests_per_unit: 1, inherit: as_is",
            "they know no inherit",
        ),
        (
            "unit: minute, requests_per_unit: 1, hot_key: {strategy: denial-cache}",
            "they know no hot_key",
        ),
    ] {
        let error = load(limit).expect_err(limit).to_string();
        let start = "f:4: the counters of envoyproxy/ratelimit cannot hold 'd.a': ";
        assert!(error.starts_with(start) && error.contains(why), "{error}");
    }
    for limit in [
        "unit: minute, requests_per_unit: 1",
        "period: 1m, requests_per_unit: 1",
        "unit: week, requests_per_unit: 1, algorithm: fixed-window-epoch",
        "unlimited: true",
        "unit: minute, requests_per_unit: 1, on_error: {mode: open}",
        "unit: minute, requests_per_unit: 1, exact: true",
        "limits: [{unit: second, requests_per_unit: 1}]",
    ] {
        assert!(load(limit).is_ok(), "{limit}");
    }
}
