//! Ranges of ranks, scores and members: returned, counted, stored and removed.
//!
//! Every range becomes a range of indexes in ascending order, whatever it was stated by and whichever way it is read.

use std::ops::Range;

use tollgate_containers::number;
use tollgate_containers::sorted_set::{Iter, LexBound, Order, ScoreBound, SortedSet};

use super::zset;
use crate::{Args, CmdError, Create, Cx, Event, Reply};

/// What a range is stated by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A range as stated, its lower end first.
enum Bounds<'a> {
    /// Negative ranks count from the end.
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Lex(LexBound<'a>, LexBound<'a>),
}

impl<'a> Bounds<'a> {
    fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Bounds<'a>, CmdError> {
        match by {
            By::Rank => {
                let rank = |word| number::parse_i64(word).ok_or(CmdError::NotAnInteger);
                Ok(Bounds::Rank(rank(min)?, rank(max)?))
            }
            By::Score => {
                let bound = |word| score_bound(word).ok_or(CmdError::NotAScoreRange);
                Ok(Bounds::Score(bound(min)?, bound(max)?))
            }
            By::Lex => {
                let bound = |word| lex_bound(word).ok_or(CmdError::NotALexRange);
                Ok(Bounds::Lex(bound(min)?, bound(max)?))
            }
        }
    }

    /// The indexes of its elements without the first `skip`; ranks count in this order.
    fn indexes(&self, set: &SortedSet, order: Order, skip: usize) -> Range<usize> {
        match *self {
            Bounds::Rank(start, stop) => {
                let range = ranks(start, stop, set.len());
                let range = match order {
                    Order::Ascending => range,
                    Order::Descending => set.len() - range.end..set.len() - range.start,
                };
                order.without(range, skip)
            }
            Bounds::Score(min, max) => order.without(set.range_by_score(min, max), skip),
            Bounds::Lex(min, max) => set.range_by_lex(min, max, order, skip),
        }
    }

    /// The indexes of all its elements.
    fn all(&self, set: &SortedSet) -> Range<usize> {
        self.indexes(set, Order::Ascending, 0)
    }
}

/// The indexes from `start` to `stop`, both included; negative ones count from the end.
fn ranks(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from_end = |rank: i64| {
        if rank < 0 {
            rank.saturating_add(len as i64)
        } else {
            rank
        }
    };
    let start = from_end(start).max(0);
    let end = from_end(stop).saturating_add(1).min(len as i64);
    if start >= end {
        return 0..0;
    }
    start as usize..end as usize
}

/// `1.5`, `(1.5`, `-inf`: a score as C reads it, with a parenthesis when it is outside.
fn score_bound(word: &[u8]) -> Option<ScoreBound> {
    let (exclusive, number) = match word {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    let score = number::parse_c_double(number)?;
    Some(ScoreBound { score, exclusive })
}

/// `[member`, `(member`, `-`, `+`.
fn lex_bound(word: &[u8]) -> Option<LexBound<'_>> {
    match word {
        [b'-', rest @ ..] if rest.first().is_none_or(|&b| b == 0) => Some(LexBound::Min),
        [b'+', rest @ ..] if rest.first().is_none_or(|&b| b == 0) => Some(LexBound::Max),
        [b'[', member @ ..] => Some(LexBound::Inclusive(member)),
        [b'(', member @ ..] => Some(LexBound::Exclusive(member)),
        _ => None,
    }
}

/// What the words of a range command say beside its key.
struct Query<'a> {
    bounds: Bounds<'a>,
    rev: bool,
    with_scores: bool,
    /// Elements to leave out at the beginning; none are left when it is negative.
    offset: i64,
    /// Most elements, unless negative.
    count: i64,
}

/// What the command's name fixes.
#[derive(Clone, Copy)]
struct Dialect {
    /// Set when the options BYSCORE and BYLEX are not taken.
    by: Option<By>,
    /// Set when the option REV is not taken.
    rev: Option<bool>,
    /// Whether the result is stored, so that WITHSCORES is not taken.
    stores: bool,
}

