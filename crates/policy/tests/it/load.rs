//! What a rule file may hold, and what is said about one that may not.

use tollgate_policy::{LoadOptions, Ruleset};

const MERGED: LoadOptions = LoadOptions {
    merge_domains: true,
    envoy_counters: false,
};

fn error(text: &str) -> String {
    Ruleset::load(&[("rules.yaml", text)])
        .expect_err("not valid")
        .to_string()
}

#[test]
fn files_of_one_domain_count_together_when_told_to() {
    let file = |descriptors: &str| format!("domain: d\ndescriptors: [{descriptors}]\n");
    let (one, other) = (
        file("{key: a, value: x*, rate_limit: {unit: day, requests_per_unit: 1}}, {key: b}"),
        file("{key: a, value: y, rate_limit: {unit: day, requests_per_unit: 2}}"),
    );
    let rules = Ruleset::load_with(&[("one", &one), ("other", &other)], MERGED).expect("valid");
    assert_eq!((rules.domain_count(), rules.limit_count()), (1, 2));
    for twice in ["{key: a, value: x*}", "{key: b}", "{key: a_x*}"] {
        let twice = file(twice);
        let error = Ruleset::load_with(&[("one", &one), ("twice", &twice)], MERGED);
        let error = error.expect_err("a descriptor stands in both").to_string();
        assert!(
            error.starts_with("twice:2: duplicate descriptor composite key 'd."),
            "{error}"
        );
    }
    let error = Ruleset::load(&[("one", &one), ("other", &other)]);
    let error = error.expect_err("not told to").to_string();
    assert_eq!(error, "other:1: duplicate domain 'd' in config file");
}

/// As envoyproxy/ratelimit, which looks at the keys of a whole file before it reads its rules.
#[test]
fn a_key_that_is_unknown_is_told_before_other_mistakes() {
    let file = |second: &str| format!("domain: d\ndescriptors:\n  - key: ''\n  - {second}\n");
    for (second, told) in [
        ("key: a", "3: descriptor has empty key"),
        ("{key: a, foo: 1}", "4: config error, unknown key 'foo'"),
        (
            "{key: a, descriptors: [{key: a, rate_limit: {foo: 1}}]}",
            "4: config error, unknown key 'foo'",
        ),
        (
            "{key: a, metadata: {foo: 1}, rate_limit: {on_error: {foo: 1}}}",
            "3: descriptor has empty key",
        ),
    ] {
        assert_eq!(error(&file(second)), format!("rules.yaml:{told}"));
    }
}

/// In the words of envoyproxy/ratelimit, which knows the types that YAML gives to plain words.
#[test]
fn what_is_no_text_where_a_key_belongs_is_told_as_what_it_is() {
    for (written, told) in [
        ("5", "key is not of type string: 5"),
        ("1.5", "key is not of type string: 1.5"),
        ("yes", "key is not of type string: true"),
        ("~", "key is not of type string: <nil>"),
        ("'5'", "unknown key '5'"),
        ("x", "unknown key 'x'"),
    ] {
        let file = format!("domain: d\ndescriptors:\n  - {{key: a, {written}: 1}}\n");
        let told = format!("rules.yaml:3: config error, {told}");
        assert_eq!(error(&file), told);
    }
    let told = "rules.yaml:2: config error, yaml file contains list of type other than map: <nil>";
    assert_eq!(error("domain: d\ndescriptors: [~]\n"), told);
}

#[test]
fn a_file_of_rules_is_counted() {
    let text = "
domain: basic
descriptors:
  - key: path
    value: /orders
    rate_limit: {unit: MINUTE, requests_per_unit: 20, name: orders}
    descriptors:
      - key: user
        rate_limit:
          unit: second
          requests_per_unit: 1_000
  - key: database
    rate_limit: {unlimited: true}
  - key: 404
    value: true
";
    let rules = Ruleset::load(&[("a.yaml", text), ("b.yaml", "domain: other")]).expect("valid");
    assert_eq!((rules.domain_count(), rules.limit_count()), (2, 3));
    assert_eq!(Ruleset::load(&[]).expect("no files").domain_count(), 0);
}

#[test]
fn anchors_may_be_used() {
    let text = "
domain: basic
descriptors:
  - {key: a, rate_limit: &limit {unit: day, requests_per_unit: 3}}
  - {key: b, rate_limit: *limit}
";
    assert_eq!(
        Ruleset::load(&[("a.yaml", text)])
            .expect("valid")
            .limit_count(),
        2
    );
}

