//! Fixed windows, whether they begin with the first request of a key or at fixed times.
//!
//! Where windows begin is known only to within the time between a send and its answer, so every window has an earliest and
//! a latest begin. Too many admissions: no assignment of them to the windows they may lie in leaves every window
//! within the limit. Too few: of the requests that certainly lie in a window fewer were admitted than the limit allows, or
//! one was denied before as many can have been: an admission that was sent after the denial had arrived came later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::spans::{History, Span, Wrong, stretched};

/// Most windows looked at; a step with more is judged by its counts.
pub(super) const WINDOWS_MAX: usize = 1 << 16;
/// A store whose clock has whole milliseconds may let a window live one longer.
const MILLISECOND: i64 = 1_000_000;

/// A window that may have been: earliest and latest begin, earliest and latest end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// When it began.
    pub(super) begin: Span,
    /// The first moment after it.
    pub(super) end: Span,
}

/// Times at which windows begin, ascending; one at or before the first decision, one after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// The times, in nanoseconds of the step's clock.
    pub edges: Vec<i64>,
}

impl Grid {
    /// Multiples of `period_ns` since the Unix epoch, from the step's begin to `until_ns` after it. `None` if there are
    /// more than `WINDOWS_MAX`.
    #[must_use]
    pub(crate) fn epoch(unix_at_zero_ns: i64, period_ns: i64, until_ns: i64) -> Option<Grid> {
        let period = period_ns.max(1);
        if until_ns / period >= WINDOWS_MAX as i64 - 3 {
            return None;
        }
        // The window before the first counts too where the earlier one has a weight.
        let first = -unix_at_zero_ns.rem_euclid(period) - period;
        let edges = (0_i64..)
            .map(|index| first.saturating_add(index.saturating_mul(period)))
            .take_while(|edge| *edge <= until_ns.saturating_add(2 * period));
        Some(Grid {
            edges: edges.collect(),
        })
    }

    /// The same windows as lived through.
    #[must_use]
    pub(super) fn windows(&self) -> Vec<Window> {
        let exactly = |at| Span { from: at, to: at };
        let pairs = self.edges.windows(2);
        pairs
            .map(|pair| Window {
                begin: exactly(pair[0]),
                end: exactly(pair[1]),
            })
            .collect()
    }
}

/// Windows of `length_ns` that begin with the first request after the one before has ended. `None` if there can be more
/// than [`WINDOWS_MAX`].
#[must_use]
pub(super) fn from_first_hit(history: &History, length_ns: i64) -> Option<Vec<Window>> {
    let (shortest, longest) = stretched(length_ns.max(MILLISECOND));
    let longest = longest.saturating_add(MILLISECOND);
    let known = || {
        let denied = history.denied.iter().map(|(span, _)| *span);
        history.admitted.iter().copied().chain(denied)
    };
    let mut all: Vec<Span> = known().chain(history.unknown.iter().copied()).collect();
    all.sort_unstable_by_key(|span| span.from);
    let mut told: Vec<Span> = known().collect();
    told.sort_unstable_by_key(|span| span.from);
    // The latest `to` of the first spans; the earliest `to` of the last ones.
    let open_until = running(all.iter().map(|span| span.to), i64::max);
    let mut settled_by = running(told.iter().rev().map(|span| span.to), i64::min);
    settled_by.reverse();
    let horizon = told.iter().map(|span| span.to).max()?;
    let earliest = all.first()?.from;
    if horizon.saturating_sub(earliest) / shortest >= WINDOWS_MAX as i64 {
        return None;
    }
    let first_after = |edge: i64| {
        let begun = all.partition_point(|span| span.from <= edge);
        if begun > 0 && open_until[begun - 1] >= edge {
            return Some(edge);
        }
        all.get(begun).map(|span| span.from)
    };
    let latest_after = |edge: i64| {
        let before = told.partition_point(|span| span.from < edge);
        settled_by.get(before).copied().unwrap_or(i64::MAX)
    };
    let mut windows = Vec::new();
    let mut begin = Span {
        from: earliest,
        to: latest_after(i64::MIN),
    };
    loop {
        let end = Span {
            from: begin.from.saturating_add(shortest),
            to: begin.to.saturating_add(longest),
        };
        windows.push(Window { begin, end });
        let Some(from) = first_after(end.from).filter(|from| *from <= horizon) else {
            return Some(windows);
        };
        begin = Span {
            from,
            to: latest_after(end.to),
        };
    }
}

fn running(values: impl Iterator<Item = i64>, better: fn(i64, i64) -> i64) -> Vec<i64> {
    let mut kept: Option<i64> = None;
    let next = |value| {
        let value = kept.map_or(value, |kept| better(kept, value));
        kept = Some(value);
        value
    };
    values.map(next).collect()
}

