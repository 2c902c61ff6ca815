//! Expiries of fields: HEXPIRE and its kin, HTTL and its kin, HPERSIST.

use tollgate_containers::hash::Hash;
use tollgate_containers::number;

use super::hash_write::drop_expired;
use crate::{Args, CmdError, Create, Cx, Event, Reply};

/// Latest time at which a field may expire, in Unix milliseconds: what Redis' 46 bits hold.
const MAX_TIME_MS: i64 = (1 << 46) - 1;

/// Answers for one field.
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const CONDITION_UNMET: i64 = 0;
const SET: i64 = 1;
const DELETED: i64 = 2;

/// What a time is counted in, and from when.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) millis: i64,
    pub(super) from_now: bool,
}

impl Unit {
    /// Options of commands, each with its unit.
    pub(super) const OPTIONS: [(&'static str, Unit); 4] = [
        ("EX", Unit::new(1000, true)),
        ("PX", Unit::new(1, true)),
        ("EXAT", Unit::new(1000, false)),
        ("PXAT", Unit::new(1, false)),
    ];

    const fn new(millis: i64, from_now: bool) -> Unit {
        Unit { millis, from_now }
    }

    /// The time that a word means, in Unix milliseconds. `command`: its name in lower case.
    pub(super) fn read(
        self,
        word: &[u8],
        now_ms: i64,
        command: &'static str,
    ) -> Result<i64, CmdError> {
        let number = number::parse_i64(word).ok_or(CmdError::NotAnInteger)?;
        if number < 0 {
            return Err(CmdError::NegativeExpire);
        }
        let base = if self.from_now { now_ms } else { 0 };
        number
            .checked_mul(self.millis)
            .filter(|span| *span <= MAX_TIME_MS - base)
            .map(|span| span + base)
            .ok_or(CmdError::InvalidExpire(command))
    }
}

/// Under which condition on the present expiry a new one is set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    Nx,
    Xx,
    Gt,
    Lt,
}

impl Condition {
    fn parse(args: &mut Args<'_>) -> Option<Condition> {
        let words = [
            ("NX", Condition::Nx),
            ("XX", Condition::Xx),
            ("GT", Condition::Gt),
            ("LT", Condition::Lt),
        ];
        let chosen = words.into_iter().find(|(word, _)| args.keyword(word));
        chosen.map(|(_, condition)| condition)
    }

    /// No expiry counts as one that never comes.
    fn holds(self, present: Option<i64>, new: i64) -> bool {
        match self {
            Condition::Always => true,
            Condition::Nx => present.is_none(),
            Condition::Xx => present.is_some(),
            Condition::Gt => present.is_some_and(|present| new > present),
            Condition::Lt => present.is_none_or(|present| new < present),
        }
    }
}

pub(super) fn hexpire(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    expire(cx, args, Unit::new(1000, true), "hexpire")
}

pub(super) fn hpexpire(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    expire(cx, args, Unit::new(1, true), "hpexpire")
}

pub(super) fn hexpireat(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    expire(cx, args, Unit::new(1000, false), "hexpireat")
}

pub(super) fn hpexpireat(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    expire(cx, args, Unit::new(1, false), "hpexpireat")
}

/// The words behind `FIELDS` and their number, which must be that number, where nothing else may follow.
pub(super) fn fields<'a>(
    args: &mut Args<'a>,
    not_positive: CmdError,
) -> Result<&'a [&'a [u8]], CmdError> {
    if !args.keyword("FIELDS") {
        return Err(CmdError::NoFields);
    }
    let count = args.next().ok().and_then(number::parse_i64);
    let count = count.filter(|count| *count > 0).ok_or(not_positive)?;
    if count as u64 != args.len() as u64 {
        return Err(CmdError::FieldCount);
    }
    Ok(args.rest())
}

