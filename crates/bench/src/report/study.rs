//! What follows from the rows of a repeated study: its own summary with ours beside, and what a run of commands comes to.
//! Pure functions of the study's record.

use crate::paper::{Study, judge::judge, seeds};
use crate::record::Level;
use crate::record::paper::{Colour, PaperRecord, PaperRow, PaperTable};
use crate::statistics::{cv_percent, mad, median};

use super::format::{DASH, or_dash, percent, rate, ratio, significant};
use super::lang::{Lang, Text, study as t};

/// A table that follows from others.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    pub(crate) title: String,
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Remarks below it.
    pub(crate) remarks: Vec<String>,
}

/// Tables that follow from the rows of a study.
pub(crate) fn derived(record: &PaperRecord, lang: Lang) -> Vec<Derived> {
    match Study::from_number(&record.study) {
        Some(Study::Ladders) => summary_of_ladders(record, lang).into_iter().collect(),
        Some(Study::RedisBenchmark) if !record.replay => commands(record, lang),
        _ => Vec::new(),
    }
}

/// What a row of the study's summary is about.
#[derive(Clone, Copy)]
enum Item {
    Max,
    Safe,
    P99(f64),
    /// Failures from the first load above the limit on.
    Fails(f64),
}

/// Share of the held load that the study calls safe is not stated; ours is this.
const SAFE_OF_HELD: f64 = 0.85;
const UNIFORM: [&str; 2] = ["P2", "P4"];
const HOT: [&str; 2] = ["P3", "P5"];

/// The study's sections 6.1 to 6.3 and its executive summary, as printed.
const PRINTED: [(Item, [&str; 2], &str, &str, &str); 12] = [
    (Item::Max, UNIFORM, "20,000", "27,500", "+37.5 %"),
    (Item::Max, HOT, "17,500", "22,500", "+28.6 %"),
    (Item::Safe, UNIFORM, "18,000", "25,000", "+38.9 %"),
    (Item::Safe, HOT, "15,000", "20,000", "+33.3 %"),
    (Item::P99(10_000.0), UNIFORM, "29.8 ms", "30.4 ms", "~"),
    (Item::P99(17_500.0), UNIFORM, "60.0 ms", "20.7 ms", "2.9×"),
    (Item::P99(20_000.0), UNIFORM, "110 ms", "59.4 ms", "1.9×"),
    (Item::P99(10_000.0), HOT, "36.4 ms", "4.98 ms", "7.3×"),
    (Item::P99(17_500.0), HOT, "160 ms", "24.27 ms", "6.6×"),
    (Item::P99(20_000.0), HOT, "!", "42.05 ms", DASH),
    (Item::Fails(20_000.0), HOT, "74.5 → 91.3 → 85.7", DASH, DASH),
    (Item::Fails(25_000.0), HOT, DASH, "2.65 → 8.76 → 60.8", DASH),
];

fn summary_of_ladders(record: &PaperRecord, lang: Lang) -> Option<Derived> {
    let there = |ids: &[&str; 2]| {
        record
            .tables
            .iter()
            .any(|table| ids.contains(&table.id.as_str()))
    };
    let printed: Vec<_> = PRINTED.iter().filter(|(_, ids, ..)| there(ids)).collect();
    if printed.is_empty() {
        return None;
    }
    let ours = record.systems();
    let heads = [
        t::ST_ITEM,
        t::ST_REDIS,
        t::ST_DRAGONFLY,
        t::ST_GAIN,
        t::ST_OWN_RULES,
    ];
    let mut heads: Vec<String> = heads.iter().map(|head| head.of(lang).to_owned()).collect();
    heads.extend(ours.iter().map(|name| (*name).to_owned()));
    let said = |text: &str| match text {
        "~" => t::ST_SAME.of(lang).to_owned(),
        "!" => t::ST_COLLAPSED.of(lang).to_owned(),
        text => text.to_owned(),
    };
    let rows = printed
        .into_iter()
        .map(|(item, ids, redis, dragonfly, gain)| {
            let mut row = vec![
                name(*item, *ids == HOT, lang),
                said(redis),
                said(dragonfly),
                said(gain),
                own_rules(*item, ids),
            ];
            row.extend(ours.iter().map(|name| {
                let of = |table: &&PaperTable| {
                    ids.contains(&table.id.as_str()) && table.ours.as_deref() == Some(name)
                };
                // The study's tables of one scenario end at different loads.
                let rows = |table: &&PaperTable| measured(&table.rows).count();
                let table = record.tables.iter().filter(of).max_by_key(rows);
                or_dash(table, |table| ours_of(*item, &table.rows, lang))
            }));
            row
        })
        .collect();
    Some(Derived {
        title: t::ST_P6.of(lang).into(),
        heads,
        rows,
        remarks: Vec::new(),
    })
}

