//! Sliding window counter: what the present window admitted, and the part of the window before that is left of it.

use super::spans::{History, Span, Wrong, at_most, sorted};
use super::windows::{Window, possible};

/// What is wrong with `history` on these aligned windows.
#[must_use]
pub(super) fn judge(history: &History, windows: &[Window], window_ns: i64, limit: u64) -> Wrong {
    Wrong {
        over: surplus(&history.admitted, windows, window_ns, limit),
        under: missing(history, windows, window_ns, limit),
        ..Wrong::default()
    }
}

/// Share of the window before that counts, when `left_ns` of the present one are left.
fn weighted(before: u64, left_ns: i64, window_ns: i64) -> f64 {
    let left = left_ns.clamp(0, window_ns) as f64 / window_ns.max(1) as f64;
    before as f64 * left
}

/// Admissions that must go until every one that is certainly in a window found room in it.
fn surplus(admitted: &[Span], windows: &[Window], window_ns: i64, limit: u64) -> u64 {
    let mut certain: Vec<(usize, i64)> = Vec::with_capacity(admitted.len());
    for span in admitted {
        let (first, end) = possible(windows, *span);
        if end == first + 1 {
            certain.push((first, span.to));
        }
    }
    certain.sort_unstable();
    let (mut surplus, mut kept) = (0, vec![0_u64; windows.len()]);
    for (window, to) in certain {
        let before = window.checked_sub(1).map_or(0, |index| kept[index]);
        // The last of those counted here was decided at this time at the latest, and saw them all. Rounded down, as the
        // implementation that admits most does.
        let left = windows[window].end.from.saturating_sub(to);
        let carried = weighted(before, left, window_ns).floor() as u64;
        if kept[window] + 1 + carried > limit {
            surplus += 1;
        } else {
            kept[window] += 1;
        }
    }
    surplus
}

/// Denials with room left. One that should have passed counts as passed for those after it.
fn missing(history: &History, windows: &[Window], window_ns: i64, limit: u64) -> u64 {
    let charges = Charges::of(history);
    let (mut missing, mut passed) = (0, vec![0_u64; windows.len()]);
    for denial in history.judged_denials() {
        let (first, end) = possible(windows, denial);
        let may_be_full = (first..end).any(|window| {
            let here = charges.within(&windows[window], denial.to) + passed[window];
            let before = window.checked_sub(1).map_or(0, |index| {
                charges.within(&windows[index], i64::MAX) + passed[index]
            });
            let left = windows[window].end.to.saturating_sub(denial.from);
            let carried = weighted(before, left, window_ns).ceil() as u64;
            here + carried + 1 > limit
        });
        if first < end && !may_be_full {
            missing += 1;
            passed[first..end].iter_mut().for_each(|count| *count += 1);
        }
    }
    missing
}

/// Everything that may have been charged, each once, whatever the number of windows it may lie in: a request without an
/// answer may lie in all that follow.
struct Charges {
    /// Earliest times, ascending.
    begun: Vec<i64>,
    /// Latest times, ascending.
    over: Vec<i64>,
}

impl Charges {
    fn of(history: &History) -> Charges {
        Charges {
            begun: sorted(history.charged(), |span| span.from),
            over: sorted(history.charged(), |span| span.to),
        }
    }

    /// Charges that may lie in `window` and may have begun by `until`, a time not before the window.
    fn within(&self, window: &Window, until: i64) -> u64 {
        let begun = at_most(&self.begun, until.min(window.end.to.saturating_sub(1)));
        // What was over before the window had begun before it as well, so it is among those.
        let over = at_most(&self.over, window.begin.from.saturating_sub(1));
        begun.saturating_sub(over) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn charges_are_counted_as_one_by_one(
            spans in prop::collection::vec((-500..3_500_i64, 0..3_000_i64), 0..30),
            lost in prop::collection::vec(-500..3_500_i64, 0..10),
            later in 0..1_500_i64,
        ) {
            let history = History {
                admitted: spans.iter().map(|(from, long)| Span { from: *from, to: from + long }).collect(),
                denied: Vec::new(),
                unknown: lost.iter().map(|from| Span { from: *from, to: i64::MAX }).collect(),
                complete_until: i64::MAX,
            };
            let (charges, windows) = (Charges::of(&history), windows());
            for (index, window) in windows.iter().enumerate() {
                let until = window.begin.from + later;
                let in_it = |span: &Span| {
                    let (first, end) = possible(&windows, *span);
                    (first..end).contains(&index) && span.from <= until
                };
                let plain = history.charged().filter(in_it).count() as u64;
                prop_assert_eq!(charges.within(window, until), plain);
            }
        }
    }

    fn windows() -> Vec<Window> {
        let exactly = |at| Span { from: at, to: at };
        let window = |index: i64| Window {
            begin: exactly(index * 1_000),
            end: exactly((index + 1) * 1_000),
        };
        (0..3).map(window).collect()
    }

    fn at(time: i64) -> Span {
        Span {
            from: time,
            to: time,
        }
    }

    #[test]
    fn the_window_before_counts_by_what_is_left_of_it() {
        let mut admitted = vec![at(900); 10];
        admitted.extend([at(1_500); 5]);
        assert_eq!(surplus(&admitted, &windows(), 1_000, 10), 0);
        admitted.extend([at(1_501); 2]);
        assert_eq!(surplus(&admitted, &windows(), 1_000, 10), 1);
        let mut history = History {
            admitted,
            denied: vec![(at(1_502), None)],
            unknown: Vec::new(),
            complete_until: i64::MAX,
        };
        assert_eq!(missing(&history, &windows(), 1_000, 10), 0);
        history.denied.push((at(1_900), None));
        assert_eq!(missing(&history, &windows(), 1_000, 10), 1);
    }
}
