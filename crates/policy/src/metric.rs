//! What a decision adds to the metrics of its rule, by the names of envoyproxy/ratelimit.

use std::borrow::Cow;

use tollgate_limiter::Decision;
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest};

use crate::resolve::{Item, Resolved, Role};
use crate::ruleset::Level;

/// What one limit counted for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hits<'r> {
    /// Domain and rules, joined by dots: `domain.key_value.key`.
    pub series: Cow<'r, str>,
    /// Hits of the request, whatever was decided.
    pub total: u64,
    /// Hits that were over the limit.
    pub over: u64,
    /// Hits that passed and left less than the share that is called near.
    pub near: u64,
    /// Hits that passed.
    pub within: u64,
    /// Hits that a rule in shadow mode would have refused.
    pub shadow: u64,
    /// Hits over the limit that were refused without asking the store.
    pub over_locally: u64,
}

/// How decisions were made, as far as metrics tell.
#[derive(Clone, Copy, Debug)]
pub struct Provenance<'a> {
    /// A limit is near when more than this share of it is used; never where that is more than all.
    pub near_ratio: f32,
    /// Denied requests count too, as with envoyproxy/ratelimit: what a denial tells as left was left before, and the hits that
    /// there was room for are not over. Otherwise nothing of a denied request counts, and all of it is over.
    pub denials_count: bool,
    /// Indices of descriptors that were denied without asking the store.
    pub told_locally: &'a [usize],
}

/// Longest name of a series, in bytes; what is longer is cut.
const MAX_SERIES: usize = 512;

impl Resolved<'_> {
    /// Tells `count` of each limit that was decided.
    ///
    /// # Panics
    /// When there are not as many decisions as [`checks`](Resolved::checks).
    pub fn hits(
        &self,
        request: &RateLimitRequest,
        decisions: &[Decision],
        made: &Provenance<'_>,
        mut count: impl FnMut(&Hits<'_>),
    ) {
        let mut decisions = decisions.iter();
        for (index, item) in self.items.iter().enumerate() {
            let Item::Limited(applied) = item else {
                continue;
            };
            let (_, decision) = self.tightest(applied, &mut decisions);
            if applied.role == Role::Refund {
                continue;
            }
            let descriptor = &request.descriptors[index];
            let series = match applied.limit {
                Some(limit) if !limit.by_value => Cow::Borrowed(&*limit.series),
                Some(limit) => by_value(self.rules, &request.domain, descriptor, limit.detailed),
                None => of_descriptor(&request.domain, descriptor),
            };
            let hits = applied.cost;
            let mut counted = Hits {
                series,
                total: hits,
                over: 0,
                near: 0,
                within: 0,
                shadow: 0,
                over_locally: 0,
            };
            let used = decision.limit.saturating_sub(decision.remaining);
            let near_from = (decision.limit as f32 * made.near_ratio).floor() as u64;
            if decision.allowed {
                counted.within = hits;
                counted.near = used.saturating_sub(near_from).min(hits);
            } else {
                counted.over = hits;
                if made.denials_count && used < decision.limit {
                    counted.over = hits.saturating_sub(decision.remaining);
                    counted.near = decision.limit.saturating_sub(near_from.max(used));
                }
                counted.shadow = if applied.is_shadow() { counted.over } else { 0 };
                if made.told_locally.contains(&index) {
                    counted.over_locally = hits;
                }
            }
            count(&counted);
        }
    }
}

/// All keys with the values of the request, as envoyproxy/ratelimit names overrides.
fn of_descriptor<'a>(domain: &str, descriptor: &RateLimitDescriptor) -> Cow<'a, str> {
    let mut series = domain.to_owned();
    for entry in &descriptor.entries {
        push(&mut series, &entry.key, &entry.value);
    }
    if descriptor.entries.is_empty() {
        series.push('.');
    }
    bounded(series)
}

/// The rules on the way, with the values of the request where a rule wants them.
fn by_value<'a>(
    rules: Option<&Level>,
    domain: &str,
    descriptor: &RateLimitDescriptor,
    detailed: bool,
) -> Cow<'a, str> {
    let mut series = domain.to_owned();
    let path = || {
        rules
            .into_iter()
            .flat_map(|rules| rules.path_of(&descriptor.entries))
    };
    // Where every value is named, an empty one is too.
    let empty_too = detailed && !path().any(|rule| rule.shared);
    for (entry, rule) in descriptor.entries.iter().zip(path()) {
        // Values that count together are one series.
        let value = match (detailed || rule.by_value) && !rule.shared {
            true => &*entry.value,
            false if !rule.stem.is_empty() => of_stem(&rule.stem, &entry.key),
            false => &*rule.value,
        };
        push(&mut series, &entry.key, value);
        if value.is_empty() && empty_too {
            series.push('_');
        }
    }
    bounded(series)
}

/// What stands for the value where the key has the star: the rule's key, or what of it is the value's.
fn of_stem<'a>(stem: &'a str, key: &str) -> &'a str {
    let rest = stem
        .strip_prefix(key)
        .and_then(|rest| rest.strip_prefix('_'));
    rest.unwrap_or(stem)
}

fn push(series: &mut String, key: &str, value: &str) {
    series.push('.');
    series.push_str(key);
    if !value.is_empty() {
        series.push('_');
        series.push_str(value);
    }
}

