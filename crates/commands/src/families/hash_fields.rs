//! Several fields with their expiries at once: HGETEX, HSETEX, HGETDEL.

use tollgate_containers::hash::{Hash, Keep};

use super::hash::hash_limits;
use super::hash_expiry::{Unit, block, fields};
use super::hash_write::drop_expired;
use crate::{Args, Change, CmdError, Create, Cx, Event, Reply};

/// What becomes of the expiry of the fields.
#[derive(Clone, Copy)]
enum Ttl {
    Unsaid,
    At(i64),
    /// HGETEX removes it.
    Persist,
    /// HSETEX lets it be.
    Keep,
    /// Both are said: wrong for either command.
    PersistAndKeep,
}

/// Which fields must exist for HSETEX to set any.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    NoneExist,
    AllExist,
}

impl When {
    fn parse(args: &mut Args<'_>) -> Option<When> {
        let words = [("FNX", When::NoneExist), ("FXX", When::AllExist)];
        let said = words.into_iter().find(|(word, _)| args.keyword(word));
        said.map(|(_, when)| when)
    }
}

/// Whether the key must be there for HSETEX to set any field; words of Valkey 9.1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OfKey {
    NotThere,
    There,
}

impl OfKey {
    fn parse(args: &mut Args<'_>) -> Option<OfKey> {
        let words = [("NX", OfKey::NotThere), ("XX", OfKey::There)];
        let said = words.into_iter().find(|(word, _)| args.keyword(word));
        said.map(|(_, of_key)| of_key)
    }
}

/// An option that says when fields expire.
fn unit(args: &mut Args<'_>) -> Option<Unit> {
    let mut options = Unit::OPTIONS.into_iter();
    options
        .find(|(word, _)| args.keyword(word))
        .map(|(_, unit)| unit)
}

/// The command whose options are read. Each knows those of the other, and says so late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Get,
    Set,
}

/// The options of HGETEX and HSETEX, in any order as since Redis 8.6.
struct Options<'a> {
    ttl: Ttl,
    of_key: Option<OfKey>,
    when: When,
    /// The fields, for HSETEX each with its value.
    words: &'a [&'a [u8]],
}

impl<'a> Options<'a> {
    fn parse(mut args: Args<'a>, now_ms: i64, of: Of) -> Result<Options<'a>, CmdError> {
        let (name, words_each) = match of {
            Of::Get => ("hgetex", 1),
            Of::Set => ("hsetex", 2),
        };
        let mut options = Options {
            ttl: Ttl::Unsaid,
            of_key: None,
            when: When::Always,
            words: &[],
        };
        while !args.is_empty() {
            if args.keyword("FIELDS") {
                if !options.words.is_empty() {
                    return Err(CmdError::FieldsTwice);
                } else if args.is_empty() {
                    return Err(CmdError::Arity(name));
                }
                options.words = block(&mut args, words_each, CmdError::BadFieldCount)?;
            } else if let Some(unit) = unit(&mut args) {
                if !matches!(options.ttl, Ttl::Unsaid) {
                    return Err(Self::two_expiries(of));
                }
                let word = args.next().map_err(|_| CmdError::NoExpireTime)?;
                options.ttl = Ttl::At(unit.read(word, now_ms, name)?);
            } else if args.keyword("PERSIST") {
                options.ttl = match options.ttl {
                    Ttl::Unsaid => Ttl::Persist,
                    Ttl::Keep => Ttl::PersistAndKeep,
                    _ => return Err(Self::two_expiries(of)),
                };
            } else if args.keyword("KEEPTTL") {
                options.ttl = match options.ttl {
                    Ttl::Unsaid => Ttl::Keep,
                    Ttl::Persist => Ttl::PersistAndKeep,
                    _ => return Err(Self::two_expiries(of)),
                };
            } else if let Some(said) = When::parse(&mut args) {
                if options.when != When::Always {
                    return Err(CmdError::TwoFieldConditions);
                }
                options.when = said;
            } else if let Some(said) = OfKey::parse(&mut args) {
                if *options.of_key.get_or_insert(said) != said {
                    return Err(CmdError::Syntax);
                }
            } else {
                return Err(CmdError::unknown_argument(args.next()?));
            }
        }
        options.checked(of)
    }

    fn two_expiries(of: Of) -> CmdError {
        match of {
            Of::Get => CmdError::TwoExpiriesOrPersist,
            Of::Set => CmdError::TwoExpiriesOrKeep,
        }
    }

    fn checked(self, of: Of) -> Result<Options<'a>, CmdError> {
        let is_foreign = match of {
            Of::Get => {
                matches!(self.ttl, Ttl::Keep | Ttl::PersistAndKeep)
                    || self.when != When::Always
                    || self.of_key.is_some()
            }
            Of::Set => matches!(self.ttl, Ttl::Persist | Ttl::PersistAndKeep),
        };
        match self.words {
            [] => Err(CmdError::FieldsMissing),
            _ if is_foreign => Err(CmdError::UnknownArgument),
            _ => Ok(self),
        }
    }
}

