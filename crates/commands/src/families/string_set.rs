//! Setting strings: SET with its options, and its older relatives.

use tollgate_containers::number;
use tollgate_keyspace::Key;

use super::string;
use super::string_condition::Condition;
use super::string_edit::bytes_of;
use crate::keyspec::KeyFlags;
use crate::{Args, CmdError, Cx, Event, Reply};

/// An expiry as a command states it, not yet checked.
pub(super) struct Deadline<'a> {
    pub(super) word: &'a [u8],
    pub(super) unit: Unit,
}

/// What the number of an expiry counts, and from when.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Millis,
    UnixSeconds,
    UnixMillis,
}

impl Unit {
    /// The options that give an expiry.
    pub(super) const OPTIONS: [(&'static str, Unit); 4] = [
        ("EX", Unit::Seconds),
        ("PX", Unit::Millis),
        ("EXAT", Unit::UnixSeconds),
        ("PXAT", Unit::UnixMillis),
    ];

    fn is_absolute(self) -> bool {
        matches!(self, Unit::UnixSeconds | Unit::UnixMillis)
    }
}

impl Deadline<'_> {
    /// The expiry in Unix milliseconds; `command` (lower case) is named in the error.
    pub(super) fn at(&self, now_ms: i64, command: &'static str) -> Result<i64, CmdError> {
        let number = tollgate_containers::number::parse_i64(self.word);
        let number = number.ok_or(CmdError::NotAnInteger)?;
        let invalid = CmdError::InvalidExpire(command);
        if number <= 0 {
            return Err(invalid);
        }
        let span = match self.unit {
            Unit::Seconds | Unit::UnixSeconds => number.checked_mul(1000),
            Unit::Millis | Unit::UnixMillis => Some(number),
        };
        let base = if self.unit.is_absolute() { 0 } else { now_ms };
        span.and_then(|span| span.checked_add(base)).ok_or(invalid)
    }
}

/// What becomes of the expiry.
enum Ttl<'a> {
    /// Nothing was said.
    Unsaid,
    Keep,
    Persist,
    At(Deadline<'a>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When<'a> {
    Always,
    Absent,
    Present,
    Matches(Condition<'a>),
}

impl When<'_> {
    /// Whether the key is as it must be.
    fn holds(self, cx: &mut Cx<'_>, key: Key<'_>) -> Result<bool, CmdError> {
        let condition = match self {
            When::Always => return Ok(true),
            When::Absent => return Ok(cx.find(key).is_none()),
            When::Present => return Ok(cx.find(key).is_some()),
            When::Matches(condition) => condition,
        };
        match cx.peek(key) {
            None => Ok(condition.holds_for_absent()),
            Some(entry) => {
                let mut digits = [0; number::I64_TEXT_LEN];
                condition.holds(bytes_of(entry.value(), &mut digits)?)
            }
        }
    }
}

/// The options of SET.
struct Options<'a> {
    when: When<'a>,
    get: bool,
    ttl: Ttl<'a>,
}

impl<'a> Options<'a> {
    const NONE: Options<'static> = Options {
        when: When::Always,
        get: false,
        ttl: Ttl::Unsaid,
    };

    fn parse(mut args: Args<'a>) -> Result<Options<'a>, CmdError> {
        let mut options = Options {
            when: When::Always,
            get: false,
            ttl: Ttl::Unsaid,
        };
        while !args.is_empty() {
            if matches!(options.when, When::Always | When::Absent) && args.keyword("NX") {
                options.when = When::Absent;
            } else if matches!(options.when, When::Always | When::Present) && args.keyword("XX") {
                options.when = When::Present;
            } else if options.when == When::Always
                && let Some(condition) = Condition::parse(&mut args)
            {
                options.when = When::Matches(condition);
            } else if args.keyword("GET") {
                options.get = true;
            } else if matches!(options.ttl, Ttl::Unsaid | Ttl::Keep) && args.keyword("KEEPTTL") {
                options.ttl = Ttl::Keep;
            } else {
                options.ttl = Ttl::At(deadline(&mut args, &options.ttl)?);
            }
        }
        Ok(options)
    }
}

