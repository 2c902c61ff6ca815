//! Comparisons of stored runs, trends, gates and noise as tables: one [`Sheet`] each, in the terminal or in Markdown.

use crate::record::{
    Arm, ComparisonRecord, ComparisonRow, Difference, Estimate, GateOutcome, GateRecord, Metric,
    NoiseRecord, TrendChange, TrendColour, TrendRow, TrendsRecord, Verdict,
};
use crate::statistics::size_of;
use crate::stored::{CLAIM_PERCENT, RUNS_FOR_A_CLAIM, told_p, trend_verdict};

use super::TextStyle;
use super::chart::{self, Chart};
use super::document::drawn;
use super::format::{DASH, or_dash};
use super::lang::recorded::{in_language, recorded};
use super::lang::{Lang, stored as t};
use super::table::{Column, TextCell, Tint, plain, table, tinted};
use super::words;

/// Most drawings of one page.
const FIGURES_MAX: usize = 24;

/// A table with what is said above and below it.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// Heading.
    pub title: String,
    /// Language of its headings and words.
    pub lang: Lang,
    /// What the reader must know before the table.
    pub before: Vec<String>,
    columns: Vec<Column>,
    rows: Vec<Vec<TextCell>>,
    /// What the table says, in sentences.
    pub after: Vec<String>,
    /// Drawings of its page, each with its title.
    figures: Vec<(String, Chart)>,
}

impl Sheet {
    /// Headings of the columns.
    pub(crate) fn heads(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|column| column.title.of(self.lang))
    }

    /// Texts of the cells, row by row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<&str>> {
        self.rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.text.as_str()).collect())
    }

    /// As terminal text, without a line break at its end.
    #[must_use]
    pub(crate) fn text(&self, style: TextStyle) -> String {
        let style = TextStyle {
            lang: self.lang,
            ..style
        };
        let mut out = tinted(style, Tint::Strong, &plain(style, &self.title));
        out.push('\n');
        for line in &self.before {
            out.push_str(&format!("{}\n", plain(style, line)));
        }
        if !self.rows.is_empty() {
            out.push_str(&table(style, &self.columns, &self.rows));
        }
        for line in &self.after {
            out.push_str(&format!("{}\n", plain(style, line)));
        }
        out.trim_end().to_owned()
    }

    /// As a page of its own.
    #[must_use]
    pub fn page(&self) -> String {
        drawn(&self.markdown(), &self.figures, self.lang)
    }

    /// As Markdown. What the table says stands above it, where a reader begins; in a terminal it stands at the end, where one
    /// is left.
    #[must_use]
    pub fn markdown(&self) -> String {
        let escape = super::markdown::text;
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = format!("# {}\n\n", escape(&self.title));
        for text in self.after.iter().chain(&self.before) {
            out.push_str(&format!("- {}\n", escape(text)));
        }
        if !self.rows.is_empty() {
            out.push('\n');
            out.push_str(&line(self.heads().map(escape).collect()));
            let rules = self
                .columns
                .iter()
                .map(|column| if column.left { "---" } else { "--:" });
            out.push_str(&line(rules.map(str::to_owned).collect()));
            for row in self.rows() {
                out.push_str(&line(row.into_iter().map(escape).collect()));
            }
        }
        out
    }
}

/// `step length: 1.00 s against 60.00 s`: one line per difference.
#[must_use]
pub(crate) fn unequal(differences: &[Difference], lang: Lang) -> Vec<String> {
    let line = |found: &Difference| {
        let what = recorded(&found.what, lang);
        t::S_DIFFERS.with(lang, &[("what", &what), ("a", &found.a), ("b", &found.b)])
    };
    differences.iter().map(line).collect()
}

/// Which runs the arms are, and the smallest difference that may be claimed.
pub(super) fn arms(record: &ComparisonRecord, lang: Lang) -> Vec<String> {
    let line = |name: &str, arm: &Arm| {
        let runs = from(&arm.sources, &arm.started_at, lang);
        // An arm that has no name of its own is called by its letter.
        match arm.label == name {
            true => t::S_ARM_RUNS.with(lang, &[("arm", name), ("runs", &runs)]),
            false => t::S_ARM.with(
                lang,
                &[("arm", name), ("label", &arm.label), ("runs", &runs)],
            ),
        }
    };
    vec![
        line("A", &record.a),
        line("B", &record.b),
        t::S_FLOOR.with(lang, &[("source", &record.floor.source)]),
    ]
}