pub(super) fn hgetex(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    cx.find_as::<Hash>(key)?;
    let options = Options::parse(args, cx.now_ms(), Of::Get)?;
    let (ttl, names) = (options.ttl, options.words);
    let found = cx.change(key, Create::No, |change| {
        let (mut set, mut deleted, mut persisted) = (false, false, false);
        change.out.array(names.len());
        for name in names {
            drop_expired(change, name);
            let Some(field) = change.value.get(name) else {
                change.out.null();
                continue;
            };
            change.out.bulk(field.value);
            match ttl {
                Ttl::At(at_ms) if at_ms <= change.now_ms => {
                    deleted |= change.value.remove(name);
                }
                Ttl::At(at_ms) => set |= change.value.set_expiry(name, Some(at_ms)),
                Ttl::Persist if field.expires_at_ms.is_some() => {
                    persisted |= change.value.set_expiry(name, None);
                }
                _ => {}
            }
        }
        let events = [
            (set, Event::HExpire),
            (persisted, Event::HPersist),
            (deleted, Event::HDel),
        ];
        for (_, event) in events.into_iter().filter(|(happened, _)| *happened) {
            change.touched(event);
        }
        Ok(())
    })?;
    if found.is_none() {
        cx.out.array(names.len());
        names.iter().for_each(|_| cx.out.null());
    }
    Ok(Reply::Written)
}

pub(super) fn hsetex(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let options = Options::parse(args, cx.now_ms(), Of::Set)?;
    let (pairs, _) = options.words.as_chunks::<2>();
    let there = cx.find_as::<Hash>(key)?.is_some();
    match options.of_key {
        Some(OfKey::NotThere) if there => return Ok(Reply::flag(false)),
        Some(OfKey::There) if !there => return Ok(Reply::flag(false)),
        _ => {}
    }
    let create = match options.when {
        When::AllExist => Create::No,
        _ => Create::Yes,
    };
    let set = cx.change(key, create, |change: &mut Change<'_, Hash>| {
        for [name, _] in pairs {
            drop_expired(change, name);
        }
        let mut exist = (pairs.iter()).map(|[name, _]| change.value.get(name).is_some());
        let unmet = match options.when {
            When::Always => false,
            When::NoneExist => exist.any(|exists| exists),
            When::AllExist => !exist.all(|exists| exists),
        };
        if unmet {
            return Ok(false);
        }
        let limits = hash_limits(change.limits, change.seed);
        let keep = match options.ttl {
            Ttl::Keep => Keep::Expiry,
            _ => Keep::Nothing,
        };
        let mut deleted = false;
        for [name, value] in pairs {
            change.value.set(name, value, keep, &limits);
            match options.ttl {
                Ttl::At(at_ms) if at_ms <= change.now_ms => deleted |= change.value.remove(name),
                Ttl::At(at_ms) => drop(change.value.set_expiry(name, Some(at_ms))),
                _ => {}
            }
        }
        change.touched_times(Event::HSet, pairs.len());
        if let Ttl::At(_) = options.ttl {
            change.note(if deleted { Event::HDel } else { Event::HExpire });
        }
        Ok(true)
    })?;
    Ok(Reply::flag(set == Some(true)))
}

pub(super) fn hgetdel(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    cx.find_as::<Hash>(key)?;
    let names = fields(&mut args, CmdError::NumberOfFields)?;
    cx.out.array(names.len());
    let found = cx.change(key, Create::No, |change| {
        let mut deleted = 0;
        for name in names {
            drop_expired(change, name);
            match change.value.get(name) {
                Some(field) => change.out.bulk(field.value),
                None => change.out.null(),
            }
            deleted += usize::from(change.value.remove(name));
        }
        if deleted > 0 {
            change.touched_times(Event::HDel, deleted);
        }
        Ok(())
    })?;
    if found.is_none() {
        names.iter().for_each(|_| cx.out.null());
    }
    Ok(Reply::Written)
}
