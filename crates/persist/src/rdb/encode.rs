//! Writes values as redis-server 7.0 does; hashes with field expiry as Redis 7.4 or Valkey 9 does, streams that remember the IDs of
//! producers as Redis 8.6 does.

use std::io;

use tollgate_containers::hash::{Field, Hash};
use tollgate_containers::list::List;
use tollgate_containers::listpack::Listpack;
use tollgate_containers::set::{Member, Set};
use tollgate_containers::sorted_set::SortedSet;
use tollgate_containers::stream::{Group, Producers, Stream, StreamId};
use tollgate_containers::{Container, number};
use tollgate_keyspace::{Object, ValueRef};
use tollgate_wire::resp::push_double;

use super::packed::write_intset;
use super::{Dialect, Writer, kind, limiter};

/// Bytes of a list's node, as redis-server makes them unless told otherwise.
const LIST_NODE: usize = 8 << 10;

/// A list's node is one element as it is.
const PLAIN: usize = 1;
/// A list's node is a listpack.
const PACKED: usize = 2;
/// Longest element in a listpack, bytes.
const PACKED_MAX: usize = 1 << 30;

fn is_plain(element: &[u8]) -> bool {
    element.len() > PACKED_MAX
}

/// Where a list is cut into nodes.
#[derive(Default)]
struct ListNode {
    /// Bytes so far, about; 0 before the first element, and behind one that fills a node alone.
    bytes: usize,
}

impl ListNode {
    /// Adds an element; whether it is the first of a node.
    fn begins_anew(&mut self, element: &[u8]) -> bool {
        let anew = self.bytes == 0 || self.bytes + element.len() > LIST_NODE || is_plain(element);
        let before = if anew { 0 } else { self.bytes };
        self.bytes = if is_plain(element) {
            0
        } else {
            before + element.len() + 1
        };
        anew
    }
}

/// The type that the value is stored as.
pub(super) fn kind_of(value: ValueRef<'_>, dialect: Dialect) -> u8 {
    match value {
        ValueRef::Int(_) | ValueRef::Bytes(_) => kind::STRING,
        ValueRef::Limiter(_) | ValueRef::Object(Object::Ledger(_)) => kind::LIMITER,
        ValueRef::Object(Object::List(_)) => kind::QUICKLIST_2,
        ValueRef::Object(Object::Set(set)) if set.is_ints() => kind::SET_INTSET,
        ValueRef::Object(Object::Set(_)) => kind::SET,
        ValueRef::Object(Object::SortedSet(set)) if set.is_compact() => kind::SORTED_SET_LISTPACK,
        ValueRef::Object(Object::SortedSet(_)) => kind::SORTED_SET_2,
        ValueRef::Object(Object::Hash(hash)) => match (hash.is_compact(), hash.expiring() > 0) {
            (true, false) => kind::HASH_LISTPACK,
            (_, true) if dialect == Dialect::Valkey => kind::HASH_EXPIRING_VALKEY,
            (true, true) => kind::HASH_LISTPACK_EXPIRING,
            (false, false) => kind::HASH,
            (false, true) => kind::HASH_EXPIRING,
        },
        ValueRef::Object(Object::Stream(stream)) => kind_of_stream(stream, dialect),
    }
}

/// Valkey has no form for the IDs of producers.
fn kind_of_stream(stream: &Stream, dialect: Dialect) -> u8 {
    match (stream.producers(), dialect) {
        (Some(_), Dialect::Redis) => kind::STREAM_4,
        _ => kind::STREAM_2,
    }
}

