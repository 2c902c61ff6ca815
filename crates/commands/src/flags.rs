//! Command flags and ACL categories: two small bit sets and the rule that joins them.

use std::ops::BitOr;

/// What a command does, as COMMAND INFO reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(u32);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// May change data.
    pub const WRITE: Flags = Flags(1);
    /// Reads data and never changes it.
    pub const READONLY: Flags = Flags(1 << 1);
    /// Refused when memory is above the limit.
    pub const DENYOOM: Flags = Flags(1 << 2);
    /// Administration of the server.
    pub const ADMIN: Flags = Flags(1 << 3);
    /// Not allowed from scripts.
    pub const NOSCRIPT: Flags = Flags(1 << 4);
    /// Allowed while the data set is loading.
    pub const LOADING: Flags = Flags(1 << 5);
    /// Allowed on a replica whose data is stale.
    pub const STALE: Flags = Flags(1 << 6);
    /// Not shown to monitors.
    pub const SKIP_MONITOR: Flags = Flags(1 << 7);
    /// Constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 8);
    /// Allowed before authentication.
    pub const NO_AUTH: Flags = Flags(1 << 9);
    /// Keys may be absent from the arguments altogether.
    pub const NO_MANDATORY_KEYS: Flags = Flags(1 << 10);
    /// Not allowed inside a transaction.
    pub const NO_MULTI: Flags = Flags(1 << 11);
    /// Key positions depend on the arguments.
    pub const MOVABLE_KEYS: Flags = Flags(1 << 12);
    /// Allowed while a script keeps the server busy.
    pub const ALLOW_BUSY: Flags = Flags(1 << 13);
    /// Runs on a slot that is being moved here, as after ASKING.
    pub const ASKING: Flags = Flags(1 << 16);
    /// About channels and messages.
    pub const PUBSUB: Flags = Flags(1 << 20);
    /// Changes no data but is passed on to replicas, so it counts as a write where those are concerned.
    pub const MAY_REPLICATE: Flags = Flags(1 << 21);
    /// Refused while a replica loads a data set beside the one it serves.
    pub const NO_ASYNC_LOADING: Flags = Flags(1 << 22);

    /// The work grows with the values of several keys, or with the whole of one, or faster. COMMAND INFO does not show it.
    pub const BULKY: Flags = Flags(1 << 23);

    /// Left out of the slow log.
    pub const SKIP_SLOWLOG: Flags = Flags(1 << 15);
    /// May wait for data.
    pub const BLOCKING: Flags = Flags(1 << 14);

    /// Flags with their names, in the order in which COMMAND INFO lists them.
    pub(crate) const NAMES: &'static [(Flags, &'static str)] = &[
        (Flags::WRITE, "write"),
        (Flags::READONLY, "readonly"),
        (Flags::DENYOOM, "denyoom"),
        (Flags::ADMIN, "admin"),
        (Flags::PUBSUB, "pubsub"),
        (Flags::NOSCRIPT, "noscript"),
        (Flags::BLOCKING, "blocking"),
        (Flags::LOADING, "loading"),
        (Flags::STALE, "stale"),
        (Flags::SKIP_MONITOR, "skip_monitor"),
        (Flags::SKIP_SLOWLOG, "skip_slowlog"),
        (Flags::FAST, "fast"),
        (Flags::NO_AUTH, "no_auth"),
        (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (Flags::NO_ASYNC_LOADING, "no_async_loading"),
        (Flags::NO_MULTI, "no_multi"),
        (Flags::ASKING, "asking"),
        (Flags::MOVABLE_KEYS, "movablekeys"),
        (Flags::ALLOW_BUSY, "allow_busy"),
    ];

    /// Both sets together.
    pub const fn or(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// What both have.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }

    /// What `other` does not have.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// True when every flag of `other` is set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// True when any flag of `other` is set.
    #[inline]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        self.or(other)
    }
}

/// ACL categories of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acl(u32);

