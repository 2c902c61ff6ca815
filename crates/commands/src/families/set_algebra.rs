//! Operations on several sets: union, intersection, difference.

use smallvec::SmallVec;
use tollgate_containers::Container as _;
use tollgate_containers::number;
use tollgate_containers::set::{Member, Set, SetLimits};
use tollgate_keyspace::Key;
use tollgate_wire::resp::ReplyBuf;

use super::set::{set_limits, write_member};
use crate::{Args, CmdError, Cx, Event, Reply};

/// Sets in the order of their keys; an absent one is empty.
type Operands<'c> = SmallVec<[Option<&'c Set>; 8]>;

/// Makes one set of several.
type Operation = fn(&Operands<'_>, &SetLimits) -> Set;

pub(super) fn sinter(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let keys = keys(args)?;
    let mut found = ReplyBuf::new(cx.out.protocol());
    let mut count = 0;
    intersect(&cx.peek_all::<Set>(&keys)?, &mut |member| {
        write_member(member, &mut found);
        count += 1;
        true
    });
    cx.out.set(count);
    cx.out.raw(found.bytes());
    Ok(Reply::Written)
}

pub(super) fn sunion(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    show(cx, args, union)
}

pub(super) fn sdiff(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    show(cx, args, difference)
}

pub(super) fn sinterstore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    store(cx, args, intersection, Event::SInterStore)
}

pub(super) fn sunionstore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    store(cx, args, union, Event::SUnionStore)
}

pub(super) fn sdiffstore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    store(cx, args, difference, Event::SDiffStore)
}

pub(super) fn sintercard(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let count = key_count(&mut args)?;
    let mut keys = SmallVec::<[Key<'_>; 8]>::new();
    for _ in 0..count {
        keys.push(args.key()?);
    }
    let mut limit = 0;
    while !args.is_empty() {
        if args.len() < 2 || !args.keyword("LIMIT") {
            return Err(CmdError::Syntax);
        }
        let wanted = number::parse_i64(args.next()?);
        limit = wanted
            .and_then(|limit| usize::try_from(limit).ok())
            .ok_or(CmdError::NegativeLimit)?;
    }
    let mut found = 0;
    let sets = cx.peek_all::<Set>(&keys)?;
    intersect(&sets, &mut |_| {
        found += 1;
        found != limit
    });
    Ok(Reply::count(found))
}

/// The error of SINTERCARD for a count of keys that does not fit its words.
pub(super) fn refuse_key_count(words: &[&[u8]]) -> CmdError {
    let count = words.get(1).and_then(|word| number::parse_i64(word));
    match count {
        Some(1..) => CmdError::TooManyKeys,
        _ => CmdError::NoKeyCount,
    }
}

/// Takes the count of keys, which the words behind it must cover.
fn key_count(args: &mut Args<'_>) -> Result<usize, CmdError> {
    let words = args.all();
    let count = number::parse_i64(args.next()?).and_then(|count| usize::try_from(count).ok());
    match count {
        Some(count) if count > 0 && count <= args.len() => Ok(count),
        _ => Err(refuse_key_count(words)),
    }
}

fn keys<'a>(mut args: Args<'a>) -> Result<SmallVec<[Key<'a>; 8]>, CmdError> {
    let mut keys = SmallVec::with_capacity(args.len());
    while !args.is_empty() {
        keys.push(args.key()?);
    }
    Ok(keys)
}

/// Replies with the result of an operation.
fn show(cx: &mut Cx<'_>, args: Args<'_>, operation: Operation) -> Result<Reply, CmdError> {
    let keys = keys(args)?;
    let limits = set_limits(cx.limits, cx.seed);
    let result = operation(&cx.peek_all::<Set>(&keys)?, &limits);
    cx.out.set(result.len());
    for member in result.iter() {
        write_member(member, cx.out);
    }
    Ok(Reply::Written)
}

/// Stores the result of an operation at the first key and replies with its size.
fn store(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    operation: Operation,
    event: Event,
) -> Result<Reply, CmdError> {
    let destination = args.key()?;
    let keys = keys(args)?;
    let limits = set_limits(cx.limits, cx.seed);
    let result = operation(&cx.peek_all::<Set>(&keys)?, &limits);
    let count = result.len();
    cx.put(destination, result, event);
    Ok(Reply::count(count))
}

/// Calls `f` for the members that all sets have, until it returns false. The smallest set is walked; the others are
/// asked in the order of their sizes.
fn intersect(sets: &Operands<'_>, f: &mut dyn FnMut(Member<'_>) -> bool) {
    let present: Option<SmallVec<[&Set; 8]>> = sets.iter().copied().collect();
    let Some(mut sets) = present else {
        return;
    };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else {
        return;
    };
    for member in smallest.iter() {
        let everywhere = others
            .iter()
            .all(|set| std::ptr::eq(*set, *smallest) || set.contains_member(&member));
        if everywhere && !f(member) {
            return;
        }
    }
}

fn intersection(sets: &Operands<'_>, limits: &SetLimits) -> Set {
    let mut result = Set::default();
    intersect(sets, &mut |member| {
        result.add_member(&member, limits);
        true
    });
    result
}

fn union(sets: &Operands<'_>, limits: &SetLimits) -> Set {
    let mut result = Set::default();
    for member in sets.iter().flatten().flat_map(|set| set.iter()) {
        result.add_member(&member, limits);
    }
    result
}

/// Either asks all other sets for each member of the first, or takes the members of all others from a copy of it,
/// whichever looks less work. Redis' rule; half the weight for the first, since a member may be found early.
fn difference(sets: &Operands<'_>, limits: &SetLimits) -> Set {
    let mut result = Set::default();
    let Some((Some(first), others)) = sets.split_first() else {
        return result;
    };
    let mut others: SmallVec<[&Set; 8]> = others.iter().flatten().copied().collect();
    if others.iter().any(|set| std::ptr::eq(*set, *first)) {
        return result;
    }
    let by_asking = first.len() * (others.len() + 1) / 2;
    let by_removing = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
    if by_asking <= by_removing {
        others.sort_by_key(|set| std::cmp::Reverse(set.len()));
        for member in first.iter() {
            if !others.iter().any(|set| set.contains_member(&member)) {
                result.add_member(&member, limits);
            }
        }
        return result;
    }
    for member in first.iter() {
        result.add_member(&member, limits);
    }
    for member in others.iter().flat_map(|set| set.iter()) {
        member.with_bytes(|bytes| result.remove(bytes));
        if result.is_empty() {
            break;
        }
    }
    result
}
