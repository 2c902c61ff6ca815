//! The commands of an append-only file.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

use tollgate_wire::resp::parse_int;

/// Bytes read from the source at once.
const CHUNK: usize = 256 << 10;

/// Longest line before an argument, and longest annotation, bytes.
const LINE_MAX: usize = 1024;

/// A file of commands being read, from the front; allocates no more than it has read bytes.
pub struct Records<R> {
    source: R,
    buffer: Vec<u8>,
    /// First byte of the buffer that is not done with.
    at: usize,
    /// Where that byte is in the file.
    offset: u64,
    /// The source has no more.
    ended: bool,
    words: Vec<Range<usize>>,
}

/// One command of a file.
#[derive(Debug)]
pub struct Record<'a> {
    buffer: &'a [u8],
    words: &'a [Range<usize>],
    /// Where it begins.
    pub offset: u64,
}

impl<'a> Record<'a> {
    /// Its name and arguments; at least one.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let buffer = self.buffer;
        self.words.iter().map(move |word| &buffer[word.clone()])
    }
}

/// Why the next command cannot be read.
#[derive(Debug)]
pub enum RecordsError {
    /// Reading failed.
    Io(io::Error),
    /// The file ends in the middle of a command, which begins here.
    Torn {
        /// Bytes from the start of the file.
        offset: u64,
    },
    /// What is here is no command.
    Malformed {
        /// Bytes from the start of the file.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordsError::Io(error) => write!(f, "reading the file: {error}"),
            RecordsError::Torn { offset } => {
                write!(
                    f,
                    "the file ends in the middle of the command at offset {offset}"
                )
            }
            RecordsError::Malformed { offset, what } => write!(f, "{what} at offset {offset}"),
        }
    }
}

impl std::error::Error for RecordsError {}

/// Why a line or a word cannot be had.
enum Stop {
    Io(io::Error),
    End,
    Bad(&'static str),
}

impl<R: Read> Records<R> {
    /// Begins at byte `offset` of a file, of which `before` has been read already and `source` gives the rest.
    pub fn new(source: R, before: Vec<u8>, offset: u64) -> Records<R> {
        Records {
            source,
            buffer: before,
            at: 0,
            offset,
            ended: false,
            words: Vec::new(),
        }
    }

