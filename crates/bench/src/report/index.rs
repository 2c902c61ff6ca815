//! `index.html` beside the folders of runs: what was measured when, what came of it, and what each folder holds.
//!
//! It is made from the `overview.json` of each folder, which is small, so that a run does not read all that ran before.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chart::escape;
use super::circumstances::command;
use super::files::COMPARE_RECORD;
use super::lang::{Lang, index as t};
use super::{verdict, words};
use crate::record::{Cell, CompareRecord, Grade, RunRecord};

/// File of a folder that the list is made from.
pub(super) const OVERVIEW: &str = "overview.json";
/// The list.
pub(super) const INDEX: &str = "index.html";
/// How a list made here is known again: a page of somebody else is left alone.
const MARK: &str = "<meta name=\"generator\" content=\"tollgate bench\">";
/// What a list of long texts looks like beside the tables of figures of the other pages.
const STYLE: &str = ".runs td { vertical-align: top; } \
     @media (max-width: 620px) { .runs thead { display: none; } .runs, .runs tbody, .runs tr { display: block; } \
     .runs .w { display: block; border: 0; min-width: 0; max-width: none; padding: 2px 0; } \
     .runs tr { border-bottom: 1px solid var(--rule); padding: 10px 0; } }";
/// Runs listed.
const RUNS_MAX: usize = 1_000;
/// Longest overview that is read.
const OVERVIEW_MAX_BYTES: u64 = 64 << 10;
/// Files of a folder that are listed.
const FILES_MAX: usize = 24;
/// Folders that are looked at.
const ENTRIES_MAX: usize = 100_000;
/// Sentences of a verdict that the list shows.
const SENTENCES_MAX: usize = 3;
/// Files that readers look for come first.
const FIRST: [&str; 9] = [
    "report.html",
    "compare.html",
    "README.md",
    "summary.csv",
    "rows.csv",
    "mitigations.csv",
    "paper.csv",
    "results.json",
    COMPARE_RECORD,
];

/// A run in a few words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overview {
    /// Start in UTC, RFC 3339.
    pub started_at: String,
    /// What was done: `ladder`, `capacity`, `recovery`, `mitigations`, `paper 000`, `compare`.
    pub what: String,
    /// The command line.
    pub command: String,
    /// Systems.
    pub targets: Vec<String>,
    /// Scenarios or loads.
    pub loads: Vec<String>,
    /// Grade of the run.
    pub grade: Grade,
    /// True if everything planned was measured.
    pub complete: bool,
    /// The first sentences of its verdict.
    pub verdict: Vec<String>,
}

impl Overview {
    /// Of a run.
    pub(super) fn of_run(record: &RunRecord, lang: Lang) -> Overview {
        let cells = || record.cells.iter();
        let what = match &record.paper {
            Some(paper) => format!("paper {}", paper.study),
            None if record.mitigations.is_some() => "mitigations".into(),
            None if cells().any(|cell| cell.recovery.is_some()) => "recovery".into(),
            None if cells().any(Cell::is_searched) => "capacity".into(),
            None => "ladder".into(),
        };
        let mut loads: Vec<String> = Vec::new();
        for cell in cells() {
            if !loads.contains(&cell.scenario.title) {
                loads.push(cell.scenario.title.clone());
            }
        }
        Overview {
            started_at: record.manifest.started_at.clone(),
            what,
            command: command(&record.manifest.command_line),
            targets: record.targets.iter().map(|one| one.name.clone()).collect(),
            loads,
            grade: record.validity.grade,
            complete: record.complete,
            verdict: first(verdict::run(record, lang)),
        }
    }

    /// Of a paired comparison.
    pub(super) fn of_compare(record: &CompareRecord, lang: Lang) -> Overview {
        Overview {
            started_at: record.manifest.started_at.clone(),
            what: "compare".into(),
            command: command(&record.manifest.command_line),
            targets: vec![record.a.name.clone(), record.b.name.clone()],
            loads: record.rows.iter().map(|row| row.title.clone()).collect(),
            grade: record.validity.grade,
            complete: record.complete,
            verdict: first(verdict::compare(record, lang)),
        }
    }
}

fn first(mut sentences: Vec<String>) -> Vec<String> {
    sentences.truncate(SENTENCES_MAX);
    sentences
}

/// A folder of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its name.
    pub(super) name: String,
    /// What is known of it.
    pub(super) overview: Option<Overview>,
    /// Its files.
    pub(super) files: Vec<String>,
}

/// What the folder `root` holds, the newest run first, and how many older ones are left out.
pub(super) fn entries(root: &Path) -> std::io::Result<(Vec<Entry>, usize)> {
    let mut names: Vec<String> = fs::read_dir(root)?
        .flatten()
        .take(ENTRIES_MAX)
        // `latest` is a link to one of them.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_run(&root.join(name)))
        .collect();
    // Names are times.
    names.sort_by(|a, b| b.cmp(a));
    let left_out = names.len().saturating_sub(RUNS_MAX);
    names.truncate(RUNS_MAX);
    let entry = |name: String| Entry {
        overview: read_overview(&root.join(&name).join(OVERVIEW)),
        files: files(&root.join(&name)),
        name,
    };
    Ok((names.into_iter().map(entry).collect(), left_out))
}

fn is_run(folder: &Path) -> bool {
    ["results.json", COMPARE_RECORD, OVERVIEW]
        .iter()
        .any(|name| folder.join(name).is_file())
}

