//! Text tables for a terminal: aligned columns, rules in UTF-8 or ASCII, colour only where it is wanted.

use unicode_width::UnicodeWidthStr;

use super::format::printable;
use super::lang::{Lang, Text, without_marks};

/// What the terminal can show. The caller asks the environment; nothing here does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextStyle {
    /// Lines, icons and the dash as Unicode.
    pub unicode: bool,
    /// ANSI colours.
    pub color: bool,
    /// Language of the words.
    pub lang: Lang,
    /// Columns of the terminal; 0 where lines may be as long as they are.
    pub columns: usize,
}

impl TextStyle {
    /// Style for an output: colour on a terminal unless `NO_COLOR` is set to something or `TERM` is
    /// `dumb`; Unicode if the locale (first of `LC_ALL`, `LC_CTYPE`, `LANG` that is set) says UTF-8.
    pub(crate) fn detect(is_terminal: bool, env: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| set(name));
        let unicode = locale.is_none_or(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        Self {
            unicode,
            color: is_terminal && !dumb && set("NO_COLOR").is_none(),
            ..Self::default()
        }
    }
}

/// Colour of a cell's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tint {
    #[default]
    Plain,
    Good,
    Warn,
    Bad,
    Faint,
    Strong,
}

impl Tint {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Warn => Some("33"),
            Self::Bad => Some("31"),
            Self::Faint => Some("2"),
            Self::Strong => Some("1"),
        }
    }
}

/// Text in a colour, if the style has colours.
pub(crate) fn tinted(style: TextStyle, tint: Tint, text: &str) -> String {
    match tint.code() {
        Some(code) if style.color => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        _ => text.to_owned(),
    }
}

/// One cell of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextCell {
    pub(crate) text: String,
    pub(crate) tint: Tint,
}

impl From<String> for TextCell {
    fn from(text: String) -> Self {
        Self {
            text,
            tint: Tint::Plain,
        }
    }
}

impl From<&str> for TextCell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

pub(crate) const fn same(title: &'static str) -> Text {
    Text {
        en: title,
        vi: title,
    }
}

/// A column: its heading, the least width it gets, and the side its text stands on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: Text,
    pub(crate) width: usize,
    pub(crate) left: bool,
    /// Where a terminal is too narrow for all, columns with the largest number are left out first, those with 0 never.
    pub(crate) spare: u8,
}

impl Column {
    /// A column of numbers whose title is the same in every language.
    pub(crate) const fn number(title: &'static str, width: usize) -> Self {
        Self::figure(same(title), width)
    }

    /// A column of words whose title is the same in every language.
    pub(crate) const fn words(title: &'static str, width: usize) -> Self {
        Self::named(same(title), width)
    }

    /// A column of numbers.
    pub(crate) const fn figure(title: Text, width: usize) -> Self {
        Self {
            title,
            width,
            left: false,
            spare: 0,
        }
    }

    /// A column of words.
    pub(crate) const fn named(title: Text, width: usize) -> Self {
        Self {
            title,
            width,
            left: true,
            spare: 0,
        }
    }

    /// The same, left out on narrow terminals before columns of smaller numbers.
    pub(crate) const fn spare(self, spare: u8) -> Self {
        Self { spare, ..self }
    }
}

/// The columns that a terminal is wide enough for, by their place.
fn fitting(style: TextStyle, columns: &[Column], widths: &[usize]) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    loop {
        // A space on both sides of each, and a line between two.
        let taken = kept
            .iter()
            .map(|at| widths[*at] + 3)
            .sum::<usize>()
            .saturating_sub(1);
        let spare = |at: &usize| columns[*at].spare;
        let next = kept.iter().copied().max_by_key(spare);
        match next.filter(|at| style.columns > 0 && taken > style.columns && spare(at) > 0) {
            Some(left_out) => kept.retain(|at| *at != left_out),
            None => return kept,
        }
    }
}

