//! A sorted set: members with scores, in the order of (score, member).
//!
//! Small ones are one block of bytes (`compact`); beyond the thresholds that Redis names, a hash index finds scores by
//! member and a counted tree finds ranks and ranges (`indexed`). A set that has become large stays so.
//!
//! Ranges are ranges of indexes: a bound by score or by member is turned into the number of elements before it, in
//! logarithmic time.

mod compact;
mod indexed;
mod iter;
mod members;
mod segments;
mod tree;

use std::ops::Range;

use crate::Container;
use compact::Compact;
use indexed::Indexed;
pub use iter::Iter;
pub use members::Scores;

/// Up to where a sorted set is compact, and how larger ones hash.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most elements of a compact set (`zset-max-listpack-entries`).
    pub entries: usize,
    /// Longest member of a compact set, in bytes (`zset-max-listpack-value`).
    pub value: usize,
    /// What clients must not know, lest they choose members that collide.
    pub secret: u64,
}

/// One end of a range of scores.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScoreBound {
    /// The score.
    pub score: f64,
    /// Whether elements of this very score are outside.
    pub exclusive: bool,
}

/// One end of a range of members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LexBound<'a> {
    /// Before every member (`-`).
    Min,
    /// Behind every member (`+`).
    Max,
    /// This member, inside.
    Inclusive(&'a [u8]),
    /// This member, outside.
    Exclusive(&'a [u8]),
}

impl LexBound<'_> {
    /// Whether the member comes before a range that begins here.
    fn is_behind(self, member: &[u8]) -> bool {
        match self {
            LexBound::Min => false,
            LexBound::Max => true,
            LexBound::Inclusive(bound) => member < bound,
            LexBound::Exclusive(bound) => member <= bound,
        }
    }

    /// Whether the member comes behind a range that ends here.
    fn is_before(self, member: &[u8]) -> bool {
        match self {
            LexBound::Min => true,
            LexBound::Max => false,
            LexBound::Inclusive(bound) => member > bound,
            LexBound::Exclusive(bound) => member >= bound,
        }
    }
}

/// In which order elements are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// From the lowest score on.
    Ascending,
    /// From the highest score on.
    Descending,
}

impl Order {
    /// The indexes without the first `skip` of them in this order.
    pub fn without(self, range: Range<usize>, skip: usize) -> Range<usize> {
        let skip = skip.min(range.len());
        match self {
            Order::Ascending => range.start + skip..range.end,
            Order::Descending => range.start..range.end - skip,
        }
    }
}

/// A sorted set. No score is NaN.
#[derive(Clone)]
pub struct SortedSet {
    form: Form,
}

#[derive(Clone)]
enum Form {
    Compact(Compact),
    Indexed(Box<Indexed>),
}

impl Default for SortedSet {
    fn default() -> SortedSet {
        SortedSet {
            form: Form::Compact(Compact::default()),
        }
    }
}

impl SortedSet {
    /// No elements.
    pub fn new() -> SortedSet {
        SortedSet::default()
    }

    /// The collected elements; compact when they fit the limits.
    pub fn from_scores(scores: Scores, limits: Limits) -> SortedSet {
        let len = scores.len();
        let fits = len <= limits.entries
            && (0..len as u32).all(|id| scores.member(id).len() <= limits.value);
        let indexed = Box::new(Indexed::from_scores(scores));
        let set = SortedSet {
            form: Form::Indexed(indexed),
        };
        if !fits {
            return set;
        }
        let mut compact = Compact::default();
        for (member, score) in set.iter() {
            compact.insert(member, score);
        }
        SortedSet {
            form: Form::Compact(compact),
        }
    }

