//! RL.TAKE, RL.MTAKE, RL.REFUND and RL.LEASE.

use smallvec::{SmallVec, smallvec};
use tollgate_keyspace::{Key, Object, Value, ValueRef, firsts};
use tollgate_limiter::{
    Advance, AlgorithmKind, Cost, Decision, Ledger, Method, Slot, SlotRequest, decide_slots,
};

use super::rule::{Ask, Options};
use super::state::{in_place, load, record, store};
use super::{five, reply, tally};
use crate::{Args, CmdError, Cx, Event, Reply};

pub(super) fn take(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let ask = Ask::parse(&mut args, Options::Take)?;
    let decision = decide(cx, key, &ask)?;
    if !ask.peek {
        tally(cx, key, ask.cost, decision.allowed);
    }
    Ok(reply(cx, &decision))
}

/// Decides on the entry itself; the way of nearly all decisions.
#[inline]
fn decide(cx: &mut Cx<'_>, key: Key<'_>, ask: &Ask<'_>) -> Result<Decision, CmdError> {
    let Method::Small(kind) = ask.method else {
        return decide_log(cx, key, ask);
    };
    let now = cx.now;
    let Some(mut entry) = cx.write(key) else {
        let (decision, next) = kind.decide(None, &ask.quota, ask.cost, now)?;
        if let Some(next) = next.filter(|_| !ask.peek) {
            let value = Value::Limiter(next.state);
            cx.set(key, value, Some(next.expires_at_ms), Event::RateLimit);
        }
        return Ok(decision);
    };
    let expiry = entry.expires_at_ms();
    let state = match entry.value() {
        ValueRef::Limiter(state) => state,
        ValueRef::Object(Object::Ledger(_)) => return decide_held(cx, key, kind, ask),
        _ => return Err(CmdError::WrongType),
    };
    let record = record(state, expiry);
    let (decision, next) = kind.decide(Some(record), &ask.quota, ask.cost, now)?;
    if let Some(next) = next.filter(|_| !ask.peek) {
        let entry = entry.change(Event::RateLimit);
        entry.set_limiter(next.state);
        if expiry != Some(next.expires_at_ms) {
            entry.set_expiry(Some(next.expires_at_ms));
        }
    }
    Ok(decision)
}

/// A log is changed in its place: it may be long.
fn decide_log(cx: &mut Cx<'_>, key: Key<'_>, ask: &Ask<'_>) -> Result<Decision, CmdError> {
    let now = cx.now;
    let decided = in_place(cx, key, |ledger| {
        let Ledger::Log(log) = ledger else {
            return Err(CmdError::OtherAlgorithm);
        };
        let decision = log.decide(&ask.quota, ask.cost, ask.peek, now);
        let changed = decision.allowed && !ask.peek && ask.cost.0 > 0;
        let expires_at = log.expires_at(&ask.quota).filter(|_| changed);
        Ok((decision, expires_at.map(|at| at.millis_ceil())))
    })?;
    match decided {
        Some(decision) => Ok(decision),
        None => decide_slot(cx, key, ask),
    }
}

/// A state with reservations on it is changed in its place: there may be many.
fn decide_held(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    kind: AlgorithmKind,
    ask: &Ask<'_>,
) -> Result<Decision, CmdError> {
    let now = cx.now;
    let decided = in_place(cx, key, |ledger| {
        let Ledger::Holds(holds) = ledger else {
            return Err(CmdError::OtherAlgorithm);
        };
        holds.expire(now)?;
        if holds.is_empty() {
            // From now on it is a small state.
            return Ok((None, None));
        }
        let (decision, next) = kind.decide(holds.base, &ask.quota, ask.cost, now)?;
        let next = next.filter(|_| !ask.peek);
        holds.base = next.or(holds.base);
        Ok((Some(decision), next.map(|_| holds.expires_at_ms())))
    })?;
    match decided.flatten() {
        Some(decision) => Ok(decision),
        None => decide_slot(cx, key, ask),
    }
}

/// Decides on a copy, which is stored if it has changed.
fn decide_slot(cx: &mut Cx<'_>, key: Key<'_>, ask: &Ask<'_>) -> Result<Decision, CmdError> {
    let now = cx.now;
    let mut slot = load(cx, key)?;
    let (decision, changed) = slot.decide(ask.method, &ask.quota, ask.cost, ask.peek, now)?;
    if changed {
        store(cx, key, slot);
    }
    Ok(decision)
}

