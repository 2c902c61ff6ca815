//! What sets, changes and deletes fields of a hash.

use tollgate_containers::hash::{Hash, Keep};
use tollgate_containers::number::{self, Extended};

use super::hash::hash_limits;
use crate::{Args, Change, CmdError, Create, Cx, Event, Reply};

/// Removes a field whose time has passed, so that a write finds it absent.
pub(super) fn drop_expired(change: &mut Change<'_, Hash>, name: &[u8]) {
    let now_ms = change.now_ms;
    if change.value.next_expiry().is_none_or(|at| now_ms <= at) {
        return;
    }
    let field = change.value.get(name);
    if field.is_some_and(|field| field.is_expired(now_ms)) {
        change.value.remove(name);
        change.field_gone(name);
    }
}

pub(super) fn hset(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    set_pairs(cx, args, "HSET").map(Reply::count)
}

pub(super) fn hmset(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    set_pairs(cx, args, "HMSET")?;
    Ok(Reply::Ok)
}

/// Sets fields and returns how many are new.
fn set_pairs(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    command: &'static str,
) -> Result<usize, CmdError> {
    let key = args.key()?;
    let (pairs, []) = args.rest().as_chunks::<2>() else {
        return Err(CmdError::Arity(command));
    };
    let added = cx.change(key, Create::Yes, |change| {
        let limits = hash_limits(change.limits, change.seed);
        let mut added = 0;
        for [name, value] in pairs {
            drop_expired(change, name);
            added += usize::from(change.value.set(name, value, Keep::Nothing, &limits));
        }
        change.touched_times(Event::HSet, pairs.len());
        Ok(added)
    })?;
    Ok(added.unwrap_or(0))
}

pub(super) fn hsetnx(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (name, value) = (args.next()?, args.next()?);
    let added = cx.change(key, Create::Yes, |change| {
        drop_expired(change, name);
        if change.value.get(name).is_some() {
            return Ok(false);
        }
        let limits = hash_limits(change.limits, change.seed);
        change.value.set(name, value, Keep::Nothing, &limits);
        change.touched(Event::HSet);
        Ok(true)
    })?;
    Ok(Reply::flag(added == Some(true)))
}

pub(super) fn hdel(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let deleted = cx.change(key, Create::No, |change| {
        let mut deleted = 0;
        for name in args.rest() {
            drop_expired(change, name);
            deleted += usize::from(change.value.remove(name));
        }
        if deleted > 0 {
            change.touched_times(Event::HDel, deleted);
        }
        Ok(deleted)
    })?;
    Ok(Reply::count(deleted.unwrap_or(0)))
}

pub(super) fn hincrby(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let name = args.next()?;
    let by = args.int()?;
    let sum = cx.change(key, Create::Yes, |change| {
        drop_expired(change, name);
        let old = match change.value.get(name) {
            Some(field) => number::parse_i64(field.value).ok_or(CmdError::HashNotAnInteger)?,
            None => 0,
        };
        let new = old.checked_add(by).ok_or(CmdError::Overflow)?;
        let limits = hash_limits(change.limits, change.seed);
        let mut digits = [0; number::I64_TEXT_LEN];
        let text = number::write_i64(&mut digits, new);
        change.value.set(name, text, Keep::Expiry, &limits);
        change.touched(Event::HIncrBy);
        Ok(new)
    })?;
    Ok(Reply::Int(sum.unwrap_or(0)))
}

pub(super) fn hincrbyfloat(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let name = args.next()?;
    let by = Extended::parse(args.next()?).ok_or(CmdError::NotAFloat)?;
    if !by.is_finite() {
        return Err(CmdError::ByNotFinite);
    }
    cx.change(key, Create::Yes, |change| {
        drop_expired(change, name);
        let old = match change.value.get(name) {
            Some(field) => Extended::parse(field.value).ok_or(CmdError::HashNotAFloat)?,
            None => Extended::from(0),
        };
        let new = old + by;
        if !new.is_finite() {
            return Err(CmdError::NotFinite);
        }
        let text = new.to_text();
        let limits = hash_limits(change.limits, change.seed);
        change.value.set(name, &text, Keep::Expiry, &limits);
        change.touched(Event::HIncrByFloat);
        change.out.bulk(&text);
        Ok(())
    })?;
    Ok(Reply::Written)
}
