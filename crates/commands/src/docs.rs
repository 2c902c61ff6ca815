//! `docs/commands.md`, rendered from the table.

use std::fmt::Write;

use crate::{Row, families};

/// The text of `docs/commands.md`.
pub fn render_docs() -> String {
    let mut text = String::from(
        "# Commands\n\n\
         Rendered from the command table; `TOLLGATE_REGENERATE=1 cargo test -p tollgate-commands` \
         rewrites it. Deviations from Redis are listed in [differences.md](differences.md).\n",
    );
    for family in families() {
        let about = family.about;
        append(
            &mut text,
            format_args!("\n## {}\n\n{about}\n\n", family.name),
        );
        append(
            &mut text,
            format_args!("| Command | What it does | Cost | Since |\n|---|---|---|---|\n"),
        );
        for row in family.rows {
            if row.subs.is_empty() {
                line(&mut text, row);
            }
            row.subs.iter().for_each(|sub| line(&mut text, sub));
        }
    }
    text
}

fn line(text: &mut String, row: &Row) {
    let name = row.name.replace('|', " ");
    let call = format!("{name} {}", row.syntax)
        .trim_end()
        .replace('|', "\\|");
    let Row {
        summary,
        complexity,
        since,
        ..
    } = row;
    let instead = row
        .deprecated
        .map(|it| format!(" Deprecated: use {}.", it.instead.replace('!', "")));
    let instead = instead.unwrap_or_default();
    append(
        text,
        format_args!("| `{call}` | {summary}{instead} | {complexity} | {since} |\n"),
    );
}

fn append(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line)
        .expect("writing to a String cannot fail");
}