fn name(item: Item, hot: bool, lang: Lang) -> String {
    let scenario = if hot { t::ST_HOT } else { t::ST_UNIFORM }.of(lang);
    let (text, load) = match item {
        Item::Max => (t::ST_MAX, None),
        Item::Safe => (t::ST_SAFE, None),
        Item::P99(load) => (t::ST_P99, Some(load)),
        Item::Fails(load) => (t::ST_FAILS, Some(load)),
    };
    let load = load.map_or_else(String::new, rate);
    text.with(lang, &[("scenario", scenario), ("load", &load)])
}

/// The highest load of each table such that it and all lower ones are Good by the study's own thresholds.
fn own_rules(item: Item, ids: &[&str; 2]) -> String {
    if !matches!(item, Item::Max) {
        return DASH.into();
    }
    let good = |id: &str| {
        let rows = seeds::table(id).take_while(|row| judge(row).colour == Colour::Good);
        or_dash(rows.last(), |row| rate(row.target_rps))
    };
    format!("{} | {}", good(ids[0]), good(ids[1]))
}

/// Rows that have one of ours beside them.
fn measured(rows: &[PaperRow]) -> impl Iterator<Item = &PaperRow> {
    rows.iter().filter(|row| row.our_status.is_some())
}

/// The same of our rows beside the study's.
fn ours_of(item: Item, rows: &[PaperRow], lang: Lang) -> String {
    let measured: Vec<&PaperRow> = measured(rows).collect();
    let held: Vec<&&PaperRow> = measured
        .iter()
        .take_while(|row| {
            let level = row.our_status.as_ref().map(|status| status.level);
            level.is_some_and(|level| level <= Level::NearLimit)
        })
        .collect();
    let whole = held.len() == measured.len();
    let load = held.last().and_then(|row| row.paper.target_rps);
    let bounded = |text: String| match whole {
        true => t::ST_AT_LEAST.with(lang, &[("load", &text)]),
        false => text,
    };
    match item {
        Item::Max => or_dash(load, |load| bounded(rate(load))),
        Item::Safe => or_dash(load, |load| bounded(rate((load * SAFE_OF_HELD).floor()))),
        Item::P99(at) => {
            let row = measured.iter().find(|row| row.paper.target_rps == Some(at));
            let p99 = row.and_then(|row| row.ours?.p99_ms);
            or_dash(p99, |p99| format!("{} ms", significant(p99)))
        }
        Item::Fails(from) => {
            let above = measured
                .iter()
                .filter(|row| row.paper.target_rps >= Some(from));
            let failed = above.filter_map(|row| Some(percent(row.ours?.fail_percent?)));
            let failed: Vec<String> = failed.collect();
            match failed.is_empty() {
                true => DASH.into(),
                false => failed.join(" → "),
            }
        }
    }
}

/// A system asked by a generator, with the rate of each of its tests.
struct Series<'a> {
    name: &'a str,
    tests: Vec<(&'a str, f64)>,
}

/// The test of which every command has a row.
const LONGEST: &str = "test 2";
/// The reference, as it is named here.
const REFERENCE: &str = "redis-server";
/// What the study set out to reach.
const GOAL_RPS: f64 = 50_000.0;
/// Tests that all lie this near to their median, percent, say more about the generator.
const ALIKE_PERCENT: f64 = 5.0;
/// So many tests must be alike for that.
const ALIKE_MIN: usize = 5;
/// Below this share of the reference a test is worth work.
const BEHIND: f64 = 0.9;

/// The types of the study's breakdown, with the beginnings of their tests.
const TYPES: [(Text, &[&str]); 5] = [
    (t::ST_STRINGS, &["SET", "GET", "INCR", "MSET"]),
    (t::ST_LISTS, &["LPUSH", "LPOP", "LRANGE"]),
    (t::ST_SETS, &["SADD", "SPOP"]),
    (t::ST_HASHES, &["HSET"]),
    (t::ST_SORTED, &["ZADD", "ZPOPMIN"]),
];

fn commands(record: &PaperRecord, lang: Lang) -> Vec<Derived> {
    let series: Vec<Series<'_>> = record
        .tables
        .iter()
        .filter(|table| table.id == LONGEST)
        .filter_map(|table| {
            let rated = |row: &'_ PaperRow| row.ours?.goodput_rps.filter(|rps| *rps > 0.0);
            let tests = table.rows.iter();
            Some(Series {
                name: table.ours.as_deref()?,
                tests: tests
                    .filter_map(|row| Some((row.title.as_str(), rated(row)?)))
                    .collect(),
            })
        })
        .filter(|series| !series.tests.is_empty())
        .collect();
    if series.is_empty() {
        return Vec::new();
    }
    let mut out = vec![executive(&series, lang), by_type(&series, lang)];
    out.extend(against(&series, lang));
    out
}

