//! The study's own table of thresholds (000, section 3.3), applied to its own rows: the printed status and this one
//! differ in places.

use super::seeds::LadderRow;
use crate::record::Profile;
use crate::record::paper::{Colour, Judgement};
use crate::record::status::Bounds;

/// The row by the study's thresholds. Throughput is its "Actual RPS" by the target, as the table says.
#[must_use]
pub(crate) fn judge(row: &LadderRow) -> Judgement {
    let profile = Profile::bench();
    let offered = row.target_rps.max(f64::MIN_POSITIVE);
    let rising = |value: f64, bounds: Bounds| {
        if value < bounds.good {
            Colour::Good
        } else if value <= bounds.critical {
            Colour::Warning
        } else {
            Colour::Critical
        }
    };
    let achieved = 100.0 * row.actual_rps / offered;
    let throughput = if achieved >= profile.goodput_percent.good {
        Colour::Good
    } else if achieved >= profile.goodput_percent.critical {
        Colour::Warning
    } else {
        Colour::Critical
    };
    let metrics = [
        ("rps", throughput),
        ("fail", rising(row.fail_percent, profile.fail_percent)),
        ("avg", rising(row.mean_ms, profile.mean_ms)),
        ("p95", rising(row.p95_ms, profile.p95_ms)),
        ("p99", rising(row.p99_ms, profile.p99_ms)),
    ];
    let colour = metrics
        .iter()
        .map(|(_, colour)| *colour)
        .max()
        .unwrap_or_default();
    let worst = metrics
        .iter()
        .filter(|(_, of)| *of == colour && colour != Colour::Good);
    Judgement {
        colour,
        metrics: worst.map(|(name, _)| (*name).to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::seeds;

    /// What the thresholds say of every row, worked out by hand from the printed numbers.
    const EXPECTED: [(&str, &[&str]); 5] = [
        (
            "P1",
            &[
                "Good",
                "Good",
                "Critical (fail, p99)",
                "Good",
                "Critical (fail, avg, p95, p99)",
                "Critical (fail, p95, p99)",
                "Critical (p95, p99)",
                "Warning (avg, p95, p99)",
                "Critical (fail, avg, p95, p99)",
            ],
        ),
        (
            "P2",
            &[
                "Good",
                "Good",
                "Good",
                "Warning (avg)",
                "Warning (avg, p95, p99)",
                "Critical (fail, avg, p95, p99)",
                "Critical (rps, fail, avg, p95, p99)",
                "Critical (rps, fail, avg, p95, p99)",
                "Critical (rps, fail, avg, p95, p99)",
            ],
        ),
        (
            "P3",
            &[
                "Good",
                "Warning (avg)",
                "Warning (avg, p95)",
                "Critical (p95)",
                "Critical (rps, fail, avg, p95, p99)",
                "Critical (rps, fail, avg, p95, p99)",
                "Critical (rps, fail, avg, p95, p99)",
            ],
        ),
        (
            "P4",
            &[
                "Good",
                "Good",
                "Good",
                "Good",
                "Warning (avg)",
                "Good",
                "Critical (avg, p95)",
                "Warning (avg, p95)",
                "Critical (rps, fail, avg, p95, p99)",
            ],
        ),
        (
            "P5",
            &[
                "Good",
                "Good",
                "Good",
                "Good",
                "Good",
                "Good",
                "Critical (fail, avg, p95, p99)",
                "Critical (fail, avg, p95, p99)",
                "Critical (fail, avg, p95, p99)",
            ],
        ),
    ];

    #[test]
    fn every_printed_row_gets_what_its_own_thresholds_say() {
        for (id, expected) in EXPECTED {
            let found: Vec<String> = seeds::table(id).map(|row| judge(row).words()).collect();
            assert_eq!(found, expected, "{id}");
        }
    }

    #[test]
    fn printed_and_computed_status_differ_where_the_study_was_lenient() {
        let at = |id: &str, rate: f64| {
            let row = seeds::table(id).find(|row| row.target_rps == rate).unwrap();
            (row.sign.as_deref(), judge(row).colour)
        };
        assert_eq!(at("P2", 20_000.0), (Some("✓"), Colour::Warning));
        assert_eq!(at("P3", 17_500.0), (Some("⚡"), Colour::Critical));
        assert_eq!(at("P4", 25_000.0), (Some("⚠"), Colour::Critical));
        assert_eq!(
            at("P1", 25_000.0),
            (None, Colour::Critical),
            "no failure, P99 234 ms"
        );
    }
}
