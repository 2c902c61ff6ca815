//! Records as text: terminal tables, Markdown, CSV, JSON and one HTML file. Pure functions of a
//! record; only [`files`] touches the disk.

mod advice;
mod anomalies;
mod attribution;
pub(crate) mod bencher;
mod beside;
mod capacity;
mod chart;
mod circumstances;
mod csv;
mod decision;
mod document;
mod failures;
pub mod files;
mod findings;
mod folders;
pub(crate) mod format;
mod hgrm;
pub(crate) mod hlog;
mod html;
pub(crate) mod index;
pub(crate) mod lang;
mod markdown;
pub(crate) mod migrate;
mod mitigations;
mod observations;
mod ratelimit_bench;
mod rows;
pub mod stored;
pub(crate) mod study;
pub(crate) mod table;
mod terminal;
mod usl;
mod verdict;
pub(crate) mod words;

#[cfg(test)]
mod tests;

use crate::record::{ComparisonRecord, TrendsRecord};

use lang::recorded::in_language;

pub(crate) use advice::prometheus::in_label;
pub(crate) use advice::thresholds::Watch;
pub(crate) use attribution::limit_line;
pub(crate) use beside::csv as paper_csv;
pub(crate) use capacity::{capacity_lines, healing_line, recovery_lines};
pub(crate) use csv::{compare as compare_csv, rows as rows_csv, summary as summary_csv};
pub(crate) use csv::{write_samples, write_samples_head};
pub(crate) use document::document;
#[cfg(test)]
pub(crate) use html::RenderError;
pub(crate) use html::{HtmlOptions, record_in, report as run_html};
pub use lang::Lang;
pub use markdown::compare as compare_markdown;
pub(crate) use markdown::run as run_markdown;
pub(crate) use mitigations::csv as mitigations_csv;
pub(crate) use table::TextStyle;
pub(crate) use table::{TextCell, Tint};
pub(crate) use terminal::{compare_summary, ladder_head, ladder_row, run_summary};
pub(crate) use terminal::{ladder_cells, ladder_line};

/// What a report may show beside its run.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// The run against another.
    pub comparison: Option<ComparisonRecord>,
    /// How figures moved over runs.
    pub trends: Option<TrendsRecord>,
}

impl Beside {
    /// The same with its sentences in `lang`.
    fn in_language(&self, lang: Lang) -> Beside {
        let comparison = self.comparison.as_ref();
        let trends = self.trends.as_ref();
        Beside {
            comparison: comparison.map(|found| in_language(found, lang).into_owned()),
            trends: trends.map(|found| in_language(found, lang).into_owned()),
        }
    }
}
