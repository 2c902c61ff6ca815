//! The slots that a node of a cluster serves, and the check of commands against them.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tollgate_commands::gate::Slots;
use tollgate_commands::{ClusterNode, CmdError, Flags, Group, Row, routes_of};
use tollgate_keyspace::{DbIndex, SLOTS, Shard, slot_of};

use crate::execute::is_exec;
use crate::{Engine, Session};

/// Buckets that a shard is held for when all keys are looked at.
const STEPS_AT_ONCE: usize = 256;

/// What a node of a cluster serves. A server that is no node serves everything and asks nothing.
pub struct Cluster {
    is_on: AtomicBool,
    /// One bit for each slot.
    served: [AtomicU64; SLOTS as usize / 64],
    count: AtomicUsize,
    /// `cluster-require-full-coverage`: without all slots none is served.
    needs_all: AtomicBool,
    /// `cluster-allow-reads-when-down`.
    reads_when_down: AtomicBool,
    /// `cluster-allow-pubsubshard-when-down`.
    channels_when_down: AtomicBool,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("is_on", &self.is_on)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            is_on: AtomicBool::new(false),
            served: [const { AtomicU64::new(0) }; SLOTS as usize / 64],
            count: AtomicUsize::new(0),
            needs_all: AtomicBool::new(true),
            reads_when_down: AtomicBool::new(false),
            channels_when_down: AtomicBool::new(true),
        }
    }
}

impl Cluster {
    /// Makes the server a node, which serves no slot yet. There is no way back.
    pub fn enable(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Whether the server is a node.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether even a command on one key may be refused for its slot.
    #[inline]
    pub(crate) fn asks_each(&self) -> bool {
        self.is_on() && self.count() < usize::from(SLOTS)
    }

    /// Slots that are served.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether a slot is served here.
    pub fn serves(&self, slot: u16) -> bool {
        let (word, bit) = place(slot);
        self.served[word].load(Ordering::Relaxed) & bit != 0
    }

    /// Begins or ends to serve a slot. Callers take turns.
    pub fn set_served(&self, slot: u16, served: bool) {
        let (word, bit) = place(slot);
        let before = match served {
            true => self.served[word].fetch_or(bit, Ordering::Relaxed),
            false => self.served[word].fetch_and(!bit, Ordering::Relaxed),
        };
        match (before & bit != 0, served) {
            (false, true) => self.count.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.count.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// The settings of the same names.
    pub fn configure(&self, needs_all: bool, reads_when_down: bool, channels_when_down: bool) {
        self.needs_all.store(needs_all, Ordering::Relaxed);
        self.reads_when_down
            .store(reads_when_down, Ordering::Relaxed);
        self.channels_when_down
            .store(channels_when_down, Ordering::Relaxed);
    }

    /// Whether enough slots are served for any to be.
    pub fn is_well(&self) -> bool {
        let count = self.count();
        count == usize::from(SLOTS) || (count > 0 && !self.needs_all.load(Ordering::Relaxed))
    }

    /// The slot of the keys, or shard channels, of a call: `None` when it has none. A call whose keys cannot be found
    /// fails when it runs.
    fn slot_in(
        &self,
        row: &Row,
        words: &[&[u8]],
        mut slot: Option<u16>,
    ) -> Result<Option<u16>, CmdError> {
        for at in routes_of(row, words).unwrap_or_default() {
            let this = slot_of(words[at as usize]);
            match slot {
                None if !self.serves(this) => return Err(CmdError::SlotNotServed),
                Some(first) if first != this => return Err(CmdError::CrossSlot),
                _ => slot = Some(this),
            }
        }
        Ok(slot)
    }

    /// The slot of the first key of a script, on a node.
    #[inline]
    pub(crate) fn slot_of_first(&self, keys: &[&[u8]]) -> Option<u16> {
        let key = keys.first().filter(|_| self.is_on())?;
        Some(slot_of(key))
    }

    /// Lets a command pass whose keys have one slot, which is served here.
    pub(crate) fn admit(
        &self,
        row: &Row,
        words: &[&[u8]],
        writes: bool,
    ) -> Result<Option<u16>, CmdError> {
        let slot = self.slot_in(row, words, None)?;
        if slot.is_some() && !self.is_well() {
            self.admit_down(writes, row.group == Group::PubSub)?;
        }
        Ok(slot)
    }

    fn admit_down(&self, writes: bool, is_channel: bool) -> Result<(), CmdError> {
        if is_channel {
            let allowed = self.channels_when_down.load(Ordering::Relaxed);
            return allowed.then_some(()).ok_or(CmdError::ClusterDown);
        }
        match (self.reads_when_down.load(Ordering::Relaxed), writes) {
            (false, _) => Err(CmdError::ClusterDown),
            (true, true) => Err(CmdError::ClusterReadsOnly),
            (true, false) => Ok(()),
        }
    }
}

fn place(slot: u16) -> (usize, u64) {
    (usize::from(slot / 64), 1 << (slot % 64))
}

/// Checks the commands of a client.
#[derive(Debug)]
pub(crate) struct OfClient<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) session: &'a Session,
    /// The flags of the call.
    pub(crate) flags: Flags,
}

impl Slots for OfClient<'_> {
    fn admit(&self, row: &'static Row, words: &[&[u8]]) -> Result<(), CmdError> {
        if !is_exec(row) {
            let writes = self.flags.contains(Flags::WRITE);
            return self.cluster.admit(row, words, writes).map(drop);
        }
        let Some(queued) = &self.session.transaction else {
            return Ok(());
        };
        let mut slot = None;
        for (row, words) in queued.commands() {
            slot = self.cluster.slot_in(row, &words, slot)?;
        }
        let any = self.session.queued_flags().map(|(any, _)| any);
        let writes = any.is_some_and(|any| any.contains(Flags::WRITE));
        if slot.is_some() && !self.cluster.is_well() {
            self.cluster.admit_down(writes, false)?;
        }
        Ok(())
    }
}

