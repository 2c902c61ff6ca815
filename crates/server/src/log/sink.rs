//! Where lines end up.

use super::line::{self, Entry, LogForm};
use super::syslog::Syslog;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tollgate_net::calendar::LocalTime;

/// What takes the lines.
#[derive(Debug)]
pub(super) enum Target {
    /// Standard error: standard output has the one line that says what listens where.
    Stderr,
    /// A file, opened for each burst of lines, so that it can be moved away at any time.
    File(PathBuf),
}

/// A target and what has become of the lines before.
#[derive(Debug)]
pub(super) struct Sink {
    target: Target,
    syslog: Option<Syslog>,
    form: LogForm,
    pid: u32,
    /// Lines that could not be written since the last one that could.
    lost: u64,
    /// The last line was written in part.
    is_torn: bool,
}

impl Sink {
    pub(super) fn new(target: Target, syslog: Option<Syslog>) -> Sink {
        Sink {
            target,
            syslog,
            form: LogForm::Redis,
            pid: std::process::id(),
            lost: 0,
            is_torn: false,
        }
    }

    pub(super) fn in_form(self, form: LogForm) -> Sink {
        Sink { form, ..self }
    }

    pub(super) fn is_stderr(&self) -> bool {
        matches!(self.target, Target::Stderr)
    }

    pub(super) fn file(&self) -> Option<&Path> {
        match &self.target {
            Target::Stderr => None,
            Target::File(path) => Some(path),
        }
    }

    /// Writes the lines, after a remark about those that are missing before them: `left_out` did not fit the queue.
    pub(super) fn write(&mut self, entries: &[Entry], left_out: u64) {
        if let Some(syslog) = &self.syslog {
            for entry in entries {
                syslog.send(entry, self.pid, LocalTime::at(seconds(entry)));
            }
        }
        self.lost += left_out;
        let mut text = String::new();
        if self.is_torn {
            text.push('\n');
        }
        if let (1.., Some(first)) = (self.lost, entries.first()) {
            let remark = Entry {
                level: line::Level::Warning,
                text: format!("{} lines of the log were lost before this one", self.lost),
                ..first.clone()
            };
            line::write(&remark, self.pid, self.form, &mut text);
        }
        let before = text.len();
        for entry in entries {
            line::write(entry, self.pid, self.form, &mut text);
        }
        let done = match &self.target {
            Target::Stderr => put(&mut io::stderr(), text.as_bytes()),
            Target::File(path) => match open(path) {
                Ok(mut file) => put(&mut file, text.as_bytes()),
                Err(_) => 0,
            },
        };
        self.note(entries.len(), &text.as_bytes()[..done], before);
    }

    /// So much was written of `entries` lines, which begin behind `before` bytes.
    fn note(&mut self, entries: usize, written: &[u8], before: usize) {
        if let Some(last) = written.last() {
            self.is_torn = *last != b'\n';
        }
        let mut whole = 0;
        if written.len() >= before {
            // The remark about those that are missing has been made.
            self.lost = 0;
            whole = written[before..]
                .iter()
                .filter(|&&byte| byte == b'\n')
                .count();
        }
        self.lost += (entries - whole) as u64;
    }
}

fn seconds(entry: &Entry) -> i64 {
    entry.at.div_euclid(1_000_000_000)
}

/// Opens a log file for lines at its end.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Writes as much as can be; returns how much that was.
fn put(out: &mut dyn Write, bytes: &[u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        match out.write(&bytes[done..]) {
            Ok(len @ 1..) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::Level;
    use tollgate_testkit::process::temp_dir;

    fn entry(text: &str) -> Entry {
        Entry {
            level: Level::Notice,
            at: 0,
            replica: false,
            text: text.to_owned(),
        }
    }

    fn texts(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let part = |line: &str| line.splitn(7, ' ').last().map(str::to_owned);
        text.lines().filter_map(part).collect()
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_anew() {
        let dir = temp_dir().unwrap();
        let path = dir.join("a.log");
        let mut sink = Sink::new(Target::File(path.clone()), None);
        sink.write(&[entry("one"), entry("two")], 0);
        std::fs::rename(&path, dir.join("a.log.1")).unwrap();
        sink.write(&[entry("three")], 0);
        assert_eq!(texts(&dir.join("a.log.1")), ["one", "two"]);
        assert_eq!(texts(&path), ["three"]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_could_not_be_written_is_told_when_it_can_be_again() {
        let dir = temp_dir().unwrap();
        let path = dir.join("later").join("a.log");
        let mut sink = Sink::new(Target::File(path.clone()), None);
        sink.write(&[entry("one"), entry("two")], 0);
        std::fs::create_dir(dir.join("later")).unwrap();
        sink.write(&[entry("three")], 5);
        sink.write(&[entry("four")], 0);
        let expected = [
            "7 lines of the log were lost before this one",
            "three",
            "four",
        ];
        assert_eq!(texts(&path), expected);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_costs_lines_and_nothing_else() {
        let mut sink = Sink::new(Target::File("/dev/full".into()), None);
        sink.write(&[entry("one")], 0);
        sink.write(&[entry("two")], 0);
        assert_eq!(sink.lost, 2);
    }

    #[test]
    fn a_line_that_was_written_in_part_counts_as_lost() {
        let mut sink = Sink::new(Target::Stderr, None);
        sink.note(3, b"one\ntw", 0);
        assert_eq!((sink.lost, sink.is_torn), (2, true));
        // Not even the remark went through.
        sink.note(1, b"", 10);
        assert_eq!((sink.lost, sink.is_torn), (3, true));
        sink.note(2, b"\n3 lost\nfour\n", 8);
        assert_eq!((sink.lost, sink.is_torn), (1, false));
        sink.note(1, b"1 lost\nfive\n", 7);
        assert_eq!((sink.lost, sink.is_torn), (0, false));
    }
}
