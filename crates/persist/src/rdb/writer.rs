//! Writes an RDB file.

use std::io::{self, Write};

use tollgate_containers::number;
use tollgate_keyspace::{DbIndex, ValueRef};

use super::{FLAGS_FIELD, LIMITER_FIELD, MAGIC, VERSION, encode, length, limiter, opcode};
use crate::{crc64, lzf};

/// Bytes gathered before they are handed on.
const BUFFER: usize = 64 << 10;

/// Longest text that is looked at for an integer of 32 bits, bytes.
const INTEGER_MAX: usize = 11;

/// Longest string that is not compressed, bytes.
const UNCOMPRESSED_MAX: usize = 20;

/// A file being written: databases one after the other, then [`Writer::finish`].
pub struct Writer<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    checksum: u64,
    db: DbIndex,
    /// Bytes gathered before they are handed on.
    most: usize,
}

impl<'w> Writer<'w> {
    /// Writes the header. `about` are auxiliary fields that describe the file, such as `redis-ver` and `ctime`.
    ///
    /// # Errors
    ///
    /// Those of `out`, here and below.
    pub fn new(out: &'w mut dyn Write, about: &[(&str, &str)]) -> io::Result<Writer<'w>> {
        let mut writer = Writer {
            out,
            buffer: Vec::with_capacity(BUFFER),
            checksum: 0,
            db: DbIndex::ZERO,
            most: BUFFER,
        };
        writer.buffer.extend_from_slice(MAGIC);
        writer
            .buffer
            .extend_from_slice(format!("{VERSION:04}").as_bytes());
        for (name, value) in about {
            writer.buffer.push(opcode::AUX);
            writer.string(name.as_bytes())?;
            writer.string(value.as_bytes())?;
        }
        Ok(writer)
    }

    /// Writes the elements of a file without header and end, as payloads have them.
    pub(super) fn bare(out: &'w mut dyn Write) -> Writer<'w> {
        Writer {
            out,
            buffer: Vec::new(),
            checksum: 0,
            db: DbIndex::ZERO,
            most: BUFFER,
        }
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
    pub fn select(&mut self, db: DbIndex) -> io::Result<()> {
        if self.db != db {
            self.db = db;
            self.buffer.push(opcode::SELECT_DB);
            self.length(db.get());
        }
        self.flush_full()
    }

    /// Keeps what is written until [`Writer::hand_on`] is called: for a caller that must not wait for `out` meanwhile.
    pub fn gather(&mut self) {
        self.most = usize::MAX;
    }

    /// Hands on what has been gathered.
    pub fn hand_on(&mut self) -> io::Result<()> {
        self.flush()
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
        self.buffer.push(encode::kind_of(value));
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
        let checksum = self.checksum.to_le_bytes();
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
        if bytes.len() > UNCOMPRESSED_MAX
            && let Some(compressed) = lzf::compress(bytes)
        {
            self.buffer.push(length::SPECIAL << 6 | length::LZF);
            self.length(compressed.len());
            self.length(bytes.len());
            return self.bytes(&compressed);
        }
        self.length(bytes.len());
        self.bytes(bytes)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < self.most {
            self.buffer.extend_from_slice(bytes);
            return self.flush_full();
        }
        self.flush()?;
        self.checksum = crc64::update(self.checksum, bytes);
        self.out.write_all(bytes)
    }

    fn flush_full(&mut self) -> io::Result<()> {
        if self.buffer.len() < self.most {
            Ok(())
        } else {
            self.flush()
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.checksum = crc64::update(self.checksum, &self.buffer);
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