/// An expiry option; only one of its own kind may stand before it.
fn deadline<'a>(args: &mut Args<'a>, before: &Ttl<'_>) -> Result<Deadline<'a>, CmdError> {
    for (name, unit) in Unit::OPTIONS {
        if args.keyword(name) {
            return match before {
                Ttl::Unsaid => Ok(Deadline {
                    word: args.next()?,
                    unit,
                }),
                Ttl::At(said) if said.unit == unit => Ok(Deadline {
                    word: args.next()?,
                    unit,
                }),
                _ => Err(CmdError::Syntax),
            };
        }
    }
    Err(CmdError::Syntax)
}

/// What SET does to its key: it overwrites, unless it also looks at the old value.
pub(super) fn key_flags(words: &[&[u8]]) -> KeyFlags {
    let looks = ["GET", "IFEQ", "IFNE", "IFDEQ", "IFDNE"];
    let looks = |word: &&[u8]| {
        looks
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    match words.iter().skip(3).any(looks) {
        true => KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
        false => KeyFlags::OW.or(KeyFlags::UPDATE),
    }
}

pub(super) fn set(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let value = args.next()?;
    if args.is_empty() {
        cx.set_bytes(key, value, None, Event::Set);
        return Ok(Reply::Ok);
    }
    let options = Options::parse(args)?;
    let expiry = match &options.ttl {
        Ttl::At(deadline) => Some(deadline.at(cx.now_ms(), "set")?),
        _ => None,
    };
    // With GET the reply is the old value, whether or not the new one is set.
    let old = if options.get {
        Some(reply_old(cx, key)?)
    } else {
        None
    };
    let set = store(cx, key, value, &options, expiry)?;
    Ok(match (old, set) {
        (Some(reply), _) => reply,
        (None, true) => Reply::Ok,
        (None, false) => Reply::Null,
    })
}

/// Replies with the string at `key`.
fn reply_old(cx: &mut Cx<'_>, key: Key<'_>) -> Result<Reply, CmdError> {
    match cx.read(key) {
        Some(found) => string::write_value(found.entry.value(), found.out),
        None => Ok(Reply::Null),
    }
}

/// Sets unless the condition fails; true when it has set.
fn store(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    value: &[u8],
    options: &Options<'_>,
    mut expiry: Option<i64>,
) -> Result<bool, CmdError> {
    if !options.when.holds(cx, key)? {
        return Ok(false);
    }
    if matches!(options.ttl, Ttl::Keep) {
        expiry = cx.peek(key).and_then(|entry| entry.expires_at_ms());
    }
    cx.set_bytes(key, value, expiry, Event::Set);
    if matches!(options.ttl, Ttl::At(_)) {
        cx.effects.note(cx.db, key.bytes(), Event::Expire);
    }
    Ok(true)
}

pub(super) fn setnx(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let value = args.next()?;
    let options = Options {
        when: When::Absent,
        ..Options::NONE
    };
    Ok(Reply::flag(store(cx, key, value, &options, None)?))
}

pub(super) fn setex(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    set_expiring(cx, args, Unit::Seconds, "setex")
}

pub(super) fn psetex(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    set_expiring(cx, args, Unit::Millis, "psetex")
}

fn set_expiring(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    unit: Unit,
    command: &'static str,
) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let deadline = Deadline {
        word: args.next()?,
        unit,
    };
    let expiry = deadline.at(cx.now_ms(), command)?;
    let options = Options {
        ttl: Ttl::At(deadline),
        ..Options::NONE
    };
    store(cx, key, args.next()?, &options, Some(expiry))?;
    Ok(Reply::Ok)
}

pub(super) fn getset(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let old = reply_old(cx, key)?;
    cx.set_bytes(key, args.next()?, None, Event::Set);
    Ok(old)
}

pub(super) fn getdel(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let old = reply_old(cx, key)?;
    cx.remove(key, Event::Del);
    Ok(old)
}

