//! Paired comparison of two running servers: ratios of neighbouring slices, never of far-apart averages.

use serde::{Deserialize, Serialize};

use super::{Event, Manifest, Operation, TargetRecord, Validity};

/// Result of `tollgate bench compare A B`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareRecord {
    /// [`super::SCHEMA_VERSION`] of the program that wrote the record.
    pub schema_version: u32,
    /// Machine, versions, command line, seed and time.
    pub manifest: Manifest,
    /// The first server.
    pub a: TargetRecord,
    /// The second server.
    pub b: TargetRecord,
    /// One row per load.
    pub rows: Vec<CompareRow>,
    /// Memory per record, where it was measured.
    pub memory: Vec<MemoryRow>,
    /// Goodput past saturation, where it was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overload: Vec<super::OverloadRow>,
    /// What happened on the way.
    pub events: Vec<Event>,
    /// The worst grade of the rows.
    pub validity: Validity,
    /// True if every planned row has all its pairs.
    pub complete: bool,
    /// Why `complete` is false.
    pub partial_reason: Option<String>,
}

/// A budget beside what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// At least as good as asked for.
    Met,
    /// Not so good.
    Missed,
    /// The servers were not set up alike, so the figure is not about what the budget is about.
    NotJudged,
}

impl CompareRecord {
    /// Whether a ratio of both servers, `measured`, is at least `budget`.
    #[must_use]
    pub(crate) fn judge(&self, budget: f64, measured: Option<f64>) -> Budget {
        if !super::unequal(&self.a, &self.b).is_empty() {
            return Budget::NotJudged;
        }
        match measured.is_some_and(|measured| measured >= budget) {
            true => Budget::Met,
            false => Budget::Missed,
        }
    }
}

/// One load on both servers, in short interleaved slices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// How the row is called in tables, e.g. `limiter decision, depth 16`.
    pub title: String,
    /// What A is asked.
    pub operation_a: Operation,
    /// What B is asked; the same unless the row compares native ways.
    pub operation_b: Operation,
    /// Connections to each server.
    pub connections: u32,
    /// Requests that one connection may have unanswered.
    pub pipeline_depth: u32,
    /// Offered load; `None` if the connections are kept full (closed loop).
    pub target_rps: Option<f64>,
    /// Length of one slice.
    pub slice_ms: u64,
    /// Least `server_cpu_b_over_a` that the design asks for, if it does.
    pub budget_server_cpu_b_over_a: Option<f64>,
    /// The slices, in the order they ran.
    pub pairs: Vec<SlicePair>,
    /// Ratios over the pairs.
    pub ratios: Ratios,
    /// Whether the row may be believed.
    pub validity: Validity,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Two neighbouring slices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlicePair {
    /// True if A ran first. Orders alternate so that drift cancels.
    pub a_first: bool,
    /// Slice of A.
    pub a: SliceSample,
    /// Slice of B.
    pub b: SliceSample,
}

/// What one slice measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceSample {
    /// Answers per second.
    pub throughput_rps: f64,
    /// Median latency; `None` without answers.
    pub latency_p50_us: Option<f64>,
    /// 99th percentile.
    pub latency_p99_us: Option<f64>,
    /// Server CPU (user + system) per answer.
    pub server_cpu_us_per_op: Option<f64>,
    /// Server CPU, percent of one core.
    pub server_cpu_percent: Option<f64>,
    /// Generator CPU, percent of one core.
    pub generator_cpu_percent: Option<f64>,
    /// Requests without a good answer.
    pub failures: u64,
}

/// Ratios over the pairs, each so that above 1 is in favour of A.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Throughput of A over B.
    pub throughput_a_over_b: Option<Spread>,
    /// Median latency of B over A.
    pub latency_p50_b_over_a: Option<Spread>,
    /// 99th percentile of B over A.
    pub latency_p99_b_over_a: Option<Spread>,
    /// Server CPU per operation of B over A.
    pub server_cpu_b_over_a: Option<Spread>,
}

