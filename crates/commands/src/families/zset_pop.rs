//! Taking elements from either end, also of the first of several sorted sets, also waiting for one.

use smallvec::SmallVec;
use tollgate_containers::number;
use tollgate_containers::sorted_set::SortedSet;
use tollgate_keyspace::Key;
use tollgate_wire::resp::Protocol;

use crate::{Args, CmdError, Create, Cx, Event, Reply};

/// Which end elements are taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

impl End {
    fn event(self) -> Event {
        match self {
            End::Min => Event::ZPopMin,
            End::Max => Event::ZPopMax,
        }
    }
}

/// How what was taken is shown.
#[derive(Clone, Copy)]
enum Shape {
    /// Members and scores in one array.
    Flat,
    /// Pairs of member and score.
    Pairs,
    /// Key, member and score in one array.
    KeyFlat,
    /// The key, and an array of pairs.
    KeyPairs,
}

pub(super) fn zpopmin(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    pop(cx, args, End::Min)
}

pub(super) fn zpopmax(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    pop(cx, args, End::Max)
}

fn pop(cx: &mut Cx<'_>, mut args: Args<'_>, end: End) -> Result<Reply, CmdError> {
    let key = args.key()?;
    if args.len() > 1 {
        return Err(CmdError::Syntax);
    }
    let (mut count, mut shape) = (1, Shape::Flat);
    if !args.is_empty() {
        count = args.positive()?;
        if cx.out.protocol() == Protocol::Resp3 {
            shape = Shape::Pairs;
        }
    }
    if !take(cx, key, end, count, shape)? {
        cx.out.array(0);
    }
    Ok(Reply::Written)
}

/// Takes up to `count` elements of one sorted set and writes them; false when there is none.
fn take(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    end: End,
    count: usize,
    shape: Shape,
) -> Result<bool, CmdError> {
    let taken = cx.change::<SortedSet, _>(key, Create::No, |change| {
        let len = change.value.len();
        let count = count.min(len);
        if count == 0 {
            change.out.array(0);
            return Ok(());
        }
        match shape {
            Shape::Flat => change.out.array(2 * count),
            Shape::Pairs => change.out.array(count),
            Shape::KeyFlat => {
                change.out.array(2 * count + 1);
                change.out.bulk(key.bytes());
            }
            Shape::KeyPairs => {
                change.out.array(2);
                change.out.bulk(key.bytes());
                change.out.array(count);
            }
        }
        let range = match end {
            End::Min => 0..count,
            End::Max => len - count..len,
        };
        let elements = match end {
            End::Min => change.value.range(range.clone()),
            End::Max => change.value.range_rev(range.clone()),
        };
        for (member, score) in elements {
            if let Shape::Pairs | Shape::KeyPairs = shape {
                change.out.array(2);
            }
            change.out.bulk(member);
            change.out.double(score);
        }
        change.value.remove_range(range);
        change.touched_times(end.event(), count);
        Ok(())
    })?;
    Ok(taken.is_some())
}

/// The keys of a command and the rest of what it asks for.
struct Wanted<'a> {
    keys: SmallVec<[Key<'a>; 8]>,
    end: End,
    count: usize,
    shape: Shape,
}

/// The error of a count of keys, at word `at`, that does not fit the words.
fn refuse(words: &[&[u8]], at: usize) -> CmdError {
    match words.get(at).and_then(|word| number::parse_i64(word)) {
        Some(1..) => CmdError::Syntax,
        _ => CmdError::NoKeyCount,
    }
}

/// For ZMPOP.
pub(super) fn refuse_keys(words: &[&[u8]]) -> CmdError {
    refuse(words, 1)
}

/// For BZMPOP.
pub(super) fn refuse_awaited_keys(words: &[&[u8]]) -> CmdError {
    refuse(words, 2)
}

impl<'a> Wanted<'a> {
    /// `numkeys key [key ...] <MIN | MAX> [COUNT count]`
    fn parse(args: &mut Args<'a>) -> Result<Wanted<'a>, CmdError> {
        let positive = |word, error| match number::parse_i64(word) {
            Some(n @ 1..) => Ok(n as usize),
            _ => Err(error),
        };
        let numkeys = positive(args.next()?, CmdError::NoKeyCount)?;
        // Behind the keys at least the end must be said.
        if numkeys >= args.len() {
            return Err(CmdError::Syntax);
        }
        let keys = (0..numkeys).map(|_| args.key()).collect::<Result<_, _>>()?;
        let end = if args.keyword("MIN") {
            End::Min
        } else if args.keyword("MAX") {
            End::Max
        } else {
            return Err(CmdError::Syntax);
        };
        let mut count = None;
        while !args.is_empty() {
            if count.is_some() || args.len() < 2 || !args.keyword("COUNT") {
                return Err(CmdError::Syntax);
            }
            count = Some(positive(args.next()?, CmdError::CountNotPositive)?);
        }
        Ok(Wanted {
            keys,
            end,
            count: count.unwrap_or(1),
            shape: Shape::KeyPairs,
        })
    }

    /// Takes from the first key that has elements; false when none has.
    fn take(&self, cx: &mut Cx<'_>) -> Result<bool, CmdError> {
        for key in &self.keys {
            if take(cx, *key, self.end, self.count, self.shape)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As [`Wanted::take`], and waits when none has.
    fn take_or_wait(&self, cx: &mut Cx<'_>, deadline: Option<i64>) -> Result<Reply, CmdError> {
        Ok(match self.take(cx)? {
            true => Reply::Written,
            false => cx.wait_or(deadline, Reply::NullArray),
        })
    }
}

pub(super) fn zmpop(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let wanted = Wanted::parse(&mut args)?;
    Ok(match wanted.take(cx)? {
        true => Reply::Written,
        false => Reply::NullArray,
    })
}

pub(super) fn bzmpop(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    // The time-out stands first but is checked last.
    let mut timeout = args.clone();
    args.next()?;
    let wanted = Wanted::parse(&mut args)?;
    let deadline = timeout.timeout(cx.now_ms())?;
    wanted.take_or_wait(cx, deadline)
}

pub(super) fn bzpopmin(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    blocking_pop(cx, args, End::Min)
}

pub(super) fn bzpopmax(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    blocking_pop(cx, args, End::Max)
}

fn blocking_pop(cx: &mut Cx<'_>, mut args: Args<'_>, end: End) -> Result<Reply, CmdError> {
    let keys = (1..args.len()).map(|_| args.key());
    let keys = keys.collect::<Result<_, _>>()?;
    let deadline = args.timeout(cx.now_ms())?;
    let wanted = Wanted {
        keys,
        end,
        count: 1,
        shape: Shape::KeyFlat,
    };
    wanted.take_or_wait(cx, deadline)
}
