//! Producers that give their messages IDs: the options of XADD, XCFGSET and XIDMPRECORD.

use std::borrow::Cow;

use tollgate_containers::stream::{
    DURATION_SECS, MOST_IDS, Memory, Recorded, Stream, StreamId, id_of_message,
};

use super::ids;
use crate::{Args, Change, CmdError, Create, Cx, Origin, Reply, StoreLimits};

/// IDMP or IDMPAUTO of XADD.
#[derive(Clone, Copy)]
pub(super) struct Once<'a> {
    producer: &'a [u8],
    /// The ID that the producer has given; `None` to make one of fields and values.
    own_id: Option<&'a [u8]>,
}

impl<'a> Once<'a> {
    /// Takes the option, if it is there. `present`: it was there before.
    pub(super) fn option(args: &mut Args<'a>, present: bool) -> Result<Option<Once<'a>>, CmdError> {
        let is_auto = args.len() > 1 && args.keyword("IDMPAUTO");
        let is_named = !is_auto && args.len() > 2 && args.keyword("IDMP");
        if !is_auto && !is_named {
            return Ok(None);
        }
        let refused = |text: &'static str| Err(CmdError::err(format!("syntax error, {text}")));
        if present {
            return refused("IDMP/IDMPAUTO specified multiple times");
        }
        let producer = args.next()?;
        if producer.is_empty() {
            return match is_auto {
                true => refused("IDMPAUTO requires a non-empty producer ID"),
                false => refused("IDMP requires a non-empty producer ID"),
            };
        }
        let own_id = match is_auto {
            true => None,
            false => Some(args.next()?),
        };
        if own_id.is_some_and(<[u8]>::is_empty) {
            return refused("IDMP requires a non-empty idempotent ID");
        }
        Ok(Some(Once { producer, own_id }))
    }

    /// The ID of a message of these fields and values.
    fn own_id(&self, words: &[&[u8]]) -> Cow<'a, [u8]> {
        match self.own_id {
            Some(own_id) => Cow::Borrowed(own_id),
            None => Cow::Owned(id_of_message(words).to_vec()),
        }
    }

    /// The entry of a message that was added before.
    pub(super) fn repeated(
        &self,
        change: &mut Change<'_, Stream>,
        words: &[&[u8]],
    ) -> Option<StreamId> {
        let now_ms = change.now_ms;
        let producers = change.value.producers_mut()?;
        let found = producers.find(self.producer, &self.own_id(words), now_ms);
        producers.duplicates += u64::from(found.is_some());
        found
    }

    /// Remembers the entry of a message, which is not [`Once::repeated`], or which a master has added.
    pub(super) fn remember(&self, change: &mut Change<'_, Stream>, words: &[&[u8]], id: StreamId) {
        let own_id = self.own_id(words);
        record(change, true, (self.producer, &own_id), id);
    }
}

/// How much streams remember that are new.
fn at_first(limits: &StoreLimits) -> Memory {
    let number = |limit: i64| u64::try_from(limit).unwrap_or(1);
    Memory {
        duration_secs: number(limits.stream_idmp_duration()),
        most: number(limits.stream_idmp_maxsize()),
    }
}

/// Lets a stream that is new remember as much as the settings say.
pub(super) fn begin(change: &mut Change<'_, Stream>) {
    if !change.is_new {
        return;
    }
    let memory = at_first(change.limits);
    if memory != Memory::default() {
        change.value.with_producers().remember(memory);
    }
}

/// Remembers an entry. `obeys`: whatever was remembered of its ID gives way.
fn record(
    change: &mut Change<'_, Stream>,
    obeys: bool,
    (producer, own_id): (&[u8], &[u8]),
    id: StreamId,
) -> Recorded {
    let now_ms = change.now_ms;
    let producers = change.value.with_producers();
    match producers.record(producer, own_id, id, now_ms) {
        Recorded::Other if obeys => {
            producers.forget(producer, own_id);
            producers.record(producer, own_id, id, now_ms)
        }
        recorded => recorded,
    }
}

pub(super) fn xcfgset(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    if cx.find_as::<Stream>(key)?.is_none() {
        return Err(CmdError::NoSuchKey);
    }
    let (mut duration, mut most) = (None, None);
    while !args.is_empty() {
        let more = args.len() > 1;
        if more && args.keyword("IDMP-DURATION") {
            if duration.is_some() {
                return Err(CmdError::err("IDMP-DURATION specified multiple times"));
            }
            let secs = u64::try_from(args.int()?).ok();
            duration = secs.filter(|secs| DURATION_SECS.contains(secs));
            if duration.is_none() {
                return Err(CmdError::err(
                    "IDMP-DURATION must be between 1 and 86400 seconds",
                ));
            }
        } else if more && args.keyword("IDMP-MAXSIZE") {
            if most.is_some() {
                return Err(CmdError::err("IDMP-MAXSIZE specified multiple times"));
            }
            let count = u64::try_from(args.int()?).ok();
            most = count.filter(|count| MOST_IDS.contains(count));
            if most.is_none() {
                return Err(CmdError::err(
                    "IDMP-MAXSIZE must be between 1 and 10000 entries",
                ));
            }
        } else {
            return Err(CmdError::Syntax);
        }
    }
    if duration.is_none() && most.is_none() {
        return Err(CmdError::err("At least one parameter must be specified"));
    }
    cx.change::<Stream, _>(key, Create::No, |change| {
        let present = change.value.producers().map(|producers| producers.memory());
        let present = present.unwrap_or_default();
        let memory = Memory {
            duration_secs: duration.unwrap_or(present.duration_secs),
            most: most.unwrap_or(present.most),
        };
        if memory != present {
            change.value.with_producers().remember(memory);
            change.count_more(1);
        }
        Ok(())
    })?;
    Ok(Reply::Ok)
}

pub(super) fn xidmprecord(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (producer, own_id) = (args.next()?, args.next()?);
    let id = ids::id(args.next()?)?;
    if producer.is_empty() {
        return Err(CmdError::err("producer ID must be non-empty"));
    }
    if own_id.is_empty() {
        return Err(CmdError::err("idempotent ID must be non-empty"));
    }
    // Their clocks may say that what a master has forgotten is still to be remembered.
    let obeys = matches!(cx.origin, Origin::Replay | Origin::Replica);
    let recorded = cx.change::<Stream, _>(key, Create::No, |change| {
        if change.value.log().get(id).is_none() {
            return Err(CmdError::err("No such message in stream"));
        }
        match record(change, obeys, (producer, own_id), id) {
            Recorded::New => change.count_more(1),
            Recorded::Same => {}
            Recorded::Other => {
                return Err(CmdError::err(
                    "IID already exists for this producer with a different stream ID",
                ));
            }
        }
        Ok(Reply::Ok)
    })?;
    recorded.ok_or(CmdError::NoSuchKey)
}