/// What is wrong with `history` if every one of `windows` admits `limit`.
#[must_use]
pub(super) fn judge(history: &History, windows: &[Window], limit: u64) -> Wrong {
    let explained = most(&history.admitted, windows, limit);
    let (missing, fewest) = missing(history, windows, limit);
    let denied = history.denied.iter().map(|(span, _)| *span);
    let offered: Vec<Span> = history.charged().chain(denied).collect();
    Wrong {
        over: history.admitted.len() as u64 - explained,
        under: missing,
        fewest: Some(fewest),
        most: Some(most(&offered, windows, limit)),
    }
}

/// The windows that may hold a decision, first and one past the last.
pub(super) fn possible(windows: &[Window], decision: Span) -> (usize, usize) {
    let first = windows.partition_point(|window| window.end.to <= decision.from);
    let end = windows.partition_point(|window| window.begin.from <= decision.to);
    (first, end.max(first))
}

/// Most of these decisions that can be in the windows with at most `limit` in each.
#[must_use]
pub(super) fn most(decisions: &[Span], windows: &[Window], limit: u64) -> u64 {
    let mut ranges: Vec<(usize, usize)> = decisions
        .iter()
        .map(|span| possible(windows, *span))
        .collect();
    ranges.sort_unstable();
    let (mut placed, mut waiting, mut next) = (0, BinaryHeap::new(), 0);
    for window in 0..windows.len() {
        while let Some((_, end)) = ranges.get(next).filter(|(first, _)| *first <= window) {
            waiting.push(Reverse(*end));
            next += 1;
        }
        // Those with the fewest windows left go first.
        let mut room = limit;
        while room > 0
            && let Some(Reverse(end)) = waiting.pop()
        {
            if end > window {
                placed += 1;
                room -= 1;
            }
        }
    }
    placed
}

/// Admissions missing, and those that there must be, summed over the windows.
fn missing(history: &History, windows: &[Window], limit: u64) -> (u64, u64) {
    let count = windows.len();
    let mut charged = vec![0_i64; count + 1];
    for span in history.charged() {
        let (first, end) = possible(windows, span);
        charged[first.min(count)] += 1;
        charged[end.min(count)] -= 1;
    }
    let (mut offered, mut denied) = (vec![0_u64; count], vec![0_u64; count]);
    // Every decision lies in a window: where only one is possible, in that.
    let certain = |span: Span| {
        let (first, end) = possible(windows, span);
        (end == first + 1 && span.to < history.complete_until).then_some(first)
    };
    for span in &history.admitted {
        if let Some(window) = certain(*span) {
            offered[window] += 1;
        }
    }
    for (span, _) in &history.denied {
        if let Some(window) = certain(*span) {
            offered[window] += 1;
            denied[window] += 1;
        }
    }
    let early = early(history, windows, limit, certain);
    let (mut missing, mut fewest) = (0, 0);
    let mut here = 0_i64;
    for window in 0..count {
        here += charged[window];
        let charged = here.max(0) as u64;
        let by_offer = offered[window].min(limit).saturating_sub(charged);
        let by_denial = denied[window].min(limit.saturating_sub(charged));
        missing += by_offer.max(by_denial).max(early[window]);
        fewest += offered[window].min(limit);
    }
    (missing, fewest)
}

/// Denials of each window that came before it can have been full. One that should have passed counts as passed for those
/// after it.
fn early(
    history: &History,
    windows: &[Window],
    limit: u64,
    certain: impl Fn(Span) -> Option<usize>,
) -> Vec<u64> {
    let mut charged: Vec<Span> = history.charged().collect();
    charged.sort_unstable_by_key(|span| span.from);
    let mut denied: Vec<Span> = history.denied.iter().map(|(span, _)| *span).collect();
    denied.sort_unstable_by_key(|span| span.to);
    let mut held = Stretches::new(windows.len());
    let mut early = vec![0_u64; windows.len()];
    let mut begun = charged.into_iter().peekable();
    for denial in denied {
        while let Some(span) = begun.next_if(|span| span.from <= denial.to) {
            let (first, end) = possible(windows, span);
            held.add(first, end);
        }
        if let Some(window) = certain(denial)
            && held.at(window) + early[window] < limit
        {
            early[window] += 1;
        }
    }
    early
}

/// A row of counts with "add one to a stretch" in logarithmic time (a Fenwick tree of differences).
struct Stretches(Vec<i64>);

impl Stretches {
    fn new(len: usize) -> Stretches {
        Stretches(vec![0; len + 1])
    }

