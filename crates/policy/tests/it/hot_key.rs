//! The key `hot_key`.

use tollgate_policy::{HotKey, Ruleset};
use tollgate_wire::rls::rate_limit_descriptor::Entry;
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest};

/// What the checks of a rule with this key, on its fourth line, are decided by.
fn of(limit: &str, hot_key: &str) -> Result<HotKey, String> {
    let text = format!(
        "domain: d\ndescriptors:\n- key: k\n  rate_limit: {{{limit},\n    hot_key: {hot_key}}}\n"
    );
    let rules = Ruleset::load(&[("f", &text)]).map_err(|error| error.to_string())?;
    let entry = Entry {
        key: "k".to_owned(),
        value: "v".to_owned(),
    };
    let request = RateLimitRequest {
        domain: "d".to_owned(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![entry],
            ..RateLimitDescriptor::default()
        }],
        hits_addend: 0,
    };
    let resolved = rules.resolve(&request).expect("a request");
    let check = resolved.checks(b"").next().expect("a limit");
    Ok(check.hot_key)
}

const HUNDRED: &str = "unit: minute, requests_per_unit: 100";

#[test]
fn every_strategy_has_its_settings() {
    for (text, want) in [
        ("exact", HotKey::Exact),
        ("~", HotKey::Exact),
        ("denial-cache", HotKey::DenialCache),
        ("{strategy: denial-cache}", HotKey::DenialCache),
        (
            "{strategy: local, share: 25%, services: 4}",
            HotKey::Local {
                share_ppm: 250_000,
                services: 4,
            },
        ),
        (
            "{strategy: shards, shards: 8}",
            HotKey::Shards { shards: 8 },
        ),
        (
            "{strategy: write-behind, interval: 50ms}",
            HotKey::WriteBehind {
                interval: 50_000_000,
            },
        ),
        (
            "{strategy: probabilistic, one_in: 10}",
            HotKey::Probabilistic { one_in: 10 },
        ),
        ("{strategy: batch, size: 10}", HotKey::Batch { size: 10 }),
    ] {
        assert_eq!(of(HUNDRED, text), Ok(want), "{text}");
        if text.contains("strategy") {
            assert!(text.contains(want.name()), "{text}");
        }
    }
}

#[test]
fn what_contradicts_itself_is_refused_with_its_reason() {
    let gcra = "unit: minute, requests_per_unit: 100, algorithm: gcra, burst: 5";
    let first_hit = "unit: minute, requests_per_unit: 100, algorithm: fixed-window";
    for (limit, text, reason) in [
        (HUNDRED, "sharding", "one of exact, denial-cache, local"),
        (HUNDRED, "shards", "needs shards"),
        (HUNDRED, "[shards]", "strategy"),
        (HUNDRED, "{shards: 8}", "no strategy"),
        (HUNDRED, "{strategy: shards, shards: 1}", "2 to 64"),
        (HUNDRED, "{strategy: shards, shards: 65}", "2 to 64"),
        (
            HUNDRED,
            "{strategy: shards, shards: 2, one_in: 2}",
            "shards has no one_in",
        ),
        (HUNDRED, "{strategy: exact, shards: 2}", "has no shards"),
        (HUNDRED, "{strategy: local, share: 10%}", "needs services"),
        (
            HUNDRED,
            "{strategy: local, share: 34%, services: 3}",
            "more than the limit",
        ),
        (
            HUNDRED,
            "{strategy: local, share: 0.5%, services: 3}",
            "less than one unit",
        ),
        (HUNDRED, "{strategy: write-behind, interval: 1m}", "10s"),
        (
            "period: 5s, requests_per_unit: 100",
            "{strategy: write-behind, interval: 5s}",
            "not shorter than the period",
        ),
        (gcra, "{strategy: probabilistic, one_in: 6}", "the 5 units"),
        (gcra, "{strategy: batch, size: 6}", "the 5 units"),
        (HUNDRED, "batch", "needs size"),
        (HUNDRED, "{strategy: batch, size: 1}", "2 to 10000"),
        (
            first_hit,
            "{strategy: shards, shards: 2}",
            "fixed-window-epoch",
        ),
        (
            "concurrency: 5",
            "denial-cache",
            "combined with concurrency",
        ),
        (
            "unit: day, exact: true, requests_per_unit: 9",
            "denial-cache",
            "exact cannot be combined",
        ),
        (
            "unit: day, inherit: as_is, requests_per_unit: 9",
            "{strategy: shards, shards: 2}",
            "inherit cannot be combined",
        ),
        ("unlimited: true", "denial-cache", "when unlimited"),
    ] {
        let error = of(limit, text).expect_err(text);
        assert!(error.contains(reason), "{text}: {error}");
        assert!(error.starts_with("f:5: "), "{text}: {error}");
    }
}
