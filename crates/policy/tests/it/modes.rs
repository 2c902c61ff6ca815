//! Limits that deny differently, take each other's place, or say more than their status.

use tollgate_limiter::Decision;
use tollgate_policy::{HeaderForm, HeaderNames, Modes, Role};
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::value::Kind;
use tollgate_wire::rls::{
    HeaderValue, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, Struct, UInt64Value,
    Value,
};

use crate::{descriptor, request, ruleset, with_override};

const RULES: &str = "
domain: basic
descriptors:
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 5, name: plain}, metadata: {team: a, deep: {x: 1}}}
  - {key: other, rate_limit: {unit: minute, requests_per_unit: 7, name: other}, metadata: {team: b, deep: {y: yes}}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: q1, quota_mode: all, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: q2, quota_mode: all, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: told, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: open, rate_limit: {unlimited: true, replaces: [{name: plain}]}}
  - {key: better, rate_limit: {unit: minute, requests_per_unit: 9, name: better, replaces: [{name: plain}, {name: other}]}}
  - {key: path, value: 'files*', share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 5}}
  - key: dir
    value: '*'
    share_threshold: true
    descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]
";

fn with(allowed: bool, remaining: u64) -> Decision {
    Decision {
        allowed,
        limit: 5,
        remaining,
        retry_after: Some(if allowed { 0 } else { 30_000_000_000 }),
        reset_after: 30_000_000_000,
    }
}

fn ask(modes: Modes, pairs: &[&str], decisions: &[Decision]) -> RateLimitResponse {
    let rules = ruleset(RULES).with_modes(modes);
    let descriptors = pairs.iter().map(|pair| descriptor(&[pair])).collect();
    let request = request(descriptors);
    let resolved = rules.resolve(&request).expect("a valid request");
    resolved.verdict(&request, decisions)
}

fn codes(response: &RateLimitResponse) -> (Code, Vec<Code>) {
    let of = |code| Code::try_from(code).expect("a code");
    let statuses = response.statuses.iter().map(|status| of(status.code));
    (of(response.overall_code), statuses.collect())
}

#[test]
fn a_shadow_never_denies() {
    let response = ask(
        Modes::default(),
        &["shadow=x", "plain=x"],
        &[with(false, 3), with(true, 4)],
    );
    assert_eq!(codes(&response), (Code::Ok, vec![Code::Ok, Code::Ok]));
    assert_eq!(response.statuses[0].limit_remaining, 0);
}

#[test]
fn the_shadow_of_all_rules_keeps_the_statuses() {
    let modes = Modes {
        shadow_mode: true,
        ..Modes::default()
    };
    let response = ask(modes, &["plain=x"], &[with(false, 0)]);
    assert_eq!(codes(&response), (Code::Ok, vec![Code::OverLimit]));
}

#[test]
fn the_shadow_of_all_rules_hides_what_would_be_denied_and_no_more() {
    let modes = Modes {
        shadow_mode: true,
        ..Modes::default()
    };
    let (over, free) = (with(false, 0), with(true, 1));
    let hides = |modes: &Modes, pairs: &[&str], decisions: &[_]| {
        let rules = ruleset(RULES).with_modes(modes.clone());
        let descriptors = pairs.iter().map(|pair| descriptor(&[pair])).collect();
        let request = request(descriptors);
        let resolved = rules.resolve(&request).expect("a valid request");
        resolved.is_shadowed(&resolved.verdict(&request, decisions))
    };
    assert!(hides(&modes, &["plain=x"], &[over]));
    assert!(!hides(&modes, &["plain=x"], &[free]));
    // One quota of two would not deny.
    assert!(!hides(&modes, &["q1=x", "q2=x"], &[over, free]));
    assert!(hides(&modes, &["q1=x", "q2=x"], &[over, over]));
    assert!(hides(&modes, &["q1=x", "plain=x"], &[free, over]));
    assert!(!hides(&modes, &["told=x"], &[over]));
    assert!(!hides(&Modes::default(), &["plain=x"], &[over]));
}

