//! Limits and thresholds of the store that can change while it runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use tollgate_keyspace::{Access, DATABASES, DbIndex};

use crate::{CmdError, Names};

/// Declares the limits: field, name in the configuration, default.
macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $field:ident = $name:literal, $default:expr;)*) => {
        /// What handlers must keep to. The values are shared by all threads, and CONFIG SET changes them.
        #[derive(Debug)]
        pub struct StoreLimits {
            $($field: AtomicI64,)*
            names: OnceLock<Names>,
        }

        impl Default for StoreLimits {
            fn default() -> StoreLimits {
                StoreLimits {
                    $($field: AtomicI64::new($default),)*
                    names: OnceLock::new(),
                }
            }
        }

        impl StoreLimits {
            /// Gives commands other names, before anybody is served. The first to do so stays.
            pub fn set_names(&self, names: Names) {
                if !names.are_own() {
                    self.names.get_or_init(|| names);
                }
            }

            /// What commands answer to; `None`: each has its own name.
            #[inline]
            pub fn names(&self) -> Option<&Names> {
                self.names.get()
            }

            /// Names in the configuration.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            $($(#[doc = $doc])+
            #[inline]
            pub fn $field(&self) -> i64 {
                self.$field.load(Ordering::Relaxed)
            })*

            /// Sets the limit of that name in the configuration; false when there is none.
            pub fn set(&self, name: &str, value: i64) -> bool {
                match name {
                    $($name => self.$field.store(value, Ordering::Relaxed),)*
                    _ => return false,
                }
                true
            }
        }
    };
}

limits! {
    /// Longest string, in bytes.
    proto_max_bulk_len = "proto-max-bulk-len", 512 << 20;
    /// Most elements of a list node when positive, its size class (-1 = 4 KiB to -5 = 64 KiB) when negative.
    list_max_listpack_size = "list-max-listpack-size", -2;
    /// Nodes at each end of a list that stay uncompressed; 0 = no compression.
    list_compress_depth = "list-compress-depth", 0;
    /// Most fields of a compact hash.
    hash_max_listpack_entries = "hash-max-listpack-entries", 512;
    /// Longest field or value of a compact hash, in bytes.
    hash_max_listpack_value = "hash-max-listpack-value", 64;
    /// Most members of a set kept as sorted integers.
    set_max_intset_entries = "set-max-intset-entries", 512;
    /// Most members of a compact sorted set.
    zset_max_listpack_entries = "zset-max-listpack-entries", 128;
    /// Longest member of a compact sorted set, in bytes.
    zset_max_listpack_value = "zset-max-listpack-value", 64;
    /// Largest node of a stream, in bytes; 0 = no limit.
    stream_node_max_bytes = "stream-node-max-bytes", 4096;
    /// Most entries of a node of a stream; 0 = no limit.
    stream_node_max_entries = "stream-node-max-entries", 100;
    /// Seconds for which a new stream remembers the IDs of its producers.
    stream_idmp_duration = "stream-idmp-duration", 100;
    /// Most IDs of a producer that a new stream remembers.
    stream_idmp_maxsize = "stream-idmp-maxsize", 100;
    /// Largest sparse HyperLogLog, in bytes.
    hll_sparse_max_bytes = "hll-sparse-max-bytes", 3000;
    /// Most bytes that the data may take; 0 = no limit.
    maxmemory = "maxmemory", 0;
    /// The number of the policy in [`Policy::ALL`].
    maxmemory_policy = "maxmemory-policy", Policy::NoEviction as i64;
    /// Entries that are compared before one goes.
    maxmemory_samples = "maxmemory-samples", 5;
    /// For how long entries go before one command, 0 to 100.
    maxmemory_eviction_tenacity = "maxmemory-eviction-tenacity", 10;
    /// How hard it is to raise a high count of uses.
    lfu_log_factor = "lfu-log-factor", 10;
    /// Minutes without use after which a count of uses falls by one; 0 = never.
    lfu_decay_time = "lfu-decay-time", 1;
    /// The number of the form in [`IncrexForm::ALL`].
    increx_form = "increx-form", IncrexForm::Redis as i64;
    /// 1: decisions of limiters are counted for RL.TOP.
    limiter_top = "limiter-top", 1;
    /// Databases that clients may use, from the first.
    databases = "databases", DATABASES as i64;
    /// 1: the server is a node of a cluster.
    in_cluster = "cluster-enabled", 0;
    /// 1: strings are compressed in RDB files and payloads.
    rdb_compression = "rdbcompression", 1;
    /// 1: RDB files have a checksum, which is looked at.
    rdb_checksum = "rdbchecksum", 1;
    /// 1: checksums of payloads and files are passed over, by DEBUG SET-SKIP-CHECKSUM-VALIDATION and no setting.
    skips_checksums = "skip-checksum-validation", 0;
    /// Microseconds to wait for each key of a snapshot, for tests; when negative, keys for each microsecond.
    rdb_key_save_delay = "rdb-key-save-delay", 0;
    /// The same for each key of a snapshot that is read.
    key_load_delay = "key-load-delay", 0;
}

