//! Takes up changed rules while the service runs.
//!
//! The folder is looked at once a second instead of being watched: that sees files that are replaced by renaming,
//! folders behind a symbolic link that is turned over (as Kubernetes does), and network file systems alike, which the
//! system's notifications do not, and costs a few calls to the system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tollgate_policy::LoadOptions;

use crate::config::RlsConfig;
use crate::in_force::InForce;
use crate::rules::{RuleFiles, load_files, rule_files};

/// Time between two looks at the folder.
const INTERVAL: Duration = Duration::from_secs(1);

/// What tells one state of a file from another: any write moves the time of change.
#[derive(PartialEq, Eq)]
pub(crate) struct Stamp {
    path: PathBuf,
    device: u64,
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

/// The folder as it was when it was looked at; `None` when that failed.
type Seen = Option<Vec<Stamp>>;

/// The folder that the rules in force come from.
pub(crate) struct Folder {
    dir: PathBuf,
    files: RuleFiles,
    options: LoadOptions,
    seen: Seen,
    rules: InForce,
}

impl Folder {
    /// Begins with rules that were loaded after `before` was seen.
    pub(crate) fn new(config: &RlsConfig, before: Before, rules: InForce) -> Self {
        Self {
            dir: config.rules_dir.clone(),
            files: config.rule_files,
            options: config.load_options(),
            seen: before.0,
            rules,
        }
    }

    /// Looks at the folder until the service stops.
    pub(crate) async fn follow(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => self.look(),
                _ = stopped.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Takes up the folder's rules if they have changed and are valid; else those before stay.
    fn look(&mut self) {
        let seen = look(&self.dir, self.files);
        if seen == self.seen {
            return;
        }
        self.seen = seen;
        match load_files(&self.dir, self.files, self.options) {
            Ok(rules) => self.rules.take(rules),
            Err(error) => self.rules.keep(&error),
        }
    }
}

/// A folder as it was before its rules were loaded, so that a change in between is not missed.
pub(crate) struct Before(Seen);

impl Before {
    pub(crate) fn of(dir: &Path, files: RuleFiles) -> Self {
        Self(look(dir, files))
    }
}

impl Stamp {
    /// `None` when there is no such file.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        Some(Self {
            device: about.dev(),
            inode: about.ino(),
            len: about.len(),
            changed: (about.ctime(), about.ctime_nsec()),
            path: path.to_owned(),
        })
    }
}

fn look(dir: &Path, files: RuleFiles) -> Seen {
    let paths = rule_files(dir, files).ok()?;
    paths.iter().map(|path| Stamp::of(path)).collect()
}
