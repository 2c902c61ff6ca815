//! Services that share a store elsewhere, for the comparison of strategies for hot keys.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Store;
use super::child::ServerProcess;
use super::further::Further;
use super::program::Program;
use super::service::{Ports, Service, Spawned, free_ports, spawn};
use super::strategy::{StatedError, Strategy, rules_yaml};
use super::url::{Protocol, TargetUrl};
use crate::load::address::Endpoint;
use crate::load::tally::KeyTally;
use crate::os::proc;
use crate::record::{TargetKind, TargetRecord};

/// Attempts to start a service when another process takes one of its ports first.
const ATTEMPTS: usize = 3;
/// Pause between them where the ports must stay.
const PAUSE: Duration = Duration::from_millis(200);
/// Services that may share a store.
pub(crate) const SERVICES_MAX: u32 = 16;

/// A store and the services on it; both end with the last arm that runs on them.
#[derive(Debug)]
pub struct Fleet {
    /// The store.
    pub store: Store,
    /// Its process, if it was started here.
    store_process: Mutex<Option<ServerProcess>>,
    services: Mutex<Vec<ServerProcess>>,
    how: How,
    endpoint: Endpoint,
    record: TargetRecord,
}

/// How its services are started.
#[derive(Debug)]
struct How {
    rules: String,
    ports: Vec<Ports>,
    threads: u32,
    core: Option<usize>,
    backend: String,
    further: Further,
}

impl How {
    fn start(&self, number: usize) -> Result<Spawned, String> {
        let name = format!("mitigations-{number}");
        let backend = Some(self.backend.as_str());
        let ports = self.ports[number];
        spawn(
            &name,
            &self.rules,
            ports,
            self.threads,
            self.core,
            backend,
            &self.further,
        )
    }
}

/// What makes a service an arm of the comparison.
#[derive(Clone, Debug)]
pub struct Arm {
    /// How it decides on hot keys.
    pub strategy: Strategy,
    /// Services that share the store; 1 for the embedded store.
    pub services: u32,
    /// Threads of each.
    pub threads: u32,
    /// What it runs on; `None` for a process of its own.
    pub fleet: Option<Arc<Fleet>>,
}

impl Fleet {
    /// Starts `count` services of `threads` threads with rules for `strategies` on the store called `store`: a program to
    /// start, or a `redis://` URL. Store and services are given what `further` says.
    pub(crate) fn start(
        store: &str,
        strategies: &[Strategy],
        count: u32,
        threads: u32,
        core: Option<usize>,
        further: [&Further; 2],
    ) -> Result<Fleet, String> {
        let (mut store, url) = open_store(store, threads, core, further[0])?;
        let store_process = store.take_process();
        let mut how = How {
            rules: rules_yaml(strategies, count),
            ports: (0..count).map(|_| free_ports()).collect::<Result<_, _>>()?,
            threads,
            core,
            backend: url,
            further: further[1].clone(),
        };
        let mut services = Vec::new();
        let mut endpoint: Option<Endpoint> = None;
        let mut record = TargetRecord {
            kind: TargetKind::Service,
            server_name: "tollgate".into(),
            server_version: env!("CARGO_PKG_VERSION").into(),
            threads: Some(threads * count),
            pinned_cpus: core.map(|core| core as u32).into_iter().collect(),
            started_by_bench: true,
            co_located: true,
            idle_rss_bytes: Some(0),
            ..TargetRecord::default()
        };
        for number in 0..how.ports.len() {
            let mut spawned = how.start(number);
            for _ in 1..ATTEMPTS {
                if spawned.is_err() {
                    // Another process took a port first.
                    how.ports[number] = free_ports()?;
                    spawned = how.start(number);
                }
            }
            let spawned = spawned?;
            let pid = spawned.process.pid();
            let took_ms = spawned.took.as_secs_f64() * 1e3;
            let slowest = record.start_to_first_reply_ms.unwrap_or(0.0);
            record.start_to_first_reply_ms = Some(slowest.max(took_ms));
            record.idle_rss_bytes = record
                .idle_rss_bytes
                .zip(proc::rss_bytes(pid))
                .map(|(sum, one)| sum + one);
            match &mut endpoint {
                None => {
                    record.url = format!("grpc://{}", spawned.grpc.address);
                    record.command_line =
                        without_password(&spawned.process.command_line, &how.backend, &store);
                    endpoint = Some(spawned.grpc);
                }
                Some(first) => first.also.push(spawned.grpc.address),
            }
            services.push(spawned.process);
        }
        Ok(Fleet {
            store,
            store_process: Mutex::new(store_process),
            services: Mutex::new(services),
            how,
            endpoint: endpoint.ok_or("no service was asked for")?,
            record,
        })
    }

