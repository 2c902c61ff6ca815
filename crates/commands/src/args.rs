//! The one cursor over a command's words.

use tollgate_containers::number::{self, Extended};
use tollgate_keyspace::{DbIndex, Key, Seed};

use crate::{CmdError, StoreLimits};

/// The words of a command; the cursor stands behind its name (and its sub-command's).
#[derive(Clone)]
pub struct Args<'a> {
    words: &'a [&'a [u8]],
    pos: usize,
    seed: &'a Seed,
    /// Keys that the caller has hashed already to find their shards, in the order of their words.
    keys: &'a [Key<'a>],
}

impl<'a> Args<'a> {
    /// A cursor over `words` (the whole command), standing behind the `name_words` of its name.
    #[inline]
    pub fn new(words: &'a [&'a [u8]], name_words: usize, seed: &'a Seed) -> Args<'a> {
        Args {
            words,
            pos: name_words,
            seed,
            keys: &[],
        }
    }

    /// As [`Args::new`], with those of its keys that are hashed already, in the order of their words.
    #[inline]
    pub fn with_keys(self, keys: &'a [Key<'a>]) -> Args<'a> {
        Args { keys, ..self }
    }

    /// The whole command, name included.
    #[inline]
    pub fn all(&self) -> &'a [&'a [u8]] {
        self.words
    }

    /// Words left.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "is_empty stands below")]
    pub fn len(&self) -> usize {
        self.words.len() - self.pos
    }

    /// True when no word is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pos == self.words.len()
    }

    /// The words left.
    #[inline]
    pub fn rest(&self) -> &'a [&'a [u8]] {
        &self.words[self.pos..]
    }

    /// The next word, left in place.
    #[inline]
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.words.get(self.pos).copied()
    }

    /// The next word; a syntax error when there is none.
    #[inline]
    #[allow(
        clippy::should_implement_trait,
        reason = "running out is an error, not an end"
    )]
    pub fn next(&mut self) -> Result<&'a [u8], CmdError> {
        let word = self.peek().ok_or(CmdError::Syntax)?;
        self.pos += 1;
        Ok(word)
    }

    /// The next `count` words, unless there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [&'a [u8]]> {
        let taken = self.rest().get(..count)?;
        self.pos += count;
        Some(taken)
    }

    /// The next word as a key.
    // Always inlined: a key that is returned through memory is read back in other pieces than it was written, and the
    // processor waits for that.
    #[inline(always)]
    pub fn key(&mut self) -> Result<Key<'a>, CmdError> {
        let word = self.next()?;
        match self.keys {
            [key, rest @ ..] if std::ptr::eq(key.bytes(), word) => {
                self.keys = rest;
                Ok(*key)
            }
            _ => Ok(self.hashed(word)),
        }
    }

    #[cold]
    fn hashed(&self, word: &'a [u8]) -> Key<'a> {
        self.seed.key(word)
    }

    /// The next word as an integer.
    #[inline]
    pub fn int(&mut self) -> Result<i64, CmdError> {
        number::parse_i64(self.next()?).ok_or(CmdError::NotAnInteger)
    }

    /// The next word as an integer that is not negative.
    pub fn positive(&mut self) -> Result<usize, CmdError> {
        let number =
            number::parse_i64(self.next()?).and_then(|number| usize::try_from(number).ok());
        number.ok_or(CmdError::NotPositive)
    }

    /// The next word as a count whose sign means something.
    pub(crate) fn signed_count(&mut self) -> Result<i64, CmdError> {
        match self.int()? {
            i64::MIN => Err(CmdError::CountOutOfRange),
            count => Ok(count),
        }
    }

    /// The next word as the number of a database that clients may use.
    pub fn database(&mut self, limits: &StoreLimits) -> Result<DbIndex, CmdError> {
        limits.database(self.i32()?)
    }

    /// The next word as the number of a database, as masters and files have it.
    pub fn any_database(&mut self) -> Result<DbIndex, CmdError> {
        let index = usize::try_from(self.i32()?).ok().and_then(DbIndex::new);
        index.ok_or(CmdError::DbOutOfRange)
    }

    fn i32(&mut self) -> Result<i32, CmdError> {
        i32::try_from(self.int()?).map_err(|_| CmdError::NotAnInt32)
    }

    /// The next word as a time-out in seconds, with fractions; the deadline from `now_ms` in Unix milliseconds, or
    /// `None` for 0: to wait for ever.
    pub fn timeout(&mut self, now_ms: i64) -> Result<Option<i64>, CmdError> {
        let seconds = Extended::parse(self.next()?).ok_or(CmdError::TimeoutNotAFloat)?;
        // Beyond its integers C has the most negative one.
        let millis = seconds.ceil_thousandths();
        deadline(millis.ok_or(CmdError::TimeoutNegative)?, now_ms)
    }

    /// The next word as a time-out in whole milliseconds, otherwise as [`Args::timeout`].
    pub fn timeout_ms(&mut self, now_ms: i64) -> Result<Option<i64>, CmdError> {
        let millis = number::parse_i64(self.next()?).ok_or(CmdError::TimeoutNotAnInteger)?;
        deadline(millis, now_ms)
    }

    /// Takes the next word when it is `keyword` (given in upper case), in any case.
    #[inline]
    pub fn keyword(&mut self, keyword: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|word| word.eq_ignore_ascii_case(keyword.as_bytes()));
        self.pos += usize::from(found);
        found
    }

    /// Syntax error unless every word has been taken.
    #[inline]
    pub fn end(&self) -> Result<(), CmdError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(CmdError::Syntax)
        }
    }
}

fn deadline(millis: i64, now_ms: i64) -> Result<Option<i64>, CmdError> {
    match millis {
        ..0 => Err(CmdError::TimeoutNegative),
        0 => Ok(None),
        // What ends beyond all times does not end.
        _ => Ok(now_ms.checked_add(millis)),
    }
}
