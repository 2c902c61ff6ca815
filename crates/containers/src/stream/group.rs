//! Consumer groups: what was delivered to whom and is not acknowledged.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::{Log, StreamId};

/// [`Group::entries_read`] when it is not known.
pub const READ_UNKNOWN: i64 = -1;

/// What a group costs: itself and its share of the tree that finds it.
const GROUP_COST: usize = 256;
/// What a consumer costs beside its name.
const CONSUMER_COST: usize = 136;
/// What a pending entry costs, in the group and at its consumer.
const PENDING_COST: usize = 88;

/// Which consumer of a group; stays the same while the consumer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerIndex(u32);

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// To whom.
    pub consumer: ConsumerIndex,
    /// When last, Unix milliseconds.
    pub delivered_ms: i64,
    /// How often.
    pub count: u64,
}

/// One who reads for a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumer {
    name: Arc<[u8]>,
    /// When it last asked for something, Unix milliseconds.
    pub seen_ms: i64,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// How many entries it has not acknowledged.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The entries it has not acknowledged, from `start` on.
    pub fn pending_from(&self, start: StreamId) -> impl Iterator<Item = StreamId> {
        self.pending.range(start..).copied()
    }
}

/// Consumers who share the entries of a stream among themselves.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// Entries ever added up to `last_id`; [`READ_UNKNOWN`] when that cannot be told.
    pub entries_read: i64,
    pending: BTreeMap<StreamId, Pending>,
    by_name: BTreeMap<Arc<[u8]>, ConsumerIndex>,
    consumers: Vec<Option<Consumer>>,
    free: Vec<ConsumerIndex>,
    heap: usize,
}

impl Group {
    /// A group that begins behind `last_id`.
    pub fn new(last_id: StreamId, entries_read: i64) -> Group {
        Group {
            last_id,
            entries_read,
            ..Group::default()
        }
    }

    /// How many entries are not acknowledged.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The first and the last entry that is not acknowledged.
    pub fn pending_bounds(&self) -> Option<(StreamId, StreamId)> {
        let (first, _) = self.pending.first_key_value()?;
        let (last, _) = self.pending.last_key_value()?;
        Some((*first, *last))
    }

    /// The delivery of an entry that is not acknowledged.
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// The entries that are not acknowledged, from `start` on.
    pub fn pending_from(&self, start: StreamId) -> btree_map::Range<'_, StreamId, Pending> {
        self.pending.range(start..)
    }

    /// The consumer of that name.
    pub fn find(&self, name: &[u8]) -> Option<ConsumerIndex> {
        self.by_name.get(name).copied()
    }

    /// A consumer that exists.
    pub fn consumer(&self, index: ConsumerIndex) -> Option<&Consumer> {
        self.consumers.get(index.0 as usize)?.as_ref()
    }

    /// As [`Group::consumer`], to note when it was seen.
    pub fn consumer_mut(&mut self, index: ConsumerIndex) -> Option<&mut Consumer> {
        self.consumers.get_mut(index.0 as usize)?.as_mut()
    }

    /// Its name; of one that does not exist, empty.
    pub fn name_of(&self, index: ConsumerIndex) -> &[u8] {
        self.consumer(index).map_or(&[], Consumer::name)
    }

    /// The consumers by name.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.by_name
            .values()
            .filter_map(|&index| self.consumer(index))
    }

    /// Number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.by_name.len()
    }

    /// Adds a consumer; `None` when there is one of that name.
    pub fn add_consumer(&mut self, name: &[u8], seen_ms: i64) -> Option<ConsumerIndex> {
        if self.by_name.contains_key(name) {
            return None;
        }
        let index = self
            .free
            .pop()
            .unwrap_or(ConsumerIndex(self.consumers.len() as u32));
        let name: Arc<[u8]> = name.into();
        self.heap += CONSUMER_COST + name.len();
        let consumer = Consumer {
            name: Arc::clone(&name),
            seen_ms,
            pending: BTreeSet::new(),
        };
        match self.consumers.get_mut(index.0 as usize) {
            Some(slot) => *slot = Some(consumer),
            None => self.consumers.push(Some(consumer)),
        }
        self.by_name.insert(name, index);
        Some(index)
    }

    /// Removes a consumer with what it has not acknowledged: how many entries; `None` when there is none.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let index = self.by_name.remove(name)?;
        let consumer = self.consumers.get_mut(index.0 as usize)?.take()?;
        self.free.push(index);
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        self.heap -= CONSUMER_COST + name.len() + consumer.pending.len() * PENDING_COST;
        Some(consumer.pending.len())
    }

    /// Notes a delivery; an entry that is pending elsewhere moves.
    pub fn deliver(&mut self, id: StreamId, delivery: Pending) {
        match self.pending.insert(id, delivery) {
            None => self.heap += PENDING_COST,
            Some(old) if old.consumer == delivery.consumer => return,
            Some(old) => {
                if let Some(consumer) = self.consumer_mut(old.consumer) {
                    consumer.pending.remove(&id);
                }
            }
        }
        if let Some(consumer) = self.consumer_mut(delivery.consumer) {
            consumer.pending.insert(id);
        }
    }

    /// Takes an entry off the list; whether it was on it.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else {
            return false;
        };
        self.heap -= PENDING_COST;
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Notes that the entry of `id` is about to be delivered as a new one.
    pub fn advance(&mut self, log: &Log, id: StreamId) {
        if id <= self.last_id {
            return;
        }
        if self.entries_read != READ_UNKNOWN && !log.has_gap_from(id) {
            self.entries_read = self.entries_read.wrapping_add(1);
        } else if log.state().entries_added > 0 {
            self.entries_read = log.reads_until(id).unwrap_or(READ_UNKNOWN);
        }
        self.last_id = id;
    }

    /// How many entries wait to be delivered; `None` when that cannot be told from the counters.
    pub fn lag(&self, log: &Log) -> Option<i64> {
        let added = log.state().entries_added as i64;
        if added == 0 {
            Some(0)
        } else if self.entries_read != READ_UNKNOWN && !log.has_gap_from(self.last_id) {
            Some(added.wrapping_sub(self.entries_read))
        } else {
            Some(added.wrapping_sub(log.reads_until(self.last_id)?))
        }
    }

    /// Whether the entry was delivered and is acknowledged.
    pub(crate) fn is_done_with(&self, id: StreamId) -> bool {
        id <= self.last_id && !self.pending.contains_key(&id)
    }
}

