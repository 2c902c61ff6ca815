//! Commands of other servers, as their owners speak them: CL.THROTTLE (redis-cell), RL.THROTTLE (Valkey pull request
//! 4081), THROTTLE (throttlecrab) and GCRA (Redis pull requests 14826 and 14950).

use tollgate_containers::number;
use tollgate_keyspace::{Key, Value, ValueRef};
use tollgate_limiter::cell::{CellError, Change, Reply as CellReply, Throttle};
use tollgate_limiter::foreign::{Crab, RedisGcra, RedisGcraError};
use tollgate_limiter::{Cost, LimiterState, Slot, Timestamp};

use super::state::load;
use super::tally;
use crate::{Args, CmdError, Cx, Event, Reply};

pub(super) fn cl_throttle(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let throttle = Throttle::parse(args.rest()).map_err(cell_error)?;
    cell(cx, key, &throttle, cell_error)
}

pub(super) fn rl_throttle(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let error = |error| match error {
        CellError::Usage => CmdError::Arity("rl.throttle"),
        CellError::NotAnInteger(_) => CmdError::NotAnInteger,
        CellError::ZeroRate => CmdError::ZeroRate,
    };
    let key = args.key()?;
    let throttle = Throttle::parse(args.rest()).map_err(error)?;
    cell(cx, key, &throttle, error)
}

fn cell(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    throttle: &Throttle,
    error: fn(CellError) -> CmdError,
) -> Result<Reply, CmdError> {
    let now = cx.now;
    // What is given back is no request.
    let weight = Cost(throttle.quantity.max(0).unsigned_abs());
    let tat = match stored(cx, key)? {
        Stored::Tat(tat) => tat,
        Stored::Banned(until) => {
            // A ban is a wait, told in the command's own reply.
            let seconds = secs_until(until, now);
            let reply = CellReply {
                limited: true,
                limit: throttle.max_burst.saturating_add(1),
                remaining: 0,
                retry_after: seconds,
                reset_after: seconds,
            };
            tally(cx, key, weight, false);
            return Ok(cell_reply(cx, &reply));
        }
    };
    let (reply, change) = throttle.decide(tat, now).map_err(error)?;
    if let Change::Store(tat) = change {
        store(cx, key, tat);
    }
    tally(cx, key, weight, !reply.limited);
    Ok(cell_reply(cx, &reply))
}

fn cell_reply(cx: &mut Cx<'_>, reply: &CellReply) -> Reply {
    ints(
        cx,
        [
            i64::from(reply.limited),
            reply.limit,
            reply.remaining,
            reply.retry_after,
            reply.reset_after,
        ],
    )
}

#[cold]
fn cell_error(error: CellError) -> CmdError {
    CmdError::line(error.to_string())
}

pub(super) fn throttle(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    if args.len() > 4 {
        return Err(CmdError::Arity("throttle"));
    }
    let crab = Crab {
        max_burst: named(&mut args, "max_burst")?,
        count: named(&mut args, "count_per_period")?,
        period_secs: named(&mut args, "period")?,
        quantity: match args.is_empty() {
            true => 1,
            false => named(&mut args, "quantity")?,
        },
    };
    if crab.quantity < 0 {
        return Err(CmdError::err(format!(
            "negative quantity: {}",
            crab.quantity
        )));
    }
    let now = cx.now;
    let (tat, banned) = match stored(cx, key)? {
        Stored::Tat(tat) => (tat, false),
        Stored::Banned(until) => (Some(until), true),
    };
    let (mut reply, next) = crab.decide(tat, now).ok_or(CmdError::BadRateParameters)?;
    if banned {
        (reply.allowed, reply.remaining) = (false, 0);
        reply.retry_after = tat.map_or(0, |until| secs_until(until, now));
        reply.reset_after = reply.retry_after;
    } else if let Some(tat) = next {
        store(cx, key, tat);
    }
    let weight = Cost(crab.quantity.unsigned_abs());
    tally(cx, key, weight, reply.allowed);
    Ok(ints(
        cx,
        [
            i64::from(reply.allowed),
            reply.limit,
            reply.remaining,
            reply.reset_after,
            reply.retry_after,
        ],
    ))
}

/// An integer, whose error names the parameter.
fn named(args: &mut Args<'_>, name: &str) -> Result<i64, CmdError> {
    number::parse_i64(args.next()?).ok_or_else(|| CmdError::err(format!("invalid {name}")))
}

