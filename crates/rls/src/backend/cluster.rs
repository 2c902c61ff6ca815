//! Keys of one decision on a Redis Cluster, whose scripts see only keys of one slot.
//!
//! The limits of one descriptor, and what a counter goes on from, share a slot: all that follows the algorithm in their keys is
//! their hash tag, unless a text of the descriptor brings one of its own (`{...}`), which then decides. Checks on other slots
//! are decided one slot after the other, and what was taken is given back when a later one denies.

use smallvec::SmallVec;

/// Slots of a cluster.
const SLOTS: u16 = 16_384;

/// The key as the cluster knows it.
pub(super) fn tagged(key: &[u8]) -> Vec<u8> {
    let mut out = key.to_vec();
    let Some(rest) = key.strip_prefix(b"rl:") else {
        return out;
    };
    if hash_tag(key).len() < key.len() {
        return out;
    }
    if let Some(end) = rest.iter().position(|&byte| byte == b':') {
        out.insert(key.len() - rest.len() + end, b'{');
        out.push(b'}');
    }
    out
}

/// What of a key says its slot: what stands in its first pair of braces, if that is anything.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else {
        return key;
    };
    let inner = &key[open + 1..];
    match inner.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inner[..close],
    }
}

/// The slot of a key: CRC16 (XMODEM) of its hash tag, by the specification of Redis Cluster.
pub(super) fn slot(key: &[u8]) -> u16 {
    let crc = hash_tag(key).iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            let carry = if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            crc << 1 ^ carry
        })
    });
    crc % SLOTS
}

/// A key of that name in the slot of another.
pub(super) fn beside(key: &[u8], name: &str) -> Vec<u8> {
    let tag = hash_tag(key);
    let tag = match tag.is_empty() || tag.contains(&b'}') {
        false => tag.to_vec(),
        // It cannot stand in braces: some number is of the same slot.
        true => (0_u64..)
            .map(|number| number.to_string().into_bytes())
            .find(|number| slot(number) == slot(key))
            .unwrap_or_default(),
    };
    [b"{", &tag[..], b"}", name.as_bytes()].concat()
}

/// The indices of keys by slot, in the order in which slots come first.
pub(super) fn by_slot<'k>(
    keys: impl Iterator<Item = &'k [u8]>,
) -> SmallVec<[SmallVec<[usize; 4]>; 4]> {
    let mut slots: SmallVec<[u16; 4]> = SmallVec::new();
    let mut groups: SmallVec<[SmallVec<[usize; 4]>; 4]> = SmallVec::new();
    for (at, key) in keys.enumerate() {
        let slot = slot(key);
        match slots.iter().position(|&known| known == slot) {
            Some(group) => groups[group].push(at),
            None => {
                slots.push(slot);
                groups.push(SmallVec::from_slice(&[at]));
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        // An empty pair is no tag, and then the whole key counts.
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }

    #[test]
    fn limits_of_one_descriptor_share_a_slot() {
        let second = tagged(b"rl:s:4:shop:4:user:1:a");
        assert_eq!(second, b"rl:s{:4:shop:4:user:1:a}");
        let log = tagged(b"rl:sliding-log-10@5:4:shop:4:user:1:a");
        assert_eq!(slot(&second), slot(&log));
        let own = tagged(b"rl:s:4:shop:4:user:3:{a}");
        assert_eq!(own, b"rl:s:4:shop:4:user:3:{a}");
        assert_eq!(slot(&own), slot(b"a"));
        let odd = tagged(b"rl:s:4:shop:4:user:2:}{");
        assert_eq!(slot(&odd), slot(&tagged(b"rl:m:4:shop:4:user:2:}{")));
        assert_eq!(tagged(b"probe"), b"probe");
        for key in [&own[..], &odd, &second, b"probe", b"a}b", b"{}", b"}{", b""] {
            assert_eq!(slot(&beside(key, ":once:1")), slot(key));
        }
        let keys: [&[u8]; 3] = [b"{a}1", b"{b}", b"{a}2"];
        let groups = by_slot(keys.into_iter());
        assert_eq!(groups.len(), 2);
        assert_eq!((&groups[0][..], &groups[1][..]), (&[0, 2][..], &[1][..]));
    }
}
