//! What a run says about a choice: winners only where they are shown, and words for everybody else.

use super::super::decision::{advice, head_to_head, lessons, verdicts};
use super::super::findings::scenarios;
use super::super::{Lang, TextStyle, run_markdown, run_summary};
use super::{everything, fixture, html_in, markup, run_html};
use crate::record::recovery::RecoveryVerdict;
use crate::record::{
    CellStatistics, Grade, Level, RateStatistics, RunRecord, Setting, StartSample,
};

/// The fixture's run with five searches per cell, in which tollgate holds `times` what redis holds.
fn searched(times: f64) -> RunRecord {
    let mut record = fixture::run();
    for cell in &mut record.cells {
        let held = match cell.target.as_str() {
            "tollgate" => 50_000.0 * times,
            _ => 50_000.0,
        };
        cell.capacity = Some(everything::capacity(held));
        if cell.scenario.name.ends_with("hot") {
            cell.scenario.distribution = "hot:0.9:1".into();
        }
    }
    record.settle();
    record
}

fn winners(record: &RunRecord) -> Vec<String> {
    let found = verdicts(record, &scenarios(record), Lang::En).unwrap();
    let named = found.rows.iter().map(|row| row[1].clone());
    named.chain([found.overall]).collect()
}

#[test]
fn a_winner_is_named_where_starts_show_one() {
    let record = searched(1.5);
    let found = winners(&record);
    assert_eq!(found[0], "tollgate", "{found:?}");
    assert!(
        found
            .last()
            .unwrap()
            .starts_with("Overall winner: tollgate"),
        "{found:?}"
    );
    let cards = head_to_head(&scenarios(&record), Lang::En);
    let max = cards
        .iter()
        .find(|row| row[0].starts_with("Max RPS"))
        .unwrap();
    assert!(
        max[1].starts_with("redis") && max[2].starts_with("tollgate: 75,000"),
        "{max:?}"
    );
    assert!(
        max[3].starts_with("▲ +50") && max[3].contains("n = 5"),
        "{max:?}"
    );
    let markdown = run_markdown(&record, Lang::En);
    assert!(markdown.contains("### Head to head") && markdown.contains("### Criteria and winners"));
    let html = run_html(&record).unwrap();
    markup::check(&html);
    assert!(html.contains("Overall winner: tollgate"));
}

/// Five climbs of every ladder, of which one start held less than the others.
fn climbed() -> RunRecord {
    let mut record = fixture::run();
    for cell in &mut record.cells {
        let rates = cell.steps.iter().map(|step| {
            let sample = |start: u32| StartSample {
                start,
                level: Some(step.status.level),
                ..StartSample::default()
            };
            RateStatistics {
                target_rps: step.target_rps,
                starts: (1..=5).map(sample).collect(),
                ..RateStatistics::default()
            }
        });
        cell.statistics = Some(CellStatistics {
            starts: 5,
            rates: rates.collect(),
        });
    }
    record
}

#[test]
fn ladders_that_enough_starts_climbed_show_a_least_difference() {
    let mut record = climbed();
    let found = winners(&record);
    assert_eq!(found[0], "tollgate", "{found:?}");
    let cards = head_to_head(&scenarios(&record), Lang::En);
    let max = cards
        .iter()
        .find(|row| row[0].starts_with("Max RPS"))
        .unwrap();
    assert!(max[3].starts_with("▲ at least +"), "{max:?}");
    // A start of the other that nothing was too much for bounds it no more.
    for cell in record
        .cells
        .iter_mut()
        .filter(|cell| cell.target != "tollgate")
    {
        let rates = &mut cell.statistics.as_mut().unwrap().rates;
        rates
            .iter_mut()
            .for_each(|rate| rate.starts[2].level = Some(Level::Ok));
    }
    assert_eq!(winners(&record)[0], "none shown");
}

