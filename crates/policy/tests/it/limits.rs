//! Keys of our own in `rate_limit`.

use tollgate_limiter::calendar::{Calendar, CalendarUnit, Zone};
use tollgate_limiter::{Act, AlgorithmKind, Cost, Decision, Method, Quota};
use tollgate_policy::{Fallback, MAX_LIMITS, OnError, RuleError, Ruleset};
use tollgate_wire::rls::rate_limit_descriptor::Entry;
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest};

const SECOND: u64 = 1_000_000_000;

fn load(rate_limit: &str) -> Result<Ruleset, RuleError> {
    let text = format!("domain: d\ndescriptors:\n- key: k\n  rate_limit: {rate_limit}\n");
    Ruleset::load(&[("f", &text)])
}

fn request() -> RateLimitRequest {
    let entry = Entry {
        key: "k".to_owned(),
        value: "v".to_owned(),
    };
    RateLimitRequest {
        domain: "d".to_owned(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![entry],
            ..RateLimitDescriptor::default()
        }],
        hits_addend: 0,
    }
}

/// Keys, algorithms and quotas of a rule's limits.
fn limits(rate_limit: &str) -> Vec<(String, Method, Quota)> {
    let rules = load(rate_limit).expect(rate_limit);
    let request = request();
    let resolved = rules.resolve(&request).expect("a request");
    let checks = resolved.checks(b"me").map(|check| {
        let key = String::from_utf8(check.key.to_vec()).expect("text");
        (key, check.method, check.quota)
    });
    checks.collect()
}

#[test]
fn one_limit_of_every_algorithm() {
    use AlgorithmKind as Kind;
    let ten = Quota::new(10, 10 * SECOND);
    for (name, kind) in [
        ("fixed-window", Kind::FixedWindow),
        ("fixed-window-epoch", Kind::FixedWindowEpoch),
        ("gcra", Kind::Gcra),
        ("sliding-window", Kind::SlidingWindow),
        ("token-bucket", Kind::TokenBucket),
        ("leaky-bucket", Kind::LeakyBucket),
    ] {
        let text = format!("{{requests_per_unit: 10, period: 10s, algorithm: {name}}}");
        let key = format!("rl:{name}-10000:1:d:1:k:1:v");
        assert_eq!(limits(&text), [(key, Method::Small(kind), ten)]);
    }
    let log = limits("{requests_per_unit: 10, period: 10s, algorithm: sliding-log}");
    assert_eq!(log[0].1, Method::Log);
    let burst = limits("{requests_per_unit: 10, unit: minute, algorithm: gcra, burst: 3}");
    let quota = Quota::new(10, 60 * SECOND).with_burst(3);
    assert_eq!(burst[0].2, quota);
    assert_eq!(burst[0].0, "rl:gcra-60000:1:d:1:k:1:v");
}

#[test]
fn a_period_that_is_a_unit_counts_where_the_unit_does() {
    let unit = limits("{requests_per_unit: 10, unit: minute}");
    assert_eq!(unit[0].0, "rl:m:1:d:1:k:1:v");
    for same in [
        "{requests_per_unit: 10, period: 1m}",
        "{requests_per_unit: 10, period: 60s, algorithm: fixed-window-epoch}",
        "{limits: [{requests_per_unit: 10, unit: minute}]}",
    ] {
        assert_eq!(limits(same), unit);
    }
}

#[test]
fn calendars_and_their_zones() {
    let calendar = |unit, zone: &[u8]| {
        let zone = Zone::by_name(zone).expect("a zone");
        Method::Small(AlgorithmKind::Calendar(Calendar { unit, zone }))
    };
    for (text, method) in [
        ("period: 1mo", calendar(CalendarUnit::Month, b"UTC")),
        (
            "period: 1mo, zone: Europe/Paris",
            calendar(CalendarUnit::Month, b"Europe/Paris"),
        ),
        ("period: 1q", calendar(CalendarUnit::Quarter, b"UTC")),
        ("period: 1d, zone: UTC", calendar(CalendarUnit::Day, b"UTC")),
        (
            "unit: week, zone: Asia/Tokyo",
            calendar(CalendarUnit::Week, b"Asia/Tokyo"),
        ),
        (
            "unit: month, algorithm: calendar",
            calendar(CalendarUnit::Month, b"UTC"),
        ),
        (
            "period: 1d, algorithm: calendar",
            calendar(CalendarUnit::Day, b"UTC"),
        ),
    ] {
        let made = limits(&format!("{{requests_per_unit: 5, {text}}}"));
        assert_eq!((made[0].1, made[0].2.limit), (method, 5), "{text}");
    }
    assert_eq!(
        limits("{requests_per_unit: 5, period: 1mo, zone: Europe/Paris}")[0].0,
        "rl:calendar-month-Europe/Paris:1:d:1:k:1:v"
    );
    let day = limits("{requests_per_unit: 5, period: 1d}");
    assert_eq!(day[0].0, "rl:d:1:d:1:k:1:v", "a span of 24 hours");
}

