//! RL.RESERVE, RL.COMMIT and RL.CANCEL: units taken before their number is known.

use tollgate_keyspace::Key;
use tollgate_limiter::{Act, Ledger, Method, SlotRequest};

use super::lease::id;
use super::rule::{Ask, NANOS_PER_MS, Options, PERIOD_MAX_MS, integer};
use super::state::{act_on_copy, in_place, load, store};
use super::{reply, tally};
use crate::{Args, CmdError, Cx, Reply};

pub(super) fn reserve(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let id = id(&mut args)?;
    let ttl = integer(&mut args, 1, PERIOD_MAX_MS, CmdError::DurationOutOfRange)? * NANOS_PER_MS;
    let ask = Ask::parse(&mut args, Options::Cost)?;
    let Method::Small(kind) = ask.method else {
        return Err(CmdError::NoReservationsOnLogs);
    };
    let now = cx.now;
    let reserved = in_place(cx, key, |ledger| {
        let Ledger::Holds(holds) = ledger else {
            return Err(CmdError::OtherAlgorithm);
        };
        let decision = holds.reserve(id, kind, &ask.quota, ask.cost, ttl, now)?;
        let expires = holds.expires_at_ms();
        Ok((decision, decision.allowed.then_some(expires)))
    })?;
    let decision = match reserved {
        Some(decision) => decision,
        None => {
            let request = SlotRequest {
                method: ask.method,
                quota: ask.quota,
                cost: ask.cost,
                act: Act::Hold { id, ttl },
                slot: 0,
            };
            act_on_copy(cx, key, &request)?
        }
    };
    tally(cx, key, ask.cost, decision.allowed);
    Ok(reply(cx, &decision))
}

pub(super) fn commit(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let id = id(&mut args)?;
    let actual = integer(&mut args, 0, i64::MAX, CmdError::CostOutOfRange)?;
    end(cx, key, id, actual)
}

pub(super) fn cancel(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let id = id(&mut args)?;
    end(cx, key, id, 0)
}

/// The cost that counts, the units given back, and whether the reservation had ended before; null when it is unknown.
fn end(cx: &mut Cx<'_>, key: Key<'_>, id: &[u8], actual: u64) -> Result<Reply, CmdError> {
    let now = cx.now;
    let ended = in_place(cx, key, |ledger| {
        let Ledger::Holds(holds) = ledger else {
            return Err(CmdError::OtherAlgorithm);
        };
        let ended = holds.end(id, actual, now)?;
        let changed = ended.is_some_and(|ended| !ended.before);
        Ok((ended, changed.then(|| holds.expires_at_ms())))
    })?;
    let ended = match ended {
        Some(ended) => ended,
        None => {
            let mut slot = load(cx, key)?;
            let ended = slot.end(id, actual, now)?;
            if ended.is_some_and(|ended| !ended.before) {
                store(cx, key, slot);
            }
            ended
        }
    };
    let Some(ended) = ended else {
        return Ok(Reply::NullArray);
    };
    let out = &mut cx.out;
    out.array(3);
    out.int(super::units(ended.actual));
    out.int(super::units(ended.released));
    out.int(i64::from(ended.before));
    Ok(Reply::Written)
}
