//! Taking elements from the ends of lists, also from the first of several, also waiting for one.

use smallvec::SmallVec;
use tollgate_containers::Container;
use tollgate_containers::list::List;
use tollgate_containers::number;
use tollgate_keyspace::Key;
use tollgate_wire::resp::ReplyBuf;

use super::list::End;
use crate::cx_object::{Change, Create};
use crate::{Args, CmdError, Cx, Reply};

type Keys<'a> = SmallVec<[Key<'a>; 8]>;

pub(super) fn lpop(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    pop(cx, args, End::Left, "lpop")
}

pub(super) fn rpop(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    pop(cx, args, End::Right, "rpop")
}

fn pop(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    end: End,
    name: &'static str,
) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let count = match args.rest() {
        [] => None,
        [word] => Some(number::parse_i64(word).and_then(|count| usize::try_from(count).ok())),
        _ => return Err(CmdError::Arity(name)),
    };
    let Some(count) = count else {
        let popped = cx.change::<List, _>(key, Create::No, |change| {
            write_end(change.value, end, change.out);
            take(change, end, 1);
            Ok(())
        })?;
        return Ok(popped.map_or(Reply::Null, |()| Reply::Written));
    };
    let count = count.ok_or(CmdError::NotPositive)?;
    let popped = cx.change::<List, _>(key, Create::No, |change| {
        let count = count.min(change.value.len());
        write_some(change.value, end, count, change.out);
        if count > 0 {
            take(change, end, count);
        }
        Ok(())
    })?;
    Ok(popped.map_or(Reply::NullArray, |()| Reply::Written))
}

/// Replies with the element at one end.
fn write_end(list: &List, end: End, out: &mut ReplyBuf) {
    let element = match end {
        End::Left => list.first(),
        End::Right => list.last(),
    };
    out.bulk(element.unwrap_or_default());
}

/// Replies with `count` elements in the order in which they are popped.
fn write_some(list: &List, end: End, count: usize, out: &mut ReplyBuf) {
    out.array(count);
    match end {
        End::Left => list.iter().take(count).for_each(|e| out.bulk(e)),
        End::Right => list.iter_back().take(count).for_each(|e| out.bulk(e)),
    }
}

/// Removes `count` elements at one end.
pub(super) fn take(change: &mut Change<'_, List>, end: End, count: usize) {
    let list = &mut *change.value;
    match (end, count) {
        (End::Left, 1) => list.drop_first(),
        (End::Right, 1) => list.drop_last(),
        (End::Left, _) => list.remove(0, count),
        (End::Right, _) => list.remove(list.len().saturating_sub(count), count),
    }
    change.touched_times(end.pop_event(), count);
}

/// The first of the keys that has a list; an error if one before it has something else.
fn first_list<'a>(cx: &mut Cx<'_>, keys: &Keys<'a>) -> Result<Option<Key<'a>>, CmdError> {
    for key in keys {
        if cx.find_as::<List>(*key)?.is_some() {
            return Ok(Some(*key));
        }
    }
    Ok(None)
}

/// What is wrong with the count of keys of LMPOP.
pub(super) fn refuse_lmpop(words: &[&[u8]]) -> CmdError {
    refuse(words, 1)
}

/// What is wrong with the count of keys of BLMPOP.
pub(super) fn refuse_blmpop(words: &[&[u8]]) -> CmdError {
    refuse(words, 2)
}

fn refuse(words: &[&[u8]], at: usize) -> CmdError {
    match words.get(at).and_then(|word| number::parse_i64(word)) {
        Some(1..) => CmdError::Syntax,
        _ => CmdError::NoKeyCount,
    }
}

/// What LMPOP and BLMPOP take: counted keys, an end, how many elements.
struct Several<'a> {
    keys: Keys<'a>,
    end: End,
    count: usize,
}

impl<'a> Several<'a> {
    fn parse(args: &mut Args<'a>) -> Result<Several<'a>, CmdError> {
        let keys = number::parse_i64(args.next()?).and_then(|n| usize::try_from(n).ok());
        let count = match keys {
            None | Some(0) => return Err(CmdError::NoKeyCount),
            Some(count) if count >= args.len() => return Err(CmdError::Syntax),
            Some(count) => count,
        };
        let keys = (0..count).map(|_| args.key()).collect::<Result<_, _>>()?;
        let end = End::parse(args)?;
        let mut count = 1;
        if args.keyword("COUNT") {
            let most = number::parse_i64(args.next()?).and_then(|n| usize::try_from(n).ok());
            count = most.filter(|&n| n > 0).ok_or(CmdError::CountNotPositive)?;
        }
        args.end()?;
        Ok(Several { keys, end, count })
    }

    /// Pops from the first list; false when there is none.
    fn pop(&self, cx: &mut Cx<'_>) -> Result<bool, CmdError> {
        let Some(key) = first_list(cx, &self.keys)? else {
            return Ok(false);
        };
        cx.change::<List, _>(key, Create::No, |change| {
            change.out.array(2);
            change.out.bulk(key.bytes());
            let count = self.count.min(change.value.len());
            write_some(change.value, self.end, count, change.out);
            take(change, self.end, count);
            Ok(())
        })?;
        Ok(true)
    }
}

pub(super) fn lmpop(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let popped = Several::parse(&mut args)?.pop(cx)?;
    Ok(if popped {
        Reply::Written
    } else {
        Reply::NullArray
    })
}

pub(super) fn blmpop(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let mut timeout = args.clone();
    args.next()?;
    let several = Several::parse(&mut args)?;
    let deadline = timeout.timeout(cx.now_ms())?;
    if several.pop(cx)? {
        return Ok(Reply::Written);
    }
    Ok(cx.wait_or(deadline, Reply::NullArray))
}

pub(super) fn blpop(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    wait_and_pop(cx, args, End::Left)
}

pub(super) fn brpop(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    wait_and_pop(cx, args, End::Right)
}

fn wait_and_pop(cx: &mut Cx<'_>, mut args: Args<'_>, end: End) -> Result<Reply, CmdError> {
    let mut keys = Keys::new();
    while args.len() > 1 {
        keys.push(args.key()?);
    }
    let deadline = args.timeout(cx.now_ms())?;
    let Some(key) = first_list(cx, &keys)? else {
        return Ok(cx.wait_or(deadline, Reply::NullArray));
    };
    cx.change::<List, _>(key, Create::No, |change| {
        change.out.array(2);
        change.out.bulk(key.bytes());
        write_end(change.value, end, change.out);
        take(change, end, 1);
        Ok(())
    })?;
    Ok(Reply::Written)
}