pub(super) fn gcra(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    if args.len() > 6 {
        return Err(CmdError::Arity("gcra"));
    }
    let key = args.key()?;
    let natural = |args: &mut Args<'_>| {
        let number = u64::try_from(args.int()?).ok();
        let number = number.filter(|&number| number > 0);
        number.ok_or(CmdError::NotNatural)
    };
    let mut gcra = RedisGcra {
        max_burst: args.positive()? as u64,
        tokens: natural(&mut args)?,
        period_secs: number::parse_f64(args.next()?).ok_or(CmdError::NotAFloat)?,
        cost: 1,
    };
    if !args.is_empty() {
        if !args.keyword("TOKENS") && !args.keyword("NUM_REQUESTS") {
            return Err(CmdError::Syntax);
        }
        if args.is_empty() {
            return Err(CmdError::MissingTokens);
        }
        gcra.cost = natural(&mut args)?;
    }
    args.end()?;
    let now = cx.now;
    let (tat, banned_until) = match stored(cx, key)? {
        Stored::Tat(tat) => (tat, None),
        Stored::Banned(until) => (None, Some(until)),
    };
    let (mut reply, next) = gcra.decide(tat, now).map_err(|error| match error {
        RedisGcraError::Period => CmdError::GcraPeriod,
        RedisGcraError::CostOverflow => CmdError::GcraCostOverflow,
        RedisGcraError::BurstOverflow => CmdError::GcraBurstOverflow,
    })?;
    if let Some(until) = banned_until {
        (reply.limited, reply.remaining) = (true, 0);
        reply.retry_after = secs_until(until, now);
        reply.full_after = reply.retry_after;
    } else if let Some(tat) = next {
        store(cx, key, tat);
    }
    tally(cx, key, Cost(gcra.cost), !reply.limited);
    Ok(ints(
        cx,
        [
            i64::from(reply.limited),
            reply.limit,
            reply.remaining,
            reply.retry_after,
            reply.full_after,
        ],
    ))
}

/// Whole seconds from `now` until `then`, rounded up; 0 when that is over.
fn secs_until(then: Timestamp, now: Timestamp) -> i64 {
    let wait = then.nanos().saturating_sub(now.nanos()).max(0);
    wait.unsigned_abs().div_ceil(1_000_000_000) as i64
}

/// What a key holds for these commands.
enum Stored {
    Tat(Option<Timestamp>),
    /// Nothing passes before.
    Banned(Timestamp),
}

fn stored(cx: &mut Cx<'_>, key: Key<'_>) -> Result<Stored, CmdError> {
    let Some(entry) = cx.write(key) else {
        return Ok(Stored::Tat(None));
    };
    let expiry = entry.expires_at_ms();
    match entry.value() {
        ValueRef::Limiter(LimiterState::Gcra { tat }) => return Ok(Stored::Tat(Some(tat))),
        ValueRef::Int(nanos) if is_of_redis_cell(nanos, expiry) => {
            return Ok(Stored::Tat(Some(Timestamp::from_nanos(nanos))));
        }
        _ => {}
    }
    let mut slot = load(cx, key)?;
    slot.settle(cx.now)?;
    if let Some(until_ms) = slot.banned_until(cx.now) {
        return Ok(Stored::Banned(Timestamp::from_millis(until_ms)));
    }
    match slot {
        Slot::Small(None) => Ok(Stored::Tat(None)),
        Slot::Small(Some(record)) => match record.state {
            LimiterState::Gcra { tat } => Ok(Stored::Tat(Some(tat))),
            _ => Err(CmdError::OtherAlgorithm),
        },
        Slot::Ledger(..) => Err(CmdError::OtherAlgorithm),
    }
}

/// redis-cell keeps the theoretical arrival time as text in a string, in nanoseconds since the epoch, which expires at just that
/// time. Such a key came with a snapshot or from a master, and goes on as a limiter. No other string says when it expires.
fn is_of_redis_cell(nanos: i64, expires_at_ms: Option<i64>) -> bool {
    /// It takes its own clock for the one and the server's for the other, which stands still while a command or script runs.
    const CLOCKS_DIFFER_MS: u64 = 10_000;
    let tat_ms = Timestamp::from_nanos(nanos).millis();
    expires_at_ms.is_some_and(|at| at.abs_diff(tat_ms) <= CLOCKS_DIFFER_MS)
}

fn store(cx: &mut Cx<'_>, key: Key<'_>, tat: Timestamp) {
    let value = Value::Limiter(LimiterState::Gcra { tat });
    cx.set(key, value, Some(tat.millis_ceil()), Event::RateLimit);
}

fn ints(cx: &mut Cx<'_>, values: [i64; 5]) -> Reply {
    let out = &mut cx.out;
    out.array(values.len());
    values.iter().for_each(|&value| out.int(value));
    Reply::Written
}