/// Whatever base it is written in.
#[test]
fn numbers_are_those_of_yaml_1_1() {
    for (text, want) in [
        ("010", 8),
        ("0o17", 15),
        ("0x10", 16),
        ("0b11", 3),
        ("1_0", 10),
    ] {
        let rules = format!(
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit: {{unit: day, requests_per_unit: {text}}}"
        );
        let rules = Ruleset::load(&[("rules.yaml", &rules)]).expect(text);
        let lines = rules.describe();
        let line = format!(
            "a.b: unit=DAY requests_per_unit={want}, shadow_mode: false, quota_mode: false"
        );
        assert_eq!(lines[0].text, line);
    }
}

#[test]
fn maps_may_be_merged() {
    let text = "
domain: basic
descriptors:
  - {key: a, rate_limit: &limit {unit: day, requests_per_unit: 3}}
  - {key: b, rate_limit: {<<: *limit, requests_per_unit: 4}}
  - {key: c, rate_limit: {requests_per_unit: 5, <<: *limit}}
  - {key: d, rate_limit: {<<: [{unit: hour}, *limit]}}
  - {key: e, <<: {shadow_mode: true, rate_limit: *limit}}
";
    let rules = Ruleset::load(&[("a.yaml", text)]).expect("valid");
    let lines: Vec<String> = rules.describe().into_iter().map(|line| line.text).collect();
    let line = |key, unit, requests, shadow: bool| {
        format!(
            "basic.{key}: unit={unit} requests_per_unit={requests}, shadow_mode: {shadow}, quota_mode: false"
        )
    };
    assert_eq!(
        lines,
        [
            line("a", "DAY", 3, false),
            line("b", "DAY", 4, false),
            line("c", "DAY", 3, false),
            line("d", "HOUR", 3, false),
            line("e", "DAY", 3, true),
        ]
    );
    let of = |pair: &str| {
        error(&format!(
            "domain: a\ndescriptors:\n  - {{key: b, {pair}}}\n"
        ))
    };
    assert_eq!(
        of("<<: 5"),
        "rules.yaml:3: map merge requires map or sequence of maps as the value"
    );
    assert!(of("<<: {value: x}, key: c").contains("'key' is given twice"));
    assert!(of("<<: {nothing: x}").contains("unknown key 'nothing'"));
}

/// Whoever mends a file is told all at once, in the order of the files; the first is the one that keeps a service from loading.
#[test]
fn all_mistakes_are_told_to_who_mends_them() {
    let rules = "domain: a
descriptors:
  - key: one
    rate_limit: {unit: fortnight, requests_per_unit: 1}
    descriptors:
      - key: ''
      - key: two
        value: v
        shadow_mode: perhaps
        descriptors:
          - kee: told before all others of the file
      - key: three
        rate_limit: {unit: day}
  - key: one
  - key: four
    descriptors: [{key: good, rate_limit: {unit: day, requests_per_unit: 1}}, {key: good}]
";
    let files = [("a", rules), ("b", "domain: [\n"), ("c", "domain: a\n")];
    let options = tollgate_policy::LoadOptions::default();
    let mistakes = Ruleset::check(&files, options).expect_err("not valid");
    let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    let (parser, told): (Vec<String>, Vec<String>) =
        told.into_iter().partition(|line| line.starts_with("b:"));
    assert_eq!(parser.len(), 1);
    assert_eq!(
        told,
        [
            "a:11: config error, unknown key 'kee'",
            "a:4: invalid rate limit unit 'fortnight'",
            "a:6: descriptor has empty key",
            "a:9: config error, shadow_mode must be true or false, found 'perhaps'",
            "a:13: rate_limit has no requests_per_unit",
            "a:14: duplicate descriptor composite key 'a.one'",
            "a:16: duplicate descriptor composite key 'a.four.good'",
            "c:1: duplicate domain 'a' in config file",
        ]
    );
    let first = Ruleset::load(&files).expect_err("not valid");
    assert_eq!(first.to_string(), told[0]);
    // As many as a screen or two hold.
    let many = format!("domain: a\ndescriptors: [{}]\n", "{key: ''},".repeat(1_000));
    let mistakes = Ruleset::check(&[("a", &many), ("b", "")], options).expect_err("not valid");
    assert_eq!(mistakes.len(), tollgate_policy::MAX_MISTAKES);
    let good = Ruleset::check(&[("a", "domain: a\n")], options).expect("valid");
    assert_eq!(good.domain_count(), 1);
}