#[test]
fn figures_of_rejected_rows_are_marked_head_to_head() {
    let mut record = fixture::run();
    let p99 = |record: &_| {
        let cards = head_to_head(&scenarios(record), Lang::En);
        let row = cards.into_iter().find(|row| row[0].starts_with("P99"));
        row.expect("a load that both were measured at")
    };
    let sides = p99(&record);
    assert!(!sides[1].contains("invalid") && !sides[2].contains("invalid"));
    for cell in record
        .cells
        .iter_mut()
        .filter(|cell| cell.target != "tollgate")
    {
        let steps = cell.steps.iter_mut();
        steps.for_each(|step| step.validity.grade = Grade::Invalid);
    }
    let marked = p99(&record);
    let other = marked[1..3]
        .iter()
        .find(|side| !side.starts_with("tollgate"));
    assert!(other.unwrap().ends_with("(invalid)"), "{marked:?}");
    assert!(
        !marked[3].contains("times"),
        "nothing follows from it: {marked:?}"
    );
}

#[test]
fn small_differences_and_single_starts_have_no_winner() {
    for record in [searched(1.02), fixture::run()] {
        let found = winners(&record);
        assert_eq!(found[0], "none shown", "{found:?}");
        assert!(
            found.last().unwrap().starts_with("No overall winner"),
            "{found:?}"
        );
        let cards = head_to_head(&scenarios(&record), Lang::En);
        assert!(cards.iter().all(|row| !row[3].contains('▲')), "{cards:?}");
    }
}

#[test]
fn systems_set_up_unlike_are_no_rivals() {
    let mut record = searched(1.5);
    for target in &mut record.targets {
        if target.name == "tollgate" {
            continue;
        }
        target.settings.push(Setting {
            name: "appendonly".into(),
            value: "yes".into(),
        });
    }
    assert!(verdicts(&record, &scenarios(&record), Lang::En).is_none());
    assert!(head_to_head(&scenarios(&record), Lang::En).is_empty());
    // What each of them holds by itself is said all the same.
    let told = advice(&record, &scenarios(&record), Lang::En);
    assert!(told.iter().all(|one| !one.answer.contains("consider")));
    assert!(
        told[1].answer.contains("further node"),
        "{}",
        told[1].answer
    );
}

#[test]
fn advice_follows_the_loads_that_were_held() {
    let record = searched(1.5);
    let told = advice(&record, &scenarios(&record), Lang::En);
    assert_eq!(told.len(), 5, "below, near, beyond, anew, hot key");
    assert_eq!(told[0].situation, "I run redis and need less than 42,500/s");
    assert!(
        told[1].answer.contains("consider tollgate"),
        "{}",
        told[1].answer
    );
    assert!(
        told[2]
            .answer
            .contains("Move to tollgate, safe up to 63,750/s")
    );
    assert!(told[3].answer.contains("tollgate is shown to hold more"));
    assert!(told[4].answer.contains("tollgate bench mitigations"));
}

#[test]
fn lessons_tell_what_was_tried_and_what_was_not() {
    let whole = everything::run();
    let found = lessons(&whole, Lang::En).unwrap();
    assert_eq!(found.heads.len(), 4, "{:?}", found.heads);
    assert!(found.rows.iter().all(|row| row.len() == found.heads.len()));
    let recovery = |row: &Vec<String>| row[2].contains("retries of clients");
    assert!(found.rows.iter().any(recovery), "{:?}", found.rows);
    assert!(found.untried.is_empty(), "{:?}", found.untried);
    let mut alone = whole.clone();
    for cell in &mut alone.cells {
        cell.recovery = None;
    }
    let found = lessons(&alone, Lang::En).unwrap();
    assert_eq!(found.heads, ["cell", "Threshold breach"]);
    assert!(
        found.untried[0].contains("tollgate bench recovery"),
        "{:?}",
        found.untried
    );
    markup::check(&html_in(&alone, Lang::Vi));
}

#[test]
fn what_an_invalid_recovery_came_to_is_marked() {
    let shown = |grade| {
        let mut record = RunRecord {
            mitigations: None,
            ..everything::run()
        };
        for found in record
            .cells
            .iter_mut()
            .filter_map(|cell| cell.recovery.as_mut())
        {
            for variant in &mut found.variants {
                variant.verdict = RecoveryVerdict::Metastable;
                variant.validity.grade = grade;
            }
        }
        super::unwrapped(&run_summary(TextStyle::default(), &record))
    };
    let marked = |grade| shown(grade).contains("did not recover (metastable) (invalid)");
    assert!(shown(Grade::Valid).contains("did not recover (metastable)"));
    assert!(marked(Grade::Invalid) && !marked(Grade::Valid));
}
