//! Latency distributions: the percentiles people read, and the histogram that can be merged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::load::tally::latency_histogram;

/// Nanoseconds per microsecond: histograms record nanoseconds, summaries print microseconds.
const NS_PER_US: f64 = 1_000.0;

/// Summary of a latency distribution, with the whole distribution attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Values recorded; never 0 (a summary of nothing is `None`).
    pub count: u64,
    /// Smallest value.
    pub min_us: f64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 75th percentile.
    pub p75_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 97.5th percentile.
    pub p97_5_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p99_9_us: f64,
    /// 99.99th percentile.
    pub p99_99_us: f64,
    /// Largest value.
    pub max_us: f64,
    /// The histogram of nanoseconds: HdrHistogram V2 with DEFLATE, in base64, as the HdrHistogram
    /// viewers read it. Absent where it was left out to save space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram_ns_base64: Option<String>,
}

/// Why a histogram could not be written or read.
#[derive(Debug)]
pub struct LatencyError(String);

impl std::fmt::Display for LatencyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "latency histogram: {}", self.0)
    }
}

impl std::error::Error for LatencyError {}

impl LatencySummary {
    /// Summary of a histogram of **nanoseconds**, with the histogram attached; `None` if it is empty.
    pub(crate) fn from_histogram(histogram: &Histogram<u64>) -> Result<Option<Self>, LatencyError> {
        let Some(mut summary) = Self::without_histogram(histogram) else {
            return Ok(None);
        };
        summary.histogram_ns_base64 = Some(encode(histogram)?);
        Ok(Some(summary))
    }

    /// Summary of a histogram of **nanoseconds** alone; `None` if it is empty.
    pub(crate) fn without_histogram(histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / NS_PER_US;
        Some(Self {
            count: histogram.len(),
            min_us: histogram.min() as f64 / NS_PER_US,
            // To the nanosecond, as the other values are.
            mean_us: histogram.mean().round() / NS_PER_US,
            p50_us: at(0.50),
            p75_us: at(0.75),
            p90_us: at(0.90),
            p95_us: at(0.95),
            p97_5_us: at(0.975),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: histogram.max() as f64 / NS_PER_US,
            histogram_ns_base64: None,
        })
    }

    /// The attached histogram of nanoseconds; `None` if there is none.
    pub(crate) fn histogram(&self) -> Option<Result<Histogram<u64>, LatencyError>> {
        self.histogram_ns_base64.as_deref().map(decode)
    }
}

/// A latency distribution with its parts: a denial is often the cheaper path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitLatency {
    /// All of them together: answers in time, and requests that were waited for in vain.
    pub all: Option<LatencySummary>,
    /// Answers "allowed" in time.
    pub allow: Option<LatencySummary>,
    /// Answers "denied" in time.
    pub deny: Option<LatencySummary>,
    /// Requests without an answer in time ([`Failures::timeout`](super::Failures) and `unsent`): what a late answer took,
    /// else how long one was waited for, the deadline at least. Were they left out, no percentile could pass the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue: Option<LatencySummary>,
}

impl LatencySummary {
    /// Keeps `digits` (1 or 2) of the attached histogram instead of three: a fraction of its size. The figures beside it
    /// stay exact. A histogram that cannot be read stays as it is.
    pub(crate) fn coarsen(&mut self, digits: u8) {
        let Some(Ok(exact)) = self.histogram() else {
            return;
        };
        // With bounds: one that grows may be written in a way that is not read back.
        let bounds = (exact.low(), exact.high());
        let Ok(mut coarse) = Histogram::<u64>::new_with_bounds(bounds.0, bounds.1, digits) else {
            return;
        };
        for value in exact.iter_recorded() {
            if coarse
                .record_n(value.value_iterated_to(), value.count_at_value())
                .is_err()
            {
                return;
            }
        }
        let whole = |text: &String| decode(text).is_ok_and(|read| read.len() == exact.len());
        if let Some(text) = encode(&coarse).ok().filter(whole) {
            self.histogram_ns_base64 = Some(text);
        }
    }
}

impl LatencySummary {
    /// Counts `waits` values of `at_ns` at the upper end of a distribution of which nothing but its figures is known.
    fn wait(&mut self, waits: u64, at_ns: u64) {
        let (answered, at_us) = (self.count as f64, at_ns as f64 / NS_PER_US);
        self.count += waits;
        let share = answered / self.count as f64;
        self.mean_us = self.mean_us * share + at_us * (1.0 - share);
        let figures = [
            (0.5, &mut self.p50_us),
            (0.75, &mut self.p75_us),
            (0.9, &mut self.p90_us),
            (0.95, &mut self.p95_us),
            (0.975, &mut self.p97_5_us),
            (0.99, &mut self.p99_us),
            (0.999, &mut self.p99_9_us),
            (0.9999, &mut self.p99_99_us),
            (1.0, &mut self.max_us),
        ];
        for (quantile, figure) in figures {
            if quantile > share {
                *figure = figure.max(at_us);
            }
        }
    }
}

