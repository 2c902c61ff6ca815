//! Rule files: whatever they hold, loading ends with rules or with one clear error, and rules decide requests without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_policy::{MAX_LIMITS, Ruleset};
use tollgate_wire::rls::rate_limit_descriptor::Entry;
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest};

fuzz_target!(|text: &str| {
    let rules = match Ruleset::load(&[("fuzz.yaml", text)]) {
        Ok(rules) => rules,
        Err(error) => {
            let line = error.to_string();
            assert!(
                line.contains("fuzz.yaml") && !line.contains('\n'),
                "unclear: {line:?}"
            );
            return;
        }
    };
    // Requests made of the file's own words reach deep into the rules.
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || matches!(c, ':' | '-' | '"' | '\''))
        .filter(|word| !word.is_empty())
        .take(12)
        .collect();
    for domain in words.iter().take(4) {
        let entries = |pair: &[&str]| {
            vec![Entry {
                key: pair[0].to_owned(),
                value: pair.get(1).copied().unwrap_or_default().to_owned(),
            }]
        };
        let descriptors = words
            .chunks(2)
            .map(|pair| RateLimitDescriptor {
                entries: entries(pair),
                ..RateLimitDescriptor::default()
            })
            .collect();
        let request = RateLimitRequest {
            domain: (*domain).to_owned(),
            descriptors,
            hits_addend: 1,
        };
        if let Ok(resolved) = rules.resolve(&request) {
            let most = request.descriptors.len() * MAX_LIMITS;
            assert!(resolved.checks(b"lease").count() <= most);
        }
    }
});
