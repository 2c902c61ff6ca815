//! The manifest of an append-only file.
//!
//! A line for each file: `file appendonly.aof.1.base.rdb seq 1 type b`, the base first, then files of no use any more,
//! then the files of commands in their order. Names with other than plain letters are quoted. Lines that begin with `#` say
//! nothing, and so do words that are not known.

use std::fmt::{self, Write};

use tollgate_containers::number;
use tollgate_wire::resp::split_line;

/// Longest line, bytes.
const LINE_MAX: usize = 1024;

/// Longest name of a file, bytes: quoted, four for each, it fits in a line.
const NAME_MAX: usize = 240;

/// Highest number of a file that is read: so many more can follow that the number never overflows.
const SEQ_MAX: i64 = i64::MAX / 2;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// All data at one moment.
    Base,
    /// Of no use any more, and about to be deleted.
    History,
    /// The commands that followed.
    Incr,
}

impl FileKind {
    fn letter(self) -> char {
        match self {
            FileKind::Base => 'b',
            FileKind::History => 'h',
            FileKind::Incr => 'i',
        }
    }
}

/// A file that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// In the folder of the manifest.
    pub name: String,
    /// Counted from 1 among bases, or among files of commands.
    pub seq: i64,
}

/// The files of one append-only file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// All data at one moment; absent when they began with nothing.
    pub base: Option<NamedFile>,
    /// The commands that followed, in this order.
    pub incr: Vec<NamedFile>,
    /// What is to be deleted.
    pub history: Vec<NamedFile>,
}

/// Why a manifest cannot be read. The texts are those of redis-server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestError {
    /// The line, counted from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// What is wrong.
    pub reason: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.escape_debug();
        write!(f, "at line {}, '{text}': {}", self.line, self.reason)
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// Reads the text of a manifest.
    ///
    /// # Errors
    ///
    /// A line that no writer would produce.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest::default();
        let lines = bytes.split_inclusive(|&byte| byte == b'\n');
        let mut last = 0;
        for (at, line) in lines.enumerate() {
            last = at + 1;
            manifest.take_line(line).map_err(|reason| ManifestError {
                line: at + 1,
                text: String::from_utf8_lossy(&line[..line.len().min(LINE_MAX)])
                    .trim()
                    .to_owned(),
                reason,
            })?;
        }
        if last == 0 {
            return Err(ManifestError {
                line: 1,
                text: String::new(),
                reason: "Found an empty AOF manifest",
            });
        }
        Ok(manifest)
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        const INVALID: &str = "Invalid AOF manifest file format";
        if line.starts_with(b"#") {
            return Ok(());
        }
        let line = match line.split_last() {
            Some((b'\n', line)) if line.len() <= LINE_MAX => line,
            _ => return Err("The AOF manifest file contains too long line"),
        };
        let mut words: Vec<Vec<u8>> = Vec::new();
        split_line(line, |word| words.push(word.to_vec())).map_err(|_| INVALID)?;
        let (pairs, odd) = words.as_chunks::<2>();
        if pairs.len() < 3 || !odd.is_empty() {
            return Err(INVALID);
        }
        let (mut name, mut seq, mut kind) = (None, 0, None);
        for [word, value] in pairs {
            if word.eq_ignore_ascii_case(b"file") {
                let text = str::from_utf8(value).map_err(|_| INVALID)?;
                if text.contains(['/', '\\']) || matches!(text, "." | "..") {
                    return Err("File can't be a path, just a filename");
                }
                if text.len() > NAME_MAX || text.contains('\0') {
                    return Err(INVALID);
                }
                name = Some(text.to_owned());
            } else if word.eq_ignore_ascii_case(b"seq") {
                seq = number::parse_i64(value).unwrap_or(0);
            } else if word.eq_ignore_ascii_case(b"type") {
                kind = value.first().copied();
            }
        }
        let (Some(name), Some(kind)) = (name.filter(|name| !name.is_empty()), kind) else {
            return Err(INVALID);
        };
        if !(1..=SEQ_MAX).contains(&seq) {
            return Err(INVALID);
        }
        let file = NamedFile { name, seq };
        match kind {
            b'b' if self.base.is_some() => return Err("Found duplicate base file information"),
            b'b' => self.base = Some(file),
            b'h' => self.history.push(file),
            b'i' if self.incr.last().is_some_and(|last| seq <= last.seq) => {
                return Err("Found a non-monotonic sequence number");
            }
            b'i' => self.incr.push(file),
            _ => return Err("Unknown AOF file type"),
        }
        Ok(())
    }

    /// The text of the manifest.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let base = self.base.iter().map(|file| (FileKind::Base, file));
        let history = self.history.iter().map(|file| (FileKind::History, file));
        let incr = self.incr.iter().map(|file| (FileKind::Incr, file));
        for (kind, NamedFile { name, seq }) in base.chain(history).chain(incr) {
            text.push_str("file ");
            push_name(&mut text, name);
            // A string takes whatever is written to it.
            writeln!(text, " seq {seq} type {}", kind.letter()).ok();
        }
        text
    }

    /// There is neither a base nor a file of commands.
    pub fn is_empty(&self) -> bool {
        self.base.is_none() && self.incr.is_empty()
    }

    /// The files that make up the data, in their order.
    pub fn files(&self) -> impl Iterator<Item = (FileKind, &NamedFile)> {
        let base = self.base.iter().map(|file| (FileKind::Base, file));
        base.chain(self.incr.iter().map(|file| (FileKind::Incr, file)))
    }

    /// Adds a file of commands behind the others. `stem` is `appendfilename`.
    pub fn add_incr(&mut self, stem: &str) -> &NamedFile {
        let past = self.history.iter();
        let past = past.filter(|file| file.name.ends_with(".incr.aof"));
        let seqs = self.incr.iter().chain(past).map(|file| file.seq);
        let seq = 1 + seqs.max().unwrap_or(0);
        self.incr.push(NamedFile {
            name: format!("{stem}.{seq}.incr.aof"),
            seq,
        });
        &self.incr[self.incr.len() - 1]
    }

    /// Sets a new base; the old one and the files of commands behind it are history. `suffix` is `rdb` or `aof`.
    pub fn renew(&mut self, stem: &str, suffix: &str) -> &NamedFile {
        let old = self.base.take();
        let seq = 1 + old.as_ref().map_or(0, |base| base.seq);
        self.history.extend(old);
        self.history.append(&mut self.incr);
        self.base.insert(NamedFile {
            name: format!("{stem}.{seq}.base.{suffix}"),
            seq,
        })
    }
}

