//! What the process, its connections and its store are like at the moment, for whoever watches how full they are.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tollgate_engine::Handle;
use tollgate_net::{process, threads};

use super::text::head;
use crate::backend::{LocalCache, Pool, PoolNumber};
use crate::tls::Tls;
use crate::traces::Queue;

/// Looked at when somebody asks, not counted.
#[derive(Default)]
pub(crate) struct Facts {
    /// Connections at the moment.
    connections: Arc<AtomicUsize>,
    /// Most connections, once the service listens.
    most_connections: OnceLock<usize>,
    /// The store of this process, if it has one.
    store: OnceLock<Handle>,
    /// Remembered denials, if they are remembered.
    local_cache: OnceLock<LocalCache>,
    /// Connections to stores elsewhere.
    pools: OnceLock<Vec<Pool>>,
    /// Spans on their way to a collector.
    traces: OnceLock<Arc<Queue>>,
    /// Certificates of ports, by what those speak.
    certificates: OnceLock<Vec<(&'static str, Arc<Tls>)>>,
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts")
            .field("connections", &self.connections)
            .field("most_connections", &self.most_connections)
            .finish_non_exhaustive()
    }
}

impl Facts {
    /// The count of connections, of which there are at most so many. Of several calls the first one's bound holds.
    pub(crate) fn connections(&self, most: usize) -> Arc<AtomicUsize> {
        self.most_connections.get_or_init(|| most);
        self.connections.clone()
    }

    /// Tells of this store from now on.
    pub(crate) fn tell_of(&self, store: Handle) {
        self.store.get_or_init(|| store);
    }

    /// Tells of this cache from now on.
    pub(crate) fn tell_of_cache(&self, cache: LocalCache) {
        self.local_cache.get_or_init(|| cache);
    }

    /// Tells of these connections from now on.
    pub(crate) fn tell_of_pools(&self, pools: Vec<Pool>) {
        self.pools.get_or_init(|| pools);
    }

    /// Tells of these spans from now on.
    pub(crate) fn tell_of_traces(&self, traces: Arc<Queue>) {
        self.traces.get_or_init(|| traces);
    }

