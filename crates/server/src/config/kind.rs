//! What values a setting takes, and how they are written.

use super::{bind, output_limits, save_points};
use crate::title;
use tollgate_engine::Notify;

/// Longest name of a file, bytes: numbers and endings are added to it, and systems take 255.
const FILE_NAME_MAX: usize = 200;

/// Bytes of a host name, and one more.
const HOST_NAME_MAX: usize = 256;

/// Most digits of a number of bytes.
const BYTES_DIGITS_MAX: usize = 127;

/// Levels of the log.
const LEVELS: &[&str] = &["debug", "verbose", "notice", "warning"];
/// What stands for no level.
const NO_LEVEL: &str = "nothing";

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number in a range.
    Number {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A whole number in a range that may be negative.
    Integer {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// `yes` or `no`.
    Flag,
    /// A number of bytes, or a share of the memory limit: `5%`.
    BytesOrPercent,
    /// Some of these words, separated by spaces; the first one stands for none of the others.
    Choices(&'static [&'static str]),
    /// Three scores from -2000 to 2000.
    OomScores,
    /// Letters of classes of keyspace events.
    EventClasses,
    /// Percentiles from 0 to 100, separated by spaces.
    Percentiles,
    /// Pairs of seconds and changes, separated by spaces; none is allowed.
    SavePoints,
    /// A power of two in a range.
    PowerOfTwo {
        /// Largest.
        max: u64,
    },
    /// A number of bytes: `64mb`, `1gb`, `4096`.
    Bytes {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// An octal file mode; 0 = leave it to the umask.
    Mode,
    /// IP addresses separated by spaces.
    Addresses,
    /// Any text, possibly empty.
    Text,
    /// What lists of processes call the server, with `{variables}`.
    Title,
    /// A host name, or nothing.
    HostName,
    /// A file name without a directory.
    FileName,
    /// An existing directory.
    Directory,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A level of the log.
    LogLevel,
    /// Output limits of the classes of clients; classes that are not named keep theirs.
    OutputLimits,
    /// Host and port of a master, or nothing.
    Master,
}

impl Kind {
    /// The text that CONFIG GET prints for `text`, or why it is refused, in Redis' words where it has them.
    pub(crate) fn normalise(self, text: &str) -> Result<String, String> {
        match self {
            Kind::Number { min, max } => number(text, min, max),
            Kind::PowerOfTwo { max } => {
                let value = number(text, 1, max)?;
                let power = value.parse().is_ok_and(u64::is_power_of_two);
                if power {
                    Ok(value)
                } else {
                    Err("argument must be a power of two".to_owned())
                }
            }
            Kind::Bytes { min, max } => {
                let value = parse_bytes(text).ok_or("argument must be a memory value")?;
                in_range(value, min, max)
            }
            Kind::OutputLimits => output_limits::merge(output_limits::DEFAULT, text),
            Kind::Integer { min, max } => integer(text, min, max),
            Kind::Flag => flag(text),
            Kind::BytesOrPercent => bytes_or_percent(text),
            Kind::Choices(words) => choices(text, words),
            Kind::OomScores => oom_scores(text),
            Kind::EventClasses => event_classes(text),
            Kind::Percentiles => percentiles(text),
            Kind::SavePoints => save_points::normalise(text),
            Kind::Mode => mode(text),
            Kind::Addresses => bind::normalise(text),
            Kind::Choice(words) => choice(text, words),
            // A word of Redis 7.2, whose list of words is that of 7.0.
            Kind::LogLevel if text.eq_ignore_ascii_case(NO_LEVEL) => Ok(NO_LEVEL.to_owned()),
            Kind::LogLevel => choice(text, LEVELS),
            Kind::Text => Ok(text.to_owned()),
            Kind::Title if !title::is_valid(text) => {
                Err("template format is invalid or contains unknown variables".to_owned())
            }
            Kind::Title => Ok(text.to_owned()),
            Kind::Master => master(text),
            Kind::HostName => host_name(text),
            Kind::FileName => {
                if text.is_empty() || text == "." || text == ".." || text.contains('/') {
                    return Err("can't be a path, just a filename".to_owned());
                }
                if text.len() > FILE_NAME_MAX || text.contains('\0') {
                    return Err(format!(
                        "must be a filename of {FILE_NAME_MAX} bytes at most"
                    ));
                }
                Ok(text.to_owned())
            }
            Kind::Directory => {
                if !std::path::Path::new(text).is_dir() {
                    return Err(format!("'{text}' is not a directory"));
                }
                // Tools read from CONFIG GET where the files are, and need not run in the same directory.
                Ok(absolute(text))
            }
        }
    }

    /// As [`Kind::normalise`], for a value that may leave parts of the `old` one as they are.
    pub(crate) fn normalise_over(self, old: &str, text: &str) -> Result<String, String> {
        match self {
            Kind::OutputLimits => output_limits::merge(old, text),
            _ => self.normalise(text),
        }
    }

    /// True when the value is several words, each of which may stand by itself in a file.
    pub fn takes_words(self) -> bool {
        matches!(
            self,
            Kind::Addresses
                | Kind::Choices(_)
                | Kind::OomScores
                | Kind::OutputLimits
                | Kind::Percentiles
                | Kind::SavePoints
                | Kind::Master
        )
    }

    /// Stands for the value in `--help`.
    pub fn placeholder(self) -> &'static str {
        match self {
            Kind::Number { .. } | Kind::Integer { .. } | Kind::PowerOfTwo { .. } => "NUMBER",
            Kind::Bytes { .. } | Kind::BytesOrPercent => "BYTES",
            Kind::OutputLimits => "LIMITS",
            Kind::Flag => "YES|NO",
            Kind::Choices(_) => "WORDS",
            Kind::OomScores | Kind::Percentiles | Kind::SavePoints => "NUMBERS",
            Kind::EventClasses => "LETTERS",
            Kind::Mode => "MODE",
            Kind::Addresses => "ADDRESSES",
            Kind::Choice(_) | Kind::LogLevel => "WORD",
            Kind::Text | Kind::Title | Kind::HostName => "TEXT",
            Kind::Master => "MASTER",
            Kind::FileName => "FILE",
            Kind::Directory => "DIR",
        }
    }

    /// For the documentation.
    pub fn describe(self) -> String {
        match self {
            Kind::Number { min, max } | Kind::Bytes { min, max } if max == u64::MAX => {
                format!("{min} or more")
            }
            Kind::Number { min, max } => format!("{min} to {max}"),
            Kind::Integer { min, max } => format!("{min} to {max}"),
            Kind::Flag => "yes, no".to_owned(),
            Kind::BytesOrPercent => "bytes, or a percentage of `maxmemory`".to_owned(),
            Kind::Choices(words) => format!("some of {}", words.join(", ")),
            Kind::OomScores => "three numbers from -2000 to 2000".to_owned(),
            Kind::EventClasses => "letters of `Ag$lshzxeKEtmdn`".to_owned(),
            Kind::Percentiles => "numbers from 0 to 100".to_owned(),
            Kind::SavePoints => "pairs of seconds and changes".to_owned(),
            Kind::PowerOfTwo { max } => format!("power of two, 1 to {max}"),
            Kind::Bytes { min, max } => format!("{min} to {max} bytes; kb, mb and gb may follow"),
            Kind::OutputLimits => {
                "class, hard limit, soft limit, seconds; several may follow each other".to_owned()
            }
            Kind::Mode => "octal file mode".to_owned(),
            Kind::Addresses => {
                "IP addresses, `*`, `::*`; `-` in front of one that may be absent".to_owned()
            }
            Kind::Text => "text".to_owned(),
            Kind::Title => "text; `{title}`, `{listen-addr}`, `{server-mode}`, `{port}`, `{tls-port}`, `{unixsocket}`, \
                            `{config-file}` stand for what they name"
                .to_owned(),
            Kind::HostName => "host name; empty for none".to_owned(),
            Kind::FileName => "file name".to_owned(),
            Kind::Directory => "directory".to_owned(),
            Kind::Choice(words) => words.join(", "),
            Kind::LogLevel => format!("{}, {NO_LEVEL}", LEVELS.join(", ")),
            Kind::Master => "host and port; empty for none".to_owned(),
        }
    }
}

