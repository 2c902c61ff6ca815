//! From a request to the limits that apply and the counters they use.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;
use tollgate_limiter::{Act, AlgorithmKind, Cost, Decision, Method, Quota, Timestamp};
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest};

use crate::bound::{Bound, OnError};
use crate::envoy_keys::{self, counted_entries};
use crate::hot_key::HotKey;
use crate::inherit::Predecessor;
use crate::modes::Modes;
use crate::ruleset::{Level, Limit, NamedBound, Quota as Quotas, Rate, Ruleset};
use crate::unit::Unit;

/// Most descriptors of one request.
pub const MAX_DESCRIPTORS: usize = 1_024;

/// Items and limits of a request that need no memory of their own. All of it is moved with every request, however few there
/// are.
const INLINE: usize = 2;

/// Every counter's key begins with this, and what tells the limits of one descriptor apart.
const KEY_PREFIX: &[u8] = b"rl:";

/// Why a request cannot be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// There is no domain.
    EmptyDomain,
    /// There is no descriptor.
    NoDescriptors,
    /// There are more than [`MAX_DESCRIPTORS`].
    TooManyDescriptors,
    /// The override of the descriptor at this index has no known unit.
    OverrideUnit(usize),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyDomain => f.write_str("rate limit domain must not be empty"),
            Self::NoDescriptors => f.write_str("rate limit descriptor list must not be empty"),
            Self::TooManyDescriptors => {
                write!(
                    f,
                    "rate limit descriptor list must not be longer than {MAX_DESCRIPTORS}"
                )
            }
            Self::OverrideUnit(index) => write!(
                f,
                "descriptor {index}: the limit override has no valid unit"
            ),
        }
    }
}

impl std::error::Error for RequestError {}

/// What applies to each descriptor of a request, in their order.
#[derive(Debug)]
pub struct Resolved<'r> {
    pub(crate) items: SmallVec<[Item<'r>; INLINE]>,
    pub(crate) modes: &'r Modes,
    /// The rules of the request's domain.
    pub(crate) rules: Option<&'r Level>,
    /// The limits of all items, in their order.
    pub(crate) parts: SmallVec<[Part<'r>; INLINE]>,
    /// The keys of all counters, end to end.
    keys: Vec<u8>,
    /// Some limit takes the place of others.
    replacing: bool,
    /// That of the rules.
    generation: u64,
    /// When the request was made, where headers tell of that.
    pub(crate) asked: Timestamp,
}

/// What applies to one descriptor.
#[derive(Clone, Debug)]
pub(crate) enum Item<'r> {
    /// No rule matches, or another limit takes its place.
    Free,
    /// A rule without a limit matches.
    Unlimited(&'r Limit),
    /// A limit is to be decided.
    Limited(Applied<'r>),
}

#[derive(Clone, Debug)]
pub(crate) struct Applied<'r> {
    pub(crate) name: &'r str,
    /// The rule's limit; an override has none.
    pub(crate) limit: Option<&'r Limit>,
    pub(crate) role: Role,
    /// Its limits among the parts: one, or those of the key `limits`.
    pub(crate) parts: Range<usize>,
    pub(crate) cost: u64,
}

/// One limit of an item.
#[derive(Clone, Debug)]
pub(crate) struct Part<'r> {
    pub(crate) name: &'r str,
    pub(crate) bound: Bound,
    key: Range<usize>,
    previous: Option<(Bound, Range<usize>)>,
}

impl Applied<'_> {
    pub(crate) fn is_shadow(&self) -> bool {
        self.limit.is_some_and(|limit| limit.shadow_mode)
    }
}

/// What a check's outcome does to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A denial denies the request, which then takes nothing anywhere.
    Enforced,
    /// The request is denied when this and every other check of this role are: quotas that deny together.
    Quota,
    /// Counts a request that passes; a denial is told and does nothing. Limits in shadow mode, and quotas that only tell.
    Shadow,
    /// Gives units back, whatever becomes of the request.
    Refund,
}

/// One limit for a backend to decide.
#[derive(Clone, Copy, Debug)]
pub struct LimitCheck<'a> {
    /// The counter's key: the unit or algorithm, the domain and all entries, each with its length in front, so that no two
    /// descriptors share one. With [`Modes::envoy_keys`] that of envoyproxy/ratelimit, without the start of the window.
    pub key: &'a [u8],
    /// How to count.
    pub method: Method,
    /// The limit.
    pub quota: Quota,
    /// What the request weighs, or gives back; 0 only looks.
    pub cost: Cost,
    /// What the decision means.
    pub role: Role,
    /// What is done with the units of a request that passes.
    pub act: Act<'a>,
    /// Index of the request's descriptor. The checks of one pass together or not at all, whatever their role.
    pub descriptor: usize,
    /// What becomes of the request when the backend cannot decide.
    pub on_error: OnError,
    /// Every answer comes from the counter itself, also when the key is hot.
    pub exact: bool,
    /// The counter to go on from, where the key has none of its own yet.
    pub predecessor: Option<Predecessor<'a>>,
    /// How it is decided on a store elsewhere.
    pub hot_key: HotKey,
}

