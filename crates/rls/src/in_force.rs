//! The rules in force, and what depends on them: whoever decides by them, health, metrics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tollgate_policy::{Modes, Ruleset};

use crate::config::RlsConfig;
use crate::health::Health;
use crate::log::{LogLevel, LogLine};
use crate::metrics::Metrics;

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
                "Successful loads of rules, including the first.",
                &self.good,
            ),
            (
                "error",
                "Loads of changed rules that failed because they are invalid.",
                &self.bad,
            ),
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

/// The rules in force, and whoever waits for new ones.
#[derive(Clone)]
pub(crate) struct InForce {
    modes: Modes,
    log: LogLine,
    rules: watch::Sender<Arc<Ruleset>>,
    loads: Arc<Loads>,
    health: Health,
    metrics: Arc<Metrics>,
}

impl InForce {
    /// Begins with these rules, which may not be loaded yet.
    pub(crate) fn new(config: &RlsConfig, rules: Arc<Ruleset>) -> Self {
        let loads = Arc::new(Loads::default());
        if rules.is_loaded() {
            loads.good.store(1, Ordering::Relaxed);
        } else if config.xds.is_none() {
            // Files were read, and are no rules.
            loads.bad.store(1, Ordering::Relaxed);
        }
        let health = Health::new(&rules, config.health);
        if config.xds.is_some() && !config.start_without_rules {
            health.wait_for_rules();
        }
        let metrics = Metrics::new(
            config.counting_threads(),
            loads.clone(),
            health.clone(),
            config.near_limit_ratio,
        );
        metrics.announce(&rules);
        Self {
            modes: config.modes.clone(),
            log: config.log,
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

    /// These rules are in force from now on.
    pub(crate) fn take(&self, rules: Ruleset) {
        let rules = rules
            .with_modes(self.modes.clone())
            .succeed(&self.rules.borrow());
        let line = format!("rules loaded: {}", rules.summary());
        self.tell(LogLevel::Info, &line);
        self.metrics.announce(&rules);
        self.health.have_rules(&rules);
        self.rules.send_replace(Arc::new(rules));
        self.loads.good.fetch_add(1, Ordering::Relaxed);
    }

    /// There were others, which are not valid.
    pub(crate) fn keep(&self, error: &dyn fmt::Display) {
        let line = format!("the rules stay as they were: {error}");
        self.tell(LogLevel::Error, &line);
        self.loads.bad.fetch_add(1, Ordering::Relaxed);
    }

    /// A line of the log.
    pub(crate) fn tell(&self, level: LogLevel, line: &str) {
        (self.log)(level, line);
    }
}