#[test]
fn several_limits_and_places() {
    let rules = load(
        "
    name: user
    limits:
    - {unit: second, requests_per_unit: 3, name: burst}
    - {period: 1d, requests_per_unit: 100, algorithm: sliding-window}
    - {concurrency: 2, lease: 30s, name: places}",
    )
    .expect("valid");
    let request = request();
    let resolved = rules.resolve(&request).expect("a request");
    assert!(resolved.takes_leases());
    let checks: Vec<_> = resolved.checks(b"me").collect();
    let ttl = 30 * SECOND;
    assert_eq!(checks[2].act, Act::Hold { id: b"me", ttl });
    assert!(checks.iter().all(|check| check.descriptor == 0));
    assert_eq!((checks[0].act, checks[0].cost), (Act::Take, Cost(1)));

    let made = |allowed, remaining, retry: Option<u64>| Decision {
        allowed,
        limit: 9,
        remaining,
        retry_after: retry.map(|secs| secs * SECOND),
        reset_after: 7 * SECOND,
    };
    let named = |decisions: [Decision; 3]| {
        let response = resolved.verdict(&request, &decisions);
        let status = &response.statuses[0];
        let limit = status.current_limit.clone().expect("a limit");
        assert_eq!(response.statuses.len(), 1);
        (limit.name, status.code(), status.limit_remaining)
    };
    let yes = |left| made(true, left, Some(0));
    // What holds back the longest is told, else what has the least left.
    assert_eq!(
        named([yes(5), yes(4), yes(9)]),
        ("user".to_owned(), Code::Ok, 4)
    );
    let no = |wait| made(false, 0, wait);
    assert_eq!(
        named([no(Some(1)), no(Some(8)), yes(0)]),
        ("user".to_owned(), Code::OverLimit, 0)
    );
    assert_eq!(
        named([no(Some(1)), no(Some(8)), no(None)]).0,
        "places",
        "never is longest"
    );
}

#[test]
fn what_becomes_of_requests_that_cannot_be_decided() {
    let on_error = |text: &str| {
        let text = format!("{{requests_per_unit: 5, unit: day, on_error: {text}}}");
        let rules = load(&text).expect(&text);
        let request = request();
        let resolved = rules.resolve(&request).expect("a request");
        resolved.checks(b"").next().expect("a check").on_error
    };
    let plain = |fallback| OnError {
        fallback,
        ..OnError::DEFAULT
    };
    assert_eq!(on_error("~"), OnError::DEFAULT);
    assert_eq!(on_error("error"), OnError::DEFAULT);
    assert_eq!(on_error("closed"), plain(Fallback::Closed));
    assert_eq!(on_error("open"), plain(Fallback::Open));
    assert_eq!(
        on_error("{mode: open, budget: 30s}"),
        OnError {
            budget: Some(30 * SECOND),
            ..plain(Fallback::Open)
        }
    );
    for share in ["25%", "0.25", "25.0%"] {
        assert_eq!(
            on_error(&format!("{{mode: local, share: {share}}}")),
            OnError {
                share_ppm: 250_000,
                ..plain(Fallback::Local)
            }
        );
    }
}

#[test]
fn exactness_and_inheritance_hold_for_all_limits_of_a_rule() {
    let checks = |text: &str| {
        let rules = load(text).expect(text);
        let request = request();
        let resolved = rules.resolve(&request).expect("a request");
        let of = |check: tollgate_policy::LimitCheck<'_>| {
            let key = String::from_utf8_lossy(check.key).into_owned();
            (check.exact, key.split(':').nth(1).map(str::to_owned))
        };
        resolved.checks(b"").map(of).collect::<Vec<_>>()
    };
    let tag = |tag: &str| Some(tag.to_owned());
    assert_eq!(
        checks("{requests_per_unit: 5, unit: day, exact: false}"),
        [(false, tag("d"))]
    );
    assert_eq!(
        checks(
            "{exact: true, inherit: additive, limits: [{requests_per_unit: 5, unit: day}, {concurrency: 2}]}"
        ),
        [(true, tag("d@5")), (true, tag("concurrency"))]
    );
}

/// Each text is refused at the line of its `rate_limit`, with a reason that begins so.
fn refused(cases: &[(&str, &str)]) {
    for (text, reason) in cases {
        let error = load(text).expect_err(text);
        assert_eq!(error.line, 4, "{error}");
        let found = error.reason;
        assert!(found.starts_with(reason), "{text}: {found}");
    }
}

