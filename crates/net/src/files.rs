//! Files that are whole or absent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the files that were begun, each of which has a name of its own.
static REPLACED: AtomicU64 = AtomicU64::new(0);

/// Replaces `path` by what `fill` writes: a temporary file beside it is written, synced and renamed over it, so that a
/// crash or a full disk leaves the old content.
pub fn replace(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    // Two threads may replace the same file at the same time.
    let number = REPLACED.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().display();
    let temporary = format!("temp-{}-{number}-{name}", std::process::id());
    replace_by(path, &path.with_file_name(temporary), None, fill)
}

/// As [`replace`]; `temporary` is a file beside it that nobody else uses, and what is written is put on the disk after every
/// `sync_bytes`.
pub fn replace_by(
    path: &Path,
    temporary: &Path,
    sync_bytes: Option<u64>,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let result =
        write_synced(temporary, sync_bytes, fill).and_then(|()| fs::rename(temporary, path));
    if result.is_err() {
        // Nothing is lost by a temporary file that stays; the first error is the one to tell.
        drop(fs::remove_file(temporary));
        return result;
    }
    sync_directory(path)
}

/// A new file in `directory` to write and read, which is gone when it is closed. `name` is what it is called for a moment.
pub fn nameless(directory: &Path, name: &str) -> io::Result<File> {
    let path = directory.join(name);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

fn write_synced(
    path: &Path,
    sync_bytes: Option<u64>,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    let mut writer = BufWriter::with_capacity(1 << 20, Synced::new(file, sync_bytes));
    fill(&mut writer)?;
    let synced = writer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    synced.into_file().sync_all()
}

/// A file that is put on the disk now and then, so that the last time is short.
pub struct Synced {
    file: File,
    unsynced: u64,
    every: Option<u64>,
}

impl Synced {
    /// `every`: bytes after which it is; `None` = never.
    pub fn new(file: File, every: Option<u64>) -> Synced {
        Synced {
            file,
            unsynced: 0,
            every,
        }
    }

    /// The file, of which the last bytes may not be on the disk.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.file.write(bytes)?;
        self.unsynced += len as u64;
        if self.every.is_some_and(|every| self.unsynced >= every) {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes what was renamed to, or made at, `path` durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_content() {
        let directory = std::env::temp_dir().join(format!("tollgate-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("dump.rdb");
        replace(&path, &mut |out| out.write_all(b"one")).unwrap();
        let failed = replace(&path, &mut |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(
            fs::read_dir(&directory).unwrap().count(),
            1,
            "no temporary file stays"
        );
        fs::remove_dir_all(&directory).unwrap();
    }
}
