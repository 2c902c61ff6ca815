//! From a request to the limits that apply and the counters they use.

use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;
use tollgate_limiter::{AlgorithmKind, Cost, Quota};
use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest};

use crate::ruleset::{Level, Rate, Ruleset};
use crate::unit::Unit;

/// Most descriptors of one request.
pub const MAX_DESCRIPTORS: usize = 1_024;

/// Every counter's key begins with this, the unit's letter and a colon.
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
    /// The descriptor at this index asks to give hits back.
    NegativeHits(usize),
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
            Self::NegativeHits(index) => {
                write!(
                    f,
                    "descriptor {index}: is_negative_hits is not supported: hits cannot be given back"
                )
            }
        }
    }
}

impl std::error::Error for RequestError {}

/// What applies to each descriptor of a request, in their order.
#[derive(Debug)]
pub struct Resolved<'r> {
    pub(crate) items: SmallVec<[Item<'r>; 4]>,
    /// The keys of all counters, end to end.
    keys: Vec<u8>,
}

/// What applies to one descriptor.
#[derive(Clone, Debug)]
pub(crate) enum Item<'r> {
    /// No rule matches.
    Free,
    /// A rule without a limit matches.
    Unlimited,
    /// A limit is to be decided.
    Limited(Applied<'r>),
}

#[derive(Clone, Debug)]
pub(crate) struct Applied<'r> {
    pub(crate) name: &'r str,
    pub(crate) requests: u32,
    pub(crate) unit: Unit,
    cost: u64,
    key: Range<usize>,
}

/// One limit for a backend to decide.
#[derive(Clone, Copy, Debug)]
pub struct LimitCheck<'a> {
    /// The counter's key: the unit, the domain and all entries, each with its length in front, so that no two
    /// descriptors share one.
    pub key: &'a [u8],
    /// How to count.
    pub kind: AlgorithmKind,
    /// The limit.
    pub quota: Quota,
    /// What the request weighs; 0 only looks.
    pub cost: Cost,
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
            keys: Vec::new(),
        };
        for (index, descriptor) in request.descriptors.iter().enumerate() {
            let item = match rules {
                Some(rules) => resolved.item(rules, request, descriptor, index)?,
                None => Item::Free,
            };
            resolved.items.push(item);
        }
        Ok(resolved)
    }
}

impl<'r> Resolved<'r> {
    fn item(
        &mut self,
        rules: &'r Level,
        request: &RateLimitRequest,
        descriptor: &RateLimitDescriptor,
        index: usize,
    ) -> Result<Item<'r>, RequestError> {
        let (name, requests, unit) = match &descriptor.limit {
            Some(given) => {
                let unit =
                    Unit::from_override(given.unit).ok_or(RequestError::OverrideUnit(index))?;
                ("", given.requests_per_unit, unit)
            }
            None => match rules.limit_of(&descriptor.entries) {
                None => return Ok(Item::Free),
                Some(limit) => match limit.rate {
                    Rate::Unlimited => return Ok(Item::Unlimited),
                    Rate::PerUnit { requests, unit } => (&*limit.name, requests, unit),
                },
            },
        };
        if descriptor.is_negative_hits {
            return Err(RequestError::NegativeHits(index));
        }
        let cost = match &descriptor.hits_addend {
            Some(hits) => hits.value,
            None => u64::from(request.hits_addend.max(1)),
        };
        let key = self.push_key(unit, &request.domain, descriptor);
        Ok(Item::Limited(Applied {
            name,
            requests,
            unit,
            cost,
            key,
        }))
    }

    fn push_key(
        &mut self,
        unit: Unit,
        domain: &str,
        descriptor: &RateLimitDescriptor,
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
        self.keys.extend_from_slice(KEY_PREFIX);
        self.keys.push(letter(unit));
        self.push_text(domain);
        for entry in &descriptor.entries {
            self.push_text(&entry.key);
            self.push_text(&entry.value);
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

    /// The limits to decide, in the order of their descriptors.
    pub fn checks(&self) -> impl Iterator<Item = LimitCheck<'_>> {
        self.items.iter().filter_map(|item| match item {
            Item::Limited(applied) => Some(LimitCheck {
                key: &self.keys[applied.key.clone()],
                kind: AlgorithmKind::FixedWindowEpoch,
                quota: Quota::new(u64::from(applied.requests), applied.unit.nanos()),
                cost: Cost(applied.cost),
            }),
            Item::Free | Item::Unlimited => None,
        })
    }
}

/// A limit that changes its unit starts a new counter, because windows of different units do not compare.
const fn letter(unit: Unit) -> u8 {
    match unit {
        Unit::Second => b's',
        Unit::Minute => b'm',
        Unit::Hour => b'h',
        Unit::Day => b'd',
        Unit::Week => b'w',
        Unit::Month => b'M',
        Unit::Year => b'y',
    }
}