/// The path from the root, as far as it is text; else as it is.
pub(super) fn absolute(path: &str) -> String {
    let whole = std::fs::canonicalize(path).ok();
    let text = whole.as_deref().and_then(std::path::Path::to_str);
    text.unwrap_or(path).to_owned()
}

/// A name that CLUSTER NODES and its readers can take apart.
fn host_name(text: &str) -> Result<String, String> {
    if text.len() >= HOST_NAME_MAX {
        return Err(format!(
            "Hostnames must be less than {HOST_NAME_MAX} characters"
        ));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if !text.bytes().all(fits) {
        return Err(
            "Hostnames may only contain alphanumeric characters, hyphens or dots".to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// Host and port of a master; empty for none, which `no one` says too.
fn master(text: &str) -> Result<String, String> {
    if text.is_empty() || text.eq_ignore_ascii_case("no one") {
        return Ok(String::new());
    }
    let (host, port) = text.split_once(' ').ok_or("wrong number of arguments")?;
    match port.parse::<u16>() {
        Ok(port) if !host.is_empty() => Ok(format!("{host} {port}")),
        _ => Err("Invalid master port".to_owned()),
    }
}

fn in_range(value: u64, min: u64, max: u64) -> Result<String, String> {
    if (min..=max).contains(&value) {
        Ok(value.to_string())
    } else {
        Err(format!(
            "argument must be between {min} and {max} inclusive"
        ))
    }
}

fn number(text: &str, min: u64, max: u64) -> Result<String, String> {
    let value = tollgate_containers::number::parse_i64(text.as_bytes())
        .ok_or("argument couldn't be parsed into an integer")?;
    // One below zero is as far out of the range as can be, as in Redis.
    in_range(value as u64, min, max)
}

/// Redis' memory values: `k`, `m`, `g` are powers of ten, `kb`, `mb`, `gb` of two, in any case. As there, too many digits are
/// the largest number, and none are 0.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let end = text
        .bytes()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len());
    if end > BYTES_DIGITS_MAX {
        return None;
    }
    let value = text[..end].bytes().fold(0u64, |sum, digit| {
        let sum = sum.saturating_mul(10);
        sum.saturating_add(u64::from(digit - b'0'))
    });
    let unit: u64 = match text[end..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    Some(value.wrapping_mul(unit))
}

fn integer(text: &str, min: i64, max: i64) -> Result<String, String> {
    let value = tollgate_containers::number::parse_i64(text.as_bytes())
        .ok_or("argument couldn't be parsed into an integer")?;
    if (min..=max).contains(&value) {
        Ok(value.to_string())
    } else {
        Err(format!(
            "argument must be between {min} and {max} inclusive"
        ))
    }
}

fn flag(text: &str) -> Result<String, String> {
    let known = ["yes", "no"]
        .into_iter()
        .find(|word| word.eq_ignore_ascii_case(text));
    known
        .map(str::to_owned)
        .ok_or_else(|| "argument must be 'yes' or 'no'".to_owned())
}

fn bytes_or_percent(text: &str) -> Result<String, String> {
    if let Some(bytes) = parse_bytes(text) {
        return Ok(bytes.to_string());
    }
    let percent = text
        .strip_suffix('%')
        .and_then(|it| tollgate_containers::number::parse_i64(it.as_bytes()))
        .filter(|percent| *percent >= 0);
    match percent {
        // None of it is no limit, as Redis shows it.
        Some(0) => Ok("0".to_owned()),
        Some(percent @ ..=100) => Ok(format!("{percent}%")),
        Some(_) => Err("percentage argument must be less or equal to 100".to_owned()),
        None => Err("argument must be a memory or percent value".to_owned()),
    }
}

fn choices(text: &str, words: &[&str]) -> Result<String, String> {
    let mut chosen = vec![false; words.len()];
    for word in text.split(' ') {
        let known = choice(word, words)?;
        if let Some(at) = words.iter().position(|it| *it == known) {
            chosen[at] = true;
        }
    }
    if chosen.iter().filter(|it| **it).count() > 1 {
        chosen[0] = false;
    }
    let chosen: Vec<&str> = words
        .iter()
        .zip(&chosen)
        .filter_map(|(word, chosen)| chosen.then_some(*word))
        .collect();
    if chosen.contains(&"save") && chosen.contains(&"nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".to_owned());
    }
    Ok(chosen.join(" "))
}

fn oom_scores(text: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split(' ').collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".to_owned());
    }
    let scores = words.iter().map(|word| {
        let score = word.parse::<i64>().ok();
        score.filter(|score| (-2000..=2000).contains(score))
    });
    let scores: Option<Vec<i64>> = scores.collect();
    let scores =
        scores.ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    Ok(scores
        .iter()
        .map(i64::to_string)
        .collect::<Vec<_>>()
        .join(" "))
}

/// Classes in the order in which Redis prints them; `A` stands for those before the last three.
fn event_classes(text: &str) -> Result<String, String> {
    Notify::parse(text.as_bytes())
        .map(Notify::text)
        .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned())
}

