//! `report.html`: one file that needs neither network nor scripts.

mod cards;
mod columns;
mod embedded;
mod model;

use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value};

use crate::record::RunRecord;

use super::chart::escape;
use super::lang::recorded::in_language;
use super::lang::{Lang, named};

pub(crate) use embedded::record_in;

pub(super) use cards::{GLOSSARY, thresholds};

/// Name under which the template is known; its ending decides that values are escaped for HTML.
const NAME: &str = "report.html";
const TEMPLATE: &str = include_str!("report.html.jinja");
/// The style sheet of every page.
pub(super) const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Why a report could not be rendered or read.
#[derive(Debug)]
pub(crate) struct RenderError(String);

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

/// How the page is made.
#[derive(Clone, Debug, Default)]
pub struct HtmlOptions {
    /// Language of the page.
    pub lang: Lang,
    /// A minijinja template in place of the built-in one. It gets `lang`, `style`, `script`, `page`, `data`, `encoding`
    /// and the function `t(NAME)` for texts.
    pub template: Option<String>,
    /// Comparison with other runs, and how figures moved over runs.
    pub beside: super::Beside,
}

/// Prints a value. Text is escaped as in drawings: minijinja's own way makes six characters of each slash, and a page is
/// full of them. Line breaks stay: what is copied from a page is files.
fn print(out: &mut Output<'_>, state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) if !value.is_safe() && matches!(state.auto_escape(), AutoEscape::Html) => {
            let lines: Vec<String> = text.split('\n').map(escape).collect();
            out.write_str(&lines.join("\n")).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// The report of a run as one HTML file.
pub(crate) fn report(record: &RunRecord, options: &HtmlOptions) -> Result<String, RenderError> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_formatter(print);
    let lang = options.lang;
    environment.add_function("t", move |name: &str| {
        named(name).map(|text| text.of(lang)).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("there is no text {name}"),
            )
        })
    });
    let template = options.template.as_deref().unwrap_or(TEMPLATE);
    environment.add_template(NAME, template)?;
    let (data, encoding) = embedded::data(record)?;
    let said = in_language(record, lang);
    let beside = options.beside.in_language(lang);
    let options = &HtmlOptions {
        beside,
        ..options.clone()
    };
    let page = minijinja::context! {
        lang => lang.code(),
        style => STYLE,
        script => SCRIPT,
        page => cards::page(&said, options),
        data => data,
        encoding => encoding,
    };
    Ok(environment.get_template(NAME)?.render(page)?)
}
