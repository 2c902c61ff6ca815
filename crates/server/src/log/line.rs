//! How a line of the log looks.

use chrono::{DateTime, Datelike, Timelike};
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
    /// What has failed.
    Error,
}

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogForm {
    /// As Redis writes them.
    #[default]
    Redis,
    /// Pairs of a name and a value, as envoyproxy/ratelimit writes them.
    Text,
    /// Objects of JSON, as envoyproxy/ratelimit writes them where it is told to.
    Json,
}

/// The threshold that no line reaches.
pub(super) const NOTHING: u8 = Level::Error as u8 + 1;

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
            Level::Warning | Level::Error => '#',
        }
    }

    /// The word for it where lines are not those of Redis.
    fn word(self) -> &'static str {
        match self {
            Level::Debug | Level::Verbose => "debug",
            Level::Notice => "info",
            Level::Warning => "warning",
            Level::Error => "error",
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

/// A line of a form, and its end.
pub(super) fn write(entry: &Entry, pid: u32, form: LogForm, out: &mut String) {
    let seconds = entry.at.div_euclid(1_000_000_000);
    match form {
        LogForm::Redis => write_as_redis(entry, pid, out),
        LogForm::Text => text(entry, &timestamp(seconds), out),
        LogForm::Json => json(entry, &timestamp(seconds), out),
    }
}

/// A line of Redis' form, and its end.
pub(super) fn write_as_redis(entry: &Entry, pid: u32, out: &mut String) {
    let seconds = entry.at.div_euclid(1_000_000_000);
    render(entry, pid, LocalTime::at(seconds), out);
}

/// A time in Greenwich by RFC 3339, to the second and without the zone.
fn timestamp(seconds: i64) -> String {
    let time = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    let (year, month, day) = (time.year(), time.month(), time.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// In quotes; the text has no control characters any more.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

/// `time="…Z" level=info msg="…"`, as logrus writes it: a value that is one plain word has no quotes.
fn text(entry: &Entry, time: &str, out: &mut String) {
    let is_plain = |letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_' | '/' | '@' | '^' | '+')
    };
    let message = match entry.text.chars().all(is_plain) {
        true => entry.text.clone(),
        false => quoted(&entry.text),
    };
    writeln!(
        out,
        "time=\"{time}Z\" level={} msg={message}",
        entry.level.word()
    )
    .expect("writing to a String cannot fail");
}

/// `{"@message":"…","@timestamp":"…Z","level":"info"}`, with the time to the nanosecond.
fn json(entry: &Entry, time: &str, out: &mut String) {
    let nanos = format!(".{:09}", entry.at.rem_euclid(1_000_000_000));
    writeln!(
        out,
        "{{\"@message\":{},\"@timestamp\":\"{time}{}Z\",\"level\":\"{}\"}}",
        quoted(&entry.text),
        nanos.trim_end_matches('0').trim_end_matches('.'),
        entry.level.word()
    )
    .expect("writing to a String cannot fail");
}

/// `pid:role day month year time level text` and a line end, as Redis 7 writes it; `time` is that of the entry.
fn render(entry: &Entry, pid: u32, time: LocalTime, out: &mut String) {
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

    /// Byte for byte what logrus writes of the same in Greenwich.
    #[test]
    fn lines_have_the_forms_of_envoyproxy_ratelimit() {
        let mut entry = Entry {
            level: Level::Error,
            at: 1_781_524_800_067_000_000,
            replica: false,
            text: "a \"b\" \\n".to_owned(),
        };
        let of = |entry: &Entry, form| {
            let mut out = String::new();
            write(entry, 1, form, &mut out);
            out
        };
        assert_eq!(
            of(&entry, LogForm::Text),
            "time=\"2026-06-15T12:00:00Z\" level=error msg=\"a \\\"b\\\" \\\\n\"\n"
        );
        assert_eq!(
            of(&entry, LogForm::Json),
            "{\"@message\":\"a \\\"b\\\" \\\\n\",\"@timestamp\":\"2026-06-15T12:00:00.067Z\",\"level\":\"error\"}\n"
        );
        entry.text = "ready".to_owned();
        entry.at = 1_781_524_800_000_000_000;
        for (level, word) in [
            (Level::Debug, "debug"),
            (Level::Verbose, "debug"),
            (Level::Notice, "info"),
            (Level::Warning, "warning"),
        ] {
            entry.level = level;
            let line = format!("time=\"2026-06-15T12:00:00Z\" level={word} msg=ready\n");
            assert_eq!(of(&entry, LogForm::Text), line);
            assert!(of(&entry, LogForm::Json).contains("T12:00:00Z"));
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
        assert_eq!(words.map(threshold), [0, 1, 2, 3, 5]);
        assert_eq!(Level::of_script(3), Level::Warning);
    }
}
