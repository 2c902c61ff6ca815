//! Strategies over several fresh starts as one comparison: figures are medians over the starts, admissions are added, and
//! every strategy stands against `exact` with an interval and a test.

use crate::record::{
    AgainstExact, ErrorVerdict, Grade, MitigationRow, MitigationStart, MitigationsRecord, Validity,
};
use crate::run::starts::Start;
use crate::statistics::{mann_whitney, median, ratio, ratio_interval};
use crate::target::strategy::Strategy;

/// A row in the start of this number.
type Numbered<'a> = (u32, &'a MitigationRow);

/// The comparison of all starts; of one start, as it is. `None` if none was made.
pub(crate) fn merged(starts: &[Start], seed: u64) -> Option<MitigationsRecord> {
    let found = |start: &'_ Start| start.record.mitigations.is_some();
    let first = starts.iter().find(|start| found(start))?;
    let mut record = first.record.mitigations.clone()?;
    if starts.len() < 2 {
        return Some(record);
    }
    for row in &mut record.rows {
        let rows: Vec<Numbered<'_>> = (1..)
            .zip(starts)
            .filter_map(|(number, start)| {
                let rows = &start.record.mitigations.as_ref()?.rows;
                let same = |other: &&MitigationRow| {
                    (&other.target, &other.scenario) == (&row.target, &row.scenario)
                };
                Some((number, rows.iter().find(same)?))
            })
            .collect();
        *row = one_row(&rows);
    }
    against_exact(&mut record.rows, seed);
    Some(record)
}