    /// Where the next command begins, as far as no annotation is before it.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next command; annotations are passed over. `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// After an error nothing more can be read.
    #[allow(
        clippy::should_implement_trait,
        reason = "what is given lends from the reader"
    )]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, RecordsError> {
        loop {
            if self.at > 0 && self.at >= self.buffer.len() / 2 {
                self.buffer.drain(..self.at);
                self.at = 0;
                self.buffer.shrink_to(4 * CHUNK);
            }
            if self.at == self.buffer.len() && !self.fill().map_err(RecordsError::Io)? {
                return Ok(None);
            }
            let offset = self.offset;
            let read = if self.buffer[self.at] == b'#' {
                self.line(self.at).map(|line| (line.end + 1, false))
            } else {
                self.command().map(|end| (end, true))
            };
            let (end, is_command) = read.map_err(|stop| match stop {
                Stop::Io(error) => RecordsError::Io(error),
                Stop::End => RecordsError::Torn { offset },
                Stop::Bad(what) => RecordsError::Malformed { offset, what },
            })?;
            self.offset += (end - self.at) as u64;
            self.at = end;
            if is_command {
                return Ok(Some(Record {
                    buffer: &self.buffer,
                    words: &self.words,
                    offset,
                }));
            }
        }
    }

    /// Reads more; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let len = self.buffer.len();
        self.buffer.resize(len + CHUNK, 0);
        loop {
            match self.source.read(&mut self.buffer[len..]) {
                Ok(read) => {
                    self.buffer.truncate(len + read);
                    self.ended = read == 0;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.buffer.truncate(len);
                    return Err(error);
                }
            }
        }
    }

    fn more(&mut self) -> Result<(), Stop> {
        match self.fill() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stop::End),
            Err(error) => Err(Stop::Io(error)),
        }
    }

    /// The line that begins at `start`; a newline is behind it.
    fn line(&mut self, start: usize) -> Result<Range<usize>, Stop> {
        let mut seen = start;
        loop {
            let rest = &self.buffer[seen..];
            if let Some(len) = rest.iter().position(|&byte| byte == b'\n') {
                return Ok(start..seen + len);
            }
            seen = self.buffer.len();
            if seen - start > LINE_MAX {
                return Err(Stop::Bad("a line that is too long"));
            }
            self.more()?;
        }
    }

    /// The number on the line at `start`, behind `mark`, and where the next line begins.
    fn number(&mut self, start: usize, mark: u8, what: &'static str) -> Result<(i64, usize), Stop> {
        while self.buffer.len() <= start {
            self.more()?;
        }
        if self.buffer[start] != mark {
            return Err(Stop::Bad(what));
        }
        let line = self.line(start)?;
        let text = &self.buffer[line.start + 1..line.end];
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let number = parse_int(text).ok_or(Stop::Bad(what))?;
        Ok((number, line.end + 1))
    }

    /// Reads the command at the front; where it ends.
    fn command(&mut self) -> Result<usize, Stop> {
        const COUNT: &str = "no number of arguments";
        const LENGTH: &str = "no length of an argument";
        self.words.clear();
        let (count, mut at) = self.number(self.at, b'*', COUNT)?;
        if !(1..=i64::from(i32::MAX)).contains(&count) {
            return Err(Stop::Bad(COUNT));
        }
        for _ in 0..count {
            let (len, start) = self.number(at, b'$', LENGTH)?;
            let len = usize::try_from(len).map_err(|_| Stop::Bad(LENGTH))?;
            let end = start.checked_add(len).ok_or(Stop::Bad(LENGTH))?;
            while self.buffer.len() < end.saturating_add(2) {
                self.more()?;
            }
            if &self.buffer[end..end + 2] != b"\r\n" {
                return Err(Stop::Bad("no end of an argument"));
            }
            self.words.push(start..end);
            at = end + 2;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::resp::write_command;

    /// Gives a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    fn read(file: &[u8], step: usize) -> (Vec<String>, Result<u64, RecordsError>) {
        let mut records = Records::new(Drops(file, step), Vec::new(), 0);
        let mut texts = Vec::new();
        loop {
            match records.next() {
                Ok(Some(record)) => {
                    let words = record.words().map(|word| word.escape_ascii().to_string());
                    texts.push(words.collect::<Vec<_>>().join(" "));
                }
                Ok(None) => return (texts, Ok(records.offset())),
                Err(error) => return (texts, Err(error)),
            }
        }
    }

    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        write_command(&mut file, &[b"SELECT", b"0"]);
        file.extend_from_slice(b"#TS:1628217470\r\n");
        write_command(&mut file, &[b"SET", b"a", b"\r\n*1\r\n"]);
        write_command(&mut file, &[b"SET", b"", b""]);
        file
    }

    #[test]
    fn commands_come_in_pieces_of_any_size() {
        let file = file();
        for step in [1, 2, 3, 7, 1_000] {
            let (texts, end) = read(&file, step);
            assert_eq!(texts, ["SELECT 0", "SET a \\r\\n*1\\r\\n", "SET  "]);
            assert_eq!(end.expect("it is whole"), file.len() as u64);
        }
    }

    #[test]
    fn every_torn_end_is_told_with_the_place_to_cut() {
        let file = file();
        let whole: Vec<usize> = (0..=file.len())
            .filter(|&len| read(&file[..len], 64).1.is_ok())
            .collect();
        // Behind each command, and behind the annotation.
        assert_eq!(whole.len(), 5);
        for len in 0..file.len() {
            let before = whole.iter().rfind(|&&end| end <= len).expect("0 is one");
            match read(&file[..len], 64).1 {
                Ok(offset) => assert_eq!(offset, len as u64),
                Err(RecordsError::Torn { offset }) => assert_eq!(offset, *before as u64),
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn what_is_no_command_is_told_with_its_place() {
        let start = b"*1\r\n$4\r\nPING\r\n";
        for bad in [
            &b"PING\r\n"[..],
            b"*0\r\n",
            b"*-1\r\n",
            b"*x\r\n",
            b"\0\0\0\0",
            b"*1\r\n+OK\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$4\r\nPINGPONG\r\n",
            b"*1\r\n$18446744073709551615\r\n",
        ] {
            let (texts, error) = read(&[start, bad].concat(), 5);
            assert_eq!(texts.len(), 1);
            let error = error.expect_err("it is no command");
            assert!(
                matches!(error, RecordsError::Malformed { offset, .. } if offset == start.len() as u64),
                "{error}"
            );
        }
        // What is announced is not allocated.
        let (_, error) = read(b"*1000000000\r\n$1000000000000\r\nx", 5);
        assert!(matches!(error, Err(RecordsError::Torn { offset: 0 })));
    }
}