fn percentiles(text: &str) -> Result<String, String> {
    let mut normal = Vec::new();
    for word in text.split(' ').filter(|_| !text.is_empty()) {
        let value = word.parse::<f64>().ok().filter(|value| value.is_finite());
        let value = value.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&value) {
            return Err(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"
                    .to_owned(),
            );
        }
        normal.push(value.to_string());
    }
    Ok(normal.join(" "))
}

fn mode(text: &str) -> Result<String, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(format!("{mode:o}")),
        _ => Err("argument must be an octal file mode from 0 to 777".to_owned()),
    }
}

fn choice(text: &str, words: &[&str]) -> Result<String, String> {
    let known = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    known.map(|word| (*word).to_owned()).ok_or_else(|| {
        format!(
            "argument(s) must be one of the following: {}",
            words.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_refused_in_redis_words() {
        let kind = Kind::Number { min: 1, max: 10 };
        assert_eq!(kind.normalise("7").unwrap(), "7");
        let range = "argument must be between 1 and 10 inclusive";
        for text in ["0", "11", "-1", "9223372036854775807"] {
            assert_eq!(kind.normalise(text).unwrap_err(), range, "{text}");
        }
        for text in [
            "",
            "-",
            "x",
            "1.5",
            "+1",
            " 1",
            "007",
            "99999999999999999999",
        ] {
            assert_eq!(
                kind.normalise(text).unwrap_err(),
                "argument couldn't be parsed into an integer",
                "{text}"
            );
        }
    }

    #[test]
    fn memory_values_have_units() {
        let kind = Kind::Bytes {
            min: 0,
            max: u64::MAX,
        };
        for (text, bytes) in [
            ("0", "0"),
            ("1k", "1000"),
            ("1KB", "1024"),
            ("2mb", "2097152"),
            ("1Gb", "1073741824"),
            ("", "0"),
            ("mb", "0"),
            ("99999999999999999999", "18446744073709551615"),
            ("99999999999999999999kb", "18446744073709550592"),
        ] {
            assert_eq!(kind.normalise(text).unwrap(), bytes, "{text}");
        }
        let long = "0".repeat(128);
        for text in ["1tb", "12xb", "-1", "1.5mb", &long] {
            assert_eq!(
                kind.normalise(text).unwrap_err(),
                "argument must be a memory value",
                "{text}"
            );
        }
    }

    #[test]
    fn a_choice_is_refused_in_redis_words() {
        let kind = Kind::Choice(&["auto", "epoll"]);
        assert_eq!(kind.normalise("EPOLL").unwrap(), "epoll");
        assert_eq!(
            kind.normalise("select").unwrap_err(),
            "argument(s) must be one of the following: auto, epoll"
        );
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(Kind::Mode.normalise("0700").unwrap(), "700");
        assert!(Kind::Mode.normalise("999").is_err());
        assert!(Kind::Mode.normalise("1777").is_err());
    }

    #[test]
    fn a_file_name_is_no_path() {
        assert!(Kind::FileName.normalise("../dump.rdb").is_err());
        assert!(Kind::FileName.normalise("").is_err());
        assert_eq!(Kind::FileName.normalise("dump.rdb").unwrap(), "dump.rdb");
    }
}
