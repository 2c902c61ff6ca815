//! Reads an RDB file.

use std::io::{self, Read};
use std::str::FromStr;

use tollgate_keyspace::{DbIndex, Value};

use super::history::{
    History, LIMITERS_FROM_FIELD, REPL_ID_FIELD, REPL_OFFSET_FIELD, STREAM_DB_FIELD,
};
use super::{
    FLAGS_FIELD, LIMITER_FIELD, MAGIC, MAGIC_VALKEY, RdbError, STRING_MAX, Shapes, VERSION_VALKEY,
    is_readable, kind, length, limiter, opcode,
};
use crate::{crc64, lzf};

/// Bytes read from the source at once.
const CHUNK: usize = 64 << 10;

/// The number that a field holds.
fn number<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What the file says of the history of its data, as far as it was read.
#[derive(Default)]
struct Said {
    stream_db: Option<DbIndex>,
    id: Option<String>,
    offset: Option<u64>,
    limiters_from: Option<u64>,
}

impl Said {
    fn hear(&mut self, name: &[u8], value: &[u8]) {
        match std::str::from_utf8(name).unwrap_or_default() {
            STREAM_DB_FIELD => self.stream_db = number(value).and_then(DbIndex::new),
            REPL_ID_FIELD if value.len() == History::ID_LEN => {
                self.id = String::from_utf8(value.to_vec()).ok();
            }
            // A number with a sign, as everywhere.
            REPL_OFFSET_FIELD => {
                let offset = number::<i64>(value);
                self.offset = offset.and_then(|offset| offset.try_into().ok());
            }
            LIMITERS_FROM_FIELD => self.limiters_from = number(value),
            _ => {}
        }
    }
}

/// One key of a file.
pub struct Entry {
    /// Its database.
    pub db: DbIndex,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Value,
    /// When it expires, Unix milliseconds; may have passed.
    pub expires_at_ms: Option<i64>,
    /// Flags that a Memcached client has given a string.
    pub flags: u32,
    /// Seconds since it was last used, if the file says so.
    pub idle_secs: Option<u64>,
    /// How often it was used, if the file says so.
    pub frequency: Option<u8>,
}

/// A file being read, from the front; allocates no more than it has read bytes.
pub struct Reader<'r> {
    source: Source<'r>,
    version: u32,
    db: DbIndex,
    done: bool,
    shapes: Shapes,
    /// Code of the libraries met since they were last taken.
    libraries: Vec<Vec<u8>>,
    said: Said,
}

/// A length, or a special encoding of a string.
enum Length {
    Plain(u64),
    Special(u8),
}

