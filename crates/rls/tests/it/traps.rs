//! Mistakes that other services made, by the numbers of `docs/traps.md`: those that need a service.

use tollgate_wire::rls::RateLimitDescriptor;
use tollgate_wire::rls::rate_limit_descriptor::RateLimitOverride;
use tollgate_wire::rls::rate_limit_response::Code;

use tollgate_rls::{HeaderForm, Modes};
use tollgate_wire::rls::UInt64Value;

use crate::support::{Service, descriptor, request};

/// A rule in shadow mode that is over, also when its denial is known without asking, keeps no other from counting.
#[tokio::test]
async fn trap_06_a_shadow_that_is_over_lets_others_count() {
    let service = Service::embedded();
    let mut client = service.client().await;
    let alone = || request(vec![descriptor(&["shadow=x"])]);
    for _ in 0..500 {
        let response = client.ask(alone()).await.expect("an answer");
        assert_eq!(response.overall_code(), Code::Ok);
    }
    let both = || request(vec![descriptor(&["shadow=x"]), descriptor(&["ten=x"])]);
    for left in (0..10).rev() {
        let response = client.ask(both()).await.expect("an answer");
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!(response.statuses[1].limit_remaining, left);
    }
    let response = client.ask(both()).await.expect("an answer");
    assert_eq!(response.overall_code(), Code::OverLimit);
}

/// A status has a time for who must wait, and none for who waits in vain: a header tells them apart, in each form that tells of waits.
#[tokio::test]
async fn trap_18_what_can_never_pass_has_a_code_over_grpc() {
    let forms = HeaderForm::NAMES.into_iter().filter(|name| *name != "none");
    for form in forms {
        let service = Service::with_modes(Modes {
            headers: HeaderForm::parse(form),
            ..Modes::default()
        });
        let mut client = service.client().await;
        for (hits, code) in [(11, Some("never_possible")), (10, None), (1, None)] {
            let asked = RateLimitDescriptor {
                hits_addend: Some(UInt64Value { value: hits }),
                ..descriptor(&["ten=x"])
            };
            let response = client.ask(request(vec![asked])).await.expect("an answer");
            let header = |name: &str| {
                let mut headers = response.response_headers_to_add.iter();
                let found = headers.find(|header| header.key == name);
                found.map(|header| &*header.value)
            };
            assert_eq!(header("X-RateLimit-Code"), code, "{form} {hits}");
            let waits = hits == 1;
            assert_eq!(header("Retry-After").is_some(), waits, "{form} {hits}");
        }
    }
}

/// Limits that requests bring along have series by the values of their descriptors, which are the callers' to choose.
#[tokio::test]
async fn trap_08_overrides_do_not_fill_the_metrics() {
    const SERIES: usize = 4_096;
    const EACH: usize = 50;
    const REQUESTS: usize = 100;
    let service = Service::embedded();
    let mut client = service.client().await;
    for number in 0..REQUESTS {
        let one = |at: usize| RateLimitDescriptor {
            limit: Some(RateLimitOverride {
                requests_per_unit: (number * EACH + at + 1) as u32,
                unit: 4,
            }),
            ..descriptor(&[&format!("override={number}-{at}")])
        };
        let asked = request((0..EACH).map(one).collect());
        let response = client.ask(asked).await.expect("an answer");
        assert_eq!(response.overall_code(), Code::Ok);
    }
    let (_, text) = service.http("GET", "/metrics", "");
    let value = |name: &str| -> Option<usize> {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    let series = value("tollgate_metric_series ").expect("it is told");
    assert!(series <= SERIES, "{series} series");
    // Whatever has no series of its own is counted all the same.
    let hits = "ratelimit_service_rate_limit_total_hits";
    let of_overrides = text
        .lines()
        .filter(|line| line.starts_with(hits) && line.contains("key1=\"override_"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
        .sum::<usize>();
    let of_others = value(&format!("{hits}{{domain=\"other\"}} ")).unwrap_or(0);
    assert_eq!(of_overrides + of_others, EACH * REQUESTS);
}
