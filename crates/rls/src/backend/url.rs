//! Where a store is, and how to reach the one that counts.

use std::path::PathBuf;
use std::time::Duration;

use redis::cluster::ClusterClient;
use redis::{
    ClientTlsConfig, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult,
    TlsCertificates,
};
use tollgate_net::tls::TlsConnector;

use super::peer::{self, At, Peer};
use super::sentinel;
use crate::config::{StartError, StoreConfig};

/// Port of a Sentinel that none is given for.
const SENTINEL_PORT: u16 = 26_379;
/// Port of a node of a cluster that none is given for.
const REDIS_PORT: u16 = 6_379;
/// Most hosts of one URL.
const MAX_HOSTS: usize = 64;
/// How often a request to a cluster follows it: to the node that a slot has moved to, to a new master. The timeout of a
/// decision bounds all of them together.
const CLUSTER_RETRIES: u32 = 8;
/// Pause between them, in milliseconds.
const CLUSTER_PAUSE_MS: u64 = 10;
const FORMS: &str = "a backend is given as redis://host:port, unix:///path, redis+sentinel://host:port,host:port/master or redis+cluster://host:port,host:port; with rediss for redis over TLS";

/// How a store is reached.
#[derive(Clone)]
pub(crate) enum Address {
    /// At one place.
    Direct(Box<Peer>),
    /// Wherever the Sentinels say its master is, who are asked anew for every connection and listened to meanwhile.
    Sentinel(Box<Watched>),
    /// On all masters of a cluster, each for its slots.
    Cluster(Box<ClusterClient>),
}

/// A master that Sentinels watch.
#[derive(Clone)]
pub(crate) struct Watched {
    sentinels: Vec<Peer>,
    master: String,
    /// User, password and database of the store.
    settings: RedisConnectionInfo,
    tls: Option<TlsConnector>,
    timeout: Duration,
}

/// The store to connect to now.
pub(crate) enum Place {
    One(Box<Peer>),
    Cluster(Box<ClusterClient>),
}

impl Address {
    pub(crate) async fn place(&self) -> RedisResult<Place> {
        match self {
            Self::Direct(peer) => Ok(Place::One(peer.clone())),
            Self::Cluster(client) => Ok(Place::Cluster(client.clone())),
            Self::Sentinel(watched) => {
                let (sentinels, name) = (&watched.sentinels, &watched.master);
                let peer_at = |at| watched.peer_at(at);
                let master = sentinel::master(sentinels, name, watched.timeout, peer_at);
                Ok(Place::One(Box::new(master.await?)))
            }
        }
    }

    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// The master, where Sentinels say where it is.
    pub(crate) fn watched(&self) -> Option<&Watched> {
        match self {
            Self::Sentinel(watched) => Some(watched),
            Self::Direct(_) | Self::Cluster(_) => None,
        }
    }

    /// How many steps that may each take the time of a connection lead to one.
    pub(crate) fn steps(&self) -> u32 {
        let sentinels = match self {
            Self::Direct(_) | Self::Cluster(_) => 0,
            // Each is connected to, and then the server that it names.
            Self::Sentinel(watched) => 2 * watched.sentinels.len(),
        };
        2 + sentinels as u32
    }
}

impl Watched {
    fn peer_at(&self, at: At) -> RedisResult<Peer> {
        Peer::at_host(at, self.settings.clone(), self.tls.clone())
    }

    /// Listens to the Sentinels for a while; true once they say that the master is elsewhere, and not only that it is still at
    /// `left`.
    pub(super) async fn moved(&self, from: &At, left: Option<&At>) -> RedisResult<bool> {
        sentinel::moved(&self.sentinels, &self.master, self.timeout, from, left).await
    }

    /// Waits for a replica to be promoted by Sentinels, who say later that it is the master; `begins` is told when they have begun.
    pub(super) async fn promoted(&self, begins: impl Fn()) -> Peer {
        let peer_at = |at| self.peer_at(at);
        sentinel::promoted(&self.sentinels, &self.master, self.timeout, peer_at, begins).await
    }
}

