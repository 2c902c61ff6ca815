//! Who listens to what, and delivering messages to them.
//!
//! A channel lives in one of several locked parts. Its lock is held while a message is queued for its subscribers, so
//! all of them see the messages of a channel in the same order. Queueing takes no other lock but the receiver's own,
//! so publishing is allowed while shards are locked. Without subscriptions it costs one load.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tollgate_commands::{CmdError, PubSubCommand, Reply};
use tollgate_containers::glob;
use tollgate_keyspace::Seed;
use tollgate_wire::resp::ReplyBuf;

use crate::subscriber::{Message, Place, Subscriber};

/// Parts of the channels that are locked by themselves; a power of two.
const PARTS: usize = 64;

/// Who listens, by number of the connection.
type Listeners = BTreeMap<u64, Arc<dyn Subscriber>>;

/// What a subscription names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A channel of a shard. There is one shard, and its channels are not those of [`Topic::Channel`].
    ShardChannel,
}

/// The subscriptions of all connections.
pub struct PubSub {
    channels: Channels,
    shard_channels: Channels,
    patterns: RwLock<BTreeMap<Box<[u8]>, Listeners>>,
    pattern_count: AtomicUsize,
}

/// Channels by name.
type Part = HashMap<Box<[u8]>, Listeners>;

/// Channels that somebody listens to.
struct Channels {
    parts: Box<[Mutex<Part>]>,
    seed: Seed,
    count: AtomicUsize,
}

impl Channels {
    fn new(seed: &Seed) -> Channels {
        Channels {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            seed: seed.clone(),
            count: AtomicUsize::new(0),
        }
    }

