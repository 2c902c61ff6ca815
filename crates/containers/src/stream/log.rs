//! The entries of a stream.

use std::collections::BTreeMap;

use super::node::{MalformedNode, Node};
use super::range::{Entry, Range, RangeBack};
use super::{StreamId, Trimming, trim};

/// Most bytes that the words of one entry, or a node before its last entry, may take.
const NODE_BYTES_MAX: usize = 1 << 30;

/// What a node costs beside its bytes: its share of the tree that finds it.
const NODE_COST: usize = 72;

/// When a new node begins.
#[derive(Clone, Copy, Debug)]
pub struct NodeLimits {
    /// A node of so many bytes takes no more (`stream-node-max-bytes`; 0 = as many as possible).
    pub bytes: usize,
    /// A node of so many entries, deleted ones included, takes no more (`stream-node-max-entries`; 0 = any number).
    pub entries: usize,
}

/// How a new entry gets its ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// From the clock, or the one after the last.
    Auto,
    /// These milliseconds and the next sequence number.
    Millis(u64),
    /// This one.
    Exact(StreamId),
}

/// Why an entry was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The last possible ID is taken.
    Exhausted,
    /// The ID is not above the last one.
    NotAbove,
    /// Its words are too long together.
    TooLarge,
}

/// What a stored file tells of a log beside its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// Number of entries.
    pub len: u64,
    /// The last ID given.
    pub last_id: StreamId,
    /// The first entry; `0-0` without entries.
    pub first_id: StreamId,
    /// The highest ID deleted by name.
    pub max_deleted_id: StreamId,
    /// Entries ever added.
    pub entries_added: u64,
}

/// Entries in the order of their IDs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// By the ID of their first entry.
    pub(super) nodes: BTreeMap<StreamId, Node>,
    pub(super) state: LogState,
    pub(super) heap: usize,
}

impl Log {
    /// Takes a log from a file: nodes under the IDs of their first entries, in order.
    ///
    /// # Errors
    ///
    /// Anything that no stream can be.
    pub fn from_nodes(
        stored: impl IntoIterator<Item = (StreamId, Vec<u8>)>,
        state: LogState,
    ) -> Result<Log, MalformedNode> {
        let mut log = Log {
            state,
            ..Log::default()
        };
        let mut last = None;
        let mut live = 0;
        for (first, bytes) in stored {
            let node = Node::from_bytes(first, bytes)?;
            if last >= Some(first) {
                return Err(MalformedNode);
            }
            last = node.last_id(first);
            live += node.head().live as u64;
            log.heap += NODE_COST + node.heap_bytes();
            log.nodes.insert(first, node);
        }
        if live != state.len || last > Some(state.last_id) {
            return Err(MalformedNode);
        }
        log.find_first();
        Ok(log)
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.state.len as usize
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.state.len == 0
    }

