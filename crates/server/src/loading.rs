//! How far the data of the start are read, which clients may ask while commands that need the data are refused.

use crate::aof;
use crate::config::Key;
use crate::shared::Shared;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Files of fewer bytes are read before anybody can connect: nobody notices the time that it takes.
const SMALL: u64 = 1 << 20;

/// The files that are being read at the start.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    /// Seconds since the Unix epoch.
    began_secs: AtomicI64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
}

/// What INFO tells of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadingFacts {
    pub(crate) began_secs: i64,
    pub(crate) total_bytes: u64,
    pub(crate) loaded_bytes: u64,
}

impl Loading {
    pub(crate) fn begin(&self, now_secs: i64, total_bytes: u64) {
        self.began_secs.store(now_secs, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.total_bytes.store(0, Ordering::Relaxed);
    }

    /// `None` when nothing is read that clients could have to wait for.
    pub(crate) fn facts(&self) -> Option<LoadingFacts> {
        let total_bytes = self.total_bytes.load(Ordering::Relaxed);
        (total_bytes > 0).then(|| LoadingFacts {
            began_secs: self.began_secs.load(Ordering::Relaxed),
            total_bytes,
            loaded_bytes: self.loaded_bytes.load(Ordering::Relaxed).min(total_bytes),
        })
    }

    /// Counts what is read from `source`.
    pub(crate) fn count<R>(&self, source: R) -> Counted<'_, R> {
        Counted {
            source,
            loaded_bytes: &self.loaded_bytes,
        }
    }
}

impl LoadingFacts {
    /// Seconds until the rest is read, if it goes on as it did, `None` while nothing is.
    pub(crate) fn left_secs(&self, now_secs: i64) -> Option<i64> {
        let took = (now_secs - self.began_secs).max(0) as f64;
        let left = self.total_bytes.saturating_sub(self.loaded_bytes) as f64;
        (self.loaded_bytes > 0).then(|| (took * left / self.loaded_bytes as f64) as i64)
    }
}

/// A file of which the bytes are counted.
pub(crate) struct Counted<'l, R> {
    source: R,
    loaded_bytes: &'l AtomicU64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.loaded_bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Bytes of the files that the start will read, if they are so many that clients should hear of it.
pub(crate) fn bytes_ahead(shared: &Shared) -> Option<u64> {
    let logged = match shared.settings.is_set(Key::AppendOnly) {
        true => aof::bytes_at_start(shared),
        false => 0,
    };
    let bytes = match logged {
        0 if shared.settings.load_snapshot => {
            let dir = shared.settings.get(Key::Dir);
            let path = Path::new(&*dir).join(&*shared.settings.get(Key::DbFilename));
            fs::metadata(path).map_or(0, |file| file.len())
        }
        bytes => bytes,
    };
    (bytes >= SMALL).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_counted_and_the_rest_estimated() {
        let loading = Loading::default();
        assert!(loading.facts().is_none());
        loading.begin(100, 10);
        let facts = loading.facts().unwrap();
        assert_eq!((facts.loaded_bytes, facts.left_secs(105)), (0, None));
        let mut read = Vec::new();
        let source = loading.count(&b"12345"[..]);
        source.take(4).read_to_end(&mut read).unwrap();
        let facts = loading.facts().unwrap();
        assert_eq!((facts.loaded_bytes, facts.left_secs(108)), (4, Some(12)));
        loading.end();
        assert!(loading.facts().is_none());
    }
}
