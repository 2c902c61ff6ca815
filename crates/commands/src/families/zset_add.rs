//! Changing single members: ZADD with its options, ZINCRBY, ZREM.

use smallvec::SmallVec;
use tollgate_containers::number;
use tollgate_containers::sorted_set::{Limits, SortedSet};

use super::zset;
use crate::{Args, CmdError, Create, Cx, Event, Reply};

/// What ZADD may be told.
#[derive(Default)]
pub(super) struct Options {
    /// Only add.
    pub(super) nx: bool,
    /// Only change.
    pub(super) xx: bool,
    /// Change only to a higher score.
    gt: bool,
    /// Change only to a lower score.
    lt: bool,
    /// Count what was changed too.
    pub(super) ch: bool,
    /// The score is added to the one there is, and the sum is the reply.
    incr: bool,
}

impl Options {
    fn parse(args: &mut Args<'_>, incr: bool) -> Options {
        let mut options = Options {
            incr,
            ..Options::default()
        };
        loop {
            let option = match args.peek() {
                Some(word) if word.len() == 2 || word.len() == 4 => [
                    ("NX", &mut options.nx),
                    ("XX", &mut options.xx),
                    ("GT", &mut options.gt),
                    ("LT", &mut options.lt),
                    ("CH", &mut options.ch),
                    ("INCR", &mut options.incr),
                ],
                _ => return options,
            };
            let Some((_, set)) = option.into_iter().find(|(name, _)| args.keyword(name)) else {
                return options;
            };
            *set = true;
        }
    }

    fn check(&self, pairs: usize) -> Result<(), CmdError> {
        if self.nx && self.xx {
            Err(CmdError::ZAddXxWithNx)
        } else if (self.nx && (self.gt || self.lt)) || (self.gt && self.lt) {
            Err(CmdError::ZAddGtLtNx)
        } else if self.incr && pairs > 1 {
            Err(CmdError::ZAddIncrPairs)
        } else {
            Ok(())
        }
    }

    /// True when a score is set whatever was there.
    fn is_plain(&self) -> bool {
        !(self.nx || self.xx || self.gt || self.lt || self.incr)
    }
}

/// What became of one pair.
enum Outcome {
    Added(f64),
    Changed(f64),
    /// The score was that already.
    Same(f64),
    /// An option forbade it.
    Refused,
}

pub(super) fn zadd(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    add(cx, args, false)
}

pub(super) fn zincrby(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    add(cx, args, true)
}

fn add(cx: &mut Cx<'_>, mut args: Args<'_>, incr: bool) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let options = Options::parse(&mut args, incr);
    let words = args.rest();
    if words.is_empty() || words.len() % 2 == 1 {
        return Err(CmdError::Syntax);
    }
    options.check(words.len() / 2)?;
    // All scores are read before any is set: a command runs wholly or not at all.
    let mut pairs: SmallVec<[(f64, &[u8]); 8]> = SmallVec::new();
    for pair in words.chunks_exact(2) {
        let score = number::parse_f64(pair[0]).ok_or(CmdError::NotAFloat)?;
        pairs.push((score, pair[1]));
    }
    add_pairs(cx, key, &options, &pairs)
}

/// Sets the scores of members as the options want it, and replies as ZADD does.
pub(super) fn add_pairs(
    cx: &mut Cx<'_>,
    key: tollgate_keyspace::Key<'_>,
    options: &Options,
    pairs: &[(f64, &[u8])],
) -> Result<Reply, CmdError> {
    let create = if options.xx { Create::No } else { Create::Yes };
    let done = cx.change::<SortedSet, _>(key, create, |change| {
        let limits = zset::limits(change.limits, change.seed);
        let (mut added, mut changed, mut sum) = (0, 0, None);
        for &(score, member) in pairs {
            let (kind, score) = match put(change.value, member, score, options, limits)? {
                Outcome::Added(score) => (&mut added, score),
                Outcome::Changed(score) => (&mut changed, score),
                Outcome::Same(score) => {
                    sum = Some(score);
                    continue;
                }
                Outcome::Refused => continue,
            };
            *kind += 1;
            sum = Some(score);
        }
        if added + changed > 0 {
            let event = match options.incr {
                true => Event::ZIncr,
                false => Event::ZAdd,
            };
            change.touched_times(event, added + changed);
        }
        Ok((added, changed, sum))
    })?;
    let (added, changed, sum) = done.unwrap_or_default();
    if !options.incr {
        let counted = if options.ch { added + changed } else { added };
        return Ok(Reply::count(counted));
    }
    match sum {
        Some(score) => {
            cx.out.double(score);
            Ok(Reply::Written)
        }
        None => Ok(Reply::Null),
    }
}

/// Sets one score as the options want it.
#[inline]
fn put(
    set: &mut SortedSet,
    member: &[u8],
    mut score: f64,
    options: &Options,
    limits: Limits,
) -> Result<Outcome, CmdError> {
    if !options.is_plain() {
        match set.score(member) {
            Some(_) if options.nx => return Ok(Outcome::Refused),
            Some(old) => {
                if options.incr {
                    score += old;
                    if score.is_nan() {
                        return Err(CmdError::ScoreNaN);
                    }
                }
                if (options.lt && score >= old) || (options.gt && score <= old) {
                    return Ok(Outcome::Refused);
                }
            }
            None if options.xx => return Ok(Outcome::Refused),
            None => {}
        }
    }
    Ok(match set.insert(member, score, limits) {
        None => Outcome::Added(score),
        Some(old) if old == score => Outcome::Same(score),
        Some(_) => Outcome::Changed(score),
    })
}

pub(super) fn zrem(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let members = args.rest();
    let removed = cx.change::<SortedSet, _>(key, Create::No, |change| {
        let removed = members
            .iter()
            .filter(|member| change.value.remove(member).is_some())
            .count();
        if removed > 0 {
            change.touched_times(Event::ZRem, removed);
        }
        Ok(removed)
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}
