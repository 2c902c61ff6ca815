//! XREADGROUP.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tollgate_containers::stream::{ConsumerIndex, Group, Log, Pending, Stream, StreamId};
use tollgate_wire::resp::ReplyBuf;

use super::read::{Request, write_head, write_key};
use super::{ids, write_delivered, write_entry, write_id};
use crate::{Args, Change, CmdError, Create, Cx, Event, Reply};

/// How soon, at the earliest and at the latest, one who waits for entries to be claimed is looked after, in milliseconds: they may
/// be delivered to others, or grow older by XCLAIM, while it waits.
const LOOKS_MS: (i64, i64) = (10, 1_000);

/// What one stream is asked for.
#[derive(Clone, Copy)]
enum From {
    /// What was never delivered.
    New,
    /// What this consumer has not acknowledged, behind the ID.
    Own(StreamId),
}

impl From {
    fn parse(word: &[u8]) -> Result<From, CmdError> {
        match word {
            b"$" => Err(CmdError::err(
                "The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this \
                 consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just \
                 return an empty result set.",
            )),
            b">" => Ok(From::New),
            word => Ok(match ids::id(word)? {
                StreamId::MAX => From::New,
                id => From::Own(id),
            }),
        }
    }
}

pub(super) fn xreadgroup(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let request = Request::parse(cx, args, true)?;
    let Some((group, consumer)) = request.group else {
        return Err(CmdError::Syntax);
    };
    let mut ready = Vec::new();
    // When the first entry can be claimed, of all streams.
    let mut look_at_ms = None;
    // How often a stream that is named again was read before.
    let mut earlier: BTreeMap<&[u8], usize> = BTreeMap::new();
    for at in 0..request.streams {
        let key = request.key(cx.seed, at);
        let tail = " in XREADGROUP with GROUP option";
        let missing = || ids::no_group(key.bytes(), group, tail);
        let now_ms = cx.now_ms();
        let seen = cx.read_as::<Stream>(key)?.ok_or_else(missing)?;
        let state = seen.value.groups().get(group).ok_or_else(missing)?;
        let last_id = state.last_id;
        let from = From::parse(request.id_word(at))?;
        let log = seen.value.log();
        let idle = match (from, request.claim) {
            (From::New, Some(idle_ms)) => {
                oldest(state, log).map(|delivered_ms| delivered_ms.saturating_add(idle_ms))
            }
            _ => None,
        };
        look_at_ms = [look_at_ms, idle].into_iter().flatten().min();
        let is_ready = match from {
            From::Own(_) => true,
            From::New if idle.is_some_and(|since| since <= now_ms) => true,
            From::New if log.last().is_none_or(|last| last.id() <= last_id) => false,
            From::New if request.streams == 1 => true,
            From::New => {
                let times = earlier.entry(key.bytes()).or_default();
                let taken = times.saturating_mul(request.most());
                *times += 1;
                let start = last_id.next().unwrap_or(StreamId::MAX);
                log.range(start, StreamId::MAX).nth(taken).is_some()
            }
        };
        if is_ready {
            ready.push((at, from));
        }
    }
    request.look_again(cx);
    if ready.is_empty() {
        let look_at_ms = request.claim.map(|idle_ms| {
            let again = cx.now_ms() + idle_ms.clamp(LOOKS_MS.0, LOOKS_MS.1);
            look_at_ms.map_or(again, |at: i64| at.min(again))
        });
        return Ok(request.wait(cx, None, look_at_ms));
    }
    write_head(cx.out, ready.len());
    for (at, from) in ready {
        let key = request.key(cx.seed, at);
        cx.change::<Stream, _>(key, Create::No, |change| {
            write_key(change.out, key.bytes());
            serve(change, &request, (group, consumer), from);
            Ok(())
        })?;
    }
    Ok(Reply::Written)
}

/// When the longest idle entry of those that are still there was delivered, in Unix milliseconds.
fn oldest(group: &Group, log: &Log) -> Option<i64> {
    let mut oldest = None;
    for (id, pending) in group.pending_from(StreamId::MIN) {
        let is_older = oldest.is_none_or(|oldest| pending.delivered_ms < oldest);
        // Looking an entry up costs more than all else here.
        if is_older && log.get(*id).is_some() {
            oldest = Some(pending.delivered_ms);
        }
    }
    oldest
}

