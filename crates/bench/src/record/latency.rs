//! Latency distributions: the percentiles people read, and the histogram that can be merged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

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
    pub fn from_histogram(histogram: &Histogram<u64>) -> Result<Option<Self>, LatencyError> {
        let Some(mut summary) = Self::without_histogram(histogram) else {
            return Ok(None);
        };
        summary.histogram_ns_base64 = Some(encode(histogram)?);
        Ok(Some(summary))
    }

    /// Summary of a histogram of **nanoseconds** alone; `None` if it is empty.
    pub fn without_histogram(histogram: &Histogram<u64>) -> Option<Self> {
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
    pub fn histogram(&self) -> Option<Result<Histogram<u64>, LatencyError>> {
        self.histogram_ns_base64.as_deref().map(decode)
    }
}

/// A latency distribution with its allowed and denied parts: a denial is often the cheaper path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitLatency {
    /// All answers in time.
    pub all: Option<LatencySummary>,
    /// Answers "allowed".
    pub allow: Option<LatencySummary>,
    /// Answers "denied".
    pub deny: Option<LatencySummary>,
}

impl LatencySummary {
    /// Keeps `digits` (1 or 2) of the attached histogram instead of three: a fraction of its size. The figures beside it
    /// stay exact. A histogram that cannot be read stays as it is.
    pub fn coarsen(&mut self, digits: u8) {
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

impl SplitLatency {
    /// [`LatencySummary::coarsen`] of all three.
    pub fn coarsen(&mut self, digits: u8) {
        let parts = [&mut self.all, &mut self.allow, &mut self.deny];
        for part in parts.into_iter().flatten() {
            part.coarsen(digits);
        }
    }

    /// Keeps one histogram of all answers in place of one of the allowed and one of the denied.
    pub fn unite(&mut self) {
        let Some(Ok(text)) = self.merged().map(|sum| encode(&sum)) else {
            return;
        };
        if let Some(all) = &mut self.all {
            all.histogram_ns_base64 = Some(text);
            for part in [&mut self.allow, &mut self.deny].into_iter().flatten() {
                part.histogram_ns_base64 = None;
            }
        }
    }

    /// Keeps the figures alone.
    pub fn leave_out_histograms(&mut self) {
        let parts = [&mut self.all, &mut self.allow, &mut self.deny];
        for part in parts.into_iter().flatten() {
            part.histogram_ns_base64 = None;
        }
    }

    /// From the two recorded histograms of nanoseconds; `all` is their sum, and carries no histogram
    /// of its own because [`SplitLatency::merged`] gives it back.
    pub fn from_histograms(
        allow: &Histogram<u64>,
        deny: &Histogram<u64>,
    ) -> Result<Self, LatencyError> {
        let mut all = allow.clone();
        all.add(deny)
            .map_err(|error| LatencyError(error.to_string()))?;
        Ok(Self {
            all: LatencySummary::without_histogram(&all),
            allow: LatencySummary::from_histogram(allow)?,
            deny: LatencySummary::from_histogram(deny)?,
        })
    }

    /// The histogram of all answers, from the attached ones; `None` if none is attached or readable.
    pub fn merged(&self) -> Option<Histogram<u64>> {
        let read = |part: &Option<LatencySummary>| part.as_ref()?.histogram()?.ok();
        match (read(&self.allow), read(&self.deny)) {
            (Some(mut sum), Some(deny)) => sum.add(deny).ok().map(|()| sum),
            (Some(only), None) | (None, Some(only)) => Some(only),
            (None, None) => read(&self.all),
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
        let split = SplitLatency::from_histograms(&histogram(&[]), &histogram(&[])).unwrap();
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
        let split = SplitLatency::from_histograms(&allow, &deny).unwrap();
        let merged = split.merged().unwrap();
        let all = split.all.unwrap();
        assert_eq!(merged.len(), 53);
        let again = LatencySummary::without_histogram(&merged).unwrap();
        assert_eq!(again.p99_us, all.p99_us);
        assert_eq!(again.max_us, all.max_us);
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
