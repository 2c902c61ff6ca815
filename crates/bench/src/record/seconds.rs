//! What happened within a step, bucket by bucket: for charts over time, recovery and `.hlog` files.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::LatencyError;
use super::latency::{decode, encode};

/// One bucket of time within a step, one second long unless the step has more of them than are kept.
///
/// An event counts in the bucket in which it happened: a request due, a request written, an answer read, a
/// request given up. What was never answered counts as failed in the last bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Start of the bucket, from the start of the step's schedule.
    pub at_s: f64,
    /// Length of the bucket; the last one holds the drain and may be shorter or longer.
    pub length_s: f64,
    /// Requests that came due.
    pub planned: u64,
    /// Requests written.
    pub sent: u64,
    /// Right answers in time, allowed or denied.
    pub good: u64,
    /// Requests that failed, of every kind.
    pub failed: u64,
    /// Requests waiting or on the wire at the end of the bucket.
    pub in_flight: u64,
    /// Mean time by which the generator took requests up later than they were due: its own lag, whatever the target
    /// did. `None` if none came due, and in records of before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_lag_mean_us: Option<f64>,
    /// The longest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_lag_max_us: Option<f64>,
    /// Median of the response times of `good` and of the requests that got no answer in time, which count with how long
    /// they were waited for; `None` without either.
    pub p50_us: Option<f64>,
    /// 99th percentile of them.
    pub p99_us: Option<f64>,
    /// Largest of them.
    pub max_us: Option<f64>,
    /// Their histogram of nanoseconds with two digits: HdrHistogram V2 with DEFLATE, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ns_base64: Option<String>,
}

impl Second {
    /// Takes over percentiles and histogram of the bucket's response times in **nanoseconds**.
    ///
    /// # Errors
    /// If the histogram cannot be written, which does not happen with the generator's bounds.
    pub(crate) fn set_latencies(&mut self, histogram: &Histogram<u64>) -> Result<(), LatencyError> {
        if histogram.is_empty() {
            return Ok(());
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        self.p50_us = Some(at(0.5));
        self.p99_us = Some(at(0.99));
        self.max_us = Some(histogram.max() as f64 / 1e3);
        self.response_ns_base64 = Some(encode(histogram)?);
        Ok(())
    }

    /// The attached histogram; `None` if there is none or it cannot be read.
    #[must_use]
    pub(crate) fn histogram(&self) -> Option<Histogram<u64>> {
        decode(self.response_ns_base64.as_deref()?).ok()
    }

    /// `good` per second; `None` for a bucket without length.
    #[must_use]
    pub(crate) fn goodput_rps(&self) -> Option<f64> {
        (self.length_s > 0.0).then(|| self.good as f64 / self.length_s)
    }
}

/// Length from which a bucket counts as a whole second.
const WHOLE_S: f64 = 0.9;
/// Fewest whole seconds that say how even a throughput is.
const EVEN_MIN: usize = 3;

/// Least, median and most good answers per second over the whole seconds; `None` with fewer than three of them.
#[must_use]
pub(crate) fn goodput_by_second(seconds: &[Second]) -> Option<[f64; 3]> {
    let whole = seconds.iter().filter(|second| second.length_s >= WHOLE_S);
    let mut rates: Vec<f64> = whole
        .map(|second| second.good as f64 / second.length_s)
        .collect();
    rates.sort_by(f64::total_cmp);
    match &rates[..] {
        all @ [least, .., most] if all.len() >= EVEN_MIN => {
            let middle = (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0;
            Some([*least, middle, *most])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_over_seconds_needs_whole_ones() {
        let second = |good, length_s| Second {
            good,
            length_s,
            ..Second::default()
        };
        let mut seconds = vec![second(30, 1.0), second(10, 1.0), second(5, 0.2)];
        assert_eq!(goodput_by_second(&seconds), None);
        seconds.push(second(50, 1.0));
        assert_eq!(goodput_by_second(&seconds), Some([10.0, 30.0, 50.0]));
        seconds.push(second(20, 1.0));
        assert_eq!(goodput_by_second(&seconds), Some([10.0, 25.0, 50.0]));
    }
}
