//! The keys of a call, hashed, and the shards that they are in.

use smallvec::SmallVec;
use tollgate_commands::{CmdError, Row, keys_of};
use tollgate_keyspace::Key;

use crate::Engine;

/// Keys of a call that are handled without allocation.
const INLINE_KEYS: usize = 16;

/// Shard numbers, ascending, each once.
pub(crate) type ShardList = SmallVec<[usize; INLINE_KEYS]>;

impl Engine {
    /// The keys of a call, hashed, in the order of their words.
    pub(crate) fn keys_in<'a>(
        &self,
        row: &Row,
        args: &[&'a [u8]],
    ) -> Result<SmallVec<[Key<'a>; INLINE_KEYS]>, CmdError> {
        let keys = keys_of(row, args)?;
        Ok(keys
            .iter()
            .map(|&at| self.seed.key(args[at as usize]))
            .collect())
    }

    /// The shards of keys.
    pub(crate) fn shards_of_keys(&self, keys: &[Key<'_>]) -> ShardList {
        let count = self.shards.count();
        let mut wanted: ShardList = keys.iter().map(|key| key.shard(count)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// The shards of the keys of a call.
    pub(crate) fn shards_of(&self, row: &Row, args: &[&[u8]]) -> Result<ShardList, CmdError> {
        Ok(self.shards_of_keys(&self.keys_in(row, args)?))
    }
}