impl<'r> Reader<'r> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// The file is not an RDB file, or of a version that is not known.
    pub fn new(source: &'r mut dyn Read) -> Result<Reader<'r>, RdbError> {
        let mut source = Source::new(source);
        let mut header = [0; 9];
        source.exact(&mut header).map_err(|error| match error {
            RdbError::Truncated { .. } => RdbError::NotRdb,
            other => other,
        })?;
        let digits = header
            .strip_prefix(MAGIC)
            .or_else(|| header.strip_prefix(MAGIC_VALKEY))
            .filter(|digits| digits.iter().all(u8::is_ascii_digit))
            .ok_or(RdbError::NotRdb)?;
        let version = digits
            .iter()
            .fold(0, |version, digit| version * 10 + u32::from(digit - b'0'));
        // Each magic has versions of its own.
        let is_valkey = header.starts_with(MAGIC_VALKEY);
        if !is_readable(version) || is_valkey != (version == VERSION_VALKEY) {
            return Err(RdbError::Version { found: version });
        }
        Ok(Reader {
            source,
            version,
            db: DbIndex::ZERO,
            done: false,
            shapes: Shapes::default(),
            libraries: Vec::new(),
            said: Said::default(),
        })
    }

    /// Lets collections take the forms that these limits ask for.
    pub fn shaped(mut self, shapes: Shapes) -> Reader<'r> {
        self.shapes = shapes;
        self
    }

    /// Takes the file without looking at its checksum (`rdbchecksum no`).
    pub fn unchecked(mut self) -> Reader<'r> {
        self.source.checked = false;
        self
    }

    /// Whether the types are those of Valkey.
    pub(super) fn is_of_valkey(&self) -> bool {
        self.version == VERSION_VALKEY
    }

    /// Reads the elements of a file of this version without its header, as payloads have them.
    pub(super) fn bare(source: &'r mut dyn Read, version: u32) -> Reader<'r> {
        Reader {
            source: Source::new(source),
            version,
            db: DbIndex::ZERO,
            done: false,
            shapes: Shapes::default(),
            libraries: Vec::new(),
            said: Said::default(),
        }
    }

    /// Bytes read.
    pub(super) fn offset(&self) -> u64 {
        self.source.offset
    }

    pub(super) fn byte(&mut self) -> Result<u8, RdbError> {
        self.source.byte()
    }

    /// Behind the last entry: the bytes after the end of the file that were read from the source already, as one that
    /// commands follow has them, and where they begin.
    pub fn rest(&self) -> (&[u8], u64) {
        (&self.source.chunk[self.source.at..], self.source.offset)
    }

    /// The code of the libraries of functions that have been met; files have them before their keys.
    pub fn take_libraries(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.libraries)
    }

    /// The database that is selected in the stream of commands behind the file, if the file says so: one for a replica does.
    pub fn stream_db(&self) -> Option<DbIndex> {
        self.said.stream_db
    }

    /// The place of the data in a history, if the file says all of it.
    pub fn history(&self) -> Option<History> {
        Some(History {
            stream_db: self.said.stream_db?,
            id: self.said.id.clone()?,
            offset: self.said.offset?,
            limiters_from: self.said.limiters_from,
        })
    }

    /// The next key; `None` after the last, when the checksum has been found right.
    ///
    /// # Errors
    ///
    /// After an error nothing more can be read.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would invite to skip errors"
    )]
    pub fn next(&mut self) -> Result<Option<Entry>, RdbError> {
        let (mut expires_at_ms, mut idle_secs, mut frequency) = (None, None, None);
        let mut flags = 0;
        while !self.done {
            match self.source.byte()? {
                opcode::EOF => self.end()?,
                opcode::SELECT_DB => self.select()?,
                opcode::RESIZE_DB => {
                    self.plain_length()?;
                    self.plain_length()?;
                }
                opcode::AUX => {
                    let name = self.string()?;
                    let value = self.string()?;
                    if name == LIMITER_FIELD {
                        return self.limiter(&value).map(Some);
                    }
                    if name == FLAGS_FIELD {
                        flags = limiter::read_flags(&value);
                    }
                    self.said.hear(&name, &value);
                }
                opcode::EXPIRE_TIME_MS => expires_at_ms = Some(i64::from_le_bytes(self.array()?)),
                opcode::EXPIRE_TIME => {
                    expires_at_ms = Some(i64::from(i32::from_le_bytes(self.array()?)) * 1_000);
                }
                opcode::IDLE => idle_secs = Some(self.plain_length()?),
                opcode::FREQ => frequency = Some(self.source.byte()?),
                kind @ (opcode::FUNCTION2 | opcode::FUNCTION_PRE_GA) => {
                    let library = super::libraries::read_library(self, kind)?;
                    self.libraries.extend(library);
                }
                opcode::MODULE_AUX => return Err(of_module("module's data", Vec::new())),
                opcode::SLOT_INFO => {
                    for _ in 0..3 {
                        self.plain_length()?;
                    }
                }
                kind::MODULE | kind::MODULE_2 => {
                    return Err(of_module("module's value", self.string()?));
                }
                kind => {
                    let key = self.string()?;
                    let shapes = self.shapes;
                    let expires_at_ms = expires_at_ms.take();
                    let (idle_secs, frequency) = (idle_secs.take(), frequency.take());
                    let flags = std::mem::take(&mut flags);
                    if let Some(value) = self.value(kind, &shapes)? {
                        return Ok(Some(Entry {
                            flags,
                            db: self.db,
                            key,
                            value,
                            expires_at_ms,
                            idle_secs,
                            frequency,
                        }));
                    }
                }
            }
        }
        Ok(None)
    }

    fn end(&mut self) -> Result<(), RdbError> {
        let computed = self.source.checksum;
        self.done = true;
        if self.version < 5 {
            return Ok(());
        }
        let found = u64::from_le_bytes(self.array()?);
        // Zero says that the writer computed none.
        if found == 0 || !self.source.checked || found == computed {
            Ok(())
        } else {
            Err(RdbError::Checksum { found, computed })
        }
    }

    fn select(&mut self) -> Result<(), RdbError> {
        let index = self.plain_length()?;
        let db = usize::try_from(index).ok().and_then(DbIndex::new);
        self.db = db.ok_or_else(|| self.source.corrupt("a database number above 15"))?;
        Ok(())
    }

    fn limiter(&mut self, field: &[u8]) -> Result<Entry, RdbError> {
        match limiter::read(field) {
            Some((db, key, value, expires_at_ms)) => Ok(Entry {
                flags: 0,
                db,
                key: key.to_vec(),
                value,
                expires_at_ms,
                idle_secs: None,
                frequency: None,
            }),
            None => Err(self.source.corrupt("a malformed rate limiter")),
        }
    }

    pub(super) fn corrupt(&self, what: &'static str) -> RdbError {
        self.source.corrupt(what)
    }

    /// So many bytes as they are.
    pub(super) fn bytes(&mut self, len: usize) -> Result<Vec<u8>, RdbError> {
        self.source.vec(len)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut bytes = [0; N];
        self.source.exact(&mut bytes)?;
        Ok(bytes)
    }

    fn length(&mut self) -> Result<Length, RdbError> {
        let first = self.source.byte()?;
        Ok(match (first >> 6, first) {
            (length::SIX_BITS, _) => Length::Plain(u64::from(first)),
            (length::FOURTEEN_BITS, _) => {
                Length::Plain(u64::from(first & 0x3F) << 8 | u64::from(self.source.byte()?))
            }
            (length::SPECIAL, _) => Length::Special(first & 0x3F),
            (_, length::THIRTY_TWO_BITS) => {
                Length::Plain(u64::from(u32::from_be_bytes(self.array()?)))
            }
            (_, length::SIXTY_FOUR_BITS) => Length::Plain(u64::from_be_bytes(self.array()?)),
            _ => return Err(self.source.corrupt("an unknown form of a length")),
        })
    }

    pub(super) fn plain_length(&mut self) -> Result<u64, RdbError> {
        match self.length()? {
            Length::Plain(len) => Ok(len),
            Length::Special(_) => Err(self
                .source
                .corrupt("an encoded string in place of a length")),
        }
    }

    /// A length that can be one of a string.
    fn string_length(&mut self) -> Result<usize, RdbError> {
        let len = self.plain_length()?;
        self.check_length(len)
    }

    fn check_length(&self, len: u64) -> Result<usize, RdbError> {
        match usize::try_from(len) {
            Ok(len) if len <= STRING_MAX => Ok(len),
            _ => Err(self.source.corrupt("a string longer than 4 GiB")),
        }
    }

    pub(super) fn string(&mut self) -> Result<Vec<u8>, RdbError> {
        let special = match self.length()? {
            Length::Plain(len) => {
                let len = self.check_length(len)?;
                return self.source.vec(len);
            }
            Length::Special(special) => special,
        };
        let number = match special {
            length::INT8 => i32::from(i8::from_le_bytes(self.array()?)),
            length::INT16 => i32::from(i16::from_le_bytes(self.array()?)),
            length::INT32 => i32::from_le_bytes(self.array()?),
            length::LZF => {
                let compressed = self.string_length()?;
                let len = self.string_length()?;
                let compressed = self.source.vec(compressed)?;
                return lzf::decompress(&compressed, len)
                    .ok_or_else(|| self.source.corrupt("a damaged compressed string"));
            }
            _ => return Err(self.source.corrupt("an unknown form of a string")),
        };
        Ok(number.to_string().into_bytes())
    }
}

