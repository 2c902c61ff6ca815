//! The response for given decisions.

use tollgate_limiter::Decision;
use tollgate_policy::standings;
use tollgate_wire::rls::Duration;
use tollgate_wire::rls::rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit};

use crate::{descriptor, request, ruleset, with_override};

const RULES: &str = "
domain: basic
descriptors:
  - {key: named, rate_limit: {unit: week, requests_per_unit: 10, name: per-week}}
  - {key: open, rate_limit: {unlimited: true}}
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 5}}
";

const ALLOWED: Decision = Decision {
    allowed: true,
    limit: 10,
    remaining: 7,
    retry_after: Some(0),
    reset_after: 59_001_000_000,
};
const DENIED: Decision = Decision {
    allowed: false,
    limit: 5,
    remaining: 2,
    retry_after: Some(1_000_000_001),
    reset_after: 9_000_000_000,
};

#[test]
fn statuses_stand_at_the_index_of_their_descriptor() {
    let rules = ruleset(RULES);
    let request = request(
        ["free=x", "named=x", "open=x", "plain=x", "free=y"]
            .map(|pair| descriptor(&[pair]))
            .to_vec(),
    );
    let resolved = rules.resolve(&request).expect("a valid request");
    let response = resolved.verdict(&request, &[ALLOWED, DENIED]);
    assert_eq!(response.overall_code, Code::OverLimit as i32);
    let free = DescriptorStatus {
        code: Code::Ok as i32,
        ..DescriptorStatus::default()
    };
    let want = [
        free.clone(),
        DescriptorStatus {
            code: Code::Ok as i32,
            current_limit: Some(RateLimit {
                name: "per-week".to_owned(),
                requests_per_unit: 10,
                unit: rate_limit::Unit::Week as i32,
            }),
            limit_remaining: 7,
            duration_until_reset: Some(Duration {
                seconds: 60,
                nanos: 0,
            }),
            quota: None,
        },
        DescriptorStatus {
            limit_remaining: u32::MAX,
            ..free.clone()
        },
        DescriptorStatus {
            code: Code::OverLimit as i32,
            current_limit: Some(RateLimit {
                name: String::new(),
                requests_per_unit: 5,
                unit: rate_limit::Unit::Minute as i32,
            }),
            limit_remaining: 0,
            duration_until_reset: Some(Duration {
                seconds: 2,
                nanos: 0,
            }),
            quota: None,
        },
        free,
    ];
    assert_eq!(response.statuses, want);
}

/// A request that is denied is told when it would pass; one that never does, when all is there again.
#[test]
fn who_is_denied_is_told_when_to_come_back() {
    let rules = ruleset(RULES);
    let request = request(vec![descriptor(&["plain=x"])]);
    let resolved = rules.resolve(&request).expect("a valid request");
    for (retry_after, seconds) in [(Some(1), 1), (Some(1_000_000_001), 2), (None, 9)] {
        let decision = Decision {
            retry_after,
            ..DENIED
        };
        let response = resolved.verdict(&request, &[decision]);
        let told = response.statuses[0].duration_until_reset;
        assert_eq!(told, Some(Duration { seconds, nanos: 0 }));
        let outcomes = resolved.outcomes(&[decision]);
        let standings = standings(&outcomes, &request);
        assert_eq!(standings[0].reset.div_ceil(1_000_000_000), seconds as u64);
    }
}

/// Nobody is told that more is left than there ever is.
#[test]
fn a_bucket_that_holds_more_than_it_earns_in_its_period_is_told_by_what_it_holds() {
    let minute = rate_limit::Unit::Minute as i32;
    for (burst, limit, unit, window_secs) in [
        (400, 400, 0, 240),
        // As many in a minute as 100 in a second.
        (6_000, 6_000, minute, 60),
        (101, 101, 0, 2),
        (100, 100, rate_limit::Unit::Second as i32, 1),
        // Less may pass at once than in a period.
        (20, 100, rate_limit::Unit::Second as i32, 1),
    ] {
        let unit_name = if burst == 400 { "minute" } else { "second" };
        let rules = ruleset(&format!(
            "domain: basic\ndescriptors: [{{key: k, rate_limit: {{unit: {unit_name}, requests_per_unit: 100, algorithm: gcra, burst: {burst}}}}}]"
        ));
        let request = request(vec![descriptor(&["k=x"])]);
        let resolved = rules.resolve(&request).expect("a valid request");
        let decision = Decision {
            limit: burst,
            remaining: burst - 1,
            ..ALLOWED
        };
        let status = &resolved.verdict(&request, &[decision]).statuses[0];
        let told = status.current_limit.as_ref().expect("a limit");
        assert_eq!(
            (u64::from(told.requests_per_unit), told.unit),
            (limit, unit),
            "{burst}"
        );
        assert_eq!(u64::from(status.limit_remaining), burst - 1);
        let outcomes = resolved.outcomes(&[decision]);
        let standing = &standings(&outcomes, &request)[0];
        assert_eq!(
            (standing.quota, standing.window_secs),
            (limit, window_secs),
            "{burst}"
        );
    }
}

#[test]
fn all_that_pass_make_a_pass() {
    let rules = ruleset(RULES);
    let request = request(vec![
        descriptor(&["named=x"]),
        with_override(descriptor(&["x=y"]), 9, 4),
    ]);
    let resolved = rules.resolve(&request).expect("a valid request");
    let huge = Decision {
        remaining: u64::MAX,
        ..ALLOWED
    };
    let response = resolved.verdict(&request, &[ALLOWED, huge]);
    assert_eq!(response.overall_code, Code::Ok as i32);
    assert_eq!(response.statuses[1].limit_remaining, u32::MAX);
    let limit = response.statuses[1]
        .current_limit
        .as_ref()
        .expect("the override");
    assert_eq!(
        (limit.requests_per_unit, limit.unit),
        (9, rate_limit::Unit::Day as i32)
    );
}

#[test]
fn what_no_rule_matches_passes() {
    let rules = ruleset("domain: basic");
    let request = request(vec![descriptor(&["a=b"]), descriptor(&["c=d"])]);
    let response = rules
        .resolve(&request)
        .expect("a valid request")
        .verdict(&request, &[]);
    assert_eq!(response.overall_code, Code::Ok as i32);
    assert_eq!(response.statuses.len(), 2);
    assert!(
        response
            .statuses
            .iter()
            .all(|status| status.current_limit.is_none() && status.limit_remaining == 0)
    );
}
