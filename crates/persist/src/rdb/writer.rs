//! Writes an RDB file.

use std::io::{self, Write};

use tollgate_containers::number;
use tollgate_keyspace::{DbIndex, ValueRef};

use super::draft::Draft;
use super::{
    FLAGS_FIELD, LIMITER_FIELD, MAGIC, MAGIC_VALKEY, VERSION, VERSION_VALKEY, encode, length,
    limiter, opcode,
};
use crate::crc64;
use crate::lzf::Compressor;

/// Bytes gathered before they are handed on.
const BUFFER: usize = 64 << 10;

/// Longest text that is looked at for an integer of 32 bits, bytes.
const INTEGER_MAX: usize = 11;

/// Longest string that is not compressed, bytes.
const UNCOMPRESSED_MAX: usize = 20;

/// Who is to read a file. It matters for hashes whose fields expire alone: each of the two knows its own form of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Redis, and Valkey where no fields expire.
    #[default]
    Redis,
    /// Valkey from version 9 on.
    Valkey,
}

/// What is done beside writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Strings are compressed where that makes them shorter (`rdbcompression`).
    pub compress: bool,
    /// There is a checksum at the end (`rdbchecksum`); zero stands for none.
    pub checksum: bool,
    /// Who is to read it.
    pub dialect: Dialect,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            compress: true,
            checksum: true,
            dialect: Dialect::Redis,
        }
    }
}

/// What becomes of strings that are worth to be compressed.
enum Long {
    Compressed(Box<Compressor>),
    /// They stay as they are.
    Plain,
    /// They are written without their length, and it is noted where; see [`Draft`].
    Noted(Vec<(usize, usize)>),
}

/// A file being written: databases one after the other, then [`Writer::finish`].
pub struct Writer<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    checksum: Option<u64>,
    db: DbIndex,
    long: Long,
    pub(super) dialect: Dialect,
    /// What is still to be said of databases when they are first selected: keys, and those with an expiry.
    sizes: Vec<(DbIndex, usize, usize)>,
}

