//! The output of redis-benchmark 7.0: whole reports, one line per test, CSV.

use hdrhistogram::Histogram;

/// Bounds of redis-benchmark's own histogram, in microseconds; its rows depend on them.
const LOW_US: u64 = 10;
const HIGH_US: u64 = 3_000_000;
/// Step of the rows of the cumulative distribution, in microseconds.
const FINE_US: u64 = 100;
/// The same above 2 milliseconds.
const COARSE_US: u64 = 1_000;

/// First line of the CSV.
pub(super) const CSV_HEAD: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"";

/// What a test measured.
pub(super) struct Measured {
    /// Title.
    pub(super) title: String,
    /// Requests answered.
    pub(super) answers: u64,
    /// Seconds from the first request to the last answer.
    pub(super) seconds: f64,
    latency: Histogram<u64>,
    /// Decimal places of latencies in milliseconds.
    precision: usize,
}

/// What does not differ between tests.
#[derive(Clone, Debug, Default)]
pub(super) struct Setting {
    pub(super) clients: u32,
    pub(super) value_bytes: u32,
    pub(super) keep_alive: bool,
    /// Values of `save` and `appendonly`; `None` where the server does not tell.
    pub(super) configuration: Option<(String, String)>,
    pub(super) threads: Option<u32>,
}

impl Measured {
    /// From latencies in nanoseconds.
    pub(super) fn new(
        title: &str,
        answers: u64,
        seconds: f64,
        latency_ns: &Histogram<u64>,
    ) -> Measured {
        let mut latency = Histogram::new_with_bounds(LOW_US, HIGH_US, 3)
            .expect("the constant bounds are in the range that the histogram accepts");
        for value in latency_ns.iter_recorded() {
            latency.saturating_record_n(
                value.value_iterated_to() / 1_000,
                value.count_since_last_iteration(),
            );
        }
        Measured {
            title: title.into(),
            answers,
            seconds,
            latency,
            precision: 3,
        }
    }

    /// Shows latencies with other than 3 decimal places.
    pub(super) fn with_precision(mut self, digits: u8) -> Measured {
        self.precision = usize::from(digits);
        self
    }

    fn rate(&self) -> f64 {
        self.answers as f64 / self.seconds.max(1e-9)
    }

    fn at(&self, quantile: f64) -> f64 {
        ms(self.latency.value_at_quantile(quantile))
    }

    /// avg, min, p50, p95, p99, max in milliseconds.
    fn latencies(&self) -> [f64; 6] {
        [
            self.latency.mean() / 1e3,
            ms(self.latency.min()),
            self.at(0.5),
            self.at(0.95),
            self.at(0.99),
            ms(self.latency.max()),
        ]
    }

    /// The line of `-q`.
    pub(super) fn quiet(&self) -> String {
        format!(
            "{}: {:.2} requests per second, p50={:.*} msec",
            self.title,
            self.rate(),
            self.precision,
            self.at(0.5)
        )
    }

    /// The row of `--csv`.
    pub(super) fn csv(&self) -> String {
        let latencies = self
            .latencies()
            .map(|ms| format!(",\"{ms:.*}\"", self.precision))
            .concat();
        format!(
            "\"{}\",\"{:.2}\"{latencies}",
            self.title.replace('"', "\"\""),
            self.rate()
        )
    }

