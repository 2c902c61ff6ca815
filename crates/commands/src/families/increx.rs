//! INCREX: a counter with bounds and an expiry in one step, so a fixed window in one command.
//!
//! A result outside the bounds (or the type's range) changes nothing, not even the expiry, unless SATURATE puts it on the
//! bound. The reply is the value and what was really added. Redis 8.8 and Valkey 9.2 share all this; Valkey also knows
//! NX and XX, which is why `increx-form` chooses.

use tollgate_containers::Str;
use tollgate_containers::number::{self, Extended};
use tollgate_keyspace::{Key, Value, ValueRef};
use tollgate_wire::resp::ReplyBuf;

use super::string_set::{Deadline, Unit};
use crate::limits::IncrexForm;
use crate::{Args, CmdError, Cx, Event, Reply};

/// What is counted in: integers of 64 bits, or Redis' `long double`.
trait Count: Copy + PartialOrd {
    /// The event of a change.
    const EVENT: Event;
    const ZERO: Self;
    const LEAST: Self;
    const MOST: Self;

    /// Reads an argument; `errors` name it.
    fn argument(word: &[u8], errors: &Errors) -> Result<Self, CmdError>;
    /// Reads what the key holds.
    fn stored(value: ValueRef<'_>) -> Result<Self, CmdError>;
    /// The sum, if it is in the type's range.
    fn plus(self, by: Self) -> Option<Self>;
    /// What leads from `old` to `self`.
    fn since(self, old: Self) -> Result<Self, CmdError>;
    fn value(self) -> Value;
    fn reply(self, out: &mut ReplyBuf);
}

/// What an argument that is no number is answered with.
struct Errors {
    integer: CmdError,
    float: CmdError,
}

const INCREMENT: Errors = Errors {
    integer: CmdError::IncrementNotAnInteger,
    float: CmdError::IncrementNotAFloat,
};
const LOWER: Errors = Errors {
    integer: CmdError::LowerBoundNotAnInteger,
    float: CmdError::LowerBoundNotAFloat,
};
const UPPER: Errors = Errors {
    integer: CmdError::UpperBoundNotAnInteger,
    float: CmdError::UpperBoundNotAFloat,
};

impl Count for i64 {
    const EVENT: Event = Event::IncrBy;
    const ZERO: i64 = 0;
    const LEAST: i64 = i64::MIN;
    const MOST: i64 = i64::MAX;

    fn argument(word: &[u8], errors: &Errors) -> Result<i64, CmdError> {
        number::parse_i64(word).ok_or_else(|| errors.integer.clone())
    }

    fn stored(value: ValueRef<'_>) -> Result<i64, CmdError> {
        match value {
            ValueRef::Int(n) => Ok(n),
            ValueRef::Bytes(bytes) => number::parse_i64(bytes).ok_or(CmdError::NotAnInteger),
            ValueRef::Limiter(_) | ValueRef::Object(_) => Err(CmdError::WrongType),
        }
    }

    fn plus(self, by: i64) -> Option<i64> {
        self.checked_add(by)
    }

    fn since(self, old: i64) -> Result<i64, CmdError> {
        self.checked_sub(old).ok_or(CmdError::AppliedOverflow)
    }

    fn value(self) -> Value {
        Value::Int(self)
    }

    fn reply(self, out: &mut ReplyBuf) {
        out.int(self);
    }
}

impl Count for Extended {
    const EVENT: Event = Event::IncrByFloat;
    const ZERO: Extended = Extended::ZERO;
    const LEAST: Extended = Extended::LEAST;
    const MOST: Extended = Extended::MAX;

    fn argument(word: &[u8], errors: &Errors) -> Result<Extended, CmdError> {
        Extended::parse(word).ok_or_else(|| errors.float.clone())
    }

    fn stored(value: ValueRef<'_>) -> Result<Extended, CmdError> {
        let number = match value {
            ValueRef::Int(n) => Extended::from(n),
            ValueRef::Bytes(bytes) => Extended::parse(bytes).ok_or(CmdError::NotAFloat)?,
            ValueRef::Limiter(_) | ValueRef::Object(_) => return Err(CmdError::WrongType),
        };
        match number.is_finite() {
            true => Ok(number),
            false => Err(CmdError::ValueInfinite),
        }
    }

    fn plus(self, by: Extended) -> Option<Extended> {
        Some(self + by).filter(|sum| sum.is_finite())
    }

    fn since(self, old: Extended) -> Result<Extended, CmdError> {
        let applied = self - old;
        match applied.is_finite() {
            true => Ok(applied),
            false => Err(CmdError::AppliedInfinite),
        }
    }

    fn value(self) -> Value {
        Value::Str(Str::from_slice(&self.to_text()))
    }