impl<'a> Query<'a> {
    fn parse(mut args: Args<'a>, dialect: Dialect) -> Result<Query<'a>, CmdError> {
        let (first, second) = (args.next()?, args.next()?);
        let (mut by, mut rev) = (dialect.by, dialect.rev);
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        while !args.is_empty() {
            if !dialect.stores && args.keyword("WITHSCORES") {
                with_scores = true;
            } else if args.len() > 2 && args.keyword("LIMIT") {
                offset = args.int()?;
                count = args.int()?;
            } else if rev.is_none() && args.keyword("REV") {
                rev = Some(true);
            } else if by.is_none() && args.keyword("BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && args.keyword("BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(CmdError::Syntax);
            }
        }
        let (by, rev) = (by.unwrap_or(By::Rank), rev.unwrap_or(false));
        if count != -1 && by == By::Rank {
            return Err(CmdError::LimitWithRanks);
        }
        if with_scores && by == By::Lex {
            return Err(CmdError::ScoresWithLex);
        }
        // Backwards, a range of scores or names is stated from its upper end.
        let (min, max) = match by {
            By::Score | By::Lex if rev => (second, first),
            _ => (first, second),
        };
        if by == By::Rank {
            // `LIMIT n -1` is taken, and means nothing.
            offset = 0;
        }
        Ok(Query {
            bounds: Bounds::parse(by, min, max)?,
            rev,
            with_scores,
            offset,
            count,
        })
    }

    /// The elements it asks for, in its order.
    fn run<'s>(&self, set: &'s SortedSet) -> Iter<'s> {
        let skip = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let most = usize::try_from(self.count).unwrap_or(usize::MAX);
        if self.rev {
            let Range { start, end } = self.bounds.indexes(set, Order::Descending, skip);
            set.range_rev(end - most.min(end - start)..end)
        } else {
            let Range { start, end } = self.bounds.indexes(set, Order::Ascending, skip);
            set.range(start..start + most.min(end - start))
        }
    }
}

const ANY: Dialect = Dialect {
    by: None,
    rev: None,
    stores: false,
};

const fn fixed(by: By, rev: bool) -> Dialect {
    Dialect {
        by: Some(by),
        rev: Some(rev),
        stores: false,
    }
}

pub(super) fn zrange(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    range(cx, args, ANY)
}

pub(super) fn zrevrange(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    range(cx, args, fixed(By::Rank, true))
}

pub(super) fn zrangebyscore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    range(cx, args, fixed(By::Score, false))
}

pub(super) fn zrevrangebyscore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    range(cx, args, fixed(By::Score, true))
}

pub(super) fn zrangebylex(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    range(cx, args, fixed(By::Lex, false))
}

pub(super) fn zrevrangebylex(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    range(cx, args, fixed(By::Lex, true))
}

fn range(cx: &mut Cx<'_>, mut args: Args<'_>, dialect: Dialect) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let query = Query::parse(args, dialect)?;
    match cx.read_as::<SortedSet>(key)? {
        Some(seen) => zset::write_elements(seen.out, query.run(seen.value), query.with_scores),
        None => cx.out.array(0),
    }
    Ok(Reply::Written)
}

pub(super) fn zrangestore(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let destination = args.key()?;
    let source = args.key()?;
    let query = Query::parse(
        args,
        Dialect {
            stores: true,
            ..ANY
        },
    )?;
    let limits = zset::limits(cx.limits, cx.seed);
    let mut stored = SortedSet::new();
    if let Some(seen) = cx.read_as::<SortedSet>(source)? {
        for (member, score) in query.run(seen.value) {
            stored.insert(member, score, limits);
        }
    }
    let count = stored.len();
    cx.put(destination, stored, Event::ZRangeStore);
    Ok(Reply::count(count))
}

pub(super) fn zcount(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    count(cx, args, By::Score)
}

pub(super) fn zlexcount(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    count(cx, args, By::Lex)
}

fn count(cx: &mut Cx<'_>, mut args: Args<'_>, by: By) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let bounds = Bounds::parse(by, args.next()?, args.next()?)?;
    let found = cx.read_as::<SortedSet>(key)?;
    let count = found.map_or(0, |seen| bounds.all(seen.value).len());
    Ok(Reply::count(count))
}

pub(super) fn zremrangebyrank(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    remove(cx, args, By::Rank, Event::ZRemByRank)
}

pub(super) fn zremrangebyscore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    remove(cx, args, By::Score, Event::ZRemByScore)
}

pub(super) fn zremrangebylex(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    remove(cx, args, By::Lex, Event::ZRemByLex)
}

fn remove(cx: &mut Cx<'_>, mut args: Args<'_>, by: By, event: Event) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let bounds = Bounds::parse(by, args.next()?, args.next()?)?;
    let removed = cx.change::<SortedSet, _>(key, Create::No, |change| {
        let range = bounds.all(change.value);
        let count = range.len();
        if count > 0 {
            change.value.remove_range(range);
            change.touched_times(event, count);
        }
        Ok(count)
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}
