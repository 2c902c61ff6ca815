//! A study's rows beside ours, as columns: what every form of a report says of them.

use crate::record::Grade;
use crate::record::paper::{PaperRecord, PaperRow};

use super::csv::{line, number};
use super::format::{DASH, percent, rate, ratio, significant};
use super::lang::study::ST_IN_FLIGHT;
use super::lang::{Lang, Text, page as t, stored as p};
use super::words;

/// What a column says of a row.
type Said = fn(&PaperRow, Lang) -> Option<String>;

/// A column of the table beside a study.
pub(crate) struct PaperColumn {
    pub(crate) title: String,
    /// Whether it holds words, which stand to the left.
    pub(crate) words: bool,
    said: Said,
}

impl PaperColumn {
    fn figure(title: Text, lang: Lang, said: Said) -> PaperColumn {
        PaperColumn::titled(title.of(lang).to_owned(), said)
    }

    fn titled(title: String, said: Said) -> PaperColumn {
        PaperColumn {
            title,
            words: false,
            said,
        }
    }

    fn words(title: Text, lang: Lang, said: Said) -> PaperColumn {
        PaperColumn {
            words: true,
            ..PaperColumn::figure(title, lang, said)
        }
    }

    /// What stands in the row.
    pub(crate) fn of(&self, row: &PaperRow, lang: Lang) -> String {
        (self.said)(row, lang).unwrap_or_else(|| DASH.into())
    }
}

/// Columns under one heading.
pub(crate) struct PaperGroup {
    pub(crate) title: String,
    pub(crate) columns: Vec<PaperColumn>,
}

/// The columns in groups: throughput, P99, failures, the statuses, and what else the study prints. One about which no row
/// says anything is left out.
pub(crate) fn columns_told(rows: &[PaperRow], lang: Lang) -> Vec<PaperGroup> {
    let told = |column: &PaperColumn| rows.iter().any(|row| (column.said)(row, lang).is_some());
    let group = |(title, columns): (Text, Vec<PaperColumn>)| PaperGroup {
        title: title.of(lang).to_owned(),
        columns: columns.into_iter().filter(told).collect(),
    };
    let groups = all(lang).into_iter().map(group);
    groups.filter(|group| !group.columns.is_empty()).collect()
}

fn all(lang: Lang) -> [(Text, Vec<PaperColumn>); 5] {
    let figure = |title: Text, said: Said| PaperColumn::figure(title, lang, said);
    let named = |title: Text, said: Said| PaperColumn::words(title, lang, said);
    [
        (
            t::H_GOODPUT,
            vec![
                figure(t::H_PAPER, |row, _| row.paper.goodput_rps.map(rate)),
                figure(t::H_OURS, |row, _| row.ours.as_ref()?.goodput_rps.map(rate)),
                figure(t::H_RATIO, |row, _| row.rate_ratio.map(ratio)),
            ],
        ),
        (
            t::Y_P99_MS,
            vec![
                figure(t::H_PAPER, |row, _| row.paper.p99_ms.map(significant)),
                figure(t::H_OURS, |row, _| {
                    row.ours.as_ref()?.p99_ms.map(significant)
                }),
                figure(t::H_RATIO, |row, _| row.p99_ratio.map(ratio)),
            ],
        ),
        (
            p::P_FAIL,
            vec![
                figure(t::H_PAPER, |row, _| row.paper.fail_percent.map(percent)),
                figure(t::H_OURS, |row, _| {
                    row.ours.as_ref()?.fail_percent.map(percent)
                }),
            ],
        ),
        (
            t::H_STATUS,
            vec![
                named(t::H_PAPER, |row, _| row.seed_status.clone()),
                named(p::P_COMPUTED, |row, lang| {
                    Some(words::judgement(row.computed.as_ref()?, lang))
                }),
                named(t::H_OURS, our_status),
            ],
        ),
        (
            t::H_PAPER_ALSO,
            vec![
                PaperColumn::titled(format!("{} /s", p::P_ACTUAL.of(lang)), |row, _| {
                    row.paper.actual_rps.map(rate)
                }),
                figure(p::P_AVG, |row, _| row.paper.mean_ms.map(significant)),
                figure(ST_IN_FLIGHT, |row, _| row.paper.in_flight().map(rate)),
                PaperColumn::titled("P95 ms".into(), |row, _| row.paper.p95_ms.map(significant)),
                PaperColumn::titled("P99.9 ms".into(), |row, _| {
                    row.paper.p99_9_ms.map(significant)
                }),
            ],
        ),
    ]
}

/// Our level, with the grade where it is not valid.
fn our_status(row: &PaperRow, lang: Lang) -> Option<String> {
    let level = words::level(row.our_status.as_ref()?.level, lang);
    Some(match row.our_grade.filter(|grade| *grade != Grade::Valid) {
        Some(grade) => format!("{level} ({})", words::grade(grade, lang)),
        None => level.to_owned(),
    })
}

/// Columns of [`csv`], in order.
const COLUMNS: [&str; 15] = [
    "study",
    "table",
    "paper",
    "ours",
    "row",
    "paper_goodput_per_s",
    "our_goodput_per_s",
    "goodput_ratio",
    "paper_p99_ms",
    "our_p99_ms",
    "p99_ratio",
    "seed_status",
    "computed_status",
    "our_status",
    "our_validity",
];

/// `paper.csv`: one line per row of the study and system of ours; what a side does not state is empty.
pub(crate) fn csv(record: &PaperRecord) -> String {
    let mut out = line(COLUMNS.iter().map(|column| (*column).to_owned()));
    for table in &record.tables {
        for row in &table.rows {
            let ours = row.ours.unwrap_or_default();
            let level = row.our_status.as_ref().map(|status| status.level.word());
            let fields = [
                record.study.clone(),
                table.id.clone(),
                table.paper.clone(),
                table.ours.clone().unwrap_or_default(),
                row.title.clone(),
                number(row.paper.goodput_rps),
                number(ours.goodput_rps),
                number(row.rate_ratio),
                number(row.paper.p99_ms),
                number(ours.p99_ms),
                number(row.p99_ratio),
                row.seed_status.clone().unwrap_or_default(),
                row.computed
                    .as_ref()
                    .map(|judged| judged.words())
                    .unwrap_or_default(),
                level.unwrap_or_default().to_owned(),
                row.our_grade
                    .map(|grade| grade.word())
                    .unwrap_or_default()
                    .to_owned(),
            ];
            out.push_str(&line(fields.into_iter()));
        }
    }
    out
}
