//! `tollgate bench compare` of two servers, and `tollgate bench report` of what it recorded.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;

use super::command::STATUS_INVALID;
use super::{CompareArgs, ReportArgs};
use crate::os::interrupt;
use crate::record::{CompareRecord, Grade};
use crate::report::files::{COMPARE_RECORD, Format, RunDirectory, read_compare};
use crate::report::{compare_markdown, compare_summary, document};
use crate::run::console::Console;

/// Compares two servers and keeps the record.
pub(super) fn measure(args: &CompareArgs) -> Result<ExitCode, String> {
    args.stored.for_servers()?;
    let printed = &args.stored.printed;
    interrupt::install();
    let mut console = Console::new(false);
    console.speak(printed.lang);
    let record: CompareRecord = crate::compare::run(args, &mut console)?;
    console.finish();
    console.line(&if printed.json {
        serde_json::to_string_pretty(&record).map_err(|error| error.to_string())?
    } else if printed.markdown {
        compare_markdown(&record, printed.lang)
            .trim_end()
            .to_owned()
    } else {
        compare_summary(console.style(), &record)
    });
    printed.write_page(|| document(&compare_markdown(&record, printed.lang), printed.lang))?;
    let folder = RunDirectory::create(&args.out, record.manifest.started_unix_s)
        .map_err(|error| error.to_string())?;
    folder
        .write_compare(&record, printed.lang)
        .map_err(|error| error.to_string())?;
    let place = format!("record: {}", folder.path().display());
    // Behind a document it would be no part of it.
    if printed.json || printed.markdown {
        console.note(&place);
    } else {
        console.line(&format!("\n{place}"));
    }
    Ok(match record.validity.grade {
        _ if !record.complete => ExitCode::FAILURE,
        Grade::Invalid => ExitCode::from(STATUS_INVALID),
        _ => ExitCode::SUCCESS,
    })
}

/// Whether `path` is a comparison's record or the folder of one.
pub(super) fn is_stored(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| name == COMPARE_RECORD);
    named || path.join(COMPARE_RECORD).exists()
}

/// Forms of a comparison; it is drawn again in all but the last, which is where it is read from.
const FORMATS: [Format; 4] = [Format::Html, Format::Markdown, Format::Csv, Format::Json];

/// Refuses what only runs have.
fn about_runs(args: &ReportArgs) -> Result<(), String> {
    let options = [
        ("--compare", args.compare),
        ("--baseline", args.baseline.is_some()),
        ("--trends", args.trends),
        ("--select", args.select.is_some() || args.extract_median),
        ("--template", args.template.is_some()),
        ("--index", args.index),
    ];
    if let Some((name, _)) = options.iter().find(|(_, given)| *given) {
        return Err(format!("{name} is about runs, not a paired comparison"));
    }
    let has = |format: &&Format| **format == Format::All || FORMATS.contains(format);
    match args.format.iter().find(|format| !has(format)) {
        Some(format) => {
            let name = format.to_possible_value();
            let name = name.as_ref().map_or("this form", |value| value.get_name());
            Err(format!(
                "a paired comparison has no form {name}: choose html, markdown, csv or json"
            ))
        }
        None => Ok(()),
    }
}

/// Draws the comparisons at `paths` again.
pub(super) fn render(paths: &[PathBuf], args: &ReportArgs) -> Result<ExitCode, String> {
    if let Some(other) = paths.iter().find(|path| !is_stored(path)) {
        let other = other.display();
        return Err(format!(
            "{other} is not a paired comparison: draw runs by themselves"
        ));
    }
    if paths.len() > 1 && args.out.is_some() {
        return Err("--out takes one paired comparison".into());
    }
    about_runs(args)?;
    let formats = match args.format.as_slice() {
        [] => &FORMATS[..FORMATS.len() - 1],
        formats => formats,
    };
    let mut console = Console::new(args.quiet);
    let mut style = console.style();
    style.lang = args.lang;
    for path in paths {
        let record = read_compare(path).map_err(|error| error.to_string())?;
        console.line(&compare_summary(style, &record));
        let own = if path.is_dir() {
            Some(path.as_path())
        } else {
            path.parent()
        };
        let folder = args.out.as_deref().or(own).unwrap_or(Path::new("."));
        let written = RunDirectory::existing(folder)
            .write_compare_formats(&record, formats, args.lang)
            .map_err(|error| error.to_string())?;
        let (folder, written) = (folder.display(), written.join(", "));
        console.line(&format!("\n{folder}: {written}"));
    }
    Ok(ExitCode::SUCCESS)
}
