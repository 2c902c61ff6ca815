//! Unions, intersections and differences of sorted sets and sets; members of a set have the score 1.

use std::ops::ControlFlow;

use smallvec::SmallVec;
use tollgate_containers::number;
use tollgate_containers::set::Set;
use tollgate_containers::sorted_set::{Scores, SortedSet};
use tollgate_keyspace::{Key, Object, ValueRef};

use super::zset;
use crate::{Args, CmdError, Cx, Event, Reply};

/// One input.
#[derive(Clone, Copy)]
enum Source<'c> {
    Absent,
    Set(&'c Set),
    Sorted(&'c SortedSet),
}

impl<'c> Source<'c> {
    fn of(value: Option<ValueRef<'c>>) -> Result<Source<'c>, CmdError> {
        match value {
            None => Ok(Source::Absent),
            Some(ValueRef::Object(Object::Set(set))) => Ok(Source::Set(set)),
            Some(ValueRef::Object(Object::SortedSet(set))) => Ok(Source::Sorted(set)),
            Some(_) => Err(CmdError::WrongType),
        }
    }

    fn len(self) -> usize {
        match self {
            Source::Absent => 0,
            Source::Set(set) => tollgate_containers::Container::len(set),
            Source::Sorted(set) => set.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Absent => None,
            Source::Set(set) => set.contains(member).then_some(1.0),
            Source::Sorted(set) => set.score(member),
        }
    }

    /// Shows the elements to `see` until it has seen enough.
    fn visit(self, see: &mut dyn FnMut(&[u8], f64) -> ControlFlow<()>) {
        match self {
            Source::Absent => {}
            Source::Set(set) => {
                for member in set.iter() {
                    if member.with_bytes(|bytes| see(bytes, 1.0)).is_break() {
                        return;
                    }
                }
            }
            Source::Sorted(set) => {
                for (member, score) in set.iter() {
                    if see(member, score).is_break() {
                        return;
                    }
                }
            }
        }
    }
}

/// What becomes of several scores of one member.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => not_nan(score + other),
            Aggregate::Min if other < score => other,
            Aggregate::Max if other > score => other,
            Aggregate::Min | Aggregate::Max => score,
        }
    }
}

/// Infinities of both signs add up to 0, and so does an infinity that weighs nothing.
fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

/// What a command does with the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Reply,
    Count,
    Store(Event),
}

/// What stands behind the keys.
struct Options {
    /// One per input, in their order.
    weights: SmallVec<[f64; 8]>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Most members that are counted; 0 = all.
    limit: usize,
}

impl Options {
    fn parse(
        mut args: Args<'_>,
        inputs: usize,
        operation: Operation,
        target: Target,
    ) -> Result<Options, CmdError> {
        let mut options = Options {
            weights: SmallVec::from_elem(1.0, inputs),
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        let weighs = operation != Operation::Diff && target != Target::Count;
        while !args.is_empty() {
            if weighs && args.len() > inputs && args.keyword("WEIGHTS") {
                for weight in &mut options.weights {
                    *weight = number::parse_f64(args.next()?).ok_or(CmdError::WeightNotAFloat)?;
                }
            } else if weighs && args.len() >= 2 && args.keyword("AGGREGATE") {
                options.aggregate = if args.keyword("SUM") {
                    Aggregate::Sum
                } else if args.keyword("MIN") {
                    Aggregate::Min
                } else if args.keyword("MAX") {
                    Aggregate::Max
                } else {
                    return Err(CmdError::Syntax);
                };
            } else if target == Target::Reply && args.keyword("WITHSCORES") {
                options.with_scores = true;
            } else if target == Target::Count && args.len() >= 2 && args.keyword("LIMIT") {
                let limit = number::parse_i64(args.next()?).and_then(|n| usize::try_from(n).ok());
                options.limit = limit.ok_or(CmdError::NegativeLimit)?;
            } else {
                return Err(CmdError::Syntax);
            }
        }
        Ok(options)
    }
}

/// An input with its weight.
type Weighted<'c> = (Source<'c>, f64);

