//! Commands on streams, whose IDs come from the clock and whose groups remember when something was delivered.

use tollgate_containers::stream::{Group, Stream, StreamId, id_of_message};
use tollgate_keyspace::{Object, ValueRef};
use tollgate_wire::resp::Value;

use super::record::{Done, elements, is_one_of, value_bytes};
use crate::cell::Cells;

/// What `f` makes of the stream at a key.
fn stream<H: Cells + ?Sized, T>(
    done: &Done<'_>,
    held: &mut H,
    key: &[u8],
    f: impl FnOnce(&Stream) -> T,
) -> Option<T> {
    let found = done.entry(held, (done.call.db, key), |entry| match entry.value() {
        ValueRef::Object(Object::Stream(stream)) => Some(f(stream)),
        _ => None,
    });
    found.flatten()
}

/// The options of XADD or XTRIM.
struct Trimming<'a> {
    /// Made exact: an approximate trim stands for what it has left. Those of producers are not among them.
    words: Vec<Vec<u8>>,
    /// The place behind the options.
    end: usize,
    /// The producer, and the ID that it has given its message; none where that is made of the message.
    producer: Option<(&'a [u8], Option<&'a [u8]>)>,
}

/// The options of XADD and XTRIM; `None` when they change more than the stream.
fn trimming<'a, H: Cells + ?Sized>(done: &Done<'a>, held: &mut H) -> Option<Trimming<'a>> {
    let args = done.call.args;
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut producer = None;
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let next = args.get(at + 1).copied().unwrap_or_default();
        if is_one_of(word, &[b"NOMKSTREAM"]) {
            words.push(word.to_vec());
            at += 1;
        } else if is_one_of(word, &[b"KEEPREF"]) {
            at += 1;
        } else if is_one_of(word, &[b"IDMPAUTO"]) {
            producer = Some((next, None));
            at += 2;
        } else if is_one_of(word, &[b"IDMP"]) {
            producer = Some((next, args.get(at + 2).copied()));
            at += 3;
        } else if is_one_of(word, &[b"DELREF", b"ACKED"]) {
            return None;
        } else if is_one_of(word, &[b"LIMIT"]) {
            at += 2;
        } else if is_one_of(word, &[b"MAXLEN", b"MINID"]) {
            let marked = next == b"~" || next == b"=";
            let threshold = args.get(at + 1 + usize::from(marked))?;
            if next == b"~" {
                let by_length = is_one_of(word, &[b"MAXLEN"]);
                words.extend(what_is_left(done, held, by_length)?);
            } else {
                words.push(word.to_vec());
                words.extend(marked.then(|| next.to_vec()));
                words.push(threshold.to_vec());
            }
            at += 2 + usize::from(marked);
        } else {
            break;
        }
    }
    Some(Trimming {
        words,
        end: at,
        producer,
    })
}

fn what_is_left<H: Cells + ?Sized>(
    done: &Done<'_>,
    held: &mut H,
    by_length: bool,
) -> Option<[Vec<u8>; 3]> {
    stream(done, held, done.key().1, |stream| {
        let first = stream.log().first().map(|entry| entry.id());
        let (word, threshold): (&[u8], String) = match first {
            Some(first) if !by_length => (b"MINID", first.to_string()),
            _ => (b"MAXLEN", stream.log().len().to_string()),
        };
        [word.to_vec(), b"=".to_vec(), threshold.into_bytes()]
    })
}

/// XADD with the ID that was given, and without the one of its producer, which follows: servers that do not know such have the
/// entry all the same.
pub(super) fn record_xadd<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H) {
    let args = done.call.args;
    let Some(options) = trimming(done, held) else {
        return done.record_state(held);
    };
    let fields = args.get(options.end + 1..).unwrap_or_default();
    let last = stream(done, held, args[1], |stream| {
        let log = stream.log();
        (log.last_id(), log.get(log.last_id()).is_some())
    });
    let (id, is_there) = last.unwrap_or((StreamId::MIN, false));
    // An ID cannot be recorded for an entry that was trimmed at once.
    if options.producer.is_some() && !is_there {
        return done.record_state(held);
    }
    let id = id.to_string();
    let mut words: Vec<&[u8]> = vec![b"XADD", args[1]];
    words.extend(options.words.iter().map(Vec::as_slice));
    words.push(id.as_bytes());
    words.extend(fields);
    done.add(&words);
    if let Some((producer, own_id)) = options.producer {
        let made;
        let own_id = match own_id {
            Some(own_id) => own_id,
            None => {
                made = id_of_message(fields);
                &made
            }
        };
        done.add(&[b"XIDMPRECORD", args[1], producer, own_id, id.as_bytes()]);
    }
}

