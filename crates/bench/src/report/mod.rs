//! Records as text: terminal tables, Markdown, CSV, JSON and one HTML file. Pure functions of a
//! record; only [`files`] touches the disk.

mod attribution;
mod capacity;
mod chart;
mod circumstances;
mod csv;
pub mod files;
mod findings;
pub(crate) mod format;
pub mod hlog;
mod html;
mod markdown;
mod observations;
mod rows;
pub mod stored;
pub(crate) mod table;
mod terminal;
mod verdict;

#[cfg(test)]
mod tests;

pub use attribution::limit_line;
pub use capacity::{capacity_lines, recovery_lines};
pub use csv::{compare as compare_csv, summary as summary_csv};
pub use html::{RenderError, report as run_html};
pub use markdown::{compare as compare_markdown, run as run_markdown};
pub use table::TextStyle;
pub use terminal::{compare_summary, ladder_head, ladder_row, run_summary};
