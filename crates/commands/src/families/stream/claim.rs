//! XCLAIM, XAUTOCLAIM.

use tollgate_containers::stream::{ConsumerIndex, Entry, Group, Log, Pending, Stream, StreamId};

use super::{ids, write_entry, write_id};
use crate::{Args, CmdError, Create, Cx, Event, Reply};

/// What the claimer asks for.
#[derive(Default)]
struct Claim {
    /// Milliseconds since the last delivery, at least.
    idle: i64,
    /// The time of delivery that is noted, Unix milliseconds.
    delivered_ms: i64,
    retries: Option<u64>,
    force: bool,
    just_id: bool,
}

/// The consumer who claims; created when it gets its first entry.
struct Claimer<'a> {
    name: &'a [u8],
    index: Option<ConsumerIndex>,
    created: bool,
}

impl<'a> Claimer<'a> {
    fn new(name: &'a [u8]) -> Claimer<'a> {
        Claimer {
            name,
            index: None,
            created: false,
        }
    }

    fn index(&mut self, group: &mut Group, now_ms: i64) -> Option<ConsumerIndex> {
        if self.index.is_none() {
            self.index = group.find(self.name);
            match self.index.and_then(|index| group.consumer_mut(index)) {
                Some(consumer) => consumer.seen_ms = now_ms,
                None => {
                    self.index = group.add_consumer(self.name, now_ms);
                    self.created = true;
                }
            }
        }
        self.index
    }
}

/// XCLAIM's words behind the consumer's name.
fn options(args: &mut Args<'_>, now_ms: i64) -> Result<(Claim, Vec<StreamId>, StreamId), CmdError> {
    let idle = ids::int_or(args, "Invalid min-idle-time argument for XCLAIM")?;
    let mut claimed = Vec::new();
    while let Some(id) = args.peek().and_then(|word| StreamId::parse(word, 0)) {
        args.next()?;
        claimed.push(id);
    }
    let mut claim = Claim {
        idle: idle.max(0),
        ..Claim::default()
    };
    let (mut delivered, mut last_id) = (None, StreamId::MIN);
    while !args.is_empty() {
        let more = args.len() > 1;
        if args.keyword("FORCE") {
            claim.force = true;
        } else if args.keyword("JUSTID") {
            claim.just_id = true;
        } else if more && args.keyword("IDLE") {
            let idle = ids::int_or(args, "Invalid IDLE option argument for XCLAIM")?;
            delivered = Some(now_ms.wrapping_sub(idle));
        } else if more && args.keyword("TIME") {
            delivered = Some(ids::int_or(
                args,
                "Invalid TIME option argument for XCLAIM",
            )?);
        } else if more && args.keyword("RETRYCOUNT") {
            let count = ids::int_or(args, "Invalid RETRYCOUNT option argument for XCLAIM")?;
            claim.retries = u64::try_from(count).ok();
        } else if more && args.keyword("LASTID") {
            last_id = ids::id(args.next()?)?;
        } else {
            let word = args
                .next()?
                .split(|&byte| byte == 0)
                .next()
                .unwrap_or_default();
            return Err(CmdError::err(
                [b"Unrecognized XCLAIM option '", word, b"'"].concat(),
            ));
        }
    }
    // A time that makes no sense, from a clock ahead of this one, stands for now.
    let sensible = delivered.filter(|at| (0..=now_ms).contains(at));
    claim.delivered_ms = sensible.unwrap_or(now_ms);
    Ok((claim, claimed, last_id))
}

pub(super) fn xclaim(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (name, consumer) = (args.next()?, args.next()?);
    let no_group = || ids::no_group(key.bytes(), name, "");
    cx.look(key, |_| ()).ok_or_else(no_group)?;
    let applied = cx.origin.is_applied();
    let claimed = cx.change::<Stream, _>(key, Create::No, |change| {
        let now = change.now_ms;
        let (log, groups) = change.value.parts_mut();
        let mut group = groups.get_mut(name).ok_or_else(no_group)?;
        let (claim, ids, last_id) = options(&mut args, now)?;
        let mut changes = u64::from(last_id > group.last_id);
        if applied {
            // It stands for an XREADGROUP, which counts what the group has read.
            group.advance(log, last_id);
        }
        group.last_id = group.last_id.max(last_id);
        let mut claimer = Claimer::new(consumer);
        let place = change.out.defer_array();
        let mut written = 0;
        for id in ids {
            let Some(entry) = log.get(id) else {
                changes += u64::from(group.acknowledge(id));
                continue;
            };
            let known = group.pending(id).copied();
            let idle = |pending: &Pending| now.wrapping_sub(pending.delivered_ms);
            match &known {
                None if !claim.force => continue,
                Some(pending) if claim.idle > 0 && idle(pending) < claim.idle => continue,
                _ => {}
            }
            let Some(consumer) = claimer.index(&mut group, now) else {
                continue;
            };
            let before = known.map_or(1, |pending| pending.count);
            let count = match claim.retries {
                Some(count) => count,
                None => before.wrapping_add(u64::from(!claim.just_id)),
            };
            let delivered_ms = claim.delivered_ms;
            group.deliver(
                id,
                Pending {
                    consumer,
                    delivered_ms,
                    count,
                },
            );
            match claim.just_id {
                true => write_id(change.out, id),
                false => write_entry(change.out, entry),
            }
            written += 1;
        }
        change.out.close_array(place, written);
        drop(group);
        if claimer.created {
            change.touched(Event::XGroupCreateConsumer);
        }
        change.count_more(changes + written as u64);
        Ok(Reply::Written)
    })?;
    claimed.ok_or_else(no_group)
}

/// Entries that XAUTOCLAIM looks at for each that it may claim.
const LOOKS_PER_ENTRY: u64 = 10;
/// Most entries that XAUTOCLAIM may be asked for.
const COUNT_MAX: i64 = i64::MAX / 16;

pub(super) fn xautoclaim(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let found = cx.look(key, |_| ());
    let (name, consumer) = (args.next()?, args.next()?);
    let idle = ids::int_or(&mut args, "Invalid min-idle-time argument for XAUTOCLAIM")?.max(0);
    let start = ids::start(args.next()?)?;
    let (mut count, mut just_id) = (100, false);
    while !args.is_empty() {
        if args.len() > 1 && args.keyword("COUNT") {
            let wrong = "COUNT must be > 0";
            count = ids::int_or(&mut args, wrong)?;
            if !(1..=COUNT_MAX).contains(&count) {
                return Err(CmdError::err(wrong));
            }
        } else if args.keyword("JUSTID") {
            just_id = true;
        } else {
            return Err(CmdError::Syntax);
        }
    }
    let wanted = Wanted {
        start,
        idle,
        count: count as u64,
        just_id,
    };
    let no_group = || ids::no_group(key.bytes(), name, "");
    found.ok_or_else(no_group)?;
    let claimed = cx.change::<Stream, _>(key, Create::No, |change| {
        let now = change.now_ms;
        let (log, groups) = change.value.parts_mut();
        let mut group = groups.get_mut(name).ok_or_else(no_group)?;
        let mut claimer = Claimer::new(consumer);
        let found = wanted.claim(log, &mut group, &mut claimer, now);
        drop(group);
        let out = &mut *change.out;
        out.array(3);
        write_id(out, found.next.unwrap_or(StreamId::MIN));
        out.array(found.claimed.len());
        for entry in &found.claimed {
            match just_id {
                true => write_id(out, entry.id()),
                false => write_entry(out, *entry),
            }
        }
        out.array(found.gone.len());
        found.gone.iter().for_each(|&id| write_id(out, id));
        let changes = (found.claimed.len() + found.gone.len()) as u64;
        if claimer.created {
            change.touched(Event::XGroupCreateConsumer);
        }
        change.count_more(changes);
        Ok(Reply::Written)
    })?;
    claimed.ok_or_else(no_group)
}

/// What XAUTOCLAIM is asked for.
struct Wanted {
    start: StreamId,
    /// Milliseconds since the last delivery, at least.
    idle: i64,
    /// Most entries to claim or to find gone.
    count: u64,
    just_id: bool,
}

/// What XAUTOCLAIM has found.
struct Found<'a> {
    claimed: Vec<Entry<'a>>,
    /// Pending entries that are not in the stream any more.
    gone: Vec<StreamId>,
    /// The pending entry to go on with.
    next: Option<StreamId>,
}