/// XTRIM to what is left.
pub(super) fn record_xtrim<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H) {
    let Some(options) = trimming(done, held) else {
        return done.record_state(held);
    };
    let mut words: Vec<&[u8]> = vec![b"XTRIM", done.call.args[1]];
    words.extend(options.words.iter().map(Vec::as_slice));
    done.add(&words);
}

/// A group of a stream, by their names.
#[derive(Clone, Copy)]
struct Name<'a> {
    key: &'a [u8],
    group: &'a [u8],
}

impl Name<'_> {
    fn look<H: Cells + ?Sized, T>(
        self,
        done: &Done<'_>,
        held: &mut H,
        f: impl FnOnce(&Group) -> T,
    ) -> Option<T> {
        let found = stream(done, held, self.key, |stream| {
            stream.groups().get(self.group).map(f)
        });
        found.flatten()
    }

    /// The entry as the group has it now: pending for somebody, or for nobody any more. `read`: the group has just read up to
    /// it; who applies this goes on there from where it was, entry by entry.
    fn record_entry<H: Cells + ?Sized>(
        self,
        done: &Done<'_>,
        held: &mut H,
        id: StreamId,
        read: bool,
    ) {
        let found = self.look(done, held, |group| {
            let pending = group.pending(id).copied()?;
            let consumer = group.name_of(pending.consumer).to_vec();
            Some((consumer, pending, if read { id } else { group.last_id }))
        });
        let id = id.to_string();
        let Some((consumer, pending, last)) = found.flatten() else {
            return done.add(&[b"XACK", self.key, self.group, id.as_bytes()]);
        };
        done.add(&[
            b"XCLAIM",
            self.key,
            self.group,
            &consumer,
            b"0",
            id.as_bytes(),
            b"TIME",
            pending.delivered_ms.to_string().as_bytes(),
            b"RETRYCOUNT",
            pending.count.to_string().as_bytes(),
            b"FORCE",
            b"JUSTID",
            b"LASTID",
            last.to_string().as_bytes(),
        ]);
    }

    /// How far the group has read.
    fn record_place<H: Cells + ?Sized>(self, done: &Done<'_>, held: &mut H) {
        let place = self.look(done, held, |group| (group.last_id, group.entries_read));
        if let Some((last, read)) = place {
            done.add(&[
                b"XGROUP",
                b"SETID",
                self.key,
                self.group,
                last.to_string().as_bytes(),
                b"ENTRIESREAD",
                read.to_string().as_bytes(),
            ]);
        }
    }

    fn record_consumer(self, done: &Done<'_>, consumer: &[u8]) {
        done.add(&[b"XGROUP", b"CREATECONSUMER", self.key, self.group, consumer]);
    }

    /// Whether the command has made a consumer.
    fn has_new_consumer(self, done: &Done<'_>) -> bool {
        let made = tollgate_commands::Event::XGroupCreateConsumer;
        done.effects
            .touches()
            .any(|touch| touch.event == made && touch.key == self.key)
    }
}

/// The IDs of a list of entries, or of IDs alone.
fn ids(entries: &Value) -> Vec<StreamId> {
    let id = |entry: &Value| match entry {
        Value::Array(parts) => parts
            .first()
            .and_then(|id| StreamId::parse(value_bytes(id), 0)),
        id => StreamId::parse(value_bytes(id), 0),
    };
    elements(entries.clone()).iter().filter_map(id).collect()
}

