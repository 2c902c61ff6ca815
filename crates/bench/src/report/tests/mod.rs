//! Every renderer on every awkward record.

mod alike;
mod cards;
mod decision;
mod everything;
mod exports;
pub(in crate::report) mod fixture;
mod languages;
mod markup;
mod paper;

use std::fs;
use std::path::PathBuf;

use crate::record::recovery::RecoveryVerdict;
use crate::record::{
    Cell, CompareRecord, Failures, Grade, OverloadRow, OverloadSide, OverloadStep, ProcessUse,
    RetryAfter, RunRecord, Step,
};

use super::files::{RunDirectory, read_run};
use super::{
    HtmlOptions, Lang, TextStyle, compare_csv, compare_markdown, compare_summary, ladder_head,
    ladder_row, record_in, rows_csv, run_markdown, run_summary, summary_csv,
};

const UNICODE: TextStyle = TextStyle {
    unicode: true,
    color: false,
    lang: Lang::En,
    columns: 0,
};

/// The page in English.
fn run_html(record: &RunRecord) -> Result<String, super::RenderError> {
    super::run_html(record, &HtmlOptions::default())
}

/// The page in a language.
fn html_in(record: &RunRecord, lang: Lang) -> String {
    let options = HtmlOptions {
        lang,
        ..HtmlOptions::default()
    };
    super::run_html(record, &options).unwrap()
}

/// Renders a record every way and checks what must hold of any report.
fn render_all(record: &RunRecord) -> String {
    markup::check(&html_in(record, Lang::Vi));
    let html = run_html(record).unwrap().replace("&#x2f;", "/");
    markup::check(&html);
    for number in markup::coordinates(&html) {
        assert!(
            number.is_finite() && number.abs() < 10_000.0,
            "coordinate {number}"
        );
    }
    let steps: String = record
        .cells
        .iter()
        .flat_map(|cell| &cell.steps)
        .map(|step| ladder_row(UNICODE, step) + "\n")
        .collect();
    let texts = [
        run_markdown(record, Lang::En),
        summary_csv(record),
        run_summary(UNICODE, record),
        steps,
        run_markdown(record, Lang::Vi),
        rows_csv(record),
    ];
    for text in &texts {
        for word in ["NaN", "inf", "null"] {
            assert!(
                !text
                    .split(|c: char| !c.is_alphanumeric())
                    .any(|w| w == word),
                "{word} in\n{text}"
            );
        }
    }
    let ascii = |lang| TextStyle {
        lang,
        ..TextStyle::default()
    };
    assert!(run_summary(ascii(Lang::En), record).is_ascii());
    assert!(run_summary(ascii(Lang::Vi), record).is_ascii());
    let csv_columns: Vec<usize> = texts[1]
        .lines()
        .map(|line| line.split(',').count())
        .collect();
    assert!(
        csv_columns.iter().all(|columns| *columns == csv_columns[0]),
        "{csv_columns:?}"
    );
    html
}

