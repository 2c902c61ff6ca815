//! All clients of the server.

use super::{Client, Delivery, Part, Texts, lock};
use crate::eviction::Budget;
use crate::outbox::{Outbox, SoftLimit};
use crate::subscriptions::Subscriptions;
use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, Mutex, OnceLock};
use tollgate_commands::acl::DEFAULT_USER;
use tollgate_net::{ConnRef, Peer};

/// All clients of the server.
#[derive(Debug)]
pub(crate) struct Clients {
    delivery: Arc<Delivery>,
    map: Mutex<BTreeMap<u64, Arc<Client>>>,
    open: AtomicUsize,
    last_id: AtomicU64,
    received: AtomicU64,
    rejected: AtomicU64,
}

impl Clients {
    /// Bytes that replicas were given to read since the start or the last reset.
    pub(crate) fn to_replicas(&self) -> u64 {
        self.delivery.to_replicas.load(Ordering::Relaxed)
    }

    pub(crate) fn new(delivery: Delivery) -> Clients {
        Clients {
            delivery: Arc::new(delivery),
            map: Mutex::default(),
            open: AtomicUsize::new(0),
            last_id: AtomicU64::new(0),
            received: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        }
    }

    /// What all of them may hold.
    pub(crate) fn budget(&self) -> &Budget {
        &self.delivery.budget
    }

    /// Clients dropped because they did not read.
    pub(crate) fn dropped(&self) -> u64 {
        self.delivery.limits.dropped()
    }

    /// Registers a new client, unless there are `most` already.
    pub(crate) fn open(
        &self,
        peer: Peer,
        at: ConnRef,
        most: usize,
        now: i64,
    ) -> Option<Arc<Client>> {
        self.received.fetch_add(1, Ordering::Relaxed);
        if self.open.fetch_add(1, Ordering::Relaxed) >= most {
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            peer,
            at,
            connected_at: now,
            last_seen: AtomicI64::new(now),
            killed: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            resp3: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            reads_replicas: AtomicBool::new(false),
            follows_redirects: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            queued: AtomicI64::new(-1),
            queued_bytes: AtomicUsize::new(0),
            watched_bytes: AtomicUsize::new(0),
            watches: OnceLock::new(),
            dirty: AtomicBool::new(false),
            prefix_bytes: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
            db: AtomicU8::new(0),
            input: AtomicUsize::new(0),
            output: AtomicUsize::new(0),
            last_command: AtomicPtr::new(std::ptr::null_mut()),
            outbox: Outbox::default(),
            soft_limit: SoftLimit::default(),
            subscriptions: Subscriptions::default(),
            monitors: AtomicBool::new(false),
            follows: AtomicBool::new(false),
            knows_limiters: AtomicBool::new(false),
            is_valkey: AtomicBool::new(false),
            takes_stream: AtomicBool::new(false),
            data_only: AtomicBool::new(false),
            part: AtomicU8::new(Part::All as u8),
            leads: AtomicBool::new(false),
            memcached: AtomicBool::new(false),
            tracked: Mutex::default(),
            delivery: Arc::clone(&self.delivery),
            texts: Mutex::new(Texts {
                user: DEFAULT_USER.into(),
                ..Texts::default()
            }),
        });
        lock(&self.map).insert(client.id, Arc::clone(&client));
        client.count();
        Some(client)
    }

    /// The client of that number, unless it is being killed.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Client>> {
        let client = lock(&self.map).get(&id).cloned();
        client.filter(|client| !client.is_killed())
    }

    pub(crate) fn close(&self, id: u64) {
        let client = lock(&self.map).remove(&id);
        if let Some(client) = client {
            self.open.fetch_sub(1, Ordering::Relaxed);
            client.kill();
            client.forget_count();
            client.outbox.close();
        }
    }

    /// What is due once a second: the end of clients that were above their soft limit for too long.
    pub(crate) fn check_times(&self) {
        if self.delivery.limits.take_above_soft() {
            self.all().iter().for_each(|client| client.check_time());
        }
    }

    /// Clients connected.
    pub(crate) fn count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections accepted since the start or the last reset, those refused for their number included.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// A connection was refused before it became a client.
    pub(crate) fn reject(&self) {
        self.received.fetch_add(1, Ordering::Relaxed);
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections refused: there were too many, or they came from elsewhere in protected mode.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    pub(crate) fn reset_stats(&self) {
        self.delivery.to_replicas.store(0, Ordering::Relaxed);
        self.received.store(0, Ordering::Relaxed);
        self.rejected.store(0, Ordering::Relaxed);
        self.delivery.limits.reset();
        self.delivery.budget.reset();
    }

    /// Every client that is not being killed, by id.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        lock(&self.map)
            .values()
            .filter(|client| !client.is_killed())
            .cloned()
            .collect()
    }

    /// Kills the clients that `which` selects; returns them for the signal to be posted.
    pub(crate) fn kill(&self, which: impl Fn(&Client) -> bool) -> Vec<Arc<Client>> {
        let mut clients = self.all();
        clients.retain(|client| which(client) && client.kill());
        clients
    }
}