fn bounded<'a>(mut series: String) -> Cow<'a, str> {
    let end = series.floor_char_boundary(MAX_SERIES);
    series.truncate(end);
    Cow::Owned(series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ruleset;
    use tollgate_wire::rls::rate_limit_descriptor::{Entry, RateLimitOverride};

    const RULES: &str = "
domain: d
descriptors:
  - key: plain
    value: v
    rate_limit: {unit: minute, requests_per_unit: 10}
    descriptors:
      - key: inner
        rate_limit: {unit: minute, requests_per_unit: 10}
  - key: detailed
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: path
    value_to_metric: true
    descriptors:
      - key: user
        shadow_mode: true
        rate_limit: {unit: minute, requests_per_unit: 10}
  - key: file
    value: a*
    share_threshold: true
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 10}
";

    fn entry(pair: &str) -> Entry {
        let (key, value) = pair.split_once('=').expect("key=value");
        Entry {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }

    fn counted(pairs: &[&str], given: bool, remaining: Option<u64>, hits: u32) -> Hits<'static> {
        let own = Provenance {
            near_ratio: 0.8,
            denials_count: false,
            told_locally: &[],
        };
        let (allowed, remaining) = (remaining.is_some(), remaining.unwrap_or(0));
        made(pairs, given, (allowed, remaining), hits, &own)
    }

    fn made(
        pairs: &[&str],
        given: bool,
        (allowed, remaining): (bool, u64),
        hits: u32,
        made: &Provenance<'_>,
    ) -> Hits<'static> {
        let rules = Ruleset::load(&[("a", RULES)]).expect("valid");
        let request = RateLimitRequest {
            domain: "d".to_owned(),
            descriptors: vec![RateLimitDescriptor {
                entries: pairs.iter().map(|pair| entry(pair)).collect(),
                limit: given.then_some(RateLimitOverride {
                    requests_per_unit: 10,
                    unit: 2,
                }),
                ..RateLimitDescriptor::default()
            }],
            hits_addend: hits,
        };
        let resolved = rules.resolve(&request).expect("valid");
        let decision = Decision {
            allowed,
            limit: 10,
            remaining,
            retry_after: Some(0),
            reset_after: 0,
        };
        let mut found = None;
        resolved.hits(&request, &[decision], made, |hits| {
            found = Some(Hits {
                series: hits.series.to_string().into(),
                ..hits.clone()
            });
        });
        found.expect("one limit")
    }

    #[test]
    fn series_are_named_as_the_peer_names_them() {
        let of = |pairs: &[&str], given| counted(pairs, given, Some(5), 1).series;
        assert_eq!(of(&["plain=v"], false), "d.plain_v");
        assert_eq!(of(&["plain=v", "inner=x"], false), "d.plain_v.inner");
        assert_eq!(of(&["detailed=x"], false), "d.detailed_x");
        assert_eq!(of(&["detailed="], false), "d.detailed_");
        assert_eq!(of(&["detailed="], true), "d.detailed");
        assert_eq!(of(&[], true), "d.");
        assert_eq!(of(&["path=p", "user=u"], false), "d.path_p.user");
        assert_eq!(of(&["file=abc"], false), "d.file_a*");
        assert_eq!(of(&["plain=v", "other=w"], true), "d.plain_v.other_w");
        let long = format!("detailed={}", "é".repeat(600));
        assert!(of(&[&long], false).len() <= MAX_SERIES);
    }

    #[test]
    fn hits_are_split_where_a_limit_comes_near() {
        let of = |remaining, hits| {
            let hits = counted(&["path=p", "user=u"], false, remaining, hits);
            [hits.total, hits.over, hits.near, hits.within, hits.shadow]
        };
        assert_eq!(of(Some(2), 3), [3, 0, 0, 3, 0]);
        assert_eq!(of(Some(1), 3), [3, 0, 1, 3, 0]);
        assert_eq!(of(Some(0), 1), [1, 0, 1, 1, 0]);
        assert_eq!(of(Some(0), 10), [10, 0, 2, 10, 0]);
        assert_eq!(of(None, 4), [4, 4, 0, 0, 4]);
    }

    /// As `base_limiter.go` of envoyproxy/ratelimit splits them (`checkOverLimitThreshold`): a limit of 10, near above 8.
    #[test]
    fn hits_of_a_request_that_crosses_a_limit_are_split_where_denials_count() {
        for (left_before, hits, want) in [
            // Counter before 10 or more: all over.
            (0, 5, [5, 5, 0]),
            // 9 → 12: two over, one near.
            (1, 3, [3, 2, 1]),
            // 8 → 12: two over, two near.
            (2, 4, [4, 2, 2]),
            // 3 → 13: three over, two near, the rest neither.
            (7, 10, [10, 3, 2]),
        ] {
            let fleet = Provenance {
                near_ratio: 0.8,
                denials_count: true,
                told_locally: &[],
            };
            let pairs = ["path=p", "user=u"];
            let of = |how| made(&pairs, false, (false, left_before), hits, how);
            let counted = of(&fleet);
            assert_eq!([counted.total, counted.over, counted.near], want);
            // A shadow would have refused what is over.
            assert_eq!((counted.within, counted.shadow), (0, counted.over));
            assert_eq!(counted.over_locally, 0);
            let locally = Provenance {
                told_locally: &[0],
                ..fleet
            };
            assert_eq!(of(&locally).over_locally, u64::from(hits));
        }
    }

    #[test]
    fn nothing_comes_near_a_share_above_all() {
        for near_ratio in [1.5, 2.0, f32::INFINITY] {
            let how = Provenance {
                near_ratio,
                denials_count: true,
                told_locally: &[],
            };
            let pairs = ["path=p", "user=u"];
            for (decision, over) in [((true, 0), 0), ((false, 2), 2)] {
                let counted = made(&pairs, false, decision, 4, &how);
                assert_eq!([counted.over, counted.near], [over, 0], "{near_ratio}");
            }
        }
    }
}