/// Sentences without the line breaks that the terminal's width put into them.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Equal but for the last digit of floating point numbers, which reading JSON may change.
fn same(a: &RunRecord, b: &RunRecord) -> bool {
    fn alike(a: &serde_json::Value, b: &serde_json::Value) -> bool {
        use serde_json::Value::{Array, Number, Object};
        match (a, b) {
            (Number(a), Number(b)) => {
                let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
                (a - b).abs() <= a.abs() * 1e-12
            }
            (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
            (Object(a), Object(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .all(|(key, value)| b.get(key).is_some_and(|b| alike(value, b)))
            }
            _ => a == b,
        }
    }
    alike(
        &serde_json::to_value(a).unwrap(),
        &serde_json::to_value(b).unwrap(),
    )
}

fn run_of(cells: Vec<Cell>) -> RunRecord {
    let mut record = RunRecord {
        cells,
        complete: true,
        ..RunRecord::default()
    };
    record.settle();
    record
}

fn one_step(step: Step) -> RunRecord {
    run_of(vec![Cell {
        target: "redis".into(),
        steps: vec![step],
        complete: true,
        ..Cell::default()
    }])
}

#[test]
fn a_whole_run_renders_everywhere() {
    let record = fixture::run();
    let html = render_all(&record);
    for needle in [
        "Single key",
        "RL.TAKE",
        "like for like",
        "Worst",
        "aria-label=\"Percentiles at",
    ] {
        assert!(
            html.to_lowercase().contains(&needle.to_lowercase()),
            "{needle}"
        );
    }
    assert_eq!(summary_csv(&record).lines().count(), 1 + 9 * 9);
    let markdown = run_markdown(&record, Lang::En);
    for section in [
        "## Executive summary",
        "## 1. Overview",
        "## 2. Architecture and testbed",
        "## 3. Method",
        "## 4. Detailed results: redis",
        "## 5. Detailed results: tollgate",
        "## 6. Direct comparison",
        "## 7. Analysis",
        "### Accuracy",
        "### Events",
        "### Validity",
        "## 8. Production recommendation",
        "### Capacity matrix: Single key",
        "## 9. Conclusion",
        "## 10. Appendix",
    ] {
        assert!(markdown.contains(section), "{section}");
    }
}

#[test]
fn labels_of_an_axis_do_not_overlap() {
    // The widest character of the largest font that the style sheet sets, in view box units.
    const CHARACTER: f64 = 9.4;
    let html = run_html(&fixture::run()).unwrap();
    for drawing in html.split("<svg viewBox").skip(1) {
        let labels = markup::labels(drawing.split("</svg>").next().unwrap(), "tick mid");
        for pair in labels.windows(2) {
            let half = |text: &str| text.chars().count() as f64 * CHARACTER / 2.0;
            let room = pair[1].0 - pair[0].0 - half(&pair[0].1) - half(&pair[1].1);
            assert!(room > 0.0, "{} touches {}", pair[0].1, pair[1].1);
        }
    }
}

#[test]
fn the_verdict_claims_what_the_ladders_support() {
    let text = unwrapped(&run_summary(UNICODE, &fixture::run()));
    assert!(
        text.contains("Single key: tollgate with RL.TAKE held "),
        "{text}"
    );
    assert!(
        text.contains(" times what redis with EVALSHA INCR+EXPIRE held "),
        "{text}"
    );
    assert!(
        text.contains("No cell admitted more than its limit allows."),
        "{text}"
    );
}

#[test]
fn what_was_denied_or_promised_wrongly_is_in_the_verdict() {
    let mut record = fixture::run();
    let found = record.cells[0].accuracy.as_mut().unwrap();
    let right = |record: &_| unwrapped(&run_summary(UNICODE, record));
    found.retry_after = None;
    let text = right(&record);
    assert!(
        !text.contains("Denied part of") && !text.contains("Promised waits"),
        "{text}"
    );
    let found = record.cells[0].accuracy.as_mut().unwrap();
    (found.under_admitted, found.under_admission_percent) = (150, 10.0);
    found.retry_after = Some(RetryAfter {
        checked: 890,
        kept: 31,
        too_short: 859,
        worst_too_short_ms: 895.0,
        ..RetryAfter::default()
    });
    let title = record.cells[0].title();
    let text = right(&record);
    assert!(
        text.contains(&format!(
            "Denied part of what the limit allows: {title} (10.0 %)."
        )),
        "{text}"
    );
    let promised = "(859 too short and 0 too long of 890 checked, by up to 895 ms)";
    assert!(text.contains(&format!("{title} {promised}.")), "{text}");
}

#[test]
fn a_target_that_decided_nothing_is_not_praised_for_it() {
    let mut record = fixture::run();
    for step in record.cells.iter_mut().flat_map(|cell| &mut cell.steps) {
        (step.allowed, step.denied) = (0, 0);
    }
    let text = unwrapped(&run_summary(UNICODE, &record));
    assert!(!text.contains("No cell admitted more"), "{text}");
    assert!(!text.contains("│ 0 %"), "{text}");
}

#[test]
fn the_verdict_names_what_is_no_result_and_leaves_the_rest() {
    let mut record = fixture::run();
    let late = "the generator used 92.0 % of its core";
    record.cells[0].steps[0]
        .validity
        .lower(Grade::Invalid, late);
    record.settle();
    let title = record.cells[0].title();
    let rate = record.cells[0].steps[0].target_rps;
    let told = super::verdict::run(&record, Lang::En).swap_remove(0);
    assert!(
        told.starts_with(&format!("Invalid by the bench's own rules, and to be read as orientation, not as results: {title}: ")),
        "{told}"
    );
    assert!(
        told.contains(&format!("at {}/s {late}", super::format::rate(rate))),
        "{told}"
    );
    for cell in &mut record.cells {
        cell.steps[0].validity.lower(Grade::Invalid, late);
    }
    record.settle();
    let told = super::verdict::run(&record, Lang::En).swap_remove(0);
    assert!(
        told.starts_with("The run is invalid by its own rules (") && told.contains("more)"),
        "{told}"
    );
}

#[test]
fn the_verdict_tells_whether_a_system_came_back() {
    let mut record = everything::run();
    record.mitigations = None;
    let recovery = record.cells[0].recovery.as_mut().unwrap();
    let mut stuck = recovery.variants[0].clone();
    (stuck.retries, stuck.deadline_ms) = (1, None);
    stuck.verdict = RecoveryVerdict::GeneratorLimited;
    recovery.variants.push(stuck);
    let title = record.cells[0].title();
    let told = super::verdict::run(&record, Lang::En);
    let told = told.iter().find(|text| text.starts_with(&title)).unwrap();
    assert!(
        told.ends_with(
            "with clients that ask again up to 3 times (deadline 100 ms) good again after 4 s; with clients that ask again up \
             to 1 time (no deadline) not judged: the generator was at its limit; it heals by itself from 14,000/s."
        ),
        "{told}"
    );
}

#[test]
fn the_embedded_data_is_the_record() {
    let mut record = fixture::run();
    record.cells.truncate(1);
    let html = run_html(&record).unwrap();
    assert!(same(&record_in(&html).unwrap(), &record));
}

#[test]
fn long_data_are_compressed_and_read_again() {
    let mut record = fixture::run();
    let cells = record.cells.clone();
    for copy in 0..2 {
        for cell in &cells {
            let mut cell = cell.clone();
            cell.target = format!("{}-{copy}", cell.target);
            record.cells.push(cell);
        }
    }
    let html = run_html(&record).unwrap();
    assert!(html.contains("data-encoding=\"zlib-base64-columns\""));
    let kept = record_in(&html).unwrap();
    assert_eq!(kept.cells.len(), record.cells.len());
    for (kept, cell) in kept.cells.iter().zip(&record.cells) {
        assert_eq!(kept.steps.len(), cell.steps.len());
        for (kept, step) in kept.steps.iter().zip(&cell.steps) {
            assert_eq!(
                (kept.sent, kept.status.level),
                (step.sent, step.status.level)
            );
            let near = |a: f64, b: f64| (a - b).abs() <= b.abs() * 1e-4;
            assert!(near(kept.goodput_rps, step.goodput_rps));
            let p99 = |step: &Step| step.response.all.as_ref().map(|all| all.p99_us);
            match (p99(kept), p99(step)) {
                (Some(a), Some(b)) => assert!(near(a, b), "{a} {b}"),
                (a, b) => assert_eq!(a, b),
            }
            let answers = |step: &Step| step.response.merged().map(|all| all.len());
            assert_eq!(answers(kept), answers(step), "the histogram is kept");
        }
    }
}

#[test]
fn a_page_without_data_or_with_broken_data_is_refused() {
    for html in [
        "",
        "<p>hello</p>",
        "<script type=\"application/json\" id=\"tollgate-record\" data-encoding=\"json\">{</script>",
        "<script type=\"application/json\" id=\"tollgate-record\" data-encoding=\"zlib-base64\">%%</script>",
        "<script type=\"application/json\" id=\"tollgate-record\" data-encoding=\"zlib-base64-columns\">%%</script>",
        "<script type=\"application/json\" id=\"tollgate-record\" data-encoding=\"zlib-base64-columns\">eJyLjgUAARUAuQ==</script>",
        "<script type=\"application/json\" id=\"tollgate-record\" data-encoding=\"x\">{}</script>",
        "<script type=\"application/json\" id=\"tollgate-record\"",
    ] {
        assert!(record_in(html).is_err(), "{html}");
    }
}

#[test]
fn a_template_of_ones_own_replaces_the_page() {
    let options = HtmlOptions {
        template: Some("<h1>{{ page.verdict[0] }}</h1>{{ t(\"CARD_METHOD\") }}".into()),
        lang: Lang::Vi,
        ..HtmlOptions::default()
    };
    let mut record = fixture::run();
    record.cells[0].target = "<b>".into();
    let html = super::run_html(&record, &options).unwrap();
    assert!(html.starts_with("<h1>") && html.ends_with("Phương pháp"));
    for broken in ["{{ nothing(", "{{ t(\"NO_SUCH_TEXT\") }}"] {
        let options = HtmlOptions {
            template: Some(broken.into()),
            ..HtmlOptions::default()
        };
        assert!(super::run_html(&record, &options).is_err(), "{broken}");
    }
}

#[test]
fn an_empty_run_says_so() {
    let record = run_of(Vec::new());
    let html = render_all(&record);
    assert!(html.contains("Nothing was measured, so nothing can be said."));
    render_all(&run_of(vec![Cell::default()]));
}

#[test]
fn one_step_is_enough_for_a_report() {
    let model = fixture::Model {
        capacity_rps: 9_000.0,
        service_us: 50.0,
        cpu_us: 8.0,
    };
    let html = render_all(&one_step(fixture::step(model, 5_000.0, 0.0)));
    assert!(html.contains("5,000"));
}

#[test]
fn a_run_without_a_single_answer_has_no_broken_number() {
    let step = Step {
        target_rps: 1_000.0,
        duration_s: 1.0,
        planned: 1_000,
        failures: Failures {
            refused: 1_000,
            ..Failures::default()
        },
        ..Step::default()
    };
    let html = render_all(&one_step(step));
    assert!(html.contains("no cell held its load, not even 1,000/s"));
    assert!(html.contains("refused 1,000"));
}

#[test]
fn numbers_beyond_sense_do_not_break_a_report() {
    let huge = ProcessUse {
        cpu_percent: f64::MAX,
        cpu_us_per_op: Some(f64::INFINITY),
        rss_bytes: Some(u64::MAX),
        ..ProcessUse::default()
    };
    let step = Step {
        target_rps: 1e300,
        duration_s: f64::MIN_POSITIVE,
        planned: u64::MAX,
        allowed: u64::MAX,
        denied: u64::MAX,
        goodput_rps: f64::MAX,
        sent_rps: f64::NAN,
        failures: Failures {
            timeout: u64::MAX,
            unsent: u64::MAX,
            ..Failures::default()
        },
        server: Some(huge),
        generator: Some(huge),
        ..Step::default()
    };
    render_all(&one_step(step.clone()));
    render_all(&one_step(Step {
        target_rps: f64::NAN,
        ..step
    }));
}

#[test]
fn names_are_text_and_nothing_else() {
    let mut record = fixture::run();
    for cell in &mut record.cells {
        cell.target = "<script>alert(1)</script>\"'|,\u{1b}[31m".into();
        cell.scenario.title = "</script><!--".into();
        cell.notes = vec!["<img onerror=x> & more".into()];
    }
    record.events[0].text = "</style><b>".into();
    let html = run_html(&record).unwrap();
    markup::check(&html);
    assert!(!html.contains("<script>alert"));
    assert!(!html.contains("<img"));
    assert!(!html.contains("</script><!--"));
    assert!(!run_markdown(&record, Lang::En).contains("<script>"));
    assert!(!run_summary(UNICODE, &record).contains('\u{1b}'));
}

#[test]
fn sentences_and_rows_fit_a_narrow_terminal() {
    let record = fixture::run();
    let narrow = TextStyle {
        columns: 80,
        ..UNICODE
    };
    let text = run_summary(narrow, &record);
    let (_, verdict) = text.split_once("Verdict\n").unwrap();
    let (verdict, _) = verdict.split_once("\n\n").unwrap();
    let step = &record.cells[0].steps[0];
    let rows = [ladder_head(narrow), ladder_row(narrow, step)];
    for line in verdict
        .lines()
        .chain(rows.iter().flat_map(|row| row.lines()))
    {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(
        verdict.lines().any(|line| line.chars().count() > 60),
        "{verdict}"
    );
    let wide = ladder_row(UNICODE, step);
    assert!(wide.chars().count() > 120, "{wide}");
}

#[test]
fn names_do_not_break_tables() {
    let mut record = fixture::run();
    for cell in &mut record.cells {
        cell.target = r"a\|b".into();
    }
    let text = run_markdown(&record, Lang::En);
    // Behind a backslash that is taken for an escape, the pipe would end the cell.
    assert!(text.contains(r"a\\\|b"), "{text}");
    let table = |line: &&str| line.starts_with('|');
    let broken = |line: &&str| line.contains(r"a\|b") || line.contains(r"a\\|b");
    assert_eq!(text.lines().filter(table).find(broken), None);
}

#[test]
fn a_partial_run_is_marked_everywhere() {
    let mut record = fixture::run();
    record.complete = false;
    record.partial_reason = Some("redis died at 61 s".into());
    record.cells[0].complete = false;
    record.cells[0].steps.truncate(2);
    record.settle();
    let html = render_all(&record);
    assert!(html.contains("redis died at 61 s") && html.contains(">partial<"));
    assert!(run_markdown(&record, Lang::En).contains("The run is partial: redis died at 61 s."));
    assert!(run_summary(UNICODE, &record).contains("redis died at 61 s"));
}

#[test]
fn an_over_admitting_cell_is_called_out() {
    let mut record = fixture::run();
    record.cells[1]
        .accuracy
        .as_mut()
        .unwrap()
        .over_admission_percent = 1.5;
    let text = unwrapped(&run_summary(UNICODE, &record));
    assert!(
        text.contains("Admitted more than the limit allows: tollgate"),
        "{text}"
    );
    assert!(!text.contains("No cell admitted more"));
}

#[test]
fn live_rows_line_up_with_their_heading() {
    let model = fixture::Model {
        capacity_rps: 60_000.0,
        service_us: 50.0,
        cpu_us: 8.0,
    };
    let head = ladder_head(UNICODE);
    let bars = |line: &str| -> Vec<usize> {
        line.chars()
            .enumerate()
            .filter(|(_, c)| *c == '│')
            .map(|(at, _)| at)
            .collect()
    };
    let expected = bars(head.lines().next().unwrap());
    for rps in [1_000.0, 50_000.0, 90_000.0] {
        let mut record = one_step(fixture::step(model, rps, 0.0));
        record.settle();
        assert_eq!(
            bars(&ladder_row(UNICODE, &record.cells[0].steps[0])),
            expected
        );
    }
}

#[test]
fn a_comparison_prints_ratios_with_their_spread() {
    let record = fixture::comparison();
    let text = unwrapped(&compare_summary(UNICODE, &record));
    assert!(
        text.contains("≥6 met") && text.contains("≥1.2 missed"),
        "{text}"
    );
    assert!(
        text.contains("GET: the spread of server CPU per request shows no difference"),
        "{text}"
    );
    assert!(text.contains("SET: tollgate takes "), "{text}");
    let markdown = compare_markdown(&record, Lang::En);
    assert!(
        markdown.contains("| decision, depth 16 | 6.50 [6.50–6.50] (6.50–6.50) |"),
        "{markdown}"
    );
    assert_eq!(compare_csv(&record).lines().count(), 4);
    assert!(compare_summary(TextStyle::default(), &record).is_ascii());
    let empty = crate::record::CompareRecord::default();
    assert!(compare_summary(UNICODE, &empty).contains("nothing can be said"));
    assert!(!compare_markdown(&empty, Lang::En).contains("NaN"));
}

/// The budget past the capacity is about the decisions, so theirs is the percentile that is shown first.
#[test]
fn past_the_capacity_the_decisions_have_a_percentile_of_their_own() {
    let step = |load, p99_ms, decided_p99_ms| OverloadStep {
        load,
        goodput_rps: 100.0,
        latency_p99_ms: Some(p99_ms),
        decided_p99_ms: Some(decided_p99_ms),
        ..OverloadStep::default()
    };
    let side = OverloadSide {
        steps: vec![step(1.0, 8.0, 8.0), step(2.0, 21.5, 11.5)],
        ..OverloadSide::default()
    };
    let record = CompareRecord {
        overload: vec![OverloadRow {
            a: side.clone(),
            b: side,
            deadline_ms: 20.0,
            budget_a: Some(0.95),
            ..OverloadRow::default()
        }],
        ..fixture::comparison()
    };
    let text = unwrapped(&compare_summary(UNICODE, &record));
    assert!(text.contains("p99 11.5 ms of its decisions"), "{text}");
    assert!(!text.contains("21.5"), "{text}");
    let markdown = compare_markdown(&record, Lang::En);
    assert!(markdown.contains("| 11.5 | 21.5 |"), "{markdown}");
}

/// A fresh directory under the system's temporary one, removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("tollgate-report-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn a_run_directory_holds_every_file_and_latest_points_at_it() {
    let scratch = Scratch::new("files");
    let record = fixture::run();
    let first = RunDirectory::create(&scratch.0, record.manifest.started_unix_s).unwrap();
    first.write_run(&record).unwrap();
    let second = RunDirectory::create(&scratch.0, record.manifest.started_unix_s).unwrap();
    second
        .write_compare(&fixture::comparison(), Lang::En)
        .unwrap();
    assert_eq!(first.path().file_name().unwrap(), "20261121_031500");
    assert_eq!(second.path().file_name().unwrap(), "20261121_031500_2");
    for name in [
        "results.json",
        "manifest.json",
        "summary.csv",
        "README.md",
        "report.html",
    ] {
        assert!(first.path().join(name).is_file(), "{name}");
    }
    assert_eq!(
        fs::read_link(scratch.0.join("latest")).unwrap(),
        PathBuf::from("20261121_031500_2")
    );
    let index = fs::read_to_string(scratch.0.join("index.html")).unwrap();
    for link in ["20261121_031500/report.html", "20261121_031500_2/README.md"] {
        assert!(
            index.contains(&format!("href=\"{link}\"")),
            "{link}: {index}"
        );
    }
    assert!(same(
        &read_run(&first.path().join("results.json")).unwrap(),
        &record
    ));
    let left: Vec<_> = fs::read_dir(first.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(
        left.iter()
            .all(|name| !name.to_string_lossy().ends_with(".partial")),
        "{left:?}"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_the_others_are_kept() {
    let scratch = Scratch::new("broken");
    let directory = RunDirectory::create(&scratch.0, 0).unwrap();
    // A directory in the way of the file stands for whatever the disk may refuse.
    fs::create_dir(directory.path().join("summary.csv.partial")).unwrap();
    let error = directory.write_run(&fixture::run()).unwrap_err();
    let failed: Vec<_> = error
        .paths()
        .map(|p| p.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(failed, ["summary.csv"]);
    assert!(error.to_string().contains("summary.csv: "), "{error}");
    assert!(directory.path().join("report.html").is_file());
    assert!(!directory.path().join("summary.csv").exists());
}

#[test]
fn an_index_of_somebody_else_is_left_alone() {
    let scratch = Scratch::new("index");
    fs::write(scratch.0.join("index.html"), "mine").unwrap();
    let directory = RunDirectory::create(&scratch.0, 0).unwrap();
    let error = directory.write_run(&fixture::run()).unwrap_err();
    assert!(error.to_string().contains("not a list of runs"), "{error}");
    assert_eq!(
        fs::read_to_string(scratch.0.join("index.html")).unwrap(),
        "mine"
    );
}

#[test]
fn latest_never_replaces_something_else() {
    let scratch = Scratch::new("latest");
    fs::write(scratch.0.join("latest"), "mine").unwrap();
    let directory = RunDirectory::create(&scratch.0, 0).unwrap();
    let error = directory.write_run(&fixture::run()).unwrap_err();
    assert!(
        error.to_string().contains("is not a symbolic link"),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(scratch.0.join("latest")).unwrap(),
        "mine"
    );
    assert!(directory.path().join("report.html").is_file());
}