#[test]
fn quotas_deny_when_all_are_over() {
    let (over, free) = (with(false, 0), with(true, 1));
    let overall = |pairs, decisions: &[_]| codes(&ask(Modes::default(), pairs, decisions)).0;
    assert_eq!(overall(&["q1=x", "q2=x"], &[over, free]), Code::Ok);
    assert_eq!(overall(&["q1=x", "q2=x"], &[over, over]), Code::OverLimit);
    assert_eq!(
        overall(&["q1=x", "plain=x"], &[over, free]),
        Code::OverLimit
    );
    assert_eq!(
        overall(&["q1=x", "plain=x"], &[free, over]),
        Code::OverLimit
    );
}

/// As with envoyproxy/ratelimit.
#[test]
fn a_quota_that_only_tells_denies_nothing() {
    let (over, free) = (with(false, 0), with(true, 1));
    let telling = |quota_mode| Modes {
        quota_mode,
        dynamic_metadata: true,
        ..Modes::default()
    };
    let told = |response: &RateLimitResponse| {
        let all = response.dynamic_metadata.as_ref().expect("it is on");
        let enabled = field(all, "quotaModeEnabled").clone();
        let indices = match all.fields.get("quotaModeViolations") {
            None => Vec::new(),
            Some(value) => match &value.kind {
                Some(Kind::ListValue(list)) => list.values.clone(),
                other => panic!("{other:?}"),
            },
        };
        (enabled, indices)
    };
    let index = |index: f64| value(Kind::NumberValue(index));
    let pairs = ["plain=x", "told=x"];
    let response = ask(telling(false), &pairs, &[free, over]);
    assert_eq!(codes(&response), (Code::Ok, vec![Code::Ok, Code::Ok]));
    let status = &response.statuses[1];
    assert!(status.current_limit.is_some() && status.duration_until_reset.is_none());
    assert_eq!(told(&response), (Kind::BoolValue(true), vec![index(1.0)]));
    let response = ask(telling(false), &pairs, &[over, free]);
    let want = (Code::OverLimit, vec![Code::OverLimit, Code::Ok]);
    assert_eq!(codes(&response), want);
    assert_eq!(told(&response), (Kind::BoolValue(true), Vec::new()));
    // All of them by the environment; rules of their own are told apart.
    let response = ask(telling(true), &["plain=x", "q1=x"], &[over, over]);
    assert_eq!(codes(&response), (Code::Ok, vec![Code::Ok, Code::Ok]));
    let both = vec![index(0.0), index(1.0)];
    assert_eq!(told(&response), (Kind::BoolValue(true), both));
    let response = ask(telling(true), &["plain=x"], &[over]);
    assert_eq!(told(&response).0, Kind::BoolValue(false));
}

#[test]
fn a_limit_takes_the_place_of_others() {
    let rules = ruleset(RULES);
    let limits = |pairs: &[&str]| {
        let request = request(pairs.iter().map(|pair| descriptor(&[pair])).collect());
        let resolved = rules.resolve(&request).expect("a valid request");
        let checks = resolved.checks(b"").map(|check| check.quota.limit);
        checks.collect::<Vec<_>>()
    };
    assert_eq!(limits(&["plain=x", "other=x"]), [5, 7]);
    assert_eq!(limits(&["plain=x", "better=x", "other=x"]), [9]);
    assert_eq!(limits(&["open=x", "plain=x"]), Vec::<u64>::new());
    let response = ask(Modes::default(), &["plain=x", "better=x"], &[with(true, 2)]);
    assert!(response.statuses[0].current_limit.is_none());
    assert_eq!(response.statuses[0].limit_remaining, 0);
}

#[test]
fn values_that_share_a_threshold_share_a_counter() {
    let rules = ruleset(RULES);
    let key = |pairs: &[&str]| {
        let request = request(vec![descriptor(pairs)]);
        let resolved = rules.resolve(&request).expect("a valid request");
        let check = resolved.checks(b"").next().expect("a limit");
        check.key.to_vec()
    };
    assert_eq!(key(&["path=files1"]), key(&["path=files/2"]));
    assert_eq!(key(&["dir=a", "user=u"]), key(&["dir=b", "user=u"]));
    assert_ne!(key(&["dir=a", "user=u"]), key(&["dir=a", "user=v"]));
    assert_eq!(key(&["path=files1"]), b"rl:m:5:basic:4:path:6:files*");
}

