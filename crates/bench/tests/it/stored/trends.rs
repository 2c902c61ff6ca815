//! Trends over runs, and the noise of one machine.

use std::fs;

use tollgate_bench::record::{Grade, Metric, Noise, TrendColour};
use tollgate_bench::report::Lang;
use tollgate_bench::stored::{StoredRun, noise, noise_path, read_noise, trends, write_noise};
use tollgate_testkit::process::temp_dir;

use super::{PLAIN, System, run_of, stored};

#[test]
fn a_trend_is_found_and_chance_is_not_one() {
    let runs = |slope: f64| -> Vec<StoredRun> {
        (0..8_u32)
            .map(|number| {
                let goodput = 1.0 + slope * f64::from(number);
                let mut record = run_of(
                    &[(
                        "redis-server",
                        System {
                            goodput,
                            seed: u64::from(number) + 50,
                            ..PLAIN
                        },
                    )],
                    3,
                );
                record.manifest.started_unix_s += 86_400 * i64::from(number);
                StoredRun {
                    source: number.to_string(),
                    record,
                }
            })
            .collect()
    };
    let falling = trends(&runs(-0.03), &[Metric::GoodputRps]).unwrap();
    let row = &falling.rows[0];
    assert_eq!((row.points.len(), row.points[7].0), (8, 7.0));
    assert_eq!((row.colour, row.noise), (TrendColour::Worse, Noise::Stable));
    assert!(
        row.p.unwrap() < 0.01 && row.sentence.contains("worse by"),
        "{}",
        row.sentence
    );
    let (low, high) = row.slope_ci.unwrap();
    assert!(low < -2.0 && high < 0.0, "{low} {high}");
    let flat = trends(&runs(0.0), &[Metric::GoodputRps]).unwrap();
    assert!(
        flat.rows
            .iter()
            .all(|row| row.sentence.contains("no trend shown"))
    );
    let error = trends(&runs(0.0)[..1], &Metric::ALL).unwrap_err();
    assert!(error.contains("at least two runs"), "{error}");
}

#[test]
fn a_step_between_two_runs_is_told_with_its_run_and_both_levels() {
    let run = |number: u32| {
        let system = System {
            goodput: if number < 14 { 1.0 } else { 0.9 },
            seed: u64::from(number) + 50,
            ..PLAIN
        };
        let mut record = run_of(&[("redis-server", system)], 3);
        record.manifest.started_unix_s += 86_400 * i64::from(number);
        record.manifest.started_at = format!("2026-03-{:02}T00:00:00Z", number + 1);
        StoredRun {
            source: number.to_string(),
            record,
        }
    };
    let runs: Vec<StoredRun> = (0..24).map(run).collect();
    let found = trends(&runs, &[Metric::GoodputRps]).unwrap();
    for row in &found.rows {
        let [step] = &row.changes[..] else {
            panic!("{:?}", row.changes)
        };
        assert_eq!(
            (step.at, step.started_at.as_str()),
            (14, "2026-03-15T00:00:00Z")
        );
        let percent = step.percent().unwrap();
        assert!((percent + 10.0).abs() < 2.0, "{percent}");
    }
    let said = tollgate_bench::report::stored::trends(&found, Lang::En).markdown();
    assert!(
        said.contains("changed its level with the run of 2026-03-15"),
        "{said}"
    );
    let page = tollgate_bench::report::stored::trends(&found, Lang::Vi).page();
    assert_eq!(page.matches("<figure>").count(), found.rows.len());
    // A level before the change, one after it, and the one of the legend.
    let levels = page.matches("<path class=\"line s7\"").count();
    assert_eq!(levels, 3 * found.rows.len());
    assert!(page.contains("<path class=\"whisker s0\"") && !page.contains("<script"));
    // Nothing is looked for in few runs, however clear it is.
    let few = trends(&runs[6..22], &[Metric::GoodputRps]).unwrap();
    assert!(few.rows.iter().all(|row| row.changes.is_empty()));
}

#[test]
fn noise_is_what_the_starts_of_one_program_differ_by() {
    let measured = |amount: f64| {
        let twin = |seed| System {
            noise: amount,
            seed,
            ..PLAIN
        };
        let record = run_of(&[("tollgate (A)", twin(1)), ("tollgate (B)", twin(2))], 8);
        noise(&stored(record)).unwrap()
    };
    // The row that is looked at first was measured in two starts alone.
    let mut uneven = run_of(&[("tollgate", PLAIN)], 8);
    let cell = &mut uneven.cells[0];
    let step_s = cell.steps[0].duration_s / 8.0;
    cell.steps[0].duration_s = 2.0 * step_s;
    cell.statistics.as_mut().unwrap().rates[0]
        .starts
        .truncate(2);
    assert_eq!(noise(&stored(uneven)).unwrap().step_s, step_s);
    let (quiet, loud) = (measured(0.01), measured(0.1));
    assert_eq!(
        (quiet.target.as_str(), quiet.starts_per_side),
        ("tollgate", 8)
    );
    assert_eq!(quiet.metrics.len(), 4);
    for (quiet, loud) in quiet.metrics.iter().zip(&loud.metrics) {
        assert_eq!(quiet.rows, 2);
        assert!(quiet.smallest_claimable_percent > 0.0);
        assert!(quiet.smallest_claimable_percent < 3.0, "{quiet:?}");
        assert!(loud.smallest_claimable_percent > 3.0 * quiet.smallest_claimable_percent);
    }
    let folder = temp_dir().unwrap();
    let path = noise_path(&quiet.machine, |_| Some(folder.display().to_string())).unwrap();
    write_noise(&path, &quiet).unwrap();
    let read = read_noise(&path).unwrap();
    assert_eq!(
        (read.target, read.machine),
        (quiet.target, quiet.machine.clone())
    );
    for (read, wrote) in read.metrics.iter().zip(&quiet.metrics) {
        assert_eq!((read.metric, read.rows), (wrote.metric, wrote.rows));
        // JSON keeps all but the last digit.
        let off = read.smallest_claimable_percent - wrote.smallest_claimable_percent;
        assert!(off.abs() < 1e-9, "{off}");
    }
    fs::remove_dir_all(folder).unwrap();
    assert!(noise_path(&quiet.machine, |_| None).is_none());
    let mut spoiled = run_of(&[("tollgate", PLAIN)], 8);
    let starts = spoiled.cells[0].statistics.iter_mut();
    for sample in starts
        .flat_map(|found| &mut found.rates)
        .flat_map(|rate| &mut rate.starts)
    {
        sample.grade = Grade::Invalid;
    }
    let refused = noise(&stored(spoiled)).unwrap_err();
    assert!(
        refused.starts_with("nothing was calibrated: at most 0 of 8 starts of a row passed"),
        "{refused}"
    );
    let few = noise(&stored(run_of(&[("tollgate", PLAIN)], 3))).unwrap_err();
    assert!(few.contains("needs 6 starts"), "{few}");
}
