//! How counters are kept that are those of envoyproxy/ratelimit.

use tollgate_policy::truth;

use crate::environment::go;

/// Longest time beyond its window that a counter may be kept, where nothing is said, as envoyproxy/ratelimit has it.
const DEFAULT_JITTER_SECS: u64 = 300;
/// The longest that can be said: ten years.
const MAX_JITTER_SECS: u64 = 10 * 365 * 86_400;

/// The variables of envoyproxy/ratelimit that say it.
pub(crate) const PREFIX: &str = "CACHE_KEY_PREFIX";
pub(crate) const JITTER: &str = "EXPIRATION_JITTER_MAX_SECONDS";
pub(crate) const STOP: &str = "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT";

/// How counters are kept in a Redis that a fleet of envoyproxy/ratelimit uses as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvoyCounters {
    /// What every key begins with.
    pub prefix: String,
    /// A counter is kept for its window and less than this many seconds more, at random.
    pub expiry_jitter_max_secs: u64,
    /// Reads the counters first, and does not count where another limit of the request is over. Not atomic: requests
    /// at the same time may still count.
    pub stop_when_over: bool,
}

impl Default for EnvoyCounters {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            expiry_jitter_max_secs: DEFAULT_JITTER_SECS,
            stop_when_over: false,
        }
    }
}

impl EnvoyCounters {
    /// Reads `CACHE_KEY_PREFIX`, `EXPIRATION_JITTER_MAX_SECONDS` and `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`. What is
    /// not there, or empty, has the default of envoyproxy/ratelimit.
    ///
    /// # Errors
    /// A value is not valid; the text names the variable.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let given = |name: &str| lookup(name).filter(|text| !text.is_empty());
        let bad =
            |name: &str, text: &str, what| format!("{name}: '{}' is {what}", text.escape_debug());
        let mut counters = Self {
            prefix: given(PREFIX).unwrap_or_default(),
            ..Self::default()
        };
        if let Some(text) = given(JITTER) {
            let seconds = go::integer(&text).and_then(|secs| u64::try_from(secs).ok());
            let seconds = seconds.filter(|&secs| secs <= MAX_JITTER_SECS);
            counters.expiry_jitter_max_secs =
                seconds.ok_or_else(|| bad(JITTER, &text, "no number of seconds"))?;
        }
        if let Some(text) = given(STOP) {
            counters.stop_when_over =
                truth(&text).ok_or_else(|| bad(STOP, &text, "neither true nor false"))?;
        }
        Ok(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<EnvoyCounters, String> {
        EnvoyCounters::from_environment(|name| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn they_are_read_as_the_peer_reads_them() {
        assert_eq!(read(&[]), Ok(EnvoyCounters::default()));
        assert_eq!(
            read(&[(PREFIX, "p:"), (JITTER, "0"), (STOP, "True")]),
            Ok(EnvoyCounters {
                prefix: "p:".to_owned(),
                expiry_jitter_max_secs: 0,
                stop_when_over: true,
            })
        );
        for (name, value) in [
            (JITTER, "-1"),
            (JITTER, "5m"),
            (JITTER, "99999999999"),
            (STOP, "yes"),
        ] {
            let error = read(&[(name, value)]).expect_err(value);
            assert!(error.starts_with(name) && error.contains(value), "{error}");
        }
    }
}