impl<'w> Writer<'w> {
    /// Writes the header. `about` are auxiliary fields that describe the file, such as `redis-ver` and `ctime`.
    ///
    /// # Errors
    ///
    /// Those of `out`, here and below.
    pub fn new(
        out: &'w mut dyn Write,
        about: &[(&str, &str)],
        options: Options,
    ) -> io::Result<Writer<'w>> {
        let mut writer = Writer {
            out,
            buffer: Vec::with_capacity(BUFFER),
            checksum: options.checksum.then_some(0),
            db: DbIndex::ZERO,
            long: match options.compress {
                true => Long::Compressed(Box::default()),
                false => Long::Plain,
            },
            dialect: options.dialect,
            sizes: Vec::new(),
        };
        let (magic, version) = match options.dialect {
            Dialect::Redis => (MAGIC, format!("{VERSION:04}")),
            Dialect::Valkey => (MAGIC_VALKEY, format!("{VERSION_VALKEY:03}")),
        };
        writer.buffer.extend_from_slice(magic);
        writer.buffer.extend_from_slice(version.as_bytes());
        for (name, value) in about {
            writer.buffer.push(opcode::AUX);
            writer.string(name.as_bytes())?;
            writer.string(value.as_bytes())?;
        }
        Ok(writer)
    }

    /// Writes the elements of a file without header and end, as payloads have them.
    pub(super) fn bare(out: &'w mut dyn Write, compress: bool) -> Writer<'w> {
        Writer {
            out,
            buffer: Vec::new(),
            checksum: None,
            db: DbIndex::ZERO,
            long: match compress {
                true => Long::Compressed(Box::default()),
                false => Long::Plain,
            },
            dialect: Dialect::Redis,
            sizes: Vec::new(),
        }
    }

    /// Writes entries of one database behind `bytes` and keeps all of it, until [`Writer::end_draft`]. `noted`: where the
    /// long strings among the bytes are.
    pub(super) fn draft(
        out: &'w mut dyn Write,
        db: DbIndex,
        bytes: Vec<u8>,
        noted: Vec<(usize, usize)>,
        dialect: Dialect,
    ) -> Writer<'w> {
        Writer {
            out,
            buffer: bytes,
            checksum: None,
            db,
            long: Long::Noted(noted),
            dialect,
            sizes: Vec::new(),
        }
    }

    /// What was written so far, and where long strings are in it.
    pub(super) fn end_draft(self) -> (Vec<u8>, Vec<(usize, usize)>) {
        match self.long {
            Long::Noted(noted) => (self.buffer, noted),
            _ => (self.buffer, Vec::new()),
        }
    }

    /// Says of databases, when they are first selected, how many keys they have and how many of them expire: hints for
    /// whoever loads the file.
    pub fn announce(&mut self, sizes: Vec<(DbIndex, usize, usize)>) {
        self.sizes = sizes;
    }

    /// Hands on what [`Writer::bare`] has gathered.
    pub(super) fn end_bare(mut self) -> io::Result<()> {
        self.flush()
    }

    /// Writes the code of a library of functions; before the first database.
    pub fn lua_library(&mut self, code: &[u8]) -> io::Result<()> {
        self.buffer.push(opcode::FUNCTION2);
        self.string(code)
    }

    /// Starts a database; the counts are hints for whoever loads the file.
    pub fn database(&mut self, db: DbIndex, keys: usize, expiring: usize) -> io::Result<()> {
        self.db = db;
        self.buffer.push(opcode::SELECT_DB);
        self.length(db.get());
        self.buffer.push(opcode::RESIZE_DB);
        self.length(keys);
        self.length(expiring);
        self.flush_full()
    }

    /// Selects the database of the entries that follow, which may have had entries before.
    fn select(&mut self, db: DbIndex) -> io::Result<()> {
        if let Some(at) = self.sizes.iter().position(|size| size.0 == db) {
            let (_, keys, expiring) = self.sizes.swap_remove(at);
            return self.database(db, keys, expiring);
        }
        if self.db != db {
            self.db = db;
            self.buffer.push(opcode::SELECT_DB);
            self.length(db.get());
        }
        self.flush_full()
    }

    /// Writes the entries of a draft: what was left to be done of them is done now.
    pub fn append(&mut self, draft: &Draft) -> io::Result<()> {
        let mut start = 0;
        let mut noted = draft.noted.iter().copied().peekable();
        for &(db, end) in &draft.runs {
            self.select(db)?;
            while let Some((at, len)) = noted.next_if(|(at, _)| *at < end) {
                self.bytes(&draft.bytes[start..at])?;
                self.long_string(&draft.bytes[at..at + len])?;
                start = at + len;
            }
            self.bytes(&draft.bytes[start..end])?;
            start = end;
        }
        Ok(())
    }

    /// Writes one entry of the current database; `expires_at_ms` is in Unix milliseconds.
    pub fn entry(
        &mut self,
        key: &[u8],
        value: ValueRef<'_>,
        expires_at_ms: Option<i64>,
    ) -> io::Result<()> {
        if let Some(field) = limiter::field(self.db, key, value, expires_at_ms) {
            self.buffer.push(opcode::AUX);
            self.string(LIMITER_FIELD)?;
            self.string(&field)?;
            return self.flush_full();
        }
        if let Some(at) = expires_at_ms {
            self.buffer.push(opcode::EXPIRE_TIME_MS);
            self.buffer.extend_from_slice(&at.to_le_bytes());
        }
        self.buffer.push(encode::kind_of(value, self.dialect));
        self.string(key)?;
        self.value(value)?;
        self.flush_full()
    }

    /// Writes the flags that a Memcached client has given the string which is written next: as an auxiliary field, which Redis
    /// passes over. Nothing is written where there are none.
    pub fn flags(&mut self, flags: u32) -> io::Result<()> {
        if flags != 0 {
            self.buffer.push(opcode::AUX);
            self.string(FLAGS_FIELD)?;
            self.string(flags.to_string().as_bytes())?;
        }
        Ok(())
    }

    /// Writes the end and the checksum.
    pub fn finish(mut self) -> io::Result<()> {
        self.buffer.push(opcode::EOF);
        self.flush()?;
        let checksum = self.checksum.unwrap_or(0).to_le_bytes();
        self.out.write_all(&checksum)?;
        self.out.flush()
    }

    pub(super) fn length(&mut self, len: usize) {
        self.length64(len as u64);
    }

    pub(super) fn length64(&mut self, len: u64) {
        match len {
            0..0x40 => self.buffer.push(len as u8),
            0x40..0x4000 => self
                .buffer
                .extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
            _ => match u32::try_from(len) {
                Ok(len) => {
                    self.buffer.push(length::THIRTY_TWO_BITS);
                    self.buffer.extend_from_slice(&len.to_be_bytes());
                }
                Err(_) => {
                    self.buffer.push(length::SIXTY_FOUR_BITS);
                    self.buffer.extend_from_slice(&len.to_be_bytes());
                }
            },
        }
    }

    /// A string that is an integer: in one to four bytes when it fits, as digits otherwise.
    pub(super) fn integer(&mut self, number: i64) {
        let special = |kind: u8| length::SPECIAL << 6 | kind;
        if let Ok(number) = i8::try_from(number) {
            self.buffer
                .extend_from_slice(&[special(length::INT8), number as u8]);
        } else if let Ok(number) = i16::try_from(number) {
            self.buffer.push(special(length::INT16));
            self.buffer.extend_from_slice(&number.to_le_bytes());
        } else if let Ok(number) = i32::try_from(number) {
            self.buffer.push(special(length::INT32));
            self.buffer.extend_from_slice(&number.to_le_bytes());
        } else {
            let digits = number.to_string();
            self.length(digits.len());
            self.buffer.extend_from_slice(digits.as_bytes());
        }
    }

    /// A string in the shortest of its forms: as an integer, compressed, or as it is.
    pub(super) fn string(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() <= INTEGER_MAX
            && let Some(number) = number::parse_i64(bytes)
            && i32::try_from(number).is_ok()
        {
            self.integer(number);
            return Ok(());
        }
        if bytes.len() > UNCOMPRESSED_MAX {
            return self.long_string(bytes);
        }
        self.length(bytes.len());
        self.bytes(bytes)
    }

    /// A string that is worth to be compressed.
    fn long_string(&mut self, bytes: &[u8]) -> io::Result<()> {
        let compressed = match &mut self.long {
            Long::Compressed(compressor) => compressor.compress(bytes),
            Long::Plain => None,
            Long::Noted(noted) => {
                noted.push((self.buffer.len(), bytes.len()));
                self.buffer.extend_from_slice(bytes);
                return Ok(());
            }
        };
        if let Some(compressed) = compressed {
            self.buffer.push(length::SPECIAL << 6 | length::LZF);
            self.length(compressed.len());
            self.length(bytes.len());
            return self.bytes(&compressed);
        }
        self.length(bytes.len());
        self.bytes(bytes)
    }

    /// A draft hands nothing on.
    fn is_draft(&self) -> bool {
        matches!(self.long, Long::Noted(_))
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < BUFFER || self.is_draft() {
            self.buffer.extend_from_slice(bytes);
            return self.flush_full();
        }
        self.flush()?;
        self.checksum = self.checksum.map(|crc| crc64::update(crc, bytes));
        self.out.write_all(bytes)
    }

    fn flush_full(&mut self) -> io::Result<()> {
        if self.buffer.len() < BUFFER || self.is_draft() {
            Ok(())
        } else {
            self.flush()
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let buffer = &self.buffer;
        self.checksum = self.checksum.map(|crc| crc64::update(crc, buffer));
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
