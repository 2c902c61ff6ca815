//! `.hgrm`: percentile distributions as text, one file per row, as HdrHistogram's own plotter and `hdr-plot` draw them.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::hlog::tag;
use crate::record::RunRecord;

/// Lines for each halving of the distance to the largest value, as HdrHistogram prints by default.
const TICKS_PER_HALF: u32 = 5;
/// Nanoseconds in the unit that is printed: milliseconds.
const UNIT_NS: f64 = 1e6;

/// Every row that has a histogram: the name of its file, and the response times from the intended time in milliseconds.
pub(super) fn files(record: &RunRecord) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    for cell in &record.cells {
        for step in &cell.steps {
            let Some(histogram) = step.response.merged() else {
                continue;
            };
            let name = tag(cell, step).replace(['/', '\\', ':'], "-");
            let same = |at: &usize| {
                files
                    .iter()
                    .any(|(other, _)| *other == numbered(&name, *at))
            };
            // A ladder may have a load twice.
            let at = (1..).find(|at| !same(at)).unwrap_or(1);
            files.push((numbered(&name, at), distribution(&histogram)));
        }
    }
    files
}

fn numbered(name: &str, at: usize) -> String {
    match at {
        1 => format!("{name}.hgrm"),
        at => format!("{name}_{at}.hgrm"),
    }
}

/// The text, in the columns and with the last lines of HdrHistogram's `outputPercentileDistribution`.
fn distribution(histogram: &Histogram<u64>) -> String {
    let mut out = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut seen = 0;
    for point in histogram.iter_quantiles(TICKS_PER_HALF) {
        seen += point.count_since_last_iteration();
        let value = point.value_iterated_to() as f64 / UNIT_NS;
        let share = point.quantile_iterated_to();
        let written = match share < 1.0 {
            true => writeln!(
                out,
                "{value:12.3} {share:2.12} {seen:10} {:14.2}",
                1.0 / (1.0 - share)
            ),
            false => writeln!(out, "{value:12.3} {share:2.12} {seen:10}"),
        };
        written.expect("writing to a String cannot fail");
    }
    let (mean, deviation) = (histogram.mean() / UNIT_NS, histogram.stdev() / UNIT_NS);
    let (most, count) = (histogram.max() as f64 / UNIT_NS, histogram.len());
    let buckets = histogram.distinct_values();
    writeln!(
        out,
        "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]\n#[Max     = {most:12.3}, Total count    = {count:12}]\n#[Buckets = {buckets:12}, SubBuckets     = {:12}]",
        1
    )
    .expect("writing to a String cannot fail");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tally::latency_histogram;

    #[test]
    fn the_distribution_has_the_counts_and_the_ends() {
        let mut histogram = latency_histogram();
        for milli in 1..=1_000_u64 {
            histogram.record(milli * 1_000_000).unwrap();
        }
        let text = distribution(&histogram);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .take_while(|line| !line.starts_with('#'))
            .map(|line| {
                line.split_whitespace()
                    .map(|n| n.parse().unwrap())
                    .collect()
            })
            .collect();
        assert!(rows.len() > 20, "{text}");
        assert!(
            rows.windows(2)
                .all(|w| w[0][1] <= w[1][1] && w[0][2] <= w[1][2])
        );
        for row in &rows {
            // The value at a share of 1 to 1,000 ms alike, to three digits.
            assert!(
                (row[0] / (row[1] * 1_000.0).max(1.0) - 1.0).abs() < 0.01,
                "{row:?}"
            );
        }
        let last = rows.last().unwrap();
        assert_eq!((last.len(), last[1], last[2]), (3, 1.0, 1_000.0));
        assert!(text.contains("#[Mean    =") && text.contains("Total count    =         1000]"));
    }
}
