//! The stores elsewhere, and by whose keys they count.

use smallvec::SmallVec;
use tollgate_limiter::holds::Ended;
use tollgate_limiter::{Decision, Timestamp};
use tollgate_policy::LimitCheck;

use super::envoy::Envoy;
use super::link::Link;
use super::parts::{self, Part};
use super::pool::Pool;
use super::remote::Remote;
use super::url::{Address, parse_url};
use super::{BackendError, Decide, Decisions};
use crate::config::{EnvoyCounters, RlsConfig, StartError, StoreConfig};

/// What envoyproxy/ratelimit calls the connections to the store, and to that of limits per second.
const POOL: &str = "redis_pool";
const PER_SECOND_POOL: &str = "redis_per_second_pool";

/// Where counters are, from which each thread makes its own [`Stores`].
#[derive(Clone)]
pub(crate) struct Places {
    main: Place,
    /// That of limits per second, where they have one of their own.
    per_second: Option<Place>,
    envoy: Option<EnvoyCounters>,
}

#[derive(Clone)]
struct Place {
    address: Address,
    store: StoreConfig,
    pool: Pool,
}

impl Place {
    fn new(url: &str, store: &StoreConfig, name: &'static str) -> Result<Self, StartError> {
        Ok(Self {
            pool: Pool::new(name),
            address: parse_url(url, store)?,
            store: store.clone(),
        })
    }

    fn link(&self) -> Link {
        Link::new(self.address.clone(), &self.store, self.pool.clone())
    }
}

impl Places {
    /// Checks the URLs without connecting, and reads the files that they need.
    pub(crate) fn new(url: &str, config: &RlsConfig) -> Result<Self, StartError> {
        let per_second = config.per_second.as_ref();
        let per_second =
            per_second.map(|apart| Place::new(&apart.url, &apart.store, PER_SECOND_POOL));
        Ok(Self {
            main: Place::new(url, &config.store, POOL)?,
            per_second: per_second.transpose()?,
            envoy: config.envoy_counters.clone(),
        })
    }

    /// One place.
    #[cfg(test)]
    pub(super) fn one(
        url: &str,
        store: &StoreConfig,
        envoy: Option<EnvoyCounters>,
    ) -> Result<Self, StartError> {
        Ok(Self {
            main: Place::new(url, store, POOL)?,
            per_second: None,
            envoy,
        })
    }

    /// The connections that all threads make.
    pub(crate) fn pools(&self) -> Vec<Pool> {
        let both = [Some(&self.main), self.per_second.as_ref()];
        let both = both.into_iter().flatten();
        both.map(|place| place.pool.clone()).collect()
    }

    /// Connections that one thread shares among its requests.
    pub(super) fn links(&self) -> (Link, Option<Link>) {
        (self.main.link(), self.per_second.as_ref().map(Place::link))
    }
}

/// The stores as one service thread sees them.
pub(crate) enum Stores {
    /// Counters of our own.
    Own(Box<PerSecond<Remote>>),
    /// Those of envoyproxy/ratelimit.
    Envoy(Envoy),
}

impl Stores {
    /// `clock` chooses the windows of calendars and those of envoyproxy/ratelimit; all else is decided by the stores' own time.
    pub(crate) fn new(places: &Places, clock: fn() -> Timestamp) -> Self {
        if let Some(settings) = places.envoy.clone() {
            return Self::Envoy(Envoy::new(places, settings, clock));
        }
        let (main, per_second) = places.links();
        Self::Own(Box::new(PerSecond {
            main: Remote::new(main, clock),
            per_second: per_second.map(|link| Remote::new(link, clock)),
        }))
    }
}

/// Limits per second on a store of their own, if there is one; a request with both kinds is decided on one store after the
/// other, see [`parts`]. A limit that becomes one per second, or is one no longer, does not inherit across stores.
pub(crate) struct PerSecond<B> {
    main: B,
    per_second: Option<B>,
}

impl<B: Decide> PerSecond<B> {
    fn of(&self, check: &LimitCheck<'_>) -> &B {
        let apart = self.per_second.as_ref();
        apart
            .filter(|_| check.is_per_second())
            .unwrap_or(&self.main)
    }
}

impl<B: Decide> Decide for PerSecond<B> {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        let Some(per_second) = &self.per_second else {
            return self.main.decide(checks).await;
        };
        let (mut apart, mut others) = (SmallVec::new(), SmallVec::new());
        for (at, check) in checks.iter().enumerate() {
            match check.is_per_second() {
                true => apart.push(at),
                false => others.push(at),
            }
        }
        if apart.is_empty() {
            return self.main.decide(checks).await;
        }
        if others.is_empty() {
            return per_second.decide(checks).await;
        }
        // Short windows deny most, so that the other store is seldom asked to take and give back.
        let parts = [(per_second, apart), (&self.main, others)];
        let parts = parts.map(|(backend, at)| Part { backend, at });
        // Boxed: it is seldom, and would make the future of every decision larger.
        Box::pin(parts::decide(checks, &parts)).await
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        self.of(check).refund(check).await
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        self.of(check).end(check, id, actual).await
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        self.of(check).release(check, id).await
    }
}

impl Decide for Stores {
    async fn decide(&self, checks: &[LimitCheck<'_>]) -> Result<Decisions, BackendError> {
        match self {
            Self::Own(stores) => stores.decide(checks).await,
            // Boxed, so that the future of a decision by our own counters does not grow.
            Self::Envoy(envoy) => Box::pin(envoy.decide(checks)).await,
        }
    }

    async fn refund(&self, check: &LimitCheck<'_>) -> Result<Decision, BackendError> {
        match self {
            Self::Own(stores) => stores.refund(check).await,
            Self::Envoy(envoy) => Box::pin(envoy.refund(check)).await,
        }
    }

    async fn end(
        &self,
        check: &LimitCheck<'_>,
        id: &[u8],
        actual: u64,
    ) -> Result<Option<Ended>, BackendError> {
        match self {
            Self::Own(stores) => stores.end(check, id, actual).await,
            Self::Envoy(envoy) => envoy.end(check, id, actual).await,
        }
    }

    async fn release(&self, check: &LimitCheck<'_>, id: &[u8]) -> Result<u64, BackendError> {
        match self {
            Self::Own(stores) => stores.release(check, id).await,
            Self::Envoy(envoy) => envoy.release(check, id).await,
        }
    }

    fn counts_each(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Envoy(envoy) => envoy.counts_each(),
        }
    }
}
