//! The key `hot_key`: how a limit on a store elsewhere is decided with fewer questions.

use tollgate_limiter::{AlgorithmKind, Method, Nanos};

use crate::bound::{Bound, WHOLE_PPM};
use crate::limits::{given, one_of, share_of, span_of};
use crate::load::{fields, u32_of};
use crate::ruleset::NamedBound;
use crate::yaml::{Kind, Node, YamlError};

/// Most keys that one counter is split over.
pub const MAX_SHARDS: u32 = 64;
/// Most requests that one question stands for.
pub const MAX_ONE_IN: u32 = 1_000;
/// Most units that one question takes.
pub const MAX_BATCH: u32 = 10_000;
/// Most services that have local shares of one limit.
pub const MAX_SERVICES: u32 = 1_000;
/// Longest time between two writings: 10 s.
const INTERVAL_MAX: Nanos = 10_000_000_000;

const KEYS: &[&str] = &[
    "strategy", "share", "services", "shards", "interval", "one_in", "size",
];

/// The settings of strategies.
const SETTINGS: [&str; 6] = ["share", "services", "shards", "interval", "one_in", "size"];

/// How a limit on a store elsewhere is decided with fewer questions. `docs/rules.md` states how far each may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotKey {
    /// The store is asked for every decision.
    Exact,
    /// A denial is remembered until it can be over.
    DenialCache,
    /// Each service decides by itself on a share of the limit, and then asks the store for what no service has.
    Local {
        /// The share of one service, in millionths.
        share_ppm: u32,
        /// How many services have one.
        services: u32,
    },
    /// The counter is split over several keys.
    Shards {
        /// How many, 2 to [`MAX_SHARDS`].
        shards: u32,
    },
    /// Decisions are made on a local copy, and their sum is written now and then.
    WriteBehind {
        /// Time between two writings.
        interval: Nanos,
    },
    /// One in so many requests asks, and weighs as many times as much.
    Probabilistic {
        /// 2 to [`MAX_ONE_IN`].
        one_in: u32,
    },
    /// One question takes units for so many requests, which pass here until they are used up.
    Batch {
        /// 2 to [`MAX_BATCH`].
        size: u32,
    },
}

impl HotKey {
    /// Every strategy's name in rules and metrics.
    pub const NAMES: [&str; 7] = [
        "exact",
        "denial-cache",
        "local",
        "shards",
        "write-behind",
        "probabilistic",
        "batch",
    ];

    /// Index of the strategy's name in [`Self::NAMES`].
    pub const fn index(self) -> usize {
        match self {
            Self::Exact => 0,
            Self::DenialCache => 1,
            Self::Local { .. } => 2,
            Self::Shards { .. } => 3,
            Self::WriteBehind { .. } => 4,
            Self::Probabilistic { .. } => 5,
            Self::Batch { .. } => 6,
        }
    }

    /// The strategy's name in rules and metrics.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// `denial-cache`, or `{strategy: write-behind, interval: 50ms}`.
pub(crate) fn hot_key_of(node: &Node, bounds: &[NamedBound]) -> Result<HotKey, YamlError> {
    let hot_key = if matches!(node.kind, Kind::Map(_)) {
        let [strategy, share, services, shards, interval, one_in, size] =
            fields(node, KEYS, "hot_key")?;
        let Some(strategy) = given(strategy) else {
            return Err(YamlError::new(node.line, "hot_key has no strategy"));
        };
        let settings = Settings {
            line: node.line,
            said: [
                ("share", given(share)),
                ("services", given(services)),
                ("shards", given(shards)),
                ("interval", given(interval)),
                ("one_in", given(one_in)),
                ("size", given(size)),
            ],
        };
        settings.of(strategy)?
    } else {
        let none = Settings {
            line: node.line,
            said: SETTINGS.map(|name| (name, None)),
        };
        none.of(node)?
    };
    for NamedBound { bound, .. } in bounds {
        if let Some(reason) = contradiction(hot_key, bound) {
            return Err(YamlError::new(node.line, reason));
        }
    }
    Ok(hot_key)
}

/// The settings beside a strategy.
struct Settings<'a> {
    line: usize,
    said: [(&'static str, Option<&'a Node>); SETTINGS.len()],
}

