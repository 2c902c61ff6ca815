//! A study beside our rows in every form.

use super::super::{Lang, paper_csv, run_markdown};
use super::{UNICODE, fixture, html_in, markup};
use crate::paper::text::tables;
use crate::paper::{Study, beside};
use crate::record::paper::PaperFigures;
use crate::record::{Grade, RunRecord};

fn beside_study() -> RunRecord {
    let mut record = fixture::run();
    record.paper = Some(beside::ladders(Study::Ladders, &record));
    record
}

#[test]
fn the_markdown_has_paper_ours_and_ratio_with_both_statuses() {
    let mut record = beside_study();
    let paper = record.paper.as_mut().unwrap();
    let table = paper
        .tables
        .iter_mut()
        .find(|table| table.id == "P2")
        .unwrap();
    let row = table
        .rows
        .iter_mut()
        .find(|row| row.title.starts_with("20,000"))
        .unwrap();
    row.ours = Some(row.paper);
    (row.rate_ratio, row.p99_ratio) = (Some(1.0), Some(1.0));
    row.our_status = row.paper_status.clone();
    row.our_grade = Some(Grade::Indicative);
    let why = paper.not_comparable[0].clone();
    let markdown = run_markdown(&record, Lang::En);
    let section = markdown.split(". Beside the paper\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let table = section.split("### P2: ").nth(1).unwrap();
    let heads = table.lines().find(|line| line.starts_with("| ")).unwrap();
    for head in [
        "goodput /s: paper",
        "goodput /s: ours",
        "goodput /s: ratio",
        "P99, ms: paper",
        "status: paper",
        "status: computed",
        "status: ours",
    ] {
        assert!(
            heads.contains(&format!("| {head} |")),
            "{head} is not in {heads}"
        );
    }
    let line = table
        .lines()
        .find(|line| line.starts_with("| 20,000/s"))
        .unwrap();
    assert!(
        line.contains("| ✓ |") && line.contains("Warning (avg, p95, p99)"),
        "{line}"
    );
    assert!(line.contains("(indicative)"), "{line}");
    let told: String = section
        .lines()
        .filter(|line| line.starts_with("- "))
        .collect();
    let start: String = why
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == ' ')
        .collect();
    assert!(told.contains(&start), "{start:?} is not in {told}");
    assert!(run_markdown(&record, Lang::Vi).contains("Bên cạnh nghiên cứu gốc"));
    assert!(!run_markdown(&fixture::run(), Lang::En).contains("Beside the paper"));
}

/// Tests of study 004 on one system, without rows of offered loads.
fn tests_alone() -> RunRecord {
    let mut record = RunRecord {
        complete: true,
        ..RunRecord::default()
    };
    let mut study = beside::replay(Study::RedisBenchmark, None);
    study.replay = false;
    for table in &mut study.tables {
        table.ours = Some("tollgate · our generator".into());
        for row in &mut table.rows {
            row.ours = Some(PaperFigures {
                p99_ms: Some(1.5),
                ..row.paper
            });
        }
    }
    record.paper = Some(study);
    record.judge();
    record
}

#[test]
fn tests_of_a_study_are_no_run_that_measured_nothing() {
    let record = tests_alone();
    assert_eq!(record.validity.grade, Grade::Indicative, "each ran once");
    let markdown = run_markdown(&record, Lang::En);
    let html = html_in(&record, Lang::En);
    markup::check(&html);
    for text in [&markdown, &html] {
        assert!(text.contains("Study 004 was repeated in a closed loop"));
        assert!(text.contains("Closed loop, as in the study"));
        for false_here in ["Nothing was measured", "Open loop: requests follow"] {
            assert!(!text.contains(false_here), "{false_here}");
        }
    }
    assert!(!markdown.contains("## 5. Direct comparison"), "{markdown}");
    let text = tables(UNICODE, record.paper.as_ref().unwrap());
    assert!(text.contains("our p99 ms"), "{text}");
    // A replay measures nothing, and says so.
    let mut replayed = tests_alone();
    replayed.paper.as_mut().unwrap().replay = true;
    assert!(run_markdown(&replayed, Lang::En).contains("Nothing was measured"));
}

#[test]
fn the_csv_has_a_line_per_row_and_the_page_our_grade() {
    let record = beside_study();
    let paper = record.paper.as_ref().unwrap();
    let csv = paper_csv(paper);
    let rows: usize = paper.tables.iter().map(|table| table.rows.len()).sum();
    assert_eq!(csv.lines().count(), 1 + rows);
    let line = csv
        .lines()
        .find(|line| line.starts_with("000,P2,") && line.contains("\"20,000/s\""));
    assert!(
        line.is_some_and(|line| line.contains("\"Warning (avg, p95, p99)\"")),
        "{csv}"
    );
    let html = html_in(&record, Lang::Vi);
    markup::check(&html);
    assert!(html.contains("Bên cạnh nghiên cứu gốc"));
}
