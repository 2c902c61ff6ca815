//! The counters of envoyproxy/ratelimit: what they are called, and which limits they can hold.
//!
//! A key is the prefix, the domain and all entries, joined by underscores, and the start of the window behind them, which
//! whoever counts appends. Texts that contain underscores are not told apart, as there.

use tollgate_wire::rls::RateLimitDescriptor;

use crate::hot_key::HotKey;
use crate::ruleset::{Level, Limit, Rate};

/// Key and value of every entry of a descriptor, as counters are named by them: a value that counts together with all
/// that match its rule is the rule's pattern.
pub(crate) fn counted_entries<'a>(
    descriptor: &'a RateLimitDescriptor,
    shared: Option<&'a Level>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut rules = shared.map(|rules| rules.path_of(&descriptor.entries));
    descriptor.entries.iter().map(move |entry| {
        let rule = rules.as_mut().and_then(Iterator::next);
        let value = match rule {
            Some(rule) if rule.shared => &rule.value,
            _ => &*entry.value,
        };
        (&*entry.key, value)
    })
}

/// Appends the key of a descriptor's counters, without the start of the window.
pub(crate) fn push<'a>(
    key: &mut Vec<u8>,
    prefix: &str,
    domain: &str,
    entries: impl Iterator<Item = (&'a str, &'a str)>,
) {
    key.extend_from_slice(prefix.as_bytes());
    key.extend_from_slice(domain.as_bytes());
    key.push(b'_');
    for (name, value) in entries {
        key.extend_from_slice(name.as_bytes());
        key.push(b'_');
        key.extend_from_slice(value.as_bytes());
        key.push(b'_');
    }
}

/// Why these counters cannot hold a limit, if they cannot.
pub(crate) fn obstacle(limit: &Limit) -> Option<String> {
    let Rate::Limited(bounds) = &limit.rate else {
        return None;
    };
    let [only] = &bounds[..] else {
        return Some("they hold one limit of a rule, not several".to_owned());
    };
    if only.bound.inherit.is_some() {
        return Some("they know no inherit".to_owned());
    }
    if limit.hot_key != HotKey::Exact {
        return Some("they know no hot_key".to_owned());
    }
    if !only.bound.plain {
        let name = only.bound.method.name();
        return Some(format!(
            "they count by unit in windows of the clock, not by {name} or another period"
        ));
    }
    None
}
