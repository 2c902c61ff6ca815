//! Compiled rules, and the walk that finds a descriptor's limit.

use std::collections::HashMap;

use tollgate_wire::rls::Struct;
use tollgate_wire::rls::rate_limit_descriptor::Entry;
use tollgate_wire::xds::RateLimitConfig;

use crate::bound::{Bound, Fallback, OnError};
use crate::hot_key::HotKey;
use crate::load::{self, LoadOptions, RuleError};
use crate::messages;
use crate::modes::Modes;
use crate::pattern::Pattern;

/// Keys come from the rule files and never from requests, so a fixed seed is safe.
pub(crate) type Map<V> = HashMap<Box<str>, V, foldhash::fast::FixedState>;

/// The rules of all domains, ready for requests.
#[derive(Debug, Default)]
pub struct Ruleset {
    pub(crate) domains: Map<Level>,
    pub(crate) limits: usize,
    /// Limits that are an error without the backend.
    pub(crate) helpless: usize,
    pub(crate) modes: Modes,
    /// How many rules these came after, one after the other.
    pub(crate) generation: u64,
    /// They were loaded, and be they none.
    pub(crate) loaded: bool,
}

/// Rules that may follow one another in a descriptor at the same depth.
#[derive(Debug, Default)]
pub(crate) struct Level {
    pub(crate) keys: Map<KeyRules>,
    /// Those of the keys whose rule without a value has a `*` at its end, in the order of the file.
    pub(crate) stems: Vec<Box<str>>,
}

/// The rules of one key.
#[derive(Debug, Default)]
pub(crate) struct KeyRules {
    /// With a plain value.
    pub(crate) exact: Map<Rule>,
    /// With a `*` in the value, in the order of the file: the first that matches counts.
    pub(crate) wildcards: Vec<(Pattern, Rule)>,
    /// Without a value.
    pub(crate) bare: Option<Rule>,
}

/// One entry of the file's `descriptors`.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    pub(crate) limit: Option<Limit>,
    pub(crate) children: Option<Level>,
    /// As in the file, with its stars; empty where there is none.
    pub(crate) value: Box<str>,
    /// All values that match count together.
    pub(crate) shared: bool,
    /// Metrics name the value of the request.
    pub(crate) by_value: bool,
    /// The key with its star, where the rule is for all keys that begin so.
    pub(crate) stem: Box<str>,
}

/// A rule's limit.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: Box<str>,
    pub(crate) rate: Rate,
    /// Names of limits that do not apply where this one does.
    pub(crate) replaces: Box<[Box<str>]>,
    /// Evaluated and counted, never denies.
    pub(crate) shadow_mode: bool,
    /// Whether it is a quota.
    pub(crate) quota: Quota,
    /// Some rule on the way here counts all its values together.
    pub(crate) shared: bool,
    /// What a response says about descriptors that pass.
    pub(crate) metadata: Option<Struct>,
    /// What becomes of requests that the backend cannot decide.
    pub(crate) on_error: OnError,
    /// How it is decided on a store elsewhere.
    pub(crate) hot_key: HotKey,
    /// What metrics call it, where that does not depend on the request: domain and rules, joined by dots.
    pub(crate) series: Box<str>,
    /// What metrics call it depends on values of the request.
    pub(crate) by_value: bool,
    /// It names the values of all its entries.
    pub(crate) detailed: bool,
}

impl Limit {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            name: Box::default(),
            rate,
            replaces: Box::default(),
            shadow_mode: false,
            quota: Quota::No,
            shared: false,
            metadata: None,
            on_error: OnError::DEFAULT,
            hot_key: HotKey::Exact,
            series: Box::default(),
            by_value: false,
            detailed: false,
        }
    }

    /// Whether its requests are errors while the backend is away.
    pub(crate) fn needs_backend(&self) -> bool {
        self.rate != Rate::Unlimited && self.on_error.fallback == Fallback::Error
    }
}

/// What a limit does that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Quota {
    /// Denies the request.
    #[default]
    No,
    /// Is told in the response's metadata, and denies nothing, as with envoyproxy/ratelimit.
    Tells,
    /// Denies only when every such quota of a request does.
    DeniesWithAll,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    Unlimited,
    /// All must pass; at least one, at most [`MAX_LIMITS`](crate::bound::MAX_LIMITS).
    Limited(Box<[NamedBound]>),
}

/// One of a rule's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedBound {
    /// Empty where the rule's name says it.
    pub(crate) name: Box<str>,
    pub(crate) bound: Bound,
    /// What it was before the rules changed, where it inherits from that.
    pub(crate) previous: Option<Bound>,
}

impl Ruleset {
    /// Compiles rule files, given as name and text.
    ///
    /// # Errors
    /// The first thing that is wrong, with its file and line.
    pub fn load(files: &[(&str, &str)]) -> Result<Self, RuleError> {
        load::load(files, LoadOptions::default())
    }

    /// The same by other conditions.
    ///
    /// # Errors
    /// As [`Ruleset::load`].
    pub fn load_with(files: &[(&str, &str)], options: LoadOptions) -> Result<Self, RuleError> {
        load::load(files, options)
    }

