//! Systems under test: found, started, asked what they can do, and stopped again.

pub(crate) mod child;
pub mod client;
pub(crate) mod fleet;
pub(crate) mod further;
pub(crate) mod memcached;
pub(crate) mod peer;
pub mod program;
mod remains;
pub mod service;
mod started;
pub(crate) mod store;
pub(crate) mod strategy;
pub mod url;

pub(crate) use fleet::{Arm, Fleet};
pub(crate) use further::Further;
pub(crate) use memcached::Memcached;
pub use service::Service;
pub use store::Store;

use crate::load::address::Endpoint;
use crate::load::operation::Op;
use crate::load::workload::{Ask, Rule};
use crate::record::TargetRecord;

/// Window in seconds after which keys that were left do not bother anybody.
const WINDOW_SHORT_S: u64 = 300;

/// A system under test of either kind.
#[derive(Debug)]
pub enum Target {
    /// Asked over RESP.
    Store(Box<Store>),
    /// Asked over gRPC or HTTP.
    Service(Box<Service>),
    /// Asked in memcached's text protocol.
    Memcached(Box<Memcached>),
}

/// In which way a target is asked for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The best the store offers.
    Native,
    /// The script that every store runs alike.
    Script,
    /// The rate limit service's call.
    Grpc,
    /// An HTTP request.
    Http,
    /// An operation chosen by name.
    Op(Op),
}

impl Way {
    /// The way of an operation chosen by name.
    #[must_use]
    pub(crate) fn of(op: Op) -> Way {
        match op {
            Op::Native => Way::Native,
            Op::Script => Way::Script,
            other => Way::Op(other),
        }
    }

    /// Whether a rate limit service is asked, which has its own rules.
    #[must_use]
    pub(crate) fn is_service(self) -> bool {
        matches!(self, Way::Grpc | Way::Http)
    }
}

impl Target {
    /// How it appears in the report.
    #[must_use]
    pub(crate) fn record(&self) -> &TargetRecord {
        match self {
            Target::Store(store) => &store.record,
            Target::Service(service) => &service.record,
            Target::Memcached(server) => &server.record,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        match self {
            Target::Store(store) => &store.endpoint,
            Target::Service(service) => &service.endpoint,
            Target::Memcached(server) => &server.endpoint,
        }
    }

    /// All its processes that run on this machine: a fleet of services has several, and so has a server with workers.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        match (self, self.fleet()) {
            // They change when the fleet is started again.
            (_, Some(fleet)) => fleet.pids(),
            (Target::Store(store), _) => store.pid.into_iter().collect(),
            (Target::Memcached(server), _) => server.pid.into_iter().collect(),
            (Target::Service(service), _) => service.pids.clone(),
        }
    }

    /// Strategy for hot keys and what the service shares with others, if it is an arm of their comparison.
    #[must_use]
    pub(crate) fn arm(&self) -> Option<&Arm> {
        match self {
            Target::Service(service) => service.arm.as_ref(),
            _ => None,
        }
    }

    /// The fleet that the service runs on, if any.
    #[must_use]
    pub(crate) fn fleet(&self) -> Option<&Fleet> {
        self.arm()?.fleet.as_deref()
    }

    /// Ends what a load left behind, so that it does not fall into the next one.
    ///
    /// # Errors
    /// If a service does not start again.
    pub(crate) fn tidy(&self) -> Result<(), String> {
        match (self.arm(), self.fleet()) {
            (Some(arm), Some(fleet)) if arm.strategy.leaves_work() => fleet.restart(),
            _ => Ok(()),
        }
    }

    /// Deletes the keys of a run, which begin with `prefix`, from a store that was running before, if some of them would
    /// stay: those of limits go by themselves, the others do not.
    ///
    /// # Errors
    /// If keys may have stayed.
    pub(crate) fn leave(&self, prefix: &str, window_s: u64) -> Result<(), String> {
        let Target::Store(store) = self else {
            return Ok(());
        };
        let rule = Rule { limit: 1, window_s };
        let stays = |way: &Way| {
            let asked = self.ask(*way, rule);
            asked.is_some_and(|ask| ask.rule().is_none()) || window_s > WINDOW_SHORT_S
        };
        if store.record.started_by_bench || !store.ways().iter().any(stays) {
            return Ok(());
        }
        remains::clear(&store.endpoint, prefix).map(drop)
    }

    /// Starts it anew in place of the process that was started here, which ends at once. `None` if it was not started here.
    pub fn restart(&mut self) -> Option<Result<(), String>> {
        match self {
            Target::Store(store) => store.restart(),
            Target::Service(service) => service.restart(),
            Target::Memcached(server) => server.restart(),
        }
    }

    /// Least limit for which it has a rule.
    #[must_use]
    pub(crate) fn limit_min(&self) -> u64 {
        self.arm().map_or(1, |_| strategy::LIMIT_MIN)
    }

    /// How its process ended, if it was started here and has ended.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        match self {
            Target::Store(store) => store.obituary(),
            Target::Service(service) => service.obituary(),
            Target::Memcached(server) => server.obituary(),
        }
    }

    /// The ways it can be asked. The script is a row of its own only beside a native command.
    #[must_use]
    pub fn ways(&self) -> Vec<Way> {
        match self {
            Target::Store(store) => store.ways(),
            Target::Service(service) => service.ways(),
            Target::Memcached(server) => server.ways(),
        }
    }

    /// Asks for `ops` from now on. Returns those that it cannot do, with the reason; a service is not asked for
    /// operations and keeps to its own. Fails when the target cannot be asked at all.
    pub fn choose(&mut self, ops: &[Op]) -> Result<Vec<(Op, String)>, String> {
        match self {
            Target::Store(store) => store.choose(ops),
            Target::Memcached(server) => Ok(server.choose(ops)),
            Target::Service(_) => Ok(Vec::new()),
        }
    }

    /// What is asked in `way`; `None` for a call over gRPC.
    #[must_use]
    pub fn ask(&self, way: Way, rule: Rule) -> Option<Ask> {
        match (self, way) {
            (Target::Store(store), Way::Native) => store.native(rule),
            (Target::Store(store), Way::Script) => store.scripted(rule),
            (Target::Store(store), Way::Op(op)) => store.chosen(op, rule),
            (Target::Memcached(_), Way::Op(op)) => memcached::ask(op, rule).map(Ask::Memcache),
            (Target::Service(service), Way::Http) => service.ask(rule),
            _ => None,
        }
    }
}
