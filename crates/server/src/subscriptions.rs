//! What one connection has subscribed to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_engine::{PubSub, Topic};

/// Kinds of topics.
const TOPICS: [Topic; 3] = [Topic::Channel, Topic::Pattern, Topic::ShardChannel];

/// Bytes that a subscription costs beside twice its name: its entry here, and the one by which those who publish find it.
const SUBSCRIPTION_BYTES: usize = 64;

/// The subscriptions of a connection. Only its own thread changes them; all threads may count them.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    names: Mutex<[BTreeSet<Box<[u8]>>; 3]>,
    counts: [AtomicUsize; 3],
    /// What they cost.
    bytes: AtomicUsize,
}

/// What a subscription costs, about.
fn bytes_of(name: &[u8]) -> usize {
    SUBSCRIPTION_BYTES + 2 * name.len()
}

impl Subscriptions {
    fn lock(&self) -> MutexGuard<'_, [BTreeSet<Box<[u8]>>; 3]> {
        // Names are added and removed whole.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscription; false when it is there.
    pub(crate) fn add(&self, topic: Topic, name: &[u8]) -> bool {
        let added = self.lock()[topic as usize].insert(name.into());
        if added {
            self.counts[topic as usize].fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(bytes_of(name), Ordering::Relaxed);
        }
        added
    }

    /// Removes a subscription; false when it is not there.
    pub(crate) fn remove(&self, topic: Topic, name: &[u8]) -> bool {
        let removed = self.lock()[topic as usize].remove(name);
        if removed {
            self.counts[topic as usize].fetch_sub(1, Ordering::Relaxed);
            self.bytes.fetch_sub(bytes_of(name), Ordering::Relaxed);
        }
        removed
    }

    /// Runs `f` if there is a subscription; none ends meanwhile.
    pub(crate) fn while_some(&self, f: impl FnOnce()) {
        let names = self.lock();
        if names.iter().any(|names| !names.is_empty()) {
            f();
        }
    }

    /// Bytes that they cost, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Everything of one kind.
    pub(crate) fn names(&self, topic: Topic) -> Vec<Box<[u8]>> {
        self.lock()[topic as usize].iter().cloned().collect()
    }

    /// Channels, patterns, shard channels.
    pub(crate) fn counts(&self) -> [usize; 3] {
        self.counts
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }

    /// Whether there is one that `allowed` (name, is it a pattern) does not allow.
    pub(crate) fn go_beyond(&self, allowed: &dyn Fn(&[u8], bool) -> bool) -> bool {
        TOPICS.into_iter().any(|topic| {
            let names = self.names(topic);
            let is_pattern = topic == Topic::Pattern;
            names.iter().any(|name| !allowed(name, is_pattern))
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counts
            .iter()
            .all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// What replies count: shard channels by themselves, channels and patterns together.
    pub(crate) fn counted_with(&self, topic: Topic) -> usize {
        let [channels, patterns, shard_channels] = self.counts();
        match topic {
            Topic::ShardChannel => shard_channels,
            Topic::Channel | Topic::Pattern => channels + patterns,
        }
    }

    /// Ends all subscriptions of the connection `id`.
    pub(crate) fn clear(&self, registry: &PubSub, id: u64) {
        if self.is_empty() {
            return;
        }
        for topic in TOPICS {
            let names = std::mem::take(&mut self.lock()[topic as usize]);
            self.counts[topic as usize].store(0, Ordering::Relaxed);
            for name in names {
                registry.unsubscribe(topic, &name, id);
            }
        }
        self.bytes.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_subscription_does_not_end_while_somebody_relies_on_it() {
        let subscriptions = Subscriptions::default();
        let mut ran = false;
        subscriptions.while_some(|| ran = true);
        assert!(!ran, "there is none");
        subscriptions.add(Topic::Channel, b"c");
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let subscriptions = &subscriptions;
            subscriptions.while_some(|| {
                scope.spawn(move || {
                    assert!(subscriptions.remove(Topic::Channel, b"c"));
                    tell.send(()).expect("the test waits");
                });
                // Time enough for it to come to the lock.
                let ended = told.recv_timeout(Duration::from_millis(20));
                assert!(ended.is_err(), "it has not ended");
                ran = true;
            });
            told.recv().expect("it ends");
        });
        assert!(ran && subscriptions.is_empty());
    }
}