fn read_overview(path: &Path) -> Option<Overview> {
    let length = fs::metadata(path).ok()?.len();
    let text = (length <= OVERVIEW_MAX_BYTES).then(|| fs::read_to_string(path).ok())??;
    serde_json::from_str(&text).ok()
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .take(ENTRIES_MAX)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name != OVERVIEW)
        .collect();
    let place = |name: &String| FIRST.iter().position(|first| first == name);
    names.sort_by_key(|name| (place(name).unwrap_or(FIRST.len()), name.clone()));
    names
}

/// Whether `index.html` in `root` may be written: there is none, or it is a list made here.
pub(super) fn may_write(root: &Path) -> bool {
    match fs::read_to_string(root.join(INDEX)) {
        Ok(text) => text.contains(MARK),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// The page. Needs neither network nor scripts.
pub(super) fn page(entries: &[Entry], left_out: usize, style: &str, lang: Lang) -> String {
    let head = |text: super::lang::Text| format!("<th class=\"w\">{}</th>", escape(text.of(lang)));
    let heads: String = [
        t::IX_STARTED,
        t::IX_WHAT,
        t::IX_MEASURED,
        t::IX_FOUND,
        t::IX_FILES,
    ]
    .map(head)
    .concat();
    let rows: String = entries.iter().map(|entry| row(entry, lang)).collect();
    let count = entries.len().to_string();
    let mut intro = t::IX_INTRO.with(lang, &[("n", &count)]);
    if left_out > 0 {
        intro.push(' ');
        intro.push_str(&t::IX_MORE.with(lang, &[("n", &left_out.to_string())]));
    }
    let title = escape(t::IX_TITLE.of(lang));
    format!(
        "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n{MARK}\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{style}{STYLE}</style>\n</head>\n<body>\n<header><h1>{title}</h1><p>{}</p></header>\n\
         <main><section><div class=\"scroll\"><table class=\"wrapped runs\"><thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\
         </section></main>\n</body>\n</html>\n",
        lang.code(),
        escape(&intro)
    )
}

fn row(entry: &Entry, lang: Lang) -> String {
    let link = |name: &str, text: &str| {
        format!(
            "<a href=\"{}/{}\">{}</a>",
            path(&entry.name),
            path(name),
            escape(text)
        )
    };
    let has = |name: &str| entry.files.iter().any(|file| file == name);
    let page = ["report.html", "README.md"]
        .into_iter()
        .find(|name| has(name));
    let shown = entry.overview.as_ref().map_or_else(
        || entry.name.clone(),
        |overview| overview.started_at.replace('T', " "),
    );
    let when = page.map_or_else(|| escape(&shown), |page| link(page, &shown));
    let mut files: Vec<String> = entry
        .files
        .iter()
        .take(FILES_MAX)
        .map(|name| link(name, name))
        .collect();
    if entry.files.len() > FILES_MAX {
        files.push(format!("+ {}", entry.files.len() - FILES_MAX));
    }
    let cells = match &entry.overview {
        Some(overview) => known(overview, lang),
        None => {
            let text = t::IX_UNKNOWN.with(lang, &[("folder", &entry.name)]);
            ["–".to_owned(), "–".to_owned(), escape(&text)]
        }
    };
    format!(
        "<tr><td class=\"w\">{when}</td>{}<td class=\"w\">{}</td></tr>\n",
        cells
            .map(|cell| format!("<td class=\"w\">{cell}</td>"))
            .concat(),
        files.join(", ")
    )
}

/// What was done, on what, and what came of it.
fn known(overview: &Overview, lang: Lang) -> [String; 3] {
    let grade = overview.grade;
    let mut tags = format!(
        "<span class=\"tag {}\">{}</span>",
        grade.word(),
        escape(words::grade(grade, lang))
    );
    if !overview.complete {
        let text = escape(words::whole(false, lang));
        tags.push_str(&format!(" <span class=\"tag invalid\">{text}</span>"));
    }
    let measured = [overview.targets.join(", "), overview.loads.join("; ")];
    let verdict: Vec<String> = overview.verdict.iter().map(|one| escape(one)).collect();
    [
        format!(
            "<span title=\"{}\">{}</span>",
            escape(&overview.command),
            escape(&overview.what)
        ),
        measured.map(|text| escape(&text)).join("<br>"),
        format!("{tags} {}", verdict.join(" ")),
    ]
}

/// A name as a part of a relative link.
fn path(name: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    name.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_is_a_row_and_names_cannot_break_out() {
        let overview = Overview {
            started_at: "2026-11-21T03:15:00Z".into(),
            what: "capacity".into(),
            targets: vec!["<b>".into()],
            verdict: vec!["a holds 5 & more".into()],
            ..Overview::default()
        };
        let entries = [
            Entry {
                name: "20261121_031500".into(),
                overview: Some(overview),
                files: vec!["report.html".into(), "odd\"><x name".into()],
            },
            Entry {
                name: "older".into(),
                ..Entry::default()
            },
        ];
        for lang in [Lang::En, Lang::Vi] {
            let html = page(&entries, 3, "", lang);
            assert!(
                html.contains("href=\"20261121_031500/report.html\""),
                "{html}"
            );
            assert!(html.contains("&lt;b&gt;") && !html.contains("<x"), "{html}");
            assert!(html.contains("5 &amp; more") && html.contains("bench report older --index"));
            assert!(html.contains(MARK));
            assert_eq!(html.matches("<tr>").count(), 3);
        }
    }
}