    /// The arm that decides by `strategy` on these services.
    #[must_use]
    pub(crate) fn arm(
        self: &Arc<Fleet>,
        strategy: Strategy,
        services: u32,
        threads: u32,
    ) -> Service {
        let record = TargetRecord {
            name: strategy.to_string(),
            ..self.record.clone()
        };
        let arm = Arm {
            strategy,
            services,
            threads,
            fleet: Some(self.clone()),
        };
        Service::of_fleet(record, self.endpoint.clone(), self.pids(), arm)
    }

    /// Processes of the services.
    #[must_use]
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.services().iter().map(ServerProcess::pid).collect()
    }

    /// New services on the same ports in place of those that run, which end at once.
    ///
    /// # Errors
    /// If one does not start.
    pub(crate) fn restart(&self) -> Result<(), String> {
        let mut services = self.services();
        for (number, service) in services.iter_mut().enumerate() {
            service.kill();
            let mut spawned = self.how.start(number);
            for _ in 1..ATTEMPTS {
                if spawned.is_err() {
                    std::thread::sleep(PAUSE);
                    spawned = self.how.start(number);
                }
            }
            *service = spawned?.process;
        }
        Ok(())
    }

    /// How the store or one of the services ended, if one has.
    fn obituary(&self) -> Option<String> {
        let store = self.store_process.lock();
        let mut store = store.unwrap_or_else(PoisonError::into_inner);
        let store = store.as_mut().and_then(ServerProcess::obituary);
        store.or_else(|| self.services().iter_mut().find_map(ServerProcess::obituary))
    }

    fn services(&self) -> MutexGuard<'_, Vec<ServerProcess>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arm {
    /// How a process that it runs on ended, if one has; `None` for an arm with a process of its own.
    #[must_use]
    pub(crate) fn obituary(&self) -> Option<String> {
        self.fleet.as_ref()?.obituary()
    }

    /// The error that its strategy states for keys under `limit`, summed, as far as it can show.
    #[must_use]
    pub(crate) fn stated(&self, limit: u64, keys: &[KeyTally]) -> StatedError {
        keys.iter().fold(StatedError::default(), |sum, key| {
            let sent = u64::from(key.sent);
            let one = self
                .strategy
                .stated(self.services, self.threads, limit, sent);
            StatedError {
                over: sum.over + one.over,
                under: sum.under + one.under,
            }
        })
    }
}

/// The store and the URL by which services reach it.
fn open_store(
    name: &str,
    threads: u32,
    core: Option<usize>,
    further: &Further,
) -> Result<(Store, String), String> {
    if name.contains("://") {
        let url = TargetUrl::parse(name)?;
        if url.protocol != Protocol::Resp {
            return Err(format!("--store {}: give a redis:// URL", url.shown));
        }
        let bare = match name.split_once('=') {
            Some((before, after)) if !before.contains("://") => after,
            _ => name,
        };
        return Ok((Store::attach(&url)?, bare.to_owned()));
    }
    let program = Program::from_name(name).filter(|program| program.speaks_resp());
    let program = program.ok_or_else(|| {
        format!(
            "--store {name}: give {} or a redis:// URL",
            Program::stores()
        )
    })?;
    let store = Store::start_with(program, program.threads(threads), core, further)?;
    let url = store.record.url.clone();
    Ok((store, url))
}

/// A command line as it may stand in a report: the URL of the store as the store's record shows it.
fn without_password(words: &[String], url: &str, store: &Store) -> Vec<String> {
    let shown = |word: &String| match word == url {
        true => store.record.url.clone(),
        false => word.clone(),
    };
    words.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_keys_add_up() {
        let arm = Arm {
            strategy: Strategy::Probabilistic { one_in: 10 },
            services: 2,
            threads: 1,
            fleet: None,
        };
        let key = |sent| KeyTally {
            sent,
            ..KeyTally::default()
        };
        let keys = [key(1_000), key(500), key(10), key(0)];
        let stated = arm.stated(200, &keys);
        assert_eq!((stated.over, stated.under), (36, 54));
    }

    #[test]
    fn only_stores_that_speak_resp_can_be_shared() {
        for (name, word) in [
            ("memcached", "redis-server"),
            ("grpc://127.0.0.1:1", "redis://"),
            ("nothing", "redis-server"),
        ] {
            let error = open_store(name, 1, None, &Further::default()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