impl<'a> Settings<'a> {
    fn of(&self, strategy: &Node) -> Result<HotKey, YamlError> {
        let name = one_of(strategy, "strategy", &HotKey::NAMES, |name| name)?;
        match name {
            "local" => {
                let [share, services] = self.only(name, ["share", "services"])?;
                let share_ppm = share_of(share)?;
                let services_count = within(services, "services", 1, MAX_SERVICES)?;
                if u64::from(share_ppm) * u64::from(services_count) > u64::from(WHOLE_PPM) {
                    let reason = "the shares of all services are more than the limit";
                    return Err(YamlError::new(share.line, reason));
                }
                Ok(HotKey::Local {
                    share_ppm,
                    services: services_count,
                })
            }
            "shards" => {
                let [shards] = self.only(name, ["shards"])?;
                let shards = within(shards, "shards", 2, MAX_SHARDS)?;
                Ok(HotKey::Shards { shards })
            }
            "write-behind" => {
                let [node] = self.only(name, ["interval"])?;
                let interval = span_of(node, "interval")?;
                if interval > INTERVAL_MAX {
                    return Err(YamlError::new(node.line, "interval is longer than 10s"));
                }
                Ok(HotKey::WriteBehind { interval })
            }
            "probabilistic" => {
                let [one_in] = self.only(name, ["one_in"])?;
                let one_in = within(one_in, "one_in", 2, MAX_ONE_IN)?;
                Ok(HotKey::Probabilistic { one_in })
            }
            "batch" => {
                let [size] = self.only(name, ["size"])?;
                let size = within(size, "size", 2, MAX_BATCH)?;
                Ok(HotKey::Batch { size })
            }
            "denial-cache" => self.only(name, []).map(|[]| HotKey::DenialCache),
            _ => self.only(name, []).map(|[]| HotKey::Exact),
        }
    }

    /// The settings of these names, all of which the strategy needs, and no others.
    fn only<const N: usize>(
        &self,
        strategy: &str,
        wanted: [&str; N],
    ) -> Result<[&'a Node; N], YamlError> {
        let mut found: [Option<&'a Node>; N] = [None; N];
        for &(name, node) in &self.said {
            match (wanted.iter().position(|&want| want == name), node) {
                (Some(at), node) => found[at] = node,
                (None, Some(node)) => {
                    let reason = format!("the strategy {strategy} has no {name}");
                    return Err(YamlError::new(node.line, reason));
                }
                (None, None) => {}
            }
        }
        for (name, node) in wanted.iter().zip(&found) {
            if node.is_none() {
                let reason = format!("the strategy {strategy} needs {name}");
                return Err(YamlError::new(self.line, reason));
            }
        }
        Ok(found.map(|node| node.expect("each was looked at")))
    }
}

fn within(node: &Node, name: &str, least: u32, most: u32) -> Result<u32, YamlError> {
    let number = u32_of(node, name)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let reason = format!("{name} must be {least} to {most}");
    Err(YamlError::new(node.line, reason))
}

/// Why a limit cannot be decided so.
fn contradiction(hot_key: HotKey, bound: &Bound) -> Option<String> {
    let name = hot_key.name();
    if hot_key == HotKey::Exact {
        return None;
    }
    if bound.method == Method::Concurrency {
        return Some(format!(
            "the strategy {name} cannot be combined with concurrency, whose places are freed at any time"
        ));
    }
    if bound.exact {
        return Some(format!("exact cannot be combined with the strategy {name}"));
    }
    let splits = matches!(hot_key, HotKey::Local { .. } | HotKey::Shards { .. });
    if splits && bound.method == Method::Small(AlgorithmKind::FixedWindow) {
        return Some(format!(
            "the strategy {name} splits the limit, and the parts of a fixed-window would begin at different times: use fixed-window-epoch"
        ));
    }
    if splits && bound.inherit.is_some() {
        return Some(format!(
            "inherit cannot be combined with the strategy {name}, whose parts start over when the limit changes"
        ));
    }
    let capacity = bound.method.capacity(&bound.quota);
    match hot_key {
        HotKey::Local { share_ppm, .. } => {
            let part = u128::from(capacity.min(bound.quota.limit)) * u128::from(share_ppm);
            (part < u128::from(WHOLE_PPM))
                .then(|| "share is less than one unit of the limit".to_owned())
        }
        HotKey::WriteBehind { interval } if interval >= bound.window() => {
            Some("interval is not shorter than the period of the limit".to_owned())
        }
        HotKey::Probabilistic { one_in } if u64::from(one_in) > capacity => Some(format!(
            "one_in is more than the {capacity} units that may pass at once"
        )),
        HotKey::Batch { size } if u64::from(size) > capacity => Some(format!(
            "size is more than the {capacity} units that may pass at once"
        )),
        _ => None,
    }
}