#[test]
fn negative_hits_are_a_refund() {
    let rules = ruleset(RULES);
    let refund = RateLimitDescriptor {
        is_negative_hits: true,
        hits_addend: Some(UInt64Value { value: 3 }),
        ..descriptor(&["plain=x"])
    };
    let request = request(vec![refund]);
    let resolved = rules.resolve(&request).expect("a valid request");
    let check = resolved.checks(b"").next().expect("a limit");
    assert_eq!((check.role, check.cost.0), (Role::Refund, 3));
}

#[test]
fn headers_tell_of_the_limit_that_is_closest() {
    let modes = || Modes {
        headers: Some(HeaderForm::Named(HeaderNames::default())),
        ..Modes::default()
    };
    let headers = |limit: &str, remaining: &str| {
        [
            ("RateLimit-Limit", limit),
            ("RateLimit-Remaining", remaining),
            ("RateLimit-Reset", "30"),
        ]
        .map(|(key, value)| HeaderValue {
            key: key.to_owned(),
            value: value.to_owned(),
            raw_value: Vec::new(),
        })
    };
    let both = ["plain=x", "other=x"];
    let response = ask(modes(), &both, &[with(true, 2), with(true, 2)]);
    assert_eq!(response.response_headers_to_add, headers("5", "2"));
    let response = ask(modes(), &both, &[with(true, 0), with(false, 0)]);
    assert_eq!(response.response_headers_to_add, headers("7", "0"));
    let response = ask(modes(), &both, &[with(false, 0), with(false, 0)]);
    assert_eq!(response.response_headers_to_add, headers("7", "0"));
    // What has the most left that there is says nothing, as with the peer.
    let most = u64::from(u32::MAX);
    let silent = ask(modes(), &["plain=x"], &[with(true, most)]);
    assert!(silent.response_headers_to_add.is_empty());
    let response = ask(modes(), &["plain=x"], &[with(true, most - 1)]);
    assert_eq!(response.response_headers_to_add.len(), 3);
    let none = ask(modes(), &["no=rule", "open=x"], &[]);
    assert!(none.response_headers_to_add.is_empty());
    let off = ask(Modes::default(), &both, &[with(true, 2), with(true, 1)]);
    assert!(off.response_headers_to_add.is_empty());
    // The same for who is behind Envoy.
    let forwarded = Modes {
        request_headers: Some(HeaderNames::default()),
        ..Modes::default()
    };
    let response = ask(forwarded, &both, &[with(true, 2), with(true, 2)]);
    assert_eq!(response.request_headers_to_add, headers("5", "2"));
    assert!(response.response_headers_to_add.is_empty());
}

fn text(text: &str) -> Kind {
    Kind::StringValue(text.to_owned())
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn field<'a>(all: &'a Struct, name: &str) -> &'a Kind {
    let value = all.fields.get(name).expect(name);
    value.kind.as_ref().expect(name)
}