impl LimitCheck<'_> {
    /// Whether the limit is per second, by whatever algorithm; envoyproxy/ratelimit can keep those in a Redis of their own.
    pub fn is_per_second(&self) -> bool {
        let has_period = match self.method {
            Method::Small(AlgorithmKind::Calendar(_)) | Method::Concurrency => false,
            Method::Small(_) | Method::Log => true,
        };
        has_period && self.quota.period == Unit::Second.nanos()
    }

    /// Most units that may pass at one instant.
    pub fn capacity(&self) -> u64 {
        self.method.capacity(&self.quota)
    }
}

impl Ruleset {
    /// Finds what applies to a request.
    ///
    /// # Errors
    /// The request is not one that can be answered.
    pub fn resolve(&self, request: &RateLimitRequest) -> Result<Resolved<'_>, RequestError> {
        if request.domain.is_empty() {
            return Err(RequestError::EmptyDomain);
        }
        if request.descriptors.is_empty() {
            return Err(RequestError::NoDescriptors);
        }
        if request.descriptors.len() > MAX_DESCRIPTORS {
            return Err(RequestError::TooManyDescriptors);
        }
        let rules = self.domains.get(&*request.domain);
        let mut resolved = Resolved {
            items: SmallVec::new(),
            modes: &self.modes,
            rules,
            parts: SmallVec::new(),
            keys: Vec::new(),
            replacing: false,
            generation: self.generation,
            asked: Timestamp::default(),
        };
        for (index, descriptor) in request.descriptors.iter().enumerate() {
            let item = match rules {
                Some(rules) => resolved.item(rules, request, descriptor, index)?,
                None => Item::Free,
            };
            resolved.items.push(item);
        }
        resolved.replace();
        Ok(resolved)
    }
}

impl<'r> Resolved<'r> {
    /// The same, made at this moment: wanted where headers [tell dates](crate::HeaderForm::tells_dates).
    #[must_use]
    pub fn asked_at(self, asked: Timestamp) -> Self {
        Self { asked, ..self }
    }

