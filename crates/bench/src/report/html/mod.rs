//! `report.html`: one file that needs neither network nor scripts.

mod view;

use minijinja::Environment;

use crate::record::RunRecord;

/// Above this size the embedded data goes without histograms; `results.json` has them.
const EMBEDDED_MAX_BYTES: usize = 1 << 20;

const TEMPLATE: &str = include_str!("report.html.jinja");
const STYLE: &str = include_str!("style.css");

/// Why a report could not be rendered.
#[derive(Debug)]
pub struct RenderError(String);

impl std::fmt::Display for RenderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "report: {}", self.0)
    }
}

impl std::error::Error for RenderError {}

impl From<minijinja::Error> for RenderError {
    fn from(error: minijinja::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl From<serde_json::Error> for RenderError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// The report of a run as one HTML file.
pub fn report(record: &RunRecord) -> Result<String, RenderError> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    // The name decides that values are escaped for HTML.
    environment.add_template("report.html", TEMPLATE)?;
    let (data, data_note) = embedded(record)?;
    let page = minijinja::context! {
        style => STYLE,
        page => view::Page::of(record),
        data => data,
        data_note => data_note,
    };
    Ok(environment.get_template("report.html")?.render(page)?)
}

/// The record as JSON that may stand inside a `script` element, and a remark if it is abridged.
fn embedded(record: &RunRecord) -> Result<(String, &'static str), RenderError> {
    let whole = serde_json::to_string(record)?;
    if whole.len() <= EMBEDDED_MAX_BYTES {
        return Ok((inert(&whole), ""));
    }
    let mut lean = record.clone();
    for step in lean.cells.iter_mut().flat_map(|cell| cell.steps.iter_mut()) {
        let splits = [&mut step.response, &mut step.service];
        let parts = splits
            .into_iter()
            .flat_map(|s| [&mut s.all, &mut s.allow, &mut s.deny]);
        for summary in parts.chain([&mut step.late, &mut step.send_lag]).flatten() {
            summary.histogram_ns_base64 = None;
        }
    }
    Ok((
        inert(&serde_json::to_string(&lean)?),
        "Histograms are left out here; results.json has them.",
    ))
}

/// No `<` is left that could end the element or open a comment; JSON reads the escape as the same text.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}
