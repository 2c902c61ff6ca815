//! `.hlog`: HdrHistogram interval logs, as the tools around HdrHistogram read them (HistogramLogAnalyzer,
//! HistogramLogProcessor, `hdr-plot`, the Python and JavaScript libraries).
//!
//! Values are nanoseconds; the column of interval maxima is in milliseconds, as those tools expect.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::record::{Cell, RunRecord, Step};

/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;

/// One interval: when, how long, which tag, which values.
struct Interval {
    at_s: f64,
    length_s: f64,
    tag: String,
    histogram: Histogram<u64>,
}

/// Every step as one interval, response time with three digits, all starts merged; `None` if nothing has a histogram.
/// Tags are `target.operation.scenario.RATE`.
///
/// # Errors
/// If the log cannot be written, which does not happen in memory.
pub(crate) fn steps(record: &RunRecord) -> Result<Option<String>, String> {
    let of = |cell: &Cell, step: &Step| -> Vec<Interval> {
        let interval = step.response.merged().map(|histogram| Interval {
            at_s: step.offset_s,
            length_s: step.duration_s,
            tag: tag(cell, step),
            histogram,
        });
        interval.into_iter().collect()
    };
    write(record, of)
}

/// Every second as one interval, response time with two digits; of several starts, the one whose goodput is the median.
///
/// # Errors
/// If the log cannot be written, which does not happen in memory.
pub(crate) fn seconds(record: &RunRecord) -> Result<Option<String>, String> {
    let of = |cell: &Cell, step: &Step| -> Vec<Interval> {
        let seconds = step.seconds.iter();
        seconds
            .filter_map(|second| {
                Some(Interval {
                    at_s: step.offset_s + second.at_s,
                    length_s: second.length_s,
                    tag: tag(cell, step),
                    histogram: second.histogram()?,
                })
            })
            .collect()
    };
    write(record, of)
}

/// Tags may hold neither commas nor white space.
pub(super) fn tag(cell: &Cell, step: &Step) -> String {
    let name = format!(
        "{}.{}.{}.{:.0}",
        cell.target, cell.operation.name, cell.scenario.name, step.target_rps
    );
    name.chars()
        .map(|c| {
            if c.is_whitespace() || c.is_control() || c == ',' {
                '-'
            } else {
                c
            }
        })
        .collect()
}

fn write(
    record: &RunRecord,
    of: impl Fn(&Cell, &Step) -> Vec<Interval>,
) -> Result<Option<String>, String> {
    let mut intervals: Vec<Interval> = record
        .cells
        .iter()
        .flat_map(|cell| cell.steps.iter().flat_map(|step| of(cell, step)))
        .collect();
    if intervals.is_empty() {
        return Ok(None);
    }
    // Readers take the time stamps to rise.
    intervals.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let started = u64::try_from(record.manifest.started_unix_s).unwrap_or(0);
    let mut out = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let failed = |error: &dyn std::fmt::Debug| format!("interval log: {error:?}");
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(SystemTime::UNIX_EPOCH + Duration::from_secs(started))
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut out, &mut serializer)
        .map_err(|error| failed(&error))?;
    for interval in &intervals {
        log.write_histogram(
            &interval.histogram,
            duration(interval.at_s),
            duration(interval.length_s),
            Tag::new(&interval.tag),
        )
        .map_err(|error| failed(&error))?;
    }
    String::from_utf8(out)
        .map(Some)
        .map_err(|error| failed(&error))
}

/// A length of time; 0 for what is none.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// The interval logs of a run that has histograms: names and contents.
pub(super) fn files(record: &RunRecord) -> Vec<(&'static str, Result<String, String>)> {
    let logs = [
        ("latency-steps.hlog", steps(record)),
        ("latency-seconds.hlog", seconds(record)),
    ];
    logs.into_iter()
        .filter_map(|(name, log)| Some((name, log.transpose()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::load::tally::latency_histogram;
    use crate::record::{Second, SplitLatency};

    fn record() -> RunRecord {
        let mut allow = latency_histogram();
        let mut deny = latency_histogram();
        for value in 1..=100_u64 {
            allow.record(value * 10_000).unwrap();
            deny.record(value * 1_000).unwrap();
        }
        let second = |at_s: f64| {
            let mut second = Second {
                at_s,
                length_s: 1.0,
                ..Second::default()
            };
            second.set_latencies(&allow).unwrap();
            second
        };
        let step = |offset_s: f64| Step {
            target_rps: 1_000.0,
            offset_s,
            duration_s: 2.0,
            response: SplitLatency::from_histograms(&allow, &deny, &latency_histogram()).unwrap(),
            seconds: vec![second(0.0), second(1.0)],
            ..Step::default()
        };
        let mut cell = Cell {
            target: "my server, old".into(),
            steps: vec![step(7.5), step(1.25)],
            ..Cell::default()
        };
        cell.operation.name = "evalsha".into();
        cell.scenario.name = "single-key".into();
        let mut record = RunRecord {
            cells: vec![cell],
            ..RunRecord::default()
        };
        record.manifest.started_unix_s = 1_767_225_600;
        record
    }

    #[test]
    fn the_library_reads_back_what_was_written() {
        let text = steps(&record()).unwrap().unwrap();
        assert!(
            text.starts_with("#[Histogram log format version 1.3]\n"),
            "{text}"
        );
        let entries: Vec<LogEntry<'_>> = IntervalLogIterator::new(text.as_bytes())
            .map(|entry| entry.unwrap())
            .collect();
        let intervals: Vec<_> = entries
            .iter()
            .filter_map(|entry| match entry {
                LogEntry::Interval(found) => Some(found),
                _ => None,
            })
            .collect();
        assert_eq!(intervals.len(), 2);
        let first = intervals[0];
        assert_eq!(
            first.start_timestamp(),
            Duration::from_millis(1_250),
            "sorted by time"
        );
        assert_eq!(first.duration(), Duration::from_secs(2));
        assert_eq!(
            first.tag().unwrap().as_str(),
            "my-server--old.evalsha.single-key.1000"
        );
        assert!(
            (first.max() - 1.0).abs() < 0.01,
            "a millisecond: {}",
            first.max()
        );
        let bytes = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            first.encoded_histogram(),
        );
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.unwrap().as_slice())
            .unwrap();
        assert_eq!(histogram.len(), 200, "allowed and denied together");
    }

    #[test]
    fn seconds_have_an_interval_each_and_nothing_has_none() {
        let text = seconds(&record()).unwrap().unwrap();
        let intervals = IntervalLogIterator::new(text.as_bytes())
            .filter(|entry| matches!(entry, Ok(LogEntry::Interval(_))))
            .count();
        assert_eq!(intervals, 4);
        assert!(files(&RunRecord::default()).is_empty());
        assert_eq!(files(&record()).len(), 2);
    }
}
