//! Recoveries of several fresh starts as one. All have the loads of the first; what counts is the median start.

use crate::record::recovery::{
    Healing, RecoveryRecord, RecoveryVariant, RecoveryVerdict, VariantStart,
};
use crate::record::{Cell, Grade, Validity};
use crate::run::starts::{Start, of_cell};
use crate::statistics::estimate;

/// A start, counted from 1, when it began, and what it found.
type Numbered<'a> = (u32, f64, &'a RecoveryRecord);

/// The recoveries of `cell` in all `starts`; `None` if none was tried.
pub(in crate::run) fn merged(starts: &[Start], cell: &Cell, seed: u64) -> Option<RecoveryRecord> {
    let found = of_cell(starts, cell).into_iter();
    let all: Vec<Numbered<'_>> = found
        .filter_map(|(start, offset_s, cell)| Some((start, offset_s, cell.recovery.as_ref()?)))
        .collect();
    let (_, _, first) = all.first()?;
    let most = all.iter().map(|(_, _, found)| found.variants.len()).max()?;
    Some(RecoveryRecord {
        variants: (0..most).filter_map(|at| variant(&all, at, seed)).collect(),
        healing: healing(&all),
        // Starts at loads of their own could not be put together.
        knee_source: match all
            .iter()
            .any(|(_, _, found)| found.knee_source != first.knee_source)
        {
            true => format!(
                "{} in the first start, whose loads the others repeat{}",
                first.knee_source,
                knees(starts, cell)
            ),
            false => first.knee_source.clone(),
        },
        ..(*first).clone()
    })
}

/// What the starts found the knee to be, each by itself, where several searched for it.
fn knees(starts: &[Start], cell: &Cell) -> String {
    let found = of_cell(starts, cell).into_iter();
    let mut found: Vec<f64> = found
        .filter_map(|(_, _, cell)| cell.capacity.as_ref()?.goals.first()?.lower_rps)
        .collect();
    found.sort_by(f64::total_cmp);
    match &found[..] {
        [least, .., most] => {
            format!("; the starts found {least:.0}/s to {most:.0}/s, each by itself")
        }
        _ => String::new(),
    }
}

