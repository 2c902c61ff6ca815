//! Decisions over gRPC.

use tollgate_wire::rls::rate_limit_descriptor::RateLimitOverride;
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::rls::{RateLimitRequest, UInt64Value};

use super::pair::{Pair, Store, redis, text};
use super::program::Ground;
use crate::support::{descriptor, request};

/// Seconds of a year, as both count.
pub(super) const YEAR: u64 = 365 * 86_400;

/// Years, so that no test meets the end of a window.
pub(super) const RULES: &str = "
domain: test
descriptors:
  - {key: one, rate_limit: {unit: year, requests_per_unit: 1, name: one}}
  - {key: five, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: five, value: special, rate_limit: {unit: year, requests_per_unit: 3, name: special}}
  - {key: five, value: free}
  - {key: none, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: most, rate_limit: {unit: year, requests_per_unit: 4294967295}}
  - {key: open, rate_limit: {unlimited: true}}
  - {key: opener, rate_limit: {unlimited: true, name: opener, replaces: [{name: one}]}}
  - {key: swap, rate_limit: {unit: year, requests_per_unit: 2, name: swap, replaces: [{name: one}, {name: special}]}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: quota, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: both, shadow_mode: true, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: detailed, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: '10.0.0.1:80|x', detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 10}}
  - key: path
    value_to_metric: true
    descriptors:
      - {key: user, value_to_metric: true, rate_limit: {unit: year, requests_per_unit: 4}}
      - {key: user, value: root, rate_limit: {unit: year, requests_per_unit: 6}}
      - {key: plain, rate_limit: {unit: year, requests_per_unit: 4}}
      - {key: part, value: 'a*', value_to_metric: true, rate_limit: {unit: year, requests_per_unit: 4}}
      - {key: full, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 4}}
  - {key: files, value: 'pub*', share_threshold: true, rate_limit: {unit: year, requests_per_unit: 8}}
  - {key: files, value: 'p*', rate_limit: {unit: year, requests_per_unit: 4}}
  - {key: files, value: 'pub-exact', rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: files, rate_limit: {unit: year, requests_per_unit: 3}}
  - key: shared
    value: 'x*'
    share_threshold: true
    detailed_metric: true
    descriptors:
      - {key: inner, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 6}}
      - {key: other, value_to_metric: true, rate_limit: {unit: year, requests_per_unit: 6}}
  - key: tree
    value: a
    rate_limit: {unit: year, requests_per_unit: 20}
    descriptors:
      - key: leaf
        rate_limit: {unit: year, requests_per_unit: 7}
        descriptors:
          - {key: deep, value: down, rate_limit: {unit: year, requests_per_unit: 2}}
  - key: tree
    descriptors:
      - {key: leaf, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: second, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: hour, rate_limit: {unit: HOUR, requests_per_unit: 10}}
  - {key: day, rate_limit: {unit: Day, requests_per_unit: 10}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 10}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 10}}
";

/// A second file: a domain whose name has dots.
pub(super) const DOTTED: &str = "
domain: my.domain
descriptors:
  - {key: five, rate_limit: {unit: year, requests_per_unit: 5}}
";

/// Numbers that are the same in every run.
pub(super) struct Seeded(pub(super) u64);

impl Seeded {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed % bound as u64) as usize
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Entries that meet rules in every way, and some that meet none.
const ENTRIES: &[&[&str]] = &[
    &["one=a"],
    &["one=b"],
    &["five=a"],
    &["five=b"],
    &["five="],
    &["five=special"],
    &["five=free"],
    &["none=a"],
    &["most=a"],
    &["open=a"],
    &["opener=a"],
    &["swap=a"],
    &["shadow=a"],
    &["quota=a"],
    &["quota=b"],
    &["both=a"],
    &["detailed=a"],
    &["detailed=10.0.0.1"],
    &["detailed=a:b|c"],
    &["detailed="],
    &["10.0.0.1:80|x=y.1.2.3.4.5"],
    &["path=p", "user=u"],
    &["path=p", "user=root"],
    &["path=q", "plain=u"],
    &["path=q", "part=abc"],
    &["path=q", "part=xbc"],
    &["path=q", "full=v"],
    &["path=q"],
    &["files=pub1"],
    &["files=pub2"],
    &["files=pub-exact"],
    &["files=private"],
    &["files=other"],
    &["files="],
    &["shared=x1", "inner=i"],
    &["shared=x2", "inner=i"],
    &["shared=x2", "other=o"],
    &["shared=y", "inner=i"],
    &["tree=a"],
    &["tree=a", "leaf=l"],
    &["tree=a", "leaf=l", "deep=down"],
    &["tree=a", "leaf=l", "deep=up"],
    &["tree=b"],
    &["tree=b", "leaf=l"],
    &["tree=b", "leaf=l", "deep=down"],
    &["unknown=a"],
    &["five=a", "unknown=b"],
    &["unknown=b", "five=a"],
    &[],
];