    fn item(
        &mut self,
        rules: &'r Level,
        request: &RateLimitRequest,
        descriptor: &RateLimitDescriptor,
        index: usize,
    ) -> Result<Item<'r>, RequestError> {
        let start = self.parts.len();
        let limit = match &descriptor.limit {
            Some(given) => {
                let unit =
                    Unit::from_number(given.unit).ok_or(RequestError::OverrideUnit(index))?;
                let bound = Bound::per_unit(given.requests_per_unit, unit);
                self.push_part("", bound, None, request, descriptor, None);
                None
            }
            None => match rules.limit_of(&descriptor.entries) {
                None => return Ok(Item::Free),
                Some(limit) => {
                    self.replacing |= !limit.replaces.is_empty();
                    let Rate::Limited(bounds) = &limit.rate else {
                        return Ok(Item::Unlimited(limit));
                    };
                    let shared = limit.shared.then_some(rules);
                    for named in bounds {
                        let NamedBound {
                            name,
                            bound,
                            previous,
                        } = named;
                        let name = if name.is_empty() { &limit.name } else { name };
                        self.push_part(name, *bound, *previous, request, descriptor, shared);
                    }
                    Some(limit)
                }
            },
        };
        let cost = match &descriptor.hits_addend {
            Some(hits) => hits.value,
            None => u64::from(request.hits_addend.max(1)),
        };
        Ok(Item::Limited(Applied {
            name: limit.map_or("", |limit| &*limit.name),
            limit,
            role: self.role_of(limit, descriptor),
            parts: start..self.parts.len(),
            cost,
        }))
    }

    fn push_part(
        &mut self,
        name: &'r str,
        bound: Bound,
        previous: Option<Bound>,
        request: &RateLimitRequest,
        descriptor: &RateLimitDescriptor,
        shared: Option<&Level>,
    ) {
        let counted = |bound: Bound| match self.modes.calendar_months {
            true => bound.by_calendar_month(),
            false => bound,
        };
        let (bound, previous) = (counted(bound), previous.map(counted));
        let key = self.push_key(&bound, &request.domain, descriptor, shared);
        let previous = previous.map(|bound| {
            let key = self.push_key(&bound, &request.domain, descriptor, shared);
            (bound, key)
        });
        self.parts.push(Part {
            name,
            bound,
            key,
            previous,
        });
    }

    fn role_of(&self, limit: Option<&Limit>, descriptor: &RateLimitDescriptor) -> Role {
        let has = |flag: fn(&Limit) -> bool| limit.is_some_and(flag);
        if descriptor.is_negative_hits {
            Role::Refund
        } else if self.modes.shadow_mode || has(|limit| limit.shadow_mode) {
            Role::Shadow
        } else {
            match self.quota_of(limit) {
                Quotas::No => Role::Enforced,
                Quotas::Tells => Role::Shadow,
                Quotas::DeniesWithAll => Role::Quota,
            }
        }
    }

    /// What kind of a quota a limit is; an override is none by itself.
    pub(crate) fn quota_of(&self, limit: Option<&Limit>) -> Quotas {
        match self.modes.quota_mode {
            true => Quotas::Tells,
            false => limit.map_or(Quotas::No, |limit| limit.quota),
        }
    }

    /// Takes out the limits that others of the request take the place of. They are named by all rules that match,
    /// by those too that are taken out themselves.
    fn replace(&mut self) {
        if !self.replacing {
            return;
        }
        let rules = self.items.iter().filter_map(|item| match item {
            Item::Free => None,
            Item::Unlimited(limit) => Some(*limit),
            Item::Limited(applied) => applied.limit,
        });
        let replaced: SmallVec<[&str; 8]> = rules
            .flat_map(|limit| limit.replaces.iter().map(|name| &**name))
            .collect();
        for item in &mut self.items {
            if matches!(item, Item::Limited(applied) if replaced.contains(&applied.name)) {
                *item = Item::Free;
            }
        }
    }

    fn push_key(
        &mut self,
        bound: &Bound,
        domain: &str,
        descriptor: &RateLimitDescriptor,
        shared: Option<&Level>,
    ) -> Range<usize> {
        // Lengths take at most 20 digits; most take one or two.
        let texts: usize = descriptor
            .entries
            .iter()
            .map(|entry| entry.key.len() + entry.value.len() + 8)
            .sum();
        let start = self.keys.len();
        self.keys
            .reserve(KEY_PREFIX.len() + domain.len() + texts + 8);
        let entries = counted_entries(descriptor, shared);
        if let Some(prefix) = &self.modes.envoy_keys {
            envoy_keys::push(&mut self.keys, prefix, domain, entries);
            return start..self.keys.len();
        }
        self.keys.extend_from_slice(KEY_PREFIX);
        bound.push_tag(&mut self.keys);
        self.push_text(domain);
        for (key, value) in entries {
            self.push_text(key);
            self.push_text(value);
        }
        start..self.keys.len()
    }

    /// `:` length `:` text. With the length in front no text can pass for the beginning of the next.
    fn push_text(&mut self, text: &str) {
        self.keys.push(b':');
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut left = text.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.keys.extend_from_slice(&digits[at..]);
        self.keys.push(b':');
        self.keys.extend_from_slice(text.as_bytes());
    }

    /// The limits to decide, in the order of their descriptors. `lease` is the name under which places are taken that
    /// may be in use at the same time; see [`Resolved::takes_leases`].
    pub fn checks<'a>(&'a self, lease: &'a [u8]) -> impl Iterator<Item = LimitCheck<'a>> {
        let limited = |(descriptor, item): (usize, &'a Item<'r>)| match item {
            Item::Limited(applied) => Some((descriptor, applied)),
            Item::Free | Item::Unlimited(_) => None,
        };
        let items = self.items.iter().enumerate().filter_map(limited);
        items.flat_map(move |(descriptor, applied)| {
            let parts = self.parts[applied.parts.clone()].iter();
            parts.map(move |part @ Part { bound, key, .. }| LimitCheck {
                key: &self.keys[key.clone()],
                method: bound.method,
                quota: bound.quota,
                cost: Cost(applied.cost),
                role: applied.role,
                act: match bound.method {
                    Method::Concurrency => Act::Hold {
                        id: lease,
                        ttl: bound.lease,
                    },
                    _ => Act::Take,
                },
                descriptor,
                on_error: applied
                    .limit
                    .map_or(OnError::DEFAULT, |limit| limit.on_error),
                exact: bound.exact,
                predecessor: self.predecessor(part),
                hot_key: applied.limit.map_or(HotKey::Exact, |limit| limit.hot_key),
            })
        })
    }

    fn predecessor(&self, part: &Part<'_>) -> Option<Predecessor<'_>> {
        let (before, key) = part.previous.as_ref()?;
        Some(Predecessor {
            key: &self.keys[key.clone()],
            method: before.method,
            quota: before.quota,
            way: part.bound.inherit?,
            generation: self.generation,
        })
    }

    /// The limit of an item that holds it back the longest, else the one with the least left, and its decision. Takes
    /// the item's decisions from the front of all.
    ///
    /// # Panics
    /// When there are too few decisions.
    pub(crate) fn tightest<'d>(
        &self,
        applied: &Applied<'_>,
        decisions: &mut impl Iterator<Item = &'d Decision>,
    ) -> (&Part<'r>, &'d Decision) {
        let made = self.parts[applied.parts.clone()].iter().map(|part| {
            let decision = decisions.next().expect("one decision for each check");
            (part, decision)
        });
        let tightest = made.min_by_key(|(_, decision)| {
            // A denial comes before all, and the one that lasts longest before others.
            let wait = decision.retry_after.unwrap_or(u64::MAX);
            let wait = if decision.allowed { 0 } else { wait };
            (decision.allowed, Reverse(wait), decision.remaining)
        });
        tightest.expect("an item with a limit has one")
    }

    /// Whether some limit counts what is in use at the same time, so that the request needs a name of its own.
    pub fn takes_leases(&self) -> bool {
        self.parts
            .iter()
            .any(|part| part.bound.method == Method::Concurrency)
    }
}