/// The whole table: heading, rule, rows. Every column is as wide as its widest text.
pub(crate) fn table(style: TextStyle, columns: &[Column], rows: &[Vec<TextCell>]) -> String {
    let mut widths: Vec<usize> = columns
        .iter()
        .map(|c| c.width.max(c.title.of(style.lang).width()))
        .collect();
    let rows: Vec<Vec<TextCell>> = rows
        .iter()
        .map(|row| row.iter().map(|c| clean(style, c)).collect())
        .collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.width());
        }
    }
    let heads: Vec<TextCell> = columns
        .iter()
        .map(|column| TextCell {
            text: plain(style, column.title.of(style.lang)),
            tint: Tint::Strong,
        })
        .collect();
    let mut out = line(style, columns, &widths, &heads);
    out.push_str(&rule(style, columns, &widths));
    for row in &rows {
        out.push_str(&line(style, columns, &widths, row));
    }
    out
}

/// A table whose headings are known only when it is made: the first column holds words, the others figures.
pub(crate) fn named_table(style: TextStyle, heads: &[String], rows: &[Vec<TextCell>]) -> String {
    let columns: Vec<Column> = (0..heads.len())
        .map(|at| Column {
            left: at == 0,
            ..Column::number("", 0)
        })
        .collect();
    let heads = heads.iter().map(|head| TextCell {
        text: head.clone(),
        tint: Tint::Strong,
    });
    let all: Vec<Vec<TextCell>> = std::iter::once(heads.collect())
        .chain(rows.iter().cloned())
        .map(|row: Vec<TextCell>| row.iter().map(|cell| clean(style, cell)).collect())
        .collect();
    let mut widths = vec![0; columns.len()];
    for row in &all {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.width());
        }
    }
    let mut out = String::new();
    for (at, row) in all.iter().enumerate() {
        out.push_str(&line(style, &columns, &widths, row));
        if at == 0 {
            out.push_str(&rule(style, &columns, &widths));
        }
    }
    out
}

/// One line of a table whose widths are fixed beforehand, for rows that appear while a run goes on.
pub(crate) fn fixed_line(style: TextStyle, columns: &[Column], row: &[TextCell]) -> String {
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| column.width.max(column.title.of(style.lang).width()))
        .collect();
    let row: Vec<TextCell> = row.iter().map(|cell| clean(style, cell)).collect();
    line(style, columns, &widths, &row)
}

/// Heading and rule of such a table.
pub(crate) fn fixed_head(style: TextStyle, columns: &[Column]) -> String {
    table(style, columns, &[])
}

fn rule(style: TextStyle, columns: &[Column], widths: &[usize]) -> String {
    let (dash, cross) = if style.unicode {
        ("─", "┼")
    } else {
        ("-", "+")
    };
    let parts: Vec<String> = fitting(style, columns, widths)
        .into_iter()
        .map(|at| dash.repeat(widths[at] + 2))
        .collect();
    let mut out = tinted(style, Tint::Faint, &parts.join(cross));
    out.push('\n');
    out
}

fn line(style: TextStyle, columns: &[Column], widths: &[usize], row: &[TextCell]) -> String {
    let bar = tinted(style, Tint::Faint, if style.unicode { "│" } else { "|" });
    let mut out = String::new();
    for (place, at) in fitting(style, columns, widths).into_iter().enumerate() {
        let (column, width) = (&columns[at], widths[at]);
        let Some(cell) = row.get(at) else { break };
        if place > 0 {
            out.push_str(&bar);
        }
        let space = " ".repeat(width.saturating_sub(cell.text.width()));
        let text = tinted(style, cell.tint, &cell.text);
        out.push(' ');
        out.push_str(&if column.left {
            format!("{text}{space}")
        } else {
            format!("{space}{text}")
        });
        out.push(' ');
    }
    while out.ends_with(' ') {
        out.pop();
    }
    out.push('\n');
    out
}

fn clean(style: TextStyle, cell: &TextCell) -> TextCell {
    TextCell {
        text: plain(style, &cell.text),
        tint: cell.tint,
    }
}