fn executive(series: &[Series<'_>], lang: Lang) -> Derived {
    let heads = [
        t::ST_SYSTEM,
        t::ST_TESTS,
        t::ST_LEAST,
        t::ST_MEDIAN,
        t::ST_MOST,
        t::ST_SPREAD,
    ];
    let mut remarks = Vec::new();
    let rows = series
        .iter()
        .map(|one| {
            let rates: Vec<f64> = one.tests.iter().map(|(_, rps)| *rps).collect();
            let middle = median(&rates).unwrap_or_default();
            let least = rates.iter().copied().min_by(f64::total_cmp);
            let most = rates.iter().copied().max_by(f64::total_cmp);
            let share = |value: Option<f64>| or_dash(value, |v| format!("{} %", significant(v)));
            let off = rates.iter().map(|rps| (rps / middle - 1.0).abs() * 100.0);
            let off = off.max_by(f64::total_cmp).unwrap_or_default();
            if rates.len() >= ALIKE_MIN && off <= ALIKE_PERCENT {
                let percent = significant(off);
                let values = [("name", one.name), ("percent", percent.as_str())];
                remarks.push(t::ST_CLIENT_BOUND.with(lang, &values));
            }
            let reached = rates.iter().filter(|rps| **rps >= GOAL_RPS).count();
            let (n, of) = (reached.to_string(), rates.len().to_string());
            remarks.push(t::ST_GOAL.with(lang, &[("name", one.name), ("n", &n), ("of", &of)]));
            vec![
                one.name.to_owned(),
                of,
                or_dash(least, rate),
                rate(middle),
                or_dash(most, rate),
                format!(
                    "{} / {}",
                    share(cv_percent(&rates)),
                    share(mad(&rates).map(|mad| mad / middle * 100.0))
                ),
            ]
        })
        .collect();
    Derived {
        title: t::ST_EXECUTIVE.of(lang).into(),
        heads: heads.iter().map(|head| head.of(lang).to_owned()).collect(),
        rows,
        remarks,
    }
}

fn by_type(series: &[Series<'_>], lang: Lang) -> Derived {
    let mut heads = vec![t::ST_SYSTEM.of(lang).to_owned()];
    heads.extend(TYPES.iter().map(|(name, _)| name.of(lang).to_owned()));
    let rows = series
        .iter()
        .map(|one| {
            let mut row = vec![one.name.to_owned()];
            row.extend(TYPES.iter().map(|(_, names)| {
                let of_type = one.tests.iter().filter(|(test, _)| {
                    // `LRANGE_100 (first 100 elements)` is an LRANGE.
                    let command = test.split([' ', '_']).next().unwrap_or_default();
                    names.contains(&command)
                });
                let rates: Vec<f64> = of_type.map(|(_, rps)| *rps).collect();
                or_dash(median(&rates), rate)
            }));
            row
        })
        .collect();
    Derived {
        title: t::ST_TYPES.of(lang).into(),
        heads,
        rows,
        remarks: Vec::new(),
    }
}

/// Every system beside the reference, by the same generator, test by test: measured, and not estimated.
fn against(series: &[Series<'_>], lang: Lang) -> Vec<Derived> {
    let mut out = Vec::new();
    for reference in series {
        let Some((REFERENCE, driver)) = reference.name.split_once(" · ") else {
            continue;
        };
        let others: Vec<(&str, &Series<'_>)> = series
            .iter()
            .filter_map(|one| {
                let (name, by) = one.name.split_once(" · ")?;
                (by == driver && name != REFERENCE).then_some((name, one))
            })
            .collect();
        if others.is_empty() {
            continue;
        }
        let mut heads = vec![t::ST_TEST.of(lang).to_owned(), format!("{REFERENCE} /s")];
        heads.extend(others.iter().flat_map(|(name, _)| {
            [
                format!("{name} /s"),
                t::ST_RATIO.with(lang, &[("name", name)]),
            ]
        }));
        let mut behind: Vec<Vec<&str>> = vec![Vec::new(); others.len()];
        let mut rows = Vec::new();
        for (test, theirs) in &reference.tests {
            let mut row = vec![(*test).to_owned(), rate(*theirs)];
            for (at, (_, other)) in others.iter().enumerate() {
                let own = other.tests.iter().find(|(name, _)| name == test);
                let own = own.map(|(_, rps)| *rps);
                if own.is_some_and(|own| own < BEHIND * theirs) {
                    behind[at].push(test);
                }
                row.extend([or_dash(own, rate), or_dash(own, |own| ratio(own / theirs))]);
            }
            rows.push(row);
        }
        let remark = |((name, _), tests): (&(&str, &Series<'_>), &Vec<&str>)| match tests.is_empty()
        {
            true => t::ST_NOT_BEHIND.with(lang, &[("name", name)]),
            false => t::ST_BEHIND.with(lang, &[("name", name), ("tests", &tests.join(", "))]),
        };
        out.push(Derived {
            title: t::ST_AGAINST.with(lang, &[("driver", driver)]),
            heads,
            rows,
            remarks: others.iter().zip(&behind).map(remark).collect(),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::beside;
    use crate::record::Status;
    use crate::record::paper::PaperFigures;

    #[test]
    fn the_studys_summary_stands_beside_its_own_rules_and_our_rows() {
        let mut record = beside::replay(Study::Ladders, None);
        let alone = derived(&record, Lang::En).remove(0);
        assert_eq!(alone.rows.len(), 12);
        assert_eq!(alone.heads.len(), 5, "nothing was measured");
        let max = |at: usize| alone.rows[at].clone();
        assert_eq!(max(0)[1..4], ["20,000", "27,500", "+37.5 %"]);
        assert_eq!(max(0)[4], "15,000 | 17,500");
        assert_eq!(max(1)[4], "10,000 | 22,500");
        // Ours beside Redis with the hot key: held up to 15,000, then not.
        let table = record
            .tables
            .iter_mut()
            .find(|table| table.id == "P3")
            .unwrap();
        table.ours = Some("x · y".into());
        for row in &mut table.rows {
            let load = row.paper.target_rps.unwrap();
            let level = if load <= 15_000.0 {
                Level::Ok
            } else {
                Level::Failed
            };
            row.our_status = Some(Status {
                level,
                ..Status::default()
            });
            row.ours = Some(PaperFigures {
                p99_ms: Some(3.0),
                fail_percent: Some(if load <= 15_000.0 { 0.0 } else { 40.0 }),
                ..PaperFigures::default()
            });
        }
        let found = derived(&record, Lang::En).remove(0);
        let ours: Vec<&str> = found.rows.iter().map(|row| row[5].as_str()).collect();
        assert_eq!((ours[0], ours[1], ours[3]), (DASH, "15,000", "12,750"));
        assert_eq!((ours[8], ours[10]), ("3.00 ms", "40.0 → 40.0 → 40.0"));
        assert!(found.rows[9][1] == "COLLAPSED" && found.rows[4][3] == "about the same");
    }

    fn table(name: &str, rates: [f64; 6]) -> PaperTable {
        let tests = [
            "SET",
            "GET",
            "LPUSH",
            "LRANGE_100 (first 100 elements)",
            "SADD",
            "ZADD",
        ];
        PaperTable {
            id: LONGEST.into(),
            ours: Some(name.into()),
            rows: tests
                .iter()
                .zip(rates)
                .map(|(test, rps)| PaperRow {
                    title: (*test).into(),
                    ours: Some(PaperFigures {
                        goodput_rps: Some(rps),
                        ..PaperFigures::default()
                    }),
                    ..PaperRow::default()
                })
                .collect(),
            ..PaperTable::default()
        }
    }

    #[test]
    fn commands_are_set_beside_the_reference_that_was_measured() {
        let record = PaperRecord {
            study: "004".into(),
            tables: vec![
                table(
                    "redis-server · redis-benchmark",
                    [100e3, 110e3, 90e3, 50e3, 100e3, 80e3],
                ),
                table(
                    "tollgate · redis-benchmark",
                    [100e3, 121e3, 90e3, 30e3, 100e3, 80e3],
                ),
                table(
                    "tollgate · our generator",
                    [66e3, 67e3, 66e3, 66e3, 67e3, 68e3],
                ),
            ],
            ..PaperRecord::default()
        };
        let found = derived(&record, Lang::En);
        assert_eq!(found.len(), 3, "one generator asked both");
        let executive = &found[0];
        assert_eq!(
            executive.rows[0][1..5],
            ["6", "50,000", "95,000", "110,000"]
        );
        let bound = |name: &str| {
            let told = executive.remarks.iter();
            told.filter(|text| text.contains("bounds") && text.contains(name))
                .count()
        };
        assert_eq!((bound("our generator"), bound("redis-benchmark")), (1, 0));
        assert_eq!(found[1].rows[1][1..3], ["110,500", "60,000"]);
        let against = &found[2];
        assert_eq!(
            against.rows[3],
            [
                "LRANGE_100 (first 100 elements)",
                "50,000",
                "30,000",
                "0.600×"
            ]
        );
        assert!(against.remarks[0].ends_with("in: LRANGE_100 (first 100 elements)."));
        for lang in [Lang::En, Lang::Vi] {
            for table in derived(&record, lang) {
                assert!(table.rows.iter().all(|row| row.len() == table.heads.len()));
            }
        }
        assert!(derived(&beside::replay(Study::RedisBenchmark, None), Lang::En).is_empty());
    }
}