    /// Bytes allocated.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.heap
    }

    /// Its counters and IDs.
    #[inline]
    pub fn state(&self) -> &LogState {
        &self.state
    }

    /// The last ID given.
    #[inline]
    pub fn last_id(&self) -> StreamId {
        self.state.last_id
    }

    /// Sets the last ID given, and, where given, the number of entries ever added and the highest deleted ID.
    pub fn set_last_id(&mut self, id: StreamId, added: Option<u64>, max_deleted: Option<StreamId>) {
        self.state.last_id = id;
        self.state.entries_added = added.unwrap_or(self.state.entries_added);
        self.state.max_deleted_id = max_deleted.unwrap_or(self.state.max_deleted_id);
    }

    /// Adds an entry of `words`: field, value, ….
    ///
    /// # Errors
    ///
    /// Nothing was added.
    pub fn append(
        &mut self,
        id: NewId,
        now_ms: i64,
        words: &[&[u8]],
        limits: NodeLimits,
    ) -> Result<StreamId, AppendError> {
        let last = self.state.last_id;
        let next = last.next().ok_or(AppendError::Exhausted)?;
        let id = match id {
            NewId::Exact(id) => id,
            NewId::Auto => match u64::try_from(now_ms) {
                Ok(ms) if ms > last.ms => StreamId { ms, seq: 0 },
                _ => next,
            },
            NewId::Millis(ms) if ms == last.ms => {
                let seq = last.seq.checked_add(1).ok_or(AppendError::NotAbove)?;
                StreamId { ms, seq }
            }
            NewId::Millis(ms) => StreamId { ms, seq: 0 },
        };
        if id <= last {
            return Err(AppendError::NotAbove);
        }
        let bytes = words.iter().map(|word| word.len()).sum();
        if bytes > NODE_BYTES_MAX {
            return Err(AppendError::TooLarge);
        }
        self.add(id, bytes, words, limits);
        if self.state.len == 0 {
            self.state.first_id = id;
        }
        self.state.len += 1;
        self.state.entries_added = self.state.entries_added.wrapping_add(1);
        self.state.last_id = id;
        Ok(id)
    }

    /// Puts the entry into the last node, or into a new one when that is full.
    fn add(&mut self, id: StreamId, bytes: usize, words: &[&[u8]], limits: NodeLimits) {
        if let Some(mut last) = self.nodes.last_entry() {
            let first = *last.key();
            let node = last.get_mut();
            let before = node.heap_bytes();
            let full = is_full(node, bytes, limits);
            if full {
                node.shrink();
            } else {
                node.append(first, id, words);
            }
            self.heap = self.heap - before + node.heap_bytes();
            if !full {
                return;
            }
        }
        let mut node = Node::new(words);
        node.append(id, id, words);
        self.heap += NODE_COST + node.heap_bytes();
        self.nodes.insert(id, node);
    }

    /// The entries from `start` to `end`, both included.
    #[inline]
    pub fn range(&self, start: StreamId, end: StreamId) -> Range<'_> {
        Range::new(&self.nodes, start, end)
    }

    /// The entries from `end` back to `start`, both included.
    #[inline]
    pub fn range_back(&self, start: StreamId, end: StreamId) -> RangeBack<'_> {
        RangeBack::new(&self.nodes, start, end)
    }

    /// The entry of that ID.
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// The first entry.
    pub fn first(&self) -> Option<Entry<'_>> {
        self.range(StreamId::MIN, StreamId::MAX).next()
    }

    /// The last entry.
    pub fn last(&self) -> Option<Entry<'_>> {
        self.range_back(StreamId::MIN, StreamId::MAX).next()
    }

    /// Deletes the entry of that ID; whether there was one.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some((first, place)) = self
            .range(id, id)
            .next_placed()
            .map(|(first, placed)| (first, placed.at))
        else {
            return false;
        };
        self.state.len -= 1;
        if self
            .nodes
            .get(&first)
            .is_some_and(|node| node.head().live == 1)
        {
            self.remove_node(first);
        } else {
            self.mark_deleted(first, &[place]);
        }
        self.state.max_deleted_id = self.state.max_deleted_id.max(id);
        if id == self.state.first_id {
            self.find_first();
        }
        true
    }

    /// Removes entries from the front as `how` says; how many there were.
    pub fn trim(&mut self, how: &Trimming) -> u64 {
        trim::trim(self, how, None)
    }

    /// As [`Log::trim`], but asks of each entry whether it may go.
    pub fn trim_if(&mut self, how: &Trimming, may_go: &mut dyn FnMut(StreamId) -> bool) -> u64 {
        trim::trim(self, how, Some(may_go))
    }

    pub(super) fn remove_node(&mut self, first: StreamId) {
        if let Some(node) = self.nodes.remove(&first) {
            self.heap -= NODE_COST + node.heap_bytes();
        }
    }

    pub(super) fn mark_deleted(&mut self, first: StreamId, places: &[crate::listpack::At]) {
        if let Some(node) = self.nodes.get_mut(&first) {
            let before = node.heap_bytes();
            node.mark_deleted(places);
            self.heap = self.heap - before + node.heap_bytes();
        }
    }

    /// Finds the first entry again after it may have gone.
    pub(super) fn find_first(&mut self) {
        self.state.first_id = match self.state.len {
            0 => StreamId::MIN,
            _ => self.first().map_or(StreamId::MIN, |entry| entry.id()),
        };
    }

    /// Whether an entry above or at `start` was deleted by name while entries before it stay: counts from there on
    /// cannot be told from the counters.
    pub(crate) fn has_gap_from(&self, start: StreamId) -> bool {
        let state = &self.state;
        state.len > 0
            && !state.max_deleted_id.is_zero()
            && state.first_id <= state.max_deleted_id
            && start <= state.max_deleted_id
    }

    /// How many entries were ever added up to and with `id`, where the counters tell.
    pub fn reads_until(&self, id: StreamId) -> Option<i64> {
        let state = &self.state;
        let added = state.entries_added as i64;
        if state.entries_added == 0 {
            return Some(0);
        }
        if state.len == 0 && id <= state.last_id || id == state.last_id {
            return Some(added);
        }
        let gone = added.wrapping_sub(state.len as i64);
        let whole = state.max_deleted_id.is_zero() || state.max_deleted_id < state.first_id;
        match id.cmp(&state.first_id) {
            _ if id > state.last_id || !whole => None,
            std::cmp::Ordering::Less => Some(gone),
            std::cmp::Ordering::Equal => Some(gone.wrapping_add(1)),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// The nodes as stored files hold them: the ID of the first entry and a listpack.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (StreamId, &[u8])> {
        self.nodes
            .iter()
            .map(|(first, node)| (*first, node.as_bytes()))
    }

    /// How many nodes a radix tree over the nodes' IDs has, as Redis reports it.
    pub fn radix_nodes(&self) -> usize {
        let keys: Vec<[u8; 16]> = self.nodes.keys().map(|id| id.to_bytes()).collect();
        radix_nodes(&keys)
    }
}