impl ClusterNode for Engine {
    fn fingerprint(&self) -> u64 {
        // A cursor is made of the order of the keys, which depends on the seed and the number of shards.
        let count = self.shards.count() as u64;
        self.seed.hash(&count.to_le_bytes()).max(1)
    }

    fn served_to(&self, slot: u16) -> u16 {
        let gap = (slot..SLOTS).find(|&slot| !self.cluster.serves(slot));
        gap.unwrap_or(SLOTS).saturating_sub(1).max(slot)
    }
}

impl Engine {
    /// The node that the keyspace is, if it is one.
    pub(crate) fn as_node(&self) -> Option<&dyn ClusterNode> {
        self.cluster.is_on().then_some(self as &dyn ClusterNode)
    }

    /// The number of keys in each slot. All keys are looked at.
    pub fn count_slots(&self, now_ms: i64) -> Vec<u32> {
        let mut counts = vec![0; usize::from(SLOTS)];
        self.for_each_slotted(now_ms, &mut |slot, _| {
            counts[usize::from(slot)] += 1;
            true
        });
        counts
    }

    /// Keys of a slot, at most `most`. All keys are looked at until there are so many.
    pub fn keys_in_slot(&self, slot: u16, most: usize, now_ms: i64) -> Vec<Box<[u8]>> {
        let mut keys = Vec::new();
        self.for_each_slotted(now_ms, &mut |its, key| {
            if its == slot && keys.len() < most {
                keys.push(key.into());
            }
            keys.len() < most
        });
        keys
    }

    /// Calls `f` with the slot of each key of database 0 that has not expired, once each, until it returns false. No shard is
    /// held for longer than some buckets take.
    fn for_each_slotted(&self, now_ms: i64, f: &mut dyn FnMut(u16, &[u8]) -> bool) {
        for index in 0..self.shards.count() {
            let mut cursor = 0;
            loop {
                let next = self.with_cell(index, |cell| self.slotted_of(cell, cursor, now_ms, f));
                match next {
                    None => return,
                    Some(0) => break,
                    Some(next) => cursor = next,
                }
            }
        }
    }

    /// Takes some steps of [`Engine::for_each_slotted`] in one shard: the cursor to go on from, 0 at its end; none when `f`
    /// wants no more.
    fn slotted_of(
        &self,
        shard: &mut Shard,
        mut cursor: u64,
        now_ms: i64,
        f: &mut dyn FnMut(u16, &[u8]) -> bool,
    ) -> Option<u64> {
        let mut goes_on = true;
        for _ in 0..STEPS_AT_ONCE {
            let from = cursor;
            // A scan that removes what has expired may meet an entry twice: at this time nothing has.
            cursor = shard.scan(DbIndex::ZERO, from, i64::MIN, &mut |key, entry| {
                let is_live = entry.expires_at_ms().is_none_or(|at| now_ms <= at);
                // Buckets that were joined since the last step bring what was met before.
                let is_new = !self.seed.key(key).is_before(from);
                goes_on = goes_on && (!is_live || !is_new || f(slot_of(key), key));
            });
            if cursor == 0 || !goes_on {
                break;
            }
        }
        goes_on.then_some(cursor)
    }

    /// Answers the clients that wait for keys of slots that are not served any more, as redis-server does: what they wait for
    /// does not come here. To be called when slots are given up, and now and then, for those that began to wait meanwhile.
    pub fn turn_away_waiters(&self) {
        if !self.cluster.asks_each() {
            return;
        }
        let is_well = self.cluster.is_well();
        self.refuse_waiters(|key| match is_well {
            false => Some(CmdError::ClusterDown),
            true if self.cluster.serves(slot_of(key)) => None,
            true => Some(CmdError::SlotNotServed),
        });
    }
}

/// What a script is told when a command of it was refused for its slot.
pub(crate) fn error_in_script(error: &CmdError) -> CmdError {
    match error {
        CmdError::ClusterReadsOnly => CmdError::ScriptClusterReadsOnly,
        CmdError::ClusterDown => CmdError::ScriptClusterDown,
        _ => CmdError::ScriptForeignKey,
    }
}

/// Whether a command was refused for the slot of its keys.
pub(crate) fn is_refusal(error: &CmdError) -> bool {
    matches!(
        error,
        CmdError::CrossSlot
            | CmdError::SlotNotServed
            | CmdError::ClusterDown
            | CmdError::ClusterReadsOnly
    )
}
