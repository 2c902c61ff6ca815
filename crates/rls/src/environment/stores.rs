//! How a Redis is reached, as variables say.

use std::time::Duration;

use super::go::integer;
use super::{Environment, bad, parse_duration};
use crate::config::StoreConfig;

/// Bounds of REDIS_TIMEOUT: what is shorter or longer counts as these. To envoyproxy/ratelimit 0 is for ever.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Most connections that REDIS_POOL_SIZE makes.
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
            let span = parse_duration(&text).ok_or_else(|| bad(&timeout, &text, "no duration"))?;
            store.timeout = match span {
                Duration::ZERO => MAX_TIMEOUT,
                span => span.clamp(MIN_TIMEOUT, MAX_TIMEOUT),
            };
        }
        let size = of("POOL_SIZE");
        if let Some(text) = self.given(&size) {
            let count = integer(&text).and_then(|count| usize::try_from(count).ok());
            let count = count.ok_or_else(|| bad(&size, &text, "no number"))?;
            store.connections = count.clamp(1, MAX_POOL).div_ceil(threads);
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

    /// Password, or user and password, of the store whose variables begin so.
    fn auth(&self, group: &str) -> Result<Option<String>, String> {
        let (inline, file) = (format!("{group}AUTH"), format!("{group}AUTH_FILE"));
        let Some(path) = self.path(&file) else {
            return Ok(self.given(&inline));
        };
        if self.given(&inline).is_some() {
            return Err(format!("{inline} and {file} cannot both be set"));
        }
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{file}: {}: {error}", path.display()))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(format!("{file}: {} is empty", path.display())),
            auth => Ok(Some(auth.to_owned())),
        }
    }

    /// The URL of the store whose variables begin so.
    pub(super) fn redis_url(&self, group: &str) -> Result<String, String> {
        let of = |name| format!("{group}{name}");
        let (url, kind) = (self.value(&of("URL")), self.value(&of("TYPE")));
        let mut login = self.auth(group)?.map(|auth| match auth.split_once(':') {
            Some((user, password)) => (encoded(user), encoded(password)),
            None => (String::new(), encoded(&auth)),
        });
        let (form, hosts, master) = match &*kind.to_ascii_lowercase() {
            "single" => ("", &*url, String::new()),
            "cluster" => ("+cluster", &*url, String::new()),
            "sentinel" => match url.split_once(',') {
                Some((master, hosts)) => ("+sentinel", hosts, format!("/{master}")),
                None => return Err(bad(&of("URL"), &url, "no master,host:port of Sentinels")),
            },
            _ => {
                let what = "none of SINGLE, SENTINEL, CLUSTER";
                return Err(bad(&of("TYPE"), &kind, what));
            }
        };
        let (socket, tls) = (of("SOCKET_TYPE"), self.truth(&of("TLS"))?);
        match &*self.value(&socket) {
            "unix" if form.is_empty() && tls => {
                let tls = of("TLS");
                return Err(format!(
                    "{tls}: there is no TLS on unix sockets; it needs {socket}=tcp"
                ));
            }
            "unix" if form.is_empty() => return Ok(unix_url(&url, login)),
            // Sentinels and clusters are on TCP, whatever is said.
            "unix" | "tcp" => {}
            other => return Err(bad(&socket, other, "neither tcp nor unix")),
        }
        let places: Vec<Place<'_>> = hosts.split(',').map(Place::of).collect();
        if form == "+sentinel" && places.iter().any(|place| place.login.is_some()) {
            let sentinel = of("SENTINEL_AUTH");
            return Err(format!(
                "{}: passwords of Sentinels go into {sentinel}",
                of("URL")
            ));
        }
        login = login.or_else(|| places.iter().find_map(|place| place.login.clone()));
        let login = login.map(|(user, password)| format!("{user}:{password}@"));
        let database = if form.is_empty() { places[0].path } else { "" };
        let hosts: Vec<&str> = places.iter().map(|place| place.host).collect();
        Ok(format!(
            "{}{form}://{}{}{master}{database}",
            if tls { "rediss" } else { "redis" },
            login.unwrap_or_default(),
            hosts.join(",")
        ))
    }
}

/// The URL of a unix socket.
fn unix_url(path: &str, login: Option<(String, String)>) -> String {
    let login = login.map(|(user, password)| match &*user {
        "" => format!("?pass={password}"),
        user => format!("?user={user}&pass={password}"),
    });
    format!("unix://{path}{}", login.unwrap_or_default())
}

/// One host of REDIS_URL: `host:port`, or `redis://[[user]:password@]host:port[/database]`.
struct Place<'a> {
    host: &'a str,
    /// User and password, as URLs have them.
    login: Option<(String, String)>,
    /// With its slash; empty where there is none.
    path: &'a str,
}

impl<'a> Place<'a> {
    fn of(text: &'a str) -> Self {
        let Some(rest) = text.strip_prefix("redis://") else {
            return Self {
                host: text,
                login: None,
                path: "",
            };
        };
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (login.split_once(':'), rest),
            None => (None, rest),
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Self {
            host,
            login: login.map(|(user, password)| (user.to_owned(), password.to_owned())),
            path: if path == "/" { "" } else { path },
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
