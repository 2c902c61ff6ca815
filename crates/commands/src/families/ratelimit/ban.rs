//! RL.BAN, RL.UNBAN, RL.RESET and RL.INSPECT.

use tollgate_keyspace::TypeName;
use tollgate_limiter::{Ledger, LimiterState, Slot, Timestamp};
use tollgate_wire::resp::ReplyBuf;

use super::rule::{NANOS_PER_MS, PERIOD_MAX_MS, integer};
use super::state::{load, store};
use super::units;
use crate::{Args, CmdError, Cx, Event, Reply};

pub(super) fn ban(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let duration = integer(&mut args, 1, PERIOD_MAX_MS, CmdError::DurationOutOfRange)?;
    let mut slot = load(cx, key)?;
    let until = cx.now_ms().saturating_add_unsigned(duration);
    slot.ban(until, cx.now)?;
    store(cx, key, slot);
    Ok(Reply::Ok)
}

pub(super) fn unban(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut slot = load(cx, key)?;
    let banned = slot.unban(cx.now)?;
    if banned {
        store(cx, key, slot);
    }
    Ok(Reply::flag(banned))
}

pub(super) fn reset(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let mut keys = Vec::with_capacity(args.len());
    while !args.is_empty() {
        keys.push(args.key()?);
    }
    // Nothing is removed when one of them is no limiter.
    for key in &keys {
        let other = cx
            .peek(*key)
            .is_some_and(|entry| entry.type_name() != TypeName::RateLimit);
        if other {
            return Err(CmdError::WrongType);
        }
    }
    let removed = keys
        .into_iter()
        .filter(|key| cx.remove(*key, Event::Del).is_some());
    Ok(Reply::count(removed.count()))
}

/// Name and value pairs that tell a state: numbers only, spans in milliseconds.
fn facts(slot: &Slot, now: Timestamp) -> Vec<(&'static str, i64)> {
    match slot {
        Slot::Small(None) => Vec::new(),
        Slot::Small(Some(record)) => match record.state {
            LimiterState::FixedWindow { count } => vec![("taken", units(count))],
            LimiterState::Gcra { tat } => vec![("full-in-ms", until(tat, now))],
            LimiterState::SlidingWindow {
                previous, current, ..
            } => {
                vec![("taken-before", units(previous)), ("taken", units(current))]
            }
            LimiterState::TokenBucket { full_at, .. } => vec![("full-in-ms", until(full_at, now))],
            LimiterState::LeakyBucket { empty_at } => vec![("empty-in-ms", until(empty_at, now))],
            LimiterState::Banned => {
                let until = Timestamp::from_millis(record.expires_at_ms);
                vec![("banned-ms", self::until(until, now))]
            }
        },
        Slot::Ledger(Ledger::Log(log), _) => {
            let taken = log.hits().map(|hit| hit.cost).sum();
            vec![
                ("entries", log.hits().len() as i64),
                ("taken", units(taken)),
            ]
        }
        Slot::Ledger(Ledger::Leases(leases), _) => {
            let live = leases.iter().filter(|(_, lease)| lease.expires_at > now);
            let (count, used) = live.fold((0, 0u64), |(count, used), (_, lease)| {
                (count + 1, used.saturating_add(lease.cost))
            });
            vec![("leases", count), ("in-use", units(used))]
        }
        Slot::Ledger(Ledger::Holds(holds), _) => {
            let open = holds.iter().filter(|(_, hold)| hold.ended.is_none());
            let (count, reserved) = open.fold((0, 0u64), |(count, reserved), (_, hold)| {
                (count + 1, reserved.saturating_add(hold.amount))
            });
            let mut facts = vec![("reservations", count), ("reserved", units(reserved))];
            let base = Slot::Small(holds.base);
            facts.extend(self::facts(&base, now));
            facts
        }
        Slot::Ledger(Ledger::Ban(ban), _) => {
            let until = Timestamp::from_millis(ban.until_ms);
            let mut facts = vec![("banned-ms", self::until(until, now))];
            facts.extend(self::facts(&ban.beneath, now));
            facts
        }
    }
}

fn until(at: Timestamp, now: Timestamp) -> i64 {
    let ahead = at.nanos().saturating_sub(now.nanos()).max(0);
    ahead.unsigned_abs().div_ceil(NANOS_PER_MS) as i64
}

pub(super) fn inspect(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let slot = load(cx, key)?;
    let Some(entry) = cx.peek(key) else {
        return Ok(Reply::NullArray);
    };
    let encoding = entry.encoding().as_str();
    let ttl = entry.expires_at_ms();
    let ttl = ttl.map_or(-1, |at| at.saturating_sub(cx.now_ms()).max(0));
    let mut facts = facts(&slot, cx.now);
    let leased = cx.shards.leased(cx.db, key);
    if leased > 0 {
        facts.push(("leased", i64::try_from(leased).unwrap_or(i64::MAX)));
    }
    let out: &mut ReplyBuf = cx.out;
    out.map(facts.len() + 2);
    out.bulk(b"state");
    out.bulk(encoding.as_bytes());
    out.bulk(b"ttl-ms");
    out.int(ttl);
    for (name, value) in facts {
        out.bulk(name.as_bytes());
        out.int(value);
    }
    Ok(Reply::Written)
}