#[test]
fn every_mistake_of_a_rule_is_told_and_none_that_follows_from_another() {
    let rules = "\
domain: a
descriptors:
  - key: one
    shadow_mode: perhaps
    detailed_metric: 3
    quota_mode: never
    rate_limit:
      unit: fortnight
      requests_per_unit: many
      algorithm: magic
      burst: some
      exact: 7
      inherit: nothing
      on_error: shrug
  - key: two
    rate_limit:
      unit: minute
      request_per_unit: 5
      nmae: x
  - kye: three
    rate_limit: {unit: day, requests_per_unit: -1}
    descriptors:
      - key: below
        rate_limit:
          limits:
            - unit: second
              requests_per_unit: x
            - {unit: eon, requests_per_unit: 1}
            - word
            - {unit: day, requests_per_unit: 1, zone: Nowhere/Land}
  - key: one
    rate_limit: {unlimited: true, unit: day, burst: 5}
  - key: four
    share_threshold: true
    descriptors: [{key: five, rate_limit: {concurrency: x, unit: day}}]
";
    let options = tollgate_policy::LoadOptions::default();
    let mistakes = Ruleset::check(&[("a", rules)], options).expect_err("not valid");
    let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    let about: Vec<(usize, &str)> = [
        // An unknown key comes before all others of its file.
        (18, "unknown key 'request_per_unit'"),
        (4, "shadow_mode must be"),
        (6, "quota_mode must be"),
        (5, "detailed_metric must be"),
        (8, "invalid rate limit unit 'fortnight'"),
        (9, "requests_per_unit must be"),
        (10, "unknown algorithm 'magic'"),
        (11, "burst must be"),
        (13, "inherit must be"),
        (12, "exact must be"),
        (14, "on_error must be"),
        (19, "unknown key 'nmae'"),
        (20, "unknown key 'kye'"),
        (21, "requests_per_unit must be"),
        (27, "requests_per_unit must be"),
        (28, "invalid rate limit unit 'eon'"),
        (29, "list of type other than map: word"),
        (30, "zone must be"),
        (31, "duplicate descriptor composite key 'a.one'"),
        (32, "should not specify rate limit unit when unlimited"),
        (32, "should not specify burst when unlimited"),
        (34, "share_threshold can only be used"),
        (35, "unit cannot be combined with concurrency"),
    ]
    .into();
    for (told, (line, reason)) in told.iter().zip(&about) {
        let begins = told.starts_with(&format!("a:{line}: "));
        assert!(
            begins && told.contains(reason),
            "{told} is not {line} {reason}"
        );
    }
    assert_eq!(told.len(), about.len(), "{told:#?}");
    let first = Ruleset::load(&[("a", rules)]).expect_err("not valid");
    assert_eq!(first.to_string(), told[0]);
}

#[test]
fn every_error_names_file_line_and_reason() {
    for (text, want) in [
        ("", "rules.yaml:1: config file cannot have empty domain"),
        (
            "# nothing\n",
            "rules.yaml:1: config file cannot have empty domain",
        ),
        (
            "descriptors: []\n",
            "rules.yaml:1: config file cannot have empty domain",
        ),
        (
            "\ndescriptors: []\ndomain: ''\n",
            "rules.yaml:3: config file cannot have empty domain",
        ),
        (
            "- a\n",
            "rules.yaml:1: config error, config file must be a map, found a list",
        ),
        (
            "domain: [a]\n",
            "rules.yaml:1: config error, domain must be a string, found a list",
        ),
        (
            "domain: a\ndomain: b\n",
            "rules.yaml:2: config error, key 'domain' is given twice",
        ),
        (
            "domain: a\ndomains: b\n",
            "rules.yaml:2: config error, unknown key 'domains'",
        ),
        (
            "domain: a\n? [x]\n: b\n",
            "rules.yaml:2: config error, key is not of type string: a list",
        ),
        (
            "domain: a\ndescriptors: b\n",
            "rules.yaml:2: config error, descriptors must be a list, found 'b'",
        ),
        (
            "domain: a\ndescriptors:\n  - b\n",
            "rules.yaml:3: config error, yaml file contains list of type other than map: b",
        ),
        (
            "domain: a\ndescriptors:\n  - value: b\n",
            "rules.yaml:3: descriptor has empty key",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    value: c\n  - key: b\n    value: c\n",
            "rules.yaml:5: duplicate descriptor composite key 'a.b_c'",
        ),
        (
            "domain: a\ndescriptors:\n- key: b\n  descriptors:\n  - key: x\n  - key: x\n",
            "rules.yaml:6: duplicate descriptor composite key 'a.b.x'",
        ),
        (
            "domain: a\ndescriptors:\n  - {key: a, value: b_c}\n  - {key: a_b, value: c}\n",
            "rules.yaml:4: duplicate descriptor composite key 'a.a_b_c'",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit:\n      unit: fortnight\n",
            "rules.yaml:5: invalid rate limit unit 'fortnight'",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit:\n      requests_per_unit: 1\n",
            "rules.yaml:5: invalid rate limit unit ''",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit:\n      unit: day\n      unlimited: true\n",
            "rules.yaml:5: should not specify rate limit unit when unlimited",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit: {unit: day}\n",
            "rules.yaml:4: rate_limit has no requests_per_unit",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limt: {}\n",
            "rules.yaml:4: config error, unknown key 'rate_limt'",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit:\n      shadow_mode: true\n",
            "rules.yaml:5: config error, unknown key 'shadow_mode'",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit:\n      unit: day\n      requests_per_unit: 1\n      replaces: [{}]\n",
            "rules.yaml:7: should not have an empty replaces entry",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit:\n      unit: day\n      name: n\n      replaces:\n      - name: n\n",
            "rules.yaml:8: replaces should not contain name of same descriptor",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit:\n      unit: day\n      replaces: [n]\n",
            "rules.yaml:6: config error, yaml file contains list of type other than map: n",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    value: c.d\n    share_threshold: true\n",
            "rules.yaml:5: share_threshold can only be used with wildcard values (containing '*'), but found key 'b_c.d'",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    shadow_mode: 1\n",
            "rules.yaml:4: config error, shadow_mode must be true or false, found '1'",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    metadata: [1]\n",
            "rules.yaml:4: config error, metadata must be a map, found a list",
        ),
    ] {
        assert_eq!(error(text), want, "{text}");
    }
}