/// A comparison of stored runs.
#[must_use]
pub(crate) fn comparison(record: &ComparisonRecord, lang: Lang) -> Sheet {
    let record = &*in_language(record, lang);
    let mut before = arms(record, lang);
    let marks = unequal(&record.unequal, lang);
    before.extend(
        marks
            .iter()
            .map(|text| t::S_UNEQUAL.with(lang, &[("what", text)])),
    );
    let across = record.rows.iter().any(|row| row.target_a != row.target_b);
    let mut after: Vec<String> = record
        .rows
        .iter()
        .filter(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse))
        .map(|row| spoken(row, across, lang))
        .collect();
    if after.is_empty() {
        after.push(t::S_NO_CLAIM.of(lang).to_owned());
    }
    if !marks.is_empty() {
        after.push(t::S_ARMS_UNEQUAL.of(lang).to_owned());
    }
    after.extend(record.notes.iter().cloned());
    Sheet {
        lang,
        title: t::S_AGAINST.with(lang, &[("b", &record.b.label), ("a", &record.a.label)]),
        before,
        columns: vec![
            Column::named(t::S_ROW, 10),
            Column::figure(t::S_LOAD, 6),
            Column::named(t::S_FIGURE, 7),
            Column::number("A", 6),
            Column::number("B", 6),
            Column::number("B/A", 5),
            Column::named(t::S_INTERVAL, 12),
            Column::words("n", 3),
            Column::number("U", 3),
            Column::number("p", 5),
            Column::number("A12", 4),
            Column::named(t::S_EFFECT, 6),
            Column::named(t::S_VERDICT, 7),
        ],
        rows: record
            .rows
            .iter()
            .map(|row| comparison_row(row, across, lang))
            .collect(),
        after,
        figures: Vec::new(),
    }
}

fn spoken(row: &ComparisonRow, across: bool, lang: Lang) -> String {
    let sentence = words::difference(row, lang);
    if across {
        sentence
    } else {
        format!("{} · {}: {sentence}", row.target_b, row.operation_b)
    }
}

fn from(sources: &[String], started_at: &[String], lang: Lang) -> String {
    let runs = match sources {
        [one] => one.clone(),
        [first, rest @ ..] => {
            let more = rest.len().to_string();
            t::S_MORE_RUNS.with(lang, &[("first", first), ("n", &more)])
        }
        [] => String::new(),
    };
    match started_at {
        [at] => format!("{runs}, {at}"),
        [first, .., last] => {
            t::S_FROM_TO.with(lang, &[("runs", &runs), ("first", first), ("last", last)])
        }
        [] => runs,
    }
}

fn comparison_row(row: &ComparisonRow, across: bool, lang: Lang) -> Vec<TextCell> {
    let name = if across {
        format!("{} · {}", row.scenario, row.operation_b)
    } else {
        format!("{} · {} · {}", row.target_b, row.scenario, row.operation_b)
    };
    // Of too few starts the sizes come out as extremes and mean nothing.
    let test = row.test.as_ref().filter(|_| row.verdict != Verdict::TooFew);
    let tint = match row.verdict {
        Verdict::Better => Tint::Good,
        Verdict::Worse => Tint::Bad,
        Verdict::Unclear | Verdict::TooFew => Tint::Faint,
        Verdict::Same => Tint::Plain,
    };
    vec![
        name.into(),
        words::load(row.target_rps, row.goal.as_deref()).into(),
        row.metric.name().into(),
        value(row.metric, &row.a).into(),
        value(row.metric, &row.b).into(),
        or_dash(row.ratio_b_over_a, |ratio| format!("{ratio:.3}")).into(),
        or_dash(row.ratio_ci, |(low, high)| format!("[{low:.3}, {high:.3}]")).into(),
        format!("{}/{}", row.a.n, row.b.n).into(),
        or_dash(test, |test| format!("{:.1}", test.u)).into(),
        or_dash(test, |test| probability(test.p)).into(),
        or_dash(test, |test| format!("{:.2}", test.a12)).into(),
        or_dash(test, |test| {
            words::effect(size_of(test.cliffs_delta), lang).to_owned()
        })
        .into(),
        TextCell {
            text: words::verdict(row.verdict, lang).to_owned(),
            tint,
        },
    ]
}

