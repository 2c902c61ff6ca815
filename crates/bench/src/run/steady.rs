//! When a target has warmed up: throughput and P50 of the last buckets neither rise nor fall, and hardly vary.
//!
//! Caches, just-in-time compilers and connection pools make the first seconds unlike the rest. Ten buckets are steady
//! when, for both measures, the 95 % confidence interval of the slope contains 0 and the coefficient of variation is
//! below 5 %.

use std::time::Duration;

/// Buckets that are judged.
pub(crate) const BUCKETS: usize = 10;
/// Longest warm-up where none is given.
pub(crate) const LONGEST: Duration = Duration::from_secs(120);
/// Length of a bucket, where the longest warm-up has room for enough of them.
const BUCKET: Duration = Duration::from_secs(1);
/// Shortest bucket.
const BUCKET_MIN: Duration = Duration::from_millis(100);
/// Coefficient of variation from which on buckets are not steady.
const CV_MAX: f64 = 0.05;
/// Student's t at 97.5 % with 8 degrees of freedom: a line through ten points.
const T_975: f64 = 2.306;

/// Shortest time that is worth asking for.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);

/// One bucket of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// Good answers per second.
    pub throughput_rps: f64,
    /// Median of the response times in microseconds.
    pub p50_us: f64,
}

/// Length of the buckets of a warm-up of at most `longest`: a second, or so that twice as many fit as are judged.
#[must_use]
pub(crate) fn bucket_length(longest: Duration) -> Duration {
    (longest / (2 * BUCKETS as u32)).clamp(BUCKET_MIN, BUCKET)
}

/// Whether the last buckets are steady; otherwise why not.
pub(crate) fn judge(buckets: &[Bucket]) -> Result<(), String> {
    let Some(from) = buckets.len().checked_sub(BUCKETS) else {
        return Err(format!("only {} buckets of {BUCKETS}", buckets.len()));
    };
    let last = &buckets[from..];
    let series = |pick: fn(&Bucket) -> f64| last.iter().map(pick).collect::<Vec<f64>>();
    for (name, values) in [
        ("throughput", series(|bucket| bucket.throughput_rps)),
        ("P50", series(|bucket| bucket.p50_us)),
    ] {
        let line = Line::through(&values);
        if line.cv >= CV_MAX {
            let percent = line.cv * 100.0;
            return Err(format!(
                "the {name} of the last {BUCKETS} buckets varies by {percent:.1} %"
            ));
        }
        if line.slope.abs() > line.slope_error {
            let way = if line.slope > 0.0 { "rises" } else { "falls" };
            return Err(format!(
                "the {name} of the last {BUCKETS} buckets still {way}"
            ));
        }
    }
    Ok(())
}

/// A least squares line over equal distances.
struct Line {
    slope: f64,
    /// Half of the slope's 95 % confidence interval.
    slope_error: f64,
    cv: f64,
}

impl Line {
    /// Through [`BUCKETS`] values.
    fn through(values: &[f64]) -> Line {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let middle = (count - 1.0) / 2.0;
        let spread: f64 = (0..values.len()).map(|x| (x as f64 - middle).powi(2)).sum();
        let together: f64 = values
            .iter()
            .enumerate()
            .map(|(x, y)| (x as f64 - middle) * (y - mean))
            .sum();
        let slope = together / spread;
        let squares: f64 = values.iter().map(|y| (y - mean).powi(2)).sum();
        let rest = (squares - slope * together).max(0.0);
        let slope_error = T_975 * (rest / (count - 2.0) / spread).sqrt();
        let deviation = (squares / (count - 1.0)).sqrt();
        // Without any answer there is nothing steady.
        let cv = if mean > 0.0 {
            deviation / mean
        } else {
            f64::INFINITY
        };
        Line {
            slope,
            slope_error,
            cv,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(p50s: impl IntoIterator<Item = f64>) -> Vec<Bucket> {
        let bucket = |p50_us| Bucket {
            throughput_rps: 1_000.0,
            p50_us,
        };
        p50s.into_iter().map(bucket).collect()
    }

    #[test]
    fn noise_around_a_level_is_steady() {
        let noise = [
            100.0, 102.0, 99.0, 101.0, 98.0, 100.0, 101.0, 99.0, 102.0, 100.0,
        ];
        assert_eq!(judge(&buckets(noise)), Ok(()));
        // What came before the last ten does not matter.
        let cold = [900.0, 500.0, 200.0].into_iter().chain(noise);
        assert_eq!(judge(&buckets(cold)), Ok(()));
        assert_eq!(judge(&buckets([100.0; 10])), Ok(()));
    }

    #[test]
    fn a_trend_a_spread_and_silence_are_not() {
        let falls = (0..10).map(|x| 100.0 - f64::from(x));
        assert!(
            judge(&buckets(falls))
                .unwrap_err()
                .contains("P50 of the last 10 buckets still falls")
        );
        let jumps = [100.0, 120.0].into_iter().cycle().take(10);
        assert!(judge(&buckets(jumps)).unwrap_err().contains("varies by"));
        assert!(judge(&buckets([100.0; 9])).unwrap_err().contains("only 9"));
        assert!(judge(&buckets([0.0; 10])).unwrap_err().contains("varies"));
    }

    #[test]
    fn buckets_fit_the_time() {
        assert_eq!(bucket_length(LONGEST), BUCKET);
        assert_eq!(
            bucket_length(Duration::from_secs(10)),
            Duration::from_millis(500)
        );
        assert_eq!(bucket_length(SHORTEST), BUCKET_MIN);
    }
}