#[test]
fn dynamic_metadata_describes_the_request_and_the_rules_that_pass() {
    let rules = ruleset(RULES).with_modes(Modes {
        dynamic_metadata: true,
        ..Modes::default()
    });
    let mut third = with_override(descriptor(&["a=b"]), 10, 2);
    third.hits_addend = Some(UInt64Value { value: 4 });
    let request = RateLimitRequest {
        hits_addend: 2,
        ..request(vec![
            descriptor(&["plain=x"]),
            descriptor(&["other=x"]),
            third,
        ])
    };
    let resolved = rules.resolve(&request).expect("a valid request");
    let ok = with(true, 1);
    let said = |decisions: &[Decision]| {
        let response = resolved.verdict(&request, decisions);
        response.dynamic_metadata.expect("it is on")
    };
    let all = said(&[ok, ok, ok]);
    assert_eq!(field(&all, "domain"), &text("basic"));
    assert_eq!(field(&all, "hitsAddend"), &Kind::NumberValue(2.0));
    let Kind::ListValue(descriptors) = field(&all, "descriptors") else {
        panic!("a list");
    };
    let Some(Kind::StructValue(last)) = &descriptors.values[2].kind else {
        panic!("a structure");
    };
    assert_eq!(
        field(last, "limit"),
        &text("requests_per_unit:10 unit:MINUTE")
    );
    assert_eq!(field(last, "hitsAddend"), &Kind::NumberValue(4.0));
    let Kind::ListValue(entries) = field(last, "entries") else {
        panic!("a list");
    };
    assert_eq!(entries.values, [value(text("a=b"))]);
    let Kind::StructValue(merged) = field(&all, "metadata") else {
        panic!("a structure");
    };
    assert_eq!(field(merged, "team"), &text("a"));
    let Kind::StructValue(deep) = field(merged, "deep") else {
        panic!("a structure");
    };
    assert_eq!(field(deep, "x"), &Kind::NumberValue(1.0));
    assert_eq!(field(deep, "y"), &Kind::BoolValue(true));
    // What is over says nothing.
    let over = said(&[with(false, 0), ok, ok]);
    let Kind::StructValue(merged) = field(&over, "metadata") else {
        panic!("a structure");
    };
    assert_eq!(field(merged, "team"), &text("b"));
}

/// Rules whose series are named after values are made anew for each of them, metadata and all.
#[test]
fn trap_05_metadata_outlives_detailed_metrics() {
    let rules = ruleset(
        "
domain: basic
descriptors:
  - {key: a, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 5}, metadata: {team: a}}
  - {key: b, value_to_metric: true, rate_limit: {unit: minute, requests_per_unit: 5}, metadata: {team: b}}
  - {key: c, value: 'x*', share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 5}, metadata: {team: c}}
",
    )
    .with_modes(Modes {
        dynamic_metadata: true,
        ..Modes::default()
    });
    for team in ["a", "b", "c"] {
        let request = request(vec![descriptor(&[&format!("{team}=xyz")])]);
        let resolved = rules.resolve(&request).expect("a valid request");
        let response = resolved.verdict(&request, &[with(true, 1)]);
        let said = response.dynamic_metadata.expect("it is on");
        let Kind::StructValue(metadata) = field(&said, "metadata") else {
            panic!("a structure");
        };
        assert_eq!(field(metadata, "team"), &text(team));
    }
}