/// In the order of envoyproxy/ratelimit, whose own mistakes come before ours.
#[test]
fn of_several_mistakes_the_first_is_told() {
    for (text, want) in [
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit:\n      replaces: [{}]\n      unit: fortnight\n",
            "rules.yaml:6: invalid rate limit unit 'fortnight'",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit: {unlimited: true, unit: day, replaces: [{}]}\n",
            "rules.yaml:4: should not specify rate limit unit when unlimited",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit: {unlimited: true, burst: 1, replaces: [{}]}\n",
            "rules.yaml:4: should not have an empty replaces entry",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit: {period: x, replaces: [{}]}\n",
            "rules.yaml:4: should not have an empty replaces entry",
        ),
        (
            "domain: a\ndescriptors:\n  - key: b\n    share_threshold: true\n    rate_limit: {unit: x}\n",
            "rules.yaml:5: invalid rate limit unit 'x'",
        ),
    ] {
        assert_eq!(error(text), want, "{text}");
    }
}

#[test]
fn a_limit_is_a_whole_number() {
    for bad in [
        "1.5",
        "-1",
        "4294967296",
        "ten",
        "'5'",
        "1e3",
        "08",
        "0x",
        "0x+1",
        "0b2",
        "--1",
        "[1]",
        "+",
        "_",
    ] {
        let text = format!(
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit: {{unit: day, requests_per_unit: {bad}}}"
        );
        let error = error(&text);
        assert!(
            error.starts_with("rules.yaml:4: config error, requests_per_unit must be"),
            "{bad}: {error}"
        );
    }
    for good in [
        "0",
        "1",
        "4294967295",
        "1_000",
        "+5",
        "0x1F",
        "010",
        "0o17",
        "0b11",
    ] {
        let text = format!(
            "domain: a\ndescriptors:\n  - key: b\n    rate_limit: {{unit: day, requests_per_unit: {good}}}"
        );
        Ruleset::load(&[("rules.yaml", &text)]).expect(good);
    }
}

#[test]
fn a_domain_may_stand_in_one_file_only() {
    let error = Ruleset::load(&[("a.yaml", "domain: x\n"), ("b.yaml", "\ndomain: x\n")])
        .expect_err("twice");
    assert_eq!(
        error.to_string(),
        "b.yaml:2: duplicate domain 'x' in config file"
    );
}

#[test]
fn the_composite_key_of_a_nested_rule_is_free_again_elsewhere() {
    let text = "
domain: a
descriptors:
  - {key: b, descriptors: [{key: x}]}
  - {key: c, descriptors: [{key: x}]}
";
    Ruleset::load(&[("rules.yaml", text)]).expect("different paths");
}

#[test]
fn broken_yaml_names_its_line() {
    assert!(
        error("domain: a\ndescriptors:\n  - key: b\n   value: c\n").starts_with("rules.yaml:4: ")
    );
    assert!(error("domain: a\ndescriptors: [\n").starts_with("rules.yaml:"));
    assert!(error("domain: \"a\n").starts_with("rules.yaml:"));
}

/// Found by the `rules_yaml` fuzz target: a quoted text of several lines broke the message into as many.
#[test]
fn an_error_that_quotes_several_lines_is_one_line() {
    let error = error("a\nb\n");
    assert!(
        error.contains("found 'a b'") || error.contains("found 'a\\nb'"),
        "{error}"
    );
    assert!(!error.contains('\n'));
}