impl SplitLatency {
    /// [`LatencySummary::coarsen`] of all.
    pub(crate) fn coarsen(&mut self, digits: u8) {
        for part in self.summaries_mut() {
            part.coarsen(digits);
        }
    }

    fn summaries_mut(&mut self) -> impl Iterator<Item = &mut LatencySummary> {
        let all = [
            &mut self.all,
            &mut self.allow,
            &mut self.deny,
            &mut self.overdue,
        ];
        all.into_iter().flatten()
    }

    /// Keeps one histogram of all in place of one of each part.
    pub(crate) fn unite(&mut self) {
        if let Some(sum) = self.merged() {
            self.unite_as(&sum);
        }
    }

    fn unite_as(&mut self, sum: &Histogram<u64>) {
        let Ok(text) = encode(sum) else {
            return;
        };
        if let Some(all) = &mut self.all {
            all.histogram_ns_base64 = Some(text);
            let parts = [&mut self.allow, &mut self.deny, &mut self.overdue];
            for part in parts.into_iter().flatten() {
                part.histogram_ns_base64 = None;
            }
        }
    }

    /// Keeps the figures alone.
    pub(crate) fn leave_out_histograms(&mut self) {
        for part in self.summaries_mut() {
            part.histogram_ns_base64 = None;
        }
    }

    /// From the recorded histograms of nanoseconds; `all` is their sum, and carries no histogram
    /// of its own because [`SplitLatency::merged`] gives it back.
    pub fn from_histograms(
        allow: &Histogram<u64>,
        deny: &Histogram<u64>,
        overdue: &Histogram<u64>,
    ) -> Result<Self, LatencyError> {
        let mut all = allow.clone();
        for part in [deny, overdue] {
            all.add(part)
                .map_err(|error| LatencyError(error.to_string()))?;
        }
        Ok(Self {
            all: LatencySummary::without_histogram(&all),
            allow: LatencySummary::from_histogram(allow)?,
            deny: LatencySummary::from_histogram(deny)?,
            overdue: LatencySummary::from_histogram(overdue)?,
        })
    }

    /// The histogram of all, from those of the parts or its own; `None` if there are none or they cannot be read.
    pub(crate) fn merged(&self) -> Option<Histogram<u64>> {
        let read = |part: &LatencySummary| part.histogram()?.ok();
        let parts = [&self.allow, &self.deny, &self.overdue];
        let parts: Option<Vec<_>> = parts.into_iter().flatten().map(read).collect();
        let sum = parts.and_then(|parts| {
            let mut parts = parts.into_iter();
            let mut sum = parts.next()?;
            parts.all(|part| sum.add(part).is_ok()).then_some(sum)
        });
        sum.or_else(|| read(self.all.as_ref()?))
    }

    /// Counts `waits` requests that a record of before they counted left out, each at the `deadline_ns` that it was waited
    /// for at least. Without histograms the percentiles below the share that was answered stay as they are.
    pub(super) fn add_overdue(&mut self, waits: u64, deadline_ns: u64) {
        let merged = self.merged();
        let mut overdue = latency_histogram();
        overdue.saturating_record_n(deadline_ns, waits);
        let united = self
            .all
            .as_ref()
            .is_some_and(|all| all.histogram_ns_base64.is_some());
        self.overdue = LatencySummary::from_histogram(&overdue).ok().flatten();
        let mut sum = overdue.clone();
        match (merged, &mut self.all) {
            (Some(answered), _) if sum.add(&answered).is_ok() => {
                self.all = LatencySummary::without_histogram(&sum);
                if united {
                    self.unite_as(&sum);
                }
            }
            (_, Some(all)) => {
                all.wait(waits, deadline_ns);
                if let Some(part) = &mut self.overdue {
                    part.histogram_ns_base64 = None;
                }
            }
            (_, None) => self.all = LatencySummary::without_histogram(&overdue),
        }
    }
}

pub(super) fn encode(histogram: &Histogram<u64>) -> Result<String, LatencyError> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| LatencyError(error.to_string()))?;
    Ok(STANDARD.encode(bytes))
}