/// Checks a URL without connecting. The files of `store` are read where the URL asks for TLS.
pub(crate) fn parse_url(url: &str, store: &StoreConfig) -> Result<Address, StartError> {
    let bad = |reason: String| StartError::BackendUrl {
        url: without_password(url),
        reason,
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(bad(FORMS.to_owned()));
    };
    let is_secure = scheme.starts_with("rediss");
    if matches!(scheme, "redis+cluster" | "rediss+cluster") {
        if store.wait_replicas > 0 {
            // The client library makes connections to nodes anew by itself, and on a new one WAIT knows nothing of what was written.
            let reason = "replicas cannot be waited for on a cluster (backend-wait-replicas)";
            return Err(bad(reason.to_owned()));
        }
        let certificates = match is_secure {
            true => certificates(store).map_err(StartError::Tls)?,
            false => None,
        };
        return cluster(rest, is_secure, certificates, store).map_err(bad);
    }
    let tls = match is_secure {
        true => Some(peer::connector(store).map_err(StartError::Tls)?),
        false => None,
    };
    match scheme {
        "redis+sentinel" | "rediss+sentinel" => watched(rest, tls, store).map_err(bad),
        "redis" | "rediss" | "unix" | "redis+unix" => {
            let info = url.into_connection_info();
            let peer = info.and_then(|info| Peer::new(info, tls));
            peer.map(|peer| Address::Direct(Box::new(peer)))
                .map_err(|error| bad(error.to_string()))
        }
        _ => Err(bad(FORMS.to_owned())),
    }
}

/// `None`: the system's authorities, and no certificate of our own.
fn certificates(store: &StoreConfig) -> Result<Option<TlsCertificates>, String> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let client_tls = match (&store.tls_certificate, &store.tls_key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(ClientTlsConfig {
            client_cert: read(certificate)?,
            client_key: read(key)?,
        }),
        _ => return Err("the backend's certificate and key go together".to_owned()),
    };
    let root_cert = store.tls_authority.as_ref().map(read).transpose()?;
    let given = client_tls.is_some() || root_cert.is_some();
    Ok(given.then_some(TlsCertificates {
        client_tls,
        root_cert,
    }))
}

/// `[[user]:password@]` and what follows.
fn login_of(rest: &str) -> Result<(RedisConnectionInfo, &str), String> {
    let Some((text, places)) = rest.rsplit_once('@') else {
        return Ok((RedisConnectionInfo::default(), rest));
    };
    // Read by the library itself, which knows how it is encoded.
    let info = format!("redis://{text}@host").into_connection_info();
    let info = info.map_err(|_| "user and password cannot be read".to_owned())?;
    let given = info.redis_settings();
    Ok((login(given.username(), given.password()), places))
}

fn login(user: Option<&str>, password: Option<&str>) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default();
    if let Some(user) = user {
        settings = settings.set_username(user);
    }
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    settings
}

/// `host[:port][,host[:port]...]`.
fn hosts_of(hosts: &str, port: u16, is_secure: bool) -> Result<Vec<ConnectionInfo>, String> {
    let scheme = if is_secure { "rediss" } else { "redis" };
    let mut infos = Vec::new();
    for host in hosts.split(',') {
        if infos.len() == MAX_HOSTS {
            return Err(format!("more than {MAX_HOSTS} hosts"));
        }
        let has_port = match host.rfind(']') {
            Some(end) => host[end..].contains(':'),
            None => host.contains(':'),
        };
        let url = match has_port {
            true => format!("{scheme}://{host}"),
            false => format!("{scheme}://{host}:{port}"),
        };
        let info = url.into_connection_info();
        infos.push(info.map_err(|error| format!("host '{host}': {error}"))?);
    }
    Ok(infos)
}

