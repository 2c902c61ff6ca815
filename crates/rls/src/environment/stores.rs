//! How a Redis is reached, as variables say.

use std::time::Duration;

use super::{Environment, bad, parse_duration};
use crate::config::StoreConfig;

/// Range of REDIS_TIMEOUT.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest REDIS_POOL_SIZE.
const MAX_POOL: usize = 1_024;

impl<L: Fn(&str) -> Option<String>> Environment<L> {
    /// How the store is connected to whose variables begin so, where that is given. Files of TLS are those of all stores.
    pub(super) fn store(
        &self,
        group: &str,
        store: &mut StoreConfig,
        threads: usize,
    ) -> Result<(), String> {
        let of = |name| format!("{group}{name}");
        let timeout = of("TIMEOUT");
        if let Some(text) = self.given(&timeout) {
            let span =
                parse_duration(&text).filter(|span| (MIN_TIMEOUT..=MAX_TIMEOUT).contains(span));
            store.timeout =
                span.ok_or_else(|| bad(&timeout, &text, "no duration from 1ms to 60s"))?;
        }
        let size = of("POOL_SIZE");
        if let Some(text) = self.given(&size) {
            let count: Option<usize> = text.parse().ok();
            let count = count.filter(|count| (1..=MAX_POOL).contains(count));
            let count = count.ok_or_else(|| bad(&size, &text, "no number from 1 to 1024"))?;
            store.connections = count.div_ceil(threads);
        }
        for (name, file) in [
            ("REDIS_TLS_CACERT", &mut store.tls_authority),
            ("REDIS_TLS_CLIENT_CERT", &mut store.tls_certificate),
            ("REDIS_TLS_CLIENT_KEY", &mut store.tls_key),
        ] {
            if let Some(path) = self.path(name) {
                *file = Some(path);
            }
        }
        store.tls_any_name |= self.truth("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION")?;
        if let Some(login) = self.given(&of("SENTINEL_AUTH")) {
            store.sentinel_login = Some(login);
        }
        Ok(())
    }

    /// The URL of the store whose variables begin so.
    pub(super) fn redis_url(&self, group: &str) -> Result<String, String> {
        let of = |name| format!("{group}{name}");
        let (url, auth) = (self.value(&of("URL")), self.given(&of("AUTH")));
        let kind = self.value(&of("TYPE"));
        let (form, place) = match &*kind.to_ascii_lowercase() {
            "single" => ("", url.clone()),
            "cluster" => ("+cluster", url.clone()),
            "sentinel" => match url.split_once(',') {
                Some((master, hosts)) => ("+sentinel", format!("{hosts}/{master}")),
                None => return Err(bad(&of("URL"), &url, "no master,host:port of Sentinels")),
            },
            _ => {
                let what = "none of SINGLE, SENTINEL, CLUSTER";
                return Err(bad(&of("TYPE"), &kind, what));
            }
        };
        let socket = of("SOCKET_TYPE");
        match &*self.value(&socket) {
            "unix" if form.is_empty() => Ok(format!(
                "unix://{url}{}",
                match &auth {
                    Some(auth) => format!("?pass={}", encoded(auth)),
                    None => String::new(),
                }
            )),
            "tcp" => {
                let scheme = if self.truth(&of("TLS"))? {
                    "rediss"
                } else {
                    "redis"
                };
                let auth = match auth.as_deref().map(|auth| auth.split_once(':').ok_or(auth)) {
                    None => String::new(),
                    Some(Ok((user, password))) => {
                        format!("{}:{}@", encoded(user), encoded(password))
                    }
                    Some(Err(password)) => format!(":{}@", encoded(password)),
                };
                Ok(format!("{scheme}{form}://{auth}{place}"))
            }
            "unix" => Err(format!("{socket}: {}={kind} needs tcp", of("TYPE"))),
            other => Err(bad(&socket, other, "neither tcp nor unix")),
        }
    }
}

/// A user or password as URLs have it.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
