//! Systems under test: found, started, asked what they can do, and stopped again.

pub mod child;
pub mod client;
pub mod program;
pub mod service;
pub mod store;
pub mod url;

pub use service::Service;
pub use store::Store;

use crate::load::address::Endpoint;
use crate::load::workload::{Ask, Rule};
use crate::record::TargetRecord;

/// A system under test of either kind.
#[derive(Debug)]
pub enum Target {
    /// Asked over RESP.
    Store(Box<Store>),
    /// Asked over gRPC.
    Service(Box<Service>),
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
}

impl Target {
    /// How it appears in the report.
    #[must_use]
    pub fn record(&self) -> &TargetRecord {
        match self {
            Target::Store(store) => &store.record,
            Target::Service(service) => &service.record,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        match self {
            Target::Store(store) => &store.endpoint,
            Target::Service(service) => &service.endpoint,
        }
    }

    /// Its process, when it runs on this machine.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match self {
            Target::Store(store) => store.pid,
            Target::Service(service) => service.pid,
        }
    }

    /// How its process ended, if it was started here and has ended.
    pub fn obituary(&mut self) -> Option<String> {
        match self {
            Target::Store(store) => store.obituary(),
            Target::Service(service) => service.obituary(),
        }
    }

    /// The ways it can be asked. The script is a row of its own only beside a native command.
    #[must_use]
    pub fn ways(&self) -> Vec<Way> {
        match self {
            Target::Store(store) => {
                let mut ways = Vec::new();
                if store.has_native() {
                    ways.push(Way::Native);
                }
                if store
                    .scripted(Rule {
                        limit: 1,
                        window_s: 1,
                    })
                    .is_some()
                {
                    ways.push(Way::Script);
                }
                ways
            }
            Target::Service(_) => vec![Way::Grpc],
        }
    }

    /// What a store is asked in `way`; `None` for a service.
    #[must_use]
    pub fn ask(&self, way: Way, rule: Rule) -> Option<Ask> {
        match (self, way) {
            (Target::Store(store), Way::Native) => store.native(rule),
            (Target::Store(store), Way::Script) => store.scripted(rule),
            _ => None,
        }
    }
}