/// The text without control characters, and with ASCII in place of the few Unicode signs the reports
/// use if the style wants it.
pub(crate) fn plain(style: TextStyle, text: &str) -> String {
    let text = printable(text);
    if style.unicode {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '–' | '—' => out.push('-'),
            '·' | '│' => out.push('|'),
            '×' => out.push('x'),
            'µ' => out.push('u'),
            '≥' => out.push_str(">="),
            '≤' => out.push_str("<="),
            '≠' => out.push_str("!="),
            c if c.is_ascii() => out.push(c),
            c => out.push(without_marks(c).unwrap_or('?')),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 2] = [Column::words("name", 4), Column::number("value", 5)];

    fn rows() -> Vec<Vec<TextCell>> {
        vec![
            vec!["數據庫".into(), "1".into()],
            vec![
                "x".into(),
                TextCell {
                    text: "–".into(),
                    tint: Tint::Bad,
                },
            ],
        ]
    }

    #[test]
    fn wide_characters_keep_columns_aligned() {
        let text = table(
            TextStyle {
                unicode: true,
                ..TextStyle::default()
            },
            &COLUMNS,
            &rows(),
        );
        let widths: Vec<usize> = text.lines().map(UnicodeWidthStr::width).collect();
        assert!(
            widths.iter().all(|width| *width >= 14 && *width <= 16),
            "{widths:?}\n{text}"
        );
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let columns = [
            Column::words("name", 4),
            Column::number("least", 8).spare(2),
            Column::number("less", 8).spare(1),
            Column::number("value", 5),
        ];
        let row = || -> Vec<TextCell> { ["a", "b", "c", "d"].map(Into::into).to_vec() };
        let shown = |columns_of_terminal: usize| {
            let style = TextStyle {
                columns: columns_of_terminal,
                ..TextStyle::default()
            };
            let text = table(style, &columns, &[row()]);
            let most = text.lines().map(UnicodeWidthStr::width).max().unwrap();
            assert!(
                most <= columns_of_terminal.max(14) || columns_of_terminal == 0,
                "{text}"
            );
            assert_eq!(
                fixed_line(style, &columns, &row()),
                text.lines().last().unwrap().to_owned() + "\n"
            );
            text.lines()
                .next()
                .unwrap()
                .split_whitespace()
                .filter(|word| *word != "|")
                .count()
        };
        assert_eq!([0, 80, 36, 35, 25, 24, 9].map(shown), [4, 4, 4, 3, 3, 2, 2]);
    }

    #[test]
    fn ascii_style_prints_ascii_only() {
        let text = table(TextStyle::default(), &COLUMNS, &rows());
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn colour_comes_only_when_asked_for() {
        let colored = table(
            TextStyle {
                unicode: true,
                color: true,
                ..TextStyle::default()
            },
            &COLUMNS,
            &rows(),
        );
        assert!(colored.contains("\u{1b}[31m–\u{1b}[0m"));
        let plain = table(
            TextStyle {
                unicode: true,
                ..TextStyle::default()
            },
            &COLUMNS,
            &rows(),
        );
        assert!(!plain.contains('\u{1b}'));
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        let rows = vec![vec!["a\u{1b}[31m\nb".into(), "1".into()]];
        let text = table(
            TextStyle {
                unicode: true,
                color: true,
                ..TextStyle::default()
            },
            &COLUMNS,
            &rows,
        );
        assert!(!text.contains("\u{1b}[31m\n"), "{text:?}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn the_environment_decides_the_style() {
        let env = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                pairs
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            }
        };
        let utf = TextStyle::detect(true, env(&[("LANG", "en_US.UTF-8")]));
        assert_eq!(
            utf,
            TextStyle {
                unicode: true,
                color: true,
                ..TextStyle::default()
            }
        );
        let no_color = TextStyle::detect(true, env(&[("NO_COLOR", "1"), ("LC_ALL", "C")]));
        assert_eq!(
            no_color,
            TextStyle {
                unicode: false,
                ..TextStyle::default()
            }
        );
        assert!(TextStyle::detect(true, env(&[("NO_COLOR", "")])).color);
        assert!(!TextStyle::detect(true, env(&[("TERM", "dumb")])).color);
        assert!(!TextStyle::detect(false, env(&[])).color);
    }
}