/// The IDs of the entries that were delivered before: with CLAIM each tells how often.
fn claimed(entries: &Value) -> Vec<StreamId> {
    let is_claimed = |entry: &Value| match entry {
        Value::Array(parts) => matches!(parts.get(3), Some(Value::Int(1..))),
        _ => false,
    };
    let entries = elements(entries.clone()).into_iter().filter(is_claimed);
    ids(&Value::Array(entries.collect()))
}

/// XREADGROUP: what was delivered, entry by entry; with NOACK how far the group has read.
pub(super) fn record_xreadgroup<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H, reply: &[Value]) {
    let args = done.call.args;
    let Some(streams) = args.iter().position(|word| is_one_of(word, &[b"STREAMS"])) else {
        return;
    };
    // STREAMS may be the name of the group or of the consumer, which stand behind GROUP.
    let grouped = args.iter().position(|word| is_one_of(word, &[b"GROUP"]));
    let Some(at) = grouped.filter(|at| at + 2 < args.len()) else {
        return;
    };
    let (group, consumer) = (args[at + 1], args[at + 2]);
    let streams = match streams {
        named if named == at + 1 || named == at + 2 => {
            let behind = args[at + 3..].iter();
            let more = behind
                .clone()
                .position(|word| is_one_of(word, &[b"STREAMS"]));
            at + 3 + more.unwrap_or(0)
        }
        streams => streams,
    };
    // So may NOACK.
    let no_ack = (args[..streams].iter().enumerate())
        .any(|(place, word)| !(at..at + 3).contains(&place) && is_one_of(word, &[b"NOACK"]));
    let names = &args[streams + 1..];
    let (keys, starts) = names.split_at(names.len() / 2);
    // The reply has them in this order, without those of which there was nothing; a key may be named twice.
    let mut asked = keys.iter().zip(starts);
    // In RESP2 the reply is a list of pairs, in RESP3 a map.
    let flat: Vec<Value> = match reply.first() {
        Some(Value::Array(_)) => reply.iter().cloned().flat_map(elements).collect(),
        _ => reply.to_vec(),
    };
    for pair in flat.chunks_exact(2) {
        let key = value_bytes(&pair[0]);
        let name = Name { key, group };
        let start = asked.find(|(one, _)| **one == key);
        let is_new = start.is_some_and(|(_, start)| {
            *start == b">" || StreamId::parse(start, 0) == Some(StreamId::MAX)
        });
        let delivered = if is_new { ids(&pair[1]) } else { Vec::new() };
        // What others had left is pending, whatever becomes of what is new.
        let pending = match no_ack {
            true if is_new => claimed(&pair[1]),
            true => Vec::new(),
            false => delivered.clone(),
        };
        if pending.is_empty() && name.has_new_consumer(done) {
            name.record_consumer(done, consumer);
        }
        if delivered.is_empty() {
            continue;
        }
        for id in pending {
            name.record_entry(done, held, id, true);
        }
        if no_ack {
            // No entries tell where it stands.
            name.record_place(done, held);
        }
    }
}

/// XCLAIM: the entries it names, as the group has them now.
pub(super) fn record_xclaim<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H) {
    let args = done.call.args;
    let name = Name {
        key: args[1],
        group: args[2],
    };
    let named = args[5..].iter().map_while(|word| StreamId::parse(word, 0));
    for id in named {
        name.record_entry(done, held, id, false);
    }
    if args[5..].iter().any(|word| is_one_of(word, &[b"LASTID"])) {
        name.record_place(done, held);
    }
}

/// XAUTOCLAIM: what it has claimed, and what it has found gone.
pub(super) fn record_xautoclaim<H: Cells + ?Sized>(done: &Done<'_>, held: &mut H, reply: &[Value]) {
    let args = done.call.args;
    let name = Name {
        key: args[1],
        group: args[2],
    };
    for entries in reply.iter().skip(1) {
        for id in ids(entries) {
            name.record_entry(done, held, id, false);
        }
    }
    if name.has_new_consumer(done) && reply.get(1).is_none_or(|it| ids(it).is_empty()) {
        name.record_consumer(done, args[3]);
    }
}
