//! Single requests as CSV: `bench raw`.

use std::io::{self, Write};

use super::line;
use crate::record::samples::{Block, Outcome, Sample};

/// The columns. `step_at_s` is the `offset_s` of the step in `results.json`: one that was measured again has a step for each time.
/// Times are microseconds; `due_us` counts from the begin of the step.
const COLUMNS: [&str; 15] = [
    "step",
    "start",
    "step_at_s",
    "target",
    "scenario",
    "operation",
    "target_rps",
    "due_us",
    "lag_us",
    "service_us",
    "response_us",
    "key",
    "outcome",
    "late",
    "repeated",
];

/// Writes the line of names.
pub(crate) fn write_samples_head(out: &mut impl Write) -> io::Result<()> {
    out.write_all(line(COLUMNS.iter().map(|&name| name.to_owned())).as_bytes())
}

/// Writes the samples of step `number`, a line each.
pub(crate) fn write_samples(out: &mut impl Write, number: u64, block: &Block) -> io::Result<()> {
    let about = &block.about;
    let first = [
        number.to_string(),
        about.start.to_string(),
        about.offset_s.to_string(),
        about.target.clone(),
        about.scenario.clone(),
        about.operation.clone(),
        about.target_rps.to_string(),
    ];
    let same = line(first.into_iter());
    let same = same.trim_end();
    for sample in &block.samples {
        writeln!(out, "{same},{}", fields(sample, about.deadline_ms * 1e6))?;
    }
    Ok(())
}

fn fields(sample: &Sample, deadline_ns: f64) -> String {
    let us = |ns: u64| format!("{}.{:03}", ns / 1_000, ns % 1_000);
    let (sent, answered) = match sample.outcome {
        Outcome::Unsent => (false, false),
        Outcome::Unanswered => (true, false),
        _ => (true, true),
    };
    let maybe = |there: bool, text: String| if there { text } else { String::new() };
    let late = sample.answered_ns.saturating_sub(sample.due_ns) as f64 > deadline_ns;
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    [
        us(sample.due_ns),
        maybe(sent, us(sample.sent_ns.saturating_sub(sample.due_ns))),
        maybe(
            answered,
            us(sample.answered_ns.saturating_sub(sample.sent_ns)),
        ),
        maybe(
            answered,
            us(sample.answered_ns.saturating_sub(sample.first_ns)),
        ),
        maybe(sent, sample.key.to_string()),
        sample.outcome.word().into(),
        maybe(answered, yes(late).into()),
        yes(sample.first_ns != sample.due_ns).into(),
    ]
    .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::samples::About;

    #[test]
    fn every_outcome_has_its_columns() {
        let sample = |outcome, sent_ns, answered_ns| Sample {
            first_ns: 1_000,
            due_ns: 2_500,
            sent_ns,
            answered_ns,
            key: 7,
            outcome,
        };
        let block = Block {
            about: About {
                target: "a, b".into(),
                target_rps: 500.0,
                start: 1,
                deadline_ms: 1.0,
                ..About::default()
            },
            samples: vec![
                sample(Outcome::Denied, 3_000, 2_000_000),
                sample(Outcome::Unanswered, 3_000, 0),
                sample(Outcome::Unsent, 0, 0),
            ],
            cut_off: false,
        };
        let mut out = Vec::new();
        write_samples_head(&mut out).unwrap();
        write_samples(&mut out, 4, &block).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let same = "4,1,0,\"a, b\",,,500,2.500";
        assert_eq!(
            lines[0],
            format!("{same},0.500,1997.000,1999.000,7,denied,yes,yes")
        );
        assert_eq!(lines[1], format!("{same},0.500,,,7,unanswered,,yes"));
        assert_eq!(lines[2], format!("{same},,,,,unsent,,yes"));
        let columns = |line: &str| line.replace("a, b", "ab").split(',').count();
        assert!(lines.iter().all(|line| columns(line) == COLUMNS.len()));
    }
}
