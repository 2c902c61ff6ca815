//! RL.ACQUIRE and RL.RELEASE: what may be in use at the same time.

use tollgate_limiter::codec::ID_MAX;
use tollgate_limiter::leases::Leases;
use tollgate_limiter::{Act, Cost, Decision, Ledger, Method, Nanos, Quota, SlotRequest, Timestamp};

use super::rule::{NANOS_PER_MS, PERIOD_MAX_MS, cost, integer};
use super::state::{InPlace, act_on_copy, in_place, load, store};
use super::{reply, tally};
use crate::{Args, CmdError, Cx, Reply};

/// The next word as the name of a lease or reservation.
pub(super) fn id<'a>(args: &mut Args<'a>) -> Result<&'a [u8], CmdError> {
    let id = args.next()?;
    if id.len() > ID_MAX {
        return Err(CmdError::IdTooLong);
    }
    Ok(id)
}

pub(super) fn acquire(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let id = id(&mut args)?;
    let limit = integer(&mut args, 0, i64::MAX, CmdError::LimitOutOfRange)?;
    let ttl = integer(&mut args, 1, PERIOD_MAX_MS, CmdError::DurationOutOfRange)? * NANOS_PER_MS;
    let (mut weight, mut peek) = (Cost(1), false);
    while !args.is_empty() {
        if args.keyword("COST") {
            weight = cost(&mut args)?;
        } else if args.keyword("PEEK") {
            peek = true;
        } else {
            return Err(CmdError::Syntax);
        }
    }
    let now = cx.now;
    let decided = in_place(cx, key, |ledger| {
        let Ledger::Leases(leases) = ledger else {
            return Err(CmdError::OtherAlgorithm);
        };
        Ok(decide(leases, id, limit, weight, ttl, peek, now))
    })?;
    let decision = match decided {
        Some(decision) => decision,
        None => {
            let act = match peek {
                true => Act::Peek,
                false => Act::Hold { id, ttl },
            };
            let request = SlotRequest {
                method: Method::Concurrency,
                quota: Quota::new(limit, 1),
                cost: weight,
                act,
                slot: 0,
            };
            act_on_copy(cx, key, &request)?
        }
    };
    if !peek {
        tally(cx, key, weight, decision.allowed);
    }
    Ok(reply(cx, &decision))
}

/// Decides, and tells the new expiry of the key when a lease was taken.
fn decide(
    leases: &mut Leases,
    id: &[u8],
    limit: u64,
    cost: Cost,
    ttl: Nanos,
    peek: bool,
    now: Timestamp,
) -> InPlace<Decision> {
    if peek {
        return (leases.peek(limit, cost, now), None);
    }
    let decision = leases.acquire(id, limit, cost, ttl, now);
    let taken = decision.allowed && cost.0 > 0;
    let expires_at = leases.expires_at().filter(|_| taken);
    (decision, expires_at.map(|at| at.millis_ceil()))
}

pub(super) fn release(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let id = id(&mut args)?;
    let now = cx.now;
    let released = in_place(cx, key, |ledger| {
        let Ledger::Leases(leases) = ledger else {
            return Err(CmdError::OtherAlgorithm);
        };
        let released = leases.release(id, now);
        let expires = leases.expires_at().map_or(0, |at| at.millis_ceil());
        Ok((released, released.map(|_| expires)))
    })?;
    match released {
        Some(units) => Ok(Reply::Int(units.map_or(0, super::units))),
        None => {
            let mut slot = load(cx, key)?;
            let units = slot.release(id, now)?;
            if units > 0 {
                store(cx, key, slot);
            }
            Ok(Reply::Int(super::units(units)))
        }
    }
}