pub(super) fn mtake(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let count = args.int()?;
    let keys: Vec<Key<'_>> = (0..count).map(|_| args.key()).collect::<Result<_, _>>()?;
    let mut asks = Vec::with_capacity(keys.len());
    while !args.is_empty() {
        asks.push(Ask::parse(&mut args, Options::Many)?);
    }
    if asks.len() != keys.len() || asks.is_empty() {
        return Err(CmdError::OneLimiterPerKey);
    }
    // Limiters on the same key share what it holds.
    let mut slots: SmallVec<[Slot; 4]> = SmallVec::new();
    let mut places: SmallVec<[usize; 4]> = SmallVec::new();
    let mut owners: SmallVec<[Key<'_>; 4]> = SmallVec::new();
    for (at, (key, first)) in keys.iter().zip(firsts(&keys)).enumerate() {
        let place = if first < at {
            places[first]
        } else {
            slots.len()
        };
        places.push(place);
        if first == at {
            slots.push(load(cx, *key)?);
            owners.push(*key);
        }
    }
    let requests: SmallVec<[SlotRequest<'_>; 4]> = asks
        .iter()
        .zip(&places)
        .map(|(ask, &slot)| SlotRequest {
            method: ask.method,
            quota: ask.quota,
            cost: ask.cost,
            act: ask.act(),
            slot,
        })
        .collect();
    let (_, decided) = decide_slots(&requests, &mut slots, cx.now)
        .map_err(|(_, mismatch)| CmdError::from(mismatch))?;
    let mut has_changed: SmallVec<[bool; 4]> = smallvec![false; slots.len()];
    for (&place, (_, changed)) in places.iter().zip(&decided) {
        has_changed[place] |= changed;
    }
    for ((slot, key), changed) in slots.into_iter().zip(&owners).zip(has_changed) {
        if changed {
            store(cx, *key, slot);
        }
    }
    let decisions: SmallVec<[Decision; 4]> =
        decided.iter().map(|(decision, _)| *decision).collect();
    let passed = decisions.iter().all(|decision| decision.allowed);
    for ((key, ask), decision) in keys.iter().zip(&asks).zip(&decisions) {
        // A limiter that would have let a request pass which another one denied has decided nothing.
        if !ask.peek && (passed || !decision.allowed) {
            tally(cx, *key, ask.cost, decision.allowed);
        }
    }
    Ok(reply_many(cx, &asks, &decisions))
}

/// Allowed, the name of the first limiter that denied (its index where it has none), and the decision of each.
fn reply_many(cx: &mut Cx<'_>, asks: &[Ask<'_>], decisions: &[Decision]) -> Reply {
    let denied = decisions.iter().position(|decision| !decision.allowed);
    let out = &mut cx.out;
    out.array(3);
    out.int(i64::from(denied.is_none()));
    match denied {
        None => out.null(),
        Some(at) => match asks[at].name {
            Some(name) => out.bulk(name),
            None => out.bulk_int(at as i64),
        },
    }
    out.array(decisions.len());
    for decision in decisions {
        out.array(5);
        five(out, decision);
    }
    Reply::Written
}

pub(super) fn refund(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let ask = Ask::parse(&mut args, Options::Refund)?;
    let now = cx.now;
    let mut slot = load(cx, key)?;
    let (method, quota, units) = (ask.method, &ask.quota, ask.cost.0);
    let changed = match ask.taken {
        Some(taken) => slot.refund_taken(method, quota, units, taken, now),
        None => slot.refund(method, quota, units, now),
    }?;
    let (decision, _) = slot.decide(ask.method, &ask.quota, Cost(0), true, now)?;
    if changed {
        store(cx, key, slot);
    }
    Ok(reply(cx, &decision))
}

/// Units granted, the decision's other numbers, and for how long the units may be used, in milliseconds.
pub(super) fn lease(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let ask = Ask::parse(&mut args, Options::Lease)?;
    let wanted = ask.count.ok_or(CmdError::Syntax)?;
    let mut slot = load(cx, key)?;
    let (advance, changed) = slot.advance(ask.method, &ask.quota, wanted, cx.now)?;
    if changed {
        store(cx, key, slot);
    }
    let Advance {
        granted,
        valid_for,
        decision,
    } = advance;
    tally(cx, key, Cost(granted.max(1)), granted > 0);
    let out = &mut cx.out;
    out.array(6);
    out.int(super::units(granted));
    out.int(super::units(decision.limit));
    out.int(super::units(decision.remaining));
    out.int(decision.retry_after_ms());
    out.int(decision.reset_after_ms());
    // Rounded down: a unit that is spent later would pass beside the next ones.
    out.int((valid_for / super::rule::NANOS_PER_MS) as i64);
    Ok(Reply::Written)
}