    fn add(&mut self, first: usize, end: usize) {
        for (from, amount) in [(first, 1), (end, -1)] {
            let mut node = from + 1;
            while let Some(count) = self.0.get_mut(node) {
                *count += amount;
                node += node & node.wrapping_neg();
            }
        }
    }

    fn at(&self, index: usize) -> u64 {
        let (mut node, mut sum) = (index + 1, 0);
        while node > 0 {
            sum += self.0[node];
            node &= node - 1;
        }
        sum.max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_stretches_agree_with_a_plain_row() {
        let (mut tree, mut plain) = (Stretches::new(9), [0_u64; 9]);
        for round in 0..40_usize {
            let (first, end) = (round * 5 % 9, (round * 5 % 9 + round % 4).min(9));
            tree.add(first, end);
            plain[first..end].iter_mut().for_each(|count| *count += 1);
            let all: Vec<u64> = (0..9).map(|index| tree.at(index)).collect();
            assert_eq!(all, plain, "{round}");
        }
    }

    fn history(admitted: &[(i64, i64)], denied: &[(i64, i64)]) -> History {
        let spans = |given: &[(i64, i64)]| -> Vec<Span> {
            given.iter().map(|(from, to)| span(*from, *to)).collect()
        };
        History {
            admitted: spans(admitted),
            denied: spans(denied).into_iter().map(|span| (span, None)).collect(),
            unknown: Vec::new(),
            complete_until: i64::MAX,
        }
    }

    #[test]
    fn a_denial_before_the_window_is_full_is_too_early() {
        let windows = [at(0, 100), at(100, 200)];
        let wrong = |history: &History| judge(history, &windows, 2).under;
        // Two admissions in all, as the sum allows; but the denial had arrived before the second was sent.
        assert_eq!(wrong(&history(&[(1, 2), (50, 51)], &[(10, 11)])), 1);
        // Answers that were under way together may have been decided in any order.
        assert_eq!(wrong(&history(&[(1, 2), (10, 51)], &[(10, 11)])), 0);
        assert_eq!(wrong(&history(&[(1, 2), (11, 51)], &[(10, 11)])), 0);
        // The window before was full, and the denial may have been in it.
        let edge = history(&[(1, 2), (3, 4), (120, 121), (130, 131)], &[(98, 102)]);
        assert_eq!(wrong(&edge), 0);
        // One that was lost may have been charged.
        let mut lost = history(&[(1, 2), (50, 51)], &[(10, 11)]);
        lost.unknown = vec![span(5, i64::MAX)];
        assert_eq!(wrong(&lost), 0);
        // Of many only as many as had room are too early.
        let many = history(&[(1, 2), (50, 51)], &[(10, 11), (12, 13), (14, 15)]);
        assert_eq!(wrong(&many), 1);
    }

    fn at(from: i64, to: i64) -> Window {
        let exactly = |at| Span { from: at, to: at };
        Window {
            begin: exactly(from),
            end: exactly(to),
        }
    }

    fn span(from: i64, to: i64) -> Span {
        Span { from, to }
    }

    #[test]
    fn a_decision_at_a_boundary_goes_where_there_is_room() {
        let windows = [at(0, 10), at(10, 20)];
        let decisions = [span(1, 2), span(8, 11), span(8, 12), span(13, 14)];
        assert_eq!(most(&decisions, &windows, 2), 4);
        assert_eq!(most(&decisions, &windows, 1), 2);
        assert_eq!(most(&[span(25, 30)], &windows, 9), 0);
        assert_eq!(possible(&windows, decisions[1]), (0, 2));
    }

    #[test]
    fn epoch_windows_begin_at_multiples() {
        let grid = Grid::epoch(1_003, 10, 25).unwrap();
        assert_eq!(grid.edges, [-13, -3, 7, 17, 27, 37]);
        assert_eq!(grid.windows().len(), 5);
        assert_eq!(Grid::epoch(0, 1, i64::MAX), None);
    }

    #[test]
    fn windows_follow_the_first_request_after_a_silence() {
        let second = 1_000_000_000;
        let history = History {
            admitted: vec![span(0, 10), span(5 * second, 5 * second + 20)],
            denied: Vec::new(),
            unknown: Vec::new(),
            complete_until: i64::MAX,
        };
        let windows = from_first_hit(&history, second).unwrap();
        assert_eq!(windows.len(), 2);
        assert_eq!(windows[0].begin, span(0, 10));
        // The silence before makes the second begin as certain as the first.
        assert_eq!(windows[1].begin, span(5 * second, 5 * second + 20));
    }
}