    /// Tells of these certificates from now on.
    pub(crate) fn tell_of_certificates(&self, certificates: Vec<(&'static str, Arc<Tls>)>) {
        self.certificates.get_or_init(|| certificates);
    }

    /// Numbers of connections to stores elsewhere.
    pub(super) fn pools(&self) -> Vec<PoolNumber> {
        let pools = self.pools.get().into_iter().flatten();
        pools.flat_map(Pool::numbers).collect()
    }

    pub(super) fn local_cache(&self) -> Option<&LocalCache> {
        self.local_cache.get()
    }

    /// In the form that Prometheus reads. What the system does not tell is left out.
    pub(super) fn write(&self, text: &mut String) {
        let cpu = process::cpu_time();
        let cpu_us = cpu.system_us.saturating_add(cpu.user_us);
        number(
            text,
            "process_cpu_seconds_total",
            "CPU time of the process.",
            "counter",
            cpu_us as f64 / 1e6,
        );
        let mut gauge = |name: &str, help: &str, value: u64| {
            number(text, name, help, "gauge", value);
        };
        if let Some(bytes) = process::resident_bytes() {
            gauge(
                "process_resident_memory_bytes",
                "Resident memory of the process.",
                bytes,
            );
        }
        if let Some(bytes) = process::machine_memory() {
            gauge(
                "tollgate_machine_memory_bytes",
                "Memory of the machine.",
                bytes,
            );
        }
        gauge(
            "tollgate_cpus",
            "CPUs that the process may use.",
            threads::available_cpus() as u64,
        );
        gauge(
            "tollgate_connections",
            "Connections to the service.",
            self.connections.load(Ordering::Relaxed) as u64,
        );
        if let Some(&most) = self.most_connections.get() {
            gauge(
                "tollgate_connections_max",
                "Limit of connections to the service; further ones are closed at once.",
                most as u64,
            );
        }
        if let Some(store) = self.store.get() {
            write_store(text, store);
        }
        self.write_traces(text);
        self.write_certificates(text);
        for PoolNumber {
            name,
            value,
            is_gauge,
        } in self.pools()
        {
            let name = format!("ratelimit_{}", name.replace('.', "_"));
            let kind = if is_gauge { "gauge" } else { "counter" };
            number(text, &name, "Connections to the store.", kind, value);
        }
        for (name, value) in self
            .local_cache()
            .map(LocalCache::gauges)
            .into_iter()
            .flatten()
        {
            let name = format!("ratelimit_localcache_{name}");
            number(text, &name, "The local cache of denials.", "gauge", value);
        }
    }

    fn write_certificates(&self, text: &mut String) {
        let ports = self.certificates.get().into_iter().flatten();
        let known: Vec<_> = ports
            .filter_map(|(port, tls)| Some((port, tls.expiry()?)))
            .collect();
        if known.is_empty() {
            return;
        }
        let name = "tollgate_tls_certificate_expiry_timestamp_seconds";
        let help = "When the certificate of a port expires, in seconds of the Unix epoch.";
        head(text, name, help, "gauge");
        for (port, expiry) in known {
            writeln!(text, "{name}{{port=\"{port}\"}} {expiry}").ok();
        }
    }

    fn write_traces(&self, text: &mut String) {
        let traces = self.traces.get().map(|traces| traces.numbers());
        for (name, help, value) in traces.into_iter().flatten() {
            number(text, name, help, "counter", value);
        }
    }
}

fn write_store(text: &mut String, store: &Handle) {
    let engine = store.engine();
    let stats = engine.stats();
    let overview = engine.overview(None);
    let keys = overview
        .databases
        .iter()
        .map(|size| size.keys as u64)
        .sum::<u64>();
    for (name, help, kind, value) in [
        (
            "tollgate_store_keys",
            "Keys in the store of this process.",
            "gauge",
            keys,
        ),
        (
            "tollgate_store_memory_bytes",
            "Bytes of the store's tables, keys and values.",
            "gauge",
            overview.bytes as u64,
        ),
        (
            "tollgate_store_memory_limit_bytes",
            "maxmemory of the store; 0 without a limit.",
            "gauge",
            engine.limits().maxmemory() as u64,
        ),
        (
            "tollgate_store_commands_total",
            "Commands that the store has run.",
            "counter",
            stats.commands,
        ),
        (
            "tollgate_store_errors_total",
            "Error replies of the store.",
            "counter",
            stats.errors,
        ),
        (
            "tollgate_store_expired_total",
            "Keys that the store removed because they had expired.",
            "counter",
            stats.expired,
        ),
    ] {
        number(text, name, help, kind, value);
    }
}

fn number(text: &mut String, name: &str, help: &str, kind: &str, value: impl fmt::Display) {
    head(text, name, help, kind);
    // Writing into a String cannot fail.
    writeln!(text, "{name} {value}").ok();
}

#[cfg(test)]
mod tests {
    use tollgate_engine::{Engine, EngineConfig};

    use super::*;

    fn text(facts: &Facts) -> String {
        let mut text = String::new();
        facts.write(&mut text);
        text
    }

    #[test]
    fn a_store_is_told_of_once_there_is_one() {
        let facts = Facts::default();
        assert!(!text(&facts).contains("tollgate_store_keys"));
        assert!(!text(&facts).contains("tollgate_connections_max"));
        facts.tell_of(Handle::new(Engine::new(EngineConfig::default())));
        facts.connections(7).fetch_add(3, Ordering::Relaxed);
        let text = text(&facts);
        for line in [
            "tollgate_connections 3",
            "tollgate_connections_max 7",
            "tollgate_store_keys 0",
            "tollgate_store_memory_limit_bytes 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