/// What follows `FIELDS` where options may follow it: a number, and as many fields, each of so many words.
pub(super) fn block<'a>(
    args: &mut Args<'a>,
    words_each: usize,
    not_positive: CmdError,
) -> Result<&'a [&'a [u8]], CmdError> {
    let count = number::parse_i64(args.next()?).and_then(|count| i32::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(not_positive)?;
    let taken = (count as usize).checked_mul(words_each);
    taken
        .and_then(|words| args.take(words))
        .ok_or(CmdError::TooFewFields)
}

/// The condition and the fields of HEXPIRE and its kin, in any order as since Redis 8.6.
fn options<'a>(args: &mut Args<'a>) -> Result<(Condition, &'a [&'a [u8]]), CmdError> {
    let (mut condition, mut names, mut several) = (Condition::Always, None, false);
    while !args.is_empty() {
        if args.keyword("FIELDS") {
            if names.is_some() {
                return Err(CmdError::FieldsTwice);
            } else if args.len() < 2 {
                return Err(CmdError::FieldsWithoutAny);
            }
            names = Some(block(args, 1, CmdError::NumFields)?);
        } else if let Some(said) = Condition::parse(args) {
            several |= condition != Condition::Always && condition != said;
            condition = said;
        } else {
            return Err(CmdError::unknown_argument(args.next()?));
        }
    }
    let names = names.ok_or(CmdError::FieldsMissing)?;
    if several {
        return Err(CmdError::ManyConditions);
    }
    Ok((condition, names))
}

fn expire(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    unit: Unit,
    command: &'static str,
) -> Result<Reply, CmdError> {
    let key = args.key()?;
    cx.find_as::<Hash>(key)?;
    let at_ms = unit.read(args.next()?, cx.now_ms(), command)?;
    let (condition, names) = options(&mut args)?;
    cx.out.array(names.len());
    let found = cx.change(key, Create::No, |change| {
        let (mut set, mut deleted) = (false, false);
        for name in names {
            drop_expired(change, name);
            let answer = match change.value.get(name) {
                None => NO_FIELD,
                Some(field) if !condition.holds(field.expires_at_ms, at_ms) => CONDITION_UNMET,
                Some(_) if at_ms <= change.now_ms => {
                    change.value.remove(name);
                    deleted = true;
                    DELETED
                }
                Some(_) => {
                    change.value.set_expiry(name, Some(at_ms));
                    set = true;
                    SET
                }
            };
            change.out.int(answer);
        }
        // As in Redis, who listens hears of one of the two.
        if deleted {
            change.touched(Event::HDel);
        } else if set {
            change.touched(Event::HExpire);
        }
        Ok(())
    })?;
    if found.is_none() {
        names.iter().for_each(|_| cx.out.int(NO_FIELD));
    }
    Ok(Reply::Written)
}

pub(super) fn httl(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    tell(cx, args, |at_ms, now_ms| whole_secs(at_ms - now_ms))
}

pub(super) fn hpttl(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    tell(cx, args, |at_ms, now_ms| at_ms - now_ms)
}

pub(super) fn hexpiretime(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    tell(cx, args, |at_ms, _| whole_secs(at_ms))
}

pub(super) fn hpexpiretime(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    tell(cx, args, |at_ms, _| at_ms)
}

/// Rounded up, unlike the times of keys.
fn whole_secs(millis: i64) -> i64 {
    (millis + 999) / 1000
}

/// Answers for each field with what `show` makes of its expiry and the time.
fn tell(cx: &mut Cx<'_>, mut args: Args<'_>, show: fn(i64, i64) -> i64) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let Some(seen) = cx.read_as::<Hash>(key)? else {
        let names = fields(&mut args, CmdError::NumberOfFields)?;
        cx.out.array(names.len());
        names.iter().for_each(|_| cx.out.int(NO_FIELD));
        return Ok(Reply::Written);
    };
    let names = fields(&mut args, CmdError::NumberOfFields)?;
    let live = seen.value.live(seen.now_ms);
    seen.out.array(names.len());
    for name in names {
        let answer = live.get(name).map(|field| field.expires_at_ms);
        seen.out.int(match answer {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(at_ms)) => show(at_ms, seen.now_ms),
        });
    }
    Ok(Reply::Written)
}

pub(super) fn hpersist(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    cx.find_as::<Hash>(key)?;
    let names = fields(&mut args, CmdError::NumberOfFields)?;
    cx.out.array(names.len());
    let found = cx.change(key, Create::No, |change| {
        let mut persisted = false;
        for name in names {
            drop_expired(change, name);
            let answer = match change.value.get(name).map(|field| field.expires_at_ms) {
                None => NO_FIELD,
                Some(None) => NO_EXPIRY,
                Some(Some(_)) => {
                    change.value.set_expiry(name, None);
                    persisted = true;
                    SET
                }
            };
            change.out.int(answer);
        }
        if persisted {
            change.touched(Event::HPersist);
        }
        Ok(())
    })?;
    if found.is_none() {
        names.iter().for_each(|_| cx.out.int(NO_FIELD));
    }
    Ok(Reply::Written)
}
