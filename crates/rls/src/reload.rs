//! Takes up changed rules while the service runs.
//!
//! The folder is looked at once a second instead of being watched: that sees files that are replaced by renaming,
//! folders behind a symbolic link that is turned over (as Kubernetes does), and network file systems alike, which the
//! system's notifications do not, and costs a few calls to the system.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tollgate_policy::{LoadOptions, Modes, Ruleset};

use crate::config::RlsConfig;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::rules::{RuleFiles, load_files, rule_files};

/// Time between two looks at the folder.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often rules were taken up, and how often they were refused.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    good: AtomicU64,
    bad: AtomicU64,
}

impl Loads {
    /// How often rules were taken up, and how often they were refused.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.good), read(&self.bad))
    }
}

impl fmt::Display for Loads {
    /// In the form that Prometheus reads, by the names of envoyproxy/ratelimit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, help, value) in [
            (
                "success",
                "Rules taken up, the first ones included.",
                &self.good,
            ),
            ("error", "Changed rules that are not valid.", &self.bad),
        ] {
            let name = format!("ratelimit_service_config_load_{name}");
            let value = value.load(Ordering::Relaxed);
            writeln!(
                f,
                "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}"
            )?;
        }
        Ok(())
    }
}

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

/// The rules of a folder, and whoever waits for new ones.
pub(crate) struct Watch {
    dir: PathBuf,
    files: RuleFiles,
    modes: Modes,
    options: LoadOptions,
    log: fn(&str),
    seen: Seen,
    rules: watch::Sender<Arc<Ruleset>>,
    loads: Arc<Loads>,
    health: Health,
    metrics: Arc<Metrics>,
}

impl Watch {
    /// Begins with rules that were loaded after `before` was seen.
    pub(crate) fn new(config: &RlsConfig, before: Before, rules: Arc<Ruleset>) -> Self {
        let loads = Arc::new(Loads::default());
        // Without rules the service was told to wait for them, and is healthy once they are there.
        let have_rules = rules.domain_count() > 0;
        let first = match have_rules {
            true => &loads.good,
            false => &loads.bad,
        };
        first.store(1, Ordering::Relaxed);
        let health = Health::new(&rules, config.health);
        let metrics = Metrics::new(
            config.counting_threads(),
            loads.clone(),
            health.clone(),
            config.near_limit_ratio,
        );
        metrics.announce(&rules);
        Self {
            dir: config.rules_dir.clone(),
            files: config.rule_files,
            modes: config.modes.clone(),
            options: config.load_options(),
            log: config.log,
            seen: before.0,
            rules: watch::Sender::new(rules),
            loads,
            health,
            metrics: Arc::new(metrics),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Ruleset>> {
        self.rules.subscribe()
    }

    pub(crate) fn health(&self) -> Health {
        self.health.clone()
    }

    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    /// Looks at the folder until the service stops.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
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
            Ok(rules) => {
                let rules = rules
                    .with_modes(self.modes.clone())
                    .succeed(&self.rules.borrow());
                (self.log)(&format!("rules loaded: {}", rules.summary()));
                self.metrics.announce(&rules);
                self.health.have_rules(&rules);
                self.rules.send_replace(Arc::new(rules));
                self.loads.good.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                (self.log)(&format!("the rules stay as they were: {error}"));
                self.loads.bad.fetch_add(1, Ordering::Relaxed);
            }
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
