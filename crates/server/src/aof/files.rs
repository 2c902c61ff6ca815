//! The files on the disk: a folder (`appenddirname`) with the manifest and what it names.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tollgate_net::files;
use tollgate_persist::aof::Manifest;

use crate::config::Key;
use crate::shared::Shared;

/// Where the files are.
#[derive(Debug)]
pub(super) struct Place {
    dir: PathBuf,
    folder: PathBuf,
    stem: String,
}

impl Place {
    /// As the settings say.
    pub(super) fn of(shared: &Shared) -> Place {
        let dir = PathBuf::from(&*shared.settings.get(Key::Dir));
        Place {
            folder: dir.join(&*shared.settings.get(Key::Appenddirname)),
            stem: shared.settings.get(Key::Appendfilename).into(),
            dir,
        }
    }

    /// The folder, for messages.
    pub(super) fn folder(&self) -> impl fmt::Display {
        self.folder.display()
    }

    /// `appendfilename`.
    pub(super) fn stem(&self) -> &str {
        &self.stem
    }

    /// A file of the folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The one file of servers before Redis 7, which lies beside the folder.
    pub(super) fn old_file(&self) -> PathBuf {
        self.dir.join(&self.stem)
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.file(&format!("{}.manifest", self.stem))
    }

    pub(super) fn make_folder(&self) -> io::Result<()> {
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made.and_then(|()| files::sync_directory(&self.folder)),
        }
    }

    /// The manifest that is there; an empty one when there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read, and why.
    pub(super) fn read_manifest(&self) -> Result<Manifest, String> {
        let path = self.manifest();
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Manifest::default()),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
            Ok(bytes) => Manifest::parse(&bytes).map_err(|error| {
                format!("reading the AOF manifest file {}: {error}", path.display())
            }),
        }
    }

    /// Puts a manifest in the place of the one that is there, at once and durably.
    pub(super) fn write_manifest(&self, manifest: &Manifest) -> io::Result<()> {
        let text = manifest.to_text();
        files::replace(&self.manifest(), &mut |out| out.write_all(text.as_bytes()))
    }

    /// As [`Place::write_manifest`]. The inner error: the manifest is there, so that the next start reads it, but the folder
    /// could not be synced, so that after a loss of power the old one may be there again.
    pub(super) fn put_manifest(&self, manifest: &Manifest) -> io::Result<io::Result<()>> {
        let Err(error) = self.write_manifest(manifest) else {
            return Ok(Ok(()));
        };
        match fs::read(self.manifest()) {
            Ok(bytes) if bytes == manifest.to_text().as_bytes() => Ok(Err(error)),
            _ => Err(error),
        }
    }

    /// Bytes of the files that make up the data.
    pub(super) fn sizes(&self, manifest: &Manifest) -> u64 {
        let size = |name: &str| fs::metadata(self.file(name)).map_or(0, |file| file.len());
        manifest.files().map(|(_, file)| size(&file.name)).sum()
    }

    /// Deletes what is of no use any more, and forgets it. What cannot be deleted is tried again next time.
    pub(super) fn delete_history(&self, manifest: &mut Manifest) -> io::Result<()> {
        if manifest.history.is_empty() {
            return Ok(());
        }
        manifest.history.retain(|file| {
            let gone = fs::remove_file(self.file(&file.name));
            gone.is_err_and(|error| error.kind() != ErrorKind::NotFound)
        });
        self.write_manifest(manifest)
    }
}

/// A file of commands that is written.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    len: u64,
}

impl LogFile {
    /// Goes on at the end of a file, which is made if it is missing.
    pub(super) fn append_to(path: &Path) -> io::Result<LogFile> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let len = file.metadata()?.len();
        Ok(LogFile { file, len })
    }

    /// An empty file.
    pub(super) fn create(path: &Path) -> io::Result<LogFile> {
        let file = LogFile::append_to(path)?;
        file.file.set_len(0)?;
        Ok(LogFile { len: 0, ..file })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Writes all of `bytes` and empties them. What could be written before an error is taken back, or else taken off
    /// `bytes`.
    pub(super) fn write(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut done = 0;
        let result = loop {
            if done == bytes.len() {
                break Ok(());
            }
            match self.file.write(&bytes[done..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(len) => done += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        if result.is_err() && self.file.set_len(self.len).is_ok() {
            return result;
        }
        self.len += done as u64;
        if result.is_ok() {
            bytes.clear();
        } else {
            bytes.drain(..done);
        }
        result
    }

    /// Puts what was written on the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_persist::aof::NamedFile;

    #[test]
    fn history_goes_from_the_folder_and_from_the_manifest() {
        let dir = std::env::temp_dir().join(format!("tollgate-aof-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let place = Place {
            folder: dir.join("folder"),
            stem: "x.aof".to_owned(),
            dir: dir.clone(),
        };
        place.make_folder().unwrap();
        place.make_folder().unwrap();
        assert!(place.read_manifest().unwrap().is_empty());
        let mut manifest = Manifest::default();
        let name = manifest.add_incr(place.stem()).name.clone();
        let mut file = LogFile::append_to(&place.file(&name)).unwrap();
        let mut bytes = b"abc".to_vec();
        file.write(&mut bytes).unwrap();
        assert!(bytes.is_empty());
        assert_eq!((file.len(), place.sizes(&manifest)), (3, 3));
        manifest.renew(place.stem(), "rdb");
        // One that is gone already is no matter.
        manifest.history.push(NamedFile {
            name: "gone".to_owned(),
            seq: 1,
        });
        place.delete_history(&mut manifest).unwrap();
        assert_eq!(place.read_manifest().unwrap(), manifest);
        assert!(manifest.history.is_empty() && !place.file(&name).exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