/// Variant number `at` as it went in the median start, with what became of it in each.
fn variant(all: &[Numbered<'_>], at: usize, seed: u64) -> Option<RecoveryVariant> {
    let runs: Vec<(u32, f64, &RecoveryVariant)> = all
        .iter()
        .filter_map(|(start, offset_s, found)| Some((*start, *offset_s, found.variants.get(at)?)))
        .collect();
    let mut ranked: Vec<_> = runs
        .iter()
        .filter(|(_, _, run)| bad_for_s(run).is_some())
        .collect();
    ranked.sort_by(|(_, _, a), (_, _, b)| {
        let order = |run: &RecoveryVariant| bad_for_s(run).unwrap_or(f64::INFINITY);
        order(a).total_cmp(&order(b))
    });
    // Of two in the middle the worse one. Where half of the starts tell nothing, that is what is told.
    let (_, offset_s, middle) = match ranked.len() * 2 > runs.len() {
        true => *ranked[ranked.len() / 2],
        false => *runs.iter().find(|(_, _, run)| bad_for_s(run).is_none())?,
    };
    let mut merged = middle.clone();
    merged.offset_s += offset_s;
    merged.validity = validity(&runs);
    merged.starts = runs
        .iter()
        .map(|(start, _, run)| VariantStart {
            start: *start,
            verdict: run.verdict,
            time_to_recover_s: run.time_to_recover_s,
            backlog_drain_s: run.backlog_drain_s,
            grade: run.validity.grade,
        })
        .collect();
    let times: Option<Vec<f64>> = runs
        .iter()
        .map(|(_, _, run)| bad_for_s(run).filter(|seconds| seconds.is_finite()))
        .collect();
    merged.over_starts = times
        .filter(|times| times.len() > 1)
        .and_then(|times| estimate(&times, seed));
    if runs.len() > 1 {
        merged.sentence = sentence(&runs, &middle.sentence);
    }
    Some(merged)
}

/// Seconds from the end of the overload for which it was not good, infinite if it stayed so; `None` if the run does not tell.
fn bad_for_s(run: &RecoveryVariant) -> Option<f64> {
    match run.verdict {
        RecoveryVerdict::Unharmed => Some(0.0),
        RecoveryVerdict::Recovered => Some(run.time_to_recover_s.unwrap_or(0.0)),
        RecoveryVerdict::Metastable => Some(f64::INFINITY),
        RecoveryVerdict::GeneratorLimited
        | RecoveryVerdict::NotHealthyBefore
        | RecoveryVerdict::Unfinished => None,
    }
}

/// A start that was not well before the overload did not fail to heal.
fn sentence(runs: &[(u32, f64, &RecoveryVariant)], middle: &str) -> String {
    let healed = runs
        .iter()
        .filter(|(_, _, run)| run.verdict.healed())
        .count();
    let telling = runs.iter().filter(|(_, _, run)| bad_for_s(run).is_some());
    let (telling, n) = (telling.count(), runs.len());
    if telling == n {
        return format!("{healed} of {n} starts healed; the median start: {middle}");
    }
    format!(
        "{healed} of {n} starts healed and {} say nothing of it; the median start: {middle}",
        n - telling
    )
}

fn validity(runs: &[(u32, f64, &RecoveryVariant)]) -> Validity {
    let mut validity = Validity::default();
    let grade = Grade::of_several(runs.iter().map(|(_, _, run)| run.validity.grade));
    for (start, _, run) in runs {
        if grade != Grade::Valid && run.validity.grade != Grade::Valid {
            let reasons = run.validity.reasons.join(", and ");
            validity.lower(grade, format!("start {start}: {reasons}"));
        }
    }
    validity
}

/// What the median start healed from; nothing counts as less than any load.
fn healing(all: &[Numbered<'_>]) -> Option<Healing> {
    let mut found: Vec<&Healing> = all
        .iter()
        .filter_map(|(_, _, found)| found.healing.as_ref())
        .collect();
    let hidden = |healing: &Healing| healing.hidden_rps.unwrap_or(0.0);
    found.sort_by(|a, b| hidden(a).total_cmp(&hidden(b)));
    let middle = found.get(found.len().checked_sub(1)? / 2)?;
    let mut merged = (*middle).clone();
    if found.len() > 1 {
        merged.sentence = format!("the median of {} starts: {}", found.len(), merged.sentence);
    }
    Some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunRecord;

    fn start(verdict: RecoveryVerdict, recovered_s: Option<f64>, hidden_rps: Option<f64>) -> Start {
        let variant = RecoveryVariant {
            verdict,
            time_to_recover_s: recovered_s,
            sentence: format!("{verdict:?}"),
            offset_s: 5.0,
            ..RecoveryVariant::default()
        };
        let cell = Cell {
            recovery: Some(RecoveryRecord {
                knee_rps: 1_000.0,
                variants: vec![variant],
                healing: Some(Healing {
                    hidden_rps,
                    ..Healing::default()
                }),
                ..RecoveryRecord::default()
            }),
            ..Cell::default()
        };
        Start {
            offset_s: 100.0,
            record: RunRecord {
                cells: vec![cell],
                ..RunRecord::default()
            },
        }
    }

    fn merge(starts: &[Start]) -> RecoveryRecord {
        merged(starts, &Cell::default(), 42).unwrap()
    }

    use RecoveryVerdict::{Metastable, NotHealthyBefore, Recovered, Unharmed};

    #[test]
    fn the_median_start_counts_and_each_is_told() {
        let found = merge(&[
            start(Recovered, Some(9.0), Some(700.0)),
            start(Unharmed, Some(0.0), Some(700.0)),
            start(Metastable, None, None),
            start(Recovered, Some(2.0), Some(500.0)),
            start(Recovered, Some(4.0), Some(700.0)),
        ]);
        let variant = &found.variants[0];
        assert_eq!(
            (variant.verdict, variant.time_to_recover_s, variant.offset_s),
            (Recovered, Some(4.0), 105.0)
        );
        assert_eq!(
            variant.sentence,
            "4 of 5 starts healed; the median start: Recovered"
        );
        let verdicts: Vec<_> = variant.starts.iter().map(|one| one.verdict).collect();
        assert_eq!(
            verdicts,
            [Recovered, Unharmed, Metastable, Recovered, Recovered]
        );
        assert_eq!(variant.over_starts, None, "one never came back");
        assert_eq!(found.healing.unwrap().hidden_rps, Some(700.0));
    }

    #[test]
    fn times_have_an_interval_where_all_came_back() {
        let starts: Vec<Start> = [2.0, 3.0, 4.0, 5.0, 9.0]
            .map(|seconds| start(Recovered, Some(seconds), None))
            .into();
        let over = merge(&starts).variants[0].over_starts.unwrap();
        assert_eq!((over.n, over.median), (5, 4.0));
    }

    #[test]
    fn of_two_in_the_middle_the_worse_one_counts() {
        let found = merge(&[
            start(Recovered, Some(2.0), None),
            start(Metastable, None, None),
        ]);
        assert_eq!(found.variants[0].verdict, Metastable);
    }

    #[test]
    fn starts_that_were_not_well_before_decide_nothing_unless_they_are_half() {
        let sick = || start(NotHealthyBefore, None, None);
        let well = || start(Recovered, Some(3.0), None);
        let verdict = |starts: &[Start]| merge(starts).variants[0].verdict;
        assert_eq!(verdict(&[sick(), well(), well()]), Recovered);
        assert_eq!(verdict(&[sick(), well()]), NotHealthyBefore);
        let found = merge(&[sick(), sick(), sick()]);
        assert_eq!(
            found.variants[0].sentence,
            "0 of 3 starts healed and 3 say nothing of it; the median start: NotHealthyBefore"
        );
    }
}
