//! When keys expire.

use super::keys::generic;
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly};
use crate::{Args, CmdError, Cx, Event, Family, Flags, Handler, Reply, Row, Run};

pub(super) static FAMILY: Family = Family {
    name: "Expiry",
    about: "When keys expire. A deadline that has passed deletes the key at once.",
    rows: &[
        sets("EXPIRE", expire, "key seconds [NX | XX | GT | LT]").docs(
            "Sets a key's expiry, in seconds from now.",
            "1.0.0",
            "O(1)",
        ),
        sets(
            "EXPIREAT",
            expireat,
            "key unix-time-seconds [NX | XX | GT | LT]",
        )
        .docs("Sets a key's expiry, in Unix seconds.", "1.2.0", "O(1)"),
        tells("EXPIRETIME", expiretime).docs(
            "Returns when a key expires, in Unix seconds.",
            "7.0.0",
            "O(1)",
        ),
        generic("PERSIST", exactly(2), SETS, Run::Keys(persist))
            .keys(&[CHANGED])
            .takes("key")
            .docs("Removes a key's expiry.", "2.2.0", "O(1)"),
        sets("PEXPIRE", pexpire, "key milliseconds [NX | XX | GT | LT]").docs(
            "Sets a key's expiry, in milliseconds from now.",
            "2.6.0",
            "O(1)",
        ),
        sets(
            "PEXPIREAT",
            pexpireat,
            "key unix-time-milliseconds [NX | XX | GT | LT]",
        )
        .docs(
            "Sets a key's expiry, in Unix milliseconds.",
            "2.6.0",
            "O(1)",
        ),
        tells("PEXPIRETIME", pexpiretime).docs(
            "Returns when a key expires, in Unix milliseconds.",
            "7.0.0",
            "O(1)",
        ),
        tells("PTTL", pttl).tips(&["nondeterministic_output"]).docs(
            "Returns how long a key has to live, in milliseconds.",
            "2.6.0",
            "O(1)",
        ),
        tells("TTL", ttl).tips(&["nondeterministic_output"]).docs(
            "Returns how long a key has to live, in seconds.",
            "1.0.0",
            "O(1)",
        ),
    ],
};

const SETS: Flags = Flags::WRITE.or(Flags::FAST);
const CHANGED: KeySpec = KeySpec::at(1, KeyFlags::RW.or(KeyFlags::UPDATE));

const fn sets(name: &'static str, run: Handler, syntax: &'static str) -> Row {
    generic(name, at_least(3), SETS, Run::Keys(run))
        .keys(&[CHANGED])
        .takes(syntax)
}

const fn tells(name: &'static str, run: Handler) -> Row {
    generic(
        name,
        exactly(2),
        Flags::READONLY.or(Flags::FAST),
        Run::Keys(run),
    )
    .keys(const { &[KeySpec::at(1, KeyFlags::RO.or(KeyFlags::ACCESS))] })
    .takes("key")
}

/// What a deadline is counted in, and from when.
#[derive(Clone, Copy)]
struct Unit {
    millis: i64,
    from_now: bool,
    command: &'static str,
}

fn expire(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    set_expiry(
        cx,
        args,
        Unit {
            millis: 1000,
            from_now: true,
            command: "expire",
        },
    )
}

fn pexpire(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    set_expiry(
        cx,
        args,
        Unit {
            millis: 1,
            from_now: true,
            command: "pexpire",
        },
    )
}

fn expireat(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    set_expiry(
        cx,
        args,
        Unit {
            millis: 1000,
            from_now: false,
            command: "expireat",
        },
    )
}

fn pexpireat(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    set_expiry(
        cx,
        args,
        Unit {
            millis: 1,
            from_now: false,
            command: "pexpireat",
        },
    )
}

/// Under which condition on the present expiry the new one is set.
#[derive(Clone, Copy, Default)]
struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    fn parse(mut args: Args<'_>) -> Result<Condition, CmdError> {
        let mut condition = Condition::default();
        while !args.is_empty() {
            let Condition { nx, xx, gt, lt } = &mut condition;
            let options = [("NX", nx), ("XX", xx), ("GT", gt), ("LT", lt)];
            let Some((_, chosen)) = options.into_iter().find(|(name, _)| args.keyword(name)) else {
                return Err(CmdError::err(
                    [b"Unsupported option ", args.next()?].concat(),
                ));
            };
            *chosen = true;
        }
        let Condition { nx, xx, gt, lt } = condition;
        if nx && (xx || gt || lt) {
            return Err(CmdError::NxWithOthers);
        }
        if gt && lt {
            return Err(CmdError::GtWithLt);
        }
        Ok(condition)
    }

    /// No expiry counts as one that never comes.
    fn holds(self, present: Option<i64>, new: i64) -> bool {
        !(self.nx && present.is_some()
            || self.xx && present.is_none()
            || self.gt && present.is_none_or(|present| new <= present)
            || self.lt && present.is_some_and(|present| new >= present))
    }
}

fn set_expiry(cx: &mut Cx<'_>, mut args: Args<'_>, unit: Unit) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let word = args.next()?;
    let condition = Condition::parse(args)?;
    let now = cx.now_ms();
    let number = tollgate_containers::number::parse_i64(word).ok_or(CmdError::NotAnInteger)?;
    let base = if unit.from_now { now } else { 0 };
    let deadline = number
        .checked_mul(unit.millis)
        .and_then(|span| span.checked_add(base));
    let deadline = deadline.ok_or(CmdError::InvalidExpire(unit.command))?;
    let passed = cx.has_passed(deadline);
    let Some(mut entry) = cx.write(key) else {
        return Ok(Reply::Int(0));
    };
    if !condition.holds(entry.expires_at_ms(), deadline) {
        return Ok(Reply::Int(0));
    }
    if passed {
        cx.delete(key);
    } else {
        entry.change(Event::Expire).set_expiry(Some(deadline));
    }
    Ok(Reply::Int(1))
}

fn persist(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let Some(mut entry) = cx.write(key) else {
        return Ok(Reply::Int(0));
    };
    if entry.expires_at_ms().is_none() {
        return Ok(Reply::Int(0));
    }
    entry.change(Event::Persist).set_expiry(None);
    Ok(Reply::Int(1))
}

fn ttl(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    tell(cx, args, |expiry, now| rounded_secs((expiry - now).max(0)))
}

fn pttl(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    tell(cx, args, |expiry, now| (expiry - now).max(0))
}

fn expiretime(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    tell(cx, args, |expiry, _| rounded_secs(expiry))
}

fn pexpiretime(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    tell(cx, args, |expiry, _| expiry)
}

/// To the nearest second, as Redis prints them.
fn rounded_secs(millis: i64) -> i64 {
    // The latest expiry of all is rounded too.
    ((i128::from(millis) + 500) / 1000) as i64
}

/// -2 without the key, -1 without an expiry, else what `show` makes of expiry and time.
fn tell(cx: &mut Cx<'_>, mut args: Args<'_>, show: fn(i64, i64) -> i64) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let now = cx.now_ms();
    let answer = cx.look(key, |entry| {
        entry.expires_at_ms().map(|expiry| show(expiry, now))
    });
    Ok(Reply::Int(answer.map_or(-2, |shown| shown.unwrap_or(-1))))
}