    /// The whole report.
    pub(super) fn whole(&self, setting: &Setting) -> String {
        let mut text = format!(
            "====== {} ======\n  {} requests completed in {:.2} seconds\n  {} parallel clients\n  {} bytes payload\n  keep alive: {}\n",
            self.title,
            self.answers,
            self.seconds,
            setting.clients,
            setting.value_bytes,
            u8::from(setting.keep_alive)
        );
        if let Some((save, appendonly)) = &setting.configuration {
            text.push_str(&format!(
                "  host configuration \"save\": {save}\n  host configuration \"appendonly\": {appendonly}\n"
            ));
        }
        match setting.threads {
            Some(threads) => text.push_str(&format!("  multi-thread: yes\n  threads: {threads}\n")),
            None => text.push_str("  multi-thread: no\n"),
        }
        text.push_str("\nLatency by percentile distribution:\n");
        self.percentiles(&mut text);
        text.push_str("\nCumulative distribution of latencies:\n");
        self.distribution(&mut text);
        text.push_str(&format!(
            "\nSummary:\n  throughput summary: {:.2} requests per second\n  latency summary (msec):\n    ",
            self.rate()
        ));
        let names = ["avg", "min", "p50", "p95", "p99", "max"];
        text.push_str(&names.map(|name| format!("{name:>9}")).join(" "));
        text.push_str("\n    ");
        text.push_str(
            &self
                .latencies()
                .map(|ms| format!("{ms:9.*}", self.precision))
                .join(" "),
        );
        text.push('\n');
        text
    }

    fn percentiles(&self, text: &mut String) {
        let total = self.latency.len();
        let (mut seen, mut before) = (0, None);
        for row in self.latency.iter_quantiles(1) {
            seen += row.count_since_last_iteration();
            if before != Some(seen) || seen == total {
                self.row(
                    text,
                    row.quantile_iterated_to() * 100.0,
                    row.value_iterated_to(),
                    seen,
                );
            }
            before = Some(seen);
        }
    }

    fn distribution(&self, text: &mut String) {
        let total = self.latency.len();
        let (mut bound, mut step, mut before) = (FINE_US, FINE_US, None);
        while before != Some(total) {
            let top = self.latency.highest_equivalent(bound);
            let seen = self.latency.count_between(0, top);
            if before != Some(seen) {
                self.row(text, seen as f64 / total.max(1) as f64 * 100.0, top, seen);
            }
            before = Some(seen);
            bound += step;
            if top > 2_000 {
                step = COARSE_US;
            }
        }
    }

    fn row(&self, text: &mut String, percent: f64, value_us: u64, seen: u64) {
        let value = ms(self.latency.highest_equivalent(value_us));
        text.push_str(&format!(
            "{percent:.3}% <= {value:.*} milliseconds (cumulative count {seen})
",
            self.precision
        ));
    }
}

fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tally::latency_histogram;

    fn measured(values_us: &[u64]) -> Measured {
        let mut latency = latency_histogram();
        for value in values_us {
            latency.record(value * 1_000).unwrap();
        }
        Measured::new("GET", values_us.len() as u64, 0.5, &latency)
    }

    #[test]
    fn one_line_and_csv_have_redis_benchmarks_form() {
        let measured = measured(&[96, 200, 304, 2_400]);
        assert_eq!(
            measured.quiet(),
            "GET: 8.00 requests per second, p50=0.207 msec"
        );
        let row = measured.csv();
        assert!(row.starts_with("\"GET\",\"8.00\",\"0.7"), "{row}");
        assert_eq!(row.split(',').count(), CSV_HEAD.split(',').count());
    }

    #[test]
    fn the_distribution_has_its_steps() {
        let setting = Setting {
            clients: 50,
            value_bytes: 3,
            keep_alive: true,
            configuration: Some(("".into(), "no".into())),
            threads: None,
        };
        let text = measured(&[96, 200, 304, 2_400]).whole(&setting);
        for line in [
            "====== GET ======",
            "  4 requests completed in 0.50 seconds",
            "  host configuration \"save\": ",
            "  multi-thread: no",
            "25.000% <= 0.103 milliseconds (cumulative count 1)",
            "50.000% <= 0.207 milliseconds (cumulative count 2)",
            "75.000% <= 0.407 milliseconds (cumulative count 3)",
            "100.000% <= 3.103 milliseconds (cumulative count 4)",
            "  throughput summary: 8.00 requests per second",
            "          avg       min       p50       p95       p99       max",
        ] {
            assert!(text.lines().any(|seen| seen == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn nothing_measured_ends() {
        let text = measured(&[]).whole(&Setting::default());
        assert!(text.contains("0 requests completed"));
    }
}