    /// The same, for whoever mends the files.
    ///
    /// # Errors
    /// What is wrong, file by file, at most [`MAX_MISTAKES`](crate::MAX_MISTAKES), each that does not follow from another. The
    /// first is what [`load_with`](Self::load_with) tells.
    pub fn check(files: &[(&str, &str)], options: LoadOptions) -> Result<Self, Vec<RuleError>> {
        load::check(files, options)
    }

    /// Compiles what a management server gives, one message in the place of each file.
    ///
    /// # Errors
    /// The first thing that is wrong, with the name of its message.
    pub fn load_messages(
        configs: &[RateLimitConfig],
        options: LoadOptions,
    ) -> Result<Self, RuleError> {
        messages::load(configs, options)
    }

    /// Whether they were loaded, and be they none; otherwise nobody knows the rules yet.
    pub fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// The same rules in other modes.
    #[must_use]
    pub fn with_modes(self, modes: Modes) -> Self {
        Self { modes, ..self }
    }

    /// How many domains there are.
    pub fn domain_count(&self) -> usize {
        self.domains.len()
    }

    /// The domain, if there is one alone.
    pub fn only_domain(&self) -> Option<&str> {
        let mut domains = self.domains.keys();
        domains
            .next()
            .filter(|_| domains.next().is_none())
            .map(|name| &**name)
    }

    /// Whether there are rules for a domain.
    pub fn has_domain(&self, name: &str) -> bool {
        self.domains.contains_key(name)
    }

    /// Whether there are limits, and each says by `on_error` what becomes of requests while the backend is away.
    pub fn decides_without_backend(&self) -> bool {
        self.limits > 0 && self.helpless == 0
    }

    /// How many limits there are in all domains.
    pub fn limit_count(&self) -> usize {
        self.limits
    }

    /// How much there is, e.g. `1 domain, 2 limits`.
    pub fn summary(&self) -> String {
        let count = |number: usize, what: &str| {
            let plural = if number == 1 { "" } else { "s" };
            format!("{number} {what}{plural}")
        };
        let domains = count(self.domain_count(), "domain");
        format!("{domains}, {}", count(self.limit_count(), "limit"))
    }
}

impl Level {
    /// The limit of a descriptor: rules are followed entry by entry, and only the rule of the last entry
    /// counts, so depths must agree exactly.
    pub(crate) fn limit_of(&self, entries: &[Entry]) -> Option<&Limit> {
        let mut level = self;
        let (last, path) = entries.split_last()?;
        for entry in path {
            level = level.rule_of(entry)?.children.as_ref()?;
        }
        level.rule_of(last)?.limit.as_ref()
    }

    /// The rules that the entries of a descriptor follow, as far as there are any.
    pub(crate) fn path_of<'a>(&'a self, entries: &'a [Entry]) -> impl Iterator<Item = &'a Rule> {
        let mut level = Some(self);
        entries.iter().map_while(move |entry| {
            let rule = level?.rule_of(entry)?;
            level = rule.children.as_ref();
            Some(rule)
        })
    }

    /// The rule of an entry, and why it is this one or none.
    pub(crate) fn explain(&self, entry: &Entry) -> (Option<&Rule>, String) {
        let rules = self.keys.get(&*entry.key);
        let rule = self.rule_of(entry);
        let is_exact = || rules.is_some_and(|rules| rules.exact.contains_key(&*entry.value));
        let why = match rule {
            None if rules.is_none() => format!("no rule here has the key '{}'", entry.key),
            None => format!("rules here have the key '{}', with other values", entry.key),
            Some(_) if is_exact() => "the value is the rule's".into(),
            Some(rule) if !rule.stem.is_empty() => format!("the key matches '{}'", rule.stem),
            Some(rule) if rule.value.is_empty() => "the rule takes any value".into(),
            Some(rule) => format!("the value matches '{}'", rule.value),
        };
        (rule, why)
    }

    /// The exact value, else the first wildcard that matches, else the first key with a star that does, else the rule without a
    /// value.
    fn rule_of(&self, entry: &Entry) -> Option<&Rule> {
        let rules = self.keys.get(&*entry.key);
        let of_value = rules.and_then(|rules| {
            let wildcard = || {
                let mut wildcards = rules.wildcards.iter();
                wildcards.find(|(pattern, _)| pattern.matches(&entry.value))
            };
            let exact = rules.exact.get(&*entry.value);
            exact.or_else(|| wildcard().map(|(_, rule)| rule))
        });
        let of_stem = || {
            let stem = self.stems.iter().find(|stem| begins(entry, stem))?;
            self.keys.get(stem)?.bare.as_ref()
        };
        let bare = || rules.and_then(|rules| rules.bare.as_ref());
        of_value.or_else(of_stem).or_else(bare)
    }
}

/// Whether key and value, joined by an underscore, begin as a key with a star says.
fn begins(entry: &Entry, stem: &str) -> bool {
    let stem = stem.strip_suffix('*').unwrap_or(stem);
    entry.key.starts_with(stem)
        || stem
            .strip_prefix(&*entry.key)
            .and_then(|rest| rest.strip_prefix('_'))
            .is_some_and(|rest| entry.value.starts_with(rest))
}
