//! Keys, their hashes and the databases they live in.

use std::hash::Hasher as _;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use smallvec::SmallVec;

use crate::bucket::CAPACITY;
#[cfg(doc)]
use crate::directory::NONE;

/// Number of databases.
pub const DATABASES: usize = 16;

/// Number of a database, below [`DATABASES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DbIndex(u8);

impl DbIndex {
    /// Database 0, where every connection begins.
    pub const ZERO: Self = Self(0);

    /// `None` if there is no such database.
    pub const fn new(index: usize) -> Option<Self> {
        if index < DATABASES {
            Some(Self(index as u8))
        } else {
            None
        }
    }

    /// The number, below [`DATABASES`].
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// All databases in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..DATABASES as u8).map(Self)
    }
}

/// The secret of a process' key hashes.
///
/// Every multiplier is derived from it: with public multipliers a client could choose key bytes that cancel one
/// and so make all its keys collide.
#[derive(Clone, Debug)]
pub struct Seed {
    start: u64,
    shared: SharedSeed,
}

impl Seed {
    /// A seed from 64 random bits; equal bits give equal hashes.
    pub fn new(bits: u64) -> Self {
        Self {
            start: bits.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15,
            shared: SharedSeed::from_u64(bits),
        }
    }

    /// The secret by which the indexes inside collections hash; it tells nothing about that of the keys.
    pub fn of_collections(&self) -> u64 {
        self.hash(b"collections")
    }

    /// Hashes a key once for everything that follows.
    // Always inlined: a key that is returned through memory is read back in other pieces than it was written, and the
    // processor waits for that.
    #[inline(always)]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        let hash = self.hash(bytes);
        let tagged = bytes.len() > SHORT || has_brace(bytes);
        let shard_hash = if tagged {
            self.shard_hash(bytes, hash)
        } else {
            hash
        };
        Key {
            bytes,
            hash,
            shard_hash,
            hint: Hint::NONE,
        }
    }

    /// The hash that picks the shard of a key that may have a tag.
    #[inline(never)]
    fn shard_hash(&self, bytes: &[u8], hash: u64) -> u64 {
        let tag = hash_tag(bytes);
        if tag.len() == bytes.len() {
            hash
        } else {
            self.hash(tag)
        }
    }

    /// The hash of any text by this secret.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.start, &self.shared);
        hasher.write(bytes);
        hasher.finish()
    }
}

/// The part of a key that picks its shard: between the first `{` and the next `}` if that is not empty, else all.
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    match memchr::memchr(b'{', key) {
        None => key,
        Some(open) => inner_tag(key, open),
    }
}

/// Keys up to this length are searched here: calling for a search costs more than it.
const SHORT: usize = 32;

/// Whether a key may have a tag: eight bytes at a time.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    const LOW: u64 = u64::MAX / 255;
    const HIGH: u64 = LOW << 7;
    // The high bit of each byte that is an opening brace, and perhaps of bytes behind one.
    let braces = |chunk: [u8; 8]| {
        let zero = u64::from_le_bytes(chunk) ^ (LOW * u64::from(b'{'));
        zero.wrapping_sub(LOW) & !zero & HIGH
    };
    match key.last_chunk() {
        None => key.contains(&b'{'),
        Some(last) => {
            let (chunks, _) = key.as_chunks();
            chunks
                .iter()
                .fold(braces(*last), |found, chunk| found | braces(*chunk))
                != 0
        }
    }
}