/// The row of all starts; what is the same in all of them is that of the first.
fn one_row(rows: &[Numbered<'_>]) -> MitigationRow {
    let of = |pick: fn(&MitigationRow) -> Option<f64>| -> Vec<f64> {
        rows.iter().filter_map(|(_, row)| pick(row)).collect()
    };
    let sum = |pick: fn(&MitigationRow) -> u64| rows.iter().map(|(_, row)| pick(row)).sum();
    let spread = rows
        .iter()
        .filter_map(|(_, row)| row.cpu_us_per_decision_spread)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let first = rows.first().map(|(_, row)| (*row).clone());
    MitigationRow {
        rounds: rows.iter().map(|(_, row)| row.rounds).sum(),
        common_p50_us: median(&of(|row| row.common_p50_us)),
        common_p99_us: median(&of(|row| row.common_p99_us)),
        service_cpu_us_per_decision: median(&of(|row| row.service_cpu_us_per_decision)),
        store_cpu_us_per_decision: median(&of(|row| row.store_cpu_us_per_decision)),
        cpu_us_per_decision_spread: spread,
        store_questions_per_decision: median(&of(|row| row.store_questions_per_decision)),
        peak_goodput_rps: median(&of(|row| row.peak_goodput_rps)),
        admitted: sum(|row| row.admitted),
        allowed_max: sum(|row| row.allowed_max),
        allowed_min: sum(|row| row.allowed_min),
        over_admitted: sum(|row| row.over_admitted),
        stated_over: sum(|row| row.stated_over),
        under_admitted: sum(|row| row.under_admitted),
        stated_under: sum(|row| row.stated_under),
        worst_beyond_percent: of(|row| Some(row.worst_beyond_percent))
            .into_iter()
            .fold(0.0, f64::max),
        verdict: verdict(rows),
        validity: validity(rows),
        starts: rows
            .iter()
            .map(|(start, row)| MitigationStart {
                start: *start,
                peak_goodput_rps: row.peak_goodput_rps,
                cpu_us_per_decision: row.cpu_us_per_decision(),
                grade: row.validity.grade,
            })
            .collect(),
        ..first.unwrap_or_default()
    }
}

/// One start beyond what is stated is enough.
fn verdict(rows: &[Numbered<'_>]) -> ErrorVerdict {
    let found = |verdict| rows.iter().any(|(_, row)| row.verdict == verdict);
    let worst_first = [
        ErrorVerdict::OverBeyond,
        ErrorVerdict::UnderBeyond,
        ErrorVerdict::Within,
    ];
    let worst = worst_first.into_iter().find(|verdict| found(*verdict));
    worst.unwrap_or_default()
}

/// One spoiled start out of five does not spoil the medians; half of them do.
fn validity(rows: &[Numbered<'_>]) -> Validity {
    let mut validity = Validity::default();
    let grade = Grade::of_several(rows.iter().map(|(_, row)| row.validity.grade));
    if grade == Grade::Valid {
        return validity;
    }
    for (start, row) in rows {
        if row.validity.grade != Grade::Valid {
            let why = row.validity.reasons.join(", and ");
            validity.lower(grade, format!("start {start}: {why}"));
        }
    }
    validity
}

/// Puts every row beside the one that asks the store each time in the same scenario.
fn against_exact(rows: &mut [MitigationRow], seed: u64) {
    let name = Strategy::Exact.to_string();
    let exact: Vec<MitigationRow> = rows
        .iter()
        .filter(|row| row.target == name)
        .cloned()
        .collect();
    for row in rows {
        let beside = exact.iter().find(|exact| exact.scenario == row.scenario);
        let against = |pick: fn(&MitigationStart) -> Option<f64>| {
            let of =
                |row: &MitigationRow| -> Vec<f64> { row.starts.iter().filter_map(pick).collect() };
            against(&of(beside?), &of(row), seed)
        };
        let goodput = against(|start| start.peak_goodput_rps);
        let cpu = against(|start| start.cpu_us_per_decision);
        (row.goodput_against_exact, row.cpu_against_exact) = (goodput, cpu);
        row.goodput_of_exact = row.goodput_against_exact.map(|found| found.ratio);
        row.cpu_of_exact = row.cpu_against_exact.map(|found| found.ratio);
    }
}

fn against(exact: &[f64], own: &[f64], seed: u64) -> Option<AgainstExact> {
    Some(AgainstExact {
        ratio: ratio(exact, own)?,
        ci: ratio_interval(exact, own, seed),
        test: mann_whitney(exact, own),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunRecord;

    fn row(name: &str, goodput: f64, cpu: f64, over: u64) -> MitigationRow {
        MitigationRow {
            target: name.into(),
            scenario: "hot".into(),
            rounds: 1,
            peak_goodput_rps: Some(goodput),
            service_cpu_us_per_decision: Some(cpu),
            store_cpu_us_per_decision: Some(1.0),
            admitted: 1_000 + over,
            allowed_max: 1_000,
            over_admitted: over,
            verdict: match over {
                0 => ErrorVerdict::Within,
                _ => ErrorVerdict::OverBeyond,
            },
            ..MitigationRow::default()
        }
    }

    fn start(rows: Vec<MitigationRow>) -> Start {
        let found = MitigationsRecord {
            services: 2,
            rows,
            ..MitigationsRecord::default()
        };
        let record = RunRecord {
            mitigations: Some(found),
            ..RunRecord::default()
        };
        Start {
            offset_s: 0.0,
            record,
        }
    }

    #[test]
    fn five_starts_give_medians_an_interval_and_a_test() {
        let starts: Vec<Start> = [100.0, 104.0, 98.0, 101.0, 102.0]
            .iter()
            .map(|exact| {
                start(vec![
                    row("exact", *exact, 9.0, 0),
                    row("local:25", 3.0 * exact, 4.0, 0),
                ])
            })
            .collect();
        let found = merged(&starts, 42).unwrap();
        let local = &found.rows[1];
        assert_eq!((local.rounds, local.starts.len()), (5, 5));
        assert_eq!(local.peak_goodput_rps, Some(303.0));
        assert_eq!((local.admitted, local.allowed_max), (5_000, 5_000));
        let against = local.goodput_against_exact.unwrap();
        let (low, high) = against.ci.unwrap();
        assert!((2.9..3.1).contains(&against.ratio), "{against:?}");
        assert!(low > 2.8 && high < 3.2, "{against:?}");
        // Five against five without overlap: 2 of 252 divisions.
        assert!((against.test.unwrap().p - 2.0 / 252.0).abs() < 1e-9);
        assert_eq!(local.cpu_of_exact, Some(0.5));
        assert_eq!(found.rows[0].goodput_of_exact, Some(1.0));
    }

    #[test]
    fn one_start_beyond_what_is_stated_is_found_among_many() {
        let starts: Vec<Start> = (0..5)
            .map(|n| start(vec![row("planted", 1.0, 1.0, u64::from(n == 3))]))
            .collect();
        let found = merged(&starts, 42).unwrap();
        assert_eq!(found.rows[0].verdict, ErrorVerdict::OverBeyond);
        assert!(!found.rows[0].may_win());
        assert_eq!(found.rows[0].goodput_against_exact, None);
    }

    #[test]
    fn a_start_without_a_strategy_leaves_the_others() {
        let starts = [
            start(vec![row("exact", 100.0, 1.0, 0)]),
            start(Vec::new()),
            start(vec![row("exact", 300.0, 1.0, 0)]),
        ];
        let found = merged(&starts, 42).unwrap();
        let numbers: Vec<u32> = found.rows[0].starts.iter().map(|s| s.start).collect();
        assert_eq!(numbers, [1, 3]);
        assert_eq!(found.rows[0].peak_goodput_rps, Some(200.0));
        assert!(merged(&[], 42).is_none());
        let alone = merged(&starts[..1], 42).unwrap();
        assert!(alone.rows[0].starts.is_empty());
    }
}