/// Some request.
pub(super) fn random(seeded: &mut Seeded) -> RateLimitRequest {
    let count = seeded.one_of(&[1, 1, 1, 2, 2, 3, 5]);
    let descriptors = (0..count).map(|_| {
        let mut made = descriptor(seeded.one_of(ENTRIES));
        if seeded.below(4) == 0 {
            let value = seeded.one_of(&[0, 0, 1, 2, 3, 7, 20]);
            made.hits_addend = Some(UInt64Value { value });
        }
        if seeded.below(8) == 0 {
            made.limit = Some(RateLimitOverride {
                requests_per_unit: seeded.one_of(&[0, 2, 9, u32::MAX]),
                unit: 6,
            });
        }
        made
    });
    let descriptors = descriptors.collect();
    let domain = seeded.one_of(&[
        "test",
        "test",
        "test",
        "test",
        "test",
        "my.domain",
        "nowhere",
    ]);
    RateLimitRequest {
        domain: domain.to_owned(),
        hits_addend: seeded.one_of(&[0, 0, 0, 1, 2, 3]),
        ..request(descriptors)
    }
}

pub(super) fn ground() -> Ground {
    Ground::new(&[("rules.yaml", RULES), ("dotted.yaml", DOTTED)])
}

/// Counters of rules, and of requests that went wrong.
pub(super) fn of_rules(name: &str) -> bool {
    name.starts_with("ratelimit.service.")
}

/// Both give the same answers to many requests and count the same in Redis and for statsd, whatever the environment says.
async fn both_decide_alike(test: &str, seed: u64, env: &[(&str, &str)]) {
    let ground = ground();
    let mut all = vec![("EXPIRATION_JITTER_MAX_SECONDS", "0")];
    all.extend(env);
    let Some(mut pair) = Pair::start(test, Store::SharedKeys, &ground, &all).await else {
        return;
    };
    // Every descriptor once by itself, then any.
    for entries in ENTRIES {
        pair.ask(&request(vec![descriptor(entries)])).await;
    }
    let given = |name| env.iter().any(|(known, _)| *known == name);
    let mut seeded = Seeded(seed);
    let mut over = 0;
    for _ in 0..300 {
        let mut asked = random(&mut seeded);
        if given("LOCAL_CACHE_SIZE_IN_BYTES") {
            // There the original denies by the counter alone, whatever the limit that an override asks for.
            asked
                .descriptors
                .iter_mut()
                .for_each(|made| made.limit = None);
        }
        let response = pair.ask(&asked).await;
        over += usize::from(response.overall_code() == Code::OverLimit);
    }
    let never = given("SHADOW_MODE") || given("QUOTA_MODE");
    assert_eq!(over == 0, never, "{over} over");
    pair.compare_stores(YEAR..=YEAR);
    pair.compare_counters(of_rules);
}

#[tokio::test]
async fn decisions_are_those_of_the_original() {
    both_decide_alike("decisions_are_those_of_the_original", 1, &[]).await;
}

#[tokio::test]
async fn headers_prefix_and_ratio_are_those_of_the_original() {
    let env = [
        ("LIMIT_RESPONSE_HEADERS_ENABLED", "true"),
        ("LIMIT_LIMIT_HEADER", "X-Limit"),
        ("LIMIT_RESET_HEADER", "X-Reset"),
        ("CACHE_KEY_PREFIX", "p:"),
        ("NEAR_LIMIT_RATIO", "0.5"),
    ];
    let test = "headers_prefix_and_ratio_are_those_of_the_original";
    both_decide_alike(test, 2, &env).await;
}

#[tokio::test]
async fn the_shadow_of_all_rules_is_that_of_the_original() {
    let env = [
        ("SHADOW_MODE", "true"),
        ("LIMIT_RESPONSE_HEADERS_ENABLED", "true"),
    ];
    let test = "the_shadow_of_all_rules_is_that_of_the_original";
    both_decide_alike(test, 3, &env).await;
}

#[tokio::test]
async fn quotas_and_metadata_are_those_of_the_original() {
    let test = "quotas_and_metadata_are_those_of_the_original";
    let metadata = ("RESPONSE_DYNAMIC_METADATA", "true");
    both_decide_alike(test, 4, &[metadata]).await;
    both_decide_alike(test, 5, &[metadata, ("QUOTA_MODE", "1")]).await;
}

