//! How a line of the log looks.

use std::fmt::Write;
use tollgate_net::calendar::LocalTime;

/// How much a line matters, in Redis' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever looks for a mistake in this program.
    Debug,
    /// Much that is seldom of use.
    Verbose,
    /// What an operator wants to know.
    Notice,
    /// What must not be overlooked.
    Warning,
}

/// The threshold that no line reaches.
pub(super) const NOTHING: u8 = Level::Warning as u8 + 1;

impl Level {
    /// By the number that scripts have for it; whatever is above is a warning.
    pub(super) fn of_script(number: u8) -> Level {
        match number {
            0 => Level::Debug,
            1 => Level::Verbose,
            2 => Level::Notice,
            _ => Level::Warning,
        }
    }

    /// The sign in the line.
    fn sign(self) -> char {
        match self {
            Level::Debug => '.',
            Level::Verbose => '-',
            Level::Notice => '*',
            Level::Warning => '#',
        }
    }
}

/// The least level that is written, by the word of `loglevel`; the number of a level, or [`NOTHING`].
pub(super) fn threshold(word: &str) -> u8 {
    match word {
        "debug" => Level::Debug as u8,
        "verbose" => Level::Verbose as u8,
        "warning" => Level::Warning as u8,
        "nothing" => NOTHING,
        _ => Level::Notice as u8,
    }
}

/// Names of the months as Redis writes them, whatever the language.
pub(super) const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// What was said and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) level: Level,
    /// Nanoseconds since the Unix epoch.
    pub(super) at: i64,
    /// The server was a replica then.
    pub(super) replica: bool,
    pub(super) text: String,
}

/// `pid:role day month year time level text` and a line end, as Redis 7 writes it; `time` is that of the entry.
pub(super) fn render(entry: &Entry, pid: u32, time: LocalTime, out: &mut String) {
    let role = if entry.replica { 'S' } else { 'M' };
    let month = MONTHS
        .get(usize::from(time.month.saturating_sub(1)))
        .unwrap_or(&"");
    let millis = entry.at.rem_euclid(1_000_000_000) / 1_000_000;
    let LocalTime {
        year,
        day,
        hour,
        minute,
        second,
        ..
    } = time;
    writeln!(
        out,
        "{pid}:{role} {day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{millis:03} {} {}",
        entry.level.sign(),
        entry.text
    )
    .expect("writing to a String cannot fail");
}

/// One line of at most `most` bytes: what would end it, or move a terminal's cursor, is written as an escape.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let mut line = String::with_capacity(text.len().min(most));
    for letter in text.chars() {
        let start = line.len();
        match letter {
            letter if letter.is_control() => line.extend(letter.escape_default()),
            letter => line.push(letter),
        }
        if line.len() > most {
            line.truncate(start);
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_form_of_redis() {
        let time = LocalTime {
            year: 2026,
            month: 11,
            day: 2,
            hour: 6,
            minute: 43,
            second: 8,
        };
        let mut entry = Entry {
            level: Level::Notice,
            at: 1_800_000_000_067_999_999,
            replica: false,
            text: "Ready to accept connections".to_owned(),
        };
        let mut out = String::new();
        render(&entry, 17207, time, &mut out);
        assert_eq!(
            out,
            "17207:M 02 Nov 2026 06:43:08.067 * Ready to accept connections\n"
        );
        entry.replica = true;
        for (level, sign) in [
            (Level::Debug, "."),
            (Level::Verbose, "-"),
            (Level::Notice, "*"),
            (Level::Warning, "#"),
        ] {
            entry.level = level;
            out.clear();
            render(&entry, 1, time, &mut out);
            assert!(
                out.starts_with(&format!("1:S 02 Nov 2026 06:43:08.067 {sign} ")),
                "{out}"
            );
        }
    }

    #[test]
    fn a_text_stays_one_line_within_its_length() {
        assert_eq!(one_line("a\nb\r\u{1b}[2J", 100), "a\\nb\\r\\u{1b}[2J");
        assert_eq!(one_line("grüße", 100), "grüße");
        assert_eq!(one_line("grüße", 3), "gr", "no letter is cut in two");
        assert_eq!(one_line("abc", 3), "abc");
    }

    #[test]
    fn thresholds_are_those_of_the_setting() {
        let words = ["debug", "verbose", "notice", "warning", "nothing"];
        assert_eq!(words.map(threshold), [0, 1, 2, 3, 4]);
        assert_eq!(Level::of_script(3), Level::Warning);
    }
}