/// Adds a name, quoted if it has to be.
fn push_name(text: &mut String, name: &str) {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\');
    if name.chars().all(is_plain) {
        return text.push_str(name);
    }
    text.push('"');
    for &byte in name.as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(byte)),
            other => {
                write!(text, "\\x{other:02x}").ok();
            }
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> (usize, &'static str) {
        let error = Manifest::parse(text.as_bytes()).expect_err(text);
        (error.line, error.reason)
    }

    #[test]
    fn reads_what_redis_writes() {
        let text = "file appendonly.aof.2.base.rdb seq 2 type b\n\
                    file appendonly.aof.1.incr.aof seq 1 type h\n\
                    file appendonly.aof.2.incr.aof seq 2 type i\n\
                    file appendonly.aof.3.incr.aof seq 3 type i\n";
        let manifest = Manifest::parse(text.as_bytes()).expect("a manifest");
        assert_eq!(manifest.to_text(), text);
        assert_eq!(manifest.files().count(), 3);
        let commented = format!("# a word\n{text}#\n").replace("seq 3", "seq 3 more words");
        assert_eq!(Manifest::parse(commented.as_bytes()), Ok(manifest));
    }

    #[test]
    fn names_are_quoted_as_redis_quotes_them() {
        for name in [
            "a b.aof",
            "tab\t",
            "\"q\"",
            "back\\",
            "bell\x07",
            "ü",
            "plain.aof",
        ] {
            let mut manifest = Manifest::default();
            manifest.add_incr(name);
            let text = manifest.to_text();
            assert!(text.is_ascii(), "{text}");
            if name.contains('\\') {
                // A name like that is taken for a path.
                assert!(Manifest::parse(text.as_bytes()).is_err());
            } else {
                assert_eq!(Manifest::parse(text.as_bytes()), Ok(manifest), "{text}");
            }
        }
        let mut manifest = Manifest::default();
        manifest.add_incr("a b");
        assert_eq!(manifest.to_text(), "file \"a b.1.incr.aof\" seq 1 type i\n");
    }

    #[test]
    fn a_new_base_makes_history_of_what_was() {
        let mut manifest = Manifest::default();
        assert!(manifest.is_empty());
        assert_eq!(manifest.renew("x", "rdb").name, "x.1.base.rdb");
        assert_eq!(manifest.add_incr("x").name, "x.1.incr.aof");
        assert_eq!(manifest.renew("x", "aof").name, "x.2.base.aof");
        assert_eq!(manifest.add_incr("x").name, "x.2.incr.aof");
        assert_eq!(
            manifest.to_text(),
            "file x.2.base.aof seq 2 type b\n\
             file x.1.base.rdb seq 1 type h\n\
             file x.1.incr.aof seq 1 type h\n\
             file x.2.incr.aof seq 2 type i\n"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        const INVALID: &str = "Invalid AOF manifest file format";
        let first = "file a seq 1 type b\n";
        for (line, expected) in [
            ("\n", INVALID),
            ("file a seq 1\n", INVALID),
            ("file a seq 1 type i more\n", INVALID),
            ("file a seq 0 type i\n", INVALID),
            ("file a seq 9223372036854775807 type i\n", INVALID),
            ("file \"\\x00\" seq 1 type i\n", INVALID),
            ("file a seq x type i\n", INVALID),
            ("file \"a seq 1 type i\n", INVALID),
            ("file \"\" seq 1 type i\n", INVALID),
            (
                "file ../a seq 1 type i\n",
                "File can't be a path, just a filename",
            ),
            ("file a seq 1 type x\n", "Unknown AOF file type"),
            (first, "Found duplicate base file information"),
            (
                "file a seq 1 type i",
                "The AOF manifest file contains too long line",
            ),
        ] {
            assert_eq!(reason(&format!("{first}{line}")), (2, expected), "{line}");
        }
        let long = format!("file {} seq 1 type i\n", "a".repeat(LINE_MAX));
        assert_eq!(reason(&long).0, 1);
        assert_eq!(reason(""), (1, "Found an empty AOF manifest"));
        let twice = "file a seq 2 type i\nfile b seq 2 type i\n";
        assert_eq!(reason(twice), (2, "Found a non-monotonic sequence number"));
    }

    #[test]
    fn a_file_is_added_behind_one_of_any_name() {
        let text = "file other seq 7 type i\n";
        let mut manifest = Manifest::parse(text.as_bytes()).expect("it is whole");
        assert_eq!(manifest.add_incr("a").seq, 8);
        let again = Manifest::parse(manifest.to_text().as_bytes());
        assert_eq!(again.expect("an own text is whole"), manifest);
    }
}