impl Acl {
    /// No category of its own; the implied ones still apply.
    pub const NONE: Acl = Acl(0);
    /// Keys as such, whatever their type.
    pub const KEYSPACE: Acl = Acl(1);
    /// Reads data.
    pub const READ: Acl = Acl(1 << 1);
    /// Changes data.
    pub const WRITE: Acl = Acl(1 << 2);
    /// Strings.
    pub const STRING: Acl = Acl(1 << 3);
    /// Administration.
    pub const ADMIN: Acl = Acl(1 << 4);
    /// Constant or logarithmic time.
    pub const FAST: Acl = Acl(1 << 5);
    /// Everything that is not fast.
    pub const SLOW: Acl = Acl(1 << 6);
    /// Can hurt the whole server.
    pub const DANGEROUS: Acl = Acl(1 << 7);
    /// The client's own connection.
    pub const CONNECTION: Acl = Acl(1 << 8);
    /// Scripts.
    pub const SCRIPTING: Acl = Acl(1 << 9);
    /// Rate limiters.
    pub const RATELIMIT: Acl = Acl(1 << 10);
    /// Sets.
    pub const SET: Acl = Acl(1 << 11);
    /// Sorted sets.
    pub const SORTED_SET: Acl = Acl(1 << 12);
    /// Lists.
    pub const LIST: Acl = Acl(1 << 13);
    /// Hashes.
    pub const HASH: Acl = Acl(1 << 14);
    /// Bits of strings.
    pub const BITMAP: Acl = Acl(1 << 15);
    /// HyperLogLog.
    pub const HYPERLOGLOG: Acl = Acl(1 << 16);
    /// Positions on Earth.
    pub const GEO: Acl = Acl(1 << 17);
    /// Streams.
    pub const STREAM: Acl = Acl(1 << 18);
    /// Channels.
    pub const PUBSUB: Acl = Acl(1 << 19);
    /// May make the client wait.
    pub const BLOCKING: Acl = Acl(1 << 20);
    /// MULTI and its relatives.
    pub const TRANSACTION: Acl = Acl(1 << 21);

    /// Categories with their names, in the order in which COMMAND INFO lists them.
    pub(crate) const NAMES: &'static [(Acl, &'static str)] = &[
        (Acl::KEYSPACE, "keyspace"),
        (Acl::READ, "read"),
        (Acl::WRITE, "write"),
        (Acl::SET, "set"),
        (Acl::SORTED_SET, "sortedset"),
        (Acl::LIST, "list"),
        (Acl::HASH, "hash"),
        (Acl::STRING, "string"),
        (Acl::BITMAP, "bitmap"),
        (Acl::HYPERLOGLOG, "hyperloglog"),
        (Acl::GEO, "geo"),
        (Acl::STREAM, "stream"),
        (Acl::PUBSUB, "pubsub"),
        (Acl::ADMIN, "admin"),
        (Acl::FAST, "fast"),
        (Acl::SLOW, "slow"),
        (Acl::BLOCKING, "blocking"),
        (Acl::DANGEROUS, "dangerous"),
        (Acl::CONNECTION, "connection"),
        (Acl::TRANSACTION, "transaction"),
        (Acl::SCRIPTING, "scripting"),
        (Acl::RATELIMIT, "ratelimit"),
    ];

    /// Both sets together.
    pub const fn or(self, other: Acl) -> Acl {
        Acl(self.0 | other.0)
    }

    /// True when every category of `other` is set.
    pub const fn contains(self, other: Acl) -> bool {
        self.0 & other.0 == other.0
    }

    /// The category of that name (any case), if there is one.
    pub fn by_name(name: &[u8]) -> Option<Acl> {
        let found = Acl::NAMES
            .iter()
            .find(|(_, n)| n.as_bytes().eq_ignore_ascii_case(name))?;
        Some(found.0)
    }

    /// The categories that follow from the flags: rows name only what flags do not say.
    pub(crate) const fn implied(self, flags: Flags) -> Acl {
        let mut all = self;
        if flags.contains(Flags::WRITE) {
            all = all.or(Acl::WRITE);
        }
        if flags.contains(Flags::READONLY) && !self.contains(Acl::SCRIPTING) {
            all = all.or(Acl::READ);
        }
        if flags.contains(Flags::PUBSUB) {
            all = all.or(Acl::PUBSUB);
        }
        if flags.contains(Flags::ADMIN) {
            all = all.or(Acl::ADMIN).or(Acl::DANGEROUS);
        }
        if flags.contains(Flags::BLOCKING) {
            all = all.or(Acl::BLOCKING);
        }
        all.or(if flags.contains(Flags::FAST) {
            Acl::FAST
        } else {
            Acl::SLOW
        })
    }
}

impl BitOr for Acl {
    type Output = Acl;
    fn bitor(self, other: Acl) -> Acl {
        self.or(other)
    }
}
