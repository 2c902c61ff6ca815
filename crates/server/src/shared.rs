//! What all threads of a server share.

use crate::aof::Aof;
use crate::client::{Clients, Signal};
use crate::cluster::ClusterNode;
use crate::config::Live;
use crate::ending::Ending;
use crate::failover::Failover;
use crate::link::Link;
use crate::loading::Loading;
use crate::log::Log;
use crate::memcached::Memcached;
use crate::metrics::{Metrics, ReplicationBytes};
use crate::oom_score::OomScore;
use crate::snapshot::SnapshotState;
use crate::workers::Workers;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tollgate_engine::{Engine, JournalFacts};
use tollgate_limiter::Timestamp;
use tollgate_net::Clock;
use tollgate_net::signal::Signals;
use tollgate_net::tls::TlsAcceptor;
use tollgate_net::{IoBackend, Listeners, Mailboxes};

/// The server as seen from a connection.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) settings: Live,
    pub(crate) clients: Clients,
    pub(crate) metrics: Metrics,
    /// What is known of Memcached's protocol.
    pub(crate) memcached: Memcached,
    pub(crate) snapshot: SnapshotState,
    /// The data of the start.
    pub(crate) loading: Loading,
    pub(crate) failover: Failover,
    /// To the master, if there is one.
    pub(crate) link: Link,
    pub(crate) judging: Mutex<()>,
    pub(crate) ending: Ending,
    pub(crate) oom_score: OomScore,
    pub(crate) aof: Aof,
    pub(crate) cluster: ClusterNode,
    /// Takes what the operator should know.
    pub(crate) log: Arc<Log>,
    /// Run what may be long.
    pub(crate) workers: Workers,
    pub(crate) mailboxes: Arc<Mailboxes<Signal>>,
    /// Wakes the thread that waits for the end of the server.
    pub(crate) signals: Arc<Signals>,
    /// Where the server listens.
    pub(crate) listeners: Arc<Listeners>,
    /// The certificates, once there was a port of TLS.
    pub(crate) tls: Arc<OnceLock<TlsAcceptor>>,
    pub(crate) threads: usize,
    pub(crate) backend: IoBackend,
    /// Monotone nanoseconds.
    pub(crate) started: i64,
    /// 40 hex digits, new at each start.
    pub(crate) run_id: String,
    /// Expired keys are removed though nobody asks for them; DEBUG can stop that.
    pub(crate) active_expire: AtomicBool,
    /// What is due now and then is done; DEBUG can stop that.
    pub(crate) housekeeping: AtomicBool,
    /// Highest resident memory seen, in bytes.
    pub(crate) memory_peak: AtomicU64,
}

impl Shared {
    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(Clock::now())
    }

    /// Held by who judges what clients may do: one that has looked at older settings, or at an older state of the link, must
    /// not have the last word. Locked before both.
    pub(crate) fn hold_judging(&self) -> MutexGuard<'_, ()> {
        self.judging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a snapshot is being taken, for whatever it is.
    pub(crate) fn is_taking_snapshot(&self) -> bool {
        self.snapshot.is_in_background() || self.engine.snapshot_progress().purpose.is_some()
    }

    /// Bytes held for clients that are no replicas.
    pub(crate) fn client_memory(&self) -> usize {
        let clients = self.clients.all();
        let ordinary = clients.iter().filter(|client| client.is_ordinary());
        ordinary.map(|client| client.memory()).sum()
    }

    /// Bytes that wait for replicas beyond the backlog, whose facts are `journal`.
    pub(crate) fn replica_memory(&self, journal: &JournalFacts) -> u64 {
        let clients = self.clients.all();
        let online = clients.iter().filter(|client| client.is_replica());
        let unsent: usize = online.map(|client| client.unsent()).sum();
        journal.buffers_bytes.saturating_sub(journal.memory_bytes) + unsent as u64
    }

    /// Bytes that `maxmemory` covers beside the data and what clients hold. What waits for replicas beyond the backlog is not
    /// covered: evicting fills it further.
    pub(crate) fn memory_beside_data(&self) -> usize {
        let backlog = self.engine.journal_facts().memory_bytes as usize;
        self.engine.script_cache().1 + backlog
    }

    /// Counts anew what `maxmemory` covers, if it is set.
    pub(crate) fn audit_memory(&self) {
        if self.engine.limits().maxmemory() > 0 {
            self.engine.audit_memory(self.memory_beside_data());
        }
    }

    /// Bytes that came from a master and went to replicas.
    pub(crate) fn replication_bytes(&self) -> ReplicationBytes {
        ReplicationBytes {
            input: self.metrics.from_master.load(Ordering::Relaxed),
            output: self.clients.to_replicas(),
        }
    }

    /// Resident memory in bytes, remembered if it is the highest seen.
    pub(crate) fn resident(&self) -> u64 {
        let resident = tollgate_net::process::resident_bytes().unwrap_or_default();
        self.memory_peak.fetch_max(resident, Ordering::Relaxed);
        resident
    }
}
