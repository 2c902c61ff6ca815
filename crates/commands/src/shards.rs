//! The shards that a command may touch.

use tollgate_keyspace::{DbIndex, Key, Shard};

/// Shards held together by whoever runs the command.
pub trait LockedShards {
    /// The shard `index`.
    ///
    /// # Panics
    ///
    /// When it is not held.
    fn shard(&mut self, index: usize) -> &mut Shard;

    /// The shard `index`, to look at beside others.
    ///
    /// # Panics
    ///
    /// When it is not held.
    fn look(&self, index: usize) -> &Shard;

    /// Units of a limiter that threads have taken in advance; see [`ShardSet::leased`].
    fn leased(&self, index: usize, db: DbIndex, key: &[u8]) -> u64 {
        let _ = (index, db, key);
        0
    }
}

/// The locked shards of one command, found by key.
pub struct ShardSet<'a> {
    /// Shards in the whole keyspace; a power of two.
    count: usize,
    locked: Locked<'a>,
}

enum Locked<'a> {
    None,
    /// The fast path: all keys of the command live here.
    One(usize, &'a mut Shard),
    Many(&'a mut dyn LockedShards),
}

impl<'a> ShardSet<'a> {
    /// No shard is locked: for commands without keys.
    #[inline]
    pub fn none(count: usize) -> ShardSet<'a> {
        ShardSet {
            count,
            locked: Locked::None,
        }
    }

    /// The shard `index` of `count`.
    #[inline]
    pub fn one(index: usize, shard: &'a mut Shard, count: usize) -> ShardSet<'a> {
        ShardSet {
            count,
            locked: Locked::One(index, shard),
        }
    }

    /// Several shards of `count`.
    #[inline]
    pub fn many(held: &'a mut dyn LockedShards, count: usize) -> ShardSet<'a> {
        ShardSet {
            count,
            locked: Locked::Many(held),
        }
    }

    /// Shards in the whole keyspace.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The shard of `key`.
    ///
    /// # Panics
    ///
    /// When the shard of the key is not locked: the caller locks the shards of all keys that the
    /// row's key spec names, and a handler uses no other key.
    #[inline]
    pub fn of(&mut self, key: Key<'_>) -> &mut Shard {
        let wanted = key.shard(self.count);
        match &mut self.locked {
            Locked::One(index, shard) => {
                assert!(
                    *index == wanted,
                    "a handler used a key outside its key spec"
                );
                shard
            }
            Locked::Many(held) => held.shard(wanted),
            Locked::None => unreachable!("a command with keys has their shards locked"),
        }
    }
}

impl ShardSet<'_> {
    /// The shard of `key`, to look at beside others.
    ///
    /// # Panics
    ///
    /// As [`ShardSet::of`].
    pub fn look(&self, key: Key<'_>) -> &Shard {
        let wanted = key.shard(self.count);
        match &self.locked {
            Locked::One(index, shard) => {
                assert!(
                    *index == wanted,
                    "a handler used a key outside its key spec"
                );
                shard
            }
            Locked::Many(held) => held.look(wanted),
            Locked::None => unreachable!("a command with keys has their shards locked"),
        }
    }
}

impl ShardSet<'_> {
    /// Units of a limiter that threads of this process have taken in advance and not accounted for yet: so many of what
    /// its state counts as taken may not have been spent.
    pub fn leased(&self, db: DbIndex, key: Key<'_>) -> u64 {
        match &self.locked {
            Locked::Many(held) => held.leased(key.shard(self.count), db, key.bytes()),
            Locked::One(..) | Locked::None => 0,
        }
    }
}

/// Access to the whole keyspace, one shard at a time or all at once.
pub trait Walk {
    /// Shards in the whole keyspace; a power of two.
    fn shard_count(&self) -> usize;

    /// Runs `f` on shard `index` while it is locked; no other shard is.
    fn with_shard(&mut self, index: usize, f: &mut dyn FnMut(&mut Shard));

    /// Locks every shard, then runs `f` on each in order of its index: for what must be atomic
    /// over the whole keyspace.
    fn with_all(&mut self, f: &mut dyn FnMut(usize, &mut Shard));

    /// The node of a cluster whose keyspace it is, if there is one.
    fn cluster(&self) -> Option<&dyn ClusterNode> {
        None
    }
}

/// What a walk over the keys of a cluster asks of its node.
pub trait ClusterNode {
    /// Tells cursors of this keyspace from those of any other; not 0.
    fn fingerprint(&self) -> u64;

    /// The last slot that is served without a gap from `slot` on, which is served.
    fn served_to(&self, slot: u16) -> u16;
}
