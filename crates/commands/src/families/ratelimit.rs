//! Rate limiters as values of their own type.
//!
//! A limiter's state is a number or a time in the entry itself, and the entry expires when the
//! limiter is back in its initial state, so an idle limiter costs nothing.

use tollgate_containers::number;
use tollgate_keyspace::{Key, Value, ValueRef};
use tollgate_limiter::cell::{Change, Throttle};
use tollgate_limiter::{AlgorithmKind, Cost, Decision, LimiterState, Quota, Record};

use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, row};
use crate::{Acl, Args, CmdError, Cx, Event, Family, Flags, Group, Handler, Reply, Row, Run};

pub(super) static FAMILY: Family = Family {
    name: "Rate limiting",
    about: "Decisions of rate limiters, each one command and one atomic step.",
    rows: &[
        limiter("CL.THROTTLE", 2, throttle)
            .takes("key max_burst count period [quantity]")
            .docs(
                "Decides by GCRA with the arguments and replies of redis-cell.",
                "0.1.0",
                "O(1)",
            ),
        limiter("RL.TAKE", 5, take)
            .takes("key <FIXED | ALIGNED> limit window-ms [COST cost] [PEEK]")
            .docs(
                "Takes from a limiter if it has enough left.",
                "0.1.0",
                "O(1)",
            ),
    ],
};

const fn limiter(name: &'static str, words: u16, run: Handler) -> Row {
    let flags = Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST);
    row(name, at_least(words), flags, Run::Keys(run))
        .acl(Group::RateLimit, Acl::RATELIMIT)
        .keys(
            const {
                &[KeySpec::at(
                    1,
                    KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
                )]
            },
        )
}

/// Longest window: its nanoseconds must fit an `i64`, some 292 years.
const WINDOW_MAX_MS: i64 = i64::MAX / NANOS_PER_MS;
const NANOS_PER_MS: i64 = 1_000_000;

/// What RL.TAKE asks.
struct Take {
    algorithm: AlgorithmKind,
    quota: Quota,
    cost: Cost,
    peek: bool,
}

impl Take {
    fn parse(mut args: Args<'_>) -> Result<Take, CmdError> {
        let algorithm = if args.keyword("FIXED") {
            AlgorithmKind::FixedWindow
        } else if args.keyword("ALIGNED") {
            AlgorithmKind::FixedWindowEpoch
        } else {
            return Err(CmdError::unknown_algorithm(args.next()?));
        };
        let limit = number(&mut args, 0, i64::MAX, CmdError::LimitOutOfRange)?;
        let window = number(&mut args, 1, WINDOW_MAX_MS, CmdError::WindowOutOfRange)?;
        let quota = Quota::new(limit, window * NANOS_PER_MS as u64);
        let mut take = Take {
            algorithm,
            quota,
            cost: Cost(1),
            peek: false,
        };
        while !args.is_empty() {
            if args.keyword("COST") {
                take.cost = Cost(number(&mut args, 0, i64::MAX, CmdError::CostOutOfRange)?);
            } else if args.keyword("PEEK") {
                take.peek = true;
            } else {
                return Err(CmdError::Syntax);
            }
        }
        Ok(take)
    }
}

/// The next word as a number from `least` to `most`.
fn number(args: &mut Args<'_>, least: i64, most: i64, or: CmdError) -> Result<u64, CmdError> {
    let word = args.next()?;
    match number::parse_i64(word) {
        Some(n) if (least..=most).contains(&n) => Ok(n as u64),
        _ => Err(or),
    }
}

fn take(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let take = Take::parse(args)?;
    let decision = decide(cx, key, &take)?;
    let out = &mut cx.out;
    out.array(5);
    out.int(i64::from(decision.allowed));
    out.int(decision.limit as i64);
    out.int(decision.remaining as i64);
    out.int(decision.retry_after_ms());
    out.int(decision.reset_after_ms());
    Ok(Reply::Written)
}

#[inline]
fn decide(cx: &mut Cx<'_>, key: Key<'_>, take: &Take) -> Result<Decision, CmdError> {
    let now = cx.now;
    let Some(mut entry) = cx.write(key) else {
        let (decision, next) = run(take, None, now)?;
        if let Some(next) = next {
            let value = Value::Limiter(next.state);
            cx.set(key, value, Some(next.expires_at_ms), Event::RateLimit);
        }
        return Ok(decision);
    };
    let ValueRef::Limiter(state) = entry.value() else {
        return Err(CmdError::WrongType);
    };
    let expiry = entry.expires_at_ms();
    // Without an expiry (PERSIST took it) the present window never ends.
    let record = Record {
        state,
        expires_at_ms: expiry.unwrap_or(i64::MAX),
    };
    let (decision, next) = run(take, Some(record), now)?;
    if let Some(next) = next {
        let entry = entry.change(Event::RateLimit);
        entry.set_limiter(next.state);
        if expiry != Some(next.expires_at_ms) {
            entry.set_expiry(Some(next.expires_at_ms));
        }
    }
    Ok(decision)
}

/// The decision, and what to store for it.
#[inline]
fn run(
    take: &Take,
    record: Option<Record>,
    now: tollgate_limiter::Timestamp,
) -> Result<(Decision, Option<Record>), CmdError> {
    let decided = take.algorithm.decide(record, &take.quota, take.cost, now);
    let (decision, next) = decided.map_err(|_| CmdError::OtherAlgorithm)?;
    Ok((decision, next.filter(|_| !take.peek)))
}

fn throttle(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let now = cx.now;
    let throttle = Throttle::parse(args.rest()).map_err(cell_error)?;
    let tat = match cx.write(key) {
        None => None,
        Some(entry) => match entry.value() {
            ValueRef::Limiter(LimiterState::Gcra { tat }) => Some(tat),
            ValueRef::Limiter(_) => return Err(CmdError::OtherAlgorithm),
            _ => return Err(CmdError::WrongType),
        },
    };
    let (reply, change) = throttle.decide(tat, now).map_err(cell_error)?;
    if let Change::Store(tat) = change {
        let value = Value::Limiter(LimiterState::Gcra { tat });
        cx.set(key, value, Some(tat.millis_ceil()), Event::RateLimit);
    }
    let out = &mut cx.out;
    out.array(5);
    out.int(i64::from(reply.limited));
    out.int(reply.limit);
    out.int(reply.remaining);
    out.int(reply.retry_after);
    out.int(reply.reset_after);
    Ok(Reply::Written)
}

#[cold]
fn cell_error(error: tollgate_limiter::cell::CellError) -> CmdError {
    CmdError::line(error.to_string())
}