pub(super) fn getex(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut ttl = Ttl::Unsaid;
    while !args.is_empty() {
        if matches!(ttl, Ttl::Unsaid | Ttl::Persist) && args.keyword("PERSIST") {
            ttl = Ttl::Persist;
        } else {
            ttl = Ttl::At(deadline(&mut args, &ttl)?);
        }
    }
    // The type is checked before the expiry, the expiry before anything is written.
    let mark = cx.out.len();
    let reply = reply_old(cx, key)?;
    if reply == Reply::Null {
        return Ok(reply);
    }
    if let Err(error) = retime(cx, key, &ttl) {
        cx.out.truncate(mark);
        return Err(error);
    }
    Ok(reply)
}

/// Gives the existing `key` the expiry that GETEX asks for.
fn retime(cx: &mut Cx<'_>, key: Key<'_>, ttl: &Ttl<'_>) -> Result<(), CmdError> {
    let now = cx.now_ms();
    match ttl {
        Ttl::Unsaid | Ttl::Keep => {}
        Ttl::Persist => {
            if let Some(mut entry) = cx.write(key)
                && entry.expires_at_ms().is_some()
            {
                entry.change(Event::Persist).set_expiry(None);
            }
        }
        Ttl::At(deadline) => {
            let expiry = deadline.at(now, "getex")?;
            if deadline.unit.is_absolute() && cx.has_passed(expiry) {
                cx.remove(key, Event::Del);
            } else if let Some(mut entry) = cx.write(key) {
                entry.change(Event::Expire).set_expiry(Some(expiry));
            }
        }
    }
    Ok(())
}

pub(super) fn mset(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    if !args.len().is_multiple_of(2) {
        return Err(CmdError::Arity("mset"));
    }
    set_pairs(cx, args)?;
    Ok(Reply::Ok)
}

pub(super) fn msetnx(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    if !args.len().is_multiple_of(2) {
        return Err(CmdError::Arity("msetnx"));
    }
    let mut pairs = args.clone();
    while !pairs.is_empty() {
        let key = pairs.key()?;
        pairs.next()?;
        if cx.find(key).is_some() {
            return Ok(Reply::Int(0));
        }
    }
    set_pairs(cx, args)?;
    Ok(Reply::Int(1))
}

fn set_pairs(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<(), CmdError> {
    while !args.is_empty() {
        let key = args.key()?;
        cx.set_bytes(key, args.next()?, None, Event::Set);
    }
    Ok(())
}

/// What is wrong with the count of keys of MSETEX.
pub(super) fn refuse_msetex(words: &[&[u8]]) -> CmdError {
    match words.get(1).and_then(|word| number::parse_i64(word)) {
        Some(1..=MOST_PAIRS) => CmdError::BadPairCount,
        _ => CmdError::BadKeyCount,
    }
}

/// The largest count of keys that MSETEX reads.
const MOST_PAIRS: i64 = i32::MAX as i64;

pub(super) fn msetex(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let words = args.all();
    let count = number::parse_i64(args.next()?).filter(|count| (1..=MOST_PAIRS).contains(count));
    let count = count.ok_or(CmdError::BadKeyCount)? as usize;
    if count > args.len() / 2 {
        return Err(refuse_msetex(words));
    }
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        pairs.push((args.key()?, args.next()?));
    }
    let options = Options::parse(args)?;
    if options.get || matches!(options.when, When::Matches(_)) {
        return Err(CmdError::Syntax);
    }
    let expiry = match &options.ttl {
        Ttl::At(deadline) => Some(deadline.at(cx.now_ms(), "msetex")?),
        _ => None,
    };
    for (key, _) in &pairs {
        if !options.when.holds(cx, *key)? {
            return Ok(Reply::Int(0));
        }
    }
    // The condition is about what was there before: a key may come twice.
    let always = Options {
        when: When::Always,
        ..options
    };
    for (key, value) in pairs {
        store(cx, key, value, &always, expiry)?;
    }
    Ok(Reply::Int(1))
}