pub(super) fn decode(text: &str) -> Result<Histogram<u64>, LatencyError> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| LatencyError(error.to_string()))?;
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| LatencyError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values_ns: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(100, 60_000_000_000, 3).unwrap();
        for value in values_ns {
            histogram.record(*value).unwrap();
        }
        histogram
    }

    #[test]
    fn an_empty_histogram_has_no_summary() {
        assert!(
            LatencySummary::from_histogram(&histogram(&[]))
                .unwrap()
                .is_none()
        );
        let split =
            SplitLatency::from_histograms(&histogram(&[]), &histogram(&[]), &histogram(&[]))
                .unwrap();
        assert_eq!(split, SplitLatency::default());
    }

    #[test]
    fn a_coarse_histogram_has_every_answer() {
        for longest in [200_000, 1_000_000, 30_000_000, 900_000_000, 5_000_000_000] {
            let values: Vec<u64> = (1..500).map(|part| longest / 500 * part + 100).collect();
            for digits in [1, 2] {
                let mut summary = LatencySummary::from_histogram(&histogram(&values))
                    .unwrap()
                    .unwrap();
                summary.coarsen(digits);
                let coarse = summary.histogram().unwrap().unwrap();
                assert_eq!(coarse.len(), values.len() as u64, "{longest} {digits}");
                let (near, far) = (coarse.value_at_quantile(0.5), longest / 2);
                assert!(near.abs_diff(far) <= far / 8, "{near} {far}");
            }
        }
    }

    #[test]
    fn nanoseconds_become_microseconds() {
        let summary = LatencySummary::from_histogram(&histogram(&[250_000]))
            .unwrap()
            .unwrap();
        assert_eq!(summary.count, 1);
        assert!((summary.p99_us - 250.0).abs() < 0.5, "{}", summary.p99_us);
        assert!((summary.mean_us - 250.0).abs() < 0.5, "{}", summary.mean_us);
    }

    #[test]
    fn the_attached_histogram_merges_like_the_original() {
        let (allow, deny) = (histogram(&[1_000, 2_000, 900_000]), histogram(&[3_000; 50]));
        let split = SplitLatency::from_histograms(&allow, &deny, &histogram(&[])).unwrap();
        let merged = split.merged().unwrap();
        let all = split.all.unwrap();
        assert_eq!(merged.len(), 53);
        let again = LatencySummary::without_histogram(&merged).unwrap();
        assert_eq!(again.p99_us, all.p99_us);
        assert_eq!(again.max_us, all.max_us);
    }

    #[test]
    fn requests_waited_for_in_vain_are_in_the_percentiles() {
        let late = histogram(&[2_000_000_000; 20]);
        let split = SplitLatency::from_histograms(
            &histogram(&[1_000; 900]),
            &histogram(&[2_000; 80]),
            &late,
        )
        .unwrap();
        let all = split.all.as_ref().unwrap();
        assert_eq!((all.count, all.p97_5_us.round()), (1_000, 2.0));
        assert!((all.p99_us - 2e6).abs() < 2e3, "{}", all.p99_us);
        let merged = split.merged().unwrap();
        assert_eq!((merged.len(), merged.max()), (1_000, late.max()));
    }

    #[test]
    fn older_records_get_them_at_the_deadline_with_and_without_histograms() {
        let answered = || {
            let none = histogram(&[]);
            SplitLatency::from_histograms(&histogram(&[1_000; 980]), &none, &none).unwrap()
        };
        let (mut exact, mut figures, mut united) = (answered(), answered(), answered());
        figures.leave_out_histograms();
        united.unite();
        for split in [&mut exact, &mut figures, &mut united] {
            split.add_overdue(20, 1_000_000_000);
            let all = split.all.as_ref().unwrap();
            assert_eq!((all.count, all.p97_5_us.round()), (1_000, 1.0));
            for tail in [all.p99_us, all.p99_9_us, all.max_us] {
                assert!((tail - 1e6).abs() < 1e3, "{tail}");
            }
            assert!((all.mean_us - 20_000.98).abs() < 20.0, "{}", all.mean_us);
            assert_eq!(split.overdue.as_ref().unwrap().count, 20);
        }
        assert_eq!(exact.merged().unwrap().len(), 1_000);
        assert_eq!(united.merged().unwrap().len(), 1_000);
        assert!(figures.merged().is_none());
        let mut nothing = SplitLatency::default();
        nothing.add_overdue(3, 1_000_000);
        assert_eq!(nothing.all.unwrap().count, 3);
    }

    #[test]
    fn a_damaged_histogram_is_an_error() {
        let summary = LatencySummary {
            histogram_ns_base64: Some("bm90IGEgaGlzdG9ncmFt".into()),
            ..LatencySummary::default()
        };
        let error = summary.histogram().unwrap().unwrap_err();
        assert!(
            error.to_string().starts_with("latency histogram: "),
            "{error}"
        );
    }
}