fn is_full(node: &Node, bytes: usize, limits: NodeLimits) -> bool {
    let most = match limits.bytes {
        0 => NODE_BYTES_MAX,
        most => most.min(NODE_BYTES_MAX),
    };
    if node.byte_len() + bytes >= most {
        return true;
    }
    let head = node.head();
    limits.entries > 0 && head.live + head.deleted >= limits.entries as i64
}

/// Nodes of a radix tree whose runs of single children are one node each, over sorted keys of equal length.
fn radix_nodes(keys: &[[u8; 16]]) -> usize {
    let shared = |pair: &[[u8; 16]]| {
        let [a, b] = pair else { return 0 };
        a.iter().zip(b).take_while(|(a, b)| a == b).count()
    };
    if keys.is_empty() {
        return 1;
    }
    let depths: Vec<usize> = keys.windows(2).map(shared).collect();
    // A run leads from the byte after the branch above (none: the root) to `to`; it is a node unless it is empty.
    let run =
        |above: Option<usize>, to: usize| usize::from(above.map_or(0, |depth| depth + 1) < to);
    let mut count = 0;
    for at in 0..keys.len() {
        let left = at.checked_sub(1).map(|at| depths[at]);
        let right = depths.get(at).copied();
        // The leaf, and the run to it.
        count += 1 + run(left.max(right), 16);
    }
    // Branches by their depth: each is counted where it is opened.
    let mut open: Vec<usize> = Vec::new();
    let mut branches: Vec<(Option<usize>, usize)> = Vec::new();
    for &depth in &depths {
        while let Some(&top) = open.last()
            && top > depth
        {
            open.pop();
            let above = open.last().copied().filter(|&above| above > depth);
            branches.push((Some(above.unwrap_or(depth)), top));
        }
        if open.last() != Some(&depth) {
            open.push(depth);
        }
    }
    while let Some(depth) = open.pop() {
        branches.push((open.last().copied(), depth));
    }
    branches.iter().fold(count, |count, &(above, depth)| {
        count + 1 + run(above, depth)
    })
}