/// Whose INCREX is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncrexForm {
    /// That of Redis 8.8.
    Redis,
    /// That of Valkey 9.2, which also takes NX and XX.
    Valkey,
}

impl IncrexForm {
    /// The names in the configuration, by number.
    pub const ALL: &'static [&'static str] = &["redis", "valkey"];

    /// The number of the form of that name (any case).
    pub fn number(name: &str) -> Option<i64> {
        let known = IncrexForm::ALL
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))?;
        Some(known as i64)
    }
}

/// What goes when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the policy of that name")]
pub enum Policy {
    VolatileLru,
    VolatileLfu,
    VolatileRandom,
    VolatileTtl,
    VolatileLrm,
    AllKeysLru,
    AllKeysLfu,
    AllKeysRandom,
    AllKeysLrm,
    NoEviction,
}

impl Policy {
    /// All policies with their names in the configuration, by number.
    pub const ALL: &'static [(Policy, &'static str)] = &[
        (Policy::VolatileLru, "volatile-lru"),
        (Policy::VolatileLfu, "volatile-lfu"),
        (Policy::VolatileRandom, "volatile-random"),
        (Policy::VolatileTtl, "volatile-ttl"),
        (Policy::VolatileLrm, "volatile-lrm"),
        (Policy::AllKeysLru, "allkeys-lru"),
        (Policy::AllKeysLfu, "allkeys-lfu"),
        (Policy::AllKeysRandom, "allkeys-random"),
        (Policy::AllKeysLrm, "allkeys-lrm"),
        (Policy::NoEviction, "noeviction"),
    ];

    /// The policy of that name (any case).
    pub fn by_name(name: &str) -> Option<Policy> {
        let known = Policy::ALL
            .iter()
            .find(|(_, known)| known.eq_ignore_ascii_case(name))?;
        Some(known.0)
    }

    /// Only keys with an expiry go.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            Policy::VolatileLru
                | Policy::VolatileLfu
                | Policy::VolatileLrm
                | Policy::VolatileRandom
                | Policy::VolatileTtl
        )
    }

    /// Uses are counted; under the other policies their times are kept.
    pub(crate) fn counts_uses(self) -> bool {
        matches!(self, Policy::VolatileLfu | Policy::AllKeysLfu)
    }

    /// Only changes are uses: the least recently modified goes first.
    fn counts_changes(self) -> bool {
        matches!(self, Policy::VolatileLrm | Policy::AllKeysLrm)
    }

    /// What goes first is judged by the uses of each entry.
    pub(crate) fn orders_by_uses(self) -> bool {
        self.counts_uses()
            || self.counts_changes()
            || matches!(self, Policy::VolatileLru | Policy::AllKeysLru)
    }
}

impl StoreLimits {
    /// The database of that number.
    ///
    /// # Errors
    ///
    /// Clients may not use it, or there is none.
    pub fn database(&self, number: i32) -> Result<DbIndex, CmdError> {
        let index = usize::try_from(number).ok().and_then(DbIndex::new);
        index
            .filter(|_| i64::from(number) < self.databases())
            .ok_or(CmdError::DbOutOfRange)
    }

    /// What goes when memory is short.
    pub fn policy(&self) -> Policy {
        let number = usize::try_from(self.maxmemory_policy()).ok();
        number
            .and_then(|number| Policy::ALL.get(number))
            .map_or(Policy::NoEviction, |(policy, _)| *policy)
    }

    /// Whose INCREX is spoken; changes with CONFIG SET.
    pub fn increx(&self) -> IncrexForm {
        if self.increx_form() == IncrexForm::Valkey as i64 {
            IncrexForm::Valkey
        } else {
            IncrexForm::Redis
        }
    }

    /// What is recorded of uses.
    pub fn access(&self) -> Access {
        let policy = self.policy();
        if policy.counts_changes() {
            return Access::ChangeTime;
        }
        if !policy.counts_uses() {
            return Access::Time;
        }
        Access::Frequency {
            log_factor: u32::try_from(self.lfu_log_factor()).unwrap_or(u32::MAX),
            decay_minutes: u32::try_from(self.lfu_decay_time()).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_the_numbers_of_their_rows() {
        for (number, (policy, name)) in Policy::ALL.iter().enumerate() {
            assert_eq!(*policy as usize, number);
            assert_eq!(Policy::by_name(name), Some(*policy));
        }
    }

    #[test]
    fn limits_are_set_by_the_names_of_the_configuration() {
        let limits = StoreLimits::default();
        for name in StoreLimits::NAMES {
            assert!(limits.set(name, 7), "{name}");
        }
        assert_eq!(limits.hll_sparse_max_bytes(), 7);
        assert!(!limits.set("port", 7));
    }
}