fn union(inputs: &[Weighted<'_>], aggregate: Aggregate, secret: u64) -> Scores {
    let mut scores = Scores::new(secret);
    for &(source, weight) in inputs {
        source.visit(&mut |member, score| {
            let score = not_nan(weight * score);
            match scores.find(member) {
                Some(id) => scores.set_score(id, aggregate.of(scores.score_of(id), score)),
                None => {
                    scores.push(member, score);
                }
            }
            ControlFlow::Continue(())
        });
    }
    scores
}

/// Shows the members that all inputs have, the smallest of which stands first, to `see` until it has seen enough.
fn intersect(
    inputs: &[Weighted<'_>],
    aggregate: Aggregate,
    see: &mut dyn FnMut(&[u8], f64) -> ControlFlow<()>,
) {
    let Some((&(smallest, weight), others)) = inputs.split_first() else {
        return;
    };
    smallest.visit(&mut |member, score| {
        let mut sum = not_nan(weight * score);
        for (other, weight) in others {
            match other.score(member) {
                Some(score) => sum = aggregate.of(sum, score * weight),
                None => return ControlFlow::Continue(()),
            }
        }
        see(member, sum)
    });
}

fn difference(inputs: &[Weighted<'_>], secret: u64) -> Scores {
    let mut scores = Scores::new(secret);
    let Some((&(first, _), others)) = inputs.split_first() else {
        return scores;
    };
    first.visit(&mut |member, score| {
        if others
            .iter()
            .all(|(other, _)| other.score(member).is_none())
        {
            scores.push(member, score);
        }
        ControlFlow::Continue(())
    });
    scores
}

fn count_common(inputs: &[Weighted<'_>], limit: usize) -> usize {
    let mut count = 0;
    intersect(inputs, Aggregate::Sum, &mut |_, _| {
        count += 1;
        if count == limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    count
}

/// The error of a count of keys, at word `at`, that does not fit the words.
fn refuse(words: &[&[u8]], at: usize) -> CmdError {
    match words.get(at).and_then(|word| number::parse_i64(word)) {
        None => CmdError::NotAnInteger,
        Some(1..) => CmdError::Syntax,
        Some(_) => CmdError::no_input_keys(words[0]),
    }
}

/// For commands that reply with the result.
pub(super) fn refuse_keys(words: &[&[u8]]) -> CmdError {
    refuse(words, 1)
}

/// For commands that store the result.
pub(super) fn refuse_sources(words: &[&[u8]]) -> CmdError {
    refuse(words, 2)
}

pub(super) fn zunion(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    combine(cx, args, Operation::Union, Target::Reply)
}

pub(super) fn zinter(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    combine(cx, args, Operation::Inter, Target::Reply)
}

pub(super) fn zdiff(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    combine(cx, args, Operation::Diff, Target::Reply)
}

pub(super) fn zintercard(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    combine(cx, args, Operation::Inter, Target::Count)
}

pub(super) fn zunionstore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let target = Target::Store(Event::ZUnionStore);
    combine(cx, args, Operation::Union, target)
}

pub(super) fn zinterstore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let target = Target::Store(Event::ZInterStore);
    combine(cx, args, Operation::Inter, target)
}

pub(super) fn zdiffstore(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let target = Target::Store(Event::ZDiffStore);
    combine(cx, args, Operation::Diff, target)
}

fn combine(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    operation: Operation,
    target: Target,
) -> Result<Reply, CmdError> {
    // A destination is used only once everything has been read; a wrong count of keys must not touch it.
    let mut destination = args.clone();
    if let Target::Store(_) = target {
        args.next()?;
    }
    let numkeys = args.int()?;
    if numkeys < 1 {
        return Err(CmdError::no_input_keys(args.all()[0]));
    }
    let numkeys = usize::try_from(numkeys).unwrap_or(usize::MAX);
    if numkeys > args.len() {
        return Err(CmdError::Syntax);
    }
    let keys: SmallVec<[Key<'_>; 8]> =
        (0..numkeys).map(|_| args.key()).collect::<Result<_, _>>()?;
    let limits = zset::limits(cx.limits, cx.seed);
    let values = cx.peek_values(&keys, |value| Source::of(Some(value)).is_ok())?;
    let sources = values.into_iter().map(Source::of);
    let sources = sources.collect::<Result<_, _>>()?;
    let options = Options::parse(args, numkeys, operation, target)?;
    match compute(sources, &options, operation, target, limits.secret) {
        Computed::Count(count) => Ok(Reply::count(count)),
        Computed::Scores(scores) => {
            if let Target::Store(event) = target {
                let count = scores.len();
                let stored = SortedSet::from_scores(scores, limits);
                cx.put(destination.key()?, stored, event);
                return Ok(Reply::count(count));
            }
            zset::write_header(cx.out, scores.len(), options.with_scores);
            for id in scores.in_order() {
                let element = (scores.member(id), scores.score_of(id));
                zset::write_element(cx.out, element, options.with_scores);
            }
            Ok(Reply::Written)
        }
    }
}

enum Computed {
    Count(usize),
    Scores(Scores),
}

fn compute(
    sources: SmallVec<[Source<'_>; 8]>,
    options: &Options,
    operation: Operation,
    target: Target,
    secret: u64,
) -> Computed {
    let mut inputs: SmallVec<[Weighted<'_>; 8]> = sources
        .into_iter()
        .zip(options.weights.iter().copied())
        .collect();
    if operation != Operation::Diff {
        // Sums of doubles depend on their order, which Redis makes this one.
        inputs.sort_by_key(|(source, _)| source.len());
    }
    if target == Target::Count {
        return Computed::Count(count_common(&inputs, options.limit));
    }
    Computed::Scores(match operation {
        Operation::Union => union(&inputs, options.aggregate, secret),
        Operation::Diff => difference(&inputs, secret),
        Operation::Inter => {
            let mut scores = Scores::new(secret);
            intersect(&inputs, options.aggregate, &mut |member, score| {
                scores.push(member, score);
                ControlFlow::Continue(())
            });
            scores
        }
    })
}
