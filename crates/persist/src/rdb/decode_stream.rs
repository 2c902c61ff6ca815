//! Reads streams.

use tollgate_containers::stream::{
    DURATION_SECS, Group, Groups, Log, LogState, MOST_IDS, Memory, Pending, Producers,
    READ_UNKNOWN, Stream, StreamId,
};

use super::{RdbError, Reader, kind};

impl Reader<'_> {
    pub(super) fn stream(&mut self, kind: u8) -> Result<Stream, RdbError> {
        let mut nodes = Vec::new();
        for _ in 0..self.plain_length()? {
            let first = self.string()?;
            let first = <[u8; 16]>::try_from(first)
                .map_err(|_| self.corrupt("a stream's node without an ID"))?;
            nodes.push((StreamId::from_bytes(first), self.string()?));
        }
        let len = self.plain_length()?;
        let last_id = self.stream_id()?;
        let mut state = LogState {
            len,
            last_id,
            entries_added: len,
            ..LogState::default()
        };
        if kind >= kind::STREAM_2 {
            state.first_id = self.stream_id()?;
            state.max_deleted_id = self.stream_id()?;
            state.entries_added = self.plain_length()?;
        }
        let log = Log::from_nodes(nodes, state).map_err(|_| self.corrupt("a damaged stream"))?;
        let mut groups = Groups::default();
        for _ in 0..self.plain_length()? {
            let name = self.string()?;
            let group = self.group(kind, &log)?;
            if !groups.add(&name, group) {
                return Err(self.corrupt("a consumer group that stands twice"));
            }
        }
        let mut stream = Stream::from_parts(log, groups);
        if kind >= kind::STREAM_4 {
            let producers = self.producers()?;
            // All streams of a file of Redis 8.6 say this much.
            if producers != Producers::default() {
                *stream.with_producers() = producers;
            }
        }
        Ok(stream)
    }

    fn producers(&mut self) -> Result<Producers, RdbError> {
        let memory = Memory {
            duration_secs: self.plain_length()?,
            most: self.plain_length()?,
        };
        if !DURATION_SECS.contains(&memory.duration_secs) || !MOST_IDS.contains(&memory.most) {
            return Err(self.corrupt("a stream that remembers too much or too little"));
        }
        let mut producers = Producers::new(memory);
        for _ in 0..self.plain_length()? {
            let name = self.string()?;
            let mut entries = Vec::new();
            for _ in 0..self.plain_length()? {
                entries.push((self.string()?, self.stream_id()?));
            }
            if !producers.restore(&name, entries) {
                return Err(self.corrupt("a producer or its ID that stands twice"));
            }
        }
        producers.added = self.plain_length()?;
        producers.duplicates = self.plain_length()?;
        Ok(producers)
    }

    fn stream_id(&mut self) -> Result<StreamId, RdbError> {
        Ok(StreamId {
            ms: self.plain_length()?,
            seq: self.plain_length()?,
        })
    }

    fn raw_stream_id(&mut self) -> Result<StreamId, RdbError> {
        Ok(StreamId::from_bytes(self.array()?))
    }

    fn group(&mut self, kind: u8, log: &Log) -> Result<Group, RdbError> {
        let last_id = self.stream_id()?;
        let entries_read = match kind {
            kind::STREAM => log.reads_until(last_id).unwrap_or(READ_UNKNOWN),
            _ => self.plain_length()? as i64,
        };
        let mut group = Group::new(last_id, entries_read);
        let mut deliveries = std::collections::BTreeMap::new();
        for _ in 0..self.plain_length()? {
            let id = self.raw_stream_id()?;
            let delivered_ms = i64::from_le_bytes(self.array()?);
            let count = self.plain_length()?;
            if deliveries.insert(id, (delivered_ms, count)).is_some() {
                return Err(self.corrupt("a delivery that stands twice"));
            }
        }
        for _ in 0..self.plain_length()? {
            let name = self.string()?;
            let seen_ms = i64::from_le_bytes(self.array()?);
            if kind >= kind::STREAM_3 {
                // When it was last given an entry.
                self.array::<8>()?;
            }
            let consumer = group
                .add_consumer(&name, seen_ms)
                .ok_or_else(|| self.corrupt("a consumer that stands twice"))?;
            for _ in 0..self.plain_length()? {
                let id = self.raw_stream_id()?;
                let (delivered_ms, count) = deliveries
                    .remove(&id)
                    .ok_or_else(|| self.corrupt("a delivery to two consumers, or of no entry"))?;
                let delivery = Pending {
                    consumer,
                    delivered_ms,
                    count,
                };
                group.deliver(id, delivery);
            }
        }
        match deliveries.is_empty() {
            true => Ok(group),
            false => Err(self.corrupt("a delivery to nobody")),
        }
    }
}