#[test]
fn modes_come_from_the_environment_of_the_peer() {
    let read = |pairs: &[(&str, &str)]| {
        Modes::from_environment(|name| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(read(&[]), Ok(Modes::default()));
    assert_eq!(read(&[("SHADOW_MODE", "")]), Ok(Modes::default()));
    let all = read(&[
        ("SHADOW_MODE", "true"),
        ("QUOTA_MODE", "1"),
        ("LIMIT_RESPONSE_HEADERS_ENABLED", "T"),
        ("LIMIT_RESET_HEADER", "x-reset"),
        ("RESPONSE_DYNAMIC_METADATA", "TRUE"),
        ("LIMIT_PER_UNIT_HEADERS_ENABLED", "true"),
        ("USE_CALENDAR_MONTH_RATE_LIMIT", "true"),
    ])
    .expect("valid");
    assert!(all.calendar_months);
    let per_unit = all.per_unit_headers.as_ref().expect("on");
    assert_eq!(&*per_unit.limit, "RateLimit-Limit");
    assert!(all.shadow_mode && all.quota_mode && all.dynamic_metadata);
    let Some(HeaderForm::Named(names)) = all.headers else {
        panic!("headers are on, by name");
    };
    assert_eq!(
        (&*names.limit, &*names.reset),
        ("RateLimit-Limit", "x-reset")
    );
    assert_eq!(all.request_headers, None);
    let forwarded = read(&[
        ("LIMIT_REQUEST_HEADERS_ENABLED", "true"),
        ("LIMIT_REQUEST_REMAINING_HEADER", "x-left"),
    ])
    .expect("valid");
    let names = forwarded.request_headers.expect("on");
    assert_eq!(
        (&*names.limit, &*names.remaining),
        ("RateLimit-Limit", "x-left")
    );
    assert_eq!(forwarded.headers, None);
    assert_eq!(
        read(&[("QUOTA_MODE", "maybe")]),
        Err("QUOTA_MODE: 'maybe' is neither true nor false".to_owned())
    );
    assert_eq!(
        read(&[("LIMIT_LIMIT_HEADER", "a b")]),
        Err("LIMIT_LIMIT_HEADER: 'a b' is not a header name".to_owned())
    );
}

/// `LIMIT_PER_UNIT_HEADERS_ENABLED`: as the peer's own tests have it.
#[test]
fn headers_may_tell_of_the_tightest_limit_of_each_unit() {
    const UNITS: &str = "
domain: basic
descriptors:
  - {key: ip, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: api, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: organization, rate_limit: {unit: day, requests_per_unit: 100}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: odd, rate_limit: {period: 5m, requests_per_unit: 3}}
";
    let told = |headers: Option<HeaderForm>, left: [u64; 3]| {
        let rules = ruleset(UNITS).with_modes(Modes {
            per_unit_headers: Some(HeaderNames::default()),
            headers,
            ..Modes::default()
        });
        let pairs = [
            "ip=1",
            "free=1",
            "odd=1",
            "api=1",
            "organization=1",
            "no=rule",
        ];
        let descriptors = pairs.iter().map(|pair| descriptor(&[pair])).collect();
        let request = request(descriptors);
        let resolved = rules.resolve(&request).expect("a valid request");
        let [ip, api, organization] = left.map(|left| with(true, left));
        let response = resolved.verdict(&request, &[ip, with(true, 1), api, organization]);
        let headers = response.response_headers_to_add.into_iter();
        headers
            .map(|header| format!("{}: {}", header.key, header.value))
            .collect::<Vec<_>>()
    };
    let seconds = [
        "RateLimit-Limit-Seconds: 5",
        "RateLimit-Remaining-Seconds: 4",
    ];
    let days = ["RateLimit-Limit-Days: 100", "RateLimit-Remaining-Days: 75"];
    assert_eq!(told(None, [9, 4, 75]), [seconds, days].concat());
    let of_ip = [
        "RateLimit-Limit-Seconds: 10",
        "RateLimit-Remaining-Seconds: 0",
    ];
    assert_eq!(told(None, [0, 4, 75])[..2], of_ip);
    // In front of those for the tightest of all.
    let named = Some(HeaderForm::Named(HeaderNames::default()));
    let both = told(named, [9, 4, 75]);
    assert_eq!(both[..4], [seconds, days].concat());
    assert_eq!((both.len(), &*both[4]), (7, "RateLimit-Limit: 3"));
}

/// `USE_CALENDAR_MONTH_RATE_LIMIT`.
#[test]
fn months_may_be_those_of_the_calendar() {
    const MONTHS: &str = "
domain: basic
descriptors:
  - {key: plain, rate_limit: {unit: month, requests_per_unit: 5}}
  - {key: bucket, rate_limit: {unit: month, requests_per_unit: 5, algorithm: gcra}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 5}}
";
    let methods = |calendar_months| {
        let rules = ruleset(MONTHS).with_modes(Modes {
            calendar_months,
            ..Modes::default()
        });
        let descriptors = vec![
            descriptor(&["plain=x"]),
            with_override(descriptor(&["any=x"]), 7, 5),
            descriptor(&["bucket=x"]),
            descriptor(&["day=x"]),
        ];
        let request = request(descriptors);
        let resolved = rules.resolve(&request).expect("a valid request");
        let checks = resolved.checks(b"");
        let told = checks.map(|check| (check.method.name(), check.quota.limit, check.key.to_vec()));
        told.collect::<Vec<_>>()
    };
    let names = |calendar_months| {
        let told = methods(calendar_months).into_iter();
        told.map(|(name, limit, _)| (name, limit))
            .collect::<Vec<_>>()
    };
    let window = "fixed-window-epoch";
    assert_eq!(
        names(false),
        [(window, 5), (window, 7), ("gcra", 5), (window, 5)]
    );
    let months = [("calendar", 5), ("calendar", 7), ("gcra", 5), (window, 5)];
    assert_eq!(names(true), months);
    // They are other counters.
    assert_ne!(methods(false)[0].2, methods(true)[0].2);
}