/// Gives the consumer what it asks of one stream.
fn serve(
    change: &mut Change<'_, Stream>,
    request: &Request<'_>,
    (group, consumer): (&[u8], &[u8]),
    from: From,
) {
    let now_ms = change.now_ms;
    let (log, groups) = change.value.parts_mut();
    let Some(mut group) = groups.get_mut(group) else {
        return change.out.array(0);
    };
    let created = group.add_consumer(consumer, now_ms);
    let Some(index) = created.or_else(|| group.find(consumer)) else {
        return change.out.array(0);
    };
    if let Some(consumer) = group.consumer_mut(index) {
        consumer.seen_ms = now_ms;
    }
    let reading = Reading {
        log,
        consumer: index,
        now_ms,
        most: request.most(),
        no_ack: request.no_ack,
        claim: request.claim,
    };
    match from {
        From::New => reading.new_entries(&mut group, change.out),
        From::Own(after) => reading.own_entries(&mut group, after, change.out),
    }
    drop(group);
    if created.is_some() {
        change.touched(Event::XGroupCreateConsumer);
    }
    change.count_more(1);
}

/// A consumer at work on one stream.
struct Reading<'a> {
    log: &'a Log,
    consumer: ConsumerIndex,
    now_ms: i64,
    most: usize,
    no_ack: bool,
    claim: Option<i64>,
}

impl Reading<'_> {
    fn new_entries(&self, group: &mut Group, out: &mut ReplyBuf) {
        let place = out.defer_array();
        let start = group.last_id.next().unwrap_or(StreamId::MAX);
        let mut written = match self.claim {
            Some(idle_ms) => self.claimed(group, self.now_ms.saturating_sub(idle_ms), out),
            None => 0,
        };
        for entry in self
            .log
            .range(start, StreamId::MAX)
            .take(self.most - written)
        {
            group.advance(self.log, entry.id());
            match self.claim {
                Some(_) => write_delivered(out, entry, 0, 0),
                None => write_entry(out, entry),
            }
            if !self.no_ack {
                group.deliver(entry.id(), self.delivery(1));
            }
            written += 1;
        }
        out.close_array(place, written);
    }

    /// Takes over what was delivered to anybody until `until_ms`, the oldest delivery first, and returns how many entries
    /// that were. What is gone from the stream stays with whom it was delivered to.
    fn claimed(&self, group: &mut Group, until_ms: i64, out: &mut ReplyBuf) -> usize {
        // Few of many are wanted, as a rule: a heap puts no others in order.
        let mut idle: BinaryHeap<Reverse<(i64, StreamId, u64)>> = group
            .pending_from(StreamId::MIN)
            .filter(|(_, pending)| pending.delivered_ms <= until_ms)
            .map(|(&id, pending)| Reverse((pending.delivered_ms, id, pending.count)))
            .collect();
        let mut written = 0;
        while written < self.most
            && let Some(Reverse((delivered_ms, id, count))) = idle.pop()
        {
            let Some(entry) = self.log.get(id) else {
                continue;
            };
            let idle_ms = self.now_ms.saturating_sub(delivered_ms);
            write_delivered(out, entry, idle_ms, count);
            group.deliver(id, self.delivery(count.wrapping_add(1)));
            written += 1;
        }
        written
    }

    /// What was delivered to the consumer before; an entry that is gone comes without fields.
    fn own_entries(&self, group: &mut Group, after: StreamId, out: &mut ReplyBuf) {
        let start = after.next().unwrap_or(StreamId::MAX);
        let own = group.consumer(self.consumer);
        let ids: Vec<StreamId> = own
            .map(|own| own.pending_from(start).take(self.most).collect())
            .unwrap_or_default();
        out.array(ids.len());
        for id in ids {
            let Some(entry) = self.log.get(id) else {
                out.array(2);
                write_id(out, id);
                out.null_array();
                continue;
            };
            write_entry(out, entry);
            let count = group.pending(id).map_or(0, |pending| pending.count);
            group.deliver(id, self.delivery(count.wrapping_add(1)));
        }
    }

    fn delivery(&self, count: u64) -> Pending {
        Pending {
            consumer: self.consumer,
            delivered_ms: self.now_ms,
            count,
        }
    }
}