#[test]
fn what_is_wrong_with_one_limit_is_told_with_its_line() {
    refused(&[
        (
            "{requests_per_unit: 1, unit: day, algorithm: lifo}",
            "unknown algorithm 'lifo': there are fixed-window, ",
        ),
        (
            "{requests_per_unit: 1, unit: day, period: 1d}",
            "unit and period are both given",
        ),
        (
            "{requests_per_unit: 1, period: 5}",
            "config error, period must be a span of at least 1ms",
        ),
        ("{requests_per_unit: 1}", "invalid rate limit unit ''"),
        ("{period: 1s}", "rate_limit has no requests_per_unit"),
        (
            "{requests_per_unit: 1, unit: day, burst: 2}",
            "algorithm fixed-window-epoch has no burst",
        ),
        (
            "{requests_per_unit: 1, unit: day, zone: Mars}",
            "config error, zone must be a time zone",
        ),
        (
            "{requests_per_unit: 1, unit: hour, zone: UTC}",
            "a zone needs a unit of day",
        ),
        (
            "{requests_per_unit: 1, period: 2d, zone: UTC}",
            "a zone needs a unit of day",
        ),
        (
            "{requests_per_unit: 1, period: 1mo, algorithm: gcra}",
            "algorithm gcra cannot use a calendar period",
        ),
        (
            "{requests_per_unit: 1, period: 2s, algorithm: calendar}",
            "algorithm calendar needs a period of 1d",
        ),
        (
            "{requests_per_unit: 1, period: 2s, algorithm: concurrency}",
            "algorithm concurrency needs the key concurrency",
        ),
        (
            "{concurrency: 1, unit: second}",
            "unit cannot be combined with concurrency",
        ),
        (
            "{concurrency: 1, algorithm: gcra}",
            "algorithm gcra cannot be combined with concurrency",
        ),
        (
            "{concurrency: many}",
            "config error, concurrency must be a whole number",
        ),
        (
            "{requests_per_unit: 1, unit: day, lease: 1s}",
            "lease needs concurrency",
        ),
    ]);
}

#[test]
fn what_is_wrong_among_several_keys_is_told_with_its_line() {
    refused(&[
        ("{limits: []}", "limits must have 1 to 16 entries"),
        ("{limits: 3}", "config error, limits must be a list"),
        (
            "{limits: [3]}",
            "config error, yaml file contains list of type",
        ),
        (
            "{limits: [{unlimited: true}]}",
            "config error, unknown key 'unlimited'",
        ),
        (
            "{unit: day, limits: [{concurrency: 1}]}",
            "unit cannot be next to limits",
        ),
        (
            "{burst: 1, limits: [{concurrency: 1}]}",
            "burst cannot be next to limits",
        ),
        (
            "{limits: [{concurrency: 1}, {concurrency: 2}]}",
            "two limits of one rule have the same",
        ),
        (
            "{unlimited: true, period: 1s}",
            "should not specify period when unlimited",
        ),
        (
            "{unlimited: true, limits: [{concurrency: 1}]}",
            "should not specify limits when unlimited",
        ),
        (
            "{unlimited: true, inherit: reset}",
            "should not specify inherit when unlimited",
        ),
        (
            "{unlimited: true, exact: true}",
            "should not specify exact when unlimited",
        ),
        (
            "{requests_per_unit: 1, unit: day, inherit: all}",
            "config error, inherit must be one of reset, proportional, as_is, additive",
        ),
        (
            "{requests_per_unit: 1, unit: day, exact: 1}",
            "config error, exact must be true or false",
        ),
        (
            "{concurrency: 4, inherit: as_is}",
            "inherit cannot be combined with concurrency",
        ),
        (
            "{limits: [{requests_per_unit: 1, unit: day, inherit: as_is}]}",
            "config error, unknown key 'inherit'",
        ),
    ]);
    let many = vec!["{concurrency: 1}"; MAX_LIMITS + 1].join(", ");
    refused(&[(&format!("{{limits: [{many}]}}"), "limits must have")]);
}

#[test]
fn what_is_wrong_with_on_error_is_told_with_its_line() {
    refused(&[
        (
            "{requests_per_unit: 1, unit: day, on_error: maybe}",
            "config error, on_error must be one of error, closed, open, local",
        ),
        (
            "{requests_per_unit: 1, unit: day, on_error: {share: 1}}",
            "on_error has no mode",
        ),
        (
            "{requests_per_unit: 1, unit: day, on_error: {mode: open, share: 1}}",
            "only the mode local has a share",
        ),
        (
            "{requests_per_unit: 1, unit: day, on_error: {mode: closed, budget: 1s}}",
            "only the modes open and local have a budget",
        ),
        (
            "{requests_per_unit: 1, unit: day, on_error: {mode: local, share: 101%}}",
            "config error, share must be a part above 0",
        ),
        (
            "{requests_per_unit: 1, unit: day, on_error: {mode: local, share: nan}}",
            "config error, share must be a part above 0",
        ),
        (
            "{unlimited: true, on_error: open}",
            "should not specify on_error when unlimited",
        ),
        (
            "{requests_per_unit: 1, unit: day, algorythm: gcra}",
            "config error, unknown key 'algorythm'",
        ),
    ]);
}