fn inner_tag(key: &[u8], open: usize) -> &[u8] {
    let rest = &key[open + 1..];
    match memchr::memchr(b'}', rest) {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

/// A key with its hashes.
///
/// One 64-bit hash serves three choices from separate bits: the bucket from the low 32, the shard from the 24
/// above, the tag within the bucket from the top 8. So the keys of one shard still spread over its buckets.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    bytes: &'a [u8],
    pub(crate) hash: u64,
    shard_hash: u64,
    /// Where the key's record was when somebody looked ahead.
    pub(crate) hint: Hint,
}

/// A place in a table where a record may be: bucket and index in it in one word, since a key is copied at every turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint(u64);

impl Hint {
    /// No place.
    pub(crate) const NONE: Self = Self(u64::MAX);

    #[inline]
    pub(crate) fn at(bucket: u32, index: usize) -> Self {
        debug_assert!(index < CAPACITY);
        Self(u64::from(bucket) << 8 | index as u64)
    }

    /// The bucket, [`NONE`] if there is none, and the index.
    #[inline]
    pub(crate) fn place(self) -> (u32, usize) {
        ((self.0 >> 8) as u32, (self.0 & 0xff) as usize)
    }
}

/// For each key the index of the first that is the same: its own where no key before it is. The time grows with the keys, not
/// with their pairs, whatever they are.
pub fn firsts(keys: &[Key<'_>]) -> SmallVec<[usize; 8]> {
    /// So few are compared faster than they are put in order.
    const FEW: usize = 8;
    let same = |one: usize, other: usize| {
        keys[one].hash == keys[other].hash && keys[one].bytes == keys[other].bytes
    };
    let mut firsts: SmallVec<[usize; 8]> = (0..keys.len()).collect();
    if keys.len() <= FEW {
        for at in 1..keys.len() {
            firsts[at] = (0..at).find(|&before| same(before, at)).unwrap_or(at);
        }
        return firsts;
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by_key(|&at| (keys[at].hash, at));
    for alike in order.chunk_by(|&one, &next| keys[one].hash == keys[next].hash) {
        // Nearly always one key; nobody knows how to make others.
        for (place, &at) in alike.iter().enumerate() {
            let first = alike[..place].iter().find(|&&before| same(before, at));
            firsts[at] = first.copied().unwrap_or(at);
        }
    }
    firsts
}

impl<'a> Key<'a> {
    /// Longest key in bytes. Protocol limits are far below it.
    pub const MAX_LEN: usize = u32::MAX as usize;
    /// Largest number of shards that [`Key::shard`] can tell apart.
    pub const MAX_SHARDS: usize = 1 << 24;

    /// The key's bytes.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The hash of the whole key, by a secret of this process.
    #[inline]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The shard that owns the key among `shard_count` (a power of two up to [`Key::MAX_SHARDS`]). Keys with the
    /// same hash tag share it.
    #[inline]
    pub const fn shard(&self, shard_count: usize) -> usize {
        debug_assert!(shard_count.is_power_of_two() && shard_count <= Self::MAX_SHARDS);
        (self.shard_hash >> 32) as usize & (shard_count - 1)
    }

    /// Whether a scan of the key's table that has come to `cursor` has passed the key's place: had the table not changed
    /// meanwhile, it would not meet the key again.
    pub const fn is_before(&self, cursor: u64) -> bool {
        (self.hash as u32 as u64) < cursor
    }

    /// The byte that stands for the key in its bucket; never 0, which marks a free place.
    #[inline]
    pub(crate) const fn tag(&self) -> u8 {
        tag_of(self.hash)
    }
}

#[inline]
const fn tag_of(hash: u64) -> u8 {
    let tag = (hash >> 56) as u8;
    if tag == 0 { 1 } else { tag }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_the_same_are_found() {
        let seed = Seed::new(7);
        for count in [0, 1, 2, 5, 8, 9, 100, 1_000] {
            for names in [1, 2, 7, 1_000] {
                let texts: Vec<String> = (0..count)
                    .map(|at| format!("key:{}", at * 31 % names))
                    .collect();
                let keys: Vec<Key<'_>> =
                    texts.iter().map(|text| seed.key(text.as_bytes())).collect();
                let wanted: Vec<usize> = texts
                    .iter()
                    .map(|text| {
                        texts
                            .iter()
                            .position(|other| other == text)
                            .expect("itself")
                    })
                    .collect();
                assert_eq!(firsts(&keys)[..], wanted[..], "{count} {names}");
            }
        }
        // Two that only look alike.
        let one = seed.key(b"one");
        let other = Key {
            bytes: b"other",
            ..one
        };
        let keys: Vec<Key<'_>> = (0..20)
            .map(|at| if at % 2 == 0 { one } else { other })
            .collect();
        let wanted: Vec<usize> = (0..20).map(|at| at % 2).collect();
        assert_eq!(firsts(&keys)[..], wanted[..]);
    }

    #[test]
    fn hash_tags_follow_the_cluster_rule() {
        for (key, tag) in [
            ("plain", "plain"),
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("a{b", "a{b"),
            ("a}b{c}", "c"),
            ("", ""),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }

    #[test]
    fn a_brace_is_found_wherever_it_is() {
        for len in 0..=2 * SHORT {
            let plain = vec![b'z'; len];
            assert!(hash_tag(&plain) == plain && !has_brace(&plain));
            for at in 0..len.saturating_sub(2) {
                let mut key = plain.clone();
                key[at] = b'{';
                key[at + 2] = b'}';
                assert_eq!(hash_tag(&key), b"z", "{at} of {len}");
                assert!(has_brace(&key), "{at} of {len}");
            }
        }
    }

    #[test]
    fn keys_with_one_tag_share_the_shard_but_not_the_hash() {
        let seed = Seed::new(7);
        let (a, b) = (seed.key(b"{t}a"), seed.key(b"x{t}b"));
        assert_eq!(a.shard(1024), b.shard(1024));
        assert_eq!(a.shard(1024), seed.key(b"t").shard(1024));
        assert_ne!(a.hash, b.hash);
    }

    #[test]
    fn a_client_cannot_cancel_a_multiplier() {
        // Last word equal to foldhash's public constant: with the fixed seeds every such key hashes alike.
        let public = 0xbe54_66cf_34e9_0c6c_u64;
        let seed = Seed::new(99);
        let hashes: std::collections::HashSet<u64> = (0..1000_u64)
            .map(|i| seed.hash(&[i.to_ne_bytes(), public.to_ne_bytes()].concat()))
            .collect();
        assert_eq!(hashes.len(), 1000);
    }

    #[test]
    fn shards_fill_evenly() {
        let seed = Seed::new(3);
        let mut counts = [0_u32; 64];
        for i in 0..64_000 {
            counts[seed.key(format!("key:{i}").as_bytes()).shard(64)] += 1;
        }
        assert!(
            counts.iter().all(|&n| (800..1200).contains(&n)),
            "{counts:?}"
        );
    }
}
