//! Where scripts run, and which sections are meant for which place.

use std::fmt;
use std::io;

use tollgate_wire::resp::Value;

use super::Section;
use crate::Client;

/// Where a script runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// The reference: redis-server 7.0.
    Redis,
    /// A later server, which is asked only about what came since the reference.
    Newer(Release),
    /// Tollgate, in process or as a server.
    Tollgate,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Redis => f.write_str("redis"),
            Peer::Newer(release) => release.fmt(f),
            Peer::Tollgate => f.write_str("tollgate"),
        }
    }
}

/// Who makes a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Product {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

/// A version of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// Who makes it.
    pub product: Product,
    /// Major and minor version.
    pub version: (u32, u32),
}

impl Release {
    /// Reads `redis 7.4` or `valkey 9.0`.
    pub fn parse(text: &str) -> Option<Release> {
        let (product, version) = text.trim().split_once(' ')?;
        let product = match product {
            "redis" => Product::Redis,
            "valkey" => Product::Valkey,
            _ => return None,
        };
        Some(Release {
            product,
            version: version_of(version)?,
        })
    }

    /// What a running server is, by its `INFO server`.
    pub fn of(client: &mut Client) -> io::Result<Release> {
        let Value::Bulk(info) = client.call(&["INFO", "server"])? else {
            return Err(io::Error::other("INFO gives no text"));
        };
        let info = String::from_utf8_lossy(&info);
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        // Valkey also calls itself a Redis of the version it was forked from.
        let (product, version) = match field("valkey_version:") {
            Some(version) => (Product::Valkey, version),
            None => (
                Product::Redis,
                field("redis_version:").ok_or_else(|| io::Error::other("INFO has no version"))?,
            ),
        };
        let version = version_of(version.trim())
            .ok_or_else(|| io::Error::other(format!("no version: {version}")))?;
        Ok(Release { product, version })
    }

    /// Whether this one has what came with `other`.
    fn has(self, other: Release) -> bool {
        self.product == other.product && self.version >= other.version
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product = match self.product {
            Product::Redis => "redis",
            Product::Valkey => "valkey",
        };
        write!(f, "{product} {}.{}", self.version.0, self.version.1)
    }
}

/// The first two numbers of a version.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.');
    let major = numbers.next()?.parse().ok()?;
    Some((major, numbers.next()?.parse().ok()?))
}

impl Section {
    /// Why the section is not run on `peer`, if it is not.
    #[must_use]
    pub fn left_out_on(&self, peer: Peer) -> Option<String> {
        if let Some((only, reason)) = &self.only
            && *only != peer
        {
            return Some(reason.clone());
        }
        match peer {
            Peer::Tollgate => None,
            Peer::Redis if self.since.is_empty() => None,
            Peer::Redis => Some("newer than the reference".to_owned()),
            Peer::Newer(_) if self.since.is_empty() => {
                Some("the reference answers for it".to_owned())
            }
            Peer::Newer(release) => {
                let has = self.since.iter().any(|since| release.has(*since));
                (!has).then(|| format!("{release} does not have it"))
            }
        }
    }

    /// Whether `peer` says what is right for this section.
    pub(super) fn is_recorded_from(&self, peer: Peer) -> bool {
        let theirs = match &self.only {
            Some((only, _)) => *only == peer,
            None => peer != Peer::Tollgate,
        };
        theirs && self.left_out_on(peer).is_none()
    }
}
