//! `bench noise`: how large a difference between two measurements of the same thing is here.

use super::read::StoredRun;
use super::rows::{Row, of_run};
use crate::record::{Metric, MetricNoise, NoiseRecord, SCHEMA_VERSION};
use crate::statistics::{chance_difference_percent, cv_percent, ratio};

/// Fewest starts of one and the same thing from which its noise is told.
pub(crate) const NOISE_STARTS_MIN: usize = 6;

/// Noise of what the runs measured again and again. Targets called `NAME (A)` and `NAME (B)` are the same program.
///
/// # Errors
/// If no row has enough starts.
pub fn noise(runs: &[StoredRun]) -> Result<NoiseRecord, String> {
    let Some(first) = runs.first() else {
        return Err("there is no run to take the noise from".into());
    };
    let rows: Vec<Row<'_>> = runs.iter().flat_map(|run| of_run(&run.record)).collect();
    let pools = pools(&rows);
    let longest = pools
        .iter()
        .map(|pool| pool.iter().map(|row| row.samples.len()).sum::<usize>())
        .max()
        .unwrap_or(0);
    if longest < NOISE_STARTS_MIN {
        return Err(format!(
            "the noise of this machine needs {NOISE_STARTS_MIN} starts of the same rows; there are {longest}"
        ));
    }
    let seed = first.record.manifest.seed;
    let mut names: Vec<&str> = rows.iter().map(|row| program(&row.cell.target)).collect();
    names.sort_unstable();
    names.dedup();
    let step_s = first
        .record
        .cells
        .iter()
        .find_map(|cell| cell.lengths_s().next());
    let metrics: Vec<MetricNoise> = Metric::ALL
        .into_iter()
        .filter_map(|metric| of_metric(&pools, metric, seed))
        .collect();
    if metrics.is_empty() {
        let passed = |pool: &Vec<&Row<'_>>| pool.iter().map(|row| row.believed().count()).sum();
        let most: usize = pools.iter().map(passed).max().unwrap_or(0);
        return Err(format!(
            "nothing was calibrated: at most {most} of {longest} starts of a row passed the validity rules, and \
             {NOISE_STARTS_MIN} are needed (the machine was busy, or the generator late); try again on a quiet machine"
        ));
    }
    Ok(NoiseRecord {
        schema_version: SCHEMA_VERSION,
        machine: first.record.manifest.machine.clone(),
        measured_at: first.record.manifest.started_at.clone(),
        target: names.join(", "),
        starts_per_side: u32::try_from(longest / 2).unwrap_or(u32::MAX),
        step_s: step_s.unwrap_or(0.0),
        metrics,
    })
}

/// Rows of one program, scenario, operation and load.
fn pools<'p, 'a>(rows: &'p [Row<'a>]) -> Vec<Vec<&'p Row<'a>>> {
    let same = |a: &Row<'_>, b: &Row<'_>| {
        let (x, y) = (a.key(), b.key());
        program(x.target) == program(y.target)
            && x.scenario == y.scenario
            && x.operation == y.operation
            && x.place == y.place
    };
    let mut pools: Vec<Vec<&Row<'_>>> = Vec::new();
    for row in rows {
        match pools.iter_mut().find(|pool| same(pool[0], row)) {
            Some(pool) => pool.push(row),
            None => pools.push(vec![row]),
        }
    }
    pools
}

/// The program of an arm of a measurement against itself.
fn program(target: &str) -> &str {
    target
        .strip_suffix(" (A)")
        .or_else(|| target.strip_suffix(" (B)"))
        .unwrap_or(target)
}

fn of_metric(pools: &[Vec<&Row<'_>>], metric: Metric, seed: u64) -> Option<MetricNoise> {
    let mut found: Option<MetricNoise> = None;
    for pool in pools {
        let (a, b) = halves(pool, metric);
        let all: Vec<f64> = a.iter().chain(&b).copied().collect();
        if all.len() < NOISE_STARTS_MIN {
            continue;
        }
        let Some(chance) = chance_difference_percent(&all, seed) else {
            continue;
        };
        let observed = ratio(&a, &b).map_or(0.0, |ratio| (ratio.max(1.0 / ratio) - 1.0) * 100.0);
        let cv = cv_percent(&all);
        let noise = found.get_or_insert(MetricNoise {
            metric,
            rows: 0,
            cv_percent: None,
            observed_percent: 0.0,
            smallest_claimable_percent: 0.0,
        });
        noise.rows += 1;
        noise.cv_percent = match (noise.cv_percent, cv) {
            (Some(before), Some(now)) => Some(before.max(now)),
            (before, now) => before.or(now),
        };
        noise.observed_percent = noise.observed_percent.max(observed);
        noise.smallest_claimable_percent = noise.smallest_claimable_percent.max(chance);
    }
    found
}

/// The two arms, or every other start where there is one arm.
fn halves(pool: &[&Row<'_>], metric: Metric) -> (Vec<f64>, Vec<f64>) {
    if let [a, b, ..] = pool
        && a.cell.target != b.cell.target
    {
        let of = |wanted: &str| -> Vec<f64> {
            let rows = pool.iter().filter(|row| row.cell.target == wanted);
            rows.flat_map(|row| row.values(metric)).collect()
        };
        return (of(&a.cell.target), of(&b.cell.target));
    }
    let all: Vec<f64> = pool.iter().flat_map(|row| row.values(metric)).collect();
    let every_other = |from: usize| all.iter().copied().skip(from).step_by(2).collect();
    (every_other(0), every_other(1))
}