impl Ratios {
    /// Ratios of the pairs; a pair in which a side was not measured or was zero is left out.
    pub(crate) fn of(pairs: &[SlicePair]) -> Self {
        let spread = |ratio: &dyn Fn(&SlicePair) -> Option<f64>| {
            Spread::of(&pairs.iter().filter_map(ratio).collect::<Vec<_>>())
        };
        Self {
            throughput_a_over_b: spread(&|pair| {
                divide(Some(pair.a.throughput_rps), Some(pair.b.throughput_rps))
            }),
            latency_p50_b_over_a: spread(&|pair| {
                divide(pair.b.latency_p50_us, pair.a.latency_p50_us)
            }),
            latency_p99_b_over_a: spread(&|pair| {
                divide(pair.b.latency_p99_us, pair.a.latency_p99_us)
            }),
            server_cpu_b_over_a: spread(&|pair| {
                divide(pair.b.server_cpu_us_per_op, pair.a.server_cpu_us_per_op)
            }),
        }
    }
}

fn divide(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    let (above, below) = (above?, below?);
    let ratio = above / below;
    (above > 0.0 && below > 0.0 && ratio.is_finite()).then_some(ratio)
}

/// Spread of a sample of ratios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Ratios in the sample.
    pub n: u32,
    /// Smallest.
    pub min: f64,
    /// Lower quartile.
    pub q25: f64,
    /// Median.
    pub median: f64,
    /// Upper quartile.
    pub q75: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Spread of the finite values; `None` if there is none. Quantiles interpolate linearly.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |quantile: f64| {
            let place = quantile * last as f64;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
        };
        Some(Self {
            n: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
            min: sorted[0],
            q25: at(0.25),
            median: at(0.5),
            q75: at(0.75),
            max: sorted[last],
        })
    }

    /// True if even the quartile nearer to 1 lies on the median's side of it: a difference the
    /// spread supports.
    pub(crate) fn excludes_one(&self) -> bool {
        self.q25 > 1.0 || self.q75 < 1.0
    }
}

/// Memory of the same records in both servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// e.g. `limiter records, 16-byte keys, counters of 8 digits, used_memory`.
    pub title: String,
    /// Records written.
    pub records: u64,
    /// Growth of A's resident memory per record.
    pub a_bytes_per_record: f64,
    /// Growth of B's resident memory per record.
    pub b_bytes_per_record: f64,
    /// Least ratio of B over A that the design asks for, if it does.
    pub budget_b_over_a: Option<f64>,
}

impl MemoryRow {
    /// Bytes of B over A; `None` if a side is zero.
    pub(crate) fn b_over_a(&self) -> Option<f64> {
        divide(Some(self.b_bytes_per_record), Some(self.a_bytes_per_record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_interpolate() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.n, spread.min, spread.max), (4, 1.0, 4.0));
        assert_eq!((spread.q25, spread.median, spread.q75), (1.75, 2.5, 3.25));
        let one = Spread::of(&[2.0]).unwrap();
        assert_eq!((one.q25, one.median, one.q75), (2.0, 2.0, 2.0));
        assert!(Spread::of(&[]).is_none());
        assert!(Spread::of(&[f64::NAN, f64::INFINITY]).is_none());
    }

    #[test]
    fn ratios_leave_out_pairs_with_a_dead_side() {
        let good = SlicePair {
            a: SliceSample {
                throughput_rps: 200.0,
                latency_p50_us: Some(10.0),
                server_cpu_us_per_op: Some(2.0),
                ..SliceSample::default()
            },
            b: SliceSample {
                throughput_rps: 100.0,
                latency_p50_us: Some(30.0),
                server_cpu_us_per_op: Some(5.0),
                ..SliceSample::default()
            },
            ..SlicePair::default()
        };
        let dead = SlicePair {
            a: good.a.clone(),
            ..SlicePair::default()
        };
        let ratios = Ratios::of(&[good, dead]);
        let throughput = ratios.throughput_a_over_b.unwrap();
        assert_eq!((throughput.n, throughput.median), (1, 2.0));
        assert_eq!(ratios.latency_p50_b_over_a.unwrap().median, 3.0);
        assert_eq!(ratios.server_cpu_b_over_a.unwrap().median, 2.5);
        assert!(ratios.latency_p99_b_over_a.is_none());
    }

    #[test]
    fn a_spread_across_one_supports_no_difference() {
        assert!(!Spread::of(&[0.9, 1.0, 1.1, 1.2]).unwrap().excludes_one());
        assert!(Spread::of(&[1.3, 1.31, 1.4]).unwrap().excludes_one());
        assert!(Spread::of(&[0.5, 0.6, 0.7]).unwrap().excludes_one());
    }
}
