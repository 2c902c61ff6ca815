//! What is sent to statsd and DogStatsD, and shown to Prometheus.

use std::collections::BTreeMap;

use super::decisions::{RULES, Seeded, of_rules, random};
use super::pair::{Pair, Store};
use super::program::{Ground, Program, wait_for};
use crate::support::http_exchange;

/// Both after the same requests, of which none is for the domain whose name has dots, and their rules, which must stay.
async fn asked(test: &str, env: &[(&str, &str)]) -> Option<(Pair, Ground)> {
    let ground = Ground::new(&[("rules.yaml", RULES)]);
    let mut pair = Pair::start(test, Store::SharedKeys, &ground, env).await?;
    let mut seeded = Seeded(20);
    for _ in 0..100 {
        let request = random(&mut seeded);
        if request.domain != "my.domain" {
            pair.ask(&request).await;
        }
    }
    Some((pair, ground))
}

#[tokio::test]
async fn tags_are_those_of_the_original() {
    let test = "tags_are_those_of_the_original";
    let tags = ("EXTRA_TAGS", "zone:a.b|c,az.1:d,none:");
    if let Some((pair, _ground)) = asked(test, &[tags]).await {
        pair.compare_counters(of_rules);
    }
    if let Some((pair, _ground)) = asked(test, &[tags, ("STATSD_PROTOCOL", "udp")]).await {
        pair.compare_counters(of_rules);
    }
}

#[tokio::test]
async fn dogstatsd_is_told_what_the_original_tells_it() {
    let test = "dogstatsd_is_told_what_the_original_tells_it";
    let env = [
        ("EXTRA_TAGS", "zone:a.b,az:1"),
        ("USE_DOG_STATSD", "true"),
        ("USE_STATSD", "false"),
    ];
    if let Some((pair, _ground)) = asked(test, &env).await {
        pair.compare_counters(of_rules);
        let ours = pair.ours.statsd.counters(of_rules);
        assert!(
            ours.keys().all(|name| name.ends_with("#az:1,zone:a_b")),
            "{ours:?}"
        );
    }
}

/// Metrics of rules by name and labels. Those of what is not mapped are told in other words.
fn shown(program: &Program) -> BTreeMap<String, u64> {
    let (status, _, text) = http_exchange(program.prometheus, "GET", "/metrics", "");
    assert_eq!(status, 200);
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("ratelimit_service_")?.rsplit_once(' '));
    lines
        .filter(|(name, _)| {
            let of_rule = name.starts_with("rate_limit_") && name.contains("{domain=\"test\"");
            (of_rule && !name.contains("local_cache")) || name.starts_with("config_load")
        })
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        // The original shows nothing that has not been counted.
        .filter(|(_, value)| *value > 0)
        .collect()
}

#[tokio::test]
async fn prometheus_is_shown_what_the_original_shows() {
    let test = "prometheus_is_shown_what_the_original_shows";
    let env = [("USE_PROMETHEUS", "true"), ("USE_STATSD", "false")];
    let Some((pair, _ground)) = asked(test, &env).await else {
        return;
    };
    // The original sends to itself at intervals.
    wait_for("the same metrics of both", || {
        let [original, ours] = pair.both().map(shown);
        original.len() > 20 && original == ours
    });
}
