//! Stored runs side by side and over time, for spreadsheets: full figures, empty where there is none.

use super::{line, number};
use crate::record::{ComparisonRecord, Estimate, Metric, TrendsRecord};

/// Columns of [`comparison`], in order.
const COMPARISON: [&str; 26] = [
    "TargetA",
    "TargetB",
    "Scenario",
    "OperationA",
    "OperationB",
    "TargetPerSec",
    "Goal",
    "Metric",
    "Unit",
    "MedianA",
    "MadA",
    "CvPercentA",
    "LowA",
    "HighA",
    "StartsA",
    "MedianB",
    "MadB",
    "CvPercentB",
    "LowB",
    "HighB",
    "StartsB",
    "RatioBOverA",
    "RatioLow",
    "RatioHigh",
    "P",
    "Verdict",
];

/// The unit of a metric in ASCII.
fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::GoodputRps | Metric::HeldRps => "per_s",
        Metric::P50Us | Metric::P99Us => "us",
        Metric::ServerCpuUsPerOp => "us_per_op",
    }
}

fn estimate(of: &Estimate) -> [String; 6] {
    [
        number(Some(of.median)),
        number(Some(of.mad)),
        number(of.cv_percent),
        number(of.low),
        number(of.high),
        of.n.to_string(),
    ]
}

/// `comparison_summary.csv`: one line per figure of both arms.
pub(in crate::report) fn comparison(record: &ComparisonRecord) -> String {
    let mut out = line(COMPARISON.iter().map(|column| (*column).to_owned()));
    for row in &record.rows {
        let (low, high) = row.ratio_ci.unzip();
        let mut fields = vec![
            row.target_a.clone(),
            row.target_b.clone(),
            row.scenario.clone(),
            row.operation_a.clone(),
            row.operation_b.clone(),
            number(row.target_rps),
            row.goal.clone().unwrap_or_default(),
            row.metric.name().to_owned(),
            unit(row.metric).to_owned(),
        ];
        fields.extend(estimate(&row.a));
        fields.extend(estimate(&row.b));
        fields.extend([
            number(row.ratio_b_over_a),
            number(low),
            number(high),
            number(row.test.map(|test| test.p)),
            row.verdict.word().to_owned(),
        ]);
        out.push_str(&line(fields.into_iter()));
    }
    out
}

/// Columns of [`trends`], in order.
const TRENDS: [&str; 13] = [
    "Target",
    "Operation",
    "Scenario",
    "TargetPerSec",
    "Goal",
    "Metric",
    "Unit",
    "DaysSinceFirst",
    "Value",
    "StartedAt",
    "Low",
    "High",
    "Starts",
];

/// `performance_trends.csv`: one line per figure and run that has it.
pub(in crate::report) fn trends(record: &TrendsRecord) -> String {
    let mut out = line(TRENDS.iter().map(|column| (*column).to_owned()));
    for row in &record.rows {
        for (at, (days, value)) in row.points.iter().enumerate() {
            let on = row.rests_on.get(at);
            let (low, high) = on.and_then(|on| on.interval).unzip();
            let fields = [
                row.target.clone(),
                row.operation.clone(),
                row.scenario.clone(),
                number(row.target_rps),
                row.goal.clone().unwrap_or_default(),
                row.metric.name().to_owned(),
                unit(row.metric).to_owned(),
                number(Some(*days)),
                number(Some(*value)),
                on.map_or_else(String::new, |on| on.started_at.clone()),
                number(low),
                number(high),
                on.map_or_else(String::new, |on| on.starts.to_string()),
            ];
            out.push_str(&line(fields.into_iter()));
        }
    }
    out
}
