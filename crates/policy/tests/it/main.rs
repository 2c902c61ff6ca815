//! Rule files, matching and verdicts as envoyproxy/ratelimit has them.

mod docs;
mod envoy_keys;
mod garbage;
mod hot_key;
mod limits;
mod load;
mod matching;
mod modes;
mod verdict;

use tollgate_policy::Ruleset;
use tollgate_wire::rls::rate_limit_descriptor::{Entry, RateLimitOverride};
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest};

/// A ruleset from one file.
fn ruleset(text: &str) -> Ruleset {
    Ruleset::load(&[("rules.yaml", text)]).expect("valid rules")
}

/// A descriptor from `key=value` pairs.
fn descriptor(pairs: &[&str]) -> RateLimitDescriptor {
    let entries = pairs
        .iter()
        .map(|pair| {
            let (key, value) = pair.split_once('=').expect("key=value");
            Entry {
                key: key.to_owned(),
                value: value.to_owned(),
            }
        })
        .collect();
    RateLimitDescriptor {
        entries,
        ..RateLimitDescriptor::default()
    }
}

fn with_override(
    descriptor: RateLimitDescriptor,
    requests_per_unit: u32,
    unit: i32,
) -> RateLimitDescriptor {
    RateLimitDescriptor {
        limit: Some(RateLimitOverride {
            requests_per_unit,
            unit,
        }),
        ..descriptor
    }
}

fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: "basic".to_owned(),
        descriptors,
        hits_addend: 0,
    }
}