fn value(metric: Metric, estimate: &Estimate) -> String {
    words::figure(metric, estimate.median)
}

fn probability(p: f64) -> String {
    if p < 0.001 {
        "<0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// Trends over stored runs.
#[must_use]
pub fn trends(record: &TrendsRecord, lang: Lang) -> Sheet {
    let record = &*in_language(record, lang);
    let runs = record.started_at.len().to_string();
    let (figures, left) = drawings(&record.rows, lang);
    let mut after = moved(record, lang);
    if left > 0 {
        after.push(t::S_FIGURES_LEFT.with(lang, &[("n", &left.to_string())]));
    }
    Sheet {
        lang,
        title: t::S_TRENDS.with(lang, &[("n", &runs)]),
        before: match record.started_at.as_slice() {
            [first, .., last] => {
                vec![t::S_SPAN.with(lang, &[("first", first), ("last", last)])]
            }
            _ => Vec::new(),
        },
        columns: vec![
            Column::named(t::S_ROW, 10),
            Column::figure(t::S_LOAD, 6),
            Column::named(t::S_FIGURE, 7),
            Column::figure(t::S_RUNS, 4),
            Column::figure(t::S_FIRST, 6),
            Column::figure(t::S_LAST, 6),
            Column::figure(t::S_CHANGE, 7),
            Column::figure(t::S_PER_RUN, 6),
            Column::named(t::S_INTERVAL, 12),
            Column::number("p", 5),
            Column::number("CV %", 5),
            Column::named(t::S_NOISE, 8),
        ],
        rows: record.rows.iter().map(|row| trend_row(row, lang)).collect(),
        after,
        figures,
    }
}

/// Drawings of the rows that moved, and of the others as far as there is room; and how many are left.
fn drawings(rows: &[TrendRow], lang: Lang) -> (Vec<(String, Chart)>, usize) {
    let moved = |row: &&TrendRow| claimed(row) || !row.changes.is_empty();
    let (first, then): (Vec<&TrendRow>, Vec<&TrendRow>) = rows.iter().partition(moved);
    let rows: Vec<&TrendRow> = first.into_iter().chain(then).collect();
    let left = rows.len().saturating_sub(FIGURES_MAX);
    let drawing = |row: &&TrendRow| Some((words::trend_title(row, lang), chart::level(row, lang)?));
    let figures = rows.iter().take(FIGURES_MAX).filter_map(drawing);
    (figures.collect(), left)
}

/// Whether the runs show that a row goes up or down.
fn claimed(row: &TrendRow) -> bool {
    matches!(trend_verdict(row), Verdict::Better | Verdict::Worse)
}

/// What the table cannot say: the rows whose course may be claimed, or that there are none, and the notes.
fn moved(record: &TrendsRecord, lang: Lang) -> Vec<String> {
    let rows = record.rows.iter().filter(|row| claimed(row));
    let mut out: Vec<String> = rows.map(|row| words::course(row, lang)).collect();
    if out.is_empty() {
        let needed = RUNS_FOR_A_CLAIM.to_string();
        out.push(t::S_NONE_MOVED.with(lang, &[("needed", &needed)]));
    }
    for row in &record.rows {
        out.extend(row.changes.iter().map(|change| stepped(row, change, lang)));
    }
    out.extend(record.notes.iter().cloned());
    out
}

/// A change of level in a sentence.
fn stepped(row: &TrendRow, change: &TrendChange, lang: Lang) -> String {
    t::S_STEPPED.with(
        lang,
        &[
            ("target", &row.target),
            ("operation", &row.operation),
            ("scenario", &row.scenario),
            (
                "place",
                &words::place(row.target_rps, row.goal.as_deref(), lang),
            ),
            ("figure", row.metric.name()),
            ("date", &change.started_at),
            ("before", &words::figure(row.metric, change.before)),
            ("after", &words::figure(row.metric, change.after)),
            (
                "percent",
                &or_dash(change.percent(), |percent| format!("{percent:+.1} %")),
            ),
            ("p", &told_p(change.p)),
        ],
    )
}

fn trend_row(row: &TrendRow, lang: Lang) -> Vec<TextCell> {
    let tint = match row.colour {
        TrendColour::Better => Tint::Good,
        TrendColour::Worse => Tint::Bad,
        TrendColour::Neutral => Tint::Plain,
    };
    let end =
        |point: Option<&(f64, f64)>| or_dash(point, |(_, value)| words::figure(row.metric, *value));
    vec![
        format!("{} · {} · {}", row.target, row.scenario, row.operation).into(),
        words::load(row.target_rps, row.goal.as_deref()).into(),
        row.metric.name().into(),
        row.points.len().to_string().into(),
        end(row.points.first()).into(),
        end(row.points.last()).into(),
        TextCell {
            text: or_dash(row.change_percent, |change| format!("{change:+.1} %")),
            tint,
        },
        or_dash(row.slope_percent_per_run, |slope| format!("{slope:+.2}")).into(),
        or_dash(row.slope_ci, |(low, high)| {
            format!("[{low:+.2}, {high:+.2}]")
        })
        .into(),
        or_dash(row.p, probability).into(),
        or_dash(row.cv_percent, |cv| format!("{cv:.1}")).into(),
        words::noise(row.noise, lang).into(),
    ]
}

/// A gate's decision.
#[must_use]
pub(crate) fn gate(record: &GateRecord, lang: Lang) -> Sheet {
    let record = &*in_language(record, lang);
    let mut sheet = comparison(&record.comparison, lang);
    let word = match record.outcome {
        GateOutcome::Passed => t::S_PASSED,
        GateOutcome::Failed => t::S_FAILED,
        GateOutcome::Invalid => t::S_INVALID,
    };
    let percent = record.max_regression_percent.to_string();
    sheet.title = t::S_GATE.with(lang, &[("word", word.of(lang)), ("percent", &percent)]);
    sheet.before.insert(0, t::S_GATE_ARMS.of(lang).to_owned());
    sheet.after = record.reasons.clone();
    sheet.after.extend(record.comparison.notes.iter().cloned());
    sheet
}

/// Noise of a machine.
#[must_use]
pub fn noise(record: &NoiseRecord, lang: Lang) -> Sheet {
    let rows = record.metrics.iter().map(|found| {
        vec![
            found.metric.name().into(),
            found.rows.to_string().into(),
            or_dash(found.cv_percent, |cv| format!("{cv:.1}")).into(),
            format!("{:.1} %", found.observed_percent).into(),
            format!("{:.1} %", found.smallest_claimable_percent).into(),
        ]
    });
    let cpu = if record.machine.cpu_model.is_empty() {
        DASH
    } else {
        &record.machine.cpu_model
    };
    Sheet {
        lang,
        title: t::S_NOISE_TITLE.with(lang, &[("target", &record.target)]),
        before: vec![
            t::S_MACHINE.with(
                lang,
                &[
                    ("cpu", cpu),
                    ("cores", &record.machine.cores.to_string()),
                    ("at", &record.measured_at),
                ],
            ),
            t::S_STARTS.with(
                lang,
                &[
                    ("n", &record.starts_per_side.to_string()),
                    ("seconds", &format!("{:.1}", record.step_s)),
                ],
            ),
        ],
        columns: vec![
            Column::named(t::S_FIGURE, 7),
            Column::figure(t::S_ROWS, 4),
            Column::number("CV %", 5),
            Column::figure(t::S_AS_IT_RAN, 7),
            Column::figure(t::S_CLAIMABLE, 7),
        ],
        rows: rows.collect(),
        after: vec![t::S_NOISE_MEANS.with(lang, &[("percent", &CLAIM_PERCENT.to_string())])],
        figures: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_of_a_quiet_figure_is_not_said_to_be_all_that_a_claim_needs() {
        let told = noise(&NoiseRecord::default(), Lang::En).after.concat();
        assert!(told.contains("none below 5 % either"), "{told}");
    }
}