/// The bytes of a file with their offset and checksum.
struct Source<'r> {
    source: &'r mut dyn Read,
    chunk: Vec<u8>,
    /// Next byte in the chunk.
    at: usize,
    /// Bytes handed out.
    offset: u64,
    /// Of the bytes handed out.
    checksum: u64,
    /// The checksum is wanted.
    checked: bool,
}

impl<'r> Source<'r> {
    fn new(source: &'r mut dyn Read) -> Source<'r> {
        Source {
            source,
            chunk: Vec::new(),
            at: 0,
            offset: 0,
            checksum: 0,
            checked: true,
        }
    }

    fn corrupt(&self, what: &'static str) -> RdbError {
        RdbError::Corrupt {
            offset: self.offset,
            what,
        }
    }

    /// Makes sure that the chunk has an unread byte.
    fn fill(&mut self) -> Result<(), RdbError> {
        if self.at < self.chunk.len() {
            return Ok(());
        }
        self.chunk.resize(CHUNK, 0);
        self.at = 0;
        loop {
            match self.source.read(&mut self.chunk) {
                Ok(0) => {
                    self.chunk.clear();
                    return Err(RdbError::Truncated {
                        offset: self.offset,
                    });
                }
                Ok(len) => {
                    self.chunk.truncate(len);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.chunk.clear();
                    return Err(RdbError::Io(error));
                }
            }
        }
    }

    /// Hands out up to `most` of the bytes at hand, at least one.
    fn piece(&mut self, most: usize) -> Result<&[u8], RdbError> {
        self.fill()?;
        let len = most.min(self.chunk.len() - self.at);
        let piece = &self.chunk[self.at..self.at + len];
        self.at += len;
        self.offset += len as u64;
        if self.checked {
            self.checksum = crc64::update(self.checksum, piece);
        }
        Ok(piece)
    }

    fn byte(&mut self) -> Result<u8, RdbError> {
        Ok(self.piece(1)?[0])
    }

    fn exact(&mut self, mut buffer: &mut [u8]) -> Result<(), RdbError> {
        while !buffer.is_empty() {
            let piece = self.piece(buffer.len())?;
            let (now, later) = buffer.split_at_mut(piece.len());
            now.copy_from_slice(piece);
            buffer = later;
        }
        Ok(())
    }

    /// `len` bytes; the buffer grows with what has been read, whatever the length promises.
    fn vec(&mut self, len: usize) -> Result<Vec<u8>, RdbError> {
        let mut bytes = Vec::with_capacity(len.min(CHUNK));
        while bytes.len() < len {
            let piece = self.piece(len - bytes.len())?;
            bytes.extend_from_slice(piece);
        }
        Ok(bytes)
    }
}
/// What only a module could read.
fn of_module(name: &'static str, key: Vec<u8>) -> RdbError {
    RdbError::Type { name, key }
}