    fn part(&self, name: &[u8]) -> MutexGuard<'_, Part> {
        let part = self.seed.hash(name) as usize & (PARTS - 1);
        lock(&self.parts[part])
    }

    fn add(&self, name: &[u8], who: Arc<dyn Subscriber>) {
        let mut part = self.part(name);
        if let Some(listeners) = part.get_mut(name) {
            listeners.insert(who.id(), who);
        } else {
            part.insert(name.into(), Listeners::from([(who.id(), who)]));
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn remove(&self, name: &[u8], id: u64) {
        let mut part = self.part(name);
        if let Some(listeners) = part.get_mut(name)
            && listeners.remove(&id).is_some()
            && listeners.is_empty()
        {
            part.remove(name);
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn publish(&self, kind: &[u8], name: &[u8], payload: &[u8]) -> usize {
        if self.count.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let part = self.part(name);
        let Some(listeners) = part.get(name) else {
            return 0;
        };
        let message = Message::new(|out| {
            out.push(3);
            out.bulk(kind);
            out.bulk(name);
            out.bulk(payload);
        });
        for listener in listeners.values() {
            message.send(&**listener, Place::BeforeReply);
        }
        open(listeners)
    }

    fn listeners(&self, name: &[u8]) -> usize {
        self.part(name).get(name).map_or(0, open)
    }

    /// The names that match.
    fn names(&self, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let mut names = Vec::new();
        for part in &self.parts {
            let part = lock(part);
            let matching = part.iter().filter(|(name, listeners)| {
                pattern.is_none_or(|pattern| glob::matches(pattern, name, false))
                    && open(listeners) > 0
            });
            names.extend(matching.map(|(name, _)| name.clone()));
        }
        names
    }
}

/// How many still listen: one that is killed or leaves is gone for everyone, though its thread has yet to see to it.
fn open(listeners: &Listeners) -> usize {
    let open = listeners.values().filter(|listener| listener.is_open());
    open.count()
}

impl PubSub {
    pub(crate) fn new(seed: &Seed) -> PubSub {
        PubSub {
            channels: Channels::new(seed),
            shard_channels: Channels::new(seed),
            patterns: RwLock::default(),
            pattern_count: AtomicUsize::new(0),
        }
    }

    /// Adds a subscription. Doing so again changes nothing.
    pub fn subscribe(&self, topic: Topic, name: &[u8], who: Arc<dyn Subscriber>) {
        match topic {
            Topic::Channel => self.channels.add(name, who),
            Topic::ShardChannel => self.shard_channels.add(name, who),
            Topic::Pattern => {
                let mut patterns = write(&self.patterns);
                patterns
                    .entry(name.into())
                    .or_default()
                    .insert(who.id(), who);
                self.pattern_count.store(patterns.len(), Ordering::SeqCst);
            }
        }
    }

    /// Removes a subscription of the connection `id`, if it has it.
    pub fn unsubscribe(&self, topic: Topic, name: &[u8], id: u64) {
        match topic {
            Topic::Channel => self.channels.remove(name, id),
            Topic::ShardChannel => self.shard_channels.remove(name, id),
            Topic::Pattern => {
                let mut patterns = write(&self.patterns);
                if let Some(listeners) = patterns.get_mut(name) {
                    listeners.remove(&id);
                    if listeners.is_empty() {
                        patterns.remove(name);
                    }
                }
                self.pattern_count.store(patterns.len(), Ordering::SeqCst);
            }
        }
    }

    /// Channels, patterns and shard channels that somebody listens to.
    pub fn counts(&self) -> (usize, usize, usize) {
        (
            self.channels.count.load(Ordering::Relaxed),
            self.pattern_count.load(Ordering::Relaxed),
            self.shard_channels.count.load(Ordering::Relaxed),
        )
    }

    /// Sends a message to a channel and the patterns that match it; returns how many subscriptions it reached.
    pub fn publish(&self, channel: &[u8], payload: &[u8]) -> usize {
        let reached = self.channels.publish(b"message", channel, payload);
        if self.pattern_count.load(Ordering::SeqCst) == 0 {
            return reached;
        }
        reached + self.publish_to_patterns(channel, payload)
    }

    fn publish_to_patterns(&self, channel: &[u8], payload: &[u8]) -> usize {
        let patterns = self.patterns.read().unwrap_or_else(PoisonError::into_inner);
        let mut reached = 0;
        for (pattern, listeners) in &*patterns {
            if !glob::matches(pattern, channel, false) {
                continue;
            }
            let message = Message::new(|out: &mut ReplyBuf| {
                out.push(4);
                out.bulk(b"pmessage");
                out.bulk(pattern);
                out.bulk(channel);
                out.bulk(payload);
            });
            for listener in listeners.values() {
                message.send(&**listener, Place::BeforeReply);
            }
            reached += open(listeners);
        }
        reached
    }

    /// Sends a message to a shard channel; returns how many subscriptions it reached.
    pub(crate) fn publish_to_shard(&self, channel: &[u8], payload: &[u8]) -> usize {
        self.shard_channels.publish(b"smessage", channel, payload)
    }

    /// Runs one of the commands that publish or look; `words` is the whole call.
    pub(crate) fn run(
        &self,
        command: PubSubCommand,
        words: &[&[u8]],
        out: &mut ReplyBuf,
    ) -> Result<Reply, CmdError> {
        match command {
            PubSubCommand::Publish => Ok(Reply::count(self.publish(words[1], words[2]))),
            PubSubCommand::SPublish => Ok(Reply::count(self.publish_to_shard(words[1], words[2]))),
            PubSubCommand::NumPat => Ok(Reply::count(self.pattern_count.load(Ordering::SeqCst))),
            PubSubCommand::Channels => names(&self.channels, words, out),
            PubSubCommand::ShardChannels => names(&self.shard_channels, words, out),
            PubSubCommand::NumSub => Ok(numbers(&self.channels, words, out)),
            PubSubCommand::ShardNumSub => Ok(numbers(&self.shard_channels, words, out)),
        }
    }
}

fn names(channels: &Channels, words: &[&[u8]], out: &mut ReplyBuf) -> Result<Reply, CmdError> {
    if words.len() > 3 {
        return Err(CmdError::subcommand_syntax(words));
    }
    let names = channels.names(words.get(2).copied());
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name));
    Ok(Reply::Written)
}

fn numbers(channels: &Channels, words: &[&[u8]], out: &mut ReplyBuf) -> Reply {
    let asked = &words[2..];
    out.array(2 * asked.len());
    for name in asked {
        out.bulk(name);
        out.int(channels.listeners(name) as i64);
    }
    Reply::Written
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Subscriptions are added and removed whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::resp::Protocol;

    #[derive(Debug)]
    struct Listener {
        id: u64,
        protocol: Protocol,
        heard: Mutex<Vec<String>>,
    }

    impl Subscriber for Listener {
        fn id(&self) -> u64 {
            self.id
        }
        fn protocol(&self) -> Protocol {
            self.protocol
        }
        fn subscribed(&self) -> bool {
            true
        }
        fn is_open(&self) -> bool {
            true
        }
        fn deliver(&self, message: &Arc<[u8]>, _: Place) {
            lock(&self.heard).push(String::from_utf8_lossy(message).into_owned());
        }
    }

    fn listener(id: u64, protocol: Protocol) -> Arc<Listener> {
        Arc::new(Listener {
            id,
            protocol,
            heard: Mutex::default(),
        })
    }

    #[test]
    fn messages_reach_channels_then_patterns_in_the_protocol_of_each() {
        let pubsub = PubSub::new(&Seed::new(1));
        let (two, three) = (listener(2, Protocol::Resp2), listener(3, Protocol::Resp3));
        assert_eq!(pubsub.publish(b"news", b"x"), 0);
        pubsub.subscribe(Topic::Channel, b"news", two.clone());
        pubsub.subscribe(Topic::Channel, b"news", two.clone());
        pubsub.subscribe(Topic::Pattern, b"n*", two.clone());
        pubsub.subscribe(Topic::Pattern, b"m*", two.clone());
        pubsub.subscribe(Topic::Channel, b"news", three.clone());
        pubsub.subscribe(Topic::ShardChannel, b"news", three.clone());
        assert_eq!(pubsub.counts(), (1, 2, 1));
        assert_eq!(pubsub.publish(b"news", b"x"), 3);
        assert_eq!(pubsub.publish_to_shard(b"news", b"y"), 1);
        assert_eq!(
            *lock(&two.heard),
            [
                "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n",
                "*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$1\r\nx\r\n"
            ]
        );
        assert_eq!(
            *lock(&three.heard),
            [
                ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n",
                ">3\r\n$8\r\nsmessage\r\n$4\r\nnews\r\n$1\r\ny\r\n"
            ]
        );
    }

    #[test]
    fn what_nobody_listens_to_any_more_is_forgotten() {
        let pubsub = PubSub::new(&Seed::new(1));
        let (one, two) = (listener(1, Protocol::Resp2), listener(2, Protocol::Resp2));
        for topic in [Topic::Channel, Topic::Pattern, Topic::ShardChannel] {
            pubsub.subscribe(topic, b"a", one.clone());
            pubsub.subscribe(topic, b"a", two.clone());
            pubsub.unsubscribe(topic, b"a", 1);
            pubsub.unsubscribe(topic, b"a", 1);
            pubsub.unsubscribe(topic, b"b", 2);
        }
        assert_eq!(pubsub.counts(), (1, 1, 1));
        for topic in [Topic::Channel, Topic::Pattern, Topic::ShardChannel] {
            pubsub.unsubscribe(topic, b"a", 2);
        }
        assert_eq!(pubsub.counts(), (0, 0, 0));
    }
}