#[tokio::test]
async fn counters_stop_where_those_of_the_original_do() {
    let test = "counters_stop_where_those_of_the_original_do";
    let stop = ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "true");
    both_decide_alike(test, 6, &[stop]).await;
}

#[tokio::test]
async fn the_local_cache_is_that_of_the_original() {
    let test = "the_local_cache_is_that_of_the_original";
    both_decide_alike(test, 7, &[("LOCAL_CACHE_SIZE_IN_BYTES", "1048576")]).await;
}

/// One hit at a time on one limit: what is denied takes nothing here and counts there, which nobody can tell.
async fn one_limit_is_decided_alike(test: &str, store: Store) {
    let ground = ground();
    let Some(mut pair) = Pair::start(test, store, &ground, &[]).await else {
        return;
    };
    let mut seeded = Seeded(8);
    for _ in 0..300 {
        pair.ask(&request(vec![descriptor(seeded.one_of(ENTRIES))]))
            .await;
    }
    pair.compare_counters(of_rules);
}

#[tokio::test]
async fn one_limit_is_decided_alike_in_this_process() {
    let test = "one_limit_is_decided_alike_in_this_process";
    one_limit_is_decided_alike(test, Store::Embedded).await;
}

#[tokio::test]
async fn one_limit_is_decided_alike_by_our_own_counters() {
    let test = "one_limit_is_decided_alike_by_our_own_counters";
    one_limit_is_decided_alike(test, Store::OwnKeys).await;
}

#[tokio::test]
async fn windows_of_every_unit_end_as_those_of_the_original() {
    let test = "windows_of_every_unit_end_as_those_of_the_original";
    let ground = ground();
    for store in [Store::Embedded, Store::SharedKeys] {
        let Some(mut pair) = Pair::start(test, store, &ground, &[]).await else {
            return;
        };
        for key in ["second", "minute", "hour", "day", "week", "month"] {
            let response = pair
                .ask(&request(vec![descriptor(&[&format!("{key}=a")])]))
                .await;
            assert_eq!(response.statuses[0].limit_remaining, 9, "{key}");
        }
        // An override has the number of any unit.
        for unit in 1..=7 {
            let mut asked = descriptor(&[&format!("five={unit}")]);
            asked.limit = Some(RateLimitOverride {
                requests_per_unit: 3,
                unit,
            });
            pair.ask(&request(vec![asked])).await;
        }
    }
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_with_the_words_of_the_original() {
    let test = "what_cannot_be_answered_is_refused_with_the_words_of_the_original";
    let ground = ground();
    let Some(mut pair) = Pair::start(test, Store::Embedded, &ground, &[]).await else {
        return;
    };
    let empty = RateLimitRequest::default();
    let said = pair.refused(&empty).await;
    assert_eq!(said, "rate limit domain must not be empty");
    let said = pair.refused(&request(Vec::new())).await;
    assert_eq!(said, "rate limit descriptor list must not be empty");
    pair.compare_counters(of_rules);
}

/// Limits per second go to a Redis of their own, and only those.
#[tokio::test]
async fn limits_per_second_are_counted_where_the_original_does() {
    let test = "limits_per_second_are_counted_where_the_original_does";
    let Some(apart) = redis(test) else {
        return;
    };
    let addr = apart.addr().to_string();
    let env = [
        ("REDIS_PERSECOND", "true"),
        ("REDIS_PERSECOND_SOCKET_TYPE", "tcp"),
        ("REDIS_PERSECOND_URL", &*addr),
        ("REDIS_PERSECOND_TIMEOUT", "20s"),
        ("REDIS_PIPELINE_WINDOW", "150us"),
        ("REDIS_PIPELINE_LIMIT", "8"),
        ("EXPIRATION_JITTER_MAX_SECONDS", "0"),
    ];
    let ground = ground();
    let Some(mut pair) = Pair::start(test, Store::SharedKeys, &ground, &env).await else {
        return;
    };
    let both = request(vec![descriptor(&["second=a"]), descriptor(&["five=a"])]);
    let mut seen = Vec::new();
    for answer in pair.answers(&both).await {
        seen.push(answer.expect("an answer").overall_code());
    }
    assert_eq!(seen, [Code::Ok; 2]);
    pair.compare_stores(YEAR..=YEAR);
    // Keys of a second are gone soon; what was asked is not.
    let mut client = apart.connect().expect("redis-server answers");
    let info = client.call(&["INFO", "commandstats"]);
    let info = text(&info.expect("redis-server answers"));
    for command in ["incrby", "expire"] {
        let line = format!("cmdstat_{command}:calls=2,");
        assert!(info.contains(&line), "{line} {info}");
    }
}