impl Wanted {
    fn claim<'a>(
        &self,
        log: &'a Log,
        group: &mut Group,
        claimer: &mut Claimer<'_>,
        now_ms: i64,
    ) -> Found<'a> {
        let mut found = Found {
            claimed: Vec::new(),
            gone: Vec::new(),
            next: None,
        };
        let (mut looks, mut left) = (self.count * LOOKS_PER_ENTRY, self.count);
        let mut from = Some(self.start);
        while looks > 0 && left > 0 {
            let pending = from.and_then(|from| group.pending_from(from).next());
            let Some((&id, &pending)) = pending else {
                return found;
            };
            looks -= 1;
            from = id.next();
            let Some(entry) = log.get(id) else {
                group.acknowledge(id);
                found.gone.push(id);
                left -= 1;
                continue;
            };
            if self.idle > 0 && now_ms.wrapping_sub(pending.delivered_ms) < self.idle {
                continue;
            }
            if let Some(consumer) = claimer.index(group, now_ms) {
                let count = pending.count.wrapping_add(u64::from(!self.just_id));
                let delivery = Pending {
                    consumer,
                    delivered_ms: now_ms,
                    count,
                };
                group.deliver(id, delivery);
                found.claimed.push(entry);
            }
            left -= 1;
        }
        let next = from.and_then(|from| group.pending_from(from).next());
        found.next = next.map(|(id, _)| *id);
        found
    }
}