impl Writer<'_> {
    /// Writes the value without its type.
    pub(super) fn value(&mut self, value: ValueRef<'_>) -> io::Result<()> {
        match value {
            ValueRef::Int(number) => {
                self.integer(number);
                Ok(())
            }
            ValueRef::Bytes(bytes) => self.string(bytes),
            ValueRef::Limiter(_) | ValueRef::Object(Object::Ledger(_)) => {
                let mut state = Vec::new();
                limiter::write_state(value, &mut state);
                self.string(&state)
            }
            ValueRef::Object(Object::List(list)) => self.list(list),
            ValueRef::Object(Object::Set(set)) => self.set(set),
            ValueRef::Object(Object::SortedSet(set)) => self.sorted_set(set),
            ValueRef::Object(Object::Hash(hash)) => self.hash(hash),
            ValueRef::Object(Object::Stream(stream)) => self.stream(stream),
        }
    }

    fn list(&mut self, list: &List) -> io::Result<()> {
        // The number of nodes comes first, so they are counted as they will be cut.
        let (mut nodes, mut node) = (0, ListNode::default());
        list.iter()
            .for_each(|element| nodes += usize::from(node.begins_anew(element)));
        self.length(nodes);
        let (mut node, mut pack) = (ListNode::default(), Listpack::new());
        for element in list.iter() {
            if node.begins_anew(element) {
                self.list_node(&std::mem::take(&mut pack))?;
            }
            if is_plain(element) {
                self.length(PLAIN);
                self.string(element)?;
            } else {
                pack.push(element);
            }
        }
        self.list_node(&pack)
    }

    fn list_node(&mut self, pack: &Listpack) -> io::Result<()> {
        if pack.is_empty() {
            return Ok(());
        }
        self.length(PACKED);
        self.string(pack.as_bytes())
    }

    fn set(&mut self, set: &Set) -> io::Result<()> {
        if set.is_ints() {
            let int = |member| match member {
                Member::Int(int) => Some(int),
                Member::Bytes(bytes) => number::parse_i64(bytes),
            };
            let mut ints: Vec<i64> = set.iter().filter_map(int).collect();
            ints.sort_unstable();
            return self.string(&write_intset(&ints));
        }
        self.length(set.len());
        set.iter()
            .try_for_each(|member| member.with_bytes(|text| self.string(text)))
    }

    fn sorted_set(&mut self, set: &SortedSet) -> io::Result<()> {
        if set.is_compact() {
            let (mut pack, mut text) = (Listpack::new(), Vec::new());
            for (member, score) in set.iter() {
                pack.push(member);
                match whole(score) {
                    Some(int) => pack.push_int(int),
                    None => {
                        text.clear();
                        push_double(&mut text, score);
                        pack.push(&text);
                    }
                }
            }
            return self.string(pack.as_bytes());
        }
        self.length(set.len());
        // From the highest score down, which is quick to load.
        for (member, score) in set.range_rev(0..set.len()) {
            self.string(member)?;
            self.bytes(&score.to_le_bytes())?;
        }
        Ok(())
    }

    fn hash(&mut self, hash: &Hash) -> io::Result<()> {
        if hash.expiring() > 0 && self.dialect == Dialect::Valkey {
            return self.hash_for_valkey(hash);
        }
        let first = hash.iter().filter_map(|field| field.expires_at_ms).min();
        if let Some(first) = first {
            self.bytes(&first.to_le_bytes())?;
        }
        if hash.is_compact() {
            return self.string(hash_pack(hash, first.is_some()).as_bytes());
        }
        self.length(hash.len());
        for field in hash.iter() {
            if let Some(first) = first {
                // One more than the distance from the first: 0 says that there is none.
                let distance = field
                    .expires_at_ms
                    .map_or(0, |at| at.wrapping_sub(first) as u64 + 1);
                self.length64(distance);
            }
            self.string(field.name)?;
            self.string(field.value)?;
        }
        Ok(())
    }

    /// Each field with its expiry, -1 for none.
    fn hash_for_valkey(&mut self, hash: &Hash) -> io::Result<()> {
        self.length(hash.len());
        for field in hash.iter() {
            self.string(field.name)?;
            self.string(field.value)?;
            self.bytes(&field.expires_at_ms.unwrap_or(-1).to_le_bytes())?;
        }
        Ok(())
    }

    fn stream(&mut self, stream: &Stream) -> io::Result<()> {
        let kind = kind_of_stream(stream, self.dialect);
        let log = stream.log();
        self.length(log.nodes().len());
        for (first, node) in log.nodes() {
            self.string(&first.to_bytes())?;
            self.string(node)?;
        }
        let state = log.state();
        self.length64(state.len);
        for id in [state.last_id, state.first_id, state.max_deleted_id] {
            self.stream_id(id);
        }
        self.length64(state.entries_added);
        self.length(stream.groups().len());
        for (name, group) in stream.groups().iter() {
            self.string(name)?;
            self.group(group, kind)?;
        }
        match stream.producers().filter(|_| kind == kind::STREAM_4) {
            Some(producers) => self.producers(producers),
            None => Ok(()),
        }
    }

    fn producers(&mut self, producers: &Producers) -> io::Result<()> {
        let memory = producers.memory();
        self.length64(memory.duration_secs);
        self.length64(memory.most);
        self.length(producers.len());
        for (name, entries) in producers.iter() {
            self.string(name)?;
            self.length(entries.len());
            for (own_id, id) in entries {
                self.string(own_id)?;
                self.stream_id(id);
            }
        }
        self.length64(producers.added);
        self.length64(producers.duplicates);
        Ok(())
    }

    fn stream_id(&mut self, id: StreamId) {
        self.length64(id.ms);
        self.length64(id.seq);
    }

    fn group(&mut self, group: &Group, kind: u8) -> io::Result<()> {
        self.stream_id(group.last_id);
        self.length64(group.entries_read as u64);
        self.length(group.pending_len());
        for (id, pending) in group.pending_from(StreamId::MIN) {
            self.bytes(&id.to_bytes())?;
            self.bytes(&pending.delivered_ms.to_le_bytes())?;
            self.length64(pending.count);
        }
        self.length(group.consumer_count());
        for consumer in group.consumers() {
            self.string(consumer.name())?;
            self.bytes(&consumer.seen_ms.to_le_bytes())?;
            if kind >= kind::STREAM_3 {
                // When it was last given an entry is not known; it cannot have been later.
                self.bytes(&consumer.seen_ms.to_le_bytes())?;
            }
            self.length(consumer.pending_len());
            for id in consumer.pending_from(StreamId::MIN) {
                self.bytes(&id.to_bytes())?;
            }
        }
        Ok(())
    }
}

/// Names and values; with expiries in the order of these, none last, as redis-server keeps them.
fn hash_pack(hash: &Hash, expiring: bool) -> Listpack {
    let mut pack = Listpack::new();
    let mut fields: Vec<Field<'_>> = hash.iter().collect();
    if expiring {
        fields.sort_by_key(|field| field.expires_at_ms.unwrap_or(i64::MAX));
    }
    for field in fields {
        pack.push(field.name);
        pack.push(field.value);
        if expiring {
            pack.push_int(field.expires_at_ms.unwrap_or(0));
        }
    }
    pack
}

/// The score as an integer, when it is one that redis-server stores as such.
fn whole(score: f64) -> Option<i64> {
    const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
    let in_range = score > -WHOLE_MAX && score < WHOLE_MAX;
    (in_range && score.fract() == 0.0).then_some(score as i64)
}