impl PartialEq for Group {
    /// By content: consumers are compared by name, whatever their index.
    fn eq(&self, other: &Group) -> bool {
        let deliveries = |group: &Group| -> Vec<_> {
            let named = |(id, pending): (&StreamId, &Pending)| {
                let name = group.name_of(pending.consumer).to_vec();
                (*id, name, pending.delivered_ms, pending.count)
            };
            group.pending.iter().map(named).collect()
        };
        self.last_id == other.last_id
            && self.entries_read == other.entries_read
            && self.consumers().eq(other.consumers())
            && deliveries(self) == deliveries(other)
    }
}

/// The groups of a stream, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    groups: BTreeMap<Box<[u8]>, Group>,
    heap: usize,
}

impl Groups {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Bytes allocated.
    pub fn heap_bytes(&self) -> usize {
        self.heap
    }

    /// The group of that name.
    pub fn get(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// The group of that name to change.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<GroupMut<'_>> {
        let group = self.groups.get_mut(name)?;
        Some(GroupMut {
            before: group.heap,
            group,
            heap: &mut self.heap,
        })
    }

    /// Names and groups, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    /// Adds a group; whether there was none of that name.
    pub fn add(&mut self, name: &[u8], group: Group) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.heap += GROUP_COST + name.len() + group.heap;
        self.groups.insert(name.into(), group);
        true
    }

    /// Removes a group; whether there was one.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(group) = self.groups.remove(name) else {
            return false;
        };
        self.heap -= GROUP_COST + name.len() + group.heap;
        true
    }

    /// Takes an entry off the lists of all groups; whether it was on any.
    pub fn acknowledge_everywhere(&mut self, id: StreamId) -> bool {
        let mut found = false;
        for group in self.groups.values_mut() {
            let before = group.heap;
            found |= group.acknowledge(id);
            self.heap = self.heap - before + group.heap;
        }
        found
    }

    /// Whether an entry is on the list of any group.
    pub fn is_pending(&self, id: StreamId) -> bool {
        self.groups
            .values()
            .any(|group| group.pending(id).is_some())
    }

    /// Whether every group has had the entry and acknowledged it.
    pub fn are_done_with(&self, id: StreamId) -> bool {
        self.groups.values().all(|group| group.is_done_with(id))
    }
}

/// A group to change; its size is accounted for at the end.
pub struct GroupMut<'a> {
    group: &'a mut Group,
    heap: &'a mut usize,
    before: usize,
}

impl Deref for GroupMut<'_> {
    type Target = Group;
    fn deref(&self) -> &Group {
        self.group
    }
}

impl DerefMut for GroupMut<'_> {
    fn deref_mut(&mut self) -> &mut Group {
        self.group
    }
}

impl Drop for GroupMut<'_> {
    fn drop(&mut self) {
        *self.heap = *self.heap - self.before + self.group.heap;
    }
}
