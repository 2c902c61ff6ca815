//! Checks in the words of Tollgate's own commands, and its replies.

use redis::{Cmd, Value};
use tollgate_limiter::holds::Ended;
use tollgate_limiter::lua::{self, MAX_UNITS, Word};
use tollgate_limiter::{Act, AlgorithmKind, Decision, Method, Nanos, Quota};
use tollgate_policy::{LimitCheck, Predecessor};

use super::Decisions;

const NANOS_PER_MS: u64 = 1_000_000;

/// The command that decides the checks.
pub(super) fn decide(checks: &[LimitCheck<'_>]) -> Cmd {
    if let [check] = checks
        && !matches!(check.act, Act::Hold { .. })
        && check.method != Method::Concurrency
    {
        let mut command = redis::cmd("RL.TAKE");
        command.arg(check.key);
        limit_words(&mut command, check);
        return command;
    }
    let mut command = redis::cmd("RL.MTAKE");
    command.arg(checks.len());
    for check in checks {
        command.arg(check.key);
    }
    for check in checks {
        limit_words(&mut command, check);
    }
    command
}

/// The command that gives units back.
pub(super) fn refund(check: &LimitCheck<'_>) -> Cmd {
    let mut command = redis::cmd("RL.REFUND");
    command.arg(check.key);
    let act = Act::Take;
    limit_words(&mut command, &LimitCheck { act, ..*check });
    command
}

/// The command that ends a reservation.
pub(super) fn end(check: &LimitCheck<'_>, id: &[u8], actual: u64) -> Cmd {
    let mut command = redis::cmd("RL.COMMIT");
    command.arg(check.key).arg(id).arg(actual.min(MAX_UNITS));
    command
}

/// The command that gives a lease back.
pub(super) fn release(check: &LimitCheck<'_>, id: &[u8]) -> Cmd {
    let mut command = redis::cmd("RL.RELEASE");
    command.arg(check.key).arg(id);
    command
}

/// Algorithm, limit, period, cost and options.
fn limit_words(command: &mut Cmd, check: &LimitCheck<'_>) {
    for word in quota_words(check.method, &check.quota) {
        command.arg(word);
    }
    command.arg("COST").arg(check.cost.0.min(MAX_UNITS));
    match check.act {
        Act::Take => {}
        Act::Peek => {
            command.arg("PEEK");
        }
        Act::Hold { id, ttl } => {
            command.arg("HOLD").arg(id).arg(millis(ttl));
        }
    }
}

/// Algorithm, limit and period.
fn quota_words(method: Method, quota: &Quota) -> Vec<String> {
    let limit = quota.limit.min(MAX_UNITS).to_string();
    let period = millis(quota.period).to_string();
    match method {
        Method::Small(AlgorithmKind::Calendar(calendar)) => [
            AlgorithmKind::Calendar(calendar).row().word,
            &limit,
            calendar.unit.name(),
            "ZONE",
            calendar.zone.name(),
        ]
        .map(str::to_owned)
        .into(),
        Method::Small(kind) => {
            let mut words = vec![kind.row().word.to_owned(), limit, period];
            if kind.is_bucket() {
                words.extend(["BURST".to_owned(), quota.burst.min(MAX_UNITS).to_string()]);
            }
            words
        }
        Method::Log => vec!["LOG".to_owned(), limit, period],
        Method::Concurrency => vec!["LEASES".to_owned(), limit],
    }
}

/// The words of [`lua::INHERIT_NATIVE`].
pub(super) fn inherit_words(check: &LimitCheck<'_>, from: &Predecessor<'_>) -> Vec<Word> {
    let new = quota_words(check.method, &check.quota);
    let before = quota_words(from.method, &from.quota);
    let head = [from.way.name().to_owned(), new.len().to_string()];
    let words = head.into_iter().chain(new).chain(before);
    words.map(|word| word.into_bytes().into()).collect()
}

/// Whole milliseconds, at least one.
fn millis(span: Nanos) -> u64 {
    span.div_ceil(NANOS_PER_MS).max(1)
}

/// The decisions of a reply to [`decide`] or [`refund`] on so many checks; `None` when it is none.
pub(super) fn decisions(reply: &Value, checks: usize) -> Option<Decisions> {
    match items(reply)? {
        [Value::Int(_), _, Value::Array(made)] if made.len() == checks => {
            made.iter().map(decision).collect()
        }
        _ => decision(reply).map(|made| Decisions::from_slice(&[made])),
    }
}

fn decision(reply: &Value) -> Option<Decision> {
    let mut numbers = [0; lua::REPLY_LEN];
    let items = items(reply)?;
    if items.len() != numbers.len() {
        return None;
    }
    for (at, (number, item)) in numbers.iter_mut().zip(items).enumerate() {
        let Value::Int(given) = item else {
            return None;
        };
        // Scripts give microseconds, the commands milliseconds.
        let is_span = at >= 3 && *given >= 0;
        *number = if is_span {
            given.saturating_mul(1_000)
        } else {
            *given
        };
    }
    lua::decision(&numbers)
}

/// How a reservation ended, as commands and scripts alike reply; the outer `None` when it is no such reply.
pub(super) fn ended(reply: &Value) -> Option<Option<Ended>> {
    let units = |item: &Value| match item {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    if matches!(reply, Value::Nil) {
        return Some(None);
    }
    match items(reply)? {
        [] => Some(None),
        [actual, released, before] => Some(Some(Ended {
            actual: units(actual)?,
            released: units(released)?,
            before: units(before)? == 1,
        })),
        _ => None,
    }
}

fn items(reply: &Value) -> Option<&[Value]> {
    match reply {
        Value::Array(items) => Some(items),
        _ => None,
    }
}