    fn reply(self, out: &mut ReplyBuf) {
        out.double_as(&self.to_text());
    }
}

/// The increment as it is asked for.
#[derive(Clone, Copy)]
enum By<'a> {
    Int(&'a [u8]),
    Float(&'a [u8]),
}

/// The options, their numbers still text: what they mean depends on the increment, which may stand behind them.
#[derive(Default)]
struct Options<'a> {
    /// NX: false, XX: true.
    exists: Option<bool>,
    by: Option<By<'a>>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturate: bool,
    expiry: Option<Deadline<'a>>,
    persist: bool,
    /// ENX: only a key without an expiry gets one.
    if_none: bool,
}

impl<'a> Options<'a> {
    /// Every option at most once, in any order.
    fn parse(mut args: Args<'a>, form: IncrexForm) -> Result<Options<'a>, CmdError> {
        let mut options = Options::default();
        while !args.is_empty() {
            options.option(&mut args, form)?;
        }
        if options.if_none && options.expiry.is_none() {
            return Err(CmdError::EnxWithoutExpiry);
        }
        Ok(options)
    }

    fn option(&mut self, args: &mut Args<'a>, form: IncrexForm) -> Result<(), CmdError> {
        let conditional = form == IncrexForm::Valkey && self.exists.is_none();
        if conditional && args.keyword("NX") {
            self.exists = Some(false);
        } else if conditional && args.keyword("XX") {
            self.exists = Some(true);
        } else if self.by.is_none() && args.keyword("BYINT") {
            self.by = Some(By::Int(args.next()?));
        } else if self.by.is_none() && args.keyword("BYFLOAT") {
            self.by = Some(By::Float(args.next()?));
        } else if self.lower.is_none() && args.keyword("LBOUND") {
            self.lower = Some(args.next()?);
        } else if self.upper.is_none() && args.keyword("UBOUND") {
            self.upper = Some(args.next()?);
        } else if !self.saturate && args.keyword("SATURATE") {
            self.saturate = true;
        } else if !self.persist && !self.if_none && args.keyword("ENX") {
            self.if_none = true;
        } else if self.expiry.is_some() || self.persist {
            return Err(CmdError::Syntax);
        } else if !self.if_none && args.keyword("PERSIST") {
            self.persist = true;
        } else {
            let unit = Unit::OPTIONS
                .into_iter()
                .find(|(name, _)| args.keyword(name));
            let (_, unit) = unit.ok_or(CmdError::Syntax)?;
            let word = args.next()?;
            self.expiry = Some(Deadline { word, unit });
        }
        Ok(())
    }
}

/// Where the result may lie.
struct Range<C> {
    lower: C,
    upper: C,
}

impl<C: Count> Range<C> {
    fn parse(options: &Options<'_>) -> Result<Range<C>, CmdError> {
        let bound = |word: Option<&[u8]>, errors: &Errors, none| {
            word.map_or(Ok(none), |word| C::argument(word, errors))
        };
        let range = Range {
            lower: bound(options.lower, &LOWER, C::LEAST)?,
            upper: bound(options.upper, &UPPER, C::MOST)?,
        };
        match range.lower > range.upper {
            true => Err(CmdError::BoundsCrossed),
            false => Ok(range),
        }
    }

    /// The result of adding; `None` when it is outside and must not be.
    fn add(&self, old: C, by: C, saturate: bool) -> Option<C> {
        let sum = old.plus(by);
        match sum {
            Some(sum) if sum >= self.lower && sum <= self.upper => Some(sum),
            _ if !saturate => None,
            Some(sum) if sum < self.lower => Some(self.lower),
            None if by < C::ZERO => Some(self.lower),
            _ => Some(self.upper),
        }
    }
}

pub(super) fn increx(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let options = Options::parse(args, cx.limits.increx())?;
    match options.by {
        None => count(cx, key, 1_i64, &options),
        Some(By::Int(by)) => count(cx, key, i64::argument(by, &INCREMENT)?, &options),
        Some(By::Float(by)) => {
            let by = Extended::argument(by, &INCREMENT)?;
            if !by.is_finite() {
                return Err(CmdError::IncrementInfinite);
            }
            count(cx, key, by, &options)
        }
    }
}

fn count<C: Count>(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    by: C,
    options: &Options<'_>,
) -> Result<Reply, CmdError> {
    let range = Range::parse(options)?;
    let now = cx.now_ms();
    let asked = options.expiry.as_ref();
    let asked = asked
        .map(|deadline| deadline.at(now, "increx"))
        .transpose()?;
    let entry = cx.peek(key);
    let old = entry.as_ref().map(|entry| C::stored(entry.value()));
    let (old, exists) = (old.transpose()?.unwrap_or(C::ZERO), entry.is_some());
    let had = entry.and_then(|entry| entry.expires_at_ms());
    let meant = options.exists.is_none_or(|wanted| wanted == exists);
    let new = match meant {
        true => range.add(old, by, options.saturate),
        false => None,
    };
    let Some(new) = new else {
        return Ok(answer(cx, old, C::ZERO));
    };
    let applied = new.since(old)?;
    let asked = asked.filter(|_| !(options.if_none && had.is_some()));
    if asked.is_some_and(|at| at <= now) {
        // What would expire at once is not stored.
        cx.remove(key, Event::Del);
        return Ok(answer(cx, new, applied));
    }
    match cx.write(key) {
        Some(mut entry) => {
            let entry = entry.change(C::EVENT);
            entry.set_value(new.value());
            if asked.is_some() || options.persist {
                entry.set_expiry(asked);
            }
        }
        None => cx.set(key, new.value(), asked, C::EVENT),
    }
    if asked.is_some() {
        cx.effects.note(cx.db, key.bytes(), Event::Expire);
    } else if options.persist && had.is_some() {
        cx.effects.note(cx.db, key.bytes(), Event::Persist);
    }
    Ok(answer(cx, new, applied))
}

fn answer<C: Count>(cx: &mut Cx<'_>, value: C, applied: C) -> Reply {
    cx.out.array(2);
    value.reply(cx.out);
    applied.reply(cx.out);
    Reply::Written
}