/// `[[user]:password@]host[:port][,host[:port]...]/master[/db]`; user, password and database are the store's.
fn watched(rest: &str, tls: Option<TlsConnector>, store: &StoreConfig) -> Result<Address, String> {
    let (settings, places) = login_of(rest)?;
    let (hosts, path) = places.split_once('/').unwrap_or((places, ""));
    let (master, db) = path.split_once('/').unwrap_or((path, "0"));
    if master.is_empty() {
        return Err("the URL names no master: redis+sentinel://host:port/master".to_owned());
    }
    let db = db.parse::<u32>();
    let db = db.map_err(|_| "the database is not a number".to_owned())?;
    let their_login = match store
        .sentinel_login
        .as_deref()
        .map(|text| (text, text.split_once(':')))
    {
        None => login(None, None),
        Some((_, Some((user, password)))) => login(Some(user), Some(password)),
        Some((password, None)) => login(None, Some(password)),
    };
    let infos = hosts_of(hosts, SENTINEL_PORT, tls.is_some())?.into_iter();
    let sentinels =
        infos.map(|info| Peer::new(info.set_redis_settings(their_login.clone()), tls.clone()));
    let sentinels: RedisResult<Vec<Peer>> = sentinels.collect();
    Ok(Address::Sentinel(Box::new(Watched {
        sentinels: sentinels.map_err(|error| error.to_string())?,
        master: master.to_owned(),
        settings: settings.set_db(i64::from(db)),
        tls,
        timeout: store.connect_timeout(),
    })))
}

/// `[[user]:password@]host[:port][,host[:port]...]`, some of the cluster's nodes; the others are learned from them.
fn cluster(
    rest: &str,
    is_secure: bool,
    certificates: Option<TlsCertificates>,
    store: &StoreConfig,
) -> Result<Address, String> {
    let (settings, hosts) = login_of(rest)?;
    let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
    if hosts.contains('/') {
        return Err("a cluster has no databases".to_owned());
    }
    let nodes = hosts_of(hosts, REDIS_PORT, is_secure)?;
    let mut builder = ClusterClient::builder(nodes)
        .retries(CLUSTER_RETRIES)
        .min_retry_wait(CLUSTER_PAUSE_MS)
        .max_retry_wait(CLUSTER_PAUSE_MS)
        .connection_timeout(store.connect_timeout())
        .response_timeout(store.timeout)
        .overall_response_timeout(Some(store.timeout));
    if let Some(user) = settings.username() {
        builder = builder.username(user);
    }
    if let Some(password) = settings.password() {
        builder = builder.password(password);
    }
    if is_secure {
        builder = builder.danger_accept_invalid_hostnames(store.tls_any_name);
    }
    if let Some(certificates) = certificates {
        builder = builder.certs(certificates);
    }
    let client = builder.build().map_err(|error| error.to_string())?;
    Ok(Address::Cluster(Box::new(client)))
}

/// The URL as it may be shown.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}://...{}", &url[..scheme], &url[at..])
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, StartError> {
        parse_url(url, &StoreConfig::default())
    }

    #[test]
    fn urls_are_checked_and_shown_without_their_password() {
        for good in [
            "redis://127.0.0.1",
            "redis://:secret@localhost:7000/3",
            "unix:///run/redis.sock",
            "redis+sentinel://a:1,b,[::1]:3/main/2",
            "redis+sentinel://user:secret@a/main",
            "rediss://user:secret@a:1/2",
            "rediss+sentinel://a/main",
            "redis+cluster://a:1,b,[::1]:3",
            "rediss+cluster://user:secret@a:1/",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "localhost:6379",
            "http://x",
            "redis://",
            "redis://h:port",
            "redis://h/db",
            "redis+sentinel://h",
            "redis+sentinel:///main",
            "redis+sentinel://h:port/main",
            "redis+sentinel://h/main/db",
            "redis+sentinel://h,/main",
            "redis+cluster://",
            "redis+cluster://h/1",
            "redis+cluster://h,h:port",
            "",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for bad in ["redis://user:secret@h:port", "redis+sentinel://u:secret@h"] {
            let Err(error) = parse(bad) else {
                panic!("{bad}")
            };
            let error = error.to_string();
            assert!(error.contains("://...@h"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn sentinels_and_their_master_are_read() {
        let address = parse("redis+sentinel://me:pw@a:1,b/main/2");
        let Ok(Address::Sentinel(watched)) = address else {
            panic!("another form")
        };
        let places: Vec<At> = watched.sentinels.iter().filter_map(Peer::at).collect();
        assert_eq!(
            (places, &*watched.master),
            (vec![("a".into(), 1), ("b".into(), 26_379)], "main")
        );
    }
}