    /// Whether it is one block of bytes: what Redis calls a listpack.
    #[inline]
    pub fn is_compact(&self) -> bool {
        matches!(self.form, Form::Compact(_))
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Compact(compact) => compact.len(),
            Form::Indexed(indexed) => indexed.len(),
        }
    }

    /// Whether it has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The score of `member`.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.form {
            Form::Compact(compact) => compact.score(member),
            Form::Indexed(indexed) => indexed.score(member),
        }
    }

    /// Index and score of `member`.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match &self.form {
            Form::Compact(compact) => compact.rank(member),
            Form::Indexed(indexed) => {
                let score = indexed.score(member)?;
                Some((indexed.rank_of(score, member), score))
            }
        }
    }

    /// Adds a member or changes its score, and becomes indexed when the limits ask for it; returns the score it had.
    /// A member whose score stays equal is left as it is.
    pub fn insert(&mut self, member: &[u8], score: f64, limits: Limits) -> Option<f64> {
        debug_assert!(!score.is_nan());
        if let Form::Compact(compact) = &mut self.form {
            let may_grow = compact.len() < limits.entries && member.len() <= limits.value;
            if may_grow || compact.score(member).is_some() {
                return compact.insert(member, score);
            }
        }
        self.index(limits.secret).insert(member, score)
    }

    /// The indexed form, which it takes if it has not yet.
    fn index(&mut self, secret: u64) -> &mut Indexed {
        if let Form::Compact(_) = &self.form {
            let mut indexed = Box::new(Indexed::new(secret));
            for (member, score) in self.iter() {
                indexed.insert(member, score);
            }
            self.form = Form::Indexed(indexed);
        }
        match &mut self.form {
            Form::Indexed(indexed) => indexed,
            Form::Compact(_) => unreachable!("it has just become indexed"),
        }
    }

    /// Removes `member`; returns the score it had.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.form {
            Form::Compact(compact) => compact.remove(member),
            Form::Indexed(indexed) => indexed.remove(member),
        }
    }

    /// Removes the elements at these indexes; the range is cut to what exists.
    pub fn remove_range(&mut self, range: Range<usize>) {
        let range = self.cut(range);
        match &mut self.form {
            Form::Compact(compact) => compact.remove_range(range),
            // Nobody sees the form of an empty set, so everything may go at once.
            Form::Indexed(indexed) if range.len() == indexed.len() => *self = SortedSet::default(),
            Form::Indexed(indexed) => range.rev().for_each(|index| indexed.remove_at(index)),
        }
    }

    fn cut(&self, range: Range<usize>) -> Range<usize> {
        let end = range.end.min(self.len());
        range.start.min(end)..end
    }

    /// How many elements come before those that begin at `bound`, the lower end of a range.
    pub fn first_by_score(&self, bound: ScoreBound) -> usize {
        let ScoreBound { score, exclusive } = bound;
        self.rank_by_score(|other| other < score || (exclusive && other == score))
    }

    /// How many elements come up to `bound`, the upper end of a range.
    pub(crate) fn end_by_score(&self, bound: ScoreBound) -> usize {
        let ScoreBound { score, exclusive } = bound;
        self.rank_by_score(|other| other < score || (!exclusive && other == score))
    }

    /// The indexes of the elements from one bound to the other.
    pub fn range_by_score(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let start = self.first_by_score(min);
        start..self.end_by_score(max).max(start)
    }

    /// The indexes of the members from one bound to the other, without the first `skip` of them in that order. It is meant
    /// for sets whose scores are all equal; in others members are in no order, and a small set gives what a walk over it
    /// finds, as in Redis.
    pub fn range_by_lex(
        &self,
        min: LexBound<'_>,
        max: LexBound<'_>,
        order: Order,
        skip: usize,
    ) -> Range<usize> {
        let (below, above) = (
            |member: &[u8]| min.is_behind(member),
            |member: &[u8]| max.is_before(member),
        );
        match &self.form {
            Form::Compact(compact) => match order {
                Order::Ascending => compact.walk(below, above, skip),
                Order::Descending => compact.walk_back(below, above, skip),
            },
            Form::Indexed(indexed) => {
                let start = indexed.rank_by_member(below);
                let end = indexed.rank_by_member(|member| !above(member)).max(start);
                order.without(start..end, skip)
            }
        }
    }

    #[inline]
    fn rank_by_score(&self, before: impl Fn(f64) -> bool) -> usize {
        match &self.form {
            Form::Compact(compact) => compact.rank_by(|_, score| before(score)),
            Form::Indexed(indexed) => indexed.rank_by_score(before),
        }
    }

    /// All elements in order.
    pub fn iter(&self) -> Iter<'_> {
        self.range(0..self.len())
    }

    /// The elements at these indexes, ascending; the range is cut to what exists.
    pub fn range(&self, range: Range<usize>) -> Iter<'_> {
        Iter::ascending(&self.form, self.cut(range))
    }

    /// The elements at these (ascending) indexes, descending; the range is cut to what exists.
    pub fn range_rev(&self, range: Range<usize>) -> Iter<'_> {
        Iter::descending(&self.form, self.cut(range))
    }

    /// Some element by a number below the length, each by one number: for choosing at random. The numbers are in no
    /// particular order.
    pub fn any(&self, number: usize) -> Option<(&[u8], f64)> {
        match &self.form {
            _ if number >= self.len() => None,
            Form::Compact(compact) => Some(compact.next(compact.offset(number)).0),
            Form::Indexed(indexed) => Some(indexed.any(number)),
        }
    }

    /// Shows some elements from `cursor` on to `see`, and returns the cursor behind them; 0 at the end, and to begin with.
    /// Every element that stays in the set from the first call to the last is shown. A compact set is shown as a whole.
    pub fn scan<'a>(&'a self, cursor: u64, see: &mut dyn FnMut(&'a [u8], f64)) -> u64 {
        match &self.form {
            Form::Compact(_) => {
                self.iter().for_each(|(member, score)| see(member, score));
                0
            }
            Form::Indexed(indexed) => indexed.scan(cursor, see),
        }
    }
}

impl Container for SortedSet {
    #[inline]
    fn front(&self) -> *const u8 {
        match &self.form {
            Form::Compact(compact) => compact.front(),
            Form::Indexed(indexed) => std::ptr::from_ref(&**indexed).cast(),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        SortedSet::len(self)
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Compact(compact) => compact.heap_bytes(),
            Form::Indexed(indexed) => indexed.heap_bytes(),
        }
    }
}

impl PartialEq for SortedSet {
    fn eq(&self, other: &SortedSet) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for SortedSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |(member, score): (&[u8], f64)| (member.escape_ascii().to_string(), score);
        f.debug_map().entries(self.iter().map(shown)).finish()
    }
}
